"""What stands on an encoder, each head followed by its loss.

Losses and accuracies are returned as sums with the weight they are sums over,
so that batches, micro-batches and replicas add up exactly and are divided
once. Devlin et al. 2018, section 3.1. Upstream file: run_pretraining.py.

Shapes: B batch, S positions, H hidden size, V vocabulary, P masked
predictions, C classes.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from modeling import fused
from modeling.attention import LayerNorm, initializer
from modeling.config import BertConfig

Tensor = Any


class WeightedSums(NamedTuple):
    loss: Tensor  # sum of weight * negative log-likelihood, in nats
    correct: Tensor  # sum of weight where the most likely class is the label
    weight: Tensor  # sum of weight


def cross_entropy(
    logits: Tensor, labels: Tensor, weights: Tensor
) -> WeightedSums:
    """Sums over labels [...] of logits [..., C]; weight 0 leaves one out."""
    logits = ops.cast(logits, "float32")
    nll = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    hit = ops.equal(ops.argmax(logits, axis=-1), ops.cast(labels, "int32"))
    return WeightedSums(
        ops.sum(weights * nll),
        ops.sum(weights * ops.cast(hit, "float32")),
        ops.sum(weights),
    )


class MaskedLmHead(keras.layers.Layer):
    """Scores the vocabulary at the masked positions.

    The output matrix is the word embedding table, with a bias of its own; the
    activation is the encoder's.
    """

    def __init__(self, config: BertConfig, name: str = "masked_lm"):
        super().__init__(name=name)
        self.config = config
        self.layer_norm = LayerNorm(config.hidden_size)

    def build(self, input_shape: Any = None) -> None:
        hidden = self.config.hidden_size
        self.kernel = self.add_weight(
            name="kernel",
            shape=(hidden, hidden),
            initializer=initializer(self.config),
        )
        self.bias = self.add_weight(
            name="bias", shape=(hidden,), initializer="zeros", autocast=False
        )
        self.layer_norm.build()
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.config.vocab_size,),
            initializer="zeros",
        )

    def call(
        self, sequence: Tensor, positions: Tensor, word_embeddings: Tensor
    ) -> Tensor:
        """[B, S, H], int [B, P] and [V, H] -> logits [B, P, V]."""
        batch, length, hidden = ops.shape(sequence)
        rows = ops.reshape(sequence, (batch * length, hidden))
        first_rows = ops.arange(batch, dtype="int32")[:, None] * length
        masked = ops.take(rows, first_rows + positions, axis=0)  # [B, P, H]
        transformed = fused.bias_activation_norm(
            ops.matmul(masked, self.kernel),
            self.bias,
            self.config.hidden_act,
            self.layer_norm.gamma,
            self.layer_norm.beta,
        )
        table = ops.cast(word_embeddings, transformed.dtype)
        logits = ops.matmul(transformed, ops.transpose(table))
        return logits + self.output_bias


class NextSentenceHead(keras.layers.Layer):
    """Class 0: the second segment follows the first; class 1: it is random."""

    def __init__(self, config: BertConfig, name: str = "next_sentence"):
        super().__init__(name=name)
        self.config = config

    def build(self, input_shape: Any = None) -> None:
        self.output_weights = self.add_weight(
            name="output_weights",
            shape=(2, self.config.hidden_size),
            initializer=initializer(self.config),
        )
        self.output_bias = self.add_weight(
            name="output_bias", shape=(2,), initializer="zeros"
        )

    def call(self, pooled: Tensor) -> Tensor:
        """[B, H] -> logits [B, 2]."""
        weights = ops.transpose(self.output_weights)
        return ops.matmul(pooled, weights) + self.output_bias
