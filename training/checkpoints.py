"""The state of a training run, kept so that it goes on where it stopped.

It holds the weights, the optimiser's moments, the step and the position in
the data, and lives in a folder of its own: it is not what users pass on.
"""

import json
import os
import re
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from input_error import InputError

FOLDER = "training_state"  # under output_dir
SETTINGS = "settings.json"  # what a run that goes on has to have


def saved_states(output_dir: str) -> list[str]:
    """The prefixes of the states of a run, newest first."""
    pattern = os.path.join(output_dir, FOLDER, "step-*.index")
    steps = {
        int(found[1]): path.removesuffix(".index")
        for path in tf.io.gfile.glob(pattern)
        if (found := re.search(r"step-(\d+)\.index$", path))
    }
    return [steps[step] for step in sorted(steps, reverse=True)]


class TrainingState:
    """The newest states of one run, written by its chief alone."""

    def __init__(
        self,
        output_dir: str,
        tracked: dict[str, Any],
        max_to_keep: int,
        is_chief: bool,
    ):
        """`tracked` maps names to variables, lists of them, or states of
        Python objects (tf.train.experimental.PythonState)."""
        self.output_dir = output_dir
        self.is_chief = is_chief
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.checkpoint = tf.train.Checkpoint(step=self.step, **tracked)
        self.max_to_keep = max_to_keep
        if is_chief:
            _tidy(os.path.join(output_dir, FOLDER))

    def save(self, step: int) -> None:
        """Keeps the state after `step` updates.

        The index is written last, and without it a state does not exist: a
        kill leaves the state before this one.
        """
        if not self.is_chief:
            return
        self.step.assign(step)
        name = f"step-{step}"
        self.checkpoint.write(os.path.join(self.output_dir, FOLDER, name))
        # Later ones were damaged, or the run would have gone on from there.
        states = saved_states(self.output_dir)
        now = [os.path.basename(state) for state in states].index(name)
        for state in states[:now] + states[now + self.max_to_keep :]:
            _remove(state)

    def restore(self) -> int:
        """Goes back to the newest whole state; returns its step, or 0.

        Raises:
            InputError: no state is whole, or it belongs to another run.
        """
        states = saved_states(self.output_dir)
        for state in states:
            if damage := _damage(state):
                print(
                    f"{state} is damaged ({damage}); trying the one before",
                    file=sys.stderr,
                )
                continue
            self._restore(state)
            return int(self.step.numpy())
        if states:
            raise InputError(
                f"every state in {self.output_dir}/{FOLDER} is damaged; remove "
                "that folder, or give another --output_dir"
            )
        return 0

    def _restore(self, state: str) -> None:
        try:
            status = self.checkpoint.read(state)
            status.assert_existing_objects_matched()
            status.expect_partial()  # whoever evaluates needs no moments
        except InputError:
            raise  # of the data, which is read to its place
        except (ValueError, AssertionError, tf.errors.OpError) as error:
            raise InputError(
                f"{state} is not of this model and these input files; give "
                "the flags that it was started with, or another --output_dir"
            ) from error


def check_settings(
    output_dir: str, settings: Mapping[str, Any], is_chief: bool
) -> None:
    """Refuses to go on with other settings than the run began with.

    Args:
        settings: by flag, or what of a flag; the chief keeps them when the run
            begins.
    """
    path = os.path.join(output_dir, FOLDER, SETTINGS)
    if not saved_states(output_dir) or not tf.io.gfile.exists(path):
        if is_chief:
            tf.io.gfile.makedirs(os.path.dirname(path))
            with tf.io.gfile.GFile(path + ".tmp", "w") as file:
                file.write(json.dumps(settings, indent=2) + "\n")
            tf.io.gfile.rename(path + ".tmp", path, overwrite=True)
        return
    try:
        with tf.io.gfile.GFile(path) as file:
            began = dict(json.loads(file.read()))
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path}, which says what the run was begun with, is damaged; "
            "remove it if the flags are still the same"
        ) from error
    for flag, value in settings.items():
        if began.get(flag) != value:
            raise InputError(
                f"--{flag} is {_short(value)} but was "
                f"{_short(began.get(flag))} when {output_dir} was begun; give "
                "that again, or another --output_dir"
            )


def _short(value: Any) -> str:
    return textwrap.shorten(repr(value), 200)


def _damage(state: str) -> str | None:
    """Why a state cannot be read to its end; None if it can."""
    try:
        reader = tf.train.load_checkpoint(state)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (tf.errors.OpError, RuntimeError, IndexError) as error:
        return _first_line(error)
    return None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _remove(state: str) -> None:
    """The index first: without it there is no state."""
    tf.io.gfile.remove(state + ".index")
    for path in tf.io.gfile.glob(state + ".data-*"):
        tf.io.gfile.remove(path)


def _tidy(folder: str) -> None:
    """Removes what a killed run was writing or removing."""
    for path in tf.io.gfile.glob(os.path.join(folder, "step-*_temp")):
        tf.io.gfile.rmtree(path)
    for path in tf.io.gfile.glob(os.path.join(folder, "step-*.data-*")):
        if not tf.io.gfile.exists(path.rpartition(".data-")[0] + ".index"):
            tf.io.gfile.remove(path)
