"""The .safetensors files of a folder, and the names of what is in them."""

import json
import os
from typing import Any

from safetensors import SafetensorError, safe_open

from bert_keras.errors import InputError

SAFETENSORS = ".safetensors"
WEIGHTS = f"model{SAFETENSORS}"
INDEX = f"{WEIGHTS}.index.json"  # which tensor is in which of several files


def tensor_names(folder: str) -> list[str]:
    """The names of all tensors in a folder; [] without any."""
    if not any(
        os.path.exists(os.path.join(folder, name)) for name in (WEIGHTS, INDEX)
    ):
        return []
    files = open_files(weights_file(folder))
    return [name for file in files for name in file.keys()]  # noqa: SIM118


def weights_file(path: str) -> str:
    """The path itself, or the weights in a folder, or their index."""
    if "://" in path:
        raise InputError(
            f"{path} is not on this machine: safetensors are read from local "
            "disks only; copy the folder and name the copy"
        )
    if not os.path.isdir(path):
        return path
    whole = os.path.join(path, WEIGHTS)
    return whole if os.path.exists(whole) else os.path.join(path, INDEX)


def open_files(path: str) -> list[Any]:
    """Opens a .safetensors file, or each that an index names."""
    if not path.endswith(INDEX):
        return [_open(path)]
    try:
        with open(path, encoding="utf-8") as file:
            names = sorted(set(json.load(file)["weight_map"].values()))
        if not names:
            raise ValueError("it names no file")
        paths = [_inside(os.path.dirname(path), name) for name in names]
    except (
        OSError, ValueError, TypeError, LookupError, AttributeError,
        RecursionError,
    ) as error:  # fmt: skip
        raise _unreadable(path, error) from error
    return [_open(name) for name in paths]


def _inside(folder: str, name: str) -> str:
    """The path of a file of that folder, whatever an index says."""
    if os.path.basename(name) != name:
        raise ValueError(f"it names {name!r}, which is not in its folder")
    return os.path.join(folder, name)


def _open(path: str) -> Any:
    try:
        return safe_open(path, framework="np")
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> InputError:
    return InputError(
        f"{path} cannot be read ({error}); expected whole safetensors"
    )
