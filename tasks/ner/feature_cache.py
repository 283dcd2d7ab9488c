"""The vectors of a file's words, computed once and kept on disk.

They are in a .npy, appended to as they come, and are mapped into memory, so
that they may be many more than it holds. Beside it an index says of what they
are, and of how many texts: the same command takes them up, or goes on where it
was stopped; of other words, weights or layers they are made anew.

Shapes: T words of a text, W of a file, K vectors of a word, H hidden size.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO

import numpy as np

from bert_keras.data.input_features import InputFeatures
from bert_keras.files import write_whole
from bert_keras.modeling.checkpoint import VariableMapping
from bert_keras.tasks.features import npy_header

TEXTS_AT_ONCE = 256  # between two entries in the index


def digest_of(
    mappings: Sequence[VariableMapping],
    rows: Iterable[InputFeatures],
    *settings: str,
) -> str:
    """Tells vectors of other weights, words or settings apart.

    The pooler makes none of them, and is another in each process where the
    checkpoint has none.
    """
    digest = hashlib.sha256("\n".join(settings).encode())
    for binding in mappings:
        if "/pooler/" in binding.name:
            continue
        digest.update(f"{binding.name} {binding.shape}".encode())
        digest.update(np.ascontiguousarray(binding.read()).tobytes())
    for row in rows:
        for numbers in (row.input_ids, row.segment_ids, row.positions):
            digest.update(np.array([len(numbers), *numbers]).tobytes())
    return digest.hexdigest()


def cached(
    path: str,
    digest: str,
    lengths: Sequence[int],
    shape: tuple[int, int],
    compute: Callable[[int], Iterator[np.ndarray]],
) -> np.ndarray:
    """float32 [W, K, H], of a file that is made if it is not there.

    Args:
        path: ends in .npy.
        lengths: the words of each text.
        shape: K and H.
        compute: yields the [T, K, H] of the texts from this number on.
    """
    header = npy_header((sum(lengths), *shape))
    done = _texts_done(path, digest)
    size = len(header) + 4 * int(np.prod(shape)) * sum(lengths[:done])
    if done and os.path.getsize(path) < size:  # somebody has cut it off
        done, size = 0, len(header)
    if done == len(lengths):
        print(f"{path} is used again")
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Not emptied, but removed: who has it open, or by another name, as
        # hard links give, keeps what it holds. The index goes first.
        for old in () if done else (_index(path), path):
            if os.path.exists(old):
                os.remove(old)
        with open(path, "r+b" if done else "wb") as file:
            file.write(header)
            file.seek(size)
            file.truncate()
            _append(file, path, digest, done, compute(done))
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _append(
    file: IO[bytes],
    path: str,
    digest: str,
    done: int,
    vectors: Iterator[np.ndarray],
) -> None:
    for number, values in enumerate(vectors, done + 1):
        file.write(np.ascontiguousarray(values, "<f4").tobytes())
        if number % TEXTS_AT_ONCE == 0:
            _note(file, path, digest, number)
        done = number
    _note(file, path, digest, done)


def _note(file: IO[bytes], path: str, digest: str, texts: int) -> None:
    file.flush()
    os.fsync(file.fileno())
    text = json.dumps({"digest": digest, "texts": texts}) + "\n"
    write_whole(_index(path), text.encode())


def _texts_done(path: str, digest: str) -> int:
    """How many texts' vectors are there; of others' none."""
    try:
        with open(_index(path), encoding="utf-8") as file:
            index = json.load(file)
        is_same = index["digest"] == digest and os.path.exists(path)
        return int(index["texts"]) if is_same else 0
    except (OSError, ValueError, TypeError, LookupError):
        return 0


def _index(path: str) -> str:
    return path.removesuffix(".npy") + ".json"
