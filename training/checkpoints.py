"""The state of a training run, kept so that it goes on where it stopped, and
the best model that a run has seen.

A state holds the weights, the optimiser's moments, the step and the position in
the data, and lives in a folder of its own: it is not what users pass on.
"""

import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from bert_keras import files
from bert_keras.checkpoint_index import read_index
from bert_keras.errors import InputError, first_line, one_line

STATES = "training_state"  # under output_dir
SETTINGS = "settings.json"  # what a run that goes on has to have
BEST = "best"  # folder under output_dir
BEST_JSON = "best.json"  # step and metrics of the best model


def saved_states(output_dir: str) -> list[str]:
    """The prefixes of the states of a run, newest first."""
    folder = os.path.join(output_dir, STATES)
    steps = sorted(_steps(folder, r"\.index"), reverse=True)
    return [os.path.join(folder, f"step-{step}") for step in steps]


def step_of(state: str) -> int:
    """The step of one of `saved_states`."""
    return int(state.rpartition("-")[2])


def go_back(output_dir: str, step: int) -> None:
    """Removes the states after `step`, so that the run resumes from that
    one."""
    for state in saved_states(output_dir):
        if step_of(state) > step:
            _remove(state)


def branch(
    source: str, output_dir: str, step: int, settings: Mapping[str, Any]
) -> None:
    """Copies the state after `step` of the run in `source`, and stores the
    settings of the run that resumes from it. The index, without which there is
    no state, comes last.

    Raises:
        InputError: the run in `source` has deleted that state by now.
    """
    name, target = f"step-{step}", os.path.join(output_dir, STATES)
    index = os.path.join(source, STATES, f"{name}.index")
    if not files.exists(index):
        raise InputError(
            f"{source} goes on, and no longer has its state after step {step}; "
            "type the command again"
        )
    write_settings(output_dir, settings)
    data = tf.io.gfile.glob(os.path.join(source, STATES, f"{name}.data-*"))
    for path in (*data, index):
        files.refuse_stream(path)
        files.copy_whole(path, os.path.join(target, os.path.basename(path)))


def _steps(folder: str, ending: str) -> set[int]:
    """The steps of the files in a folder whose names are step-N and this."""
    names = files.names_in(folder) if files.is_dir(folder) else []
    found = (re.fullmatch(rf"step-(\d+){ending}", name) for name in names)
    return {int(match[1]) for match in found if match}


def _remove(state: str) -> None:
    """The index first: without it there is no state."""
    for path in (f"{state}.index", *tf.io.gfile.glob(f"{state}.data-*")):
        files.remove(path)


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
        kept_step: int | None = None,
    ):
        """`tracked` maps names to variables, lists of them, or states of
        Python objects (tf.train.experimental.PythonState). The state after
        `kept_step` is kept beside the newest `max_to_keep`."""
        self.output_dir = output_dir
        self.folder = os.path.join(output_dir, STATES)
        self.is_chief = is_chief
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.checkpoint = tf.train.Checkpoint(step=self.step, **tracked)
        self.max_to_keep = max_to_keep
        self.kept_step = kept_step
        if is_chief:  # removes what a killed run was writing or removing
            for step in _steps(self.folder, "_temp"):
                files.remove(os.path.join(self.folder, f"step-{step}_temp"))
            whole = _steps(self.folder, r"\.index")
            for step in _steps(self.folder, r"\.data-.*") - whole:
                if step < max(whole, default=0):
                    _remove(os.path.join(self.folder, f"step-{step}"))

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
            if step_of(state) != self.kept_step:
                _remove(state)

    def restore(self) -> int:
        """Goes back to the newest whole state; returns its step, or 0.

        Raises:
            InputError: no state is whole, or it belongs to another run.
        """
        states = saved_states(self.output_dir)
        for state in states:
            try:
                variables = read_index(state)
                reader = tf.compat.v1.train.NewCheckpointReader(state)
                for name in variables:
                    reader.get_tensor(name)
            except NO_DAMAGE:
                raise
            except (
                tf.errors.OpError, RuntimeError, IndexError, ValueError,
            ) as error:  # fmt: skip
                sentence = f"{state} is damaged ({first_line(error)})"
                print(
                    one_line(f"{sentence}; trying the one before"),
                    file=sys.stderr,
                )
                continue
            try:
                status = self.checkpoint.read(state)
                status.assert_existing_objects_matched()
                status.expect_partial()  # whoever evaluates needs no moments
            except (InputError, *NO_DAMAGE):
                raise  # the first: of the data, which is read to its place
            except (ValueError, AssertionError, tf.errors.OpError) as error:
                raise InputError(
                    f"{state} is not of this model and these input files; give "
                    "the flags that it was started with, or another "
                    "`output_dir`"
                ) from error
            return int(self.step.numpy())
        if states or max(_steps(self.folder, r"\.data-.*"), default=0) > 0:
            raise InputError(
                f"every checkpoint in {self.output_dir}/{STATES} is damaged; "
                "remove that folder, or give another `output_dir`"
            )
        return 0


def is_begun(output_dir: str) -> bool:
    """Whether a run has begun in output_dir, which may not have saved yet."""
    return bool(tf.io.gfile.exists(os.path.join(output_dir, STATES, SETTINGS)))


def read_settings(output_dir: str) -> dict[str, Any]:
    """The settings that the run in output_dir began with; empty without one.

    Raises:
        InputError: the file that stores them is damaged.
    """
    path = os.path.join(output_dir, STATES, SETTINGS)
    if not saved_states(output_dir) or not is_begun(output_dir):
        return {}
    files.refuse_stream(path)
    return files.read_json(
        path,
        "it says what the run was begun with and is damaged; remove it if the "
        "flags are still the same",
    )


def write_settings(output_dir: str, settings: Mapping[str, Any]) -> None:
    """Stores the settings with which a run begins, or resumes."""
    path = os.path.join(output_dir, STATES, SETTINGS)
    tf.io.gfile.makedirs(os.path.dirname(path))
    files.write_json(path, settings)


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
        now, then = value, began[argument]
        if now == then or (
            argument.endswith("'s contents") and _are_alike(now, then)
        ):
            continue
        if isinstance(now, list) and isinstance(then, list):
            now, then = next(  # what differs first
                (x for x in zip(now, then, strict=False) if not _are_alike(*x)),
                (f"a list of {len(now)}", f"one of {len(then)}"),
            )
        now, then = (textwrap.shorten(repr(x), 200) for x in (now, then))
        name = argument.removesuffix("'s contents")
        is_, was = ("is", "was") if name == argument else ("reads", "read")
        changed = (
            f"`{name}` {is_} {now} but {was} {then} when {output_dir} was begun"
        )
        if argument not in may_change:
            again = "leave it out" if then == "None" else "give that again"
            raise InputError(
                f"{changed}; {again}, or train in another `output_dir`, where "
                f"`init_checkpoint={output_dir}` starts from this run's model"
            )
        notices.append(changed + may_change[argument])
    if unknown:
        notices.append(
            f"{output_dir} was begun by an earlier version, which did not "
            f"store {', '.join(unknown)}: these are taken as they are now"
        )
    return notices


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two settings are equal, or tell of files that are the same as
    far as both know: earlier versions stored no digest behind the checksum."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_alike, one, other))
    if isinstance(one, str) and isinstance(other, str):
        one, other = sorted((one, other), key=len)
        return one == other or other.startswith(f"{one}, digest ")
    return bool(one == other)


class BestCheckpoint:
    """The best model of one run that is evaluated on the way.

    While it is trained, output_dir/best/step-7 is that model's folder, and
    best/best.json says what it reached; in the end output_dir has both. The
    same best.json in best/step-7 tells it from a user's folder.

    A run that is killed resumes from its newest state. The model that was the
    best then stays beside a later one, until there is a later state.
    """

    def __init__(self, output_dir: str):
        self.parent = os.path.join(output_dir, BEST)
        self.seen = os.path.join(self.parent, BEST_JSON)  # up to now
        self.final = os.path.join(
            output_dir, BEST_JSON
        )  # of output_dir's model

    def keep(
        self,
        step: int,
        metrics: Mapping[str, float],
        save: Callable[[str], None],
        saved_step: int = 0,
    ) -> None:
        """Stores a model by `save`, which is given the folder; those before go
        when this one is whole, except the last of them up to `saved_step`.

        Args:
            saved_step: of the newest state.

        Raises:
            InputError: a user's folder has its name.
        """
        folder = os.path.join(self.parent, f"step-{step}")
        for path in (self.parent, folder):
            if _is_link(path):
                files.remove(path)  # what it leads to is not ours
        before = _step_if_any(self.seen)
        noted_in = _step_if_any(os.path.join(folder, BEST_JSON))
        names = files.names_in(folder) if files.is_dir(folder) else []
        # A killed run may have left a name with a dot alone.
        if step not in (before, noted_in) and any(x[0] != "." for x in names):
            raise InputError(
                f"the best model goes to {folder}, which has other files; move "
                "them, or give another `output_dir`"
            )
        tf.io.gfile.makedirs(folder)
        noted = {"step": step, **metrics}
        files.write_json(os.path.join(folder, BEST_JSON), noted)
        save(folder)
        files.write_json(self.seen, noted)
        others = {*self._steps(), *([] if before is None else [before])} - {
            step
        }
        kept = max(
            (other for other in others if other <= saved_step), default=0
        )
        for other in others - {kept}:
            _remove_model(os.path.join(self.parent, f"step-{other}"))

    def _steps(self) -> list[int]:
        """Of the models that are there; a killed run may have left several."""
        names = files.names_in(self.parent) if files.is_dir(self.parent) else []
        found = []
        for name in names:
            path = os.path.join(self.parent, name, BEST_JSON)
            step = _step_if_any(path)
            if step is not None and name == f"step-{step}":
                found.append(step)
        return found

    def go_back(self, step: int) -> None:
        """Makes the last model up to `step` the best one again, and drops later
        ones: from there a run resumes, and will find them anew, or others."""
        if _is_link(self.parent):
            return
        seen, steps = _step_if_any(self.seen), self._steps()
        earlier = [other for other in steps if other <= step]
        if seen is not None and seen > step and earlier:
            seen = max(earlier)
            folder = os.path.join(self.parent, f"step-{seen}")
            files.copy_whole(os.path.join(folder, BEST_JSON), self.seen)
        for other in steps:
            if other > step and other != seen:
                _remove_model(os.path.join(self.parent, f"step-{other}"))

    def find(self) -> tuple[str, int]:
        """The folder of the best one up to now, and its step."""
        step = _read_step(self.seen)
        return os.path.join(self.parent, f"step-{step}"), step

    def is_after(self, step: int) -> bool:
        """Whether the best model up to now is of a later step."""
        return tf.io.gfile.exists(self.seen) and self.find()[1] > step

    def forget_seen(self) -> None:
        """Forgets the best model up to now."""
        folder, _ = self.find()
        if _is_link(self.parent):
            files.remove(self.parent)
        else:
            files.remove(self.seen)
            _remove_model(folder)

    def finish(self) -> None:
        """output_dir's model is now the best one, and the run has ended."""
        _, best = self.find()
        for step in self._steps():
            if step != best and not _is_link(self.parent):
                _remove_model(os.path.join(self.parent, f"step-{step}"))
        files.copy_whole(self.seen, self.final)

    def note_adopted(self, step: int, metrics: dict[str, float]) -> None:
        """output_dir's model is now another run's best one."""
        files.write_json(self.final, {"step": step, **metrics})

    def forget(self) -> None:
        """output_dir's model is a best one no more."""
        files.remove(self.final)

    def final_step(self) -> int | None:
        """None: output_dir's model is not known to be a best one."""
        exists = tf.io.gfile.exists(self.final)
        return _read_step(self.final) if exists else None


def _is_link(path: str) -> bool:
    return "://" not in path and os.path.islink(path)


def _remove_model(folder: str) -> None:
    """Last what says that it is one, lest a kill leaves the rest."""
    if files.is_dir(folder) and not _is_link(folder):
        for name in files.names_in(folder):
            if name != BEST_JSON:
                files.remove(os.path.join(folder, name))
    files.remove(folder)


def _step_if_any(path: str) -> int | None:
    try:
        return _read_step(path)
    except InputError:
        return None


def _read_step(path: str) -> int:
    files.refuse_stream(path)
    try:
        step = files.read_json(path)["step"]
        if type(step) is not int or step < 0:
            raise ValueError(f"its step is {step!r}")
        return step
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path}, which names the best model, is missing, damaged or "
            "somebody's own; if it is yours, move it away, else give another "
            "`output_dir`, or the model's folder as `init_checkpoint`"
        ) from error
