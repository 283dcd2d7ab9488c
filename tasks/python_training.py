"""Training from Python: what pre-training and fine-tuning share.

Settings are given by name. One thread trains at a time, and leaves the process
as it was. The trained model has its metrics and history.
"""

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_keras import files, locks
from bert_keras.data.tokenizer_folder import TokenizerOptions
from bert_keras.errors import InputError
from bert_keras.tasks import load
from bert_keras.tasks.keyword_settings import types_of
from bert_keras.tasks.run_context import RunConfig
from bert_keras.training.config import (
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)
from bert_keras.training.early_stopping import EVAL_LOG, evaluation_names
from bert_keras.training.monitor import LOG

TYPES = {
    name: kind
    for each in (
        RunConfig, TokenizerOptions, OptimizerConfig, LoopConfig,
        ModelSelection,
    )
    for name, kind in types_of(each).items()
}  # fmt: skip
# Fields of these dataclasses that no command has a flag for, or that are
# arguments of their own.
NOT_SETTINGS = {
    "init_checkpoint", "output_dir", "steps_per_call", "flags", "data_files",
    "do_train", "dry_run", "adam_beta_1", "max_gradient_norm",
    "weight_decay_rate",
}  # fmt: skip
NO_SEED = 87654321  # what TensorFlow says where none is set

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
    held = locks.held()
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)
        random.setstate(states[0])
        np.random.set_state(states[1])
        tf.random.set_seed(None if seed == NO_SEED else seed)
        locks.unlock(held)


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
