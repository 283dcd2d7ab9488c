"""Tests of training/optimization.py."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.tasks.pretraining.model import Pretraining
from bert_keras.training.config import OptimizerConfig
from bert_keras.training.optimization import (
    AdamW,
    Lamb,
    learning_rate,
    sum_of_squares,
)
from tests.conftest import TINY


def variable(value: list[float] | np.ndarray, name: str) -> keras.Variable:
    return keras.Variable(value, name=name, dtype="float32")


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


@pytest.mark.parametrize(
    ("schedule", "decay", "expected"),
    [
        # rises by halves; then from 6 along a half wave of 8 steps
        ("cosine", None, {0: 0, 1: 3, 2: 6, 4: 5.12132, 6: 3, 8: 0.87868}),
        # stays at 6; falls by thirds in the last 3 steps
        ("wsd", 3, {0: 0, 1: 3, 2: 6, 5: 6, 7: 6, 8: 4, 9: 2}),
        ("wsd", None, {2: 6, 9: 6}),  # a tenth of the steps: the last one
        ("wsd", 10, {2: 4.8, 5: 3}),  # no stable part: as linear
    ],
)
def test_schedules_by_hand(
    schedule: str, decay: int | None, expected: dict[int, float]
) -> None:
    config = OptimizerConfig(6.0, 10, 2, schedule, decay)
    for step, rate in {**expected, 10: 0.0, 99: 0.0}.items():
        found = float(learning_rate(config, tf.constant(step)))
        assert found == pytest.approx(rate, abs=1e-5), step


def test_a_decay_belongs_to_wsd() -> None:
    with pytest.raises(InputError, match="is for `learning_rate_schedule=wsd`"):
        OptimizerConfig(num_decay_steps=3)


@pytest.mark.parametrize("shape", [(), (13,), (24, 3)])
def test_sum_of_squares_of_narrow_numbers(shape: tuple[int, ...]) -> None:
    numbers = tf.random.stateless_normal(shape, [3, 5]) * 100.0
    narrow = tf.cast(numbers, tf.bfloat16)
    expected = float(np.square(np.asarray(narrow, np.float64)).sum())
    assert float(sum_of_squares(narrow)) == pytest.approx(expected, rel=1e-6)
    assert not np.isfinite(sum_of_squares(narrow / 0.0))


@pytest.mark.parametrize(
    "beta_1, beta_2, epsilon", [(0.9, 0.999, 1e-6), (0.7, 0.95, 1e-2)]
)
def test_two_updates_by_hand(
    beta_1: float, beta_2: float, epsilon: float
) -> None:
    config = OptimizerConfig(
        1.0,
        num_train_steps=10**9,
        num_warmup_steps=0,
        weight_decay_rate=0.25,
        adam_beta_1=beta_1,
        adam_beta_2=beta_2,
        adam_epsilon=epsilon,
    )
    kernel, bias = variable([2.0], "kernel"), variable([2.0], "bias")
    optimizer = AdamW([kernel, bias], config)
    m = v = 0.0
    expected = {"kernel": 2.0, "bias": 2.0}
    for step, gradient in enumerate([0.5, -0.25]):
        tensors = [tf.constant([gradient]), tf.constant([gradient])]
        norm = optimizer.apply(tensors, tf.constant(step), tf.constant(1.0))
        assert float(norm) == pytest.approx(abs(gradient) * 2**0.5)
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient**2
        update = m / (np.sqrt(v) + epsilon)
        expected["kernel"] -= update + 0.25 * expected["kernel"]
        expected["bias"] -= update  # exempt from decay
    assert float(kernel.numpy()[0]) == pytest.approx(expected["kernel"], 1e-5)
    assert float(bias.numpy()[0]) == pytest.approx(expected["bias"], 1e-5)


def test_a_rate_of_its_own_for_each_variable() -> None:
    config = OptimizerConfig(1.0, num_train_steps=10**9, num_warmup_steps=0)
    full, half = variable([2.0], "bias"), variable([2.0], "bias")
    optimizer = AdamW([full, half], config, rate_scales=[1.0, 0.5])
    gradient = tf.constant([0.5])
    optimizer.apply([gradient] * 2, tf.constant(0), tf.constant(1.0))
    moved = 2.0 - full.numpy()[0]
    assert moved > 1.0
    assert 2.0 - half.numpy()[0] == pytest.approx(moved / 2)


def test_bias_correction_makes_the_first_update_the_learning_rate() -> None:
    config = OptimizerConfig(
        0.5, num_train_steps=10**9, num_warmup_steps=0, bias_correction=True
    )
    weight = variable([0.0], "kernel")
    optimizer = AdamW([weight], config)
    optimizer.apply([tf.constant([-3.0])], tf.constant(0), tf.constant(1.0))
    assert float(weight.numpy()[0]) == pytest.approx(0.5, rel=1e-5)


def test_what_decays_is_what_decays_at_google() -> None:
    model = Pretraining(TINY)
    optimizer = AdamW(model.trainable_variables, OptimizerConfig())
    rates = {
        id(variable): traits.decay_rate
        for variable, traits in zip(
            model.trainable_variables, optimizer.traits, strict=True
        )
    }
    mappings = model.mappings()
    assert len(mappings) == 62
    for mapping in mappings:
        exempt = re.search("LayerNorm|layer_norm|bias", mapping.name)
        assert rates[id(mapping.variable)] == (0.0 if exempt else 0.01)


def lamb_by_hand(
    weight: np.ndarray, gradients: list[np.ndarray], is_exempt: bool
) -> np.ndarray:
    """The weight after an update at a rate of 0.5 for each gradient."""
    m, v = np.zeros_like(weight), np.zeros_like(weight)
    for count, gradient in enumerate(gradients, 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        update = m / (1 - 0.9**count)
        update = update / (np.sqrt(v / (1 - 0.999**count)) + 1e-6)
        ratio = 1.0
        if not is_exempt:
            update = update + 0.25 * weight
            if np.any(weight) and np.any(update):
                ratio = float(np.linalg.norm(weight) / np.linalg.norm(update))
        weight = weight - 0.5 * ratio * update
    return weight


def test_lamb_is_scaled_matrix_by_matrix() -> None:
    config = OptimizerConfig(
        0.5,
        num_train_steps=10**9,
        num_warmup_steps=0,
        weight_decay_rate=0.25,
        max_gradient_norm=1e9,
    )
    rng = np.random.default_rng(3)
    # a matrix, three side by side, one of zeros, and one that is not scaled
    starts = [rng.normal(size=shape) for shape in ((5, 7), (5, 21), (5, 7), 7)]
    starts[2] *= 0
    starts[1] *= np.repeat([1.0, 3.0, 0.2], 7)
    names = ["kernel", "qkv_kernel", "other_kernel", "LayerNorm_gamma"]
    variables = [
        variable(start, name) for start, name in zip(starts, names, strict=True)
    ]
    optimizer = Lamb(variables, config, block_counts=[1, 3, 1, 1])
    history = [[rng.normal(size=s.shape) for s in starts] for _ in range(3)]
    history[0][0] *= 0
    for step, gradients in enumerate(history):
        tensors = [tf.constant(g, tf.float32) for g in gradients]
        optimizer.apply(tensors, tf.constant(step), tf.constant(1.0))
        bad = [tf.fill(g.shape, np.nan) for g in gradients]
        optimizer.apply(bad, tf.constant(step), tf.constant(1.0))
        optimizer.apply(tensors, tf.constant(step), tf.constant(np.inf))
    for own, start, name, *gradients in zip(
        variables, starts, names, *history, strict=True
    ):
        count = 3 if name == "qkv_kernel" else 1
        blocks = [
            lamb_by_hand(block, list(parts), name == "LayerNorm_gamma")
            for block, *parts in zip(
                *(np.split(x, count, -1) for x in (start, *gradients)),
                strict=True,
            )
        ]
        expected = np.concatenate(blocks, -1)
        np.testing.assert_allclose(own.numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("longest", "moments"), [(1.0, [0.06, 0.08]), (7.0, [0.3, 0.4])]
)
def test_clipping_is_by_the_joint_norm(
    longest: float, moments: list[float]
) -> None:
    """Gradients 3 and 4, by a norm of at most 1 or 7: the first moments."""
    variables = [variable([0.0], "a"), variable([0.0], "b")]
    optimizer = AdamW(variables, OptimizerConfig(max_gradient_norm=longest))
    gradients = [tf.constant([3.0]), tf.constant([4.0])]
    norm = optimizer.apply(gradients, tf.constant(0), tf.constant(1.0))
    assert float(norm) == 5.0
    found = [float(m.numpy()[0]) for m in optimizer.first_moments]
    np.testing.assert_allclose(found, moments, rtol=1e-6)
