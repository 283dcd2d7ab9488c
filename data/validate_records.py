"""Whether record files hold what they should, and what is wrong if not; copies
of damaged files without the records that cannot be used.
"""

import enum
import glob
import itertools
import math
import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from bert_keras import files
from bert_keras.data import work_folder
from bert_keras.data.record_schema import (
    NEXT_SENTENCE,
    Feature,
    packed_features,
    pretraining_features,
    unmasked_features,
    without_next_sentence,
)
from bert_keras.data.tfrecords import (
    DamagedRecord,
    RecordReader,
    RecordWriter,
    parse_batch,
    read_records,
)
from bert_keras.data.tokenizers import Tokenizer, TokenizerSettings
from bert_keras.errors import InputError, with_flags

Found = Mapping[str, tf.train.Feature]  # a record's features by their names

MASKED_LM_WEIGHTS = "masked_lm_weights"
MAX_UNMASKED = 1000  # records, from the first one on
# Of a record of pre-training: the first number is 0 if there is no text in it.
BEGINS_ROW = frozenset({"input_mask", "sequence_numbers", "segment_lengths"})
OF_PRETRAINING = frozenset({"masked_lm_positions", "segment_lengths"})
REPORT = "left_out.json"  # by file: its copy, and what is not in it
MAX_NAMED = 10  # records of a file


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


def read_first_known(paths: Sequence[str]) -> Found:
    """The features of the first record that is one of pre-training; damaged
    ones are passed over.

    Raises:
      InputError: there is none.
    """
    for path in paths:
        for record, fault in examine(path, ()):
            if fault is None and kind_of(found := decode(record, path, 0)):
                return found
    raise InputError(f"{', '.join(paths)}: no record of pre-training in them")


def check_files(
    paths: Sequence[str],
    features: Sequence[Feature],
    vocab_size: int | None = None,
) -> None:
    """Raises an InputError unless each file's first record fits the table."""
    for path in paths:
        fault = find_fault(features, read_first(path), vocab_size)
        if fault:
            check_one_kind(paths)
            raise InputError(f"{path}, record 1: {fault}")


def check_one_kind(paths: Sequence[str]) -> None:
    """Raises an InputError if the files' first records are of several
    kinds."""
    if kinds := name_kinds(paths):
        raise InputError(f"{kinds}: all files must be of one kind")


def check_labels(
    paths: Sequence[str], features: Sequence[Feature], skips: bool
) -> None:
    """Raises an InputError if some files have labels of next sentences and
    others have none. `check_files` overlooks labels that the table does not
    name.

    Args:
        skips: whether damaged records are passed over.
    """
    names = {feature.name for feature in features}
    if NEXT_SENTENCE in names and not skips:
        return  # a file without them does not fit, as `check_files` says
    if kinds := name_kinds(paths, skips):
        raise InputError(
            f"{kinds}: all files must be of one kind (if only labels differ, "
            "`next_sentence_prediction=False` trains on all of them)"
        )


def masks_alone(features: Sequence[Feature]) -> bool:
    """Whether records with such features are read for their masks alone."""
    names = {feature.name for feature in features}
    return MASKED_LM_WEIGHTS in names and NEXT_SENTENCE not in names


def check_masks(paths: Sequence[str], features: Sequence[Feature]) -> None:
    """Raises an InputError where masks are all that is trained on and none of
    the first MAX_UNMASKED records has one. A row without is all right: a short
    one may have no whole word to be masked."""
    if not masks_alone(features):
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


def check_first_records(paths: Sequence[str], tokenizer: Tokenizer) -> None:
    """Raises an InputError where a file's first record was made with another
    vocabulary: it begins with no [CLS], or has a token that is not there."""
    vocab, start = tokenizer.vocab, tokenizer.special_tokens.start
    for path in paths:
        ids = read_first(path)["input_ids"].int64_list.value
        fault = None
        if ids[0] != vocab[start]:
            fault = f"begins with token {ids[0]}, not {vocab[start]} ({start})"
        elif max(ids) > max(vocab.values()):
            fault = (
                f"has token {max(ids)}, the last being {max(vocab.values())}"
            )
        if fault:
            raise InputError(
                f"{path}, record 1 {fault}: it was made with another "
                "vocabulary than that of `vocab_file` or `init_checkpoint`"
            )


def check_vocabulary(
    paths: Sequence[str],
    vocabularies: Iterable[str],
    tokenizer: TokenizerSettings | None = None,
) -> None:
    """Raises an InputError for records that create_pretraining_data has made
    with another vocabulary, or another case or accents, as the folder that it
    leaves beside them says. Records of `sampler=google`, and copies without
    that folder, pass.

    Args:
        vocabularies: files, one of which it should have been.
        tokenizer: that the model will read texts with; None: of bytes, which
            keep case and accents.
    """
    digests = {*map(work_folder.digest_of_files, vocabularies)}
    for folder in {os.path.dirname(x) for x in paths if "://" not in x}:
        made = os.path.join(glob.escape(folder), ".*.making", work_folder.DONE)
        for done in glob.glob(made):
            place = os.path.dirname(done)
            settings = files.read_json(
                os.path.join(place, work_folder.SETTINGS)
            )
            is_alike = settings.get("vocab_file") in digests
            differs = is_alike and _other_case(settings, tokenizer)
            if is_alike and not differs:
                continue
            for output, identity in files.read_json(done).items():
                path = os.path.join(folder, os.path.basename(output))
                if path not in paths or files.fingerprint(path) != identity:
                    continue
                if differs:
                    raise InputError(
                        f"{path} was made with {differs} (or, to go on all the "
                        f"same, delete {place})"
                    )
                raise InputError(
                    f"{path} was made with another vocabulary than that of "
                    "`vocab_file` or `init_checkpoint`; make it again with "
                    f"this one (or, if they are alike, delete {place})"
                )


def _other_case(
    settings: Mapping[str, Any], tokenizer: TokenizerSettings | None
) -> str:
    """In what records were made otherwise than a model will read texts: the
    rest of a sentence, or nothing."""
    then = settings.get("tokenizer")
    if not tokenizer or not then:  # earlier versions stored none
        return ""
    now = tokenizer.to_json()
    for name in ("do_lower_case", "strip_accents"):
        # None: as do_lower_case
        was, is_ = (
            x["do_lower_case"] if x[name] is None else x[name]
            for x in (then, now)
        )
        if was != is_:
            return (
                f"`{name}={was}`, and the model would read texts with "
                f"`{name}={is_}`; give `{name}={was}`, or make the records "
                f"again with `{name}={is_}`"
            )
    return ""


def name_kinds(paths: Sequence[str], skips: bool = False) -> str | None:
    """A file of each kind and what it holds; None: there is but one.

    Args:
        skips: whether damaged records are passed over.
    """
    examples: dict[str, str] = {}
    for path in paths:
        try:
            found = read_first_known([path]) if skips else read_first(path)
        except InputError:
            if skips:
                continue
            raise
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
    records = (examine(path, features, vocab_size) for path in paths)
    faults = (fault for _, fault in itertools.chain.from_iterable(records))
    return next(filter(None, faults), None)


def examine(
    path: str, features: Sequence[Feature], vocab_size: int | None = None
) -> Iterator[tuple[bytes, str | None]]:
    """Yields each record of a file and a sentence about why it cannot be used,
    None if it can; ends where it is not known where the next one begins.

    Raises:
      InputError: the file is not there, or its file system fails.
    """
    reader = RecordReader(path)
    for number in itertools.count(1):
        try:
            record = next(reader, None)
        except DamagedRecord as error:
            yield b"", str(error)
            if error.can_go_on:
                continue
            return
        if record is None:
            return
        try:
            fault = find_fault(
                features, decode(record, path, number), vocab_size
            )
        except InputError as error:
            yield record, str(error)
        else:
            yield record, fault and f"{path}, record {number}: {fault}"


def parse_records(
    features: Sequence[Feature], records: list[bytes], paths: Sequence[str]
) -> dict[str, np.ndarray]:
    """Records [R] as an array [R, length] a feature.

    Raises:
      InputError: names the first record of `paths`, from which they were read,
        that does not fit.
    """
    try:
        parsed = parse_batch(features, tf.constant(records))
    except tf.errors.OpError as error:
        damage = find_damage(paths, features)
        raise InputError(
            damage or f"{', '.join(paths)}: {error.message}"
        ) from error
    return {name: values.numpy() for name, values in parsed.items()}


def check_numbers(
    features: Sequence[Feature],
    parsed: Mapping[str, np.ndarray],
    paths: Sequence[str],
) -> None:
    """Looks at what `parse_records` gave for what `find_fault` finds in a
    record, without a vocabulary.

    Raises:
      InputError: names the first record of `paths` that cannot be used.
    """
    is_sound = True
    for feature in features:
        values, (least, most) = parsed[feature.name], feature.bounds(None)
        is_sound &= bool(values.min() >= least and values.max() <= most)
    for name in BEGINS_ROW & parsed.keys():
        if OF_PRETRAINING & parsed.keys():
            is_sound &= bool(parsed[name][:, 0].all())
    if not is_sound and (damage := find_damage(paths, features)):
        raise InputError(damage)


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
        name, of_type = feature.name, f"numbers of type {feature.dtype}"
        is_whole = feature.dtype == "int64"
        kind = "int64_list" if is_whole else "float_list"
        numbers = getattr(found[name], kind).value
        is_short = feature.is_trimmed and 0 < len(numbers) < feature.length
        if len(numbers) != feature.length and not is_short:
            fault = (
                f"{name} holds {len(numbers)} {of_type}, not {feature.length}"
            )
            if not feature.length_argument or not numbers:
                return fault
            return (
                f"{fault}; pass `{feature.length_argument}={len(numbers)}`"
                f"{' or more' * feature.is_trimmed}"
            )
        if not is_whole:
            for x in numbers:
                if not math.isfinite(x):
                    return f"{name} holds {x}"
                if feature.is_weight and not 0 <= x <= 1:
                    return f"{name} holds {x}, expected a weight from 0 to 1"
            continue
        limit = feature.upper_limit(vocab_size)
        largest, smallest = max(numbers), min(numbers)
        if smallest < 0:
            return f"{name} holds {smallest}, a negative number"
        if limit is not None and largest >= limit:
            if not feature.is_piece_id:
                return f"{name} holds {largest}, too large ({limit})"
            return (
                f"{name} holds {largest}, outside vocab_size of the model "
                f"({limit}): it has another vocabulary than the records"
            )
    names = {feature.name for feature in features}
    for name in BEGINS_ROW & names if OF_PRETRAINING & names else ():
        if not found[name].int64_list.value[0]:
            return f"{name} begins with 0: the row is empty"
    return None


class CleanRecords:
    """Of files, those that have these features.

    A damaged file is copied to `folder` without what cannot be used, once,
    before the first step; so the order of the records stays a function of files
    and seed, and a run that goes on has nothing to look for again.
    """

    def __init__(
        self, features: Sequence[Feature], vocab_size: int, folder: str
    ):
        self.features = features
        self.vocab_size = vocab_size
        self.folder = folder
        kind = repr((tuple(features), vocab_size))
        self.kind = zlib.crc32(kind.encode())  # that the report is of

    def are_made(self, paths: Sequence[str]) -> bool:
        """Whether `make` has nothing to do."""
        return not self._unknown(paths, self._read_report())

    def make(self, paths: Sequence[str]) -> None:
        """Reads everything, and copies what is damaged; says what was left
        out. Does nothing where it has been done for these files."""
        report = self._read_report()
        unknown = self._unknown(paths, report)
        for path in unknown:
            records = examine(path, self.features, self.vocab_size)
            faults = [fault for _, fault in records if fault]
            report[path] = {
                "copy": None,
                "count": len(faults),
                **self._identity(path),
            }
            if not faults:
                continue
            for sentence in faults[:MAX_NAMED]:
                print(with_flags(f"left out: {sentence}"), file=sys.stderr)
            number = zlib.crc32(path.encode(), self.kind)
            copy = f"{number:08x}-{os.path.basename(path)}"
            with RecordWriter(
                [os.path.join(self.folder, copy)], "output_dir"
            ) as writer:
                for record, fault in examine(
                    path, self.features, self.vocab_size
                ):
                    if fault is None:
                        writer.write(record)
            report[path]["copy"] = copy if writer.num_records else ""
            report[path]["first"] = faults[:99]
        if unknown:
            path = os.path.join(self.folder, REPORT)
            with files.writing(path, "output_dir") as file:
                file.write(files.to_json(report, indent=2).encode() + b"\n")

    def files(self, paths: Sequence[str]) -> list[str]:
        """What to read instead of `paths`, after `make`.

        Raises:
          InputError: none of their records can be used.
        """
        report = self._read_report()
        counts = [report[path]["count"] for path in paths]
        if any(counts):
            print(
                f"{sum(counts)} records in {sum(map(bool, counts))} files "
                "cannot be used and are left out (a file that ends too early "
                f"counts as one): {os.path.join(self.folder, REPORT)}"
            )
        found = []
        for path in paths:
            copy = report[path]["copy"]
            if copy != "":
                found.append(os.path.join(self.folder, copy) if copy else path)
        if not found:
            raise InputError(
                f"{', '.join(paths)}: no record in them can be used"
            )
        return found

    def _identity(self, path: str) -> dict[str, Any]:
        """What the file is now, and what was looked for in it."""
        return {
            "contents": files.fingerprint(path),  # of its ends
            "changed": tf.io.gfile.stat(path).mtime_nsec,
            "kind": self.kind,
        }

    def _unknown(
        self, paths: Sequence[str], report: Mapping[str, Any]
    ) -> list[str]:
        """The files that the report does not tell of as they are now, or whose
        copy is gone."""
        unknown = []
        for path in paths:
            found = report.get(path, {})
            copy = found.get("copy")
            is_gone = copy and not tf.io.gfile.exists(
                os.path.join(self.folder, copy)
            )
            if is_gone or not self._identity(path).items() <= found.items():
                unknown.append(path)
        return unknown

    def _read_report(self) -> dict[str, Any]:
        path = os.path.join(self.folder, REPORT)
        if not tf.io.gfile.exists(path):
            return {}
        return files.read_json(
            path,
            "it says what was left out of damaged files; remove "
            f"{self.folder}, and it is made anew",
        )
