"""The one error that commands print as a sentence instead of a traceback; and
warnings, which are printed alike."""

import functools
import sys

MAX_SENTENCE = 2000  # characters


class InputError(ValueError):
    """Bad input from a person: a file, a flag or a combination of them.

    The message is one sentence that says what was found, what was expected
    and which flag or file to change. `command.run` prints it and exits with 1.
    """


def first_line(error: Exception) -> str:
    """Of what another library says, to be part of that sentence."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def warn(sentence: str) -> None:
    """Prints a warning on standard error; nobody has to act on it."""
    print(f"WARNING: {one_line(sentence)}", file=sys.stderr, flush=True)


@functools.cache  # a process reads a model's files several times
def say_once(sentence: str) -> None:
    """Prints on standard error what was assumed or overridden."""
    print(one_line(sentence), file=sys.stderr, flush=True)


def one_line(sentence: str) -> str:
    """The sentence without control characters, and not too long: it may hold
    names from files that anyone may have written."""
    words = " ".join(sentence.split())
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in words)
    if len(shown) > MAX_SENTENCE:
        half = MAX_SENTENCE // 2
        shown = f"{shown[:half]} ... {shown[-half:]}"
    return shown
