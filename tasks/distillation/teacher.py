"""Models that learn from a teacher: where it is read, what fits it.

run_pretraining.py's students (pretraining.py) and what is fine-tuned with a
teacher's logits (fine_tuning.py).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bert_keras import files
from bert_keras.data.tokenizer_folder import (
    CASE,
    HUGGING_FACE,
    OpenedTokenizer,
    open_tokenizer,
)
from bert_keras.data.tokenizers import check_any_vocabulary
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import VariableMapping, load_checkpoint
from bert_keras.modeling.config import BertConfig, model_config_file
from bert_keras.tasks import checkpoint_compatibility, trainer
from bert_keras.tasks.classifier_head import ClassifierHead, reorder
from bert_keras.tasks.distillation.config import (
    DistilBertLoss,
    StudentConfig,
    TaskDistillation,
    evenly_spaced,
)
from bert_keras.tasks.distillation.fine_tuning import DistilledModel
from bert_keras.tasks.distillation.pretraining import (
    Distillation,
    student_config,
)
from bert_keras.tasks.fine_tuning import FineTuningTask
from bert_keras.tasks.hugging_face_task import folder_task
from bert_keras.tasks.label_names import order_of
from bert_keras.tasks.pretraining.task import (
    PretrainingConfig,
    PretrainingTask,
)


def with_teacher_files(
    run: trainer.RunConfig, teacher_model_dir: str
) -> trainer.RunConfig:
    """A run that finds its config and vocabulary with the teacher.

    Raises:
        InputError: it has no config, or another one is named, or a direction.
    """
    if run.bert_config_file:
        raise InputError(
            f"`bert_config_file={run.bert_config_file}` is of no use with "
            "`teacher_model_dir`, from whose config the student's follows; "
            "leave it out"
        )
    if run.direction:
        raise InputError(
            f"`direction={run.direction}` is of no use with "
            "`teacher_model_dir`: teacher and student read as the teacher's "
            "config says; leave it out"
        )
    return dataclasses.replace(
        run,
        init_checkpoint=teacher_model_dir,
        bert_config_file=_config_file(teacher_model_dir),
    )


def _config_file(teacher_model_dir: str) -> str:
    path = model_config_file(teacher_model_dir)
    if path is None:
        raise InputError(
            f"`teacher_model_dir={teacher_model_dir}` has no bert_config.json "
            "or config.json; expected a model folder"
        )
    return path


class DistilledPretrainingTask(PretrainingTask):
    """Pre-training of a student, on the masked language model alone."""

    def __init__(
        self,
        student: StudentConfig,
        loss: DistilBertLoss,
        place: trainer.Devices,
        setup: PretrainingConfig,
    ):
        self.student = student
        self.loss = loss
        records = dataclasses.replace(
            setup.records, next_sentence_prediction=False
        )
        super().__init__(
            place,
            dataclasses.replace(setup, records=records),
            dataclasses.asdict(student) | dataclasses.asdict(loss),
        )

    def model_source(self, run: trainer.RunConfig) -> trainer.RunConfig:
        return with_teacher_files(run, self.student.teacher_model_dir)

    def make_model(
        self, config: BertConfig, place: trainer.Devices, run: trainer.RunConfig
    ) -> Distillation:
        """Both models: the teacher as it is, the student as it begins."""
        layers = _layers(self.student, config.num_hidden_layers)
        own = student_config(config, len(layers))
        checkpoint_compatibility.check_config(own, run.init_checkpoint)
        model: Distillation = trainer.make_model(
            lambda: Distillation(own, config, self.loss),
            place,
            run,
            self.batches.seed,
        )
        load_teacher(model.teacher.mappings(), self.student.teacher_model_dir)
        if not self.student.random_student:
            model.copy_layers(layers)
            print(f"the student has layers {', '.join(map(str, layers))} of it")
        return model

    @property
    def begins_at_random(self) -> bool:
        return super().begins_at_random and self.student.random_student


def _layers(student: StudentConfig, teachers: int) -> tuple[int, ...]:
    """Those of the teacher that the student begins with."""
    number = student.num_student_layers
    if student.student_layers is None:
        return evenly_spaced(number or max(teachers // 2, 1), teachers)
    try:
        layers = tuple(int(text) for text in student.student_layers)
    except ValueError:
        layers = ()
    if not layers or not all(0 <= layer < teachers for layer in layers):
        raise InputError(
            f"`student_layers` is {','.join(student.student_layers)}; expected "
            "numbers with commas between them, of the teacher's layers from 0 "
            f"to {teachers - 1}"
        )
    if number not in (None, len(layers)):
        raise InputError(
            f"`student_layers` names {len(layers)} layers but "
            f"`num_student_layers` is {number}; leave one of them out"
        )
    return layers


def load_teacher(
    mappings: Sequence[VariableMapping],
    folder: str,
    head: ClassifierHead | None = None,
) -> None:
    """Loads all of a teacher but what nothing looks at.

    Args:
        head: what the student answers, if it has a classifier; the teacher
            then answers in the same order.

    Raises:
        InputError: something is missing that it would teach at random without.
    """
    rows = None if head is None else head.rows(mappings, folder)
    report = load_checkpoint(mappings, folder)
    reorder(mappings, rows)
    print(f"teacher: {report.source}, {len(report.loaded)} variables loaded")
    for name in report.missing:
        if "/pooler/" not in name or "output_bias" in report.loaded:
            raise InputError(
                f"`teacher_model_dir={folder}` has no {name}, without which it "
                "would teach at random; expected a model that was trained for "
                "what it is to teach"
            )


@dataclasses.dataclass(frozen=True)
class Teacher:
    """Of a model that is fine-tuned."""

    task: TaskDistillation
    folder: str
    config: BertConfig
    head: ClassifierHead


def read_teacher(
    task: TaskDistillation, head: ClassifierHead, opened: OpenedTokenizer
) -> Teacher | None:
    """Looks at `teacher_model_dir`; None where there is none.

    Args:
        head: of the student, who has to have the teacher's task.
        opened: the student's tokenizer, whose vocabulary has to be the
            teacher's. Where its settings are others, it is said.

    Raises:
        InputError: what it knows is something else; or there is none, and
            settings of what it would teach.
    """
    if task == TaskDistillation():
        return None
    if task.teacher_model_dir is None:
        raise InputError(
            "`distillation_temperature` and `distillation_weight` are for a "
            "model with a teacher; give `teacher_model_dir`, or leave them out"
        )
    folder, settings = task.teacher_model_dir, head.settings
    config = BertConfig.from_json_file(files.local(_config_file(folder)))
    _check_task(folder, head)
    own = open_tokenizer(folder)
    if own and check_any_vocabulary(own.vocab_file) != check_any_vocabulary(
        opened.vocab_file
    ):
        raise InputError(
            f"`teacher_model_dir={folder}` has other pieces than "
            f"{opened.vocab_file}; expected a teacher with the vocabulary of "
            "its student"
        )
    theirs = own.settings.to_json() if own else {}
    for name, value in opened.settings.to_json().items():
        matters = name not in (*CASE, *HUGGING_FACE)  # of rare characters
        if name in theirs and theirs[name] != value and matters:
            checkpoint_compatibility.warn(
                f"texts are read with {name} = {value!r}, and "
                f"`teacher_model_dir={folder}` was trained with "
                f"{theirs[name]!r}"
            )
    if settings.max_seq_length > config.max_position_embeddings:
        raise InputError(
            f"`max_seq_length` is {settings.max_seq_length} but the teacher "
            f"has {config.max_position_embeddings} positions; shorten it"
        )
    head = dataclasses.replace(head, is_kept=False)  # is for the student
    return Teacher(task, folder, config, head)


def _check_task(folder: str, head: ClassifierHead) -> None:
    settings = head.settings
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
    rows = order_of(theirs.labels, settings.labels, head.other_names)
    for name in (
        "target", "labels", "do_lower_case", "strip_accents", "bilstm",
        "second_direction",
    ):  # fmt: skip
        own, other = getattr(settings, name), getattr(theirs, name)
        if own != other and not (name == "labels" and rows):
            raise InputError(
                f"`teacher_model_dir={folder}` was trained with {name} = "
                f"{other!r} but here it is {own!r}; expected the same"
            )


class DistilledTask:
    """A task whose model also learns from a teacher of the same task."""

    def __init__(self, task: FineTuningTask, teacher: Teacher):
        self.task = task
        self.teacher = teacher
        self.settings = task.settings
        self.metric_names = task.metric_names
        self.loss_settings: Mapping[str, Any] = {
            **task.loss_settings,
            **dataclasses.asdict(teacher.task),
        }
        self.prepare = task.prepare
        self.training_data = task.training_data
        self.keep_training_data = task.keep_training_data
        self.evaluate = task.evaluate
        self.check = task.check
        self.report = task.report
        self.predict = task.predict

    def make_model(self, config: BertConfig) -> Any:
        student: Any = self.task.make_model(config)
        teacher: Any = self.task.make_model(self.teacher.config)
        return DistilledModel(student, teacher, self.teacher.task)

    def load_others(self, model: Any) -> None:
        teacher = self.teacher
        load_teacher(model.teacher.mappings(), teacher.folder, teacher.head)


def with_teacher(
    task: FineTuningTask, teacher: Teacher | None
) -> FineTuningTask:
    """The task as it is taught; a task without a teacher as it is, which notes
    so in the settings of its runs."""
    if teacher is not None:
        return DistilledTask(task, teacher)
    names = [field.name for field in dataclasses.fields(TaskDistillation)]
    task.loss_settings = {**task.loss_settings, **dict.fromkeys(names)}
    return task
