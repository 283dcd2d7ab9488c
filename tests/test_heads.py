"""Tests of modeling/heads.py."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import GOLDEN
from test_encoder import encode, golden_encoder

from modeling.conversion import (
    encoder_bindings,
    load_checkpoint,
    masked_lm_bindings,
    next_sentence_bindings,
)
from modeling.heads import MaskedLmHead, NextSentenceHead, cross_entropy


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


def test_log_probabilities_are_googles() -> None:
    golden = dict(np.load(GOLDEN / "tiny_bert" / "forward.npz"))
    encoder = golden_encoder()
    masked_lm = MaskedLmHead(encoder.config)
    next_sentence = NextSentenceHead(encoder.config)
    masked_lm.build()
    next_sentence.build()
    load_checkpoint(
        [
            *masked_lm_bindings(masked_lm),
            *next_sentence_bindings(next_sentence),
            *encoder_bindings(encoder),
        ],
        str(GOLDEN / "tiny_bert"),
    )
    batch = {k.removeprefix("in_"): v for k, v in golden.items()}
    outputs = encode(encoder, batch)
    logits = masked_lm(
        outputs.sequence,
        tf.constant(batch["masked_lm_positions"]),
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
