"""Errors and warnings: one sentence about a value or a file.

`name` or `name=value` in a sentence is an argument. A Python program reads it
as it is; a command shows the flag of that name in its place.
"""

import functools
import os
import re
import sys
import textwrap

MAX_SENTENCE = 2000  # characters
MAX_COLUMNS = 100  # of a line in a terminal
ARGUMENT = re.compile(r"`([a-z][a-z0-9_]*('s \w+)?)(?:=([^`]*))?`")
_shows_flags = False
_uses_tensorflow: int | None = None  # the process that was the first to


class InputError(ValueError):
    """Bad input from a person: a file, an argument or a combination of them.

    The message is one sentence that says what was found, what was expected
    and what to change. A command prints it and exits with 1.

    Examples:
        >>> try:
        ...     bert_keras.load("nowhere")
        ... except bert_keras.InputError as error:
        ...     print(error)
        nowhere does not exist; expected a model folder
    """

    def __init__(self, sentence: str):
        super().__init__("\n".join(map(printable, sentence.split("\n"))))


def refuse_fork() -> None:
    """Raises an InputError in a process that was forked after its parent had
    computed: it has TensorFlow's locks, but not the threads that hold them."""
    global _uses_tensorflow
    _uses_tensorflow = _uses_tensorflow or os.getpid()
    if _uses_tensorflow != os.getpid():
        raise InputError(
            "this process was forked from one that had loaded or trained a "
            "model, and TensorFlow would wait in it for ever; start processes "
            "by spawn, or load models after the fork alone"
        )


def printable(text: str) -> str:
    """The text with escapes for control characters, which may be in names from
    files that anyone may have written."""
    return "".join(
        c if c.isprintable() or (c.isspace() and c > "\x9f") else ascii(c)[1:-1]
        for c in text
    )


def first_line(error: Exception) -> str:
    """The first line of another library's error, to quote in a sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def warn(sentence: str) -> None:
    """Prints a warning on standard error; nobody has to act on it."""
    _show(f"WARNING: {one_line(sentence)}")


@functools.cache  # a process reads a model's files several times
def say_once(sentence: str) -> None:
    """Prints on standard error what was assumed or overridden."""
    _show(one_line(sentence))


def _show(line: str) -> None:
    """Prints the line, in a terminal as several that are short enough."""
    if sys.stderr is not None and sys.stderr.isatty():
        line = textwrap.fill(
            line,
            MAX_COLUMNS,
            subsequent_indent="  ",
            break_long_words=False,  # paths and flags are copied
            break_on_hyphens=False,
        )
    print(line, file=sys.stderr, flush=True)


def one_line(sentence: str) -> str:
    """The sentence on one line, without control characters and not too
    long."""
    shown = printable(" ".join(with_flags(sentence).split()))
    if len(shown) > MAX_SENTENCE:
        half = MAX_SENTENCE // 2
        shown = f"{shown[:half]} ... {shown[-half:]}"
    return shown


def show_flags(shows: bool = True) -> None:
    """From now on, arguments in sentences are shown as a command's flags."""
    global _shows_flags
    _shows_flags = shows


def with_flags(sentence: str) -> str:
    """The sentence with flags for arguments, in a command.

    >>> show_flags()
    >>> with_flags("give `init_checkpoint`, or lower `seed=3`")
    'give --init_checkpoint, or lower --seed=3'
    >>> with_flags("leave out `has_header=False`")
    'leave out --nohas_header'
    """
    if not _shows_flags:
        return sentence

    def flag(found: re.Match[str]) -> str:
        name, value = found[1], found[3]
        if value in ("True", "False"):
            return f"--{'no' * (value == 'False')}{name}"
        return f"--{name}" if value is None else f"--{name}={value}"

    return ARGUMENT.sub(flag, sentence)
