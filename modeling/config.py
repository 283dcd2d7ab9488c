"""The shape of a BERT: bert_config.json as google-research/bert releases it.

Sizes: Devlin et al. 2018, section 3 (base, large) and Turc et al. 2019 (tiny
to medium). Upstream file: modeling.py, BertConfig.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from input_error import InputError

# "gelu" is the tanh approximation, as in Google's code; Hugging Face's "gelu"
# is the exact one, here "gelu_erf".
ACTIVATIONS = ("gelu", "gelu_tanh", "gelu_erf", "relu", "tanh", "linear")

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
                self._refuse(field.name, "a positive whole number")
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

        Raises:
            InputError: no such file, not JSON, or a value out of its range.
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
        if not isinstance(values, dict) or "vocab_size" not in values:
            raise InputError(
                f"{path} has no vocab_size; --bert_config_file must name a "
                "bert_config.json"
            )
        known = {f.name for f in dataclasses.fields(cls)} - {"other"}
        try:
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


def _is_positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < 1
