"""A file of records that is known in chunks, so that files can be mixed.

Record files have no head and no tail: any whole records end to end are one.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from data import wire
from input_error import InputError

CHUNK_RECORDS = 64  # at most


@contextlib.contextmanager
def writing_chunks(path: str) -> Iterator[Callable[[Sequence[bytes]], None]]:
    """Gives what writes some records; at the end, beside the file, where each
    chunk ends."""
    ends = [0]
    with open(path, "wb") as file:

        def write(records: Sequence[bytes]) -> None:
            for start in range(0, len(records), CHUNK_RECORDS):
                chunk = wire.frame(records[start : start + CHUNK_RECORDS])
                file.write(chunk)
                ends.append(ends[-1] + len(chunk))

        yield write
    np.save(_ends_file(path), ends)


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
    with open(path, "rb") as file:
        for size in np.diff(np.load(_ends_file(path))).tolist():
            yield file.read(size)


def _ends_file(path: str) -> str:
    return f"{path}.npy"
