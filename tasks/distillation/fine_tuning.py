"""Distillation at fine-tuning: a model of a task with a teacher of the same.

Sanh et al. 2019 (DistilBERT), section 4.1, where a teacher that was fine-tuned
on SQuAD teaches once more; the loss is that of the authors'
run_squad_w_distillation.py, half the task's and half the teacher's.

Shapes: B batch, C classes, E choices among them in each row (the two ends of a
span; none for a label).
"""

from keras import ops

from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import VariableMapping
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.base import TaskModel
from bert_keras.tasks.classification.model import TextClassifier
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.tasks.squad.model import QuestionAnsweringModel

Classes = TextClassifier | QuestionAnsweringModel  # models that choose


class DistilledModel(TaskModel):
    """A student with its teacher. Only the student is trained, kept and asked;
    the teacher has no dropout."""

    def __init__(
        self, student: Classes, teacher: Classes, task: TaskDistillation
    ):
        self.student = student
        self.teacher = teacher
        self.task = task
        self.parts = student.parts
        self.encoder = student.encoder
        self.totals = student.totals
        self.forward = student.forward

    def mappings(self) -> list[VariableMapping]:
        return self.student.mappings()

    def loss(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """As the student's: of its loss, and of how far its probabilities are
        from the teacher's, the weighted mean."""
        logits = self.student.logits(batch, seed)
        targets = ops.stop_gradient(self.teacher.logits(batch, None))
        loss, sums = self.student.loss_of(logits, batch, totals)
        temperature = self.task.distillation_temperature
        distances = fused_ops.divergence(logits, targets, temperature)
        weights = self.student.weights(batch)
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
