"""The shape of a BERT: bert_config.json as google-research/bert releases it.

Sizes: Devlin et al. 2018, section 3 (base, large) and Turc et al. 2019 (tiny
to medium). Upstream file: modeling.py, BertConfig. A config.json of Hugging
Face transformers (configuration_bert.py there) is read too.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from input_error import InputError

# "gelu" is the tanh approximation, as in Google's code; Hugging Face's "gelu"
# is the exact one, here "gelu_erf".
ACTIVATIONS = ("gelu", "gelu_tanh", "gelu_erf", "relu", "tanh", "linear")

# By Hugging Face's names (gelu_new, gelu_pytorch_tanh and gelu_fast are one
# function), and the other way by the names that its oldest versions know.
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
    "gelu": "gelu_new",
    "gelu_tanh": "gelu_new",
    "gelu_erf": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}

# Any of these keys tells its config.json from Google's bert_config.json.
HUGGING_FACE_KEYS = {"model_type", "architectures", "transformers_version"}

# Its defaults where they are not Google's.
HUGGING_FACE_DEFAULTS = {
    "vocab_size": 30522,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
}

# What this model is, where Hugging Face's has a choice: the only value read.
HUGGING_FACE_FIXED = {
    "model_type": "bert",
    "position_embedding_type": "absolute",
    "layer_norm_eps": 1e-12,
    "is_decoder": False,
    "add_cross_attention": False,
}

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
    type_vocab_size: int = 16  # segment ids; released files say 2
    initializer_range: float = 0.02  # standard deviation
    # keys of the file that this model does not use (pooler_*, directionality)
    other: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, kind = getattr(self, field.name), field.type
            if kind in (int, "int") and not _is_positive(value):
                self._refuse(field.name, "a positive whole number below 2**31")
            if kind in (float, "float") and not _is_share(value):
                self._refuse(field.name, "a number from 0 up to, not with, 1")
        if self.hidden_act not in ACTIVATIONS:
            self._refuse("hidden_act", f"one of {', '.join(ACTIVATIONS)}")
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
                f"cannot read {path} ({error.strerror}); --bert_config_file "
                "must name a bert_config.json"
            ) from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path} is not a JSON file ({error}); --bert_config_file "
                "must name a bert_config.json"
            ) from error
        try:
            if isinstance(values, dict) and HUGGING_FACE_KEYS & values.keys():
                values = _from_hugging_face(values)
            if not isinstance(values, dict) or "vocab_size" not in values:
                raise InputError(
                    "it has no vocab_size; --bert_config_file must name a "
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
        """The text of a bert_config.json with these values."""
        values = dataclasses.asdict(self)
        values |= values.pop("other")
        return json.dumps(values, indent=2, sort_keys=True) + "\n"

    def to_hugging_face(self) -> dict[str, Any]:
        """The values of a config.json, but for what the heads say."""
        values = dataclasses.asdict(self)
        return {
            **values.pop("other"),
            **values,
            **HUGGING_FACE_FIXED,
            "hidden_act": TO_HUGGING_FACE[self.hidden_act],
            "pad_token_id": 0,
        }


def _from_hugging_face(values: dict[str, Any]) -> dict[str, Any]:
    """A config.json's values as a bert_config.json would have them."""
    values = HUGGING_FACE_DEFAULTS | HUGGING_FACE_FIXED | values
    for key, only in HUGGING_FACE_FIXED.items():
        if values[key] != only:
            raise InputError(
                f"the Hugging Face model has {key} = {values[key]!r}; the one "
                f"supported value is {only!r}"
            )
    act = values["hidden_act"]
    if act not in list(FROM_HUGGING_FACE):  # a list: act may be anything
        raise InputError(
            f"the Hugging Face model has hidden_act = {act!r}; expected one of "
            f"{', '.join(FROM_HUGGING_FACE)}"
        )
    known = {field.name for field in dataclasses.fields(BertConfig)}
    return {
        **{k: v for k, v in values.items() if k in known or _is_googles(k)},
        "hidden_act": FROM_HUGGING_FACE[act],
    }


def _is_googles(key: str) -> bool:
    """Keys that Hugging Face's files took over from Google's, unused."""
    return key.startswith("pooler_") or key == "directionality"


def _is_positive(value: object) -> bool:
    return type(value) is int and 0 < value <= MAX_SIZE


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < 1
