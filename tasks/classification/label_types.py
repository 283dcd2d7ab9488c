"""What may be predicted of a text or a pair: a class, several, or a number.

Each target says how its labels become numbers, what the loss of the model's
outputs is and what those outputs mean. Upstream file: run_classifier.py,
create_model, for the first; Liu et al. 2019 (RoBERTa) and Hugging Face's
classifiers for the two others' losses.

Shapes: B batch, N examples, C outputs.
"""

import dataclasses
import math
from typing import Protocol

import numpy as np
from keras import ops

from bert_keras.data.record_schema import Feature
from bert_keras.errors import InputError
from bert_keras.modeling.heads import (
    binary_cross_entropy,
    cross_entropy,
    squared_error,
)
from bert_keras.modeling.tensors import Tensor
from bert_keras.tasks.classification.examples import Label
from bert_keras.tasks.label_names import class_key
from bert_keras.tasks.metrics import (
    classification_metrics,
    log_softmax,
    multi_label_metrics,
    regression_metrics,
)

Sums = dict[str, tuple[Tensor, Tensor]]
LABELS = "label_ids"
MAX_SHOWN = 12  # classes, in a description


class LabelType(Protocol):
    """Not a base class: the three below have this form."""

    @property
    def kind(self) -> str:
        """Its word in task.json."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def num_outputs(self) -> int: ...

    @property
    def feature(self) -> Feature:
        """What a record holds of it."""

    def encode(self, label: Label) -> list[float]:
        """The numbers of a label; zeros where it is not known."""

    def weights(self, labels: Tensor, rows: Tensor) -> Tensor:
        """float32 [B]: how much each row's loss counts.

        Args:
            labels: [B, ...], what `encode` gave.
            rows: float32 [B], 0 for padding.
        """

    def loss(
        self, logits: Tensor, labels: Tensor, rows: Tensor
    ) -> tuple[Tensor, Sums]:
        """The sum of the rows' losses with `weights`, and sums for metrics, in
        which a class counts as often as it occurs."""

    def describe(self, labels: np.ndarray) -> str:
        """How often each of [N, ...] labels occurs, or their range."""

    def scores(self, logits: np.ndarray) -> np.ndarray:
        """[..., C] logits to probabilities, or to values."""

    def losses(self, logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """[N, C] and [N, ...] -> the unweighted loss of each example."""

    def evaluate(
        self, names: tuple[str, ...], scores: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        """The metrics of these names that the target has."""


@dataclasses.dataclass(frozen=True)
class SingleLabel:
    """One of C classes."""

    labels: tuple[str, ...]
    class_weights: tuple[float, ...] = ()  # one a label; none: all 1
    kind: str = dataclasses.field(default="single_label", init=False)

    @property
    def num_outputs(self) -> int:
        return len(self.labels)

    @property
    def feature(self) -> Feature:
        return Feature(LABELS, 1, limit=len(self.labels))

    def encode(self, label: Label) -> list[float]:
        label = _only_one(label, "a list of them needs `target=multi_label`")
        return [0 if label is None else _number_of(label, self.labels)]

    def weights(self, labels: Tensor, rows: Tensor) -> Tensor:
        if not self.class_weights:
            return rows
        table = ops.convert_to_tensor(self.class_weights, dtype="float32")
        return rows * ops.take(table, labels[:, 0])

    def loss(
        self, logits: Tensor, labels: Tensor, rows: Tensor
    ) -> tuple[Tensor, Sums]:
        classes = labels[:, 0]
        sums = cross_entropy(logits, classes, self.weights(labels, rows))
        plain = sums
        if self.class_weights:
            plain = cross_entropy(logits, classes, rows)
        return sums.loss, {"accuracy": (plain.correct, plain.weight)}

    def describe(self, labels: np.ndarray) -> str:
        counts = np.bincount(labels[:, 0], minlength=len(self.labels))
        return _shown_counts(self.labels, counts)

    def scores(self, logits: np.ndarray) -> np.ndarray:
        return np.exp(log_softmax(logits))

    def losses(self, logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return -np.take_along_axis(log_softmax(logits), labels, axis=-1)[:, 0]

    def evaluate(
        self, names: tuple[str, ...], scores: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        return classification_metrics(names, scores.argmax(-1), labels[:, 0])


@dataclasses.dataclass(frozen=True)
class MultiLabel:
    """Any number of C classes at once."""

    labels: tuple[str, ...]
    separator: str = ","  # between the labels of one example
    kind: str = dataclasses.field(default="multi_label", init=False)

    @property
    def num_outputs(self) -> int:
        return len(self.labels)

    @property
    def feature(self) -> Feature:
        return Feature(LABELS, len(self.labels), limit=2)

    def encode(self, label: Label) -> list[float]:
        present: list[float] = [0] * len(self.labels)
        names = label or ()
        if isinstance(names, str):
            names = tuple(names.split(self.separator))
        for name in names:
            if name.strip():
                present[_number_of(name.strip(), self.labels)] = 1
        return present

    def weights(self, labels: Tensor, rows: Tensor) -> Tensor:
        return rows

    def loss(
        self, logits: Tensor, labels: Tensor, rows: Tensor
    ) -> tuple[Tensor, Sums]:
        sums = binary_cross_entropy(logits, labels, rows)
        return sums.loss, {"label_accuracy": (sums.correct, sums.weight)}

    def describe(self, labels: np.ndarray) -> str:
        shown = _shown_counts(self.labels, labels.sum(0))
        return f"{shown}; {np.sum(~labels.any(-1))} have no label"

    def scores(self, logits: np.ndarray) -> np.ndarray:
        return np.exp(-np.logaddexp(0.0, -logits.astype(np.float64)))

    def losses(self, logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
        logits = logits.astype(np.float64)
        return np.mean(np.logaddexp(0.0, logits) - labels * logits, axis=-1)

    def evaluate(
        self, names: tuple[str, ...], scores: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        metrics = multi_label_metrics(scores > 0.5, labels)
        return {name: metrics[name] for name in names}


@dataclasses.dataclass(frozen=True)
class Regression:
    """A number."""

    labels: tuple[str, ...] = dataclasses.field(default=(), init=False)
    kind: str = dataclasses.field(default="regression", init=False)
    num_outputs: int = dataclasses.field(default=1, init=False)

    @property
    def feature(self) -> Feature:
        return Feature(LABELS, 1, "float32")

    def encode(self, label: Label) -> list[float]:
        label = _only_one(label, "regression expects a number")
        try:
            value = 0.0 if label is None else float(label)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(
                f"the label {label!r} is not a number, as regression expects"
            )
        return [value]

    def weights(self, labels: Tensor, rows: Tensor) -> Tensor:
        return rows

    def loss(
        self, logits: Tensor, labels: Tensor, rows: Tensor
    ) -> tuple[Tensor, Sums]:
        total, weight = squared_error(logits[:, 0], labels[:, 0], rows)
        return total, {"squared_error": (total, weight)}

    def describe(self, labels: np.ndarray) -> str:
        return (
            f"{labels.min():.4g} to {labels.max():.4g}, mean "
            f"{labels.mean():.4g}"
        )

    def scores(self, logits: np.ndarray) -> np.ndarray:
        return logits.astype(np.float64)

    def losses(self, logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.square(logits[:, 0].astype(np.float64) - labels[:, 0])

    def evaluate(
        self, names: tuple[str, ...], scores: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        metrics = regression_metrics(scores[:, 0], labels[:, 0])
        return {name: metrics[name] for name in names}


def make_target(kind: str, labels: tuple[str, ...]) -> LabelType:
    """The target that task.json's words mean."""
    if kind == "regression":
        if len(labels) > 1:
            raise InputError(
                f"the model gives {len(labels)} numbers to a text; expected "
                "a regression of one number"
            )
        return Regression()
    return MultiLabel(labels) if kind == "multi_label" else SingleLabel(labels)


def _shown_counts(labels: tuple[str, ...], counts: np.ndarray) -> str:
    """The most frequent first."""
    order = np.argsort(-counts, kind="stable")
    shown = [f"{labels[i]}: {counts[i]}" for i in order[:MAX_SHOWN]]
    if others := counts[order[MAX_SHOWN:]].tolist():
        shown.append(f"{len(others)} others: {others[-1]} to {others[0]}")
    return ", ".join(shown)


def _only_one(label: Label, expected: str) -> str | None:
    if not isinstance(label, tuple):
        return label
    if len(label) != 1:
        raise InputError(f"it has {len(label)} labels, {label}; {expected}")
    return label[0]


def _number_of(label: str, labels: tuple[str, ...]) -> int:
    if label in labels:
        return labels.index(label)
    try:
        return [*map(class_key, labels)].index(class_key(label))
    except ValueError:
        raise InputError(
            f"the label {label!r} is not among {', '.join(labels)}"
        ) from None
