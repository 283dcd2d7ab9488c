"""Distillation at fine-tuning: a model of a task with a teacher of the same.

Sanh et al. 2019 (DistilBERT), section 4.1, where a teacher that was fine-tuned
on SQuAD teaches once more; the loss is that of the authors'
run_squad_w_distillation.py, half the task's and half the teacher's.

Shapes: B batch, C classes, E choices among them in each row (the two ends of a
span; none for a label).
"""

from keras import ops

from bert_keras.data.tokenizer_folder import CASE, HUGGING_FACE, open_tokenizer
from bert_keras.errors import InputError, warn
from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import check_sizes
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.classification.model import TextClassifier
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.tasks.distillation.teacher import (
    Distilled,
    config_file,
    load_teacher,
)
from bert_keras.tasks.fine_tuning import FineTuningTask
from bert_keras.tasks.hugging_face_task import folder_task
from bert_keras.tasks.label_names import order_of
from bert_keras.tasks.run_context import check_not_overwritten
from bert_keras.tasks.squad.model import QuestionAnsweringModel

Classes = TextClassifier | QuestionAnsweringModel  # models that choose


class DistilledModel(Distilled):
    """A student of a task, and its teacher."""

    def __init__(
        self, student: Classes, teacher: Classes, task: TaskDistillation
    ):
        super().__init__(student)
        self.teacher = teacher
        self.task = task
        self.totals = student.totals
        self.outputs_by_name = student.outputs_by_name

    def loss_fn(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """As the student's: of its loss, and of how far its probabilities are
        from the teacher's, the weighted mean."""
        logits = self.student.logits(batch, seed)
        targets = self.teacher.logits(batch, None)
        loss, sums = self.student.loss_of(logits, batch, totals)
        temperature = self.task.distillation_temperature
        distances = fused_ops.kl_divergence(
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


def check_teacher(task: FineTuningTask, folder: str) -> BertConfig:
    """The config of a teacher, which has to have learnt its student's task and
    read by its vocabulary. Where it read by other settings, it is said.

    Raises:
        InputError: what it knows is something else.
    """
    settings, opened = task.settings, task.context.tokenizer
    output_dir = task.context.run.output_dir
    check_not_overwritten(output_dir, teacher_model_dir=folder)
    config = BertConfig.from_json_file(config_file(folder))
    if settings.target not in ("single_label", "span"):
        raise InputError(
            f"`teacher_model_dir` is for classes and spans; the target is "
            f"{settings.target}"
        )
    theirs = folder_task(folder)
    if theirs is None:
        raise InputError(
            f"`teacher_model_dir={folder}` has no task.json; expected a model "
            "that was fine-tuned for this task"
        )
    rows = order_of(theirs.labels, settings.labels, task.other_names)
    for name in (
        "target", "labels", "do_lower_case", "strip_accents", "bilstm",
        "second_direction",
    ):  # fmt: skip
        ours, other = getattr(settings, name), getattr(theirs, name)
        if ours != other and not (name == "labels" and rows):
            raise InputError(
                f"`teacher_model_dir={folder}` was trained with {name} = "
                f"{other!r} but here it is {ours!r}; expected the same"
            )
    check_sizes(config, folder, needs_all_layers=True)
    if settings.max_seq_length > config.max_position_embeddings:
        raise InputError(
            f"`max_seq_length` is {settings.max_seq_length} but the teacher "
            f"has {config.max_position_embeddings} positions; shorten it"
        )
    own = open_tokenizer(folder)
    if own is None or opened is None:
        return config
    if own.vocab != opened.vocab:
        raise InputError(
            f"`teacher_model_dir={folder}` has other tokens than "
            f"{opened.vocab_file}; expected a teacher with the vocabulary of "
            "its student"
        )
    read_with = own.settings.to_json()
    for name, value in opened.settings.to_json().items():
        matters = name not in (*CASE, *HUGGING_FACE)  # of rare characters
        if name in read_with and read_with[name] != value and matters:
            warn(
                f"texts are read with {name} = {value!r}, and "
                f"`teacher_model_dir={folder}` was trained with "
                f"{read_with[name]!r}"
            )
    return config


class Teacher:
    """A model that has learned a task, and teaches it to a student."""

    def __init__(self, task: FineTuningTask, distillation: TaskDistillation):
        """Raises an InputError if the teacher is not one for the task."""
        assert distillation.teacher_model_dir is not None, "the task looks"
        self.task = task
        self.distillation = distillation
        self.folder = distillation.teacher_model_dir
        self.config = check_teacher(task, self.folder)

    def teach(self, student: Classes) -> DistilledModel:
        teacher = self.task.make_model(self.config)
        return DistilledModel(student, teacher, self.distillation)

    def load(self, model: DistilledModel) -> None:
        load_teacher(
            model.teacher.mappings(),
            self.folder,
            self.task.settings,
            self.task.other_names,
        )
