"""Many records at once, as the bytes of tf.train.Example, by NumPy; and the
bytes that a TFRecord file puts around each.

Protocol buffers' wire format: a message is a row of fields, each a tag, a
length and that many bytes; an int64 list is varints, seven bits a byte, lowest
first, the high bit saying that more follow. All records of a block are laid out
side by side, each in a row of bytes wide enough for any, with a mask of the
bytes that it really has.

Shapes: R records, L numbers in a feature, W bytes.
"""

import functools
import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np

from bert_keras.data.record_schema import Feature

INT64_LIST, FLOAT_LIST = 3, 2  # fields of tf.train.Feature
FIRST, SECOND = 1, 2  # fields of the messages around it
CHECKSUM_DELTA = 0xA282EAD8
HEAD_BYTES, TAIL_BYTES = 12, 4  # of what a file puts around a record
MAX_RECORD_BYTES = 1 << 28


class FrameError(Exception):
    """What lies in a file is not a record, or only the beginning of one."""


class ChecksumError(FrameError):
    """Of one record alone: the next one can be read."""


def encode_batch(
    features: Sequence[Feature], values: Mapping[str, np.ndarray]
) -> list[bytes]:
    """[R, L] of each feature -> R serialized records, as `records.encode`."""
    entries = [_Entry(feature, values[feature.name]) for feature in features]
    size = np.sum([_field_size(entry.size) for entry in entries], axis=0)
    table = _Table(len(size))
    table.begin(FIRST, size)
    for entry in entries:
        entry.write(table)
    data, is_used = table.join()
    # faster than data[is_used]
    packed = np.compress(is_used.ravel(), data.ravel()).tobytes()
    ends = np.cumsum(_field_size(size)).tolist()
    return [
        packed[start:end] for start, end in zip([0, *ends], ends, strict=False)
    ]


def frame(records: Sequence[bytes]) -> bytes:
    """As a TFRecord file has them: each between its length and a checksum.

    Upstream file: tensorflow/core/lib/io/record_writer.h.
    """
    sums = np.fromiter(map(google_crc32c.value, records), np.uint64)
    tails = _mask(sums).astype("<u4").view("V4").tolist()
    heads = map(_head, map(len, records))
    framed = zip(heads, records, tails, strict=True)
    return b"".join(itertools.chain.from_iterable(framed))


def read_frame(read: Callable[[int], bytes]) -> bytes | None:
    """The next record that `frame` put into a file; None at its end.

    TensorFlow's own reader believes any length that has a right checksum, and
    one of 2 ** 40 ends the process (2.21, SIGSEGV): here it is an error.

    Args:
      read: of the file; returns as many bytes as asked for, fewer at its end.

    Raises:
      ChecksumError: bytes of this record are wrong.
      FrameError: where it ends is not known, because the length's checksum is
        wrong, the file ends inside, or it would be longer than
        MAX_RECORD_BYTES.
    """
    head = read(HEAD_BYTES)
    if not head:
        return None
    length = int.from_bytes(head[:8], "little")
    if head != _head(length) or length > MAX_RECORD_BYTES:
        raise FrameError("its length is damaged")
    record, tail = read(length), read(TAIL_BYTES)
    if len(tail) < TAIL_BYTES:
        raise FrameError("the file ends inside of it")
    if tail != _tail(record):
        raise ChecksumError("it is damaged")
    return record


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


class _Entry:
    """An entry of tf.train.Features' map: a name and a list of numbers."""

    def __init__(self, feature: Feature, values: np.ndarray):
        assert values.shape[1] == feature.length, feature.name
        self.name = feature.name.encode()
        if feature.dtype == "int64":
            self.kind = INT64_LIST
            self.data, self.is_used = _varints(values)
            if feature.is_trimmed:
                is_wanted = _up_to_last(values, self.data.shape[1])
                self.is_used = self.is_used & is_wanted
        else:
            self.kind = FLOAT_LIST
            self.data = np.ascontiguousarray(values, "<f4").view(np.uint8)
            self.is_used = np.broadcast_to(True, self.data.shape)
        self.numbers = self.is_used.sum(-1)  # bytes of the inmost [R], and so
        self.list = _field_size(self.numbers)  # on, outwards
        self.feature = _field_size(self.list)
        name = np.full_like(self.numbers, len(self.name))
        self.size = _field_size(name) + _field_size(self.feature)

    def write(self, table: "_Table") -> None:
        table.begin(FIRST, self.size)
        table.begin(FIRST, np.full_like(self.size, len(self.name)))
        table.add(np.frombuffer(self.name, np.uint8)[None])
        table.begin(SECOND, self.feature)
        table.begin(self.kind, self.list)
        table.begin(FIRST, self.numbers)
        table.add(self.data, self.is_used)


def _up_to_last(values: np.ndarray, width: int) -> np.ndarray:
    """bool [R, W]: bytes of numbers up to the last that is not zero."""
    is_after = np.cumsum(values[:, ::-1] != 0, axis=1)[:, ::-1] > 0
    return np.repeat(is_after, width // values.shape[1], axis=1)


class _Table:
    """Columns of bytes [R, W], and which of them each record has."""

    def __init__(self, num_rows: int):
        self.num_rows = num_rows
        self.columns: list[tuple[np.ndarray, np.ndarray | bool]] = []

    def begin(self, field: int, size: np.ndarray) -> None:
        """The tag of a message or a string, and its size in bytes [R]."""
        tag = field << 3 | 2  # 2: a length follows
        self.add(np.array([[tag]], np.uint8))
        self.add(*_varints(size[:, None]))

    def add(self, data: np.ndarray, is_used: np.ndarray | bool = True) -> None:
        self.columns.append((data, is_used))

    def join(self) -> tuple[np.ndarray, np.ndarray]:
        width = sum(data.shape[1] for data, _ in self.columns)
        joined = np.empty((self.num_rows, width), np.uint8)
        is_used = np.empty((self.num_rows, width), bool)
        start = 0
        for data, own in self.columns:
            end = start + data.shape[1]
            joined[:, start:end] = data
            is_used[:, start:end] = own
            start = end
        return joined, is_used


def _field_size(size: np.ndarray) -> np.ndarray:
    """Bytes of a field whose content has `size` of them [R]."""
    num_bytes = 1 + (size >= 1 << 7) + (size >= 1 << 14) + (size >= 1 << 21)
    return 1 + num_bytes + size


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
