"""Tests of modeling/attention.py."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from bert_keras.modeling.attention import Attention, additive_mask
from tests.conftest import TINY

BATCH, FROM, TO = 2, 7, 11


def make_attention() -> Attention:
    keras.utils.set_random_seed(11)
    # Wide enough for sharp weights; wider ones cost float32 its fifth place.
    attention = Attention(dataclasses.replace(TINY, initializer_range=0.25))
    attention.build()
    return attention


def numpy_attention(
    attention: Attention, x: np.ndarray, y: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """The same by loops over batch and heads; mask [B, S, T]."""
    hidden, heads = TINY.hidden_size, TINY.num_attention_heads
    size = hidden // heads
    kernel = attention.qkv_kernel.numpy()
    out = np.zeros_like(x)
    for b in range(x.shape[0]):
        for n in range(heads):
            columns = slice(n * size, (n + 1) * size)
            query = x[b] @ kernel[:, :hidden][:, columns]
            key = y[b] @ kernel[:, hidden : 2 * hidden][:, columns]
            value = y[b] @ kernel[:, 2 * hidden :][:, columns]
            scores = query @ key.T / np.sqrt(size)
            weights = np.where(mask[b], np.exp(scores), 0.0)
            weights /= weights.sum(-1, keepdims=True)
            out[b, :, columns] = weights @ value
    return out


def random(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.normal(size=shape).astype("float32")


def test_self_attention_is_the_loop_over_heads() -> None:
    attention = make_attention()
    x = random(BATCH, FROM, TINY.hidden_size)
    mask = np.arange(FROM)[None] < np.array([[FROM], [3]])  # [B, T]
    context = attention(x, additive_mask(tf.constant(mask)))
    expected = numpy_attention(
        attention, x, x, np.repeat(mask[:, None], FROM, 1)
    )
    np.testing.assert_allclose(context, expected, atol=1e-5)


def test_cross_attention_takes_keys_from_the_other_tensor() -> None:
    attention = make_attention()
    x = random(BATCH, FROM, TINY.hidden_size)
    y = 2 * random(BATCH, TO, TINY.hidden_size)
    mask = np.random.default_rng(4).random((BATCH, FROM, TO)) < 0.7
    mask[:, :, 0] = True
    context = attention(x, additive_mask(tf.constant(mask)), to_tensor=y)
    expected = numpy_attention(attention, x, y, mask)
    np.testing.assert_allclose(context, expected, atol=1e-5)


def test_a_causal_mask_hides_the_right_context() -> None:
    attention = make_attention()
    x = tf.constant(random(BATCH, FROM, TINY.hidden_size))
    causal = tf.linalg.band_part(tf.ones([BATCH, FROM, FROM]), -1, 0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        third = tf.reduce_sum(attention(x, additive_mask(causal))[:, 2])
    gradient = tape.gradient(third, x).numpy()
    assert np.abs(gradient[:, :3]).min(axis=(0, 2)).all()
    np.testing.assert_array_equal(gradient[:, 3:], 0.0)


def test_a_row_without_any_key_is_finite() -> None:
    x = random(BATCH, FROM, TINY.hidden_size)
    context = make_attention()(x, additive_mask(tf.zeros([BATCH, FROM])))
    assert np.isfinite(context).all()
