"""ModernBERT's parts, of which an Encoder of that family is made.

Warner et al. 2024 ("Smarter, better, faster, longer"), section 2.1: only
outputs have a bias; each half of a layer normalises what it reads and not what
it gives (Xiong et al. 2020); positions are rotations of queries and keys (Su
et al. 2021); the feed-forward has a gate (Shazeer 2020, GeGLU); and most
layers look at near positions only. Upstream file: transformers
modeling_modernbert.py.

Shapes: B batch, S positions, H hidden size, N heads, D head size, F
feed-forward size.
"""

import math
from typing import Any

import keras
from keras import ops

from bert_keras.modeling import fused_ops
from bert_keras.modeling.attention import (
    MASKED_SCORE,
    Attention,
    BertLayer,
    Dense,
    initializer,
    vectors_at,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.tensors import Tensor


class Product(Dense):
    """x W: a Dense without a bias."""

    def __init__(
        self,
        config: BertConfig,
        input_size: int,
        output_size: int,
        is_output: bool = False,
        **kwargs: Any,
    ):
        """`is_output`: whether its outputs add up over layers (or are the
        head's): it starts smaller, the more layers there are."""
        super().__init__(config, input_size, output_size, **kwargs)
        self.is_output = is_output

    def build(self, input_shape: Any = None) -> None:
        stddev = self.config.initializer_range
        if self.is_output:
            stddev /= math.sqrt(2.0 * self.config.num_hidden_layers)
        self.kernel = self.add_weight(
            name="kernel",
            shape=self.sizes,
            initializer=keras.initializers.TruncatedNormal(stddev=stddev),
        )

    def call(self, x: Tensor) -> Tensor:
        """[..., input_size] -> [..., output_size]."""
        return self.product(x)


class Norm(BertLayer):
    """LayerNorm with gamma [H] alone."""

    def build(self, input_shape: Any = None) -> None:
        self.gamma = self.add_vector("gamma", self.config.hidden_size, "ones")

    def call(self, x: Tensor) -> Tensor:
        """[..., H] -> [..., H]."""
        return fused_ops.norm(x, self.gamma, self.config.layer_norm_eps)


class WordEmbeddings(BertLayer):
    """Normalised word vectors; positions are the attention's."""

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.layer_norm = Norm(
            config, name="LayerNorm", dtype=self.dtype_policy
        )

    def build(self, input_shape: Any = None) -> None:
        self.word_embeddings = self.add_weight(
            name="word_embeddings",
            shape=(self.config.vocab_size, self.config.hidden_size),
            initializer=initializer(self.config),
            dtype="float32",
            autocast=False,
        )
        self.tables = {"word_embeddings": self.word_embeddings}
        self.layer_norm.build()

    def call(self, input_ids: Tensor, *_: Any) -> Tensor:
        """[B, S] -> [B, S, H]; segments, key and positions are not read."""
        return self.layer_norm(ops.take(self.word_embeddings, input_ids, 0))


class RotaryAttention(Attention):
    """Attention whose scores depend on how far query and key are apart."""

    def __init__(self, config: BertConfig, theta: float, **kwargs: Any):
        """`theta`: of `fused_ops.rotated`."""
        super().__init__(config, **kwargs)
        self.theta = theta

    def build(self, input_shape: Any = None) -> None:
        self.kernel = self.add_weight(
            name="kernel",  # query, key and value side by side
            shape=self.sizes,
            initializer=initializer(self.config),
        )

    def project(
        self, from_tensor: Tensor, to_tensor: Tensor | None
    ) -> list[Tensor]:
        assert to_tensor is None, "a layer is computed at all positions"
        product = ops.matmul(from_tensor, self.kernel)
        if self.lora.rank:
            product += self.lora(from_tensor)
        rows, length = ops.shape(product)[:2]
        shape = rows, length, 3, self.num_heads, self.head_size
        return [fused_ops.rotated(ops.reshape(product, shape), self.theta)]


@keras.saving.register_keras_serializable("bert_keras")
class ModernLayer(BertLayer):
    """Self-attention and a gated feed-forward, each added to what it reads.

    The first layer reads what the embeddings have normalised; the last one
    normalises what it gives.
    """

    def __init__(self, config: BertConfig, number: int, **kwargs: Any):
        """`number`: 0 for the first layer."""
        super().__init__(config, **kwargs)
        self.number = number
        self.is_global = number % config.global_attn_every_n_layers == 0
        dtype = self.dtype_policy
        hidden, inner = config.hidden_size, config.intermediate_size
        self.attention = RotaryAttention(
            config,
            config.global_rope_theta
            if self.is_global
            else config.local_rope_theta,
            name="attention",
            dtype=dtype,
        )
        self.attention_output = Product(
            config, hidden, hidden, True, name="attention_output", dtype=dtype
        )
        self.intermediate = Product(
            config, hidden, 2 * inner, name="intermediate", dtype=dtype
        )
        self.feed_forward_output = Product(
            config, inner, hidden, True, name="output", dtype=dtype
        )
        self.attention_norm: Any = None
        self.final_norm: Any = None
        if number > 0:
            self.attention_norm = Norm(
                config, name="attention_LayerNorm", dtype=dtype
            )
        self.feed_forward_norm = Norm(config, name="LayerNorm", dtype=dtype)
        if number == config.num_hidden_layers - 1:
            self.final_norm = Norm(config, name="final_LayerNorm", dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "number": self.number}

    def build(self, input_shape: Any = None) -> None:
        self.attention.build()
        self.attention_output.build()
        self.intermediate.build()
        self.feed_forward_output.build()
        norms = self.attention_norm, self.feed_forward_norm, self.final_norm
        for part in filter(None, norms):
            part.build()

    def call(
        self,
        x: Tensor,
        mask: Tensor,
        seed: Tensor | None = None,
        positions: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """[B, S, H] -> [B, S, H], or [B, P, H] at int [B, P]; the mask is from
        `additive_mask`."""
        self.check_key(seed, training)
        config = self.config
        context = self.attention(self._normed(x), self._near(mask), seed)
        update = self.attention_output(context)
        rate, key = config.attention_probs_dropout_prob, 1
        x = x + _dropped(update, rate, fused_ops.dropout_seed(seed, key))
        if positions is not None:  # the rest reads no other position
            x = vectors_at(x, positions)
        expanded = self.intermediate(self.feed_forward_norm(x))
        gated = fused_ops.gated_activation(expanded, config.hidden_act)
        rate, key = config.hidden_dropout_prob, 2
        gated = _dropped(gated, rate, fused_ops.dropout_seed(seed, key))
        x = x + self.feed_forward_output(gated)
        return x if self.final_norm is None else self.final_norm(x)

    def probabilities(self, x: Tensor, mask: Tensor) -> Tensor:
        """As Attention's."""
        return self.attention.probabilities(self._normed(x), self._near(mask))

    def _normed(self, x: Tensor) -> Tensor:
        return x if self.attention_norm is None else self.attention_norm(x)

    def _near(self, mask: Tensor) -> Tensor:
        """Masks what is more than half a window away, in local layers."""
        if self.is_global:
            return mask
        places = ops.arange(ops.shape(mask)[-1])
        distances = ops.abs(places[:, None] - places)
        is_far = distances > self.config.local_attention // 2
        return mask + ops.cast(is_far, mask.dtype) * MASKED_SCORE


def _dropped(x: Tensor, rate: float, seed: Tensor | None) -> Tensor:
    return x if seed is None else fused_ops.lone_dropout(x, rate, seed)


@keras.saving.register_keras_serializable("bert_keras")
class PredictionHead(BertLayer):
    """What all heads of a ModernBERT read: norm(gelu(x W))."""

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        dtype, size = self.dtype_policy, config.hidden_size
        self.dense = Product(
            config, size, size, True, name="dense", dtype=dtype
        )
        self.layer_norm = Norm(config, name="LayerNorm", dtype=dtype)

    def build(self, input_shape: Any = None) -> None:
        self.dense.build()
        self.layer_norm.build()

    def call(self, x: Tensor) -> Tensor:
        """[..., H] -> [..., H]."""
        x = ops.cast(self.dense(x), "float32")
        return self.layer_norm(fused_ops.ACTIVATIONS["gelu_erf"](x))


@keras.saving.register_keras_serializable("bert_keras")
class TiedOutputs(BertLayer):
    """Scores the vocabulary by the word embeddings and a bias."""

    def build(self, input_shape: Any = None) -> None:
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.config.vocab_size,),
            initializer="zeros",
        )

    def call(self, x: Tensor, word_embeddings: Tensor) -> Tensor:
        """[B, P, H] and [V, H] -> logits [B, P, V]."""
        table = ops.cast(word_embeddings, x.dtype)
        return fused_ops.row_products(x, table) + self.output_bias
