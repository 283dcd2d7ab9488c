"""Hugging Face's model folders, and what lies beside weights of either kind.

Files: config.json, model.safetensors (or several, with an index), vocab.txt
and tokenizer_config.json, as transformers writes them.
"""

import os
from collections.abc import Iterable

# Google's folder and Hugging Face's.
CONFIG = "bert_config.json"
HUGGING_FACE_CONFIG = "config.json"
VOCABULARY = "vocab.txt"
SAFETENSORS = ".safetensors"
WEIGHTS = f"model{SAFETENSORS}"
INDEX = f"{WEIGHTS}.index.json"  # which tensor is in which of several files


def is_hugging_face(path: str) -> bool:
    """Whether --init_checkpoint=`path` means safetensors.

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
    """The config beside the weights that --init_checkpoint=`path` names.

    Returns:
        The path of bert_config.json or config.json; None where neither is.
    """
    names = [CONFIG, HUGGING_FACE_CONFIG]
    return _beside(path, reversed(names) if is_hugging_face(path) else names)


def vocabulary_file(path: str) -> str | None:
    """The vocab.txt beside the weights that `path` names, or None."""
    return _beside(path, [VOCABULARY])


def _beside(path: str, names: Iterable[str]) -> str | None:
    import tensorflow as tf

    folder = path if tf.io.gfile.isdir(path) else os.path.dirname(path)
    candidates = (os.path.join(folder, name) for name in names)
    return next((c for c in candidates if tf.io.gfile.exists(c)), None)
