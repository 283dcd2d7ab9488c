"""The shape of a BERT: bert_config.json as google-research/bert releases it.

Sizes: Devlin et al. 2018, section 3 (base, large) and Turc et al. 2019 (tiny
to medium). Upstream file: modeling.py, BertConfig. A config.json of Hugging
Face transformers (configuration_bert.py there) is read too.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from bert_keras.errors import InputError
from bert_keras.modeling.hugging_face_weights import (
    family_of,
    family_of_class,
    tensor_names,
)

# "gelu" is the tanh approximation, as in Google's code; Hugging Face's "gelu"
# is the exact one, here "gelu_erf".
ACTIVATIONS = ("gelu", "gelu_tanh", "gelu_erf", "relu", "tanh", "linear")

# By Hugging Face's names. gelu_new, gelu_pytorch_tanh and gelu_fast are one
# function, of which the second is one operation of torch's instead of eight.
FROM_HUGGING_FACE = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
TO_HUGGING_FACE = {
    "gelu": "gelu_pytorch_tanh",
    "gelu_tanh": "gelu_pytorch_tanh",
    "gelu_erf": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}

# Any of these keys tells its config.json from Google's bert_config.json.
HUGGING_FACE_KEYS = {"model_type", "architectures", "transformers_version"}


@dataclasses.dataclass(frozen=True)
class Family:
    """How Hugging Face's models of one model_type differ from Google's."""

    # defaults of config.json that are not Google's
    defaults: Mapping[str, Any]
    # keys that are written, and the only value that is read of each
    fixed: Mapping[str, Any]
    # ids of tokens that are written, unless the file that was read had others
    ids: Mapping[str, int]
    # other keys that are written
    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # positions are rows of their table from pad_token_id + 1 on, not from 0
    counts_from_padding: bool = False
    pooler_act: str = "tanh"  # one of ACTIVATIONS
    has_pooler: bool = True  # not only as a part of classifiers
    has_segments: bool = True  # a table of token types
    # the names that its config.json has for fields here
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # the names here that transformers does not read in such a config.json
    unread: tuple[str, ...] = ()
    # fields that it does not have, with their values
    unsaid: Mapping[str, Any] = dataclasses.field(default_factory=dict)


# Keys that change what a model of any family computes, and the values under
# which they do not: quantised weights, heads that were removed, layers that
# differ from each other, code that is not transformers'.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (False, None),
    "quantization_config": (None,),
    "pruned_heads": ({}, None),
    "per_layer_config": ({}, None),
    "auto_map": ({}, None),
}
# Keys that change only training, or nothing here; kept for the way back.
_KEPT = (
    "bos_token_id", "eos_token_id", "classifier_dropout", "qa_dropout",
    "seq_classif_dropout",
)  # fmt: skip

_ENCODER = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
FAMILIES = {
    "bert": Family(
        {"vocab_size": 30522, "type_vocab_size": 2, "hidden_act": "gelu"},
        _ENCODER,
        {"pad_token_id": 0},
    ),
    # The masked-LM head has the exact gelu whatever the config says, and
    # positions are counted from pad_token_id + 1: modeling_roberta.py there.
    "roberta": Family(
        {"vocab_size": 50265, "type_vocab_size": 2},
        {**_ENCODER, "hidden_act": "gelu"},
        {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
        counts_from_padding=True,
    ),
    # Sanh et al. 2019, section 3. What stands for the pooler in its
    # classifiers has a relu: modeling_distilbert.py there.
    "distilbert": Family(
        {"vocab_size": 30522, "hidden_act": "gelu", "num_hidden_layers": 6},
        {},
        {"pad_token_id": 0},
        {"sinusoidal_pos_embds": False},
        pooler_act="relu",
        has_pooler=False,
        has_segments=False,
        names={
            "hidden_size": "dim",
            "num_hidden_layers": "n_layers",
            "num_attention_heads": "n_heads",
            "intermediate_size": "hidden_dim",
            "hidden_act": "activation",
            "hidden_dropout_prob": "dropout",
            "attention_probs_dropout_prob": "attention_dropout",
        },
        unread=(
            "intermediate_size",
            "hidden_act",
            "hidden_dropout_prob",
            "attention_probs_dropout_prob",
        ),
        unsaid={"type_vocab_size": 0, "layer_norm_eps": 1e-12},
    ),
}

# What a position attends to: all, itself and what is left of it, or right.
DIRECTIONS = ("bidirectional", "left_to_right", "right_to_left")

MAX_SIZE = 2**31 - 1  # of any axis

# name: (layers, hidden size, heads); feed-forward is four times the hidden size
SIZES = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Fields and defaults of bert_config.json; vocab_size has no default."""

    vocab_size: int  # pieces
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072  # of the feed-forward layer
    hidden_act: str = "gelu"  # one of ACTIVATIONS
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512  # the longest sequence, in pieces
    type_vocab_size: int = 16  # segment ids; released files say 2; 0: unused
    initializer_range: float = 0.02  # standard deviation
    layer_norm_eps: float = 1e-12  # added to the variance
    family: str = "bert"  # one of FAMILIES
    pad_token_id: int | None = None  # None: the family's
    direction: str = "bidirectional"  # one of DIRECTIONS
    # keys of the file that this model does not use (pooler_*, directionality)
    other: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, kind = getattr(self, field.name), field.type
            least = 0 if field.name == "type_vocab_size" else 1
            if kind in (int, "int") and not _is_size(value, least):
                self._refuse(field.name, "a positive whole number below 2**31")
            if kind in (float, "float") and not _is_share(value):
                self._refuse(field.name, "a number from 0 up to, not with, 1")
        if self.family not in list(FAMILIES):  # a list: it may be anything
            self._refuse("family", f"one of {', '.join(FAMILIES)}")
        has_segments = FAMILIES[self.family].has_segments
        if (self.type_vocab_size > 0) != has_segments:
            number = "a positive whole number" if has_segments else "0"
            self._refuse("type_vocab_size", f"{number} in a {self.family}")
        if self.direction not in DIRECTIONS:
            self._refuse("direction", f"one of {', '.join(DIRECTIONS)}")
        if self.hidden_act not in ACTIVATIONS:
            self._refuse("hidden_act", f"one of {', '.join(ACTIVATIONS)}")
        if self.pad_token_id is not None and not (
            type(self.pad_token_id) is int
            and 0 <= self.pad_token_id < self.vocab_size
        ):
            self._refuse("pad_token_id", "the id of a token")
        if self.hidden_size % self.num_attention_heads:
            self._refuse(
                "hidden_size",
                f"a multiple of num_attention_heads {self.num_attention_heads}",
            )

    def _refuse(self, name: str, expected: str) -> None:
        raise InputError(
            f"the config has {name} = {getattr(self, name)!r}; expected "
            f"{expected}"
        )

    @property
    def position_offset(self) -> int:
        """Rows of the position table before that of the first position."""
        family = FAMILIES[self.family]
        return self._padding_id + 1 if family.counts_from_padding else 0

    @property
    def _padding_id(self) -> int:
        default = FAMILIES[self.family].ids["pad_token_id"]
        return default if self.pad_token_id is None else self.pad_token_id

    def check_padding(self, padding_id: int, vocab_file: str) -> None:
        """Checks the vocabulary of a Hugging Face folder: a RoBERTa counts its
        positions from the id of its padding token.

        Raises:
            InputError: the config has another padding token.
        """
        family = FAMILIES[self.family]
        if family.counts_from_padding and padding_id != self._padding_id:
            raise InputError(
                f"{vocab_file} has its padding token at {padding_id} but the "
                f"config has pad_token_id = {self._padding_id}, from which a "
                f"{self.family} counts its positions; expected the same"
            )

    @property
    def pooler_act(self) -> str:
        return FAMILIES[self.family].pooler_act

    @property
    def has_pooler(self) -> bool:
        """Whether an encoder by itself has one."""
        return FAMILIES[self.family].has_pooler

    @classmethod
    def of_size(cls, size: str, vocab_size: int) -> "BertConfig":
        """The config of a released size, "tiny" to "large" (`SIZES`)."""
        layers, hidden, heads = SIZES[size]
        return cls(
            vocab_size=vocab_size,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * hidden,
            type_vocab_size=2,
        )

    @classmethod
    def from_json_file(cls, path: str) -> "BertConfig":
        """Reads a bert_config.json; unknown keys are kept in `other`.

        A config.json of Hugging Face is told by its keys and translated: what
        it alone has is checked and dropped.

        Raises:
            InputError: no such file, not JSON, a value out of its range, or a
                Hugging Face model that is no such encoder.
        """
        try:
            with open(path, encoding="utf-8") as file:
                values = json.load(file)
        except OSError as error:
            raise InputError(
                f"cannot read {path} ({error.strerror}); `bert_config_file` "
                "must name a bert_config.json"
            ) from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path} is not a JSON file ({error}); `bert_config_file` "
                "must name a bert_config.json"
            ) from error
        try:
            if isinstance(values, dict) and _is_hugging_faces(path, values):
                values = _from_hugging_face(values, os.path.dirname(path))
            if not isinstance(values, dict) or "vocab_size" not in values:
                raise InputError(
                    "it has no vocab_size; `bert_config_file` must name a "
                    "bert_config.json"
                )
            known = {f.name for f in dataclasses.fields(cls)} - {"other"}
            return cls(
                **{k: v for k, v in values.items() if k in known},
                other={k: v for k, v in values.items() if k not in known},
            )
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def to_json(self) -> str:
        """The text of a bert_config.json with these values.

        Keys that Google's have not are there where they say something else.
        """
        values = dataclasses.asdict(self)
        values |= values.pop("other")
        for name in ("layer_norm_eps", "family", "direction"):
            if values[name] == getattr(BertConfig, name):
                del values[name]
        if self.pad_token_id is None:
            del values["pad_token_id"]
        return json.dumps(values, indent=2, sort_keys=True) + "\n"

    def to_hugging_face(self) -> dict[str, Any]:
        """The values of a config.json, but for what the heads say.

        Raises:
            InputError: the family there has no such model.
        """
        if self.direction != "bidirectional":
            raise InputError(
                f"the config has direction = {self.direction}, for which "
                "Hugging Face's encoders have no setting"
            )
        values = dataclasses.asdict(self)
        del values["direction"], values["pad_token_id"]
        values |= {
            "hidden_act": TO_HUGGING_FACE[self.hidden_act],
            "max_position_embeddings": self.max_position_embeddings
            + self.position_offset,
        }
        family = FAMILIES[self.family]
        fixed = family.fixed
        _check_fixed({**fixed, **values}, {**fixed, **family.unsaid})
        for name in family.unsaid:
            del values[name]
        for name, theirs in family.names.items():
            values[theirs] = values.pop(name)
        other = values.pop("other")
        return {
            **family.ids,
            **other,
            "model_type": values.pop("family"),
            **values,
            **fixed,
            **family.written,
            "pad_token_id": self._padding_id,
        }


def _is_hugging_faces(path: str, values: Mapping[str, Any]) -> bool:
    """Whether a config is Hugging Face's: it has their keys, or is a
    config.json beside safetensors."""
    return bool(HUGGING_FACE_KEYS & values.keys()) or (
        os.path.basename(path) == "config.json"
        and bool(tensor_names(os.path.dirname(path)))
    )


def _from_hugging_face(values: dict[str, Any], folder: str) -> dict[str, Any]:
    """A config.json's values as a bert_config.json would have them."""
    kind = _model_type(values, folder)
    if kind not in list(FAMILIES):  # a list: it may be anything
        raise InputError(
            f"the Hugging Face model has model_type = {kind!r}; expected one "
            f"of {', '.join(FAMILIES)}"
        )
    for key, plain in _PLAIN.items():
        if values.get(key) not in plain:
            raise InputError(
                f"the Hugging Face model has {key} = {values[key]!r}, which is "
                "not supported"
            )
    family = FAMILIES[kind]
    own = {
        name: values[theirs]
        for name, theirs in family.names.items()
        if theirs in values
    }
    values = {
        **family.defaults,
        **family.fixed,
        **{k: v for k, v in values.items() if k not in family.unread},
        **own,
        **family.unsaid,
    }
    _check_fixed(values, family.fixed)
    act = values["hidden_act"]
    if act not in list(FROM_HUGGING_FACE):  # a list: act may be anything
        raise InputError(
            f"the Hugging Face model has hidden_act = {act!r}; expected one of "
            f"{', '.join(FROM_HUGGING_FACE)}"
        )
    known = {field.name for field in dataclasses.fields(BertConfig)}
    kept = {
        k: v
        for k, v in values.items()
        if k in known
        or _is_googles(k)
        or (k in _KEPT and v not in (None, family.ids.get(k)))
    }
    config = {
        **kept,
        **_positions(values, family),
        "hidden_act": FROM_HUGGING_FACE[act],
        "family": kind,
    }
    if config.get("pad_token_id") == family.ids["pad_token_id"]:
        del config["pad_token_id"]
    return config


def _model_type(values: Mapping[str, Any], folder: str) -> Any:
    """The model_type of the file, else that of its architectures, else that of
    the names of the tensors beside it."""
    if values.get("model_type") is not None:
        return values["model_type"]
    names = values.get("architectures")
    if isinstance(names, list) and names:
        found = family_of_class(str(names[0]))
        reason = f"its architectures are {names[0]!r}"
    else:
        tensors = tensor_names(folder)
        found = family_of(tensors) if tensors else "bert"
        reason = "several have weights with these names"
    if found is None:
        raise InputError(
            f"the Hugging Face model has no model_type, and {reason}; add "
            f'"model_type" to it, one of {", ".join(FAMILIES)}'
        )
    return found


def _check_fixed(values: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    for key, only in fixed.items():
        if values[key] != only:
            raise InputError(
                f"the Hugging Face model has {key} = {values[key]!r}; the one "
                f"supported value is {only!r}"
            )


def _positions(values: Mapping[str, Any], family: Family) -> dict[str, Any]:
    """Without the rows of their table before that of the first position."""
    key = "max_position_embeddings"
    rows = values.get(key, getattr(BertConfig, key))
    if family.counts_from_padding and type(rows) is int:
        padding = values.get("pad_token_id", family.ids["pad_token_id"])
        if type(padding) is not int:
            raise InputError(
                f"the Hugging Face model has pad_token_id = {padding!r}; "
                "expected the id of a token, from which its positions count"
            )
        rows -= padding + 1
    return {key: rows}


def _is_googles(key: str) -> bool:
    """Keys that Hugging Face's files took over from Google's, unused."""
    return key.startswith("pooler_") or key == "directionality"


def _is_size(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= MAX_SIZE


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < 1
