"""Names of files, and text out of them: local, gs://, or whatever else
TensorFlow opens; a name that ends in .gz means GZIP.
"""

import codecs
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, AnyStr

import tensorflow as tf
from tqdm import tqdm

from bert_keras.errors import InputError, say_once
from bert_keras.files import is_stream, open_unpacked, refuse_hidden

MAX_LINE_BYTES = 1 << 28  # of a corpus or JSON, which may be one line
MAX_ROW_BYTES = 1 << 26  # of what is answered, or of a table
# What the "surrogateescape" of Python's codecs makes of bytes out of place.
ESCAPED = re.compile("[\udc80-\udcff]")
BYTE_ORDER_MARKS = {  # UTF-32's before UTF-16's, which begins alike
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def expand_patterns(
    patterns: str, argument: str = "input_file", takes_pipes: bool = False
) -> list[str]:
    """The files of a comma-separated list of names and globs: "a,b*,c".

    Theirs: each glob's files in whatever order the file system gives. Ours:
    sorted, so that a run depends on its inputs alone, and without names that
    begin with a dot; a file that is named several times comes once, where it
    is named first.

    Args:
        takes_pipes: whether each is read only once, from its beginning to its
            end.
    """
    paths: list[str] = []
    for pattern in patterns.split(","):
        try:
            if "://" not in pattern and os.path.exists(pattern):
                matches = [pattern]  # even with brackets in its name
            else:
                matches = sorted(tf.io.gfile.glob(pattern))
        except UnicodeDecodeError as error:
            name = os.fsdecode(error.object)
            raise InputError(
                f"`{argument}={pattern}` has {name}, whose name is not UTF-8 "
                "as TensorFlow takes it; rename it"
            ) from error
        except tf.errors.OpError as error:  # a bucket that cannot be read
            raise InputError(
                f"cannot look for `{argument}={pattern}` "
                f"({error.message.splitlines()[0]})"
            ) from error
        if not os.path.basename(pattern).startswith("."):  # as a shell does it
            matches = [
                path
                for path in matches
                if not os.path.basename(path).startswith(".")
            ]
        if not matches:
            refuse_hidden(pattern)
            raise InputError(f"no file matches `{argument}={pattern}`")
        for path in matches:
            if os.path.isdir(path):  # TensorFlow reads it as an empty file
                raise InputError(
                    f"`{argument}={pattern}` must name files, and {path} is a "
                    f"folder; give {os.path.join(path, '*')} for what is in it"
                )
            if is_stream(path) and not takes_pipes:
                raise InputError(
                    f"`{argument}={path}` is a pipe or a device, which can be "
                    "read only once, and it is read several times; write what "
                    "it gives to a file, and name that"
                )
        paths += matches
    names: dict[str, list[str]] = {}  # of each file
    for path in paths:
        file = path if "://" in path else os.path.realpath(path)
        names.setdefault(file, []).append(path)
    if repeated := [first for first, *others in names.values() if others]:
        rest = len(repeated) - 1
        others = f" and {rest:,} other file{'s' * (rest > 1)}" if rest else ""
        say_once(
            f"`{argument}` names {repeated[0]}{others} more than once: each "
            "file is read once; to give one more weight, add copies of it "
            "under other names"
        )
    return [first for first, *_ in names.values()]


def read_lines(
    path: str,
    progress: Callable[[int], Any] = lambda num_bytes: None,
    lone_return: bytes = b"",
) -> Iterator[str]:
    """Lines of UTF-8 text, plain or .gz, each with its newline, without the
    byte-order mark that a file may begin with.

    Lines end at "\\n" only, as in Google's code, and are at most MAX_LINE_BYTES
    long, so that no file fills the memory, nor what a small .gz unpacks to.
    `progress` is called with the number of bytes of each.

    Args:
        lone_return: stands for a "\\r" before anything but "\\n"; nothing, as
            in Google's code, joins the words around it.
    """
    with open_unpacked(path) as file:
        lines = iter(lambda: file.readline(MAX_LINE_BYTES + 1), b"")
        for number, line in numbered(path, lines, MAX_LINE_BYTES):
            progress(len(line))
            try:
                line = line.replace(b"\r\n", b"\n")
                text = line.replace(b"\r", lone_return).decode("utf-8")
                yield text if number > 1 else text.removeprefix("\ufeff")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path}, line {number} is not UTF-8 text: byte "
                    f"0x{error.object[error.start]:02x} at column "
                    f"{error.start + 1}"
                ) from error


def read_bare_lines(path: str) -> Iterator[str]:
    """The lines of `read_lines` without their newlines."""
    for line in read_lines(path):
        yield line.removesuffix("\n")


def read_with_progress(
    paths: Sequence[str], title: str = "reading"
) -> Iterator[str]:
    """Lines of all the files, as `read_lines` gives them, with a progress bar
    in bytes; after each file a blank line, as its last document ends there."""
    with tqdm(desc=title, unit="B", unit_scale=True) as bar:
        for path in paths:
            yield from read_lines(path, bar.update)
            yield ""


def read_text_lines(
    path: str,
    encoding: str | None = None,
    any_end: bool = False,
    refuses: bool = True,
    longest: int = MAX_ROW_BYTES,
) -> Iterator[str]:
    """Lines of a file, plain or .gz, each with its end as it is there.

    `read_lines` drops every "\\r", as Google's code does, which joins the
    words before and after one in the middle of a line.

    Args:
        encoding, any_end: see `text_lines`.
        refuses: whether bytes of another encoding are an error; if not, they
            become the "surrogateescape" of Python's codecs.
        longest: characters that a line may have.
    """

    number, shown = 0, (encoding or "UTF-8").upper()
    with open_unpacked(path) as reader:
        try:
            for number, line in numbered(
                path, text_lines(reader, encoding, any_end, longest), longest
            ):
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
                f"{path} is not {shown} text after line {number} ({error}); "
                "check `encoding`"
            ) from error


def numbered(
    name: str, lines: Iterable[AnyStr], longest: int = MAX_ROW_BYTES
) -> Iterator[tuple[int, AnyStr]]:
    """Yields lines with their numbers, from 1; raises an InputError at one
    that is too long, with the `name` of where they are from."""
    for number, line in enumerate(lines, 1):
        if len(line) > longest:
            raise InputError(
                f"{name}, line {number} is longer than {longest >> 20} MiB; "
                "expected a text file with shorter lines"
            )
        yield number, line


def without_half_characters(text: str) -> str:
    """A text from JSON, "?" in place of each half of a surrogate pair: a text
    that was cut between the two has one, and UTF-8 has no bytes for it."""
    return text.encode("utf-8", "replace").decode()


def text_lines(
    reader: Any,
    encoding: str | None = None,
    any_end: bool = False,
    longest: int = MAX_ROW_BYTES,
) -> Iterator[str]:
    """Lines of a buffered binary file, which stays open.

    Lines end at "\\n"; at "\\r" where the file has no "\\n" at all, as on old
    Macs.

    Args:
        encoding: None: what a byte-order mark says, else UTF-8.
        any_end: lines end at "\\r" and "\\r\\n" too, as the csv module has it.
        longest: a longer line comes as several, each of one character more.

    Raises:
        InputError: Python does not know the encoding.
        UnicodeError: the text does not have it.
    """
    start = reader.peek(4) if hasattr(reader, "peek") else reader.getvalue()
    marked = (n for m, n in BYTE_ORDER_MARKS.items() if start.startswith(m))
    encoding = encoding or next(marked, "utf-8")
    try:
        text = io.TextIOWrapper(
            reader,
            encoding,
            errors="surrogateescape",
            newline="" if any_end else "\n",
        )
    except LookupError as error:
        raise InputError(
            f"`encoding={encoding}` is not known ({error}); expected utf-8, "
            "utf-16, cp1252 or another of Python's text encodings"
        ) from error
    try:
        first = text.readline(longest + 1).removeprefix("\ufeff")
        if not any_end and len(first) <= longest and "\n" not in first:
            yield from io.StringIO(first, newline="\r")
        elif first:
            yield first
        yield from iter(lambda: text.readline(longest + 1), "")
    finally:
        text.detach()
