"""Standard input, output and error: no run ends because of them.

A reader may go away (`| head`, a closed terminal), the disk of a log may fill,
one of the three may be closed from the start, or show few characters.
"""

import errno
import io
import os
import sys
from typing import Any

from bert_keras.errors import InputError


class _Forgiving(io.FileIO):
    """Writes to a descriptor until that fails; then nowhere."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            self.failure = error
            _to_nowhere(self.fileno())  # TensorFlow writes there, too
            return len(data)


def _to_nowhere(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def prepare() -> None:
    """Call it first of all. Where an error cannot be shown it changes nothing;
    characters that a terminal has not are shown as \\u6d77."""
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
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=own.encoding if own else "utf-8",
            errors="backslashreplace",
            line_buffering=raw.isatty() or name == "stderr",
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
