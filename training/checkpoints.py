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

from bert_keras.errors import InputError, first_line
from bert_keras.files import read_json, remove, write_json

FOLDER = "training_state"  # under output_dir
SETTINGS = "settings.json"  # what a run that goes on has to have


def saved_states(output_dir: str) -> list[str]:
    """The prefixes of the states of a run, newest first."""
    folder = os.path.join(output_dir, FOLDER)
    steps = [
        int(found[1])
        for name in _names(folder)
        if (found := re.fullmatch(r"step-(\d+)\.index", name))
    ]
    return [
        os.path.join(folder, f"step-{step}")
        for step in sorted(steps, reverse=True)
    ]


def _names(folder: str) -> list[str]:
    """Of its files and folders; none where it is not there."""
    if not tf.io.gfile.isdir(folder):
        return []
    return [name.rstrip("/") for name in tf.io.gfile.listdir(folder)]


NO_DAMAGE = (  # they pass, or can be mended
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.PermissionDeniedError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnauthenticatedError,
    tf.errors.UnavailableError,
)


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
        self.folder = os.path.join(output_dir, FOLDER)
        self.is_chief = is_chief
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.checkpoint = tf.train.Checkpoint(step=self.step, **tracked)
        self.max_to_keep = max_to_keep
        if is_chief:
            _remove_partial_checkpoints(output_dir)

    def save(self, step: int) -> None:
        """Keeps the state after `step` updates.

        The index is written last, and without it a state does not exist: a
        kill leaves the state before this one.
        """
        if not self.is_chief:
            return
        self.step.assign(step)
        path = os.path.join(self.folder, f"step-{step}")
        self.checkpoint.write(path)
        # Later ones were damaged, or the run would have gone on from there.
        states = saved_states(self.output_dir)
        now = states.index(path)
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
        if states or max(_data_steps(self.folder), default=0) > 0:
            raise InputError(
                f"every state in {self.output_dir}/{FOLDER} is damaged; remove "
                "that folder, or give another `output_dir`"
            )
        return 0

    def _restore(self, state: str) -> None:
        try:
            status = self.checkpoint.read(state)
            status.assert_existing_objects_matched()
            status.expect_partial()  # whoever evaluates needs no moments
        except (InputError, *NO_DAMAGE):
            raise  # the first: of the data, which is read to its place
        except (ValueError, AssertionError, tf.errors.OpError) as error:
            raise InputError(
                f"{state} is not of this model and these input files; give "
                "the flags that it was started with, or another `output_dir`"
            ) from error


def read_settings(output_dir: str) -> dict[str, Any]:
    """The settings that the run in output_dir began with; empty without one.

    Raises:
        InputError: the file that stores them is damaged.
    """
    path = os.path.join(output_dir, FOLDER, SETTINGS)
    if not saved_states(output_dir) or not tf.io.gfile.exists(path):
        return {}
    return read_json(
        path,
        "it says what the run was begun with and is damaged; remove it if the "
        "flags are still the same",
    )


def write_settings(output_dir: str, settings: Mapping[str, Any]) -> None:
    """Stores the settings with which a run begins, or resumes."""
    path = os.path.join(output_dir, FOLDER, SETTINGS)
    tf.io.gfile.makedirs(os.path.dirname(path))
    write_json(path, settings)


def check_settings(
    output_dir: str,
    began: Mapping[str, Any],
    settings: Mapping[str, Any],
    may_change: Mapping[str, str],
) -> list[str]:
    """Compares the settings of a run that resumes with those it began with.

    Args:
        began, settings: by name. If both have "X's contents", they are compared
            instead of "X", the name of a file.
        may_change: settings that may change, each with the text to add to the
            sentence about the change.

    Returns:
        A sentence for each setting that has changed and may, and one for those
        that were not stored when the run began.

    Raises:
        InputError: another setting has changed.
    """
    notices, unknown = [], []
    for argument, value in json.loads(json.dumps(settings)).items():
        contents = f"{argument}'s contents"
        if settings.get(contents) and began.get(contents):
            continue
        if argument not in began:
            if value is not None:
                unknown.append(argument)
            continue
        if began[argument] == value:
            continue
        now, then = _differing(value, began[argument])
        changed = (
            f"`{argument}` is {now} but was {then} when {output_dir} was begun"
        )
        if argument not in may_change:
            raise InputError(
                f"{changed}; give that again, or train in another "
                f"`output_dir`, where `init_checkpoint={output_dir}` starts "
                "from the weights with which this run ends"
            )
        notices.append(changed + may_change[argument])
    if unknown:
        notices.append(
            f"{output_dir} was begun by an earlier version, which did not "
            f"store {', '.join(unknown)}: these are taken as they are now"
        )
    return notices


def _differing(value: Any, began: Any) -> tuple[str, str]:
    """Both, or of two lists what differs first."""
    if isinstance(value, list) and isinstance(began, list):
        pairs = zip(value, began, strict=False)
        value, began = next(
            (pair for pair in pairs if pair[0] != pair[1]),
            (f"a list of {len(value)}", f"one of {len(began)}"),
        )
    return _short(value), _short(began)


def _short(value: Any) -> str:
    return textwrap.shorten(repr(value), 200)


def _damage(state: str) -> str | None:
    """Why a state cannot be read to its end; None if it can."""
    try:
        reader = tf.train.load_checkpoint(state)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except NO_DAMAGE:
        raise
    except (tf.errors.OpError, RuntimeError, IndexError) as error:
        return first_line(error)
    return None


def _remove(state: str) -> None:
    """The index first: without it there is no state."""
    folder, step = os.path.split(state)
    names = [n for n in _names(folder) if n.startswith(f"{step}.data-")]
    for name in (f"{step}.index", *names):
        remove(os.path.join(folder, name))


def _data_steps(folder: str) -> set[int]:
    """The steps of states whose data is there, with or without an index."""
    found = (re.match(r"step-(\d+)\.data-", name) for name in _names(folder))
    return {int(match[1]) for match in found if match}


def _remove_partial_checkpoints(output_dir: str) -> None:
    """Removes what a killed run was writing or removing."""
    folder = os.path.join(output_dir, FOLDER)
    for name in _names(folder):
        if re.fullmatch(r"step-\d+_temp", name):
            remove(os.path.join(folder, name))
    states = saved_states(output_dir)
    for step in _data_steps(folder) if states else ():
        state = os.path.join(folder, f"step-{step}")
        if state not in states and step < step_of(states[0]):
            _remove(state)


def step_of(state: str) -> int:
    """The step of one of `saved_states`."""
    return int(state.rpartition("-")[2])
