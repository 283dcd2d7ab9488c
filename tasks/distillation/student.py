"""What is trained where a teacher teaches: a student alone."""

from typing import Generic, TypeVar

import keras

from bert_keras.modeling.checkpoint import VariableMapping
from bert_keras.tasks.task_model import TaskModel

Student = TypeVar("Student", bound=TaskModel)


class Distilled(Generic[Student]):
    """A student whose loss looks at a teacher. Only the student is trained,
    kept and asked; the teacher has no dropout."""

    def __init__(self, student: Student):
        self.student = student
        self.encoder = student.encoder

    @property
    def weights(self) -> list[keras.Variable]:
        weights: list[keras.Variable] = self.student.weights
        return weights

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        trained: list[keras.Variable] = self.student.trainable_variables
        return trained

    def mappings(self) -> list[VariableMapping]:
        return self.student.mappings()
