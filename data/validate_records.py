"""Whether record files hold what they should, and what is wrong if not."""

import enum
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bert_keras.data.record_schema import (
    NEXT_SENTENCE,
    Feature,
    packed_features,
    pretraining_features,
    unmasked_features,
    without_next_sentence,
)
from bert_keras.data.tfrecords import parse_batch, read_records
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError

Found = Mapping[str, tf.train.Feature]  # a record's features by their names

MASKED_LM_WEIGHTS = "masked_lm_weights"
MAX_UNMASKED = 1000  # records, from the first one on
# Of a record of pre-training: the first number is 0 if there is no text in it.
BEGINS_ROW = frozenset({"input_mask", "sequence_numbers", "segment_lengths"})
OF_PRETRAINING = frozenset({"masked_lm_positions", "segment_lengths"})


class Kind(enum.Enum):
    """Of pre-training records, in the words of errors."""

    MASKED = "records with masks"
    UNMASKED = "records without masks (`dynamic_masking`)"
    PACKED = "packed rows"


def kind_of(found: Found) -> Kind | None:
    """None: these are not pre-training records."""
    if "segment_lengths" in found:
        return Kind.UNMASKED
    if "next_sentence_positions" in found:
        return Kind.PACKED
    return Kind.MASKED if "masked_lm_positions" in found else None


def table_of(
    found: Found,
    max_seq_length: int,
    max_predictions_per_seq: int,
    type_vocab_size: int | None = None,
) -> tuple[Feature, ...]:
    """The table of records like this one: packed, unmasked, or else that of
    `pretraining_features`, each with labels of next sentences or without;
    whether it fits is for `check_files` to say."""
    lengths = max_seq_length, max_predictions_per_seq
    kind = kind_of(found)
    table = pretraining_features(*lengths, type_vocab_size)
    if kind is Kind.UNMASKED:
        table = unmasked_features(max_seq_length)
    if kind is Kind.PACKED:
        starts = found["next_sentence_positions"].int64_list.value
        table = packed_features(*lengths, len(starts) or 1, type_vocab_size)
    is_without = kind is not None and NEXT_SENTENCE not in found
    return without_next_sentence(table) if is_without else table


def read_first(path: str) -> Found:
    """The features of a file's first record.

    Raises:
      InputError: there is no record, or it is not a tf.train.Example.
    """
    first = next(read_records(path), None)
    if first is None:
        raise InputError(f"{path} holds no record")
    return decode(first, path, 1)


def check_files(
    paths: Sequence[str],
    features: Sequence[Feature],
    vocab_size: int | None = None,
) -> None:
    """Raises an InputError unless each file's first record fits the table."""
    for path in paths:
        fault = find_fault(features, read_first(path), vocab_size)
        if fault:
            kinds = name_kinds(paths)
            raise InputError(
                f"{kinds}: all files must be of one kind"
                if kinds
                else f"{path}, record 1: {fault}"
            )


def check_masks(paths: Sequence[str], features: Sequence[Feature]) -> None:
    """Raises an InputError where records are read for their masks alone and
    none of the first MAX_UNMASKED has one. A row without is all right: a short
    one may have no whole word to be masked."""
    names = {feature.name for feature in features}
    if MASKED_LM_WEIGHTS not in names or NEXT_SENTENCE in names:
        return
    records = (
        decode(record, path, number)
        for path in paths
        for number, record in enumerate(read_records(path), 1)
    )
    for found in itertools.islice(records, MAX_UNMASKED):
        if any(found[MASKED_LM_WEIGHTS].float_list.value):
            return
    raise InputError(
        f"{paths[0]}: nothing is masked in the first records (of which at most "
        f"{MAX_UNMASKED:,} are looked at), and masks are all that is trained "
        "on; make them with another `masked_lm_prob`, or without masks by "
        "`dynamic_masking`"
    )


def check_pieces(paths: Sequence[str], tokenizer: Tokenizer) -> None:
    """Raises an InputError where a file's first record was made with another
    vocabulary: it begins with no [CLS], or has a piece that is not there."""
    vocab, start = tokenizer.vocab, tokenizer.special_tokens.start
    for path in paths:
        ids = read_first(path)["input_ids"].int64_list.value
        fault = None
        if ids[0] != vocab[start]:
            fault = f"begins with piece {ids[0]}, not {vocab[start]} ({start})"
        elif max(ids) > max(vocab.values()):
            fault = (
                f"has piece {max(ids)}, the last being {max(vocab.values())}"
            )
        if fault:
            raise InputError(
                f"{path}, record 1 {fault}: it was made with another "
                "vocabulary than that of `vocab_file` or `init_checkpoint`"
            )


def name_kinds(paths: Sequence[str]) -> str | None:
    """A file of each kind and what it holds; None: there is but one."""
    examples: dict[str, str] = {}
    for path in paths:
        found = read_first(path)
        if kind := kind_of(found):
            without = " that have no next_sentence_labels"
            is_without = NEXT_SENTENCE not in found
            examples.setdefault(kind.value + without * is_without, path)
    named = [f"{path} holds {kind}" for kind, path in examples.items()]
    return " and ".join(named) if len(named) > 1 else None


def find_damage(
    paths: Sequence[str],
    features: Sequence[Feature],
    vocab_size: int | None = None,
) -> str | None:
    """A sentence about the first record that cannot be used; None if all can.

    Reads everything: for afterwards, when training has failed on its input.
    """
    try:
        for path in paths:
            for number, record in enumerate(read_records(path), 1):
                found = decode(record, path, number)
                fault = find_fault(features, found, vocab_size)
                if fault:
                    return f"{path}, record {number}: {fault}"
    except InputError as error:
        return str(error)
    return None


def parse_records(
    features: Sequence[Feature], records: list[bytes], paths: Sequence[str]
) -> dict[str, np.ndarray]:
    """Records [R] as an array [R, length] a feature.

    Args:
      paths: the files that they were read from.

    Raises:
      InputError: names the first record of these files that does not fit.
    """
    try:
        parsed = parse_batch(features, tf.constant(records))
    except tf.errors.OpError as error:
        damage = find_damage(paths, features)
        raise InputError(
            damage or f"{', '.join(paths)}: {error.message}"
        ) from error
    return {name: values.numpy() for name, values in parsed.items()}


def decode(record: bytes, path: str, number: int) -> Found:
    """The record's features; an InputError if it is not a tf.train.Example."""
    try:
        return tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
        raise InputError(
            f"{path}, record {number}: this is not a tf.train.Example"
        ) from error


def find_fault(
    features: Sequence[Feature], found: Found, vocab_size: int | None
) -> str | None:
    """What is wrong with a record, or None."""
    missing = [f.name for f in features if f.name not in found]
    if missing:
        is_packed = "sequence_numbers" in (f.name for f in features)
        writer = "pack_records" if is_packed else "create_pretraining_data"
        return (
            f"it has no {', '.join(missing)} (only "
            f"{', '.join(sorted(found)) or 'nothing'}); was it written by "
            f"{writer}.py?"
        )
    for feature in features:
        values = found[feature.name]
        numbers = (
            values.int64_list.value
            if feature.dtype == "int64"
            else values.float_list.value
        )
        fault = _list_fault(feature, numbers, vocab_size)
        if fault:
            return fault
    names = {feature.name for feature in features}
    for name in BEGINS_ROW & names if OF_PRETRAINING & names else ():
        if not found[name].int64_list.value[0]:
            return f"{name} begins with 0: the row is empty"
    return None


def _list_fault(
    feature: Feature, numbers: Sequence[float], vocab_size: int | None
) -> str | None:
    is_short = feature.is_trimmed and 0 < len(numbers) < feature.length
    if len(numbers) != feature.length and not is_short:
        remedy = (
            f"; pass `{feature.length_argument}={len(numbers)}`"
            f"{' or more' * feature.is_trimmed}"
            if feature.length_argument and numbers
            else ""
        )
        return (
            f"{feature.name} holds {len(numbers)} numbers of type "
            f"{feature.dtype}, not {feature.length}{remedy}"
        )
    if feature.dtype != "int64":
        strange = [x for x in numbers if not math.isfinite(x)]
        return f"{feature.name} holds {strange[0]}" if strange else None
    limit = feature.upper_limit(vocab_size)
    largest, smallest = max(numbers), min(numbers)
    if smallest < 0:
        return f"{feature.name} holds {smallest}, a negative number"
    if limit is not None and largest >= limit:
        whose = (
            "outside vocab_size of `bert_config_file`"
            if feature.is_piece_id
            else "too large"
        )
        return f"{feature.name} holds {largest}, {whose} ({limit})"
    return None
