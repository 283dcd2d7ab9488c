"""What the commands that fine-tune share: their flags, and the way from these
to a trained model."""

import dataclasses
from typing import TYPE_CHECKING, Any

from bert_keras.cli import command, common_flags

from absl import flags

from bert_keras.errors import InputError
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.training.config import (
    DeviceConfig,
    ModelSelection,
    OptimizerConfig,
)

if TYPE_CHECKING:
    from bert_keras.tasks.fine_tuning import FineTuningConfig, FineTuningTask
    from bert_keras.tasks.run_context import RunContext
    from bert_keras.tasks.task_config import TaskConfig

FLAGS = flags.FLAGS
flags.disclaim_key_flags()  # they are of the command that calls


def define() -> None:
    """What every command that fine-tunes has."""
    common_flags.define_training()
    common_flags.define_tokenizer()
    flags.DEFINE_float(
        "num_train_epochs", 3.0, "Passes over the data.", lower_bound=0.0
    )
    flags.DEFINE_float(
        "warmup_proportion",
        0.1,
        "Share of the steps in which the rate rises.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    # google-research/bert has none of these.
    flags.DEFINE_integer(
        "num_seeds",
        ModelSelection.num_seeds,
        "Runs with --seed, --seed + 1, ...; the best model is kept.",
        lower_bound=1,
    )
    flags.DEFINE_float(
        "layer_decay",
        1.0,
        "By what the learning rate falls from each layer to the one below.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_integer(
        "num_frozen_layers",
        -1,
        "Lowest layers left as they are, with the embeddings; 0: these alone,"
        " -1: everything is trained.",
        lower_bound=-1,
    )


def define_combinations() -> None:
    """What may stand on an encoder, or beside it (encoder_variants.py)."""
    flags.DEFINE_bool(
        "bilstm", False, "Put a BiLSTM, untrained, between encoder and head."
    )
    flags.DEFINE_string(
        "second_init_checkpoint",
        None,
        "Another model folder, which may read in another direction: its outputs"
        " and those of --init_checkpoint go side by side into the head.",
    )


def define_taught() -> None:
    """A model to learn from, beside the labels."""
    common_flags.define_teacher()
    flags.DEFINE_float(
        "distillation_weight",
        TaskDistillation.distillation_weight,
        "Share of the teacher in the loss; the labels have the rest.",
        lower_bound=0.0,
        upper_bound=1.0,
    )


def check_actions() -> None:
    """Of commands with --do_train, --do_eval and --do_predict."""
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise InputError(
            "nothing to do: give --do_train, --do_eval or --do_predict"
        )


def define_labels() -> None:
    """What commands have whose models have labels."""
    flags.DEFINE_bool(
        "keep_classifier_head",
        False,
        "Keep the classifier of --init_checkpoint although its labels have "
        "other names or it was trained for something else; its outputs get "
        "the labels of your data, in order. By default outputs are found by "
        "the names of their labels, and for other labels a new classifier is "
        "trained.",
    )


def compares_models() -> bool:
    """Whether models are compared while training, or several of them."""
    return FLAGS.do_train and (FLAGS.eval_steps > 0 or FLAGS.num_seeds > 1)


class FineTuningCommand:
    """From flags to a trained model: devices, the stored settings, the task.

    Loads TensorFlow; flags are to be checked before.

    Attributes:
        stored_task: what task.json says of the model in output_dir, else of
            that in init_checkpoint.
        fixed_task: the same without training: a model is used as trained.
    """

    def __init__(self, target: str | None = None) -> None:
        """`target`: stored settings of another one do not count."""
        command.import_tensorflow()
        from bert_keras.tasks import fine_tuning, run_context

        self.devices = run_context.make_devices(
            command.from_flags(DeviceConfig), output_dir=FLAGS.output_dir
        )
        self.run = common_flags.run_config()
        self.stored_task = fine_tuning.stored_settings(self.run)
        if self.stored_task and target and self.stored_task.target != target:
            self.stored_task = None
        self.fixed_task = None if FLAGS.do_train else self.stored_task

    @property
    def second_direction(self) -> str | None:
        """In which a second encoder reads, if there is one."""
        from bert_keras.tasks import fine_tuning

        return fine_tuning.second_direction(self.run, self.stored_task)

    def task_settings(self, **values: Any) -> "TaskConfig":
        """The task's settings: `values`, flags and the tokenizer's case; for a
        model that is used as trained, its own where no flag is given."""
        from bert_keras.tasks import fine_tuning
        from bert_keras.tasks.task_config import TaskConfig

        case = fine_tuning.tokenizer_case(self.run)
        return command.from_flags(TaskConfig, self.fixed_task, **case, **values)

    def check_target(self, target: str) -> None:
        """Refuses to use a model that was trained for another."""
        if self.fixed_task and self.fixed_task.target != target:
            raise InputError(
                f"the model was trained for {self.fixed_task.target}, not for "
                f"{target}; check --output_dir and --init_checkpoint, and what "
                "names the task"
            )

    def open(
        self, settings: "TaskConfig"
    ) -> tuple["RunContext", "FineTuningConfig"]:
        """What a task is made with beside its settings and data.

        Raises:
            InputError: config, vocabulary and flags do not fit, or a model is
                to be used with other settings than it was trained with.
        """
        from bert_keras.files import beside
        from bert_keras.tasks import fine_tuning
        from bert_keras.tasks.task_config import TASK

        if self.fixed_task:
            fine_tuning.check_use(settings, self.fixed_task, FLAGS.output_dir)
        elif (
            self.stored_task
            and self.run.begins_anew
            and settings.target == self.stored_task.target
            # a Hugging Face folder does not say with what it was trained
            and beside(FLAGS.init_checkpoint, [TASK])
        ):
            for name, value in dataclasses.asdict(settings).items():
                then = getattr(self.stored_task, name)
                if value != then and name in FLAGS and not FLAGS[name].present:
                    print(
                        f"--{name} is not given: it is {value!r}, and "
                        f"--init_checkpoint was trained with {then!r}"
                    )
        context = fine_tuning.open_context(self.devices, self.run, settings)
        config = command.from_flags(
            fine_tuning.FineTuningConfig,
            optimizer=command.from_flags(OptimizerConfig),
            loop=common_flags.loop_config(),
            selection=command.from_flags(ModelSelection),
        )
        return context, config

    def execute(self, task: "FineTuningTask") -> None:
        """Does what --do_train, --do_eval, --do_predict and --dry_run ask."""
        from bert_keras.tasks import dry_run, fine_tuning, run_context
        from bert_keras.tasks.distillation.teacher import with_teacher
        from bert_keras.tasks.trainer import Trainer

        task = with_teacher(task, command.from_flags(TaskDistillation))
        run_context.claim_folder(self.run, self.devices.host)
        task.prepare()
        context, seed = task.context, task.config.seed
        if self.run.dry_run:
            if FLAGS.do_train and task.config.selection.num_seeds > 1:
                context = fine_tuning.of_seed(context, seed)
            dry_run.report(task, context, seed)
            return
        if FLAGS.do_train:
            trainer = fine_tuning.train(task)
        else:
            trainer = Trainer(task, context, seed)
            trainer.restore()
        if "do_eval" in FLAGS and FLAGS.do_eval:
            task.report(trainer)
        if FLAGS.do_predict:
            task.predict(trainer)
