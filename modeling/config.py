"""The shape of a BERT: bert_config.json as google-research/bert releases it.

Sizes: Devlin et al. 2018, section 3 (base, large) and Turc et al. 2019 (tiny
to medium). Upstream file: modeling.py, BertConfig. A config.json of Hugging
Face transformers (configuration_bert.py there) is read too.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any

from bert_keras.errors import InputError, warn
from bert_keras.files import beside, local, parse_json, to_json
from bert_keras.modeling.hugging_face import (
    CONFIG,
    HUGGING_FACE_CONFIG,
    from_hugging_face,
    is_hugging_face,
)
from bert_keras.modeling.hugging_face_names import FAMILIES, MODERN, Family

# "gelu" is the tanh approximation, as in Google's code; Hugging Face's "gelu"
# is the exact one, here "gelu_erf".
ACTIVATIONS = ("gelu", "gelu_tanh", "gelu_erf", "relu", "tanh", "linear")

# What a position attends to: all, itself and what is left of it, or right.
DIRECTIONS = ("bidirectional", "left_to_right", "right_to_left")

POOLINGS = "cls", "mean"  # of a ModernBERT

_ADVICE = "`bert_config_file` must name a bert_config.json"
MAX_SIZE = 2**31 - 1  # of any axis
MAX_LAYERS = 1000  # each takes time and memory however small it is

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
    """Fields and defaults of bert_config.json; vocab_size has no default.

    Examples:
        >>> config = bert_keras.BertConfig(30522, num_hidden_layers=6)
        >>> config.vocab_size, config.num_hidden_layers, config.hidden_size
        (30522, 6, 768)
    """

    vocab_size: int  # tokens
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072  # of the feed-forward layer
    hidden_act: str = "gelu"  # one of ACTIVATIONS
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512  # the longest sequence, in tokens
    type_vocab_size: int = 16  # segment ids; released files say 2; 0: unused
    initializer_range: float = 0.02  # standard deviation
    layer_norm_eps: float = 1e-12  # added to the variance
    family: str = "bert"  # one of FAMILIES
    pad_token_id: int | None = None  # None: the family's
    direction: str = "bidirectional"  # one of DIRECTIONS
    # Of the family "modernbert" alone:
    global_attn_every_n_layers: int = 3  # from the first; others are local,
    local_attention: int = 128  # where a position sees half of it on each side
    global_rope_theta: int = 160_000
    local_rope_theta: int = 10_000
    classifier_pooling: str = "cls"  # one of POOLINGS
    # keys of the file that this model does not use (pooler_*, directionality)
    other: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        def check(name: str, is_right: bool, expected: str) -> None:
            if not is_right:
                raise InputError(
                    f"the config has {name} = {getattr(self, name)!r}; "
                    f"expected {expected}"
                )

        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            if field.type is int:
                least = 0 if name == "type_vocab_size" else 1
                is_size = type(value) is int and least <= value <= MAX_SIZE
                check(name, is_size, "a positive whole number below 2**31")
            if field.type is float:
                is_share = isinstance(value, int | float) and 0 <= value < 1
                check(name, is_share, "a number from 0 up to, not with, 1")
        poolings = POOLINGS if self.is_modern else POOLINGS[:1]
        for name, choices in (
            ("family", FAMILIES),
            ("direction", DIRECTIONS),
            ("hidden_act", ACTIVATIONS),
            ("classifier_pooling", poolings),
        ):
            # a list: the value may be anything
            is_choice = getattr(self, name) in list(choices)
            check(name, is_choice, f"one of {', '.join(choices)}")
        check(
            "num_hidden_layers",
            self.num_hidden_layers <= MAX_LAYERS,
            f"at most {MAX_LAYERS}",
        )
        has_segments = self.traits.has_segments
        number = "a positive whole number" if has_segments else "0"
        check(
            "type_vocab_size",
            (self.type_vocab_size > 0) == has_segments,
            f"{number} in a {self.family}",
        )
        check(
            "pad_token_id",
            self.pad_token_id is None
            or type(self.pad_token_id) is int
            and 0 <= self.pad_token_id < self.vocab_size,
            "the id of a token",
        )
        check(
            "hidden_size",
            self.hidden_size % self.num_attention_heads == 0,
            f"a multiple of num_attention_heads {self.num_attention_heads}",
        )
        head_size = self.hidden_size // self.num_attention_heads
        check(
            "hidden_size",
            not self.is_modern or head_size % 2 == 0,
            "an even number for each attention head of a modernbert",
        )

    @property
    def traits(self) -> Family:
        """What its family has otherwise than Google's BERT."""
        return FAMILIES[self.family]

    @property
    def is_modern(self) -> bool:
        """Whether it has the parts of modern_bert.py."""
        return self.family == "modernbert"

    @property
    def padding_id(self) -> int:
        """The id of the padding token."""
        default = self.traits.ids["pad_token_id"]
        return default if self.pad_token_id is None else self.pad_token_id

    @property
    def position_offset(self) -> int:
        """Rows of the position table before that of the first position."""
        return self.padding_id + 1 if self.traits.counts_from_padding else 0

    def check_padding(self, padding_id: int, vocab_file: str) -> None:
        """Checks the vocabulary of a Hugging Face folder: a RoBERTa counts its
        positions from the id of its padding token.

        Raises:
            InputError: the config has another padding token.
        """
        if self.traits.counts_from_padding and padding_id != self.padding_id:
            raise InputError(
                f"{vocab_file} has its padding token at {padding_id} but the "
                f"config has pad_token_id = {self.padding_id}, from which a "
                f"{self.family} counts its positions; expected the same"
            )

    @classmethod
    def of_size(cls, size: str, vocab_size: int) -> "BertConfig":
        """The config of a released size, "tiny" to "large" (`SIZES`).

        Examples:
            >>> config = bert_keras.BertConfig.of_size("tiny", vocab_size=30522)
            >>> config.num_hidden_layers, config.hidden_size
            (2, 128)

        Args:
            size: "tiny", "mini", "small", "medium", "base" or "large".
            vocab_size: the number of tokens.

        Raises:
            InputError: `size` is another one.
        """
        if size not in SIZES:
            raise InputError(
                f"`size` is {size!r}; expected one of {', '.join(SIZES)}"
            )
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
    def from_json_file(cls, path: str | os.PathLike[str]) -> "BertConfig":
        """Reads a bert_config.json, here or on gs://; unknown keys are kept in
        `other`.

        A config.json of Hugging Face is told by its keys and translated: what
        it alone has is checked and dropped.

        Examples:
            >>> path = "bert/bert_config.json"
            >>> bert_keras.BertConfig.from_json_file(path).hidden_size
            128

        Args:
            path: of the file.

        Raises:
            InputError: no such file, not JSON, a value out of its range, or a
                Hugging Face model that is no such encoder.
        """
        path = os.fspath(path)
        source = local(path)
        try:
            with open(source, "rb") as file:
                values = parse_json(file.read())
        except (OSError, ValueError) as error:
            wrong = f"{path} is not a JSON file ({error})"
            if isinstance(error, OSError):
                wrong = f"cannot read {path} ({error.strerror})"
            raise InputError(f"{wrong}; {_ADVICE}") from error
        try:
            fields = {field.name for field in dataclasses.fields(cls)}
            if isinstance(values, dict):
                values = from_hugging_face(values, path, fields)
            if not isinstance(values, dict) or "vocab_size" not in values:
                raise InputError(f"it has no vocab_size; {_ADVICE}")
            known = fields - {"other"}
            return cls(
                **{k: v for k, v in values.items() if k in known},
                other={k: v for k, v in values.items() if k not in known},
            )
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """The fields, without those that only another family has."""
        others = () if self.is_modern else MODERN
        values = dataclasses.asdict(self)
        return {k: value for k, value in values.items() if k not in others}

    def to_json(self) -> str:
        """The text of a bert_config.json with these values.

        Keys that Google's have not are there where they say something else.

        Examples:
            >>> config = bert_keras.BertConfig.of_size("tiny", vocab_size=30522)
            >>> print(config.to_json())
            {
              ...
              "num_hidden_layers": 2,
              "type_vocab_size": 2,
              "vocab_size": 30522
            }
            <BLANKLINE>
        """
        values = self.to_dict()
        values |= values.pop("other")
        for name in ("layer_norm_eps", "family", "direction", *MODERN):
            if values.get(name) == getattr(BertConfig, name):
                del values[name]
        if self.pad_token_id is None:
            del values["pad_token_id"]
        return to_json(values, indent=2, sort_keys=True) + "\n"


def model_config_file(path: str) -> str | None:
    """The config beside the weights that `path` names: the path of a
    bert_config.json or a config.json; None where neither is."""
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
        one, two = map(BertConfig.from_json_file, (config_file, other_file))
    except InputError:  # which is raised again where the first is read
        return
    names = [field.name for field in dataclasses.fields(BertConfig)]
    differences = [
        f"{name} ({getattr(one, name)}, not {getattr(two, name)})"
        for name in names
        if name != "other" and getattr(one, name) != getattr(two, name)
    ]
    if differences:
        warn(
            f"{config_file} is used, which goes with the weights beside it, "
            f"and not {os.path.basename(other_file)}; they differ in "
            f"{', '.join(differences)}"
        )
