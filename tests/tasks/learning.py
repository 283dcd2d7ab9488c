"""What a model learns from a batch, for tests of models of tasks."""

from typing import Any

import numpy as np
import tensorflow as tf


def as_tensors(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in batch.items()}


def learnt(model: Any, batch: dict, totals: dict) -> tuple:
    """Loss, metric sums and gradients."""
    with tf.GradientTape() as tape:
        loss, sums = model.loss_fn(batch, totals, None)
    trained = [v.value for v in model.trainable_variables]
    gradients = tape.gradient(loss, trained)
    return loss, sums, [tf.convert_to_tensor(g) for g in gradients]


def assert_packing_changes_nothing(
    model: Any, padded: dict, packed: dict, num_micro_batches: int
) -> None:
    """Micro-batches of packed rows add up to what padded rows teach."""
    totals = model.totals(padded)
    parts = [
        learnt(model, dict(zip(packed, values, strict=True)), totals)
        for values in zip(
            *(tf.split(value, num_micro_batches) for value in packed.values()),
            strict=True,
        )
    ]
    found = tf.nest.map_structure(lambda *x: sum(x), *parts)
    for one, other in zip(
        tf.nest.flatten(learnt(model, padded, totals)),
        tf.nest.flatten(found),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
