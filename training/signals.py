"""SIGTERM and SIGINT: a run that is asked to stop saves its state first."""

import signal
import sys
from types import FrameType, TracebackType


class StopRequest:
    """While it is entered, a first signal is noted for the run to see. One that
    it has not seen in the end takes effect then.

    A second one ends the process at once. The exit code is the shell's for
    that signal, 128 more than its number.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    def __enter__(self) -> "StopRequest":
        self._handlers = {
            number: signal.signal(number, self._note)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if kind is None and self.number is not None:
            name = signal.Signals(self.number).name
            _end(self.number, f"stopped by {name} after the last step")

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            sys.exit(128 + number)
        self.number = number

    def exit_if_requested(self, step: int) -> None:
        """Ends the process, which was asked to, or another host's was; call
        when `step` is saved."""
        number = self.number or signal.SIGTERM
        name = signal.Signals(number).name
        by = name if self.number else f"{name} to another host"
        _end(number, f"stopped by {by} after step {step}")


def _end(number: int, what: str) -> None:
    print(
        f"{what}, which is saved; the same command goes on from there",
        file=sys.stderr,
    )
    sys.exit(128 + number)
