"""A folder of what a command has finished, so that the same command goes on."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from bert_keras import files
from bert_keras.errors import InputError

SETTINGS, DONE = "settings.json", "done.json"


@contextlib.contextmanager
def open_or_resume(folder: str, settings: Mapping[str, Any]) -> Iterator[bool]:
    """Makes the folder or takes it up, for this process alone.

    Yields whether anything is left to do.

    Args:
        settings: of JSON's types; the names are those of flags. With others
            the work would come out otherwise.

    Raises:
        InputError: another process is at it, or what is in the folder was made
            with other settings.
    """
    with files.lock(folder, "output_file"):
        path = os.path.join(folder, SETTINGS)
        if not os.path.exists(path):
            _empty(folder, files.LOCK)  # left of one that was deleted
            write_json(path, settings)
        _check(folder, read_json(path), settings)
        yield not os.path.exists(os.path.join(folder, DONE))


def finish(folder: str, outputs: Mapping[str, str]) -> None:
    """Empties the folder, except for what says that all is done.

    Args:
        outputs: by path, what identifies the file that was made.
    """
    write_json(os.path.join(folder, DONE), outputs)
    _empty(folder, files.LOCK, SETTINGS, DONE)


def discard(folder: str) -> None:
    """Deletes it, so that whatever is left of it counts for nothing."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(folder, SETTINGS))
    shutil.rmtree(folder, ignore_errors=True)


def write_json(path: str, content: Any) -> None:
    """The file appears whole or not at all."""
    with open(f"{path}.incomplete", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.incomplete", path)


def read_json(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _check(
    folder: str, found: dict[str, Any], settings: Mapping[str, Any]
) -> None:
    if settings.keys() - found.keys():
        raise InputError(
            f"{folder} was made by an earlier version, which did not store all "
            "that has to be the same; delete the folder to begin anew, or name "
            "other output files"
        )
    names = [f"`{n}`" for n in settings if found[n] != settings[n]]
    if names:
        raise InputError(
            f"{folder} holds what was made for the same `output_file` with "
            f"other {', '.join(names)}; delete the folder to begin anew, or "
            "name other output files"
        )


def _empty(folder: str, *kept: str) -> None:
    for name in os.listdir(folder):
        if name not in kept:
            os.remove(os.path.join(folder, name))
