"""What a fine-tuned model folder says of itself: task.json beside the weights.

Whoever predicts with the folder then needs no argument of the training run.
"""

import dataclasses
import math
import os
import re
from collections.abc import Callable
from typing import Any, get_args

from bert_keras.errors import InputError
from bert_keras.files import content, parse_json, to_json

TASK = "task.json"
TEXT_TARGETS = "single_label", "multi_label", "regression"  # of texts and pairs
TARGETS = *TEXT_TARGETS, "span", "choice", "tags"
POOLINGS = ("mean", "max")
ANSWER_OFFSETS = ("exact", "google")
MAX_LSTM_SIZE = 4096  # whose weights take half a gigabyte and more
FEATURE_LAYERS = (  # the rows of Devlin et al. 2018, table 7, and plain sums
    "embeddings", "second_to_last", "last", "sum_last_four", "sum_all",
    "weighted_sum_last_four", "weighted_sum_all", "concat_last_four",
)  # fmt: skip


# By a field's type: what fits, and its name in errors.
_EXPECTED: dict[object, tuple[Callable[[Any], bool], str]] = {
    str: (
        lambda x: isinstance(x, str) and not re.search("[\ud800-\udfff]", x),
        "text",
    ),
    int: (lambda x: type(x) is int and x > 0, "a positive whole number"),
    bool: (lambda x: type(x) is bool, "true or false"),
    float: (lambda x: type(x) in (int, float) and math.isfinite(x), "a number"),
}


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    target: str  # one of TARGETS
    max_seq_length: int  # tokens
    do_lower_case: bool
    strip_accents: bool | None = None  # None: as do_lower_case
    labels: tuple[str, ...] = ()  # in the order of the model's outputs
    doc_stride: int | None = None  # tokens between two windows; None: cut off
    window_pooling: str = "mean"  # one of POOLINGS, of a document's windows
    # for classes and numbers: what an example is, and how its table was read
    takes_pairs: bool | None = None  # two texts, not one; None: not known
    text_column: str = "text"
    text_pair_column: str | None = None
    label_column: str = "label"
    has_header: bool = True
    separator: str | None = None  # where no header shows it
    label_separator: str = ","
    # modeling/encoder_variants.py
    bilstm: bool = False  # on the encoder, below the head
    second_direction: str | None = None  # of a second encoder, if there is one
    # of spans
    max_query_length: int = 64  # tokens
    max_answer_length: int = 30  # tokens
    n_best_size: int = 20
    version_2_with_negative: bool = False  # questions may have no answer
    null_score_diff_threshold: float = 0.0
    answer_offsets: str = "exact"  # one of ANSWER_OFFSETS
    # of tags
    document_context: bool = False  # a text is a document, not a sentence
    # of FEATURE_LAYERS, under a BiLSTM; None: the encoder is trained
    feature_layers: str | None = None
    lstm_size: int = 768  # of a direction

    def __post_init__(self) -> None:
        if self.has_header:  # another table's may have another separator
            object.__setattr__(self, "separator", None)
        for name, words in (
            ("target", TARGETS),
            ("window_pooling", POOLINGS),
            ("answer_offsets", ANSWER_OFFSETS),
            ("feature_layers", (None, *FEATURE_LAYERS)),
        ):
            if (value := getattr(self, name)) not in words:
                expected = ", ".join(word or "null" for word in words)
                raise InputError(
                    f"{name} is {value!r}; expected one of {expected}"
                )
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kind, *others = get_args(field.type) or (field.type,)
            fits, expected = _EXPECTED[kind]
            if ... in others:  # tuple[str, ...]
                expected = "a list of texts"
                is_fit = isinstance(value, tuple) and all(map(fits, value))
            elif others:  # None
                expected += " or null"
                is_fit = value is None or fits(value)
            else:
                is_fit = fits(value)
            if not is_fit:
                raise InputError(
                    f"{field.name} is {value!r}; expected {expected}"
                )
        if self.lstm_size > MAX_LSTM_SIZE:
            raise InputError(
                f"lstm_size is {self.lstm_size}; expected at most "
                f"{MAX_LSTM_SIZE}"
            )
        if len(set(self.labels)) < len(self.labels):
            raise InputError(
                f"the labels {', '.join(self.labels)} are not all different; "
                "expected each once"
            )
        if self.target == "span" and self.doc_stride is None:
            raise InputError(
                "doc_stride is None; a model that finds spans reads a long "
                "paragraph through windows, so expected a number"
            )
        if self.bilstm and self.second_direction:
            raise InputError(
                "a BiLSTM stands on one encoder, and here are two; leave out "
                "`bilstm` or `second_init_checkpoint`"
            )

    @property
    def has_one_encoder(self) -> bool:
        """And nothing on it: it reads packed rows, and others know its form."""
        others = self.bilstm, self.second_direction, self.feature_layers
        return not any(others)

    def to_json(self) -> str:
        return to_json(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_folder(cls, folder: str) -> "TaskConfig | None":
        """Reads a folder's task.json; None where there is none, or no folder.

        Raises:
            InputError: it is there and not what `to_json` writes.
        """
        path = os.path.join(folder, TASK)
        text = content(path)
        if text is None:
            return None
        try:
            values = parse_json(text)
            if isinstance(values["labels"], list):  # as JSON has a tuple
                values["labels"] = tuple(values["labels"])
            return cls(**values)
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"{path} cannot be used ({error}); it should be as a training "
                "command wrote it"
            ) from error
