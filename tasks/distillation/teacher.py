"""What both kinds of distillation share: a student that is trained alone, and
reading the teacher's folder."""

from collections.abc import Sequence
from typing import Any

import keras

from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import VariableMapping, load_checkpoint
from bert_keras.modeling.config import model_config_file
from bert_keras.tasks.base import missing_weight
from bert_keras.tasks.classifier_head import head_rows, reorder
from bert_keras.tasks.task_config import TaskConfig


class Distilled:
    """A student whose loss looks at a teacher. Only the student is trained,
    kept and asked; the teacher has no dropout."""

    def __init__(self, student: Any):
        self.student = student
        self.encoder = student.encoder
        self.mappings = student.mappings

    @property
    def weights(self) -> list[keras.Variable]:
        return self.student.weights

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return self.student.trainable_variables


def config_file(teacher_model_dir: str) -> str:
    path = model_config_file(teacher_model_dir)
    if path is None:
        raise InputError(
            f"`teacher_model_dir={teacher_model_dir}` has no bert_config.json "
            "or config.json; expected a model folder"
        )
    return path


def load_teacher(
    mappings: Sequence[VariableMapping],
    folder: str,
    settings: TaskConfig | None = None,
    other_names: tuple[str, ...] = (),
) -> None:
    """Loads all of a teacher but what nothing looks at.

    Args:
        settings: what the student answers, if it has a classifier; the teacher
            then answers in the same order.
        other_names: for the student's labels.

    Raises:
        InputError: something is missing that it would teach at random without.
    """
    rows = head_rows(mappings, folder, settings, other_names)
    report = load_checkpoint(mappings, folder)
    reorder(mappings, rows)
    print(f"teacher: {report.source}, {len(report.loaded)} variables loaded")
    if name := missing_weight(report, "output_bias" in report.loaded):
        raise InputError(
            f"`teacher_model_dir={folder}` has no {name}, without which it "
            "would teach at random; expected a model that was trained for what "
            "it is to teach"
        )
