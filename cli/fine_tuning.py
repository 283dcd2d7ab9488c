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
    from bert_keras.tasks.fine_tuning import FineTuning, FineTuningTask

FINE_TUNING_FLAGS = (
    Flag("num_train_epochs", 3.0, Group.TRAINING,
         "Number of passes over the training data; fractions are allowed."),
    Flag("warmup_proportion", 0.1, Group.TRAINING,
         "Share of the training steps in which the learning rate rises "
         "linearly to --learning_rate."),
    *common_flags.TRAINING_FLAGS,
    *common_flags.TOKENIZER_FLAGS,
    Flag("num_seeds", ModelSelection, Group.TRAINING,
         "Number of runs, with seeds --seed, --seed + 1 and so on; the best "
         "model is kept."),
    Flag("layer_decay", 1.0, Group.OPTIMIZER,
         "Factor by which the learning rate falls from each layer to "
         "the layer below; 1 gives all layers the same rate."),
    Flag("num_frozen_layers", -1, Group.OPTIMIZER,
         "Number of lowest layers that stay unchanged, along with the "
         "embeddings; 0 freezes the embeddings alone, -1 freezes nothing."),
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
         "comes from the labels."),
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


def from_flags(flags: Flags, *targets: str) -> "FineTuning":
    """What a command for these targets was asked to do. Loads TensorFlow; flags
    are to be checked before.

    Raises:
        InputError: a model that was trained for another target is to be used.
    """
    command.import_tensorflow(flags)
    from bert_keras.tasks.fine_tuning import FineTuning, FineTuningConfig

    return FineTuning(
        flags,
        common_flags.run_config(flags),
        flags.make(FineTuningConfig, loop=common_flags.loop_config(flags)),
        flags.make(DeviceConfig),
        targets,
    )


def execute(
    flags: Flags,
    tuning: "FineTuning",
    kind: "Callable[..., FineTuningTask]",
    problem: Any,
    settings: TaskConfig,
) -> None:
    """Does what --do_train, --do_eval, --do_predict and --dry_run ask.

    Args:
        kind: the class of the task.
        problem: its data, and what it is asked.

    Raises:
        InputError: config, vocabulary and flags do not fit, or a model is to
            be used with other settings than it was trained with.
    """
    from bert_keras.tasks import dry_run, fine_tuning
    from bert_keras.tasks.trainer import Trainer

    stored = tuning.stored
    if (
        stored
        and tuning.run.begins_anew
        and settings.target == stored.target
        # a Hugging Face folder does not say with what it was trained
        and beside(flags.init_checkpoint, [TASK])
    ):
        for name, value in dataclasses.asdict(settings).items():
            then = getattr(stored, name)
            if value != then and name in flags and not flags[name].present:
                print(
                    f"--{name} is not given: it is {value!r}, and "
                    f"--init_checkpoint was trained with {then!r}"
                )
    task = tuning.begin(kind, problem, settings)
    context, config = task.context, task.config
    if flags.dry_run:
        if flags.do_train and config.selection.num_seeds > 1:
            context = fine_tuning.of_seed(context, config.seed)
        dry_run.report(task, context, config.seed)
        return
    if flags.do_train:
        trainer = fine_tuning.train(task)
    else:
        trainer = Trainer(task, context, config.seed)
        trainer.restore()
    if "do_eval" in flags and flags.do_eval:
        task.report(trainer)
    if flags.do_predict:
        task.predict(trainer)
