"""The state of a training run, kept so that it goes on where it stopped.

It holds the weights, the optimiser's moments, the step and the position in
the data, and lives in a folder of its own: it is not what users pass on.
"""

import os
from typing import Any

import tensorflow as tf

from input_error import InputError

FOLDER = "training_state"  # under output_dir


def has_state(output_dir: str) -> bool:
    """Whether a run has left anything to go on from."""
    folder = os.path.join(output_dir, FOLDER)
    return tf.train.latest_checkpoint(folder) is not None


class TrainingState:
    """The newest states of one run, written by its chief alone."""

    def __init__(
        self,
        output_dir: str,
        tracked: dict[str, Any],
        max_to_keep: int,
        is_chief: bool,
    ):
        """`tracked` maps names to variables, lists of them, or iterators."""
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.checkpoint = tf.train.Checkpoint(step=self.step, **tracked)
        self.is_chief = is_chief
        self.manager = tf.train.CheckpointManager(
            self.checkpoint,
            os.path.join(output_dir, FOLDER),
            max_to_keep=max_to_keep,
            checkpoint_name="step",
        )

    def save(self, step: int) -> None:
        """Keeps the state after `step` updates.

        The files are complete before the pointer to them is renamed into
        place, so that a kill leaves the state before this one.
        """
        if self.is_chief:
            self.step.assign(step)
            self.manager.save(checkpoint_number=step)

    def restore(self) -> int:
        """Goes back to the newest state; returns its step, 0 without one.

        Raises:
            InputError: the state was written by a run of another shape.
        """
        newest = self.manager.latest_checkpoint
        if newest is None:
            return 0
        try:
            status = self.checkpoint.restore(newest)
            status.assert_existing_objects_matched()
        except (ValueError, AssertionError, tf.errors.OpError) as error:
            raise InputError(
                f"{newest} does not fit this run "
                f"({str(error).splitlines()[0]}); give the flags it was "
                "started with, or another --output_dir"
            ) from error
        return int(self.step.numpy())
