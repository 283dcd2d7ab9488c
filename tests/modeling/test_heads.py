"""Tests of modeling/heads.py."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.modeling.attention import vectors_at
from bert_keras.modeling.checkpoint import (
    NEXT_SENTENCE,
    encoder_mappings,
    linear_mappings,
    load_checkpoint,
    masked_lm_mappings,
)
from bert_keras.modeling.heads import (
    LinearHead,
    MaskedLmHead,
    binary_cross_entropy,
    cross_entropy,
    squared_error,
)
from tests.conftest import GOLDEN
from tests.modeling.test_encoder import encode, golden_encoder


def test_cross_entropy_by_hand() -> None:
    # softmax(0, log 3) = (1/4, 3/4); the third label counts for nothing
    logits = tf.math.log([[1.0, 3.0], [1.0, 3.0], [5.0, 1.0]])
    sums = cross_entropy(
        logits, tf.constant([1, 0, 1]), tf.constant([1.0, 0.5, 0.0])
    )
    expected = np.log(4 / 3) + 0.5 * np.log(4)
    assert float(sums.loss) == pytest.approx(expected, rel=1e-6)
    assert float(sums.correct) == 1.0
    assert float(sums.weight) == 1.5


def test_binary_cross_entropy_by_hand() -> None:
    # sigmoid(log 3) = 3/4: the first row is half right, the second wholly
    logits = tf.math.log([[3.0, 3.0], [3.0, 1 / 3]])
    sums = binary_cross_entropy(
        logits, tf.constant([[1, 0], [1, 0]]), tf.constant([1.0, 2.0])
    )
    expected = (np.log(4 / 3) + np.log(4)) / 2 + 2 * np.log(4 / 3)
    assert float(sums.loss) == pytest.approx(expected, rel=1e-6)
    assert float(sums.correct) == 2.5
    assert float(sums.weight) == 3.0


def test_squared_error_by_hand() -> None:
    total, weight = squared_error(
        tf.constant([1.0, 5.0]), tf.constant([3.0, 0.0]), tf.constant([2.0, 0])
    )
    assert (float(total), float(weight)) == (8.0, 2.0)


def test_a_head_drops_what_its_seed_says() -> None:
    head = LinearHead(golden_encoder().config, 3, dropout_prob=0.5)
    head.build()
    x = tf.ones([11, 40])
    first, again, other = (
        head(x, tf.constant([1, site])) for site in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    assert not np.allclose(first, head(x))


def test_log_probabilities_are_googles() -> None:
    golden = dict(np.load(GOLDEN / "tiny_bert" / "forward.npz"))
    encoder = golden_encoder()
    masked_lm = MaskedLmHead(encoder.config)
    next_sentence = LinearHead(encoder.config, 2)
    masked_lm.build()
    next_sentence.build()
    load_checkpoint(
        [
            *masked_lm_mappings(masked_lm),
            *linear_mappings(next_sentence, NEXT_SENTENCE),
            *encoder_mappings(encoder),
        ],
        str(GOLDEN / "tiny_bert"),
    )
    batch = {k.removeprefix("in_"): v for k, v in golden.items()}
    outputs = encode(encoder, batch)
    logits = masked_lm(
        vectors_at(outputs.sequence, tf.constant(batch["masked_lm_positions"])),
        encoder.embeddings.word_embeddings,
    )
    log_probs = tf.reshape(tf.nn.log_softmax(logits), [35, 101])
    np.testing.assert_allclose(
        log_probs, golden["out_mlm_log_probs"], atol=1e-5, rtol=0
    )
    np.testing.assert_allclose(
        tf.nn.log_softmax(next_sentence(outputs.pooled)),
        golden["out_nsp_log_probs"],
        atol=1e-5,
        rtol=0,
    )
