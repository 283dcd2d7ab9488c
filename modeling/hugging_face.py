"""Hugging Face's model folders, read and written.

Files: config.json, model.safetensors (or several, with an index), a vocabulary
and tokenizer_config.json. The safetensors library reads; a pickle is never
opened.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from bert_keras.errors import InputError, warn
from bert_keras.files import (
    beside,
    copy_vocabulary,
    write_json,
    write_whole,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.hugging_face_weights import (
    CLASSIFIER,
    INDEX,
    SAFETENSORS,
    WEIGHTS,
    architecture_of,
    write_safetensors,
)

if TYPE_CHECKING:
    from bert_keras.modeling.checkpoint import VariableMapping

# Google's folder and Hugging Face's.
CONFIG = "bert_config.json"
HUGGING_FACE_CONFIG = "config.json"
PICKLES = (".bin", ".pt", ".pth", ".pkl")


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


def save_hugging_face_folder(
    folder: str,
    config: BertConfig,
    variables: Sequence["VariableMapping"],
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
        classifier: CLASSIFIER, CHOICE or TAGGER of hugging_face_weights.py:
            what a head at the root is for.
        tokenizer_files: texts of the tokenizer's other files, by name.
    """
    import tensorflow as tf

    tf.io.gfile.makedirs(folder)
    names = {variable.name for variable in variables}
    architecture = architecture_of(names, config.family, classifier)
    write_safetensors(
        os.path.join(folder, WEIGHTS), variables, config.family, architecture
    )
    values = {**config.to_hugging_face(), "architectures": [architecture]}
    shapes = {variable.name: variable.shape for variable in variables}
    if "output_bias" in shapes:
        num_classes = shapes["output_bias"][0]
        if labels and len(labels) != num_classes:
            raise InputError(
                f"the classifier has {num_classes} outputs and {len(labels)} "
                f"labels, {', '.join(labels)}; expected as many"
            )
        labels = labels or [f"LABEL_{i}" for i in range(num_classes)]
        values["id2label"] = {str(i): name for i, name in enumerate(labels)}
        values["label2id"] = {name: i for i, name in enumerate(labels)}
        values["problem_type"] = problem_type
    write_json(os.path.join(folder, HUGGING_FACE_CONFIG), values)
    if vocab_file is not None:
        copy_vocabulary(vocab_file, folder)
    for name, text in tokenizer_files.items():
        write_whole(os.path.join(folder, name), text.encode())
