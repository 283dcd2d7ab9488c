"""Steps whose loss or gradient is no finite number.

Such a step changes no weights (training/optimization.py). It stops the run, or
is counted where the run is to go on; either way its batch is kept for a look.
"""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.training.distribution import Host
from bert_keras.training.metric_logging import forget_steps_after, step_of

LOG = "nonfinite_steps.jsonl"  # a line for each
BATCH = "nonfinite-step-{step}-host-{host}.tfrecord"
MAX_BATCHES = 10  # kept in one process, that they do not fill a disk
MAX_IN_A_ROW = 20  # skipped: then it is not the data


class NonFiniteStepHandler:
    """What becomes of them in one run."""

    def __init__(self, output_dir: str, host: Host, step: int, may_skip: bool):
        """Goes on counting where a run stopped after `step` updates."""
        self.output_dir = output_dir
        self.host = host
        self.may_skip = may_skip
        self.path = os.path.join(output_dir, LOG)
        if host.is_chief:
            forget_steps_after(self.path, step)
        bad = [number for number in _logged(self.path) if number <= step]
        self.count = len(bad)
        self.num_in_a_row = 0
        while step - self.num_in_a_row in bad:
            self.num_in_a_row += 1
        self.num_batches = 0

    def look(
        self,
        steps: range,
        figures: Sequence[dict[str, float]],
        examples_of: Callable[[int], Mapping[str, Any]],
    ) -> None:
        """Looks at steps that have just finished, in order, before anything
        of them is kept; adds the count to their figures if it may skip any.

        Args:
            examples_of: a step, given its place among these; an example a row.

        Raises:
            InputError: one is bad and may not be skipped.
        """
        for i, (step, values) in enumerate(zip(steps, figures, strict=True)):
            if math.isfinite(values["loss"] + values["gradient_norm"]):
                self.num_in_a_row = 0
            else:
                self._treat(step, values, examples_of(i))
            if self.may_skip:
                values["skipped_steps"] = self.count

    def _treat(
        self, step: int, values: dict[str, float], batch: Mapping[str, Any]
    ) -> None:
        path = self._keep(step, values, batch)
        self.count += 1
        self.num_in_a_row += 1
        where = f"; its batch is in {path}" if path else ""
        sentence = (
            f"the loss is {values['loss']} and the gradient norm "
            f"{values['gradient_norm']} at step {step}, at a learning rate of "
            f"{values['learning_rate']:.3g}{where}"
        )
        if not self.may_skip or self.num_in_a_row >= MAX_IN_A_ROW:
            raise InputError(
                f"{sentence}; the last good state is in {self.output_dir}; "
                "lower `learning_rate` or check the data"
                + (
                    f" ({MAX_IN_A_ROW} steps in a row were skipped)"
                    if self.may_skip
                    else ", or give `skip_nonfinite_steps`"
                )
            )
        print(f"{sentence}; the step is skipped, {self.count} so far")

    def _keep(
        self, step: int, values: dict[str, float], batch: Mapping[str, Any]
    ) -> str | None:
        """The path of the batch; None: there are enough of them."""
        path = None
        if self.num_batches < MAX_BATCHES:
            self.num_batches += 1
            name = BATCH.format(step=step, host=self.host.index)
            path = os.path.join(self.output_dir, name)
            _write_rows(path, batch)
        if self.host.is_chief:
            line = {"step": step, **{k: str(v) for k, v in values.items()}}
            with tf.io.gfile.GFile(self.path, "a") as log:
                log.write(json.dumps({**line, "batch": path}) + "\n")
        return path


def _write_rows(path: str, batch: Mapping[str, Any]) -> None:
    """A tf.train.Example a row, for inspect_records.py."""
    arrays = {name: np.asarray(values) for name, values in batch.items()}
    with tf.io.TFRecordWriter(path) as writer:
        for row in range(len(next(iter(arrays.values())))):
            example = tf.train.Example()
            for name, values in arrays.items():
                numbers = values[row].ravel().tolist()
                feature = example.features.feature[name]
                if values.dtype.kind == "f":
                    feature.float_list.value.extend(numbers)
                else:
                    feature.int64_list.value.extend(numbers)
            writer.write(example.SerializeToString())


def _logged(path: str) -> list[float]:
    """The numbers of the steps in the log."""
    if not tf.io.gfile.exists(path):
        return []
    with tf.io.gfile.GFile(path, "rb") as log:
        return [step_of(line) for line in log]
