"""What is seen of a run while it goes, and how it is asked to stop.

Progress logs each step: a line, a JSON-lines file, TensorBoard.
NonFiniteStepHandler stops the run at a step whose loss or gradient is not
finite, or counts it. Such a step changes no weights
(training/optimization.py), and its batch is kept for a look. StopRequest lets
SIGTERM and SIGINT end a run only when its state is saved.
"""

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.files import parse_json, to_json, write_whole
from bert_keras.training.distribution import Host

LOG = "train_log.jsonl"
TENSORBOARD = "tensorboard"
SECONDS_BETWEEN_LINES = 5.0
NONFINITE_LOG = "nonfinite_steps.jsonl"  # a line for each
BATCH = "nonfinite-step-{step}-host-{host}.tfrecord"
MAX_BATCHES = 10  # kept in one process, that they do not fill a disk
MAX_IN_A_ROW = 20  # skipped: then it is not the data


class Progress:
    """Writes each step's figures to output_dir and, now and then, a line."""

    def __init__(
        self, output_dir: str | None, first_step: int, num_train_steps: int
    ):
        """Continues the log of a run stopped after `first_step` updates.

        Args:
            output_dir: None on the hosts that stay silent.
        """
        self.num_train_steps = num_train_steps
        self.is_silent = output_dir is None
        if output_dir is not None:
            path = os.path.join(output_dir, LOG)
            forget_steps_after(path, first_step)
            self.log = tf.io.gfile.GFile(path, "a")
            self.events = tf.summary.create_file_writer(
                os.path.join(output_dir, TENSORBOARD)
            )
        self.started = self.last_step_at = time.monotonic()
        self.last_line_at = float("-inf")
        self.first_step = first_step

    def write(
        self, steps: list[tuple[int, dict[str, float]]], num_tokens: int
    ) -> None:
        """Records steps that have just finished, in order.

        Args:
            num_tokens: positions of their batches, padding included.
        """
        if self.is_silent:
            return
        now = time.monotonic()
        rate = num_tokens / (now - self.last_step_at)
        self.last_step_at = now
        for step, figures in steps:
            figures["tokens_per_second"] = rate
            # All in one protocol buffer: one write, not nine.
            summary = tf.compat.v1.Summary()
            for name, value in figures.items():
                summary.value.add(tag=name, simple_value=value)
            self.log.write(to_json({"step": step, **figures}) + "\n")
            with self.events.as_default(step):
                tf.summary.experimental.write_raw_pb(
                    summary.SerializeToString(), step
                )
        is_last = step == self.num_train_steps
        if now - self.last_line_at < SECONDS_BETWEEN_LINES and not is_last:
            return
        self.last_line_at = now
        self.flush()
        shown = "  ".join(f"{k} {v:.4g}" for k, v in figures.items())
        seconds_a_step = (now - self.started) / (step - self.first_step)
        left = round(seconds_a_step * (self.num_train_steps - step))
        print(
            f"step {step}/{self.num_train_steps}  {shown}  "
            f"left {left // 3600}:{left // 60 % 60:02}:{left % 60:02}",
            file=sys.stderr,
            flush=True,
        )

    def leave_out_pause(self) -> None:
        """Call after other work than steps: rates are those of steps."""
        now = time.monotonic()
        self.started += now - self.last_step_at
        self.last_step_at = now

    def flush(self) -> None:
        """Call before a state is saved, so that the log reaches as far."""
        if not self.is_silent:
            self.log.flush()
            self.events.flush()

    def close(self) -> None:
        if not self.is_silent:
            self.log.close()
            self.events.close()


def forget_steps_after(path: str, step: int) -> None:
    """Drops what a killed run logged beyond the state it left; looks at no
    more lines than these."""
    if not tf.io.gfile.exists(path):
        return
    with tf.io.gfile.GFile(path, "rb") as log:
        text = log.read()
    end = len(text)
    while end:
        begin = text.rfind(b"\n", 0, end - 1) + 1
        if text[end - 1 : end] == b"\n" and _step_of(text[begin:end]) <= step:
            break
        end = begin
    if end < len(text):
        write_whole(path, text[:end])


def _step_of(line: bytes) -> float:
    """Of a line of a log; infinity if it is none."""
    try:
        return float(parse_json(line)["step"])
    except (ValueError, TypeError, LookupError, OverflowError):
        return float("inf")


class NonFiniteStepHandler:
    """What becomes of steps in one run whose loss or gradient is not finite."""

    def __init__(self, output_dir: str, host: Host, step: int, may_skip: bool):
        """Goes on counting where a run stopped after `step` updates."""
        self.output_dir = output_dir
        self.host = host
        self.may_skip = may_skip
        self.path = os.path.join(output_dir, NONFINITE_LOG)
        if host.is_chief:
            forget_steps_after(self.path, step)
        bad: list[float] = []
        if tf.io.gfile.exists(self.path):
            with tf.io.gfile.GFile(self.path, "rb") as log:
                bad = [x for line in log if (x := _step_of(line)) <= step]
        self.count = len(bad)
        self.num_in_a_row = 0
        while step - self.num_in_a_row in bad:
            self.num_in_a_row += 1
        self.num_batches = 0

    def check(
        self,
        steps: range,
        figures: Sequence[dict[str, float]],
        batches: Sequence[Mapping[str, Any]],
        examples: Callable[[int, Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        """Looks at steps that have just finished, in order, before anything
        of them is kept; adds the count to their figures if it may skip any.

        Args:
            batches: one a step.
            examples: given the number of finished steps and the batch that
                follows them, an example a row.

        Raises:
            InputError: one is bad and may not be skipped.
        """
        for step, values, batch in zip(steps, figures, batches, strict=True):
            if math.isfinite(values["loss"] + values["gradient_norm"]):
                self.num_in_a_row = 0
            else:
                path = self._keep(step, values, examples(step - 1, batch))
                self.count += 1
                self.num_in_a_row += 1
                sentence = (
                    f"the loss is {values['loss']} and the gradient norm "
                    f"{values['gradient_norm']} at step {step}, at a learning "
                    f"rate of {values['learning_rate']:.3g}"
                    + (f"; its batch is in {path}" if path else "")
                )
                advice = (
                    f" ({MAX_IN_A_ROW} steps in a row were skipped)"
                    if self.may_skip
                    else ", or give `skip_nonfinite_steps`"
                )
                if not self.may_skip or self.num_in_a_row >= MAX_IN_A_ROW:
                    raise InputError(
                        f"{sentence}; the last good state is in "
                        f"{self.output_dir}; lower `learning_rate` or check "
                        f"the data{advice}"
                    )
                print(f"{sentence}; the step is skipped, {self.count} so far")
            if self.may_skip:
                values["skipped_steps"] = self.count

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
                log.write(to_json({**line, "batch": path}) + "\n")
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


# A request to stop, Ctrl-C, a closed terminal, a batch system's warning.
SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1")
    if hasattr(signal, name)  # Windows has only two
)


class StopRequest:
    """Inside the block the first of SIGNALS is noted in `number`. If the block
    ends without acting on it, it takes effect there. (Python lets nothing but
    the main thread handle signals; in another one none is noted.)

    A second one ends the process at once. The exit code is the shell's for
    that signal, 128 more than its number.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    def __enter__(self) -> "StopRequest":
        self._handlers = {
            number: signal.signal(number, self._note)
            for number in SIGNALS
            if signal.getsignal(number) is not signal.SIG_IGN  # as under nohup
            and threading.current_thread() is threading.main_thread()
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, *error: object
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if kind is None and self.number is not None:
            self.exit_as_requested()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            sys.exit(128 + number)
        self.number = number

    def exit_as_requested(self, step: int | None = None) -> None:
        """Ends the process. Call it when any host has got a signal and `step`
        is saved; None: that is the last one."""
        number = self.number or signal.SIGTERM
        by = signal.Signals(number).name
        if self.number is None:
            by += " to another host"
        place = "the last step" if step is None else f"step {step}"
        print(
            f"stopped by {by} after {place}, which is saved; the same command "
            "goes on from there",
            file=sys.stderr,
        )
        sys.exit(128 + number)
