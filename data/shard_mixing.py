"""A file of records that is known in chunks, so that files can be mixed.

Record files have no head and no tail: any whole records end to end are one.
"""

import contextlib
import gzip
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bert_keras.data import tfrecords
from bert_keras.errors import InputError

CHUNK_RECORDS = 64  # at most
MAX_OPEN_FILES = 256


@contextlib.contextmanager
def writing_chunks(path: str) -> Iterator[Callable[[Sequence[bytes]], None]]:
    """Gives what writes some records; at the end, beside the file, where each
    chunk ends."""
    ends = [0]
    with open(path, "wb") as file:

        def write(records: Sequence[bytes]) -> None:
            for start in range(0, len(records), CHUNK_RECORDS):
                chunk = tfrecords.frame(records[start : start + CHUNK_RECORDS])
                file.write(chunk)
                ends.append(ends[-1] + len(chunk))

        yield write
    np.save(_ends_file(path), ends)


def move(source: str, path: str) -> bool:
    """Whether it could be: not to another disk, or to where no disk is. No
    source means that a run before this one has moved it."""
    if not os.path.exists(source):
        if not os.path.exists(path):
            raise _incomplete(source)
        return True
    _read_ends(source)
    with contextlib.suppress(OSError):
        os.replace(source, path)
        return True
    return False


def mix(sources: Sequence[str], file: Any, packs: bool) -> None:
    """A chunk of each in turn, so that neighbours come from all sources.

    Args:
        packs: whether to write GZIP.
    """
    target = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if packs else file
    for i in range(0, len(sources), MAX_OPEN_FILES):
        group = map(read_chunks, sources[i : i + MAX_OPEN_FILES])
        for chunks in itertools.zip_longest(*group, fillvalue=b""):
            target.write(b"".join(chunks))
    if packs:
        target.close()


def read_chunks(path: str) -> Iterator[bytes]:
    """Some whole records at a time."""
    ends = _read_ends(path)
    with open(path, "rb") as file:
        for size in np.diff(ends).tolist():
            yield file.read(size)


def _read_ends(path: str) -> np.ndarray:
    """Of the chunks.

    Raises:
        InputError: the file, or what is beside it, has lost something.
    """
    try:
        ends = np.load(_ends_file(path))
        is_whole = os.path.getsize(path) == ends[-1]
    except (OSError, EOFError, ValueError):
        is_whole = False
    if not is_whole:
        raise _incomplete(path)
    return ends


def _incomplete(path: str) -> InputError:
    return InputError(
        f"{path} is not whole, as after a power cut; delete the folder "
        f"{os.path.dirname(path)} and run the same command"
    )


def _ends_file(path: str) -> str:
    return f"{path}.npy"
