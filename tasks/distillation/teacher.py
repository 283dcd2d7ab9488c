"""Models that learn from a teacher: where it is read, what fits it.

run_pretraining.py's students (pretraining.py) and what is fine-tuned with a
teacher's logits (fine_tuning.py).
"""

import dataclasses
from collections.abc import Sequence

from bert_keras import files
from bert_keras.data.tokenizer_folder import (
    CASE,
    HUGGING_FACE,
    open_tokenizer,
)
from bert_keras.data.tokenizers import check_any_vocabulary
from bert_keras.errors import InputError, warn
from bert_keras.modeling.checkpoint import (
    VariableMapping,
    check_sizes,
    load_checkpoint,
)
from bert_keras.modeling.config import BertConfig, model_config_file
from bert_keras.tasks import checkpoint_compatibility
from bert_keras.tasks.base import missing_weight
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
from bert_keras.tasks.fine_tuning import Data, FineTuningTask
from bert_keras.tasks.hugging_face_task import folder_task
from bert_keras.tasks.label_names import order_of
from bert_keras.tasks.pretraining.task import (
    PretrainingConfig,
    PretrainingTask,
)
from bert_keras.tasks.run_context import (
    Devices,
    RunConfig,
    check_not_overwritten,
)
from bert_keras.tasks.trainer import Trainer


def config_file(teacher_model_dir: str) -> str:
    path = model_config_file(teacher_model_dir)
    if path is None:
        raise InputError(
            f"`teacher_model_dir={teacher_model_dir}` has no bert_config.json "
            "or config.json; expected a model folder"
        )
    return path


class DistilledPretrainingTask(PretrainingTask):
    """Pre-training of a student, on the masked language model alone.

    Config and vocabulary are found with the teacher.
    """

    def __init__(
        self,
        student: StudentConfig,
        loss: DistilBertLoss,
        devices: Devices,
        run: RunConfig,
        config: PretrainingConfig,
    ):
        folder = student.teacher_model_dir
        check_not_overwritten(run.output_dir, teacher_model_dir=folder)
        for name in ("bert_config_file", "model_size"):
            if given := getattr(run, name):
                raise InputError(
                    f"`{name}={given}` is of no use with `teacher_model_dir`, "
                    "from whose config the student's follows; leave it out"
                )
        if run.direction:
            raise InputError(
                f"`direction={run.direction}` is of no use with "
                "`teacher_model_dir`: teacher and student read as the "
                "teacher's config says; leave it out"
            )
        super().__init__(
            devices,
            run,
            dataclasses.replace(config, next_sentence_prediction=False),
            dataclasses.replace(
                run,
                init_checkpoint=folder,
                bert_config_file=config_file(folder),
            ),
            dataclasses.asdict(student) | dataclasses.asdict(loss),
        )
        self.student = student
        self.loss = loss
        self.teacher_config = self.context.config
        self.layers = _layers(student, self.teacher_config.num_hidden_layers)
        own = student_config(self.teacher_config, len(self.layers))
        checkpoint_compatibility.check_config(own, run.init_checkpoint)
        self.context = dataclasses.replace(self.context, config=own)
        self.metric_names = ("loss", *Distillation.metric_names)

    def make_model(self, config: BertConfig) -> Distillation:
        return Distillation(config, self.teacher_config, self.loss)

    def load_others(self, model: Distillation) -> None:
        """The teacher as it is, the student as it begins."""
        load_teacher(model.teacher.mappings(), self.student.teacher_model_dir)
        if not self.student.random_student:
            model.copy_layers(self.layers)
            names = ", ".join(map(str, self.layers))
            print(f"the student has layers {names} of it")

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
    if name := missing_weight(report, "output_bias" in report.loaded):
        raise InputError(
            f"`teacher_model_dir={folder}` has no {name}, without which it "
            "would teach at random; expected a model that was trained for what "
            "it is to teach"
        )


def check_teacher(task: FineTuningTask, folder: str) -> BertConfig:
    """The config of a teacher, which has to have learnt its student's task and
    read by its vocabulary. Where it read by other settings, it is said.

    Raises:
        InputError: what it knows is something else.
    """
    settings, opened = task.settings, task.context.tokenizer
    output_dir = task.context.run.output_dir
    check_not_overwritten(output_dir, teacher_model_dir=folder)
    config = BertConfig.from_json_file(files.local(config_file(folder)))
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
    if check_any_vocabulary(own.vocab_file) != check_any_vocabulary(
        opened.vocab_file
    ):
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


def with_teacher(
    task: FineTuningTask, distillation: TaskDistillation
) -> FineTuningTask:
    """The task as it is learnt from a teacher, if one is named.

    Raises:
        InputError: the teacher is not one for the task, or only its settings
            are given.
    """
    if distillation.teacher_model_dir:
        return DistilledTask(task, distillation)
    if distillation != TaskDistillation():
        raise InputError(
            "`distillation_temperature` and `distillation_weight` are for a "
            "model with a teacher; give `teacher_model_dir`, or leave them out"
        )
    # which the run's settings say
    none = dict.fromkeys(dataclasses.asdict(distillation))
    task.loss_settings = {**task.loss_settings, **none}
    return task


class DistilledTask(FineTuningTask):
    """A task whose model also learns from a teacher of the same task."""

    def __init__(self, task: FineTuningTask, distillation: TaskDistillation):
        """Raises an InputError if the teacher is not one for the task."""
        assert distillation.teacher_model_dir is not None, "the caller looks"
        self.task = task
        self.settings = task.settings
        self.context = task.context
        self.config = task.config
        self.metric_names = task.metric_names
        self.other_names = task.other_names
        self.eval_argument = task.eval_argument
        self.distillation = distillation
        self.folder = distillation.teacher_model_dir
        self.teacher_config = check_teacher(task, self.folder)
        self.loss_settings = {
            **task.loss_settings,
            **dataclasses.asdict(distillation),
        }

    def make_model(self, config: BertConfig) -> DistilledModel:
        student = self.task.make_model(config)
        teacher = self.task.make_model(self.teacher_config)
        return DistilledModel(student, teacher, self.distillation)

    def load_others(self, model: DistilledModel) -> None:
        head = ClassifierHead(self.settings, self.other_names)
        load_teacher(model.teacher.mappings(), self.folder, head)

    def training_data(self) -> Data:
        return self.task.training_data()

    def keep_training_data(self) -> None:
        self.task.keep_training_data()

    def prepare(self) -> None:
        self.task.prepare()

    def evaluate(self, trainer: Trainer) -> dict[str, float]:
        return self.task.evaluate(trainer)

    def check(self, trainer: Trainer) -> None:
        self.task.check(trainer)

    def predict(self, trainer: Trainer) -> None:
        self.task.predict(trainer)
