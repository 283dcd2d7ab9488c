"""The vectors of a file's words, computed once and kept on disk.

They are in a .npy, appended to as they come, and are mapped into memory, so
that they may be many more than it holds. Beside it an index says of what they
are, and of how many texts: the same command takes them up, or goes on where it
was stopped; of other words, weights or layers they are made anew.

Shapes: T words of a text, W of a file, K vectors of a word, H hidden size.
"""

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from bert_keras.data.input_features import InputFeatures
from bert_keras.files import has_other_names, read_json, write_whole
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
    for mapping in mappings:
        if "/pooler/" in mapping.name:
            continue
        digest.update(f"{mapping.name} {mapping.shape}".encode())
        digest.update(np.ascontiguousarray(mapping.read()).tobytes())
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
    index = path.removesuffix(".npy") + ".json"
    done = 0  # texts whose vectors are there
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
        found = read_json(index)
        if found["digest"] == digest and os.path.exists(path):
            done = range(len(lengths) + 1).index(found["texts"])
    header = npy_header((sum(lengths), *shape))
    size = len(header) + 4 * math.prod(shape) * sum(lengths[:done])
    if done and os.path.getsize(path) < size:  # somebody has cut it off
        done, size = 0, len(header)
    if done == len(lengths):
        print(f"{path} is used again")
        return np.load(path, mmap_mode="r", allow_pickle=False)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if has_other_names(path):
        done, size = 0, len(header)
    # Not emptied, but removed: who has it open, or by another name, as links
    # give, keeps what it holds. The index goes first.
    for old in () if done else (index, path):
        if os.path.lexists(old):
            os.remove(old)
    with open(path, "r+b" if done else "wb") as vectors:
        vectors.write(header)
        vectors.seek(size)
        vectors.truncate()

        def write_index(num_texts: int) -> None:
            vectors.flush()
            os.fsync(vectors.fileno())
            text = json.dumps({"digest": digest, "texts": num_texts}) + "\n"
            write_whole(index, text.encode())

        for values in compute(done):
            vectors.write(np.ascontiguousarray(values, "<f4").tobytes())
            done += 1
            if done % TEXTS_AT_ONCE == 0:
                write_index(done)
        write_index(done)
    return np.load(path, mmap_mode="r", allow_pickle=False)
