"""Fine-tuning from Python: from keyword settings to a trained model, as
cli/fine_tuning.py goes from flags."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from bert_keras.errors import InputError
from bert_keras.tasks import fine_tuning
from bert_keras.tasks.fine_tuning import (
    FineTuning,
    FineTuningConfig,
    FineTuningTask,
)
from bert_keras.tasks.keyword_settings import Keywords, Settings, types_of
from bert_keras.tasks.python_training import (
    NOT_SETTINGS,
    TYPES,
    as_before,
    one_training,
    trained_model,
)
from bert_keras.tasks.run_context import RunConfig
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.training.config import DeviceConfig
from bert_keras.training.loop import Callback


def fine_tuning_settings(
    function: str,
    kinds: Iterable[Any],
    task_fields: Iterable[str],
    without: Iterable[str],
    **defaults: Any,
) -> Settings:
    """The settings of a function that fine-tunes.

    Args:
        kinds: dataclasses of settings, beside those that all tasks have.
        task_fields: those of TaskConfig that are settings.
        without: fields of `kinds` and of all tasks that are not.
        defaults: those that are not the dataclasses'.
    """
    types = TYPES | types_of(FineTuningConfig)
    for kind in kinds:
        types |= types_of(kind)
    return Settings(
        function,
        types | types_of(TaskConfig, *task_fields),
        {
            *NOT_SETTINGS,
            *without,
            # what pre-training alone has
            *("num_train_steps", "num_warmup_steps", "batch_ramp_steps"),
            "direction",
        },
        **defaults,
    )


def from_keywords(
    settings: Settings,
    given: Mapping[str, Any],
    init_checkpoint: str | os.PathLike[str] | None,
    output_dir: str | os.PathLike[str],
    targets: Collection[str],
    train: Any,
    evaluation: Any,
    eval_argument: str = "eval_file",
) -> FineTuning:
    """What a call of one of Python's functions asks for.

    Args:
        targets: stored settings of another one do not count.
        train: what is trained on.
        evaluation: what is evaluated on; None: nothing.
        eval_argument: the command's for `evaluation`.

    Raises:
        InputError: a setting does not fit.
        TypeError: a setting does not exist.
    """
    values = settings.read(given) | {
        "init_checkpoint": init_checkpoint and os.fspath(init_checkpoint),
        "output_dir": os.fspath(output_dir),
        "do_train": True,
    }
    keywords = Keywords(settings, values)
    config = keywords.make(FineTuningConfig)
    if config.selection.compares(do_train=True) and evaluation is None:
        raise InputError(
            "`eval_steps` and `num_seeds` compare models: give `evaluation`, "
            "the data to compare them on"
        )
    data = {"train_file": train, eval_argument: evaluation}
    paths = {name: x for name, x in data.items() if isinstance(x, str)}
    run = keywords.make(RunConfig, data_files=paths)
    return FineTuning(keywords, run, config, DeviceConfig(), targets)


@one_training()
def train(
    tuning: FineTuning,
    kind: Callable[..., FineTuningTask],
    problem: Any,
    settings: TaskConfig,
    evaluates: bool,
    callback: Callback | None,
) -> Any:
    """Trains, evaluates and loads what has become of output_dir.

    Args:
        kind: the class of the task.
        problem: its data.
        evaluates: whether it has data to be evaluated on.

    Returns:
        The folder's pipeline, with its `metrics` and `history`.
    """
    with as_before():
        task = tuning.begin(kind, problem, settings)
        trainer = fine_tuning.train(task, callback)
        metrics = {}
        if evaluates:
            metrics = task.score(trainer)
            task.check(trainer)
    output_dir = logs = tuning.run.output_dir
    if tuning.config.selection.num_seeds > 1:  # the best one's
        logs = fine_tuning.of_seed(task.context, trainer.seed).run.output_dir
    with as_before():  # once more: the model is as the caller has it
        return trained_model(output_dir, metrics, logs)
