"""Tests of modeling/fused_ops.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.modeling import fused_ops

KEY = tf.constant([3, 5])


def test_gelu_means_tanh_and_the_exact_one_differs() -> None:
    # 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) and x Phi(x), at 2
    x, zero = tf.constant([2.0]), tf.constant([0.0])
    tanh = fused_ops.bias_activation(x, zero, "gelu").numpy()[0]
    assert tanh == pytest.approx(1.954598, abs=1e-6)
    assert fused_ops.bias_activation(x, zero, "gelu_tanh").numpy()[0] == tanh
    erf = fused_ops.bias_activation(x, zero, "gelu_erf").numpy()[0]
    assert erf == pytest.approx(1.954500, abs=1e-6)


def test_exact_gelu_weights_x_by_the_normal_distribution() -> None:
    x, zero = tf.linspace(-9.0, 9.0, 4001)[:, None], tf.constant([0.0])
    found = fused_ops.bias_activation(x, zero, "gelu_erf")
    wide = tf.cast(x, tf.float64)
    expected = wide * 0.5 * tf.math.erfc(-wide / np.sqrt(2.0))
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_layer_norm_of_three_numbers() -> None:
    # mean 2, variance 2 / 3: (-1, 0, 1) / sqrt(2 / 3), times 2, plus 1
    normed = fused_ops.norm_dropout(
        tf.constant([1.0, 2.0, 3.0]),
        tf.fill([3], 2.0),
        tf.fill([3], 1.0),
        1e-12,
        0.0,
        None,
    )
    expected = 2 * np.array([-1, 0, 1]) / np.sqrt(2 / 3) + 1
    np.testing.assert_allclose(normed, expected, rtol=1e-6)


def kept(key: tuple[int, int], size: int, rate: float = 0.1) -> np.ndarray:
    """Which of `size` ones a dropout with this key keeps."""
    dropped = fused_ops.dropout(tf.ones(size), rate, tf.constant(key)).numpy()
    np.testing.assert_allclose(dropped[dropped > 0], 1 / (1 - rate), rtol=1e-6)
    return dropped > 0


def test_dropout_depends_on_key_and_place_alone() -> None:
    once = kept((3, 5), 1001)
    np.testing.assert_array_equal(once, kept((3, 5), 1001))
    np.testing.assert_array_equal(once[:143], kept((3, 5), 143))
    table = fused_ops.dropout(tf.ones((7, 11, 13)), 0.1, KEY).numpy()
    np.testing.assert_array_equal(once, table.ravel() > 0)
    np.testing.assert_array_equal(fused_ops.dropout_seed(KEY, 2), [3, 7])
    assert fused_ops.dropout_seed(None, 2) is None
    assert not np.array_equal(once, kept((3, 7), 1001))
    assert not np.array_equal(once, kept((4, 5), 1001))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_looks_independent_of_place_and_key(rate: float) -> None:
    """Correlations within five standard errors, of neighbours in a row, of
    rows below each other, and of keys next to each other."""
    size = 2**17
    keys = [(step, site) for step in (0, 1, 2**30) for site in (0, 1, 2, 38)]
    drawn = np.stack([kept(key, size, rate) for key in keys]) - (1 - rate)
    drawn /= np.sqrt(rate * (1 - rate))
    error = 1 / np.sqrt(size)
    assert np.abs(drawn.mean(axis=1)).max() < 5 * error
    between = drawn @ drawn.T / size - np.diag((drawn**2).mean(axis=1))
    assert np.abs(between).max() < 5 * error
    for lag in (1, 2, 64, 128, 384, 768, 3 * 2**12, 2**14, 2**16):
        own = (drawn[:, lag:] * drawn[:, :-lag]).mean(axis=1)
        assert np.abs(own).max() < 5 / np.sqrt(size - lag), lag


def test_keys_drop_other_numbers_at_the_same_sum_of_key_and_place() -> None:
    """Of two halves of keys within the hash, all else being equal."""
    size, rate = 2**17, 0.1
    numbers = tf.cast(tf.range(size), tf.uint32)
    halves = [fused_ops._hashed(tf.constant(i, tf.uint32)) for i in range(12)]
    hashes = [fused_ops._hashed(numbers, half).numpy() for half in halves]
    drawn = np.stack([h >= rate * 2**32 for h in hashes]) - (1 - rate)
    drawn /= np.sqrt(rate * (1 - rate))
    between = drawn @ drawn.T / size - np.diag((drawn**2).mean(axis=1))
    assert np.abs(between).max() < 5 / np.sqrt(size)


@pytest.mark.parametrize("hashes", [True, False])
def test_what_is_kept_is_scaled_to_the_mean_in_either_way(
    hashes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a hash as on CPUs and GPUs, and by drawn numbers as elsewhere; in
    bfloat16 1 / 0.9 rounds to 1.109375."""
    device = "CPU" if hashes else None
    monkeypatch.setattr(fused_ops, "_device", lambda: device)
    ones = tf.ones((331, 307))
    for dtype, scale in (
        (tf.float32, np.float32(1 / 0.9)),
        (tf.bfloat16, 1.109375),
    ):
        x = tf.cast(ones, dtype)
        dropped = fused_ops.dropout(x, 0.1, KEY)
        assert dropped.dtype == x.dtype
        again = fused_ops.dropout(x, 0.1, KEY)
        np.testing.assert_array_equal(dropped, again)
        dropped = tf.cast(dropped, tf.float32).numpy()
        # 101,617 draws: five standard errors of a share of 0.1 are 0.0047
        assert (dropped == 0).mean() == pytest.approx(0.1, abs=0.0047)
        np.testing.assert_allclose(dropped[dropped > 0], scale, rtol=1e-6)
    # 3 / 0.9 in float32, then rounded: by 0.9 in bfloat16 it would be 3.34375
    scaled = fused_ops.dropout(tf.cast(3.0 * ones, tf.bfloat16), 0.1, KEY)
    assert np.max(tf.cast(scaled, tf.float32)) == 3.328125


def test_a_rate_next_to_one_drops_everything() -> None:
    dropped = fused_ops.dropout(tf.ones(1001), 1 - 1e-11, KEY).numpy()
    assert not dropped.any()


def test_nothing_is_dropped_without_key_or_rate() -> None:
    x = tf.constant([1.0, 2.0])
    assert fused_ops.dropout(x, 0.1, None) is x
    assert fused_ops.dropout(x, 0.0, KEY) is x


def test_low_precision_goes_out_as_it_came_in() -> None:
    x, bias = tf.cast([[1.0, 2.0]], tf.bfloat16), tf.zeros([2])
    assert fused_ops.bias_activation(x, bias, "relu").dtype == tf.bfloat16
    assert fused_ops.masked_softmax(x, 1.0, bias).dtype == tf.bfloat16
    heads = tf.cast(random(2, 3, 4, 5), tf.bfloat16)
    adder = tf.zeros([2, 1, 4, 4])
    for seed in (None, KEY):
        context = fused_ops.attention(
            heads, heads, heads, 1.0, adder, 0.1, seed
        )
        assert context.dtype == tf.bfloat16


def random(*shape: int) -> tf.Tensor:
    size = int(np.prod(shape))
    numbers = np.random.default_rng(size).normal(size=shape)
    return tf.constant(numbers, tf.float32)


X, VECTOR = random(5, 7, 13), random(13)
LABELS = tf.constant(np.arange(35).reshape(5, 7) % 13)
MASK = tf.constant([0.0] * 9 + [-10000.0] * 4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("chain", "args"),
    [
        (fused_ops.add_bias, (X, VECTOR)),
        (fused_ops.bias_activation, (X, VECTOR, "gelu")),
        (fused_ops.bias_activation, (X, VECTOR, "gelu_erf")),
        # the same tensor and the same vector in several places
        (
            fused_ops.bias_dropout_add_norm,
            (X, VECTOR, X, VECTOR, VECTOR, 1e-12, 0.1, KEY),
        ),
        (fused_ops.norm_dropout, (X, VECTOR, VECTOR, 1e-5, 0.1, KEY)),
        (
            fused_ops.bias_activation_norm,
            (X, VECTOR, "relu", VECTOR, VECTOR, 1e-12),
        ),
        (fused_ops.log_likelihood, (X, LABELS)),
        (fused_ops.masked_softmax, (X, 0.5, MASK)),
        (fused_ops.transpose, (X, (1, 0, 2))),
        (fused_ops.lone_dropout, (X, 0.1, KEY)),
    ],
)
def test_compiled_gradients_are_the_plain_ones(
    chain: Callable[..., Any],
    args: tuple[Any, ...],
    dtype: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a GPU, where all of these are compiled."""
    monkeypatch.setattr(fused_ops, "_device", lambda: "GPU")

    def gradients() -> list[np.ndarray]:
        with tf.GradientTape() as tape:
            tape.watch([X, VECTOR])
            own = [tf.cast(X, dtype) if arg is X else arg for arg in args]
            result = tf.nest.flatten(chain(*own))[0]
            total = tf.reduce_sum(tf.sin(tf.cast(result, tf.float32)))
        found = tape.gradient(total, [X, VECTOR])
        return [g.numpy() for g in found if g is not None]

    compiled = gradients()
    with fused_ops.uncompiled():
        plain = gradients()
    assert len(compiled) == 1 + any(arg is VECTOR for arg in args)
    tolerance = 1e-5 if dtype == "float32" else 0.05
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("device", "rate", "seed"),
    [
        ("CPU", 0.0, KEY),
        ("CPU", 0.1, KEY),
        ("GPU", 0.1, KEY),
        ("GPU", 0.1, None),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradient_of_attention_is_the_plain_one(
    dtype: str,
    device: str,
    rate: float,
    seed: tf.Tensor | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 7 queries and 11 keys, of which each query sees others."""
    monkeypatch.setattr(fused_ops, "_device", lambda: device)
    args = [random(5, 2, 7, 13), random(5, 2, 11, 13), random(5, 2, 11, 13) + 1]
    adder = tf.where(random(5, 1, 7, 11) < 1.0, 0.0, -10000.0)

    def found() -> list[np.ndarray]:
        with tf.GradientTape() as tape:
            tape.watch(args)
            query, key, value = (tf.cast(x, dtype) for x in args)
            context = fused_ops.attention(
                query, key, value, 0.5, adder, rate, seed
            )
            total = tf.reduce_sum(tf.sin(tf.cast(context, tf.float32)))
        return [context, *tape.gradient(total, args)]

    own = found()
    with fused_ops.uncompiled():
        plain = found()
    tolerance = 1e-5 if dtype == "float32" else 0.06
    for one, other in zip(own, plain, strict=True):
        one, other = (tf.cast(x, tf.float32).numpy() for x in (one, other))
        np.testing.assert_allclose(one, other, atol=tolerance, rtol=tolerance)
    assert own[0].shape == (5, 7, 2, 13)
