"""What the commands that fine-tune share: their flags, and the way from these
to a trained model."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras.errors import InputError
from bert_keras.files import beside
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.tasks.task_config import TASK, TaskConfig
from bert_keras.training.config import DeviceConfig, ModelSelection

if TYPE_CHECKING:
    from bert_keras.tasks.fine_tuning import FineTuningTask
    from bert_keras.tasks.run_context import RunContext

FINE_TUNING_FLAGS = (
    Flag("num_train_epochs", 3.0, Group.TRAINING,
         "Number of passes over the training data; fractions are allowed.", 0),
    Flag("warmup_proportion", 0.1, Group.TRAINING,
         "Share of the training steps in which the learning rate rises "
         "linearly to --learning_rate.", 0, 1),
    *common_flags.TRAINING_FLAGS,
    *common_flags.TOKENIZER_FLAGS,
    Flag("num_seeds", ModelSelection, Group.TRAINING,
         "Number of runs, with seeds --seed, --seed + 1 and so on; the best "
         "model is kept.", 1),
    Flag("layer_decay", 1.0, Group.OPTIMIZER,
         "Factor by which the learning rate falls from each layer to "
         "the layer below; 1 gives all layers the same rate.", 0, 1),
    Flag("num_frozen_layers", -1, Group.OPTIMIZER,
         "Number of lowest layers that stay unchanged, along with the "
         "embeddings; 0 freezes the embeddings alone, -1 freezes nothing.",
         -1),
)  # fmt: skip

# What may stand on an encoder or beside it (encoder_variants.py), and a model
# to learn from beside the labels.
COMBINATION_FLAGS = (
    Flag("bilstm", False, Group.MODEL,
         "Add a randomly initialised BiLSTM between encoder and head."),
    Flag("second_init_checkpoint", str, Group.MODEL,
         "Model folder of a second encoder, which may read in another "
         "direction; the outputs of both encoders are concatenated for the "
         "head."),
    *common_flags.TEACHER_FLAGS,
    Flag("distillation_weight", TaskDistillation, Group.DISTILLATION,
         "Fraction of the loss that comes from the teacher; the rest "
         "comes from the labels.", 0, 1),
)  # fmt: skip

KEEP_HEAD = Flag(
    "keep_classifier_head", False, Group.MODEL,
    "Keep the classifier of --init_checkpoint even if labels have other names "
    "or the task differs; outputs get the labels of your data, in order. By "
    "default outputs are matched by label name, and other labels get a new "
    "classifier.",
)  # fmt: skip


def data_needed(flags: Flags) -> tuple[bool, bool, bool]:
    """Whether --do_train, --do_eval and --do_predict need data to train on, to
    evaluate on and to predict. Models are also compared by evaluations.

    Raises:
        InputError: none of them is given.
    """
    if not (flags.do_train or flags.do_eval or flags.do_predict):
        raise InputError(
            "nothing to do: give --do_train, --do_eval or --do_predict"
        )
    compares = flags.make(ModelSelection).compares(flags.do_train)
    return flags.do_train, flags.do_eval or compares, flags.do_predict


class FineTuningCommand:
    """From flags to a trained model: devices, the stored settings, the task.

    Loads TensorFlow; flags are to be checked before.

    Attributes:
        flags: the command's.
        stored_task: what task.json says of the model in output_dir, else of
            that in init_checkpoint.
        fixed_task: the same without training: a model is used as trained.
    """

    def __init__(self, flags: Flags, *targets: str) -> None:
        """
        Args:
            targets: that the command is for; where it trains, stored settings
                of another one do not count.

        Raises:
            InputError: a model that was trained for another is to be used.
        """
        command.import_tensorflow(flags)
        from bert_keras.tasks import fine_tuning, run_context

        self.flags = flags
        self.devices = run_context.make_devices(
            flags.make(DeviceConfig), output_dir=flags.output_dir
        )
        self.run = common_flags.run_config(flags)
        self.stored_task = fine_tuning.stored_settings(self.run)
        self.fixed_task = None if flags.do_train else self.stored_task
        self.check_target(*targets)
        if self.stored_task and self.stored_task.target not in targets:
            self.stored_task = None

    def task_settings(self, **values: Any) -> TaskConfig:
        """The task's settings: `values`, flags, and what follows from folders;
        for a model that is used as trained, its own where no flag is given."""
        from bert_keras.tasks import fine_tuning

        fields = fine_tuning.fields_of_folders(
            self.run, self.stored_task, "second_init_checkpoint" in self.flags
        )
        return self.flags.make(TaskConfig, self.fixed_task, **fields, **values)

    def check_target(self, *targets: str) -> None:
        """Refuses to use a model that was trained for none of these."""
        if self.fixed_task and self.fixed_task.target not in targets:
            raise InputError(
                f"the model was trained for {self.fixed_task.target}, not for "
                f"{' or '.join(targets)}; check --output_dir and "
                "--init_checkpoint, and what names the task"
            )

    def _open(self, settings: TaskConfig) -> "RunContext":
        """Says with what else a model was trained that is trained on."""
        from bert_keras.tasks import fine_tuning

        if self.fixed_task:
            fine_tuning.check_use(
                settings, self.fixed_task, self.flags.output_dir
            )
        elif (
            self.stored_task
            and self.run.begins_anew
            and settings.target == self.stored_task.target
            # a Hugging Face folder does not say with what it was trained
            and beside(self.flags.init_checkpoint, [TASK])
        ):
            for name, value in dataclasses.asdict(settings).items():
                then = getattr(self.stored_task, name)
                if (
                    value != then
                    and name in self.flags
                    and not self.flags[name].present
                ):
                    print(
                        f"--{name} is not given: it is {value!r}, and "
                        f"--init_checkpoint was trained with {then!r}"
                    )
        return fine_tuning.open_context(self.devices, self.run, settings)

    def execute(
        self,
        kind: "Callable[..., FineTuningTask]",
        problem: Any,
        settings: TaskConfig,
    ) -> None:
        """Does what --do_train, --do_eval, --do_predict and --dry_run ask.

        Args:
            kind: the class of the task.
            problem: its data, and what it is asked.

        Raises:
            InputError: config, vocabulary and flags do not fit, or a model is
                to be used with other settings than it was trained with.
        """
        from bert_keras.tasks import fine_tuning
        from bert_keras.tasks.trainer import Trainer

        context = self._open(settings)
        config = self.flags.make(
            fine_tuning.FineTuningConfig,
            loop=common_flags.loop_config(self.flags),
        )
        task = kind(problem, settings, context, config)
        fine_tuning.begin(task, self.flags.make(TaskDistillation))
        if self.run.dry_run:
            from bert_keras.tasks import dry_run

            if self.flags.do_train and config.selection.num_seeds > 1:
                context = fine_tuning.of_seed(context, config.seed)
            dry_run.report(task, context, config.seed)
            return
        if self.flags.do_train:
            trainer = fine_tuning.train(task)
        else:
            trainer = Trainer(task, context, config.seed)
            trainer.restore()
        if "do_eval" in self.flags and self.flags.do_eval:
            task.report(trainer)
        if self.flags.do_predict:
            task.predict(trainer)
