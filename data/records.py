"""What a record is on disk: the one table that writes, parses and checks it.

Features and names are google-research/bert's (create_pretraining_data.py,
write_instance_to_example_files; run_pretraining.py, input_fn_builder), so its
records are read here and ours there. Files may be local or anything else
that TensorFlow opens (gs://); a name that ends in .gz means GZIP.
"""

import contextlib
import dataclasses
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from input_error import InputError

SEQUENCE_FLAG = "--max_seq_length"
PREDICTIONS_FLAG = "--max_predictions_per_seq"
UNFINISHED = ".incomplete"  # ends the name of a file that is being written


@dataclasses.dataclass(frozen=True)
class Feature:
    """One list of numbers in a record."""

    name: str
    length: int
    dtype: str = "int64"  # or "float32"
    length_flag: str = ""  # the flag that sets the length; "": always this
    limit: int | None = None  # values lie in [0, limit); None: no upper limit
    is_piece_id: bool = False  # values lie in [0, vocab_size)
    is_trimmed: bool = False  # zeros at the end are left out

    def upper_limit(self, vocab_size: int | None) -> int | None:
        """Values are below it; None: no limit."""
        return vocab_size if self.is_piece_id else self.limit


def pretraining_features(
    max_seq_length: int,
    max_predictions_per_seq: int,
    type_vocab_size: int | None = None,
) -> tuple[Feature, ...]:
    """Sentence pairs with masked pieces; 1 in next_sentence_labels: random.

    Args:
      type_vocab_size: of the model that reads them, to check segment_ids.
    """
    return (
        *_input_features(max_seq_length, type_vocab_size),
        *_prediction_features(max_seq_length, max_predictions_per_seq),
        Feature("next_sentence_labels", 1, limit=2),
    )


def packed_features(
    max_seq_length: int,
    max_predictions_per_seq: int,
    max_sequences_per_pack: int,
    type_vocab_size: int | None = None,
) -> tuple[Feature, ...]:
    """A row of several pre-training records; lengths are of the row.

    position_ids begin at 0 in each sequence; sequence_numbers are 1, 2, ... and
    0 in padding; next_sentence_positions are where each sequence begins.
    """
    sequence = max_seq_length, "int64", SEQUENCE_FLAG
    numbers = max_sequences_per_pack + 1
    return (
        Feature("input_ids", *sequence, is_piece_id=True),
        Feature("segment_ids", *sequence, limit=type_vocab_size),
        Feature("position_ids", *sequence, limit=max_seq_length),
        Feature("sequence_numbers", *sequence, limit=numbers),
        *_prediction_features(max_seq_length, max_predictions_per_seq),
        Feature(
            "next_sentence_positions",
            max_sequences_per_pack,
            limit=max_seq_length,
        ),
        Feature("next_sentence_labels", max_sequences_per_pack, limit=2),
        Feature("next_sentence_weights", max_sequences_per_pack, "float32"),
    )


def unmasked_features(max_seq_length: int) -> tuple[Feature, ...]:
    """Sentence pairs whose masks are drawn when they are read;
    segment_lengths are A's, with [CLS] and [SEP], and B's."""
    return (
        Feature(
            "input_ids",
            max_seq_length,
            length_flag=SEQUENCE_FLAG,
            is_piece_id=True,
            is_trimmed=True,
        ),
        Feature("segment_lengths", 2, limit=max_seq_length + 1),
        Feature("next_sentence_labels", 1, limit=2),
    )


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


def classifier_features(
    max_seq_length: int, label: Feature, type_vocab_size: int | None = None
) -> tuple[Feature, ...]:
    """One text or a pair, with what is to be predicted of it.

    Args:
      label: named label_ids; upstream's is one int64, the number of a class.
    """
    return (
        *_input_features(max_seq_length, type_vocab_size),
        label,
        Feature("is_real_example", 1, limit=2),
    )


def span_features(
    max_seq_length: int, has_answers: bool, type_vocab_size: int | None = None
) -> tuple[Feature, ...]:
    """A question and a window of its paragraph; positions are of pieces."""
    answers = (
        Feature("start_positions", 1, limit=max_seq_length),
        Feature("end_positions", 1, limit=max_seq_length),
        Feature("is_impossible", 1, limit=2),
    )
    return (
        Feature("unique_ids", 1),
        *_input_features(max_seq_length, type_vocab_size),
        *(answers if has_answers else ()),
    )


def _input_features(
    max_seq_length: int, type_vocab_size: int | None
) -> tuple[Feature, ...]:
    sequence = max_seq_length, "int64", SEQUENCE_FLAG
    return (
        Feature("input_ids", *sequence, is_piece_id=True),
        Feature("input_mask", *sequence, limit=2),
        Feature("segment_ids", *sequence, limit=type_vocab_size),
    )


def _prediction_features(
    max_seq_length: int, max_predictions_per_seq: int
) -> tuple[Feature, ...]:
    predictions = max_predictions_per_seq, "int64", PREDICTIONS_FLAG
    weights = max_predictions_per_seq, "float32", PREDICTIONS_FLAG
    return (
        Feature("masked_lm_positions", *predictions, limit=max_seq_length),
        Feature("masked_lm_ids", *predictions, is_piece_id=True),
        Feature("masked_lm_weights", *weights),
    )


def encode(
    features: Sequence[Feature], values: Mapping[str, Sequence[float]]
) -> bytes:
    """One record: a serialized tf.train.Example."""
    example = tf.train.Example()
    for feature in features:
        numbers = values[feature.name]
        assert len(numbers) == feature.length, feature.name
        if feature.is_trimmed:
            numbers = np.trim_zeros(np.array(numbers), "b").tolist()
        target = example.features.feature[feature.name]
        if feature.dtype == "int64":
            target.int64_list.value.extend(numbers)
        else:
            target.float_list.value.extend(numbers)
    return example.SerializeToString()


def parse_batch(
    features: Sequence[Feature], serialized: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Records [B] -> a tensor [B, length] a feature; int64 becomes int32.

    Works eagerly and inside tf.data. (TPUs have no int64.)
    """
    parsed = tf.io.parse_example(
        serialized, {feature.name: _kind(feature) for feature in features}
    )
    for feature in features:
        if feature.is_trimmed:
            values = parsed[feature.name]
            longest = tf.cast(values.bounding_shape(axis=1), tf.int32)
            with tf.control_dependencies(
                [tf.debugging.assert_less_equal(longest, feature.length)]
            ):
                shape = [None, feature.length]
                parsed[feature.name] = values.to_tensor(shape=shape)
    return {
        name: tf.cast(values, tf.int32) if values.dtype == tf.int64 else values
        for name, values in parsed.items()
    }


def _kind(feature: Feature) -> Any:
    """What TensorFlow is to expect of a feature."""
    dtype = tf.as_dtype(feature.dtype)
    if feature.is_trimmed:
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
    return tf.io.FixedLenFeature([feature.length], dtype)


def compression_type(path: str) -> str:
    """TFRecordDataset's word for what the file's name says."""
    return "GZIP" if path.endswith(".gz") else ""


class RecordWriter:
    """Deals records round-robin to files, which appear whole or not at all.

    A context manager. Each file is written under a temporary name beside its
    own, and all are renamed when the block ends without an error; until then
    older files of these names stay. Missing folders are made.

    Args:
      paths: output files, not globbed.
      flag: the flag that errors name.
    """

    def __init__(
        self, paths: Sequence[str], flag: str = "--output_file"
    ) -> None:
        self._paths = list(paths)
        self._flag = flag
        self._writers: list[tf.io.TFRecordWriter] = []
        self.num_records = 0

    def __enter__(self) -> "RecordWriter":
        for path in self._paths:
            if not path or self._paths.count(path) > 1:
                raise InputError(
                    f"{self._flag} must list different files, not {path!r} "
                    f"{'twice' if path else 'among them'}"
                )
        try:
            for path in self._paths:
                with self._naming(path):
                    self._writers.append(_open_writer(path))
        except InputError:
            self._discard()
            raise
        return self

    def write(self, record: bytes) -> None:
        turn = self.num_records % len(self._writers)
        with self._naming(self._paths[turn]):
            self._writers[turn].write(record)
        self.num_records += 1

    def __exit__(self, error_type: type | None, *_: object) -> None:
        try:
            if error_type is None:
                self._finish()
        finally:
            self._discard()

    def _finish(self) -> None:
        for path, writer in zip(self._paths, self._writers, strict=True):
            with self._naming(path):
                writer.close()
        for path in self._paths:
            with self._naming(path):
                tf.io.gfile.rename(_unfinished(path), path, overwrite=True)

    def _discard(self) -> None:
        for path, writer in zip(self._paths, self._writers, strict=False):
            with contextlib.suppress(tf.errors.OpError):
                writer.close()
            with contextlib.suppress(tf.errors.OpError):
                tf.io.gfile.remove(_unfinished(path))

    @contextlib.contextmanager
    def _naming(self, path: str) -> Iterator[None]:
        """Turns TensorFlow's errors into a sentence with the file's name."""
        try:
            yield
        except tf.errors.OpError as error:
            raise InputError(
                f"cannot write {self._flag}={path}: {error.message}"
            ) from error


def _unfinished(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{UNFINISHED}")


def _open_writer(path: str) -> tf.io.TFRecordWriter:
    if tf.io.gfile.isdir(path):
        raise tf.errors.FailedPreconditionError(None, None, "it is a folder")
    tf.io.gfile.makedirs(os.path.dirname(path) or ".")
    return tf.io.TFRecordWriter(_unfinished(path), compression_type(path))


def expand_patterns(patterns: str, flag: str = "--input_file") -> list[str]:
    """The files of a comma-separated list of names and globs: "a,b*,c".

    Theirs: each glob's files in whatever order the file system gives. Ours:
    sorted, so that a run depends on its inputs alone, and without names that
    begin with a dot.
    """
    paths = []
    for pattern in patterns.split(","):
        found = [
            path
            for path in sorted(tf.io.gfile.glob(pattern))
            # as a shell does it
            if not os.path.basename(path).startswith(".")
            or os.path.basename(pattern).startswith(".")
        ]
        if not found:
            raise InputError(f"no file matches {flag}={pattern}")
        paths += found
    return paths


def read_lines(
    path: str, progress: Callable[[int], Any] = lambda num_bytes: None
) -> Iterator[str]:
    """Lines of UTF-8 text, plain or .gz, each with its newline.

    Lines end at "\\n" only, as in Google's code.

    Args:
      progress: called with the bytes of each line (before decoding).
    """
    number = 0
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            packed = path.endswith(".gz")
            reader = gzip.GzipFile(fileobj=file) if packed else file
            for line in iter(reader.readline, b""):
                number += 1
                progress(len(line))
                yield line.replace(b"\r", b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number} is not UTF-8 text: byte "
            f"0x{error.object[error.start]:02x} at column {error.start + 1}"
        ) from error
    except tf.errors.OpError as error:
        raise InputError(f"cannot read {path}: {error.message}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"cannot read {path} after line {number}: {error}"
        ) from error


def read_records(path: str) -> Iterator[bytes]:
    """The file's records, plain or .gz; errors count records from 1."""
    number = 1
    try:
        for record in tf.data.TFRecordDataset(
            path, compression_type(path)
        ).as_numpy_iterator():
            yield record
            number += 1
    except tf.errors.DataLossError as error:
        raise InputError(
            f"{path}, record {number} cannot be read: the file is truncated, "
            "damaged or no TFRecord file"
        ) from error
    except tf.errors.OpError as error:
        raise InputError(f"cannot read {path}: {_reason(error)}") from error


def _reason(error: tf.errors.OpError) -> str:
    """The part of TensorFlow's message that speaks to a person."""
    message = error.message.split("}} ")[-1]
    return message.split(" [Op:")[0]


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
