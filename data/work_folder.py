"""The folder where create_pretraining_data.py keeps what is finished.

The same command, run again, takes it from there. When all is done, the folder
says with which vocabulary and settings the records were made.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from bert_keras import files, locks
from bert_keras.errors import InputError

SETTINGS, DONE = "settings.json", "done.json"
# Names of files in the folder, whole ones and unfinished
OWN = re.compile(r"\.?(span|part|records|output)-|\.?(settings|done)\.json")
read_json = functools.partial(
    files.read_json, advice="delete its folder to begin anew"
)


def path_beside(output_file: str) -> str:
    """The folder's path. It is on this machine even if the output is not; its
    name then tells outputs of one name apart."""
    folder, name = os.path.split(output_file)
    if "://" in folder:
        folder, name = "", f"{name}-{zlib.crc32(output_file.encode()):08x}"
    return os.path.join(folder, f".{name}.making")


@contextlib.contextmanager
def open_or_resume(folder: str, settings: Mapping[str, Any]) -> Iterator[bool]:
    """Makes the folder or resumes what is in it, for this process alone.

    Yields whether anything is left to do.

    Args:
        settings: of JSON's types; the names are those of flags. With others
            the work would come out otherwise.

    Raises:
        InputError: another process is at it, or what is in the folder was made
            with other settings.
    """
    if os.path.islink(folder):  # in /tmp anybody could have made it
        raise InputError(
            f"{folder} is a link, and a folder of this name is needed for what "
            "is finished; remove the link, or name other output files"
        )
    with locks.lock(folder, "output_file"):
        path = os.path.join(folder, SETTINGS)
        if not os.path.exists(path):
            _empty(folder, locks.LOCK)  # left of one that was deleted
            files.write_json(path, settings)
        found = read_json(path)
        if settings.keys() - found.keys():
            raise InputError(
                f"{folder} was made by an earlier version, which did not store "
                "all that has to be the same; delete the folder to begin anew, "
                "or name other output files"
            )
        changed = [n for n in settings if found[n] != settings[n]]
        if changed:
            names = [name.removesuffix("'s digests") for name in changed]
            raise InputError(
                f"{folder} holds what was made for the same `output_file` with "
                f"other `{'`, `'.join(names)}`; delete the folder to begin "
                "anew, or name other output files"
            )
        yield not os.path.exists(os.path.join(folder, DONE))


def finish(folder: str, outputs: Mapping[str, Any]) -> None:
    """Empties the folder, except for what says that all is done, and what by
    path identifies each file that was made."""
    files.write_json(os.path.join(folder, DONE), outputs)
    _empty(folder, locks.LOCK, SETTINGS, DONE)


def digest_of_files(vocab_file: str) -> str:
    """Tells a vocabulary's files from others."""
    found = b"".join(files.vocabulary_contents(vocab_file).values())
    return hashlib.sha256(found).hexdigest()


def discard(folder: str) -> None:
    """Deletes it, so that whatever is left of it counts for nothing."""
    if os.path.islink(folder):
        return
    files.remove(os.path.join(folder, SETTINGS))
    shutil.rmtree(folder, ignore_errors=True)


def _empty(folder: str, *kept: str) -> None:
    for name in os.listdir(folder):
        if name not in kept and OWN.match(name):
            os.remove(os.path.join(folder, name))
