"""The small files of a model folder: what lies beside weights, and copies.

A vocabulary is a vocab.txt, or a vocab.json with a merges.txt beside it; of the
latter the path of vocab.json stands for both.
"""

import atexit
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

from input_error import InputError

VOCABULARY = "vocab.txt"
BYTE_LEVEL, MERGES = "vocab.json", "merges.txt"
TOKENIZER = "tokenizer.json"


def beside(path: str, names: Iterable[str]) -> str | None:
    """The first of these files in the folder that `path` is, or lies in."""
    import tensorflow as tf

    folder = path if tf.io.gfile.isdir(path) else os.path.dirname(path)
    candidates = (os.path.join(folder, name) for name in names)
    return next((c for c in candidates if tf.io.gfile.exists(c)), None)


def content(path: str) -> bytes | None:
    """A file's, which may lie on gs:// and the like; None where there is none.

    Raises:
        InputError: it is there and cannot be read.
    """
    import tensorflow as tf

    try:
        if not tf.io.gfile.exists(path):
            return None
        with tf.io.gfile.GFile(path, "rb") as file:
            found: bytes = file.read()
            return found
    except tf.errors.OpError as error:
        raise InputError(f"cannot read {path}: {error.message}") from error


def temporary_folder() -> str:
    """A new one, which goes when the process ends, unless it is killed."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def new_folder(output_dir: str) -> Iterator[str]:
    """A folder that becomes `output_dir` at the end, if nothing fails."""
    import tensorflow as tf

    output_dir = output_dir.rstrip("/")
    folder = f"{output_dir}.incomplete"
    try:
        if tf.io.gfile.exists(output_dir):
            raise InputError(
                f"--output_dir={output_dir} is there already; name a new folder"
            )
        _remove(folder)  # a killed run's
        tf.io.gfile.makedirs(folder)
        try:
            yield folder
            tf.io.gfile.rename(folder, output_dir)
        finally:
            _remove(folder)
    except tf.errors.OpError as error:
        raise InputError(
            f"cannot write --output_dir={output_dir} ({error.message})"
        ) from error


def _remove(folder: str) -> None:
    import tensorflow as tf

    if tf.io.gfile.exists(folder):
        tf.io.gfile.rmtree(folder)


def vocabulary_file(path: str) -> str | None:
    """The vocabulary beside the weights that `path` names, or None.

    Where tokenizer.json alone is there, as transformers 5 leaves it, what it
    holds is written to temporary files of the usual form.
    """
    tokenizer = beside(path, [TOKENIZER])
    found = beside(path, [VOCABULARY, BYTE_LEVEL])
    return found if found or tokenizer is None else _unpack(tokenizer)


def _unpack(tokenizer: str) -> str:
    """Writes the vocabulary in a tokenizer.json; returns its path."""
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(tokenizer) as file:
            values = json.loads(file.read())
        contents = _contents(values)
    except (
        ValueError, TypeError, LookupError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        raise InputError(
            f"{tokenizer} holds no vocabulary of BERT's or RoBERTa's "
            f"({error}); put a {VOCABULARY}, or a {BYTE_LEVEL} and a {MERGES}, "
            "beside it"
        ) from error
    folder = temporary_folder()
    for name, content in contents.items():
        with open(os.path.join(folder, name), "wb") as copy:
            copy.write(content)
    return os.path.join(folder, next(iter(contents)))


def _contents(values: dict[str, Any]) -> dict[str, bytes]:
    """The files, by name, that say the same as a tokenizer.json."""
    model = values["model"]
    ids = dict(model["vocab"])
    ids |= {token["content"]: token["id"] for token in values["added_tokens"]}
    if not ids:
        raise ValueError("its vocabulary is empty")
    if model["type"] == "WordPiece":
        pieces = sorted(ids, key=ids.__getitem__)
        if [ids[piece] for piece in pieces] != list(range(len(pieces))):
            raise ValueError("its ids are not 0, 1, 2 ...")
        lines = [f"{piece}\n" for piece in pieces]
        return {VOCABULARY: "".join(lines).encode()}
    if model["type"] != "BPE":
        raise ValueError(f"a {model['type']} model")
    cut = values["pre_tokenizer"]
    if cut["type"] != "ByteLevel" or cut["add_prefix_space"]:
        raise ValueError("its pieces are not RoBERTa's, of bytes")
    pairs = [p if isinstance(p, str) else " ".join(p) for p in model["merges"]]
    return {
        BYTE_LEVEL: json.dumps(ids).encode(),
        MERGES: "".join(f"{pair}\n" for pair in pairs).encode(),
    }


def vocabulary_files(vocab_file: str) -> dict[str, str]:
    """Its files, the first one first, by their usual names."""
    if not vocab_file.endswith(".json"):
        return {VOCABULARY: vocab_file}
    merges = os.path.join(os.path.dirname(vocab_file), MERGES)
    return {BYTE_LEVEL: vocab_file, MERGES: merges}


def copy_vocabulary(vocab_file: str, folder: str) -> str:
    """Copies it, from or to gs:// and the like too; returns the copy's path."""
    first, *_ = (
        copy_whole(path, os.path.join(folder, name))
        for name, path in vocabulary_files(vocab_file).items()
    )
    return first


def local_vocabulary(vocab_file: str) -> str:
    """The path itself, or that of a copy of what lies on gs:// and the like."""
    import tensorflow as tf

    if "://" not in vocab_file:
        return vocab_file
    try:
        return copy_vocabulary(vocab_file, temporary_folder())
    except tf.errors.OpError as error:
        raise InputError(
            f"cannot read {vocab_file}: {error.message}"
        ) from error


def copy_whole(source: str, path: str) -> str:
    """Copies a file, which may be itself; returns `path`."""
    import tensorflow as tf

    with tf.io.gfile.GFile(source, "rb") as file:
        content = file.read()
    return write_whole(path, content)


def write_json(path: str, values: dict[str, Any]) -> None:
    write_whole(path, (json.dumps(values, indent=2) + "\n").encode())


def write_whole(path: str, content: bytes) -> str:
    """Writes a file that appears under its name only when it is complete."""
    import tensorflow as tf

    with tf.io.gfile.GFile(path + ".incomplete", "wb") as file:
        file.write(content)
    tf.io.gfile.rename(path + ".incomplete", path, overwrite=True)
    return path
