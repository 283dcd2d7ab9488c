"""This project's training step, forward pass or prediction, for steps.py: what
its commands run, in the same way.

Shapes: B rows, S positions, H hidden size.
"""

import collections
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent / "peers"))

from bert_keras.cli import command

import numpy as np
import worker


class Run(NamedTuple):
    model: Any
    devices: Any


def make_run(job: worker.Job) -> Run:
    """A model of pre-training, with its weights."""
    from bert_keras.modeling.checkpoint import load_checkpoint
    from bert_keras.tasks import run_context
    from bert_keras.tasks.pretraining.model import Pretraining
    from bert_keras.tasks.trainer import make_model
    from bert_keras.training.config import DeviceConfig

    settings = run_context.RunConfig(
        output_dir=job.model,
        init_checkpoint=job.model,
        precision="mixed_bfloat16" if job.is_bfloat16 else "float32",
    )
    devices = run_context.make_devices(DeviceConfig())
    config = run_context.read_config(settings, job.batch["input_ids"].shape[1])
    model = make_model(lambda: Pretraining(config), devices, settings, 0)
    load_checkpoint(model.mappings(), job.model)
    return Run(model, devices)


def trainer(
    run: Run, batch: dict[str, Any], use_xla: bool
) -> Callable[[], float]:
    import tensorflow as tf

    from bert_keras.training.config import LoopConfig, OptimizerConfig
    from bert_keras.training.distribution import split_between_replicas
    from bert_keras.training.loop import StepFunction
    from bert_keras.training.optimization import AdamW

    config = OptimizerConfig(
        learning_rate=worker.LEARNING_RATE,
        num_train_steps=worker.NUM_TRAIN_STEPS,
        num_warmup_steps=0,
        weight_decay_rate=worker.WEIGHT_DECAY,
        adam_epsilon=worker.EPSILON,
        max_gradient_norm=worker.MAX_GRADIENT_NORM,
    )
    strategy, host = run.devices
    with strategy.scope():
        optimizer = AdamW(run.model.trainable_variables, config)
    run_steps = StepFunction(
        run.model, optimizer, strategy, LoopConfig(use_xla=use_xla)
    )
    stacked = {name: tf.constant(x)[None] for name, x in batch.items()}
    number = 0

    def step() -> float:
        nonlocal number
        shares = split_between_replicas(strategy, host, stacked)
        figures = run_steps(shares, number)
        number += 1
        return figures[0]["loss"]

    return step


class Encoder:
    """Forward passes over one batch, and over a file of such."""

    def __init__(self, run: Run, batch: dict[str, Any]):
        from bert_keras.training.inference import Predictor

        def forward(inputs: dict[str, Any]) -> dict[str, Any]:
            outputs = run.model.encoder(
                inputs["input_ids"], inputs["input_mask"], inputs["segment_ids"]
            )
            return {"sequence": outputs.sequence, "pooled": outputs.pooled}

        self.predictor = Predictor(forward, run.devices.strategy)
        self.batch = {
            name: batch[name]
            for name in ("input_ids", "input_mask", "segment_ids")
        }

    def __call__(self) -> dict[str, Any]:
        return self.predictor(self.batch)

    def predict(self, num_batches: int) -> dict[str, Any]:
        """The last batch's outputs."""
        from bert_keras.training.inference import predict

        num_rows = len(self.batch["input_ids"])
        numbers = np.arange(num_batches * num_rows).reshape(num_batches, -1)
        batches = ((rows.tolist(), self.batch) for rows in numbers)
        rows = collections.deque(predict(self.predictor, batches), num_rows)
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def main() -> None:
    job = worker.read_job()
    command.import_tensorflow()
    from bert_keras.training.loop import Evaluation

    run = make_run(job)
    worker.work(
        job,
        lambda: Evaluation(run.model, *run.devices)([job.batch])["loss"],
        lambda: trainer(run, job.batch, job.variant == "xla"),
        lambda: Encoder(run, job.batch),
        lambda: Encoder(run, job.batch).predict,
    )


if __name__ == "__main__":
    main()
