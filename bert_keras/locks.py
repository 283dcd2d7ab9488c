"""Folders and files that one process keeps for itself."""

import contextlib
import os
import threading
from collections.abc import Collection, Iterator

from bert_keras.errors import InputError

LOCK = "lock"  # of the file in a folder that is locked
# Locks by folder and thread, open until they are unlocked or the process ends
_held: dict[tuple[str, int], contextlib.AbstractContextManager[None]] = {}


@contextlib.contextmanager
def lock(folder: str, argument: str) -> Iterator[None]:
    """Keeps a folder for this process, as far as the file system can tell.

    A lock ends with its process, however that ends. Where there are none
    (Windows, gs:// and some network file systems) nothing is kept.

    Args:
        folder: made if it is not there.
        argument: that another folder could be named with.

    Raises:
        InputError: another process holds it.
    """
    if "://" in folder:
        yield
        return
    os.makedirs(folder, exist_ok=True)
    fault = (
        f"another process is working in {folder}; wait for its end, or name "
        f"another `{argument}`"
    )
    with kept(os.path.join(folder, LOCK), fault):
        yield


@contextlib.contextmanager
def kept(path: str, fault: str) -> Iterator[None]:
    """Makes a file and keeps it for this process; InputError(fault) where
    another process has it."""
    follow = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
    if os.path.islink(path) or os.path.isdir(path):
        kind = "link" if os.path.islink(path) else "folder"
        raise InputError(
            f"{path} is a {kind}; expected a file, or nothing: remove it"
        )
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | follow, 0o666)
    try:
        try:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(fault) from error
        except (ImportError, OSError):
            pass
        yield
    finally:
        os.close(descriptor)


def lock_until_exit(folder: str, argument: str) -> None:
    """Keeps a folder as `lock` does, for this thread, until it is unlocked or
    the process ends."""
    key = os.path.realpath(folder), threading.get_ident()
    if key not in _held:
        held = lock(folder, argument)
        held.__enter__()
        _held[key] = held


def held() -> set[tuple[str, int]]:
    """What `lock_until_exit` holds."""
    return {*_held}


def unlock(before: Collection[tuple[str, int]]) -> None:
    """Undoes what `lock_until_exit` did in this thread, except what was held
    before."""
    for path, thread in held() - {*before}:
        if thread == threading.get_ident():
            _held.pop((path, thread)).__exit__(None, None, None)
