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

MAX_LINE_BYTES = 1 << 28
END_BYTES = 1 << 20  # at each end of a file, of which a checksum is made


def expand_patterns(patterns: str, flag: str = "--input_file") -> list[str]:
    """The files of a comma-separated list of names and globs: "a,b*,c".

    Theirs: each glob's files in whatever order the file system gives. Ours:
    sorted, so that a run depends on its inputs alone, and without names that
    begin with a dot.
    """
    paths = []
    for pattern in patterns.split(","):
        try:
            matches = sorted(tf.io.gfile.glob(pattern))
        except tf.errors.OpError as error:  # a bucket that cannot be read
            raise InputError(
                f"cannot look for {flag}={pattern} "
                f"({error.message.splitlines()[0]})"
            ) from error
        found = [
            path
            for path in matches
            # as a shell does it
            if not os.path.basename(path).startswith(".")
            or os.path.basename(pattern).startswith(".")
        ]
        if not found:
            raise InputError(f"no file matches {flag}={pattern}")
        for path in found:  # which TensorFlow would read as an empty file
            if os.path.isdir(path):
                raise InputError(
                    f"{flag}={pattern} must name files, and {path} is a "
                    f"folder; give {os.path.join(path, '*')} for what is in it"
                )
        paths += found
    return paths


def fingerprint(path: str) -> str:
    """Tells what is in a file from what is in others, wherever it lies.

    It is of the size and both ends: of everything up to 2 MiB.
    """
    size = tf.io.gfile.stat(path).length
    with tf.io.gfile.GFile(path, "rb") as file:
        crc = zlib.crc32(file.read(END_BYTES))
        if size > END_BYTES:
            file.seek(max(END_BYTES, size - END_BYTES))
            crc = zlib.crc32(file.read(END_BYTES), crc)
    return f"{size} bytes, checksum {crc:08x}"


def read_lines(
    path: str, progress: Callable[[int], Any] = lambda num_bytes: None
) -> Iterator[str]:
    """Lines of UTF-8 text, plain or .gz, each with its newline.

    Lines end at "\\n" only, as in Google's code. A local file's are at most
    MAX_LINE_BYTES long, so that no file fills the memory, nor what a small .gz
    unpacks to.

    Args:
      progress: called with the bytes of each line (before decoding).
    """
    number = 0
    try:
        with _open(path) as file:
            packed = path.endswith(".gz")
            reader: Any = gzip.GzipFile(fileobj=file) if packed else file
            for line in iter(_readline(reader), b""):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise InputError(
                        f"{path}, line {number} is longer than "
                        f"{MAX_LINE_BYTES >> 20} MiB; is this a text file?"
                    )
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


def _open(path: str) -> Any:
    """TensorFlow's files cannot say how long a line may be."""
    return tf.io.gfile.GFile(path, "rb") if "://" in path else open(path, "rb")


def _readline(reader: Any) -> Callable[[], bytes]:
    if isinstance(reader, tf.io.gfile.GFile):
        return reader.readline
    return lambda: reader.readline(MAX_LINE_BYTES + 1)
