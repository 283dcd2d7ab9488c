"""A TensorFlow checkpoint's index, checked before TensorFlow acts on it.

TensorFlow believes an index whose checksums are right: one that is made on
purpose ends the process, or passes off as weights what lay in memory. An index
is a table (tensorflow/core/lib/io/table_format.txt) of messages
(tensorflow/core/protobuf/tensor_bundle.proto). Checksums and versions are left
to TensorFlow, which looks at each before it uses what they are of.
"""

import contextlib
import functools
import itertools
import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from bert_keras.errors import InputError
from bert_keras.files import refuse_large, refuse_stream, tf

MAGIC = 0xDB4775248B80FB57
FOOTER_BYTES = 48  # two handles, padding, MAGIC
TRAILER_BYTES = 5  # behind each block: its compression, a checksum
CHECKSUM_BYTES = 4  # between the lengths of strings and the strings
SLICE = b"\0"  # begins the key of one
MAX_NAME_BYTES = 4096
MAX_DIMENSIONS = 32  # NumPy's
MAX_NUMBERS = 2**48


class Variable(NamedTuple):
    dtype: str
    shape: tuple[int, ...]


def read_index(prefix: str) -> dict[str, Variable]:
    """The variables of a checkpoint, by name.

    Raises:
        InputError: the index is damaged, or says what cannot be so.
        tf.errors.OpError: it cannot be opened.
    """
    from google.protobuf.message import DecodeError

    path = f"{prefix}.index"
    refuse_stream(path)
    refuse_large(path)
    with tf.io.gfile.GFile(path, "rb") as file:
        content = file.read(tf.io.gfile.stat(path).length)
    try:
        return _variables(prefix, content)
    except (ValueError, IndexError, struct.error, DecodeError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); expected the index of a whole "
            "checkpoint"
        ) from error


def _variables(prefix: str, content: bytes) -> dict[str, Variable]:
    from tensorflow.core.protobuf import tensor_bundle_pb2

    items = _table(content)
    key, value = next(items, (b"none", b""))
    if key:
        raise ValueError("it has no header")
    header = tensor_bundle_pb2.BundleHeaderProto.FromString(value)
    sizes = functools.cache(_size)
    variables = {}
    for key, value in items:
        entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
        if entry.slices or key.startswith(SLICE):
            raise ValueError(
                "a variable is stored in slices; save the checkpoint again "
                "from variables that are not partitioned"
            )
        name = key.decode()
        shape = tuple(dim.size for dim in entry.shape.dim)
        if (
            entry.shape.unknown_rank
            or len(shape) > MAX_DIMENSIONS
            or min(shape, default=0) < 0
            or math.prod(n or 1 for n in shape) > MAX_NUMBERS
        ):
            raise ValueError(f"{name} has an impossible shape")
        dtype = _dtype(entry.dtype)
        if dtype is None:
            raise ValueError(f"{name} is of an unknown type, {entry.dtype}")
        if not 0 <= entry.shard_id < header.num_shards:
            raise ValueError(f"{name} is in a data file that does not exist")
        data = f"{prefix}.data-{entry.shard_id:05}-of-{header.num_shards:05}"
        end = entry.offset + entry.size
        if entry.offset < 0 or not entry.offset <= end <= sizes(data):
            raise ValueError(f"{name} lies outside of {data}")
        count = math.prod(shape)
        if dtype == tf.string:
            _check_strings(name, count, data, entry.offset, entry.size)
        elif count * dtype.size != entry.size:
            raise ValueError(
                f"{name} is {count} numbers of {dtype.name} in {entry.size} "
                "bytes"
            )
        variables[name] = Variable(dtype.name, shape)
    return variables


def _size(path: str) -> int:
    if not tf.io.gfile.exists(path):
        raise ValueError(f"{path} does not exist")
    return tf.io.gfile.stat(path).length


@functools.cache
def _dtype(number: int) -> "tf.DType | None":
    """None: a type that checkpoints do not store."""
    with contextlib.suppress(TypeError):
        dtype = tf.dtypes.as_dtype(number)
        if number <= 100 and dtype.is_numpy_compatible:  # above: references
            return dtype
    return None


def _check_strings(
    name: str, count: int, data: str, offset: int, size: int
) -> None:
    """Looks whether the lengths of the strings add up."""
    with tf.io.gfile.GFile(data, "rb") as file:
        file.seek(offset)
        content = file.read(size)
    place = total = 0
    for _ in range(count):
        length, place = _varint(content, place)
        total += length
    if place + CHECKSUM_BYTES + total != size:
        raise ValueError(f"{name} is strings of other lengths than it says")


def _table(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and values, in the order of the keys."""
    footer = content[-FOOTER_BYTES:]
    if len(footer) < FOOTER_BYTES or footer[-8:] != MAGIC.to_bytes(8, "little"):
        raise ValueError("it does not end as an index")
    _, place = _handle(footer, 0)  # of a block that nothing reads
    index, _ = _handle(footer, place)
    last, is_first = b"", True
    for separator, value in _block(content, *index):
        handle, _ = _handle(value, 0)
        for key, item in _block(content, *handle):
            if not (key > last or is_first):
                raise ValueError("its names are not in order")
            last, is_first = key, False
            yield key, item
        # TensorFlow looks for a name by these.
        if separator < last:
            raise ValueError("its names are not in order")
        last = separator


def _block(
    content: bytes, offset: int, size: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and values. A key is what it shares with the one before and
    what it has of its own; at "restarts" it shares nothing, and TensorFlow
    begins to read at any of them."""
    end = offset + size
    if end + TRAILER_BYTES > len(content) - FOOTER_BYTES:
        raise ValueError("a part of it lies outside of it")
    if content[end]:
        raise ValueError("it is compressed, as no checkpoint is")
    (num_restarts,) = struct.unpack_from("<I", content, end - 4)
    limit = end - 4 * (1 + num_restarts)
    if limit < offset or not num_restarts:
        raise ValueError("a part of it is too short")
    restarts = struct.unpack_from(f"<{num_restarts}I", content, limit)
    place, key, whole = offset, b"", {0}
    while place < limit:
        begin = place
        shared, place = _varint(content, place)
        own, place = _varint(content, place)
        length, place = _varint(content, place)
        if shared > len(key) or place + own + length > limit:
            raise ValueError("a part of it is too short")
        if shared + own > MAX_NAME_BYTES:
            raise ValueError(f"a name is longer than {MAX_NAME_BYTES} bytes")
        if not shared:
            whole.add(begin - offset)
        key = key[:shared] + content[place : place + own]
        place += own + length
        yield key, content[place - length : place]
    rising = all(one < two for one, two in itertools.pairwise(restarts))
    if restarts[0] or not rising or not whole.issuperset(restarts):
        raise ValueError("its names are not where it says")


def _handle(content: bytes, place: int) -> tuple[Any, int]:
    """Offset and size of a block; and the place behind them."""
    offset, place = _varint(content, place)
    size, place = _varint(content, place)
    return (offset, size), place


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """A number, seven bits a byte, the lowest first; and the place behind."""
    value = shift = 0
    while shift < 64:
        byte = content[place]
        value |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return value, place
        shift += 7
    raise ValueError("a number in it is too long")
