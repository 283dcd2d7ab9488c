"""Multi-head attention and the two other blocks of a Transformer layer.

Devlin et al. 2018, section 3; Vaswani et al. 2017, section 3.2. Upstream file:
modeling.py, attention_layer and transformer_model.

Shapes: B batch, S query positions, T key positions, H hidden size, N heads,
D head size (H = N * D), F feed-forward size.
"""

import dataclasses
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.tensors import Tensor

MASKED_SCORE = -10000.0  # upstream's; finite, so that a row may be all masked


def initializer(config: BertConfig) -> keras.initializers.Initializer:
    """Google's: a normal truncated at two standard deviations."""
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def additive_mask(mask: Tensor, direction: str = "bidirectional") -> Tensor:
    """What is added to the scores: 0 where seen, -10000 where masked.

    Devlin et al. 2018, section 5.1: left to right, a position also does not
    see what comes after it; right to left, what comes before. It sees itself
    in any case, so that no query is left without a key.

    Args:
        mask: [B, T], seen by every query, or [B, S, T]; 1 seen, 0 masked.
        direction: one of config.DIRECTIONS.

    Returns:
        float32 [B, 1, 1, T] or [B, 1, S, T]; in one direction the latter.
    """
    mask = ops.cast(mask, "float32")
    mask = mask[:, None] if len(mask.shape) == 2 else mask
    if direction != "bidirectional":
        place = ops.arange(ops.shape(mask)[-1])
        query, key = place[:, None], place[None]
        ahead = key > query if direction == "left_to_right" else key < query
        mask = mask * (1.0 - ops.cast(ahead, "float32"))
        mask = ops.maximum(mask, ops.cast(key == query, "float32"))
    return (1.0 - mask[:, None]) * MASKED_SCORE


def same_sequence(sequence_numbers: Tensor) -> Tensor:
    """A mask that keeps the sequences of a packed row from seeing each other.

    Args:
        sequence_numbers: int [B, S], 1, 2, ... and 0 for padding, which sees
            itself alone, so that no query is left without a key.

    Returns:
        bool [B, S, T]: where query and key are of one sequence.
    """
    return ops.equal(sequence_numbers[:, :, None], sequence_numbers[:, None])


def vectors_at(sequence: Tensor, positions: Tensor) -> Tensor:
    """[B, S, H] and int [B, P] -> [B, P, H]."""
    batch, length, hidden = ops.shape(sequence)
    rows = ops.reshape(sequence, (batch * length, hidden))
    first_rows = ops.arange(batch, dtype="int32")[:, None] * length
    return ops.take(rows, first_rows + positions, axis=0)


class BertLayer(keras.layers.Layer):
    """A layer that a BertConfig describes and Keras can save."""

    def __init__(self, config: BertConfig, **kwargs: Any):
        """`kwargs`: name, dtype and trainable, as every Keras layer has."""
        super().__init__(**kwargs)
        self.config = config

    def get_config(self) -> dict[str, Any]:
        config = dataclasses.asdict(self.config)
        return {**super().get_config(), "config": config}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "BertLayer":
        own = BertConfig(**config["config"])
        return super().from_config({**config, "config": own})

    def quantize(
        self, mode: Any = None, config: Any = None, **kwargs: Any
    ) -> None:
        """Raises an InputError: its kernels are not those of Keras's layers."""
        raise InputError(
            f"{type(self).__name__} cannot be quantized, since its kernels are "
            "not those of Keras's layers; save a model folder and have "
            "export_tflite.py make an int8 file of it"
        )

    def add_vector(self, name: str, size: int, start: str) -> keras.Variable:
        """A parameter of a fused chain, which computes in float32."""
        return self.add_weight(
            name=name,
            shape=(size,),
            initializer=start,
            dtype="float32",
            autocast=False,
        )

    def check_key(self, seed: Tensor | None, training: bool | None) -> None:
        """Raises a ValueError where dropout is asked for and has no key."""
        if training and seed is None:
            raise ValueError(
                f"{type(self).__name__} was called with training=True and "
                "without `seed`, the key of its dropout; expected both. "
                "Encoder and LinearHead draw a key by themselves"
            )


class LowRank(keras.layers.Layer):
    """x A B times alpha / rank, which LoRA adds to x W: Hu et al. 2021, section
    4.1. Without weights, and nothing is added, until `enable`."""

    rank: int | None = None

    def enable(
        self, sizes: tuple[int, int], rank: int, alpha: float | None
    ) -> None:
        """`sizes`: of W, [input_size, output_size]."""
        self.rank, self.scale = rank, (rank if alpha is None else alpha) / rank
        starts = {"A": (sizes[0], rank), "B": (rank, sizes[1])}
        self.factors = [
            self.add_weight(
                name=name,
                shape=shape,
                initializer="zeros" if name == "B" else "he_uniform",
            )
            for name, shape in starts.items()
        ]
        self.built = True

    def call(
        self, x: Tensor, first: int = 0, size: int | None = None
    ) -> Tensor:
        """[..., input_size] -> [..., size], of output_size from `first` on."""
        a, b = self.factors
        end = None if size is None else first + size
        b = ops.convert_to_tensor(b)[:, first:end]
        return ops.matmul(ops.matmul(x, a), b) * self.scale

    def product(self) -> np.ndarray:
        """What it adds to W."""
        a, b = (factor.numpy() for factor in self.factors)
        return a @ b * self.scale


class LayerNorm(BertLayer):
    """Only gamma and beta [H]: fused chains do the arithmetic."""

    def build(self, input_shape: Any = None) -> None:
        size = self.config.hidden_size
        self.gamma = self.add_vector("gamma", size, "ones")
        self.beta = self.add_vector("beta", size, "zeros")


class Dense(BertLayer):
    """Only kernel [input_size, output_size] and bias, which subclasses apply:
    the bias in one chain with what follows."""

    def __init__(
        self,
        config: BertConfig,
        input_size: int,
        output_size: int,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        self.sizes = input_size, output_size
        self.lora = LowRank(name="lora", dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        self.kernel = self.add_weight(
            name="kernel",
            shape=self.sizes,
            initializer=initializer(self.config),
        )
        self.bias = self.add_vector("bias", self.sizes[1], "zeros")

    def product(self, x: Tensor) -> Tensor:
        """x W, and what LoRA adds to it."""
        product = ops.matmul(x, self.kernel)
        return product + self.lora(x) if self.lora.rank else product


def _has_kernel() -> bool:
    """Whether Keras's attention is right and fast: on JAX, but not on a TPU,
    where Keras 3.15 takes the first row's mask for all when run eagerly."""
    if keras.config.backend() != "jax":
        return False
    import jax

    return jax.default_backend() != "tpu"


@keras.saving.register_keras_serializable("bert_keras")
class Attention(BertLayer):
    """Scaled dot-product attention over N heads, before its output product.

    One kernel [H, 3H] holds query, key and value side by side, so that
    self-attention is one product. Upstream has three [H, H]; checkpoint.py
    splits and joins them.
    """

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.num_heads = config.num_attention_heads
        self.head_size = config.hidden_size // config.num_attention_heads
        self.scale = 1.0 / math.sqrt(self.head_size)
        self.dropout_rate = config.attention_probs_dropout_prob
        self.sizes = config.hidden_size, 3 * config.hidden_size
        self.lora = LowRank(name="lora", dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        hidden = self.config.hidden_size
        self.qkv_kernel = self.add_weight(
            name="qkv_kernel",
            shape=self.sizes,
            initializer=initializer(self.config),
        )
        self.qkv_bias = self.add_vector("qkv_bias", 3 * hidden, "zeros")

    def call(
        self,
        from_tensor: Tensor,
        mask: Tensor,
        seed: Tensor | None = None,
        to_tensor: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """Attends from each of S positions to T of them.

        Args:
            from_tensor: [B, S, H].
            mask: from `additive_mask`.
            seed: int32 [2], the key of its dropout; None for none.
            to_tensor: [B, T, H]; None for `from_tensor` itself.

        Returns:
            The context [B, S, H].
        """
        self.check_key(seed, training)
        products = self.project(from_tensor, to_tensor)
        drops = seed is not None and self.dropout_rate > 0.0
        if _has_kernel() and not drops:
            # cuDNN's kernel keeps no scores and drops nothing. It takes masks
            # of all S positions alone; for others Keras falls back.
            parts = [part for x in products for part in ops.unstack(x, axis=2)]
            rows, length = ops.shape(from_tensor)[:2]
            shape = (rows, 1, length, ops.shape(mask)[-1])
            sees = ops.broadcast_to(ops.equal(mask, 0.0), shape)
            context = ops.dot_product_attention(
                *parts, mask=sees, scale=self.scale
            )
        else:
            query, key, value = _by_head(products)
            context = fused_ops.attention(
                query, key, value, self.scale, mask, self.dropout_rate, seed
            )
        return ops.reshape(context, ops.shape(from_tensor))  # [B, S, H]

    def probabilities(self, x: Tensor, mask: Tensor) -> Tensor:
        """How much each position looks at each other: [B, S, H] ->
        [B, N, S, S], of self-attention without dropout."""
        query, key, _ = _by_head(self.project(x, None))
        scores = ops.einsum("BNSD,BNTD->BNST", query, key)
        return fused_ops.masked_softmax(scores, self.scale, mask)

    def project(
        self, from_tensor: Tensor, to_tensor: Tensor | None
    ) -> list[Tensor]:
        """Query, key and value of self-attention, [B, S, 3, N, D]; else the
        query, [B, S, 1, N, D], and key and value, [B, T, 2, N, D]."""
        hidden = self.config.hidden_size
        kernel = ops.convert_to_tensor(self.qkv_kernel)
        bias = ops.convert_to_tensor(self.qkv_bias)
        inputs, kernels, biases = [from_tensor], [kernel], [bias]
        if to_tensor is not None:
            inputs.append(to_tensor)
            kernels = ops.split(kernel, [hidden], -1)
            biases = ops.split(bias, [hidden], -1)
        products: list[Tensor] = []
        column = 0
        for x, kernel, bias in zip(inputs, kernels, biases, strict=True):
            product = ops.matmul(x, kernel)
            if self.lora.rank:
                product += self.lora(x, first=column, size=kernel.shape[-1])
            column += kernel.shape[-1]
            product = fused_ops.add_bias(product, bias)
            number = product.shape[-1] // hidden
            shape = *ops.shape(x)[:2], number, self.num_heads, self.head_size
            products.append(ops.reshape(product, shape))
        return products


def _by_head(products: list[Tensor]) -> list[Tensor]:
    """Query [B, N, S, D], key and value [B, N, T, D].

    All are turned at once: what is cut off the first axis is not copied.
    """
    turned = (fused_ops.transpose(x, (2, 0, 3, 1, 4)) for x in products)
    return [part for x in turned for part in ops.unstack(x, axis=0)]


class DenseAddNorm(Dense):
    """LayerNorm(residual + dropout(x W + b)): ends both halves of a layer."""

    def __init__(self, config: BertConfig, input_size: int, **kwargs: Any):
        super().__init__(config, input_size, config.hidden_size, **kwargs)
        self.layer_norm = LayerNorm(config, name="LayerNorm")

    def build(self, input_shape: Any = None) -> None:
        super().build()
        self.layer_norm.build()

    def call(
        self, x: Tensor, residual: Tensor, seed: Tensor | None = None
    ) -> Tensor:
        """x [B, S, input_size] and residual [B, S, H] -> [B, S, H]."""
        return fused_ops.bias_dropout_add_norm(
            self.product(x),
            self.bias,
            residual,
            self.layer_norm.gamma,
            self.layer_norm.beta,
            self.config.layer_norm_eps,
            self.config.hidden_dropout_prob,
            seed,
        )


class Intermediate(Dense):
    """activation(x W + b), from H to F."""

    def __init__(self, config: BertConfig, **kwargs: Any):
        sizes = config.hidden_size, config.intermediate_size
        super().__init__(config, *sizes, **kwargs)

    def call(self, x: Tensor) -> Tensor:
        """[B, S, H] -> [B, S, F]."""
        return fused_ops.bias_activation(
            self.product(x), self.bias, self.config.hidden_act
        )
