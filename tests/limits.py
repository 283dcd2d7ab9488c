"""A limit of time, for what took minutes when it was quadratic."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Fails if the block takes longer, of this process's own time."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"it has taken more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
