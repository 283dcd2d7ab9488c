"""This project's training step, forward pass or prediction, for steps.py: what
its commands run, in the same way.

Shapes: B rows, S positions, H hidden size.
"""

import collections
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent / "peers"))

import numpy as np
import worker

from bert_keras.cli import command


def make_run(job: worker.Job) -> Any:
    """A tasks.trainer.Run of pre-training, with the weights loaded."""
    from bert_keras.tasks import trainer
    from bert_keras.tasks.pretraining.model import Pretraining
    from bert_keras.training.config import DeviceConfig

    settings = trainer.RunConfig(
        output_dir=job.model,
        bert_config_file=None,
        vocab_file=None,
        init_checkpoint=job.model,
        precision="mixed_bfloat16" if job.is_bfloat16 else "float32",
    )
    place = trainer.make_devices(DeviceConfig())
    config = trainer.read_config(settings, job.batch["input_ids"].shape[1])
    model = trainer.make_model(lambda: Pretraining(config), place, settings, 0)
    run = trainer.Trainer(model, config, place, settings, None)
    run.restore()
    return run


def trainer(run: Any, batch: dict[str, Any]) -> Callable[[], float]:
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
    strategy, host = run.place
    with strategy.scope():
        optimizer = AdamW(run.model.trainable_variables, config)
    run_steps = StepFunction(run.model, optimizer, strategy, LoopConfig())
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

    def __init__(self, run: Any, batch: dict[str, Any]):
        from bert_keras.training.inference import Predictor

        def forward(inputs: dict[str, Any]) -> dict[str, Any]:
            outputs = run.model.encoder(
                inputs["input_ids"], inputs["input_mask"], inputs["segment_ids"]
            )
            return {"sequence": outputs.sequence, "pooled": outputs.pooled}

        self.predictor = Predictor(forward, run.place.strategy)
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
        lambda: Evaluation(run.model, *run.place)([job.batch])["loss"],
        lambda: trainer(run, job.batch),
        lambda: Encoder(run, job.batch),
        lambda: Encoder(run, job.batch).predict,
    )


if __name__ == "__main__":
    main()
