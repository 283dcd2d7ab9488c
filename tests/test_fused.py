"""Tests of modeling/fused.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from modeling import fused

NOISE_PAIR = tf.constant([2**14 - 1, 2**14], tf.uint16)  # around a quarter


def test_gelu_means_tanh_and_the_exact_one_differs() -> None:
    # 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) and x Phi(x), at 2
    x, zero = tf.constant([2.0]), tf.constant([0.0])
    tanh = fused.bias_activation(x, zero, "gelu").numpy()[0]
    assert tanh == pytest.approx(1.954598, abs=1e-6)
    assert fused.bias_activation(x, zero, "gelu_tanh").numpy()[0] == tanh
    erf = fused.bias_activation(x, zero, "gelu_erf").numpy()[0]
    assert erf == pytest.approx(1.954500, abs=1e-6)


def test_exact_gelu_weights_x_by_the_normal_distribution() -> None:
    x, zero = tf.linspace(-9.0, 9.0, 4001)[:, None], tf.constant([0.0])
    found = fused.bias_activation(x, zero, "gelu_erf")
    wide = tf.cast(x, tf.float64)
    expected = wide * 0.5 * tf.math.erfc(-wide / np.sqrt(2.0))
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_layer_norm_of_three_numbers() -> None:
    # mean 2, variance 2 / 3: (-1, 0, 1) / sqrt(2 / 3), times 2, plus 1
    normed = fused.norm_dropout(
        tf.constant([1.0, 2.0, 3.0]),
        tf.fill([3], 2.0),
        tf.fill([3], 1.0),
        1e-12,
        None,
        0.0,
    )
    expected = 2 * np.array([-1, 0, 1]) / np.sqrt(2 / 3) + 1
    np.testing.assert_allclose(normed, expected, rtol=1e-6)


def test_dropout_keeps_the_expectation_and_drops_by_the_noise() -> None:
    dropped = fused.bias_dropout_add_norm(
        tf.constant([3.0, 6.0]),
        tf.constant([1.0, 2.0]),
        tf.constant([0.0, 0.0]),
        tf.constant([1.0, 1.0]),
        tf.constant([0.0, 0.0]),
        1e-12,
        NOISE_PAIR,  # below the rate: dropped; at it: kept
        0.25,
    )
    # (0, 8 / 0.75) has mean m and deviations -m, m: normed to -1, 1
    np.testing.assert_allclose(dropped, [-1.0, 1.0], rtol=1e-6)
    probs = fused.attention_probs(
        tf.constant([[0.0, 0.0]]), 1.0, tf.zeros([1, 2]),
        NOISE_PAIR[None], 0.25,
    )  # fmt: skip
    np.testing.assert_allclose(probs, [[0.0, 0.5 / 0.75]], rtol=1e-6)


def test_noise_depends_on_the_key_alone() -> None:
    def noise(key: list[int], site: int) -> np.ndarray:
        seed = fused.site_seed(tf.constant(key), site)
        return np.asarray(fused.uniform_noise(tf.zeros((11, 13)), 0.1, seed))

    np.testing.assert_array_equal(noise([3, 5], 1), noise([3, 5], 1))
    assert not np.array_equal(noise([3, 5], 1), noise([3, 5], 2))
    assert not np.array_equal(noise([3, 5], 1), noise([4, 5], 1))
    large = np.asarray(
        fused.uniform_noise(tf.zeros((1000, 101)), 0.1, tf.constant([1, 2]))
    )
    assert large.dtype == np.uint16
    # 101,000 draws: three standard errors of a share of 0.1 are 0.0028
    assert (large < 0.1 * 2**16).mean() == pytest.approx(0.1, abs=0.0028)


def test_no_noise_where_nothing_is_dropped() -> None:
    assert fused.site_seed(None, 3) is None
    assert fused.uniform_noise(tf.zeros(2), 0.1, None) is None
    assert fused.uniform_noise(tf.zeros(2), 0.0, tf.constant([1, 2])) is None


def test_low_precision_goes_out_as_it_came_in() -> None:
    x = tf.cast([[1.0, 2.0]], tf.bfloat16)
    bias = tf.zeros([2])
    assert fused.bias_activation(x, bias, "relu").dtype == tf.bfloat16
    probs = fused.attention_probs(x, 1.0, bias, None, 0.0)
    assert probs.dtype == tf.bfloat16
    plain = fused.masked_softmax(x, 1.0, bias)
    assert plain.dtype == tf.bfloat16
    assert plain.numpy().tolist() == probs.numpy().tolist()


def random(*shape: int) -> tf.Tensor:
    size = int(np.prod(shape))
    numbers = np.random.default_rng(size).normal(size=shape)
    return tf.constant(numbers, tf.float32)


X, VECTOR = random(5, 7, 13), random(13)
NOISE = fused.uniform_noise(X, 0.1, tf.constant([3, 5]))
LABELS = tf.constant(np.arange(35).reshape(5, 7) % 13)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("chain", "args"),
    [
        (fused.add_bias, (X, VECTOR)),
        (fused.bias_activation, (X, VECTOR, "gelu")),
        (fused.bias_activation, (X, VECTOR, "gelu_erf")),
        (fused.attention_probs, (X, 0.5, random(5, 1, 13), NOISE, 0.1)),
        # the same tensor and the same vector in several places
        (
            fused.bias_dropout_add_norm,
            (X, VECTOR, X, VECTOR, VECTOR, 1e-12, NOISE, 0.1),
        ),
        (fused.norm_dropout, (X, VECTOR, VECTOR, 1e-5, NOISE, 0.1)),
        (
            fused.bias_activation_norm,
            (X, VECTOR, "relu", VECTOR, VECTOR, 1e-12),
        ),
        (fused.log_likelihood, (X, LABELS)),
    ],
)
def test_compiled_gradients_are_the_plain_ones(
    chain: Callable[..., Any], args: tuple[Any, ...], dtype: str
) -> None:
    def gradients() -> list[np.ndarray]:
        with tf.GradientTape() as tape:
            tape.watch([X, VECTOR])
            own = [tf.cast(X, dtype) if arg is X else arg for arg in args]
            result = tf.nest.flatten(chain(*own))[0]
            total = tf.reduce_sum(tf.sin(tf.cast(result, tf.float32)))
        found = tape.gradient(total, [X, VECTOR])
        return [g.numpy() for g in found if g is not None]

    compiled = gradients()
    with fused.uncompiled():
        plain = gradients()
    assert len(compiled) == 1 + any(arg is VECTOR for arg in args)
    tolerance = 1e-5 if dtype == "float32" else 0.05
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance, rtol=tolerance)
