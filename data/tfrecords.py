"""Records to bytes and files, and back.

They are google-research/bert's tf.train.Examples, so its records are read here
and ours there. Files may be local or anything else that TensorFlow opens
(gs://); a name that ends in .gz means GZIP.
"""

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.data import tfrecord_codec
from bert_keras.data.record_schema import Feature
from bert_keras.errors import InputError

UNFINISHED = ".incomplete"  # ends the name of a file that is being written


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
    try:
        parsed = tf.io.parse_example(
            serialized, {feature.name: _kind(feature) for feature in features}
        )
    except UnicodeDecodeError as error:  # of bytes that TensorFlow's own
        # message quotes; in a graph it is the caller's
        raise tf.errors.InvalidArgumentError(
            None, None, "this is not a tf.train.Example"
        ) from error
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
        name: _narrowed(values) if values.dtype == tf.int64 else values
        for name, values in parsed.items()
    }


def _narrowed(values: tf.Tensor) -> tf.Tensor:
    """int32; what is too large becomes the largest, not any small number."""
    limits = tf.int32.min, tf.int32.max
    return tf.cast(tf.clip_by_value(values, *limits), tf.int32)


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
      argument: the argument that errors name.
    """

    def __init__(
        self, paths: Sequence[str], argument: str = "output_file"
    ) -> None:
        self._paths = list(paths)
        self._argument = argument
        self._writers: list[tf.io.TFRecordWriter] = []
        self.num_records = 0

    def __enter__(self) -> "RecordWriter":
        for path in self._paths:
            if not path or self._paths.count(path) > 1:
                raise InputError(
                    f"`{self._argument}` must list different files, not "
                    f"{path!r} {'twice' if path else 'among them'}"
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
                f"cannot write `{self._argument}={path}`: {error.message}"
            ) from error


def _unfinished(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}{UNFINISHED}")


def _open_writer(path: str) -> tf.io.TFRecordWriter:
    if tf.io.gfile.isdir(path):
        raise tf.errors.FailedPreconditionError(None, None, "it is a folder")
    tf.io.gfile.makedirs(os.path.dirname(path) or ".")
    return tf.io.TFRecordWriter(_unfinished(path), compression_type(path))


# What reading a damaged file, or none, ends in
READ_ERRORS = (
    tf.errors.OpError,
    tfrecord_codec.FrameError,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
)


class RecordReader:
    """Iterates over a file's records, plain or .gz.

    Args:
        offset: bytes of the unpacked file to go on from, ...
        num_read: ... the records before them.
    """

    def __init__(self, path: str, offset: int = 0, num_read: int = 0):
        self.path = path
        self.offset = offset
        self.num_read = num_read
        self._file: Any = tf.io.gfile.GFile(path, "rb")
        if path.endswith(".gz"):
            self._file = gzip.GzipFile(fileobj=self._file)
        try:
            self._file.seek(offset)
        except READ_ERRORS as error:
            raise self._named(error) from error

    def __iter__(self) -> "RecordReader":
        return self

    def __next__(self) -> bytes:
        """Raises an InputError if it cannot be read."""
        try:
            record = tfrecord_codec.read_frame(self._file.read)
        except READ_ERRORS as error:
            raise self._named(error) from error
        if record is None:
            raise StopIteration
        self.offset += (
            tfrecord_codec.HEAD_BYTES + len(record) + tfrecord_codec.TAIL_BYTES
        )
        self.num_read += 1
        return record

    def _named(self, error: Exception) -> InputError:
        """A sentence that counts records from 1."""
        if isinstance(error, tf.errors.OpError):
            return InputError(f"cannot read {self.path}: {error.message}")
        return InputError(
            f"{self.path}, record {self.num_read + 1} cannot be read: the file "
            "is truncated, damaged or no TFRecord file"
        )


def read_records(path: str) -> Iterator[bytes]:
    """The file's records; errors are InputErrors with the record's number."""
    return RecordReader(path)
