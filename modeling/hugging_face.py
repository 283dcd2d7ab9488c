"""Hugging Face's model folders, read and written.

Files: config.json, model.safetensors (or several, with an index), a vocabulary
and tokenizer_config.json. The safetensors library reads; a pickle is never
opened.
"""

import dataclasses
import functools
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import ml_dtypes  # noqa: F401 (gives NumPy the dtype bfloat16)
import numpy as np

from bert_keras.errors import InputError, warn
from bert_keras.files import (
    beside,
    copy_vocabulary,
    write_json,
    write_whole,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.hugging_face_names import (
    CLASSIFIER,
    architecture_of,
    family_of,
    google_name,
    has_place,
    hugging_face_name,
)
from bert_keras.modeling.safetensors_files import (
    INDEX,
    SAFETENSORS,
    WEIGHTS,
    open_files,
    weights_file,
)

# Google's folder and Hugging Face's.
CONFIG = "bert_config.json"
HUGGING_FACE_CONFIG = "config.json"
PICKLES = (".bin", ".pt", ".pth", ".pkl")

# The output layer's second names, in files that have them: Google's names for
# what they must equal.
_TIED = {
    "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
    "lm_head.decoder.weight": "bert/embeddings/word_embeddings",
    "lm_head.decoder.bias": "cls/predictions/output_bias",
    "vocab_projector.weight": "bert/embeddings/word_embeddings",
}
_BUFFERS = ("position_ids", "token_type_ids")  # 0, 1, 2 ... and zeros


class Safetensors:
    """The tensors of a folder or a file, by Google's names where it has one.

    Opening reads the headers; `read` copies one tensor.
    """

    def __init__(self, path: str):
        """Raises InputError where a file is absent or damaged."""
        self.source = weights_file(path)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._places: dict[str, tuple[Any, str]] = {}  # file, name in it
        self._twins: dict[str, tuple[Any, str]] = {}  # by Google's name
        names = []
        for file in open_files(self.source):
            for name in file.keys():  # noqa: SIM118 (it is no dictionary)
                self._add(file, name)
                names.append(name)
        self.family = family_of(names)
        for google, place in self._twins.items():
            self._places.setdefault(google, place)
        for google, (file, name) in self._places.items():
            shape = file.get_slice(name).get_shape()
            is_kernel = google.endswith("/kernel")
            self.shapes[google] = tuple(shape[::-1] if is_kernel else shape)

    def _add(self, file: Any, name: str) -> None:
        if name in _TIED:
            self._twins[_TIED[name]] = file, name
        elif not name.endswith(_BUFFERS):
            self._places[google_name(name) or name] = file, name

    def read(self, google: str) -> np.ndarray:
        """float32, with the axes of Google's variable."""
        value = self._array(*self._places[google])
        if google == "cls/predictions/output_bias":
            self._check_twins()
        return value.T if google.endswith("/kernel") else value

    def _array(self, file: Any, name: str) -> np.ndarray:
        dtype = file.get_slice(name).get_dtype()
        if dtype not in ("F64", "F32", "F16", "BF16"):
            raise InputError(
                f"{self.source} holds {name} as {dtype}; expected F32, F16 or "
                "BF16, so save the model again in one of these"
            )
        return file.get_tensor(name).astype(np.float32, copy=False)

    def _check_twins(self) -> None:
        """Here, as in Google's, the output layer is the embedding table."""
        for google, twin in self._twins.items():
            place = self._places[google]
            if not np.array_equal(self._array(*twin), self._array(*place)):
                raise InputError(
                    f"{self.source} has another {twin[1]} than {place[1]}; "
                    "an output layer of its own is not supported"
                )


def refuse_pickle(path: str) -> None:
    """Raises an InputError if `path` is one, or a folder with nothing else."""
    import tensorflow as tf

    names = [path]
    if tf.io.gfile.isdir(path):
        names = [os.path.join(path, n) for n in tf.io.gfile.listdir(path)]
    pickles = [name for name in sorted(names) if name.endswith(PICKLES)]
    if pickles:
        raise InputError(
            f"{pickles[0]} is a pickle, which runs whatever code is in it and "
            "is never opened here; save the model as safetensors, in "
            "transformers by model.save_pretrained(folder)"
        )


def is_hugging_face(path: str) -> bool:
    """Whether `path` means safetensors.

    A folder that has Google's checkpoint too means that one.
    """
    import tensorflow as tf

    if not tf.io.gfile.isdir(path):
        return path.endswith((SAFETENSORS, INDEX))
    names = tf.io.gfile.listdir(path)
    return (WEIGHTS in names or INDEX in names) and not any(
        name.endswith(".ckpt.index") for name in names
    )


def model_config_file(path: str) -> str | None:
    """The config beside the weights that `path` names.

    Returns:
        The path of bert_config.json or config.json; None where neither is.
    """
    names = [CONFIG, HUGGING_FACE_CONFIG]
    if is_hugging_face(path):
        names.reverse()
    found = [file for name in names if (file := beside(path, [name]))]
    if len(found) == 2:
        _warn_of_difference(*found)
    return found[0] if found else None


@functools.cache  # once for each folder
def _warn_of_difference(config_file: str, other_file: str) -> None:
    """Warns if two configs in one folder disagree."""
    if "://" in config_file:
        return
    try:
        config = BertConfig.from_json_file(config_file)
        other = BertConfig.from_json_file(other_file)
    except InputError:  # which is raised again where the first is read
        return
    differences = [
        f"{field.name} ({getattr(config, field.name)}, not "
        f"{getattr(other, field.name)})"
        for field in dataclasses.fields(BertConfig)
        if field.name != "other"
        and getattr(config, field.name) != getattr(other, field.name)
    ]
    if differences:
        warn(
            f"{config_file} is used, which goes with the weights beside it, "
            f"and not {os.path.basename(other_file)}; they differ in "
            f"{', '.join(differences)}"
        )


class Variable(Protocol):
    """What is written: conversion.Binding has this form."""

    @property
    def name(self) -> str: ...  # Google's

    @property
    def shape(self) -> tuple[int, ...]: ...

    def read(self) -> np.ndarray: ...


def save_hugging_face_folder(
    folder: str,
    config: BertConfig,
    variables: Sequence[Variable],
    vocab_file: str | None,
    labels: Sequence[str] = (),
    problem_type: str | None = None,
    classifier: str = CLASSIFIER,
    tokenizer_files: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Writes what transformers' AutoModel and AutoTokenizer load.

    config.json, model.safetensors, the vocabulary's files, `tokenizer_files`.

    Args:
        variables: an encoder's and its heads'; which heads there are says
            which class of transformers the folder is for.
        labels: of a classifier's outputs; () for none known.
        problem_type: of a classifier, by transformers' names:
            single_label_classification, multi_label_classification, regression.
        classifier: CLASSIFIER, CHOICE or TAGGER of hugging_face_names.py: what
            a head at the root is for.
        tokenizer_files: texts of the tokenizer's other files, by name.
    """
    import tensorflow as tf

    tf.io.gfile.makedirs(folder)
    names = {variable.name for variable in variables}
    architecture = architecture_of(names, config.family, classifier)
    tensors = [
        _tensor(variable, config.family, architecture)
        for variable in variables
        if has_place(variable.name, architecture)
    ]
    _write_safetensors(os.path.join(folder, WEIGHTS), tensors)
    values = {
        **config.to_hugging_face(),
        "architectures": [architecture],
        **_classes(variables, labels, problem_type),
    }
    write_json(os.path.join(folder, HUGGING_FACE_CONFIG), values)
    if vocab_file is not None:
        copy_vocabulary(vocab_file, folder)
    for name, text in tokenizer_files.items():
        write_whole(os.path.join(folder, name), text.encode())


def _classes(
    variables: Sequence[Variable],
    labels: Sequence[str],
    problem_type: str | None,
) -> dict[str, Any]:
    """What config.json says of a classifier's outputs."""
    shapes = {variable.name: variable.shape for variable in variables}
    if "output_bias" not in shapes:
        return {}
    numbers = range(shapes["output_bias"][0])
    if labels and len(labels) != len(numbers):
        raise InputError(
            f"the classifier has {len(numbers)} outputs and {len(labels)} "
            f"labels, {', '.join(labels)}; expected as many"
        )
    names = list(labels) or [f"LABEL_{number}" for number in numbers]
    return {
        "id2label": {str(i): names[i] for i in numbers},
        "label2id": {names[i]: i for i in numbers},
        "problem_type": problem_type,
    }


class _Tensor(NamedTuple):
    """A variable under its Hugging Face name; `read` when it is written."""

    name: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


def _tensor(variable: Variable, family: str, architecture: str) -> _Tensor:
    name = hugging_face_name(variable.name, family, architecture)
    if variable.name.endswith("/kernel"):
        shape = variable.shape[::-1]
        return _Tensor(name, shape, lambda: variable.read().T)
    return _Tensor(name, variable.shape, variable.read)


def _write_safetensors(path: str, tensors: Sequence[_Tensor]) -> None:
    """One tensor at a time: the library's writer wants them all at once.

    The format: the header's length in 8 bytes, the header, the tensors.
    """
    import tensorflow as tf

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape, _ in tensors:
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {
            "dtype": "F32",
            "shape": shape,
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8
    with tf.io.gfile.GFile(path + ".incomplete", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            file.write(np.ascontiguousarray(tensor.read(), "<f4").tobytes())
    tf.io.gfile.rename(path + ".incomplete", path, overwrite=True)
