"""A model's weights from and to checkpoints, by Google's names.

A binding ties one variable of Google's model to the variable here that holds
it, whole or as a block of columns. Everything that reads or writes weights is
a walk over bindings; a Hugging Face folder has its names translated
(hugging_face.py). Names: google-research/bert modeling.py and
run_pretraining.py, as listed by `tf.train.list_variables`.
"""

import contextlib
import dataclasses
import os
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import keras
import numpy as np

from bert_keras.errors import InputError, first_line
from bert_keras.files import (
    BYTE_LEVEL,
    MERGES,
    VOCABULARY,
    copy_vocabulary,
    vocabulary_files,
    write_whole,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder, TransformerLayer
from bert_keras.modeling.heads import LinearHead, MaskedLmHead
from bert_keras.modeling.hugging_face import (
    CONFIG,
    is_hugging_face,
    refuse_pickle,
)
from bert_keras.modeling.hugging_face_weights import Safetensors

CHECKPOINT = "bert_model.ckpt"

# Where Google's checkpoints keep the variables of a linear head.
NEXT_SENTENCE = "cls/seq_relationship/"
CLASSIFIER = ""
SPAN = "cls/squad/"

WEIGHT_TYPES = ("float32", "float64", "float16", "bfloat16")

# What Google's optimiser keeps beside the weights in a training checkpoint.
TRAINING_STATE = ("/adam_m", "/adam_v", "global_step")


@dataclasses.dataclass(frozen=True)
class VariableMapping:
    """One variable of Google's model, found in one of ours."""

    name: str  # Google's
    variable: keras.Variable
    block: int = 0  # which block of equal width of the last axis ...
    num_blocks: int = 1  # ... out of how many
    family: str | None = None  # of the encoder, for its embeddings

    @property
    def shape(self) -> tuple[int, ...]:
        *rows, width = self.variable.shape
        return (*rows, width // self.num_blocks)

    def read(self) -> np.ndarray:
        blocks = np.split(self.variable.numpy(), self.num_blocks, axis=-1)
        return blocks[self.block]

    def write(self, value: np.ndarray) -> None:
        blocks = np.split(self.variable.numpy(), self.num_blocks, axis=-1)
        blocks[self.block] = value
        self.variable.assign(np.concatenate(blocks, axis=-1))


def encoder_mappings(encoder: Encoder) -> list[VariableMapping]:
    """Everything below "bert/"."""
    embeddings, root = encoder.embeddings, "bert/embeddings"
    mappings = [
        VariableMapping(f"{root}/{name}", table, family=encoder.config.family)
        for name, table in embeddings.tables.items()
    ]
    mappings += _layer_norm(root, embeddings.layer_norm)
    for i, layer in enumerate(encoder.layers):
        mappings += _layer_mappings(f"bert/encoder/layer_{i}", layer)
    return mappings + _dense("bert/pooler/dense", encoder.pooler.dense)


def masked_lm_mappings(head: MaskedLmHead) -> list[VariableMapping]:
    root = "cls/predictions"
    return [
        *_dense(f"{root}/transform/dense", head),
        *_layer_norm(f"{root}/transform", head.layer_norm),
        VariableMapping(f"{root}/output_bias", head.output_bias),
    ]


def linear_mappings(head: LinearHead, root: str) -> list[VariableMapping]:
    """`root` is one of NEXT_SENTENCE, CLASSIFIER and SPAN."""
    return [
        VariableMapping(f"{root}output_weights", head.output_weights),
        VariableMapping(f"{root}output_bias", head.output_bias),
    ]


def _layer_mappings(
    root: str, layer: TransformerLayer
) -> list[VariableMapping]:
    mappings = []
    for i, part in enumerate(("query", "key", "value")):
        name = f"{root}/attention/self/{part}"
        mappings += [
            VariableMapping(f"{name}/kernel", layer.attention.qkv_kernel, i, 3),
            VariableMapping(f"{name}/bias", layer.attention.qkv_bias, i, 3),
        ]
    for name, residual in (
        ("attention/output", layer.attention_output),
        ("output", layer.feed_forward_output),
    ):
        mappings += _dense(f"{root}/{name}/dense", residual)
        mappings += _layer_norm(f"{root}/{name}", residual.layer_norm)
    return mappings + _dense(f"{root}/intermediate/dense", layer.intermediate)


def _dense(name: str, layer: Any) -> list[VariableMapping]:
    return [
        VariableMapping(f"{name}/kernel", layer.kernel),
        VariableMapping(f"{name}/bias", layer.bias),
    ]


def _layer_norm(root: str, layer: Any) -> list[VariableMapping]:
    return [
        VariableMapping(f"{root}/LayerNorm/beta", layer.beta),
        VariableMapping(f"{root}/LayerNorm/gamma", layer.gamma),
    ]


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """Google's names, by what became of them.

    What is unused and unknown to Google has the name it has in its file.
    """

    source: str
    loaded: tuple[str, ...]
    missing: tuple[str, ...]  # in the model, not in the checkpoint
    unused: tuple[str, ...]  # in the checkpoint, not in the model

    def __str__(self) -> str:
        lines = [
            f"{self.source}: {len(self.loaded)} variables loaded, "
            f"{len(self.missing)} missing, {len(self.unused)} unused, "
            "0 mis-shaped"
        ]
        lines += [f"  missing, starts at random: {n}" for n in self.missing]
        lines += [f"  unused: {n}" for n in self.unused]
        return "\n".join(lines)


def resolve_checkpoint(path: str) -> str:
    """The checkpoint prefix that `path` means.

    Args:
        path: a model folder, a prefix, or any one file of the checkpoint.

    Raises:
        InputError: there is no checkpoint.
    """
    import tensorflow as tf

    prefix = path
    if tf.io.gfile.isdir(path):
        prefix = os.path.join(path, CHECKPOINT)
        if not tf.io.gfile.exists(prefix + ".index"):
            prefix = tf.train.latest_checkpoint(path) or prefix
    for ending in (".index", ".meta", ".data-00000-of-00001"):
        prefix = prefix.removesuffix(ending)
    if not tf.io.gfile.exists(prefix + ".index"):
        refuse_pickle(path)
        raise InputError(
            f"no checkpoint at {path} ({prefix}.index does not exist); "
            "`init_checkpoint` or `model_dir` must name a model folder, a "
            "checkpoint prefix or a Hugging Face folder with safetensors"
        )
    return prefix


class Weights(Protocol):
    """A checkpoint that is read variable by variable, by Google's names."""

    source: str  # its path
    family: str | None  # of config.FAMILIES; None: the names do not tell

    @property
    def shapes(self) -> Mapping[str, Sequence[int]]: ...

    def read(self, name: str) -> np.ndarray: ...


def open_weights(path: str) -> Weights:
    """What `path` means as an `init_checkpoint`: Hugging Face's or Google's.

    Raises:
        InputError: no such checkpoint, a damaged one, or a pickle.
    """
    if is_hugging_face(path):
        return Safetensors(path)
    return Checkpoint(path)


class Checkpoint:
    """Google's."""

    family: str | None = None

    def __init__(self, path: str):
        import tensorflow as tf

        self.source = resolve_checkpoint(path)
        with _as_input_error(self.source):
            self._reader = tf.train.load_checkpoint(self.source)
            self.shapes = self._reader.get_variable_to_shape_map()

    def read(self, name: str) -> np.ndarray:
        with _as_input_error(self.source):
            value = self._reader.get_tensor(name)
        if value.dtype.name not in WEIGHT_TYPES:
            raise InputError(
                f"{self.source} holds {name} as {value.dtype.name}; expected "
                f"one of {', '.join(WEIGHT_TYPES)}"
            )
        return value.astype(np.float32, copy=False)


@contextlib.contextmanager
def _as_input_error(prefix: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except (
        tf.errors.OpError, RuntimeError, IndexError, UnicodeDecodeError,
    ) as error:  # fmt: skip
        raise InputError(
            f"{prefix} cannot be read ({first_line(error)}); "
            "expected a whole checkpoint"
        ) from error


def load_checkpoint(
    mappings: Sequence[VariableMapping], path: str
) -> LoadReport:
    """Copies a checkpoint into the bound variables, one by one.

    Args:
        path: a model folder, a checkpoint prefix or one of its files; or a
            Hugging Face folder or .safetensors file.

    Raises:
        InputError: no such checkpoint, a damaged one, a pickle, a variable of
            another shape, or nothing of the encoder in it.
    """
    weights = open_weights(path)
    source, shapes = weights.source, weights.shapes
    for binding in mappings:
        if weights.family and binding.family not in (None, weights.family):
            raise InputError(
                f"{source} holds a {weights.family} but the config describes a "
                f"{binding.family}; give the weights' own config (its "
                f'"model_type", or the "family" of a bert_config.json, is '
                f"{weights.family!r})"
            )
    loaded = [binding for binding in mappings if binding.name in shapes]
    _check_shapes(source, loaded, shapes)
    for binding in loaded:
        binding.write(weights.read(binding.name))
    if not any(binding.name.startswith("bert/") for binding in loaded):
        raise InputError(
            f"{source} holds no variable of a BERT encoder (its first is "
            f"{min(shapes, default='none')!r}, expected names such as "
            "'bert/embeddings/word_embeddings'); give the weights of a BERT"
        )
    names = {binding.name for binding in mappings}
    return LoadReport(
        source,
        tuple(b.name for b in loaded),
        tuple(b.name for b in mappings if b.name not in shapes),
        tuple(
            name
            for name in sorted(shapes)
            if name not in names and not name.endswith(TRAINING_STATE)
        ),
    )


def _check_shapes(
    prefix: str,
    mappings: Sequence[VariableMapping],
    shapes: Mapping[str, Sequence[int]],
) -> None:
    wrong = [b for b in mappings if tuple(shapes[b.name]) != b.shape]
    if wrong:
        first = wrong[0]
        raise InputError(
            f"{prefix} does not fit the config: {len(wrong)} variables are "
            f"mis-shaped, the first being {first.name} with shape "
            f"{list(shapes[first.name])} where {list(first.shape)} was "
            "expected; check `bert_config_file`, or the config beside them"
        )


def save_checkpoint(mappings: Sequence[VariableMapping], prefix: str) -> None:
    """Writes a checkpoint that google-research/bert reads.

    The files appear under their names only when they are whole.
    """
    with _beside(prefix) as temporary:
        _write(mappings, temporary)
        _publish(temporary, prefix)


def save_model_folder(
    folder: str,
    config: BertConfig,
    mappings: Sequence[VariableMapping],
    vocab_file: str | None,
    others: Mapping[str, str | None] = types.MappingProxyType({}),
) -> None:
    """Writes bert_model.ckpt, bert_config.json and, when known, the
    vocabulary.

    No description ever lies beside other weights: it appears when the earlier
    ones are gone.

    Args:
        others: texts of other files that describe the model, by name; None
            removes an earlier model's file of that name.
    """
    prefix = os.path.join(folder, CHECKPOINT)
    stale = {name for name, text in others.items() if text is None}
    with _beside(prefix) as temporary:
        _write(mappings, temporary)
        new = os.path.dirname(temporary)
        for name, text in {CONFIG: config.to_json(), **others}.items():
            if text is not None:
                write_whole(os.path.join(new, name), text.encode())
        if vocab_file is not None:
            copy_vocabulary(vocab_file, new)
            # a vocabulary of the other kind would be read instead of it
            stale |= {VOCABULARY, BYTE_LEVEL, MERGES}
            stale -= vocabulary_files(vocab_file).keys()
        _publish(temporary, prefix, [os.path.join(folder, n) for n in stale])


def _write(mappings: Sequence[VariableMapping], prefix: str) -> None:
    import tensorflow as tf

    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=[b.name for b in mappings],
        shape_and_slices=[""] * len(mappings),
        tensors=[tf.constant(b.read()) for b in mappings],
    )


def _publish(temporary: str, prefix: str, stale: Sequence[str] = ()) -> None:
    """Moves all files beside `temporary` to `prefix`; removes `stale`."""
    import tensorflow as tf

    # Without an index a checkpoint does not exist: the old one goes first and
    # the new one comes last.
    for path in (prefix + ".index", *stale):
        if tf.io.gfile.exists(path):
            tf.io.gfile.remove(path)
    source, target = os.path.dirname(temporary), os.path.dirname(prefix)
    names = tf.io.gfile.listdir(source)
    for name in sorted(names, key=lambda name: name.endswith(".index")):
        tf.io.gfile.rename(
            os.path.join(source, name),
            os.path.join(target, name),
            overwrite=True,
        )


@contextlib.contextmanager
def _beside(prefix: str) -> Iterator[str]:
    """A prefix in a folder beside the final one, which is removed at the end
    (and at the start, where a killed run has left it)."""
    import tensorflow as tf

    parent, name = os.path.split(prefix)
    folder = os.path.join(parent, f".{name}.incomplete")
    if tf.io.gfile.exists(folder):
        tf.io.gfile.rmtree(folder)
    tf.io.gfile.makedirs(folder)
    try:
        yield os.path.join(folder, name)
    finally:
        tf.io.gfile.rmtree(folder)
