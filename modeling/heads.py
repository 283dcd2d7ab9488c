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

from bert_keras.modeling import fused_ops
from bert_keras.modeling.attention import (
    BertLayer,
    Dense,
    LayerNorm,
    initializer,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.modern_bert import TiedOutputs
from bert_keras.modeling.tensors import Sums, Tensor


class WeightedSums(NamedTuple):
    loss: Tensor  # sum of weight * negative log-likelihood, in nats
    correct: Tensor  # sum of weight where the most likely class is the label
    weight: Tensor  # sum of weight

    def figures(self, name: str) -> Sums:
        """{name}_loss and {name}_accuracy, for a log."""
        return {
            f"{name}_loss": (self.loss, self.weight),
            f"{name}_accuracy": (self.correct, self.weight),
        }


def cross_entropy(
    logits: Tensor, labels: Tensor, weights: Tensor
) -> WeightedSums:
    """Sums over labels [...] of logits [..., C]; weight 0 leaves one out."""
    nll, hit = fused_ops.log_likelihood(logits, labels)
    return WeightedSums(
        ops.sum(weights * nll), ops.sum(weights * hit), ops.sum(weights)
    )


def row_weights(input_mask: Tensor) -> Tensor:
    """float32 [B]: 1, or 0 for a padding row, where even [CLS] is masked."""
    return ops.cast(input_mask[:, 0], "float32")


def binary_cross_entropy(
    logits: Tensor, labels: Tensor, weights: Tensor
) -> WeightedSums:
    """Means over C independent yes-or-no labels, summed over rows.

    Args:
        logits: [B, C].
        labels: [B, C], each 0 or 1.
        weights: [B].
    """
    logits = ops.cast(logits, "float32")
    labels = ops.cast(labels, "float32")
    nll = ops.binary_crossentropy(labels, logits, from_logits=True)
    hit = ops.equal(logits > 0.0, labels > 0.5)
    return WeightedSums(
        ops.sum(weights * ops.mean(nll, axis=-1)),
        ops.sum(weights * ops.mean(ops.cast(hit, "float32"), axis=-1)),
        ops.sum(weights),
    )


def squared_error(
    values: Tensor, targets: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Sums of weight * (value - target)^2, and of weight; all are [B]."""
    error = ops.cast(values, "float32") - targets
    return ops.sum(weights * ops.square(error)), ops.sum(weights)


@keras.saving.register_keras_serializable("bert_keras")
class MaskedLmHead(Dense):
    """Scores the vocabulary at the masked positions.

    The output matrix is the word embedding table, with a bias of its own; the
    activation is the encoder's.

    Examples:
        >>> config = bert_keras.BertConfig.of_size("tiny", vocab_size=30522)
        >>> encoder = bert_keras.Encoder(config)
        >>> outputs = encoder(np.array([[101, 7592, 102]]))
        >>> table = encoder.embeddings.word_embeddings
        >>> bert_keras.MaskedLmHead(config)(outputs.sequence, table).shape
        TensorShape([1, 3, 30522])
    """

    def __init__(self, config: BertConfig, **kwargs: Any):
        """
        Args:
            config: the encoder's.
            kwargs: name, dtype and trainable, as every Keras layer has.
        """
        size = config.hidden_size
        super().__init__(config, size, size, **kwargs)
        self.layer_norm = LayerNorm(config, name="LayerNorm")

    def build(self, input_shape: Any = None) -> None:
        super().build()
        self.layer_norm.build()
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.config.vocab_size,),
            initializer="zeros",
        )

    def call(self, sequence: Tensor, word_embeddings: Tensor) -> Tensor:
        """[B, P, H] and [V, H] -> logits [B, P, V]."""
        transformed = fused_ops.bias_activation_norm(
            ops.matmul(sequence, self.kernel),
            self.bias,
            self.config.hidden_act,
            self.layer_norm.gamma,
            self.layer_norm.beta,
            self.config.layer_norm_eps,
        )
        table = ops.cast(word_embeddings, transformed.dtype)
        return fused_ops.row_products(transformed, table) + self.output_bias


def masked_lm_head(
    config: BertConfig, **kwargs: Any
) -> MaskedLmHead | TiedOutputs:
    """Makes the head of the config's family; `kwargs`: every Keras layer's."""
    return (TiedOutputs if config.is_modern else MaskedLmHead)(config, **kwargs)


@keras.saving.register_keras_serializable("bert_keras")
class LinearHead(BertLayer):
    """Scores C classes for each vector, after a dropout of its own.

    On pooled outputs: next sentence (class 1: it is random), classification,
    regression. On sequences: the ends of a span, tags.

    Examples:
        >>> config = bert_keras.BertConfig.of_size("tiny", vocab_size=30522)
        >>> outputs = bert_keras.Encoder(config)(np.array([[101, 7592, 102]]))
        >>> head = bert_keras.LinearHead(config, num_classes=5)
        >>> head(outputs.pooled).shape, head(outputs.sequence).shape
        (TensorShape([1, 5]), TensorShape([1, 3, 5]))
    """

    def __init__(
        self,
        config: BertConfig,
        num_classes: int,
        dropout_prob: float = 0.0,
        **kwargs: Any,
    ):
        """
        Args:
            config: the encoder's.
            num_classes: C.
            dropout_prob: share of the inputs that training drops.
            kwargs: name, dtype and trainable, as every Keras layer has.
        """
        # In bfloat16 the scores of different inputs would often be equal.
        super().__init__(config, **{"dtype": "float32", **kwargs})
        self.num_classes = num_classes
        self.dropout_prob = dropout_prob
        self.keys = fused_ops.DropoutKeys()

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "dropout_prob": self.dropout_prob,
        }

    def build(self, input_shape: Any = None) -> None:
        self.output_weights = self.add_weight(
            name="output_weights",
            shape=(self.num_classes, self.config.hidden_size),
            initializer=initializer(self.config),
        )
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.num_classes,), initializer="zeros"
        )

    def call(
        self,
        x: Tensor,
        seed: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """[..., H] -> logits [..., C].

        Args:
            seed: int32 [2], the key of the dropout; None: drawn in training.
        """
        if training and seed is None:
            seed = self.keys.draw()
        dropped = x
        if seed is not None and self.dropout_prob:
            dropped = fused_ops.lone_dropout(x, self.dropout_prob, seed)
        weights = ops.transpose(self.output_weights)
        return ops.matmul(dropped, weights) + self.output_bias
