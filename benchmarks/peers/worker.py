"""A process that does one piece of work each time it is told to, and times it.

For steps.py, which speaks to several of them in turn. A line on standard input
asks for one unit of work; the answer is a line of JSON. Python 3.7 and NumPy
alone, since the original's environment has nothing newer.

Shapes: B rows, S positions, H hidden size, P masked predictions.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LEARNING_RATE = 1e-5
WEIGHT_DECAY = 0.01  # not for LayerNorm and biases
EPSILON = 1e-6
MAX_GRADIENT_NORM = 1.0
NUM_TRAIN_STEPS = 1000000  # so many that the rate stays what it is
NUM_WARM_STEPS = 2  # the first compiles, the second may
UNIT_S = 1.0  # a unit is as many steps as take this long, and at least one
NUM_BATCHES = 8  # of a file, whose prediction is one step

NUM_CORES = len(os.sched_getaffinity(0))


class Job:
    """What is asked of a worker: a JSON file named on its command line."""

    def __init__(self, path: str):
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
        self.model: str = values["model"]  # Google's folder
        self.hugging_face: str = values["hugging_face"]  # the same weights
        self.trains: bool = values["mode"] == "training"
        self.predicts_file: bool = values["mode"] == "prediction"
        self.is_bfloat16: bool = values["precision"] == "bf16"
        self.variant: str = values["variant"]
        self.device: str = values["device"]  # cpu or cuda
        self.outputs: str = values["outputs"]  # the .npz to write
        with np.load(values["batch"]) as arrays:
            # As pre-training records have them: input_* and segment_ids
            # [B, S], masked_lm_* [B, P], next_sentence_labels [B, 1].
            self.batch: dict[str, np.ndarray] = dict(arrays)

    @property
    def checkpoint(self) -> str:
        return os.path.join(self.model, "bert_model.ckpt")

    def config(self) -> dict[str, Any]:
        path = os.path.join(self.model, "bert_config.json")
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))


class Answers:
    """The standard output, kept for answers: whatever else is printed from
    here on, also from below Python, goes to standard error."""

    def __init__(self) -> None:
        self.file = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def say(self, **values: Any) -> None:
        self.file.write(json.dumps(values) + "\n")
        self.file.flush()


answers = Answers()


def read_job() -> Job:
    return Job(sys.argv[1])


def work(
    job: Job,
    loss: Callable[[], Any],
    trainer: Callable[[], Callable[[], float]],
    encoder: Callable[[], Callable[[], dict[str, Any]]],
    predictor: Callable[[], Callable[[int], dict[str, Any]]] | None = None,
) -> None:
    """Writes what must agree, then serves the job's kind of work.

    Args:
        job: what is asked for.
        loss: gives the loss without dropout, before the first step.
        trainer: makes a training step, which gives its loss.
        encoder: makes a forward pass, which gives `sequence` [B, S, H] and
            `pooled` [B, H].
        predictor: makes what predicts a file of so many such batches and
            gives the last one's outputs; None: it is one forward pass after
            another.
    """
    if job.trains:
        write_outputs(job, loss=loss())
        serve(trainer())
    elif job.predicts_file:
        predict = (
            predictor() if predictor else functools.partial(repeat, encoder())
        )
        write_outputs(job, **predict(1))
        serve(lambda: predict(NUM_BATCHES), NUM_BATCHES)
    else:
        forward = encoder()
        write_outputs(job, **forward())
        serve(forward)


def repeat(
    forward: Callable[[], dict[str, Any]], num_batches: int
) -> dict[str, Any]:
    for _ in range(num_batches - 1):
        forward()
    return forward()


def serve(step: Callable[[], Any], num_batches: int = 1) -> None:
    """Warms up, then times units of work until standard input ends.

    Args:
        step: does the work once and returns what it gives to Python: a number
            when it trains (its loss), which is told with the time.
        num_batches: that are one step's work; the time told is of one.
    """
    for _ in range(NUM_WARM_STEPS):
        step()
    start = time.perf_counter()
    step()
    num_steps = max(1, int(UNIT_S / (time.perf_counter() - start)))
    answers.say(num_steps=num_steps)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(num_steps):
            result = step()
        seconds = time.perf_counter() - start
        milliseconds = 1000 * seconds / (num_steps * num_batches)
        loss = result if isinstance(result, float) else None
        answers.say(milliseconds=milliseconds, loss=loss)


def write_outputs(job: Job, **arrays: Any) -> None:
    """What must agree: `loss` without dropout before the first step, or
    `sequence` [B, S, H] and `pooled` [B, H]."""
    values = {k: np.asarray(v, np.float32) for k, v in arrays.items()}
    np.savez(job.outputs, **values)  # type: ignore[arg-type]
