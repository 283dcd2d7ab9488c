"""What a run says while it goes: a line, a JSON-lines file, TensorBoard."""

import json
import math
import os
import sys
import time
from collections.abc import Mapping

import tensorflow as tf

LOG = "train_log.jsonl"
TENSORBOARD = "tensorboard"
SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Writes each step's figures to output_dir and, now and then, a line."""

    def __init__(
        self,
        output_dir: str | None,
        first_step: int,
        num_train_steps: int,
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
            self.log.write(json.dumps({"step": step, **_plain(figures)}) + "\n")
            with self.events.as_default(step):
                tf.summary.experimental.write_raw_pb(_summary(figures), step)
        is_last = step == self.num_train_steps
        if now - self.last_line_at >= SECONDS_BETWEEN_LINES or is_last:
            self.last_line_at = now
            self.flush()
            print(self._line(step, figures, now), file=sys.stderr, flush=True)

    def _line(self, step: int, figures: Mapping[str, float], now: float) -> str:
        seconds_a_step = (now - self.started) / (step - self.first_step)
        left = seconds_a_step * (self.num_train_steps - step)
        shown = "  ".join(f"{k} {v:.4g}" for k, v in figures.items())
        return (
            f"step {step}/{self.num_train_steps}  {shown}  left {_clock(left)}"
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


def _plain(figures: Mapping[str, float]) -> dict[str, float | None]:
    """Without NaN and infinity, which JSON does not have."""
    return {k: v if math.isfinite(v) else None for k, v in figures.items()}


def _summary(figures: Mapping[str, float]) -> bytes:
    """All figures of a step in one protocol buffer: one write, not nine."""
    summary = tf.compat.v1.Summary()
    for name, value in figures.items():
        summary.value.add(tag=name, simple_value=value)
    return summary.SerializeToString()


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
        if text[end - 1 : end] == b"\n" and step_of(text[begin:end]) <= step:
            break
        end = begin
    if end < len(text):
        with tf.io.gfile.GFile(path + ".tmp", "wb") as log:
            log.write(text[:end])
        tf.io.gfile.rename(path + ".tmp", path, overwrite=True)


def step_of(line: bytes) -> float:
    """Of a line of a log; infinity if it is none."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return float("inf")


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
