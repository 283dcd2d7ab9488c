"""Whether record files hold what they should, and what is wrong if not."""

import contextlib
from collections.abc import Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError

from data.record_features import (
    Feature,
    packed_features,
    pretraining_features,
    unmasked_features,
)
from data.records import read_records
from input_error import InputError


def find_pretraining_features(
    path: str,
    max_seq_length: int,
    max_predictions_per_seq: int,
    type_vocab_size: int,
) -> tuple[Feature, ...]:
    """The table of packed or unmasked records if the file's first one is such,
    else that of `pretraining_features`; whether it fits is for `check_files`
    to say."""
    lengths = max_seq_length, max_predictions_per_seq
    with contextlib.suppress(DecodeError):
        first = tf.train.Example.FromString(next(read_records(path), b""))
        found = first.features.feature
        if "segment_lengths" in found:
            return unmasked_features(max_seq_length)
        starts = found["next_sentence_positions"]
        if num_sequences := len(starts.int64_list.value):
            return packed_features(*lengths, num_sequences, type_vocab_size)
    return pretraining_features(*lengths, type_vocab_size)


def check_files(
    paths: Sequence[str],
    features: Sequence[Feature],
    vocab_size: int | None = None,
) -> None:
    """Raises an InputError unless each file's first record fits the table."""
    for path in paths:
        first = next(read_records(path), None)
        if first is None:
            raise InputError(f"{path} holds no record")
        fault = _fault(features, first, vocab_size)
        if fault:
            raise InputError(f"{path}, record 1: {fault}")


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
                fault = _fault(features, record, vocab_size)
                if fault:
                    return f"{path}, record {number}: {fault}"
    except InputError as error:
        return str(error)
    return None


def _fault(
    features: Sequence[Feature], record: bytes, vocab_size: int | None
) -> str | None:
    """What is wrong with a record, or None."""
    try:
        found = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        return "this is no tf.train.Example"
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
    return None


def _list_fault(
    feature: Feature, numbers: Sequence[float], vocab_size: int | None
) -> str | None:
    is_short = feature.is_trimmed and 0 < len(numbers) < feature.length
    if len(numbers) != feature.length and not is_short:
        remedy = (
            f"; pass {feature.length_flag}={len(numbers)}"
            if feature.length_flag and numbers
            else ""
        )
        return (
            f"{feature.name} holds {len(numbers)} numbers of type "
            f"{feature.dtype}, not {feature.length}{remedy}"
        )
    if feature.dtype != "int64":
        return None
    limit = feature.upper_limit(vocab_size)
    largest, smallest = max(numbers), min(numbers)
    if smallest < 0:
        return f"{feature.name} holds {smallest}, a negative number"
    if limit is not None and largest >= limit:
        whose = (
            "outside vocab_size of --bert_config_file"
            if feature.is_piece_id
            else "too large"
        )
        return f"{feature.name} holds {largest}, {whose} ({limit})"
    return None
