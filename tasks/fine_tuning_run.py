"""Fine-tuning from Python: from keyword settings to a trained model, as
cli/fine_tuning.py goes from flags. Some of it is pre-training's, too."""

import contextlib
import os
import random
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_keras import files
from bert_keras.data.tokenizer_folder import TokenizerOptions
from bert_keras.errors import InputError
from bert_keras.tasks import fine_tuning, load
from bert_keras.tasks.fine_tuning import (
    FineTuning,
    FineTuningConfig,
    FineTuningTask,
)
from bert_keras.tasks.keyword_settings import Keywords, Settings, types_of
from bert_keras.tasks.run_context import RunConfig
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.training.config import (
    DeviceConfig,
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)
from bert_keras.training.early_stopping import EVAL_LOG, evaluation_names
from bert_keras.training.loop import Callback
from bert_keras.training.monitor import LOG

TYPES = {
    name: kind
    for each in (
        RunConfig, TokenizerOptions, FineTuningConfig, OptimizerConfig,
        LoopConfig, ModelSelection,
    )
    for name, kind in types_of(each).items()
}  # fmt: skip
# Fields of these dataclasses that no command has a flag for, or that are
# arguments of their own.
NOT_SETTINGS = {
    "init_checkpoint", "output_dir", "steps_per_call", "optimizer", "loop",
    "selection", "distillation", "tokenizer", "flags", "data_files",
    "do_train", "dry_run", "adam_beta_1", "max_gradient_norm",
    "weight_decay_rate",
}  # fmt: skip
# What pre-training alone has.
OF_PRETRAINING = {
    "num_train_steps", "num_warmup_steps", "batch_ramp_steps", "direction",
}  # fmt: skip
NO_SEED = 87654321  # what TensorFlow says where none is set


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
    types = {**TYPES}
    for kind in kinds:
        types |= types_of(kind)
    return Settings(
        function,
        types | types_of(TaskConfig, *task_fields),
        {*NOT_SETTINGS, *OF_PRETRAINING, *without},
        **defaults,
    )


_training = threading.RLock()  # kept by the thread that trains


@contextlib.contextmanager
def one_training() -> Iterator[None]:
    """Threads cannot train at once: random numbers and Keras's policy are the
    process's.

    Raises:
        InputError: another thread trains.
    """
    if not _training.acquire(blocking=False):
        raise InputError(
            "another thread of this process is training; train one after the "
            "other, or in processes of their own"
        )
    try:
        yield
    finally:
        files.forget_streams()
        _training.release()


@contextlib.contextmanager
def as_before() -> Iterator[None]:
    """Leaves the process as it was: Keras's policy, the random numbers of
    others, and no folder kept."""
    policy = keras.config.dtype_policy()
    states = random.getstate(), np.random.get_state()
    seed = tf.compat.v1.get_seed(0)[0]
    held = files.held()
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)
        random.setstate(states[0])
        np.random.set_state(states[1])
        tf.random.set_seed(None if seed == NO_SEED else seed)
        files.unlock(held)


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
    best = task.context
    if tuning.config.selection.num_seeds > 1:
        best = fine_tuning.of_seed(best, trainer.seed)
    with as_before():  # once more: the model is as the caller has it
        folder = tuning.run.output_dir
        return trained_model(folder, metrics, best.run.output_dir)


def trained_model(output_dir: str, metrics: dict[str, float], logs: str) -> Any:
    """A folder's pipeline, with what its training came to.

    Args:
        logs: the folder of its steps, which of several seeds is its own.
    """
    model: Any = load.load(output_dir)
    model.metrics = metrics
    steps, evaluations = (_log(logs, name) for name in (LOG, EVAL_LOG))
    for number, figures in evaluations.items():
        if number in steps:
            steps[number] |= evaluation_names(figures) | {"step": number}
    model.history = [*steps.values()]
    return model


def _log(folder: str, name: str) -> dict[int, dict[str, float]]:
    """The lines of a log by their steps."""
    text = files.content(os.path.join(folder, name)) or b""
    lines = map(files.parse_json, text.splitlines())
    return {line["step"]: line for line in lines}
