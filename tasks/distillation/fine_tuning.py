"""Distillation at fine-tuning: a model of a task with a teacher of the same.

Sanh et al. 2019 (DistilBERT), section 4.1, where a teacher that was fine-tuned
on SQuAD teaches once more; the loss is that of the authors'
run_squad_w_distillation.py, half the task's and half the teacher's.

Shapes: B batch, C classes, E choices among them in each row (the two ends of a
span; none for a label).
"""

from typing import Any

from keras import ops

from bert_keras.modeling import fused_ops
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.classification.model import TextClassifier
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.tasks.distillation.student import Distilled
from bert_keras.tasks.squad.model import QuestionAnsweringModel

Classes = TextClassifier | QuestionAnsweringModel  # models that choose


class DistilledModel(Distilled[Any]):
    """A student of a task, and its teacher."""

    def __init__(
        self, student: Classes, teacher: Classes, task: TaskDistillation
    ):
        super().__init__(student)
        self.teacher = teacher
        self.task = task
        self.totals = student.totals
        self.forward = student.forward

    def loss_fn(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """As the student's: of its loss, and of how far its probabilities are
        from the teacher's, the weighted mean."""
        logits = self.student.logits(batch, seed)
        targets = self.teacher.logits(batch, None)
        loss, sums = self.student.loss_of(logits, batch, totals)
        temperature = self.task.distillation_temperature
        distances = fused_ops.divergence(
            _joined(logits), ops.stop_gradient(_joined(targets)), temperature
        )
        weights = self.student.example_weights(batch)
        by_row = ops.mean(
            ops.reshape(distances, (ops.shape(weights)[0], -1)), axis=1
        )
        soft = temperature**2 * ops.sum(weights * by_row)
        share, rows = self.task.distillation_weight, totals["rows"]
        weight = ops.sum(weights)
        return (
            (1.0 - share) * loss + share * ops.divide_no_nan(soft, rows),
            {
                "task_loss": (loss * rows, weight),
                "soft_target_loss": (soft, weight),
                **sums,
            },
        )


def _joined(logits: Tensor | dict[str, Tensor]) -> Tensor:
    """[B, C]; of both ends of a span [B, 2, S]."""
    if isinstance(logits, dict):
        return ops.stack([*logits.values()], axis=1)
    return logits
