"""Evaluation while a model is trained: the best one kept, early stopping.

What was seen stands in eval_log.jsonl, and everything else follows from it, so
that a run that resumes decides as if it had never stopped.
"""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping

import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.files import content, parse_json, to_json
from bert_keras.training.monitor import forget_steps_after

EVAL_LOG = "eval_log.jsonl"
LOWER_IS_BETTER = ("loss", "error")  # what such metrics' names end in


def sort_key(metric: str, value: float) -> float:
    """More is better, and nothing worse than no number."""
    if math.isnan(value):
        return -math.inf
    return -value if metric.endswith(LOWER_IS_BETTER) else value


def evaluation_names(figures: Mapping[str, float]) -> dict[str, float]:
    """The figures of an evaluation by names that training's do not have: "loss"
    becomes "eval_loss", unless there is one."""
    own = {k: x for k, x in figures.items() if k.startswith("eval_")}
    others = {f"eval_{k}": x for k, x in figures.items() if k not in own}
    return others | own


@dataclasses.dataclass
class EarlyStopping:
    """Evaluates every so many steps and keeps the model where it is best."""

    every_steps: int  # between two evaluations
    metric: str  # by which models are compared, of those `evaluate` gives
    patience: int  # evaluations without a better one; 0: it never stops
    evaluate: Callable[[], dict[str, float]]  # the model as it is now
    # Stores the model as the best, given its step and metrics.
    keep: Callable[[int, Mapping[str, float]], None]
    # Makes the best up to a step, from which the run resumes, the best again.
    go_back: Callable[[int], None]
    output_dir: str
    writes: bool  # whether this host writes the log
    samples: Callable[[], str] = str  # predictions as Markdown
    seen: list[tuple[int, float]] = dataclasses.field(default_factory=list)

    @property
    def path(self) -> str:
        return os.path.join(self.output_dir, EVAL_LOG)

    def resume(self, step: int) -> bool:
        """Forgets what a killed run saw after `step`; whether it had ended."""
        if self.writes:
            forget_steps_after(self.path, step)
            self.go_back(step)
        log = content(self.path)
        if log is not None:
            try:
                lines = [parse_json(line) for line in log.splitlines()]
                for line in lines:  # `check` writes null for a NaN
                    if line[self.metric] is None:
                        line[self.metric] = math.nan
                self.seen = [
                    (int(line["step"]), float(line[self.metric]))
                    for line in lines
                    if line["step"] <= step
                ]
            except (ValueError, TypeError, KeyError, OverflowError) as error:
                raise InputError(
                    f"{self.path}, the log of evaluations, is damaged, so the "
                    "run cannot resume as if it had never stopped; give "
                    "another `output_dir`"
                ) from error
        return self._is_exhausted()

    def check(self, step: int, figures: Mapping[str, float]) -> bool:
        """Notes an evaluation after `step`, and keeps the model if it is the
        best; whether training is to stop."""
        self.seen.append((step, figures[self.metric]))
        if self.writes:
            with tf.io.gfile.GFile(self.path, "a") as log:
                log.write(to_json({"step": step, **figures}) + "\n")
        if self._best() == len(self.seen) - 1:
            self.keep(step, figures)
        return self._is_exhausted()

    def verdict(self) -> str:
        """Which step was kept, and why."""
        step, value = self.seen[self._best()]
        number = len(self.seen)
        count = f"{number} evaluations" if number > 1 else "one evaluation"
        return f"kept step {step:,}: {self.metric} {value:.4f}, best of {count}"

    def _best(self) -> int:
        """Which evaluation found the best value first, from 0."""
        values = [sort_key(self.metric, value) for _, value in self.seen]
        return values.index(max(values))

    def _is_exhausted(self) -> bool:
        if not self.patience or not self.seen:
            return False
        return len(self.seen) - 1 - self._best() >= self.patience
