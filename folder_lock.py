"""One process at a time in a folder, as far as the file system can tell.

A lock ends with its process, however that ends. Where there are none (Windows,
gs:// and some network file systems) nothing is kept.
"""

import contextlib
import os
from collections.abc import Iterator

from input_error import InputError

NAME = "lock"  # of the file in the folder that is locked
_held: dict[str, int | None] = {}  # by folder: open as long as the process is


@contextlib.contextmanager
def hold(folder: str, flag: str) -> Iterator[None]:
    """Keeps a folder for this process.

    Args:
        folder: made if it is not there.
        flag: that another folder could be named with.

    Raises:
        InputError: another process holds it.
    """
    descriptor = _lock(folder, flag)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def hold_to_the_end(folder: str, flag: str) -> None:
    """The same until this process ends."""
    if folder not in _held:
        _held[folder] = _lock(folder, flag)


def _lock(folder: str, flag: str) -> int | None:
    if "://" in folder:
        return None
    os.makedirs(folder, exist_ok=True)
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = os.open(os.path.join(folder, NAME), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InputError(
            f"another process is working in {folder}; wait for its end, or "
            f"name another {flag}"
        ) from error
    except OSError:
        pass
    return descriptor
