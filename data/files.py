"""Names of files, and text out of them: local, gs://, or whatever else
TensorFlow opens; a name that ends in .gz means GZIP.
"""

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from input_error import InputError


def expand_patterns(patterns: str, flag: str = "--input_file") -> list[str]:
    """The files of a comma-separated list of names and globs: "a,b*,c".

    Theirs: each glob's files in whatever order the file system gives. Ours:
    sorted, so that a run depends on its inputs alone, and without names that
    begin with a dot.
    """
    paths = []
    for pattern in patterns.split(","):
        found = [
            path
            for path in sorted(tf.io.gfile.glob(pattern))
            # as a shell does it
            if not os.path.basename(path).startswith(".")
            or os.path.basename(pattern).startswith(".")
        ]
        if not found:
            raise InputError(f"no file matches {flag}={pattern}")
        paths += found
    return paths


def read_lines(
    path: str, progress: Callable[[int], Any] = lambda num_bytes: None
) -> Iterator[str]:
    """Lines of UTF-8 text, plain or .gz, each with its newline.

    Lines end at "\\n" only, as in Google's code.

    Args:
      progress: called with the bytes of each line (before decoding).
    """
    number = 0
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            packed = path.endswith(".gz")
            reader = gzip.GzipFile(fileobj=file) if packed else file
            for line in iter(reader.readline, b""):
                number += 1
                progress(len(line))
                yield line.replace(b"\r", b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number} is not UTF-8 text: byte "
            f"0x{error.object[error.start]:02x} at column {error.start + 1}"
        ) from error
    except tf.errors.OpError as error:
        raise InputError(f"cannot read {path}: {error.message}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"cannot read {path} after line {number}: {error}"
        ) from error
