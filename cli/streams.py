"""Standard input, output and error: no run ends because of them.

A reader may go away (`| head`, a closed terminal), the disk of a log may fill,
one of the three may be closed from the start, or show few characters.
"""

import errno
import io
import os
import re
import sys
from typing import Any

from bert_keras.errors import InputError

# Characters that command a terminal or turn around what follows them; \r only
# inside of what is written, as a progress bar begins its line anew by it.
COMMANDING = re.compile(
    r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
    r"|(?<=[^\n])\r"
)


class _Forgiving(io.FileIO):
    """Writes to a descriptor until that fails; then nowhere."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            self.failure = error
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, self.fileno())  # TensorFlow writes there, too
            os.close(nowhere)
            return len(data)


class _Terminal(io.TextIOWrapper):
    """Shows what is in names and texts, and obeys none of it."""

    def write(self, text: str) -> int:
        shown = COMMANDING.sub(lambda found: ascii(found[0])[1:-1], text)
        return super().write(shown)


def prepare() -> None:
    """Call it first of all. Where an error cannot be shown it changes nothing;
    characters that a terminal has not, or would obey, are shown as \\u6d77.
    """
    os.environ.setdefault("PYTHON_COLORS", "0")  # of tracebacks
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # it was closed; the lowest free number is taken
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115 (for good)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        own = getattr(sys, f"__{name}__")
        if getattr(sys, name) is not own:
            continue  # a notebook's, a test's, or prepared already
        if own is not None:
            own.flush()
        raw = _Forgiving(descriptor, "w", closefd=False)
        kind = _Terminal if raw.isatty() else io.TextIOWrapper
        stream = kind(
            io.BufferedWriter(raw),
            encoding=own.encoding if own else "utf-8",
            errors="backslashreplace",
            # Both in one log: lines come in the order in which they are said.
            line_buffering=raw.isatty()
            or name == "stderr"
            or os.path.sameopenfile(1, 2),
        )
        setattr(sys, name, stream)


def output_is_read() -> bool:
    """Whether what is printed has somebody who reads it.

    Raises:
        InputError: it cannot be written, as on a full disk.
    """
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    failure = getattr(raw, "failure", None)
    if failure is None:
        return True
    if failure.errno == errno.EPIPE:
        return False
    raise InputError(f"cannot write standard output: {failure.strerror}")
