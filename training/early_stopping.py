"""Evaluation while a model is trained: the best one kept, early stopping.

What was seen stands in eval_log.jsonl, and everything else follows from it, so
that a run that goes on decides as if it had never stopped.
"""

import json
import math
import os
from collections.abc import Callable

import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.training.monitor import forget_steps_after

EVAL_LOG = "eval_log.jsonl"
LOWER_IS_BETTER = ("loss", "error")  # what such metrics' names end in


def sort_key(metric: str, value: float) -> float:
    """More is better, and nothing worse than no number."""
    if math.isnan(value):
        return -math.inf
    return -value if metric.endswith(LOWER_IS_BETTER) else value


class EarlyStopping:
    """Evaluates every so many steps and keeps the model where it is best.

    Args:
        every_steps: between two evaluations.
        metric: by which models are compared, of those `evaluate` gives.
        patience: evaluations without a better one after which training stops;
            0 for never.
        evaluate: gives the metrics of the model as it is now.
        keep: stores the model as the best, given its step and metrics.
        writes: whether this host writes the log.
    """

    def __init__(
        self,
        every_steps: int,
        metric: str,
        patience: int,
        evaluate: Callable[[], dict[str, float]],
        keep: Callable[[int, dict[str, float]], None],
        output_dir: str,
        writes: bool,
    ):
        self.every_steps = every_steps
        self.metric = metric
        self.patience = patience
        self.evaluate = evaluate
        self.keep = keep
        self.path = os.path.join(output_dir, EVAL_LOG)
        self.writes = writes
        self.seen: list[tuple[int, float]] = []

    def resume(self, step: int) -> bool:
        """Forgets what a killed run saw after `step`; whether it had ended."""
        if self.writes:
            forget_steps_after(self.path, step)
        if tf.io.gfile.exists(self.path):
            try:
                self.seen = self._read(step)
            except (ValueError, TypeError, KeyError) as error:
                raise InputError(
                    f"{self.path}, which says what evaluations have found, is "
                    "damaged, so that the run cannot go on as it would have; "
                    "give another `output_dir`"
                ) from error
        return self._is_exhausted()

    def _read(self, step: int) -> list[tuple[int, float]]:
        with tf.io.gfile.GFile(self.path, "rb") as log:
            lines = [json.loads(line) for line in log]
        return [
            (line["step"], line[self.metric])
            for line in lines
            if line["step"] <= step
        ]

    def check(self, step: int) -> bool:
        """Evaluates the model after `step`; whether training is to stop."""
        figures = self.evaluate()
        shown = "  ".join(f"{k} {v:.4f}" for k, v in sorted(figures.items()))
        print(f"evaluation after step {step}: {shown}", flush=True)
        self.seen.append((step, figures[self.metric]))
        if self.writes:
            with tf.io.gfile.GFile(self.path, "a") as log:
                log.write(json.dumps({"step": step, **figures}) + "\n")
        if self._best_step() == step:
            self.keep(step, figures)
        return self._is_exhausted()

    def _best_step(self) -> int:
        """The first step of the best value."""
        best = max(self.seen, key=lambda seen: sort_key(self.metric, seen[1]))
        return best[0]

    def _is_exhausted(self) -> bool:
        if not self.patience or not self.seen:
            return False
        steps = [step for step, _ in self.seen]
        return len(steps) - 1 - steps.index(self._best_step()) >= self.patience
