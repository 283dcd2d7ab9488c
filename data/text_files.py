"""Names of files, and text out of them: local, gs://, or whatever else
TensorFlow opens; a name that ends in .gz means GZIP.
"""

import codecs
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, AnyStr

import tensorflow as tf
from tqdm import tqdm

from bert_keras.errors import InputError

MAX_LINE_BYTES = 1 << 28
# What the "surrogateescape" of Python's codecs makes of bytes out of place.
ESCAPED = re.compile("[\udc80-\udcff]")
BYTE_ORDER_MARKS = {  # UTF-32's before UTF-16's, which begins alike
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def expand_patterns(patterns: str, argument: str = "input_file") -> list[str]:
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
                f"cannot look for `{argument}={pattern}` "
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
            raise InputError(f"no file matches `{argument}={pattern}`")
        for path in found:  # which TensorFlow would read as an empty file
            if os.path.isdir(path):
                raise InputError(
                    f"`{argument}={pattern}` must name files, and {path} is a "
                    f"folder; give {os.path.join(path, '*')} for what is in it"
                )
        paths += found
    return paths


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
    for number, line in _numbered(path, _byte_lines):
        progress(len(line))
        try:
            yield line.replace(b"\r", b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}, line {number} is not UTF-8 text: byte "
                f"0x{error.object[error.start]:02x} at column {error.start + 1}"
            ) from error


def read_bare_lines(path: str) -> Iterator[str]:
    """The lines of `read_lines` without their newlines, nor a byte-order
    mark."""
    for number, line in enumerate(read_lines(path)):
        line = line.removesuffix("\n")
        yield line if number else line.removeprefix("\ufeff")


def read_with_progress(
    paths: Sequence[str], title: str = "reading"
) -> Iterator[str]:
    """Lines of all the files, as `read_lines` gives them, with a progress bar
    in bytes."""
    with tqdm(desc=title, unit="B", unit_scale=True) as bar:
        for path in paths:
            yield from read_lines(path, bar.update)


def read_text_lines(
    path: str,
    encoding: str | None = None,
    any_end: bool = False,
    refuses: bool = True,
) -> Iterator[str]:
    """Lines of a file, plain or .gz, each with its end as it is there.

    `read_lines` drops every "\\r", as Google's code does, which joins the
    words before and after one in the middle of a line.

    Args:
        encoding, any_end: see `text_lines`.
        refuses: whether bytes of another encoding are an error; if not, they
            become the "surrogateescape" of Python's codecs.
    """

    def lines_of(reader: Any) -> Iterator[str]:
        if isinstance(reader, tf.io.gfile.GFile):
            reader = io.BytesIO(reader.read())
        return text_lines(reader, encoding, any_end)

    number, shown = 0, (encoding or "UTF-8").upper()
    try:
        for number, line in _numbered(path, lines_of):
            if refuses and number == 1 and "\0" in line:
                raise InputError(
                    f"{path} begins with NUL characters, as UTF-16 text "
                    "does that is read as UTF-8; save it as UTF-8 or give "
                    "`encoding=utf-16-le` or utf-16-be"
                )
            if refuses and (bad := ESCAPED.search(line)):
                raise InputError(
                    f"{path}, line {number} is not {shown} text: byte "
                    f"0x{ord(bad[0]) & 0xFF:02x} at column "
                    f"{bad.start() + 1}; save it as UTF-8 or, in "
                    "run_classifier.py and predict.py, give its encoding "
                    "(`encoding=cp1252` for older files of Windows)"
                )
            yield line
    except UnicodeError as error:
        raise InputError(
            f"{path} is not {shown} text after line {number} ({error}); check "
            "`encoding`"
        ) from error


def _numbered(
    path: str, lines_of: Callable[[Any], Iterator[AnyStr]]
) -> Iterator[tuple[int, AnyStr]]:
    """Yields a file's lines with their numbers from 1.

    Raises:
        InputError: it cannot be read, or a line is too long.
    """
    number = 0
    try:
        # TensorFlow's files cannot say how long a line may be.
        with (
            tf.io.gfile.GFile(path, "rb") if "://" in path else open(path, "rb")
        ) as file:
            is_packed = path.endswith(".gz")
            reader: Any = gzip.GzipFile(fileobj=file) if is_packed else file
            for number, line in enumerate(lines_of(reader), 1):
                if len(line) > MAX_LINE_BYTES:
                    raise InputError(
                        f"{path}, line {number} is longer than "
                        f"{MAX_LINE_BYTES >> 20} MiB; is this a text file?"
                    )
                yield number, line
    except tf.errors.OpError as error:
        raise InputError(f"cannot read {path}: {error.message}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"cannot read {path} after line {number}: {error}"
        ) from error


def _byte_lines(reader: Any) -> Iterator[bytes]:
    if isinstance(reader, tf.io.gfile.GFile):
        return iter(reader.readline, b"")
    return iter(lambda: reader.readline(MAX_LINE_BYTES + 1), b"")


def without_half_characters(text: str) -> str:
    """A text from JSON, "?" in place of each half of a surrogate pair: a text
    that was cut between the two has one, and UTF-8 has no bytes for it."""
    return text.encode("utf-8", "replace").decode()


def text_lines(
    reader: Any, encoding: str | None = None, any_end: bool = False
) -> Iterator[str]:
    """Lines of a buffered binary file, which stays open.

    Lines end at "\\n"; at "\\r" where the file has no "\\n" at all, as on old
    Macs.

    Args:
        encoding: None: what a byte-order mark says, else UTF-8.
        any_end: lines end at "\\r" and "\\r\\n" too, as the csv module has it.

    Raises:
        InputError: Python does not know the encoding.
        UnicodeError: the text does not have it.
    """
    start = reader.peek(4) if hasattr(reader, "peek") else reader.getvalue()
    for mark, name in BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            encoding = encoding or name
            break
    try:
        text = io.TextIOWrapper(
            reader,
            encoding or "utf-8",
            errors="surrogateescape",
            newline="" if any_end else "\n",
        )
    except LookupError as error:
        raise InputError(
            f"`encoding={encoding}` is not known ({error}); expected utf-8, "
            "utf-16, cp1252 or another of Python's text encodings"
        ) from error
    try:
        first = text.readline(MAX_LINE_BYTES + 1).removeprefix("\ufeff")
        if not any_end and len(first) <= MAX_LINE_BYTES and "\n" not in first:
            yield from io.StringIO(first, newline="\r")
        elif first:
            yield first
        yield from iter(lambda: text.readline(MAX_LINE_BYTES + 1), "")
    finally:
        text.detach()
