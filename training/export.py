"""A SavedModel with named signatures, as TensorFlow Serving takes it, or a file
of TensorFlow Lite, now LiteRT.

Knows nothing of BERT: it is given functions of tensors, what they read, and
files that go along. TensorFlow Serving looks into a folder for sub-folders
that are numbers and serves the largest, so that a version appears here only
when it is whole.
"""

import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.files import atomic

Tensors = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Signature:
    """Tensors by name, each [B, ...], to tensors by name, each [B, ...]."""

    function: Callable[[Tensors], Tensors]
    inputs: Mapping[str, tf.TensorSpec]


def version_folder(export_dir: str, version: int) -> str:
    """Where the version goes.

    Raises:
        InputError: it is there already.
    """
    folder = os.path.join(export_dir, str(version))
    if tf.io.gfile.exists(folder):
        raise InputError(
            f"{folder} exists, and a server may be reading it; give another "
            "`version` or `export_dir`"
        )
    return folder


def write_saved_model(
    folder: str,
    signatures: Mapping[str, Signature],
    resources: Sequence[Any],
    assets: Mapping[str, bytes],
) -> None:
    """Writes a SavedModel that answers without this program.

    Args:
        folder: of the version; it must not exist.
        signatures: by name; "serving_default" is asked where none is named.
        resources: variables, tables and modules that the functions read.
        assets: contents of files, by name.
    """
    module = tf.Module()
    module.resources = list(resources)
    functions = {
        name: _trace(signature) for name, signature in signatures.items()
    }
    module.assets = []
    try:
        tf.io.gfile.makedirs(os.path.dirname(folder) or ".")
        with (
            atomic(folder) as unfinished,
            tempfile.TemporaryDirectory() as place,
        ):
            for name, content in assets.items():
                path = os.path.join(place, name)
                with open(path, "wb") as file:
                    file.write(content)
                module.assets.append(tf.saved_model.Asset(path))
            tf.saved_model.save(module, unfinished, functions)
    except (OSError, tf.errors.OpError) as error:
        raise InputError(
            f"cannot write {folder}: "
            f"{getattr(error, 'message', '') or error}; check `export_dir`, or "
            "TMPDIR if that is where it is"
        ) from error


def to_tflite(
    signatures: Mapping[str, Signature],
    resources: Sequence[Any],
    weights: str,
    allows_tensorflow: bool,
) -> bytes:
    """The content of a .tflite file.

    Args:
        signatures, resources: as in `write_saved_model`.
        weights: float32, float16 or int8. With int8 matrices are rounded, and
            products are made of whole numbers; what flows between them stays
            float32 ("dynamic range").
        allows_tensorflow: whether operations that TensorFlow Lite lacks are
            kept, for runtimes that have those of TensorFlow ("Flex").
    """
    with tempfile.TemporaryDirectory() as place:
        folder = os.path.join(place, "saved_model")
        write_saved_model(folder, signatures, resources, {})
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=list(signatures)
        )
        if weights != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if weights == "float16":
            converter.target_spec.supported_types = [tf.float16]
        if allows_tensorflow:
            converter.target_spec.supported_ops = [
                tf.lite.OpsSet.TFLITE_BUILTINS,
                tf.lite.OpsSet.SELECT_TF_OPS,
            ]
        return converter.convert()


def _trace(signature: Signature) -> Any:
    """The function with its inputs as arguments, named as they are."""

    def call(**inputs: tf.Tensor) -> Tensors:
        return signature.function(inputs)

    return tf.function(call, autograph=False).get_concrete_function(
        **signature.inputs
    )
