"""google-research/bert, for steps.py: a training step or a forward pass.

In an environment of Python 3.7 with tensorflow 1.15 and bert-tensorflow 1.0.4.
Runs that project's own model function, loss and optimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import worker
from bert import modeling, run_pretraining

TRAIN, EVAL = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL
INPUTS = ("input_ids", "input_mask", "segment_ids")


def inputs(job: worker.Job) -> tuple[dict[str, Any], dict[Any, Any]]:
    """Placeholders by name, and what to feed them with."""
    tensors = {
        name: tf.placeholder(value.dtype, value.shape, name)
        for name, value in job.batch.items()
    }
    return tensors, {tensors[name]: job.batch[name] for name in tensors}


def start() -> tf.Session:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def spec(job: worker.Job, features: dict[str, Any], mode: str) -> Any:
    """Its loss and training operation, the weights coming from the folder."""
    model_fn = run_pretraining.model_fn_builder(
        modeling.BertConfig.from_dict(job.config()),
        job.checkpoint,
        worker.LEARNING_RATE,
        worker.NUM_TRAIN_STEPS,
        num_warmup_steps=0,
        use_tpu=False,
        use_one_hot_embeddings=False,
    )
    return model_fn(features, None, mode, None)


def loss(job: worker.Job) -> float:
    with tf.Graph().as_default():
        features, feed = inputs(job)
        value = spec(job, features, EVAL).loss
        return start().run(value, feed)


def trainer(job: worker.Job) -> Callable[[], float]:
    with tf.Graph().as_default():
        features, feed = inputs(job)
        found = spec(job, features, TRAIN)
        session = start()
    return lambda: session.run([found.loss, found.train_op], feed)[0].item()


def encoder(job: worker.Job) -> Callable[[], dict[str, Any]]:
    with tf.Graph().as_default():
        features, feed = inputs(job)
        model = modeling.BertModel(
            modeling.BertConfig.from_dict(job.config()),
            is_training=False,
            input_ids=features["input_ids"],
            input_mask=features["input_mask"],
            token_type_ids=features["segment_ids"],
        )
        assignments = modeling.get_assignment_map_from_checkpoint(
            tf.trainable_variables(), job.checkpoint
        )[0]
        tf.train.init_from_checkpoint(job.checkpoint, assignments)
        outputs = {
            "sequence": model.get_sequence_output(),
            "pooled": model.get_pooled_output(),
        }
        session = start()
    return lambda: session.run(outputs, feed)


def main() -> None:
    job = worker.read_job()
    tf.logging.set_verbosity(tf.logging.ERROR)
    worker.work(
        job, lambda: loss(job), lambda: trainer(job), lambda: encoder(job)
    )


if __name__ == "__main__":
    main()
