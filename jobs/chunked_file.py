"""A file of records that is known in chunks, so that files can be mixed.

Record files have no head and no tail: any whole records end to end are one.
"""

import os
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from input_error import InputError

CHUNK_RECORDS = 64
FRAME_BYTES = 16  # that TFRecord puts around a record: its length, two sums


class ChunkedFile:
    """A context manager that writes records, and beside them where each chunk
    ends."""

    def __init__(self, path: str):
        self.path = path
        self._writer = tf.io.TFRecordWriter(path)
        self._num_records = self._num_bytes = 0
        self._ends: list[int] = []

    def __enter__(self) -> "ChunkedFile":
        return self

    def write(self, record: bytes) -> None:
        self._writer.write(record)
        self._num_bytes += len(record) + FRAME_BYTES
        self._num_records += 1
        if self._num_records % CHUNK_RECORDS == 0:
            self._ends.append(self._num_bytes)

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        np.save(_ends_file(self.path), [*self._ends, self._num_bytes])


def check_whole(path: str) -> None:
    """Raises an InputError if the file has lost something."""
    if os.path.getsize(path) != np.load(_ends_file(path))[-1]:
        folder = os.path.dirname(path)
        raise InputError(
            f"{path} is not whole, as after a power cut; delete the folder "
            f"{folder} and run the same command"
        )


def read_chunks(path: str) -> Iterator[bytes]:
    """Some whole records at a time."""
    check_whole(path)
    start = 0
    with open(path, "rb") as file:
        for end in np.load(_ends_file(path)).tolist():
            yield file.read(end - start)
            start = end


def _ends_file(path: str) -> str:
    return f"{path}.npy"
