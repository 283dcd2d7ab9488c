"""Indexes of TensorFlow checkpoints: any content, right checksums.

The format is in tensorflow/core/lib/io/table_format.txt.
"""

import struct
from collections.abc import Sequence

import google_crc32c

from bert_keras.checkpoint_index import FOOTER_BYTES, MAGIC
from bert_keras.data import tfrecords

Items = Sequence[tuple[bytes, bytes]]


def checksum(content: bytes) -> int:
    return tfrecords._mask(google_crc32c.value(content))


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    digits = b""
    while number >= 128:
        digits += bytes([number & 127 | 128])
        number >>= 7
    return digits + bytes([number])


def block(items: Items, restarts: Sequence[int] | None = None) -> bytes:
    """No key shares anything with the one before.

    Args:
        restarts: None: at each key.
    """
    content, places = b"", []
    for key, value in items:
        places.append(len(content))
        lengths = (0, len(key), len(value))
        content += b"".join(map(varint, lengths)) + key + value
    if restarts is None:
        restarts = places or [0]
    numbers = (*restarts, len(restarts))
    return content + struct.pack(f"<{len(numbers)}I", *numbers)


def with_trailer(content: bytes, compression: int = 0) -> bytes:
    kind = bytes([compression])
    return content + kind + struct.pack("<I", checksum(content + kind))


def table(
    blocks: Sequence[bytes],
    separators: Sequence[bytes],
    compression: int = 0,
    handle: tuple[int, int] | None = None,
) -> bytes:
    """Args:
    separators: a name for each block, not before its last one.
    handle: where the first block is said to be; None: where it is.
    """
    content, handles = b"", []
    for one in blocks:
        handles.append(varint(len(content)) + varint(len(one)))
        content += with_trailer(one, compression)
    if handle:
        handles[0] = varint(handle[0]) + varint(handle[1])
    footer = b""
    for one in (
        block([]),
        block(list(zip(separators, handles, strict=True))),
    ):
        footer += varint(len(content)) + varint(len(one))
        content += with_trailer(one)
    footer = footer.ljust(FOOTER_BYTES - 8, b"\0")
    return content + footer + MAGIC.to_bytes(8, "little")


def index(items: Items) -> bytes:
    """All of them in one block."""
    return table([block(items)], [items[-1][0] + b"\xff"])
