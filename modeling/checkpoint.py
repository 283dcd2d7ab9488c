"""A model's weights from and to checkpoints, by Google's names.

A mapping ties one variable of Google's model to the variable here that holds
it, whole or as a block of columns. Everything that reads or writes weights is
a walk over mappings; a Hugging Face folder has its names translated
(hugging_face_names.py). Names: google-research/bert modeling.py and
run_pretraining.py, as listed by `tf.train.list_variables`.

Shapes: B batch, S positions, V vocabulary, C classes, L layers, H hidden size.
"""

import contextlib
import dataclasses
import functools
import os
import re
import stat
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras import files
from bert_keras.checkpoint_index import read_index
from bert_keras.errors import InputError, first_line, printable
from bert_keras.modeling.attention import LowRank
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder, read_by_heads
from bert_keras.modeling.heads import LinearHead, MaskedLmHead, masked_lm_head
from bert_keras.modeling.hugging_face import (
    CONFIG,
    Safetensors,
    is_hugging_face,
)
from bert_keras.modeling.modern_bert import TiedOutputs
from bert_keras.modeling.tensors import Tensor

CHECKPOINT = "bert_model.ckpt"

# Where Google's checkpoints keep the variables of a linear head.
NEXT_SENTENCE = "cls/seq_relationship/"
CLASSIFIER = ""
SPAN = "cls/squad/"

PICKLES = (".bin", ".pt", ".pth", ".pkl")
WEIGHT_TYPES = ("float32", "float64", "float16", "bfloat16")

SAMPLE_ROWS, SAMPLE_LENGTH = 4, 48  # of the batch that compares models

LAYER = re.compile(r"bert/encoder/layer_(\d{1,9})/")

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
    lora: LowRank | None = None  # what is added to it

    @property
    def shape(self) -> tuple[int, ...]:
        *rows, width = self.variable.shape
        return (*rows, width // self.num_blocks)

    def read(self) -> np.ndarray:
        value = self._block_of(self.variable.numpy())
        if self.lora is not None and self.lora.rank:
            value = value + self._block_of(self.lora.product())
        return value

    def write(self, value: np.ndarray) -> None:
        """Makes `value` what `read` gives, whatever LoRA adds."""
        if self.lora is not None and self.lora.rank:
            value = value - self._block_of(self.lora.product())
        if self.num_blocks > 1:
            whole = self.variable.numpy().copy()
            self._block_of(whole)[...] = value
            value = whole
        self.variable.assign(value)

    def _block_of(self, whole: np.ndarray) -> np.ndarray:
        return np.split(whole, self.num_blocks, axis=-1)[self.block]


def layer_mappings(
    root: str, layer: Any, names: Sequence[str]
) -> list[VariableMapping]:
    """The attributes of these names, as Google calls them below `root`."""
    return [
        VariableMapping(f"{root}{name}", getattr(layer, name)) for name in names
    ]


def _dense(root: str, layer: Any) -> list[VariableMapping]:
    lora = getattr(layer, "lora", None)  # the pooler has none
    return [
        VariableMapping(f"{root}/dense/kernel", layer.kernel, lora=lora),
        VariableMapping(f"{root}/dense/bias", layer.bias),
    ]


def _layer_norm(root: str, layer: Any) -> list[VariableMapping]:
    norm = layer.layer_norm
    return layer_mappings(f"{root}/LayerNorm/", norm, ("beta", "gamma"))


@functools.singledispatch
def encoder_mappings(encoder: Encoder) -> list[VariableMapping]:
    """Everything below "bert/". What is more than one Encoder registers its
    own."""
    embeddings, root = encoder.embeddings, "bert/embeddings"
    mappings = [
        VariableMapping(f"{root}/{name}", table, family=encoder.config.family)
        for name, table in embeddings.tables.items()
    ]
    if encoder.config.is_modern:
        return mappings + _modern_mappings(encoder)
    mappings += _layer_norm(root, embeddings)
    for number, layer in enumerate(encoder.layers):
        root, own = f"bert/encoder/layer_{number}", layer.attention
        kernel, bias, lora = own.qkv_kernel, own.qkv_bias, own.lora
        for i, part in enumerate(("query", "key", "value")):
            name = f"{root}/attention/self/{part}"
            mappings += [
                VariableMapping(f"{name}/kernel", kernel, i, 3, lora=lora),
                VariableMapping(f"{name}/bias", bias, i, 3),
            ]
        for name, residual in (
            ("attention/output", layer.attention_output),
            ("output", layer.feed_forward_output),
        ):
            mappings += _dense(f"{root}/{name}", residual)
            mappings += _layer_norm(f"{root}/{name}", residual)
        mappings += _dense(f"{root}/intermediate", layer.intermediate)
    return mappings + _dense("bert/pooler", encoder.pooler)


def _modern_mappings(encoder: Encoder) -> list[VariableMapping]:
    """A ModernBERT's weights below "bert/", except the word embeddings."""
    root = "bert/encoder"
    norms = {
        "bert/embeddings": encoder.embeddings.layer_norm,
        root: encoder.layers[-1].final_norm,
        "bert/pooler": encoder.pooler.layer_norm,
    }
    products = {"bert/pooler/dense": encoder.pooler.dense}
    for number, layer in enumerate(encoder.layers):
        own = f"{root}/layer_{number}"
        if number:  # the first reads what the embeddings have normalised
            norms[f"{own}/attention"] = layer.attention_norm
        norms[own] = layer.feed_forward_norm
        products |= {
            f"{own}/attention/self/qkv": layer.attention,
            f"{own}/attention/output/dense": layer.attention_output,
            f"{own}/intermediate/dense": layer.intermediate,
            f"{own}/output/dense": layer.feed_forward_output,
        }
    return [
        *(
            VariableMapping(f"{name}/kernel", part.kernel, lora=part.lora)
            for name, part in products.items()
        ),
        *(
            VariableMapping(f"{name}/LayerNorm/gamma", part.gamma)
            for name, part in norms.items()
        ),
    ]


def masked_lm_mappings(
    head: MaskedLmHead | TiedOutputs,
) -> list[VariableMapping]:
    root = "cls/predictions"
    if isinstance(head, TiedOutputs):
        return layer_mappings(f"{root}/", head, ["output_bias"])
    return [
        *_dense(f"{root}/transform", head),
        *_layer_norm(f"{root}/transform", head),
        *layer_mappings(f"{root}/", head, ["output_bias"]),
    ]


def linear_mappings(head: LinearHead, root: str) -> list[VariableMapping]:
    """`root` is one of NEXT_SENTENCE, CLASSIFIER and SPAN."""
    return layer_mappings(root, head, ("output_weights", "output_bias"))


_POOLER = "bert/pooler/dense/kernel"

# What lies beside the encoder, by how the names of its variables begin.
HEADS = {
    "cls/predictions/": "masked LM head",
    NEXT_SENTENCE: "next sentence head",
    SPAN: "question answering head",
    "output_weights": "classifier head",
    "output_bias": "classifier head",
    "bert/pooler/": "pooler",
}


def _head_of(name: str) -> str | None:
    return next(
        (x for start, x in HEADS.items() if name.startswith(start)), None
    )


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
        """One line; names are listed where they are not those of a head."""
        summary = [f"{self.source}: {len(self.loaded)} variables loaded"]
        details = []
        for text, names in (
            ("new, at random", self.missing),
            ("not used", self.unused),
        ):
            heads = dict.fromkeys(filter(None, map(_head_of, names)))
            others = [name for name in names if not _head_of(name)]
            found = list(heads)
            if others:
                found.append(f"{len(others)} other{'s' * (len(others) > 1)}")
            if found:
                summary.append(f"{text}: {', '.join(found)}")
            details += [f"  {text}: {name}" for name in others]
        return "\n".join(map(printable, ["; ".join(summary), *details]))


def resolve_checkpoint(path: str) -> str:
    """The checkpoint prefix that `path` means.

    Args:
        path: a model folder, a prefix, or any one file of the checkpoint.

    Raises:
        InputError: there is no checkpoint.
    """
    import tensorflow as tf

    prefix, is_folder = path, files.is_dir(path)
    if is_folder:
        prefix = os.path.join(path, CHECKPOINT)
        if not tf.io.gfile.exists(prefix + ".index"):
            files.refuse_stream(os.path.join(path, "checkpoint"))
            try:
                state = tf.train.get_checkpoint_state(path)
                if state is not None:
                    prefix = state.model_checkpoint_path
                    beside_it = os.path.join(path, os.path.basename(prefix))
                    if tf.io.gfile.exists(f"{beside_it}.index"):
                        prefix = beside_it  # the folder may have been moved
            except (ValueError, tf.errors.OpError) as error:
                raise InputError(
                    f"{path}/checkpoint, which should name the newest "
                    f"checkpoint beside it, is damaged ({first_line(error)}); "
                    "remove it, or name the checkpoint itself"
                ) from error
    for ending in (".index", ".meta", ".data-00000-of-00001"):
        prefix = prefix.removesuffix(ending)
    if not tf.io.gfile.exists(prefix + ".index"):
        names = [path]
        if is_folder:
            names = [os.path.join(path, n) for n in files.names_in(path)]
        for name in sorted(names):
            if name.endswith(PICKLES):
                raise InputError(
                    f"{name} is a pickle, which runs whatever code is in it "
                    "and is never opened here; save the model as safetensors, "
                    "in transformers by model.save_pretrained(folder)"
                )
        if os.path.islink(link := prefix + ".index"):
            raise InputError(
                f"{link} is a link to {os.readlink(link)}, which does not exist"
            )
        indexes = sorted(name for name in names if name.endswith(".index"))
        if is_folder and indexes:
            found = indexes[-1].removesuffix(".index")
            raise InputError(
                f"{path} has no {os.path.basename(prefix)}, but {found}; name "
                "the checkpoint itself"
            )
        raise InputError(
            f"no checkpoint at {path} ({prefix}.index does not exist); "
            "`init_checkpoint` or `model_dir` must name a model folder, a "
            "checkpoint prefix or a Hugging Face folder with safetensors"
        )
    return prefix


class CheckpointReader:
    """Google's, read variable by variable. `Safetensors` has the same form."""

    family: str | None = None  # one of config.FAMILIES; the names do not tell

    def __init__(self, path: str):
        import tensorflow as tf

        self.source = resolve_checkpoint(path)
        with _as_input_error(self.source):
            self._variables = read_index(self.source)
            self._reader = tf.compat.v1.train.NewCheckpointReader(self.source)
        self.shapes = {name: x.shape for name, x in self._variables.items()}

    def read(self, name: str) -> np.ndarray:
        dtype = self._variables[name].dtype
        if dtype not in WEIGHT_TYPES:
            raise InputError(
                f"{self.source} holds {name} as {dtype}; expected one of "
                f"{', '.join(WEIGHT_TYPES)}"
            )
        with _as_input_error(self.source):
            value = self._reader.get_tensor(name)
        return value.astype(np.float32, copy=False)


def open_weights(path: str) -> CheckpointReader | Safetensors:
    """What `path` means as an `init_checkpoint`: Hugging Face's or Google's.

    Raises:
        InputError: no such checkpoint, a damaged one, or a pickle.
    """
    kind = Safetensors if is_hugging_face(path) else CheckpointReader
    return kind(path)


@contextlib.contextmanager
def _as_input_error(prefix: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except InputError:
        raise
    except (
        tf.errors.OpError, RuntimeError, IndexError, ValueError,
    ) as error:  # fmt: skip
        raise InputError(
            f"{prefix} cannot be read ({first_line(error)}); "
            "expected a whole checkpoint"
        ) from error


def load_checkpoint(
    mappings: Sequence[VariableMapping], path: str
) -> LoadReport:
    """Copies a checkpoint into the mapped variables, one by one.

    Args:
        path: a model folder, a checkpoint prefix or one of its files; or a
            Hugging Face folder or .safetensors file.

    Raises:
        InputError: no such checkpoint, a damaged one, a pickle, a variable of
            another shape or with numbers that are not finite, or nothing of
            the encoder in it.
    """
    weights = open_weights(path)
    source, shapes = weights.source, weights.shapes
    for mapping in mappings:
        if weights.family and mapping.family not in (None, weights.family):
            raise InputError(
                f"{source} holds a {weights.family} but the config describes a "
                f"{mapping.family}; give the weights' own config (its "
                f'"model_type", or the "family" of a bert_config.json, is '
                f"{weights.family!r})"
            )
    found = [m for m in mappings if m.name in shapes]
    wrong = [m for m in found if tuple(shapes[m.name]) != m.shape]
    if wrong:
        first = wrong[0]
        raise InputError(
            f"{source} does not fit the config: {len(wrong)} variables are "
            f"mis-shaped, the first being {first.name} with shape "
            f"{list(shapes[first.name])} where {list(first.shape)} was "
            "expected; check `bert_config_file`, or the config beside them"
        )
    for mapping in found:
        value = weights.read(mapping.name)
        check_finite(source, mapping.name, value)
        mapping.write(value)
    if not any(m.name.startswith("bert/") for m in found):
        raise InputError(
            f"{source} holds no variable of a BERT encoder (its first is "
            f"{min(shapes, default='none')!r}, expected names such as "
            "'bert/embeddings/word_embeddings'); give the weights of a BERT"
        )
    names = {m.name for m in mappings}
    return LoadReport(
        source,
        loaded=tuple(m.name for m in found),
        missing=tuple(m.name for m in mappings if m.name not in shapes),
        unused=tuple(
            name
            for name in sorted(shapes)
            if name not in names and not name.endswith(TRAINING_STATE)
        ),
    )


def check_finite(source: str, name: str, value: np.ndarray) -> None:
    """Raises an InputError where a weight is infinite or not a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = value.sum()
    # The quick test; a sum of finite numbers may overflow, too.
    if np.isfinite(total) or np.isfinite(value).all():
        return
    raise InputError(
        f"{source} has {name} with {(~np.isfinite(value)).sum():,} of "
        f"{value.size:,} numbers infinite or not a number, from which no "
        "answer would mean anything; give weights from before that happened"
    )


def check_sizes(
    config: BertConfig, path: str, needs_all_layers: bool = False
) -> None:
    """Compares the config with the shapes of a checkpoint: to build a model of
    wrong sizes may take all time and memory.

    Args:
        path: as of `load_checkpoint`, which is to say what cannot be read.
        needs_all_layers: whether none may start at random.

    Raises:
        InputError: a size is another one.
    """
    try:
        weights = open_weights(path)
    except InputError:
        return
    shapes = weights.shapes
    for size, name, axis in (
        ("vocab_size", "embeddings/word_embeddings", 0),
        ("hidden_size", "embeddings/word_embeddings", 1),
        ("max_position_embeddings", "embeddings/position_embeddings", 0),
        ("type_vocab_size", "embeddings/token_type_embeddings", 0),
        ("intermediate_size", "encoder/layer_0/output/dense/kernel", 0),
    ):
        name, number = f"bert/{name}", getattr(config, size)
        if size == "max_position_embeddings":
            number += config.position_offset
        shape = shapes.get(name, ())
        if number and len(shape) == 2 and shape[axis] != number:
            raise InputError(
                f"{weights.source} does not fit the config: {name} is "
                f"mis-shaped, {list(shape)} where {size} asks for {number} "
                f"instead of {shape[axis]}; check `bert_config_file`, or the "
                "config beside them"
            )
    if config.traits.shares_pooler and _POOLER not in shapes:
        for name in shapes:
            if name.endswith("output_bias"):
                raise InputError(
                    f"{weights.source} has {name} and no {_POOLER}, whose "
                    "output it reads; expected both, or an encoder alone"
                )
    layers = [LAYER.match(name) for name in shapes]
    number = 1 + max((int(found[1]) for found in layers if found), default=-1)
    if needs_all_layers and 0 < number < config.num_hidden_layers:
        raise InputError(
            f"{weights.source} has no bert/encoder/layer_{number} but the "
            f"config's num_hidden_layers is {config.num_hidden_layers}; check "
            "`bert_config_file`, or the config beside them"
        )


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
    import tensorflow as tf

    stale = {name for name, text in others.items() if text is None}
    # Everything is written into a folder inside, then moved. A killed run may
    # have left one.
    new = os.path.join(folder, f".{CHECKPOINT}.incomplete")
    files.remove(new)
    tf.io.gfile.makedirs(new)
    try:
        tf.raw_ops.SaveV2(
            prefix=os.path.join(new, CHECKPOINT),
            tensor_names=[m.name for m in mappings],
            shape_and_slices=[""] * len(mappings),
            tensors=[tf.constant(m.read()) for m in mappings],
        )
        for name, text in {CONFIG: config.to_json(), **others}.items():
            if text is not None:
                files.write_whole(os.path.join(new, name), text.encode())
        if vocab_file is not None:
            files.copy_vocabulary(vocab_file, new)
            # a vocabulary of the other kind would be read instead of it
            stale |= {files.VOCABULARY, files.BYTE_LEVEL, files.MERGES}
            stale -= files.vocabulary_files(vocab_file).keys()
        # Without an index a checkpoint does not exist: the old one goes first
        # and the new one comes last.
        index = f"{CHECKPOINT}.index"
        names = tf.io.gfile.listdir(new)
        modes = {}  # of what is replaced
        for name in names if "://" not in folder else ():
            with contextlib.suppress(OSError):
                mode = os.lstat(os.path.join(folder, name)).st_mode
                if stat.S_ISREG(mode):
                    modes[name] = stat.S_IMODE(mode)
        for name in (index, *stale):
            path = os.path.join(folder, name)
            if not files.is_dir(path):  # a folder is somebody else's
                files.remove(path)
        for name in sorted(names, key=lambda name: name == index):
            source = os.path.join(new, name)
            target = os.path.join(folder, name)
            if name in modes:
                os.chmod(source, modes[name])
            tf.io.gfile.rename(source, target, overwrite=True)
    finally:
        files.remove(new)


class AnyModel:
    """An encoder and the heads that are told from a checkpoint's names."""

    def __init__(self, config: BertConfig, shapes: Mapping[str, Sequence[int]]):
        """`shapes`: of the checkpoint's variables, by Google's names.

        What the checkpoint lacks is the same in each model made so: one seed.
        """
        keras.utils.set_random_seed(0)
        self.config = config
        self.encoder = Encoder(config)
        self.encoder.build()
        self.has_pooler = _POOLER in shapes
        self.masked_lm: MaskedLmHead | TiedOutputs | None = None
        if "cls/predictions/output_bias" in shapes:
            self.masked_lm = masked_lm_head(config)
            self.masked_lm.build()
        self.heads: dict[str, LinearHead] = {}
        for root in (NEXT_SENTENCE, CLASSIFIER, SPAN):
            if f"{root}output_weights" in shapes:
                shape = tuple(shapes[f"{root}output_weights"])
                fits = shape[1:] == (config.hidden_size,)  # or load refuses
                num_classes = shape[0] if fits else 1
                self.heads[root] = LinearHead(config, num_classes)
                self.heads[root].build()

    def mappings(self) -> list[VariableMapping]:
        mappings = encoder_mappings(self.encoder)
        if self.masked_lm is not None:
            mappings += masked_lm_mappings(self.masked_lm)
        for root, head in self.heads.items():
            mappings += linear_mappings(head, root)
        return mappings

    def outputs(
        self,
        input_ids: Tensor,
        input_mask: Tensor,
        segment_ids: Tensor,
        pools: bool = True,
    ) -> dict[str, np.ndarray]:
        """Three [B, S] -> layers [L, B, S, H], pooled [B, H], and for each head
        by Google's name [B, S, V], [B, C] or, of a span, [B, S, C]. Unless it
        `pools`, there is no pooled and every head reads all positions."""
        encoded = self.encoder(input_ids, input_mask, segment_ids)
        tokens = read_by_heads(self.encoder, encoded.sequence)
        outputs = {"layers": ops.stack([encoded.embeddings, *encoded.layers])}
        if pools:
            outputs["pooled"] = encoded.pooled
        if self.masked_lm is not None:
            outputs["cls/predictions"] = self.masked_lm(
                tokens, self.encoder.embeddings.word_embeddings.value
            )
        for root, head in self.heads.items():
            reads_all = root == SPAN or not pools
            outputs[root] = head(tokens if reads_all else encoded.pooled)
        return {name: ops.convert_to_numpy(x) for name, x in outputs.items()}


def largest_difference(model: AnyModel, other: AnyModel) -> float:
    """Between two models' outputs on a batch of random ids; they have the same
    heads. With a pooler where both have weights for it."""
    config = model.config
    rng = np.random.default_rng(0)
    shape = SAMPLE_ROWS, min(SAMPLE_LENGTH, config.max_position_embeddings)
    lengths = rng.integers(1, shape[1] + 1, (SAMPLE_ROWS, 1))
    num_segments = max(config.type_vocab_size, 1)
    ids = rng.integers(0, config.vocab_size, shape, np.int32)
    mask = (np.arange(shape[1]) < lengths).astype(np.int32)
    segment_ids = rng.integers(0, num_segments, shape, np.int32)
    pools = model.has_pooler and other.has_pooler
    one, two = (
        m.outputs(ids, mask, segment_ids, pools) for m in (model, other)
    )
    assert one.keys() == two.keys()
    return float(max(np.abs(one[name] - two[name]).max() for name in one))
