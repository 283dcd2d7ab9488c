"""One process at a time in a folder, as far as the file system can tell."""

import contextlib
import os
from collections.abc import Iterator

from input_error import InputError


@contextlib.contextmanager
def hold(folder: str, flag: str) -> Iterator[None]:
    """Keeps a folder for this process; the end of the process ends that too.

    Where there are no locks (Windows, gs:// and some network file systems)
    nothing is kept.

    Args:
        folder: made if it is not there.
        flag: that another folder could be named with.

    Raises:
        InputError: another process holds it.
    """
    with contextlib.ExitStack() as stack:
        if "://" not in folder:
            os.makedirs(folder, exist_ok=True)
            with contextlib.suppress(ImportError):
                _lock(folder, flag, stack)
        yield


def _lock(folder: str, flag: str, stack: contextlib.ExitStack) -> None:
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(
            f"another process is working in {folder}; wait for its end, or "
            f"name another {flag}"
        ) from error
    except OSError:  # a file system without locks
        return
