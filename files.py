"""Files here and on gs:// and the like: read, copied, written whole.

A vocabulary is a vocab.txt, or a vocab.json with a merges.txt beside it; of the
latter the path of vocab.json stands for both.
"""

import atexit
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from input_error import InputError

VOCABULARY = "vocab.txt"
BYTE_LEVEL, MERGES = "vocab.json", "merges.txt"


def beside(path: str, names: Iterable[str]) -> str | None:
    """The first of these files in the folder that `path` is, or lies in."""
    import tensorflow as tf

    folder = path if tf.io.gfile.isdir(path) else os.path.dirname(path)
    candidates = (os.path.join(folder, name) for name in names)
    return next((c for c in candidates if tf.io.gfile.exists(c)), None)


def copy_beside(path: str, names: Iterable[str], folder: str) -> None:
    """Copies those of these files that are in the folder that `path` is, or
    lies in; their names may have folders in them."""
    import tensorflow as tf

    for name in names:
        if found := beside(path, [name]):
            copy = os.path.join(folder, name)
            tf.io.gfile.makedirs(os.path.dirname(copy))
            copy_whole(found, copy)


def content(path: str) -> bytes | None:
    """The bytes of a file, also on gs:// and the like; None without the file.

    Raises:
        InputError: the file exists and cannot be read.
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


def json_beside(path: str, name: str) -> dict[str, Any]:
    """The object in a JSON file of the folder that `path` is, or lies in;
    empty without such a file.

    Raises:
        InputError: the file exists and does not hold one JSON object.
    """
    file = beside(path, [name])
    if file is None:
        return {}
    try:
        return dict(json.loads((content(file) or b"").decode()))
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{file} is not a JSON file ({error}); expected one object"
        ) from error


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


def write_json(path: str, values: Mapping[str, Any]) -> None:
    write_whole(path, (json.dumps(values, indent=2) + "\n").encode())


def write_whole(path: str, content: bytes) -> str:
    """Writes a file that appears under its name only when it is complete."""
    import tensorflow as tf

    with tf.io.gfile.GFile(path + ".incomplete", "wb") as file:
        file.write(content)
    tf.io.gfile.rename(path + ".incomplete", path, overwrite=True)
    return path
