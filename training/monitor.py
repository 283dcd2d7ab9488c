"""What is seen of a run while it goes, and how it is asked to stop.

Progress shows and logs each step: a bar or lines, a JSON-lines file,
TensorBoard.
NonFiniteStepHandler stops the run at a step whose loss or gradient is not
finite, or counts it. Such a step changes no weights
(training/optimization.py), and its batch is kept for a look. StopRequest lets
the first of SIGTERM, SIGINT, SIGHUP and SIGUSR1 end a run only when its state
is saved.
"""

import collections
import contextlib
import math
import os
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from bert_keras import files
from bert_keras.errors import InputError, warn
from bert_keras.training.distribution import Host

# Told each step's number, from 1, its figures, and whether it is the run's
# last; says what to warn of.
Watch = Callable[[int, Mapping[str, float], bool], str | None]

LOG = "train_log.jsonl"
TENSORBOARD = "tensorboard"
SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_BARS = 1.0
MAX_WIDTH = 100  # of a line, in characters
# Words of the names of figures, as lines have them.
SHORT = {"masked_lm": "mlm", "next_sentence": "nsp", "accuracy": "acc"}
ABOUT_TRAINING = {
    "gradient_norm", "learning_rate", "skipped_steps", "tokens_per_second",
}  # fmt: skip
NONFINITE_LOG = "nonfinite_steps.jsonl"  # a line for each
BATCH = "nonfinite-step-{step}-host-{host}.tfrecord"
MAX_BATCHES = 10  # kept in one process, that they do not fill a disk
MAX_IN_A_ROW = 20  # skipped: then it is not the data


class Progress:
    """Shows how training goes, and records every step.

    train_log.jsonl and TensorBoard get the figures of each step. Standard error
    gets their means since it was last written to: a bar on a terminal, else a
    line every few seconds.
    """

    def __init__(
        self,
        output_dir: str | None,
        first_step: int,
        num_train_steps: int,
        watch: Watch | None = None,
    ):
        """Continues the log of a run stopped after `first_step` updates.

        Args:
            output_dir: None on the hosts that stay silent.
        """
        self.num_train_steps = num_train_steps
        self.watch = watch
        self.files: list[Any] = []  # none on a host that stays silent
        self.bar: tqdm[Any] | None = None
        self.last_step_at = self.last_shown_at = time.monotonic()
        # Steps and tokens since something was shown, and the sum of each figure
        self.count = self.num_tokens = 0
        self.sums: collections.Counter[str] = collections.Counter()
        # When the first steps, which compile, were through
        self.steady: tuple[int, float] | None = None
        if output_dir is None:
            return
        path = os.path.join(output_dir, LOG)
        forget_steps_after(path, first_step)
        self.log = tf.io.gfile.GFile(path, "a")
        self.events = _event_writer(output_dir, "train")
        self.eval_events = _event_writer(output_dir, "eval")
        self.files = [self.log, self.events, self.eval_events]
        print("compiling the training step", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            self.bar = tqdm(
                total=num_train_steps,
                initial=first_step,
                bar_format="{percentage:3.0f}%|{bar:16}| {n_fmt}/{total_fmt}"
                "  {desc}",
                file=sys.stderr,
                dynamic_ncols=True,
            )

    def write(
        self, steps: list[tuple[int, dict[str, float]]], num_tokens: int
    ) -> None:
        """Records steps that have just finished, in order.

        Args:
            num_tokens: positions of their batches, padding included.
        """
        if not self.files:
            return
        now = time.monotonic()
        rate = num_tokens / (now - self.last_step_at)
        self.last_step_at = now
        for step, figures in steps:
            is_last = step == self.num_train_steps
            if self.watch and (sentence := self.watch(step, figures, is_last)):
                with self.paused():
                    warn(sentence)
            self.sums.update(figures)
            figures["tokens_per_second"] = rate
            _write_scalars(self.events, figures, step)
            self.log.write(files.to_json({"step": step, **figures}) + "\n")
        self.count += len(steps)
        self.num_tokens += num_tokens
        interval = SECONDS_BETWEEN_LINES
        if self.bar is not None:
            self.bar.update(step - self.bar.n)
            interval = SECONDS_BETWEEN_BARS
        is_due = now - self.last_shown_at >= interval
        if self.steady is None or is_due or step == self.num_train_steps:
            self._show(step, now)

    def _show(self, step: int, now: float) -> None:
        self.flush()
        shown = [
            f"{short(name)} {total / self.count:.4g}"
            for name, total in self.sums.items()
            if name not in ABOUT_TRAINING and not name.endswith("_loss")
        ]
        if self.steady is None:
            self.steady = step, now
        else:
            rate = self.num_tokens / (now - self.last_shown_at) / 1000
            begin, since = self.steady
            left = (
                (now - since) / (step - begin) * (self.num_train_steps - step)
            )
            shown += [f"{rate:.3g}k tok/s", f"{duration(left)} left"]
        if self.bar is None:
            share = 100 * step // self.num_train_steps
            print(
                f"step {step:,}/{self.num_train_steps:,} {share}%",
                *shown,
                sep="  ",
                file=sys.stderr,
                flush=True,
            )
        else:
            self.bar.set_description_str("  ".join(shown))
        self.last_shown_at = now
        self.count = self.num_tokens = 0
        self.sums.clear()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """For other work than steps: rates are those of steps."""
        began = time.monotonic()
        if self.bar is not None:
            self.bar.clear()
        yield
        pause = time.monotonic() - began
        self.last_step_at += pause
        self.last_shown_at += pause
        if self.steady is not None:
            self.steady = self.steady[0], self.steady[1] + pause

    def write_evaluation(
        self, step: int, figures: Mapping[str, float], samples: str
    ) -> None:
        """Prints an evaluation and gives it to TensorBoard.

        Args:
            samples: predictions as Markdown; may be empty.
        """
        named = {short(k).removeprefix("eval_"): v for k, v in figures.items()}
        if "eval_loss" in figures:  # as in `_write_scalars`
            named["loss"] = figures["eval_loss"]
        # what is measured on general text comes last
        names = sorted(named, key=lambda x: (x.startswith("general_"), x))
        shown = (f"{name}\xa0{named[name]:.4f}" for name in names)
        text = "  ".join([f"eval at step {step:,}:", *shown])
        lines = textwrap.fill(text, MAX_WIDTH, subsequent_indent="  ")
        print(lines.replace("\xa0", " "), flush=True)
        if self.files:
            _write_scalars(self.eval_events, figures, step)
            if samples:
                with self.eval_events.as_default(step):
                    tf.summary.text("samples", samples)

    def flush(self) -> None:
        """Call before a state is saved, so that the log reaches as far."""
        for file in self.files:
            file.flush()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        for file in self.files:
            file.close()


def short(name: str) -> str:
    """A figure's name for a line: "masked_lm_accuracy" is "mlm_acc"."""
    for word, shorter in SHORT.items():
        name = name.replace(word, shorter)
    return name


def duration(seconds: float) -> str:
    """For instance 0:07, 12:05 or 1:00:00."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"


def _event_writer(output_dir: str, run: str) -> tf.summary.SummaryWriter:
    folder = os.path.join(output_dir, TENSORBOARD, run)
    return tf.summary.create_file_writer(folder)


def _write_scalars(
    events: tf.summary.SummaryWriter, figures: Mapping[str, float], step: int
) -> None:
    """Gives a figure the same tag in each run, so that TensorBoard draws them
    over each other: "loss" of training and "eval_loss" are "metrics/loss".

    Where an evaluation has both, "loss" is upstream's mean over batches, and
    left out.
    """
    summary = tf.compat.v1.Summary()  # one buffer, one write for all figures
    for name, value in figures.items():
        if f"eval_{name}" in figures:
            continue
        name = name.removeprefix("eval_")
        group = "training" if name in ABOUT_TRAINING else "metrics"
        summary.value.add(tag=f"{group}/{name}", simple_value=value)
    with events.as_default(step):
        tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step)


def write_final_evaluation(
    output_dir: str, figures: Mapping[str, float], step: int
) -> None:
    """Gives TensorBoard the evaluation at the end of a run."""
    with contextlib.closing(_event_writer(output_dir, "eval")) as events:
        _write_scalars(events, figures, step)


def write_settings_to_tensorboard(
    output_dir: str, settings: Mapping[str, Any]
) -> None:
    """Shows a run's settings in TensorBoard, as a text and for its comparison
    of runs by hyperparameters."""
    from tensorboard.plugins.hparams import api

    rows = [f"|{name}|{value}|" for name, value in settings.items()]
    text = "\n".join(["|setting|value|", "|---|---|", *rows])
    numbers = {
        name: value
        for name, value in settings.items()
        if isinstance(value, (bool, int, float, str))
    }
    events = _event_writer(output_dir, "train")
    with contextlib.closing(events), events.as_default(0):
        tf.summary.text("settings", text)
        api.hparams(numbers)


def forget_steps_after(path: str, step: int) -> None:
    """Drops what a killed run logged beyond the state it left; looks at no
    more lines than these. The file is of this name alone afterwards: what a
    link leads to, and a copy by hard links, stay as they are."""
    if not tf.io.gfile.exists(path):
        files.remove(path)  # a link that leads to nothing
        return
    with tf.io.gfile.GFile(path, "rb") as log:
        text = log.read()
    end = len(text)
    while end:
        begin = text.rfind(b"\n", 0, end - 1) + 1
        if text[end - 1 : end] == b"\n" and _step_of(text[begin:end]) <= step:
            break
        end = begin
    if end < len(text) or files.has_other_names(path):
        files.write_whole(path, text[:end])


def _step_of(line: bytes) -> float:
    """Of a line of a log; infinity if it is none."""
    try:
        return float(files.parse_json(line)["step"])
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
        lines = (files.content(self.path) or b"").splitlines()
        bad = [x for line in lines if (x := _step_of(line)) <= step]
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
                        f"{sentence}; the last good checkpoint is in "
                        f"{self.output_dir}; lower `learning_rate` or check "
                        f"the data{advice}"
                    )
                tqdm.write(  # it keeps a bar in its place
                    f"{sentence}; the step is skipped, {self.count} so far"
                )
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
                log.write(files.to_json({**line, "batch": path}) + "\n")
        return path


def _write_rows(path: str, batch: Mapping[str, Any]) -> None:
    """A tf.train.Example a row, for inspect_records.py."""
    arrays = {name: np.asarray(values) for name, values in batch.items()}
    with (
        files.atomic(path, overwrite=True) as unfinished,
        tf.io.TFRecordWriter(unfinished) as writer,
    ):
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

    A second one ends the process as soon as TensorFlow returns. The exit code
    is the shell's for that signal, 128 more than its number.
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
            "resumes from there",
            file=sys.stderr,
        )
        sys.exit(128 + number)
