"""Fine-tuning on a target of a text or a pair: encoder, pooler, linear head.

A target is a class, several, or a number. It says how its labels become
numbers, what the loss of the model's outputs is and what those outputs mean.
Devlin et al. 2018, section 4.1. Upstream file: run_classifier.py, create_model,
for one class; Liu et al. 2019 (RoBERTa) and Hugging Face's classifiers for the
losses of the other two.

Shapes: B batch, S positions, N examples, C outputs, W windows of a document.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import keras
import numpy as np
from keras import ops

from bert_keras.data.record_schema import Feature
from bert_keras.data.tokenizer_folder import TokenizerOptions
from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.modeling.heads import (
    LinearHead,
    binary_cross_entropy,
    cross_entropy,
    squared_error,
)
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.base import Outputs
from bert_keras.tasks.classification.data import Label, split_labels
from bert_keras.tasks.label_names import class_key, names_of, to_number
from bert_keras.tasks.metrics import (
    classification_metrics,
    log_softmax,
    multi_label_metrics,
    regression_metrics,
)
from bert_keras.tasks.packed_inputs import example_weights, pooled_examples
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.tasks.task_model import TaskModel, json_form

Loss = tuple[Tensor, Sums]
LABELS = "label_ids"
HEAD_DROPOUT_PROB = 0.1  # upstream's, whatever the config says
MAX_SHOWN = 12  # classes, in a description


class LabelType(Protocol):
    """What is predicted of an example."""

    kind: ClassVar[str]  # its word in task.json
    labels: tuple[str, ...]

    @property
    def num_outputs(self) -> int:
        return len(self.labels)

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
        return rows

    def loss(self, logits: Tensor, labels: Tensor, rows: Tensor) -> Loss:
        """The sum of the rows' losses with `weights`, and sums for metrics, in
        which a class counts as often as it occurs."""

    def describe(self, labels: np.ndarray) -> str:
        """How often each of [N, ...] labels occurs, or their range."""

    def scores(self, logits: np.ndarray) -> np.ndarray:
        """[..., C] logits to probabilities, or to values."""

    def losses(self, logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """[N, C] and [N, ...] -> the unweighted loss of each example."""

    def metrics(
        self, scores: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        """All that there are, of [N, C] and [N, ...]."""


@dataclasses.dataclass(frozen=True)
class SingleLabel(LabelType):
    """One of C classes."""

    kind = "single_label"
    labels: tuple[str, ...]
    class_weights: tuple[float, ...] = ()  # one a label; none: all 1

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

    def loss(self, logits: Tensor, labels: Tensor, rows: Tensor) -> Loss:
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

    def metrics(
        self, scores: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        return classification_metrics(scores.argmax(-1), labels[:, 0])


@dataclasses.dataclass(frozen=True)
class MultiLabel(LabelType):
    """Any number of C classes at once."""

    kind = "multi_label"
    labels: tuple[str, ...]
    separator: str = ","  # between the labels of one example

    @property
    def feature(self) -> Feature:
        return Feature(LABELS, len(self.labels), limit=2)

    def encode(self, label: Label) -> list[float]:
        present: list[float] = [0] * len(self.labels)
        for name in split_labels(label, self.separator):
            present[_number_of(name, self.labels)] = 1
        return present

    def loss(self, logits: Tensor, labels: Tensor, rows: Tensor) -> Loss:
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

    def metrics(
        self, scores: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        return multi_label_metrics(scores > 0.5, labels)


@dataclasses.dataclass(frozen=True)
class Regression(LabelType):
    """A number."""

    kind = "regression"
    labels: tuple[str, ...] = dataclasses.field(default=(), init=False)
    num_outputs = 1
    feature = Feature(LABELS, 1, "float32")

    def encode(self, label: Label) -> list[float]:
        label = _only_one(label, "regression expects a number")
        value = 0.0 if label is None else to_number(label)
        if value is None:
            raise InputError(
                f"the label {label!r} is not a number, as regression expects"
            )
        return [value]

    def loss(self, logits: Tensor, labels: Tensor, rows: Tensor) -> Loss:
        total, weight = squared_error(logits[:, 0], labels[:, 0], rows)
        return total, {"squared_error": (total, weight)}

    def describe(self, labels: np.ndarray) -> str:
        low, high, mean = labels.min(), labels.max(), labels.mean()
        return f"{low:.4g} to {high:.4g}, mean {mean:.4g}"

    def scores(self, logits: np.ndarray) -> np.ndarray:
        return logits.astype(np.float64)

    def losses(self, logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.square(logits[:, 0].astype(np.float64) - labels[:, 0])

    def metrics(
        self, scores: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        return regression_metrics(scores[:, 0], labels[:, 0])


LABEL_TYPES = SingleLabel, MultiLabel, Regression
TARGETS: dict[str, Callable[..., LabelType]] = {
    kind.kind: kind for kind in LABEL_TYPES
}


def make_target(kind: str, labels: tuple[str, ...]) -> LabelType:
    """The target that task.json's words mean."""
    if kind == "regression":
        if len(labels) > 1:
            raise InputError(
                f"the model gives {len(labels)} numbers to a text; expected "
                "a regression of one number"
            )
        return Regression()
    if not labels:
        raise InputError(
            "the labels are not known; give `labels`, or `num_labels`"
        )
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


class PooledClassifier(TaskModel):
    """An encoder with a linear head on its pooled output."""

    def __init__(
        self,
        config: BertConfig,
        num_outputs: int,
        head_name: str,
        encoder: Encoder | None = None,
        **kwargs: Any,
    ):
        super().__init__(config, encoder, **kwargs)
        self.head = LinearHead(
            self.encoder.config, num_outputs, HEAD_DROPOUT_PROB, name=head_name
        )
        self.build_layers()

    def outputs_by_name(self, batch: Batch) -> dict[str, Tensor]:
        """{"logits": [B, C]} without dropout."""
        return {"logits": self.logits(batch, None)}

    def logits(self, batch: Batch, seed: Tensor | None) -> Tensor:
        """[B, C].

        Args:
            batch: padded rows, which are input_ids, input_mask and
                segment_ids, each [B, S]; or packed ones (data/batching.py).
            seed: int32 [2], the key of dropout; None: without dropout, unless
                Keras trains.
        """
        pooled = pooled_examples(self.encoder, batch, seed)
        return self.head(
            pooled, fused_ops.dropout_seed(seed, self.encoder.num_noise_sites)
        )


@keras.saving.register_keras_serializable("bert_keras")
class TextClassifier(PooledClassifier):
    """A model of texts and pairs, with the loss of its target: a class, several
    or a number. `call` gives logits [B, C].

    `TextClassifier(config, 3)` or `TextClassifier(config, ["bad", "good"])` is
    one of classes with random weights.

    Examples:
        >>> model = bert_keras.TextClassifier.from_folder(
        ...     "bert", labels=("bad", "good")
        ... )
        >>> model.compile(
        ...     keras.optimizers.AdamW(2e-5),
        ...     keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        ... )
        >>> inputs = model.tokenize(["A boring film.", "A wonderful film."])
        >>> history = model.fit(inputs, np.array([0, 1]), verbose=0)
        >>> model.predict(inputs, verbose=0).shape
        (2, 2)
    """

    defaults = {"target": "single_label", "max_seq_length": 128}
    targets = tuple(TARGETS)

    def __init__(
        self,
        config: BertConfig,
        target: LabelType | Sequence[str] | int,
        encoder: Encoder | None = None,
        **kwargs: Any,
    ):
        """
        Args:
            config: the encoder's.
            target: class names, or the number of classes, for one class per
                text; or a LabelType.
            encoder: None: a new one of the config.
            kwargs: name, dtype and trainable, as every Keras model has.
        """
        if not isinstance(target, LABEL_TYPES):
            target = make_target("single_label", names_of(target))
        super().__init__(
            config, target.num_outputs, "classifier", encoder, **kwargs
        )
        self.target = target

    @classmethod
    def from_settings(
        cls, config: BertConfig, settings: TaskConfig, **kwargs: Any
    ) -> "TextClassifier":
        target = make_target(settings.target, settings.labels)
        return super().from_settings(
            config, settings, **{"target": target, **kwargs}
        )

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike[str],
        options: TokenizerOptions | None = None,
        num_labels: int | None = None,
        **settings: Any,
    ) -> "TextClassifier":
        """Reads a model folder: ours, Google's or Hugging Face's.

        A head that the folder does not have, or has for something else, starts
        at random.

        Examples:
            >>> model = bert_keras.TextClassifier.from_folder(
            ...     "bert", labels=("bad", "good")
            ... )
            >>> model.settings.labels
            ('bad', 'good')

        Args:
            folder: path of a model folder, or of a weights file in one.
            options: tokenizer settings that replace the folder's.
            num_labels: number of labels, which are then named "0", "1", ...
            settings: fields of task.json, by name, that override the folder's:
                labels, in the order of the outputs; target ("single_label");
                max_seq_length (128); and Keras's name, dtype and trainable.

        Returns:
            The model, with its tokenizer.

        Raises:
            InputError: a file is missing or does not fit the others, or the
                labels are not known.
        """
        if num_labels is not None:
            labels = names_of(settings.setdefault("labels", num_labels))
            if len(labels) != num_labels:
                raise InputError(
                    f"`num_labels={num_labels}` and `labels` has "
                    f"{len(labels)} names; leave `num_labels` out"
                )
        return super().from_folder(folder, options, **settings)

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {"rows": ops.sum(self.example_weights(batch))}

    def loss_of(
        self, logits: Tensor, batch: Batch, totals: dict[str, Tensor]
    ) -> Loss:
        """Reads label_ids [B, length]. Rows without input are padding and do
        not count."""
        total, sums = self.target.loss(
            logits, self._labels(batch), example_weights(batch)
        )
        # A batch of classes that weigh nothing costs nothing.
        return ops.divide_no_nan(total, totals["rows"]), sums

    def label_limits(self, batch: Batch) -> dict[str, tuple[Any, Tensor]]:
        limit = self.target.feature.limit
        self._labels(batch)  # have the right shape
        weights = example_weights(batch)[:, None]
        return {} if limit is None else {LABELS: (limit, weights)}

    def example_weights(self, batch: Batch) -> Tensor:
        """float32 [B]: how much each example counts."""
        return self.target.weights(self._labels(batch), example_weights(batch))

    def _labels(self, batch: Batch) -> Tensor:
        """label_ids; an error unless they are [B, length]. Of a row of zeros
        and a one, the first would be read as the number of a class."""
        labels = batch[LABELS]
        shape, length = tuple(labels.shape), self.target.feature.length
        if len(shape) != 2 or shape[1] not in (None, length):
            raise InputError(
                f"`{LABELS}` has the shape {shape}; expected (number of texts, "
                f"{length}), as {self.target.kind} has"
            )
        return labels

    def get_config(self) -> dict[str, Any]:
        target = {"kind": self.target.kind, **json_form(self.target)}
        return {**super().get_config(), "target": target}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "TextClassifier":
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in config["target"].items()
        }
        target = TARGETS[fields.pop("kind")](**fields)
        return super().from_config({**config, "target": target}, custom_objects)

    def compute_output_spec(self, inputs: Batch, **_: Any) -> Any:
        shape = inputs["input_ids"].shape[0], self.target.num_outputs
        return keras.KerasTensor(shape, "float32")


def pool_windows(outputs: Sequence[Outputs], pooling: str) -> np.ndarray:
    """Joins the logits [C] of a document's W windows into one [C].

    Args:
        pooling: "mean" or "max".
    """
    logits = [window["logits"] for window in outputs]
    return np.mean(logits, 0) if pooling == "mean" else np.max(logits, 0)
