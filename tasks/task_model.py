"""Models of tasks as Keras knows them: an encoder, and heads on it.

The same object is trained in two ways. Keras's `compile` and `fit` call it with
`training=True`, where its layers draw the keys of their dropouts. The loop of
training/loop.py calls `loss_fn`, a pure function of weights, batch and key.
"""

import abc
import dataclasses
from typing import Any, TypeVar

import keras

from bert_keras.modeling.checkpoint import VariableMapping
from bert_keras.modeling.encoder import check_names
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.task_config import TaskConfig

Own = TypeVar("Own", bound="TaskModel")


class TaskModel(keras.Model, abc.ABC):
    """A model that is trained. Its layers are built with it; optimizers keep
    their order.

    Its inputs are a dictionary by the names of the features of our records:
    input_ids, input_mask and segment_ids, each int [B, S]; see `logits` for
    others. `compile` it without a loss to have the model's own, of labels that
    are among the features.

    Attributes:
        encoder: its Encoder, or what stands in for one.
        settings: its task.json; None where there is none.
    """

    encoder: Any

    def __init__(self, **kwargs: Any):
        """`kwargs`: name, dtype and trainable, as every Keras model has."""
        super().__init__(**kwargs)
        self.settings: TaskConfig | None = None

    def build_layers(self) -> None:
        for layer in self.layers:
            if not layer.built:
                layer.build()
        self.built = True

    @abc.abstractmethod
    def mappings(self) -> list[VariableMapping]:
        """Where the weights are in a checkpoint."""

    @abc.abstractmethod
    def logits(self, batch: Batch, seed: Tensor | None) -> Any:
        """What the heads say of a batch.

        Args:
            seed: int32 [2], the key of the dropout; None for none, unless Keras
                trains.
        """

    @abc.abstractmethod
    def totals(self, batch: Batch) -> dict[str, Tensor]:
        """What losses are divided by: sums over rows, so that they add up."""

    @abc.abstractmethod
    def loss_of(
        self, logits: Any, batch: Batch, totals: dict[str, Tensor]
    ) -> tuple[Tensor, Sums]:
        """As `loss_fn`, of what `logits` gave."""

    def loss_fn(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """This batch's part of the loss of the whole that `totals` counts.

        Args:
            batch: what `logits` and `loss_of` look at.
            totals: of the global batch, of which this may be one piece.
            seed: int32 [2], the key of the dropout; None for none.

        Returns:
            The loss in nats, and for each metric a sum and its weight.
        """
        return self.loss_of(self.logits(batch, seed), batch, totals)

    def call(
        self,
        inputs: Batch,
        seed: Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        """What the heads say of a batch.

        Args:
            inputs: as `logits` takes them.
            seed: int32 [2], the key of the dropout; None for one that is drawn
                in training, and otherwise for no dropout.
            training: whether there is dropout, where no `seed` says it.
        """
        check_names(inputs)
        return self.logits(inputs, seed)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        if y is None and self.loss is None:  # labels are among the features
            return self.loss_of(y_pred, x, self.totals(x))[0]
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def get_config(self) -> dict[str, Any]:
        settings = self.settings and json_form(self.settings)
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "settings": settings,
        }

    @classmethod
    def from_config(
        cls: type[Own], config: dict[str, Any], custom_objects: Any = None
    ) -> Own:
        values = dict(config)
        encoder = keras.saving.deserialize_keras_object(
            values.pop("encoder"), custom_objects
        )
        settings = values.pop("settings")
        model = cls(config=encoder.config, encoder=encoder, **values)
        if settings:
            labels = tuple(settings["labels"])
            model.settings = TaskConfig(**{**settings, "labels": labels})
        return model


def json_form(values: Any) -> dict[str, Any]:
    """A dataclass's fields that its constructor takes, tuples as lists."""
    return {
        field.name: list(value) if isinstance(value, tuple) else value
        for field in dataclasses.fields(values)
        if field.init
        for value in [getattr(values, field.name)]
    }
