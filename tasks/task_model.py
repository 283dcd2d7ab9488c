"""What holds the weights of a model that is trained: layers, in an order."""

import abc

import keras

from bert_keras.modeling.checkpoint import VariableMapping


class TaskModel(abc.ABC):
    """A model's built layers; optimisers' states keep to their order."""

    parts: tuple[keras.layers.Layer, ...]

    @property
    def variables(self) -> list[keras.Variable]:
        return [v for part in self.parts for v in part.variables]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return [v for part in self.parts for v in part.trainable_variables]

    @abc.abstractmethod
    def mappings(self) -> list[VariableMapping]:
        """Where their weights are in a checkpoint."""
