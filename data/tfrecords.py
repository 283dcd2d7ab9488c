"""Records to bytes and files, and back.

They are google-research/bert's tf.train.Examples, so its records are read here
and ours there. Files may be local or anything else that TensorFlow opens
(gs://); a name that ends in .gz means GZIP.

Shapes: R records, L numbers in a feature, W bytes.
"""

import contextlib
import dataclasses
import functools
import gzip
import itertools
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import tensorflow as tf

from bert_keras import files
from bert_keras.data.record_schema import Feature
from bert_keras.errors import InputError

# Numbers of fields in protocol buffers.
INT64_LIST, FLOAT_LIST = 3, 2  # of tf.train.Feature
FIRST, SECOND = 1, 2  # of the messages around it
CHECKSUM_DELTA = 0xA282EAD8
HEAD_BYTES, TAIL_BYTES = 12, 4  # of what a file puts around a record
MAX_RECORD_BYTES = 1 << 28
ALWAYS = np.array([[True]])  # bytes that each record has


def encode(
    features: Sequence[Feature], values: Mapping[str, Sequence[float]]
) -> bytes:
    """One record: a serialized tf.train.Example, the same in each process."""
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
    return example.SerializeToString(deterministic=True)


class _Message(NamedTuple):
    """A part of each record, laid out side by side."""

    size: np.ndarray  # [R], bytes of each
    # Bytes [R or 1, W], wide enough for any record, and which it really has.
    columns: Sequence[tuple[np.ndarray, np.ndarray]]


def encode_batch(
    features: Sequence[Feature], values: Mapping[str, np.ndarray]
) -> list[bytes]:
    """[R, L] of each feature -> R serialized records, as `encode` makes them.

    Protocol buffers' wire format: a message is a row of fields, each a tag, a
    length and that many bytes; an int64 list is varints, seven bits a byte,
    lowest first, the high bit saying that more follow.
    """
    entries = []
    for feature in features:
        numbers = values[feature.name]
        assert numbers.shape[1] == feature.length, feature.name
        if feature.dtype == "int64":
            data, is_used = _varints(numbers)
            if feature.is_trimmed:  # up to the last that is not zero
                has_more = np.cumsum(numbers[:, ::-1] != 0, axis=1)[:, ::-1] > 0
                width = data.shape[1] // feature.length
                is_used = is_used & np.repeat(has_more, width, axis=1)
        else:
            data = np.ascontiguousarray(numbers, "<f4").view(np.uint8)
            is_used = np.broadcast_to(True, data.shape)
        size = is_used.sum(-1)
        name = np.frombuffer(feature.name.encode(), np.uint8)[None]
        kind = INT64_LIST if feature.dtype == "int64" else FLOAT_LIST
        packed = _field(kind, _field(FIRST, _Message(size, [(data, is_used)])))
        key = _Message(np.full_like(size, name.size), [(name, ALWAYS)])
        entries.append(
            _field(FIRST, _field(FIRST, key), _field(SECOND, packed))
        )
    size, columns = _field(FIRST, *entries)
    width = sum(data.shape[1] for data, _ in columns)
    joined = np.empty((len(size), width), np.uint8)
    is_joined = np.empty((len(size), width), bool)
    start = 0
    for data, is_used in columns:
        end = start + data.shape[1]
        joined[:, start:end], is_joined[:, start:end] = data, is_used
        start = end
    # faster than joined[is_joined]
    content = np.compress(is_joined.ravel(), joined.ravel()).tobytes()
    ends = np.cumsum(size).tolist()
    return [content[i:j] for i, j in itertools.pairwise([0, *ends])]


def _field(number: int, *parts: _Message) -> _Message:
    """A message's field: its tag, the size of what is in it, and that."""
    size: Any = sum(part.size for part in parts)
    tag = np.array([[number << 3 | 2]], np.uint8)  # 2: a length follows
    digits, is_digit = _varints(size[:, None])
    columns = [(tag, ALWAYS), (digits, is_digit)]
    for part in parts:
        columns += part.columns
    return _Message(1 + is_digit.sum(-1) + size, columns)


def _varints(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers [R, L] below 2 ** 31 as bytes, and which are used, [R, W].

    300 is 0b10_0101100: the bytes 10101100 and 00000010.
    """
    width = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    if width == 1:
        return values.astype(np.uint8), np.broadcast_to(True, values.shape)
    rest = values.astype(np.uint32)
    data = np.empty((*values.shape, width), np.uint8)
    is_used = np.empty(data.shape, bool)
    is_used[:, :, 0] = True
    for byte in range(width - 1):
        has_more = is_used[:, :, byte + 1] = rest >= 1 << 7
        data[:, :, byte] = (rest & 0x7F) | (has_more.view(np.uint8) << 7)
        rest >>= 7
    data[:, :, -1] = rest
    return data.reshape(len(values), -1), is_used.reshape(len(values), -1)


def parse_batch(
    features: Sequence[Feature], serialized: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Records [R] -> a tensor [R, L] a feature; int64 becomes int32.

    Works eagerly and inside tf.data. (TPUs have no int64.)
    """
    kinds: dict[str, Any] = {}
    for feature in features:
        dtype = tf.as_dtype(feature.dtype)
        kinds[feature.name] = (
            tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
            if feature.is_trimmed
            else tf.io.FixedLenFeature([feature.length], dtype)
        )
    try:
        parsed = tf.io.parse_example(serialized, kinds)
    except UnicodeDecodeError as error:  # of bytes that TensorFlow's own
        # message quotes; in a graph it is the caller's
        raise tf.errors.InvalidArgumentError(
            None, None, "this is not a tf.train.Example"
        ) from error
    for feature in features:
        values = parsed[feature.name]
        if feature.is_trimmed:
            longest = tf.cast(values.bounding_shape(axis=1), tf.int32)
            with tf.control_dependencies(
                [tf.debugging.assert_less_equal(longest, feature.length)]
            ):
                values = values.to_tensor(shape=[None, feature.length])
        if values.dtype == tf.int64:
            # What is too large becomes the largest, not any small number.
            values = tf.clip_by_value(values, tf.int32.min, tf.int32.max)
            values = tf.cast(values, tf.int32)
        parsed[feature.name] = values
    return dict(parsed)


def frame(records: Sequence[bytes]) -> bytes:
    """As a TFRecord file has them: each between its length and a checksum.

    Upstream file: tensorflow/core/lib/io/record_writer.h.
    """
    sums = np.fromiter(map(google_crc32c.value, records), np.uint64)
    tails = _mask(sums).astype("<u4").view("V4").tolist()
    heads = map(_head, map(len, records))
    framed = zip(heads, records, tails, strict=True)
    return b"".join(itertools.chain.from_iterable(framed))


@functools.lru_cache(1 << 16)
def _head(length: int) -> bytes:
    """The length, and its own checksum."""
    number = struct.pack("<Q", length)
    return number + _tail(number)


def _tail(data: bytes) -> bytes:
    return struct.pack("<I", _mask(google_crc32c.value(data)))


def _mask(checksum: Any) -> Any:
    """As TFRecord has it: turned by 15 bits, plus a number. An int, or uint64
    of any shape."""
    turned = (checksum >> 15) | (checksum << 17)
    return (turned + CHECKSUM_DELTA) & 0xFFFFFFFF


def check_different(paths: Sequence[str], argument: str) -> None:
    """Raises an InputError where a path is empty, or two are of one file."""
    seen: dict[str, str] = {}  # as they were given
    for path in paths:
        real = path if "://" in path else os.path.realpath(path)
        if not path or real in seen:
            same = seen.get(real) if path else None
            other = f" as {same!r}" if same not in (None, path) else ""
            raise InputError(
                f"`{argument}` must list different files, not {path!r} "
                f"{f'twice{other}' if path else 'among them'}"
            )
        seen[real] = path


class RecordWriter:
    """Deals records round-robin to files, which appear whole or not at all.

    A context manager: the files get their names when the block ends without an
    error; until then older files of these names stay. Missing folders are made.
    Errors name the files by `argument`.
    """

    def __init__(
        self, paths: Sequence[str], argument: str = "output_file"
    ) -> None:
        self._paths = list(paths)
        self._argument = argument
        self._writers: list[tf.io.TFRecordWriter] = []
        self.num_records = 0

    def __enter__(self) -> "RecordWriter":
        check_different(self._paths, self._argument)
        with contextlib.ExitStack() as stack:
            unfinished = []
            for path in self._paths:
                with self._naming(path):
                    if files.is_dir(path) or files.is_written_through(path):
                        raise tf.errors.FailedPreconditionError(
                            None, None, "it is a folder, a device or a pipe"
                        )
                    tf.io.gfile.makedirs(os.path.dirname(path) or ".")
                    target = files.behind_links(path, self._argument)
                    new = files.atomic(target, overwrite=True)
                    unfinished.append(stack.enter_context(new))
            # The stack ends what began last: all files are closed before the
            # first one gets its name.
            for path, name in zip(self._paths, unfinished, strict=True):
                with self._naming(path):
                    kind = "GZIP" if path.endswith(".gz") else ""
                    writer = tf.io.TFRecordWriter(name, kind)
                self._writers.append(stack.enter_context(writer))
            self._files = stack.pop_all()
        return self

    def write(self, record: bytes) -> None:
        turn = self.num_records % len(self._writers)
        with self._naming(self._paths[turn]):
            self._writers[turn].write(record)
        self.num_records += 1

    def __exit__(self, *error: Any) -> None:
        with self._naming(",".join(self._paths)):
            self._files.__exit__(*error)

    @contextlib.contextmanager
    def _naming(self, path: str) -> Iterator[None]:
        """Turns TensorFlow's errors into a sentence with the file's name."""
        try:
            yield
        except tf.errors.OpError as error:
            raise InputError(
                f"cannot write `{self._argument}={path}`: {error.message}"
            ) from error


class DamagedRecord(InputError):
    """Bytes of a file that are not a record, or only the beginning of one."""

    def __init__(self, sentence: str, can_go_on: bool = False):
        super().__init__(sentence)
        self.can_go_on = can_go_on  # whether the next record can be read


# What reading a damaged file, or none, ends in
READ_ERRORS = tf.errors.OpError, gzip.BadGzipFile, EOFError, zlib.error


@dataclasses.dataclass(eq=False)
class RecordReader:
    """Iterates over a file's records, plain or .gz."""

    path: str
    offset: int = 0  # of the next record, in unpacked bytes
    num_read: int = 0  # records before it

    def __post_init__(self) -> None:
        self._file: Any = tf.io.gfile.GFile(self.path, "rb")
        if self.path.endswith(".gz"):
            self._file = gzip.GzipFile(fileobj=self._file)
        try:
            self._file.seek(self.offset)
        except READ_ERRORS as error:
            raise self._named(error) from error

    def __iter__(self) -> "RecordReader":
        return self

    def __next__(self) -> bytes:
        """Gives the next record.

        Raises:
            DamagedRecord: it is not as it was written, or longer than
                MAX_RECORD_BYTES.
            InputError: the file cannot be read.
        """
        record = tail = b""
        try:
            head = self._file.read(HEAD_BYTES)
            length = int.from_bytes(head[:8], "little")
            # TensorFlow's own reader believes any length that has a right
            # checksum, and one of 2 ** 40 ends the process (2.21, SIGSEGV).
            if head == _head(length) and length <= MAX_RECORD_BYTES:
                record = self._file.read(length)
                tail = self._file.read(TAIL_BYTES)
        except READ_ERRORS as error:
            raise self._named(error) from error
        if not head:
            raise StopIteration
        if len(tail) < TAIL_BYTES:
            raise self._named()
        self.num_read += 1
        if tail != _tail(record):
            raise DamagedRecord(
                f"{self.path}, record {self.num_read} cannot be read: it is "
                "damaged",
                can_go_on=True,
            )
        self.offset += HEAD_BYTES + len(record) + TAIL_BYTES
        return record

    def _named(self, error: Exception | None = None) -> InputError:
        if isinstance(error, tf.errors.OpError):
            return InputError(f"cannot read {self.path}: {error.message}")
        return DamagedRecord(
            f"{self.path}, record {self.num_read + 1} cannot be read, nor what "
            "follows: the file is truncated, damaged or not a TFRecord file, "
            "such as create_pretraining_data makes of text"
        )


def read_records(path: str) -> Iterator[bytes]:
    """The file's records; errors are InputErrors with the record's number."""
    return RecordReader(path)
