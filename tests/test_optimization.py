"""Tests of training/optimization.py."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import TINY

from tasks.pretraining import Pretraining
from training.optimization import (
    AdamW,
    OptimizerConfig,
    clip_by_global_norm,
    learning_rate,
)


def variable(value: list[float], name: str) -> keras.Variable:
    return keras.Variable(value, name=name)


def test_schedule_of_the_golden_run() -> None:
    # 30 steps, 6 of them warm-up: rises by sixths, then falls by thirtieths
    # of the whole, so that it drops at the end of the warm-up
    config = OptimizerConfig(6.0, num_train_steps=30, num_warmup_steps=6)
    rates = [float(learning_rate(config, tf.constant(i))) for i in range(31)]
    np.testing.assert_allclose(rates[:6], [0, 1, 2, 3, 4, 5])
    falling = [6 * (1 - i / 30) for i in range(6, 31)]
    np.testing.assert_allclose(rates[6:], falling, atol=1e-5)
    assert float(learning_rate(config, tf.constant(99))) == 0.0


def test_no_warmup() -> None:
    config = OptimizerConfig(6.0, num_train_steps=30, num_warmup_steps=0)
    assert float(learning_rate(config, tf.constant(0))) == 6.0


def test_two_updates_by_hand() -> None:
    config = OptimizerConfig(
        1.0, num_train_steps=10**9, num_warmup_steps=0, weight_decay_rate=0.25
    )
    kernel, bias = variable([2.0], "kernel"), variable([2.0], "bias")
    optimizer = AdamW([kernel, bias], config)
    m = v = 0.0
    expected = {"kernel": 2.0, "bias": 2.0}
    for step, gradient in enumerate([0.5, -0.25]):
        tensors = [tf.constant([gradient]), tf.constant([gradient])]
        optimizer.apply(tensors, tf.constant(step), tf.constant(True))
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        update = m / (np.sqrt(v) + 1e-6)
        expected["kernel"] -= update + 0.25 * expected["kernel"]
        expected["bias"] -= update  # exempt from decay
    assert float(kernel.numpy()[0]) == pytest.approx(expected["kernel"], 1e-5)
    assert float(bias.numpy()[0]) == pytest.approx(expected["bias"], 1e-5)


def test_bias_correction_makes_the_first_update_the_learning_rate() -> None:
    config = OptimizerConfig(
        0.5, num_train_steps=10**9, num_warmup_steps=0, bias_correction=True
    )
    weight = variable([0.0], "kernel")
    optimizer = AdamW([weight], config)
    optimizer.apply([tf.constant([-3.0])], tf.constant(0), tf.constant(True))
    assert float(weight.numpy()[0]) == pytest.approx(0.5, rel=1e-5)


def test_what_decays_is_what_decays_at_google() -> None:
    model = Pretraining(TINY)
    optimizer = AdamW(model.trainable_variables, OptimizerConfig())
    rates = {
        id(variable): rate
        for variable, rate in zip(
            model.trainable_variables, optimizer.decay_rates, strict=True
        )
    }
    bindings = model.bindings()
    assert len(bindings) == 62
    for binding in bindings:
        exempt = re.search("LayerNorm|layer_norm|bias", binding.name)
        assert rates[id(binding.variable)] == (0.0 if exempt else 0.01)


def test_clipping_is_by_the_joint_norm() -> None:
    gradients = [tf.constant([3.0]), tf.constant([4.0])]
    clipped, norm = clip_by_global_norm(gradients, 1.0)
    assert float(norm) == 5.0
    np.testing.assert_allclose(tf.concat(clipped, 0), [0.6, 0.8], rtol=1e-6)
    untouched, _ = clip_by_global_norm(gradients, 7.0)
    np.testing.assert_allclose(tf.concat(untouched, 0), [3.0, 4.0], rtol=1e-6)
