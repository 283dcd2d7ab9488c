"""What may be predicted of a text or a pair: a class, several, or a number.

Each target says how its labels become numbers, what the loss of the model's
outputs is and what those outputs mean. Upstream file: run_classifier.py,
create_model, for the first; Liu et al. 2019 (RoBERTa) and Hugging Face's
classifiers for the two others' losses.

Shapes: B batch, N examples, C outputs.
"""

import dataclasses
import math
from typing import Any, Protocol

import numpy as np
from keras import ops

from data.record_features import Feature
from input_error import InputError
from modeling.heads import (
    binary_cross_entropy,
    cross_entropy,
    squared_error,
)
from tasks.metrics import (
    classification_metrics,
    multi_label_metrics,
    regression_metrics,
)

Tensor = Any
Sums = dict[str, tuple[Tensor, Tensor]]
LABELS = "label_ids"


class Target(Protocol):
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

    def encode(self, label: str | None) -> list[float]:
        """The numbers of a label; zeros where it is not known."""

    def weights(self, labels: Tensor, rows: Tensor) -> Tensor:
        """float32 [B]: how much each row's loss counts.

        Args:
            labels: [B, ...], what `encode` gave.
            rows: float32 [B], 0 for padding.
        """

    def loss(
        self, logits: Tensor, labels: Tensor, weights: Tensor
    ) -> tuple[Tensor, Sums]:
        """The weighted sum of the rows' losses, and sums for metrics."""

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

    def encode(self, label: str | None) -> list[float]:
        return [0 if label is None else _number_of(label, self.labels)]

    def weights(self, labels: Tensor, rows: Tensor) -> Tensor:
        if not self.class_weights:
            return rows
        table = ops.convert_to_tensor(self.class_weights, dtype="float32")
        return rows * ops.take(table, labels[:, 0])

    def loss(
        self, logits: Tensor, labels: Tensor, weights: Tensor
    ) -> tuple[Tensor, Sums]:
        sums = cross_entropy(logits, labels[:, 0], weights)
        return sums.loss, {"accuracy": (sums.correct, sums.weight)}

    def scores(self, logits: np.ndarray) -> np.ndarray:
        return np.exp(_log_softmax(logits))

    def losses(self, logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return -np.take_along_axis(_log_softmax(logits), labels, axis=-1)[:, 0]

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

    def encode(self, label: str | None) -> list[float]:
        present: list[float] = [0] * len(self.labels)
        for name in (label or "").split(self.separator):
            if name.strip():
                present[_number_of(name.strip(), self.labels)] = 1
        return present

    def weights(self, labels: Tensor, rows: Tensor) -> Tensor:
        return rows

    def loss(
        self, logits: Tensor, labels: Tensor, weights: Tensor
    ) -> tuple[Tensor, Sums]:
        sums = binary_cross_entropy(logits, labels, weights)
        return sums.loss, {"label_accuracy": (sums.correct, sums.weight)}

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

    def encode(self, label: str | None) -> list[float]:
        try:
            value = 0.0 if label is None else float(label)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(
                f"the label {label!r} is no number, as regression expects"
            )
        return [value]

    def weights(self, labels: Tensor, rows: Tensor) -> Tensor:
        return rows

    def loss(
        self, logits: Tensor, labels: Tensor, weights: Tensor
    ) -> tuple[Tensor, Sums]:
        total, weight = squared_error(logits[:, 0], labels[:, 0], weights)
        return total, {"squared_error": (total, weight)}

    def scores(self, logits: np.ndarray) -> np.ndarray:
        return logits.astype(np.float64)

    def losses(self, logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.square(logits[:, 0].astype(np.float64) - labels[:, 0])

    def evaluate(
        self, names: tuple[str, ...], scores: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        metrics = regression_metrics(scores[:, 0], labels[:, 0])
        return {name: metrics[name] for name in names}


def make_target(kind: str, labels: tuple[str, ...]) -> Target:
    """The target that task.json's words mean."""
    if kind == "regression":
        if len(labels) > 1:
            raise InputError(
                f"the model gives {len(labels)} numbers to a text; expected "
                "a regression of one number"
            )
        return Regression()
    return MultiLabel(labels) if kind == "multi_label" else SingleLabel(labels)


def _number_of(label: str, labels: tuple[str, ...]) -> int:
    try:
        return labels.index(label)
    except ValueError:
        raise InputError(
            f"the label {label!r} is not among {', '.join(labels)}"
        ) from None


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
