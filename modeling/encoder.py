"""The BERT encoder: embeddings, a stack of Transformer layers, the pooler.

Devlin et al. 2018, sections 3 and A.2. Upstream file: modeling.py, BertModel.
A ModernBERT is the same with other parts (modern_bert.py).

Shapes: B batch, S positions, H hidden size, V vocabulary, P chosen positions
of a row, L layers, N heads.
"""

import functools
import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
from keras import ops

from bert_keras.modeling import fused_ops
from bert_keras.modeling.attention import (
    Attention,
    BertLayer,
    DenseAddNorm,
    Intermediate,
    LayerNorm,
    additive_mask,
    initializer,
    vectors_at,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.cost import check_weights_fit
from bert_keras.modeling.modern_bert import (
    ModernLayer,
    PredictionHead,
    WordEmbeddings,
)
from bert_keras.modeling.tensors import Batch, Tensor

LAST_SEES_ALL = "left_to_right"  # of config.DIRECTIONS; in others the first

NOISE_SITES_PER_LAYER = 3  # attention probabilities and two more


class EncoderOutputs(NamedTuple):
    embeddings: Tensor  # [B, S, H], what the first layer reads
    layers: tuple[Tensor, ...]  # [B, S, H], first layer first; last: sequence
    sequence: Tensor  # the last layer's, [B, S, H], or [B, P, H] at P positions
    pooled: Tensor  # [B, H], or [B, K, H] where K positions were asked for


@keras.saving.register_keras_serializable("bert_keras")
class Encoder(BertLayer):
    """Token ids to one vector a position and one for the whole input.

    Examples:
        >>> config = bert_keras.BertConfig.of_size("tiny", vocab_size=30522)
        >>> encoder = bert_keras.Encoder(config)
        >>> outputs = encoder(np.array([[101, 7592, 102]]))
        >>> outputs.sequence.shape, outputs.pooled.shape
        (TensorShape([1, 3, 128]), TensorShape([1, 128]))

        In a functional model it takes a dictionary, by the names of our
        records. `fit` trains it with dropout; `model.save` saves it.

        >>> inputs = {
        ...     name: keras.Input((None,), dtype="int32", name=name)
        ...     for name in ("input_ids", "input_mask", "segment_ids")
        ... }
        >>> logits = keras.layers.Dense(2)(encoder(inputs).pooled)
        >>> model = keras.Model(inputs, logits)

    Attributes:
        reads_packed_rows: whether `call` takes positions; else it reads padded
            rows and gives all of them.
    """

    reads_packed_rows = True

    def __init__(
        self,
        config: BertConfig,
        lora_rank: int | None = None,
        lora_alpha: float | None = None,
        **kwargs: Any,
    ):
        """
        Args:
            config: the network's sizes.
            lora_rank: None: without LoRA; else as in `enable_lora`.
            lora_alpha: as in `enable_lora`.
            kwargs: name, dtype and trainable, as every Keras layer has.
        """
        super().__init__(config, **kwargs)
        self.autocast = False  # in bfloat16, ids above 256 would be others
        self.lora_rank, self.lora_alpha = lora_rank, lora_alpha
        check_weights_fit(config)
        dtype = self.dtype_policy
        names = [f"layer_{i}" for i in range(config.num_hidden_layers)]
        if config.is_modern:
            self.embeddings = WordEmbeddings(
                config, name="embeddings", dtype=dtype
            )
            self.layers = [
                ModernLayer(config, i, name=name, dtype=dtype)
                for i, name in enumerate(names)
            ]
            self.pooler = PredictionHead(config, name="pooler", dtype=dtype)
        else:
            self.embeddings = Embeddings(config, name="embeddings", dtype=dtype)
            self.layers = [
                TransformerLayer(config, name=name, dtype=dtype)
                for name in names
            ]
            # In DistilBERT it is a part of the classifier, and a relu.
            self.pooler = keras.layers.Dense(
                config.hidden_size,
                activation=config.traits.pooler_act,
                kernel_initializer=initializer(config),
                name="pooler",
                dtype=dtype,
            )
        self.is_recomputed = False
        self.keys = fused_ops.DropoutKeys()

    @property
    def poolers(self) -> list[keras.layers.Layer]:
        return [self.pooler]

    @property
    def num_noise_sites(self) -> int:
        """Dropouts here, so that a head can count its own from there."""
        return 1 + len(self.layers) * NOISE_SITES_PER_LAYER

    def freeze(self, num_layers: int) -> None:
        """Leaves the embeddings and the lowest `num_layers` as they are."""
        self.embeddings.trainable = False
        for layer in self.layers[:num_layers]:
            layer.trainable = False

    def recompute(self) -> None:
        """Keeps only the input of each layer for the backward pass, where the
        rest is computed again: with the same dropout, whose key is an input.
        (Chen et al. 2016, "Training deep nets with sublinear memory cost".)
        """
        self.is_recomputed = True

    def depth(self, variable: keras.Variable) -> int:
        """0 in the embeddings, 1 to L in the layers, L + 1 above them."""
        for depth, part in enumerate([self.embeddings, *self.layers]):
            if any(variable is own for own in part.variables):
                return depth
        return 1 + len(self.layers)

    def build(self, input_shape: Any = None) -> None:
        self.embeddings.build()
        for layer in self.layers:
            layer.build()
        self.pooler.build((None, self.config.hidden_size))
        # Where chains are compiled by themselves, Keras is not to compile all:
        # matrix products are oneDNN's or cuBLAS's, faster than XLA's.
        self.supports_jit = not fused_ops.compiles_chains()
        if self.lora_rank:
            self._add_lora(self.lora_rank)

    def enable_lora(self, rank: int, lora_alpha: float | None = None) -> None:
        """Freezes the encoder and trains matrices of low rank instead, which
        are added to the kernels of each layer: Hu et al. 2021 (LoRA), section
        4.

        Compile the model after this. Model folders and `mappings` have the sums
        of both.

        Examples:
            >>> model = bert_keras.TextClassifier.from_folder("reviews")
            >>> model.encoder.enable_lora(4)
            >>> len(model.encoder.trainable_variables)
            16

        Args:
            rank: of what is added to each of a layer's four kernels, query, key
                and value being one.
            lora_alpha: what is added counts lora_alpha / rank times; None:
                once.

        Raises:
            ValueError: it is enabled already.
        """
        if self.lora_rank:
            raise ValueError(
                f"LoRA is enabled already, with rank {self.lora_rank}; "
                "expected an encoder without it"
            )
        if not isinstance(rank, numbers.Integral) or rank < 1:
            raise ValueError(
                f"`rank` is {rank!r}; expected a whole number, at least 1"
            )
        self.lora_rank, self.lora_alpha = rank, lora_alpha
        if self.built:
            self._add_lora(rank)
        else:
            self.build()

    def _add_lora(self, rank: int) -> None:
        for variable in self.weights:
            variable.trainable = False
        for layer in self.layers:
            for part in (
                layer.attention,
                layer.attention_output,
                layer.intermediate,
                layer.feed_forward_output,
            ):
                part.lora.enable(part.sizes, rank, self.lora_alpha)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "lora_rank": self.lora_rank,
            "lora_alpha": self.lora_alpha,
        }

    def call(
        self,
        input_ids: Tensor | Batch,
        input_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        seed: Tensor | None = None,
        position_ids: Tensor | None = None,
        pooled_positions: Tensor | None = None,
        sequence_positions: Tensor | None = None,
        training: bool | None = None,
    ) -> EncoderOutputs:
        """Encodes a batch.

        Args:
            input_ids: int [B, S], each below vocab_size; or a list of the
                first three, or a dictionary by their names.
            input_mask: [B, S], or [B, S, S] with a row for each query; 1 where
                a position may be attended to; None for everywhere.
            segment_ids: int [B, S], each below type_vocab_size; if that is 0
                or 1, nothing looks at them. None for 0.
            seed: int32 [2], the key of this step's dropout; None for one that
                is drawn in training, and otherwise for no dropout.
            position_ids: int [B, S], each below max_position_embeddings, of
                packed rows; None for 0, 1, 2, ...
            pooled_positions: int [B, K], of each [CLS] of packed rows; None for
                the first; from left to right for the last, which has seen the
                whole row. (The paper does not say.)
            sequence_positions: int [B, P], where the sequence is wanted; None
                for everywhere. Under TensorFlow the last layer is computed
                there and at what is pooled alone.
            training: whether there is dropout, where no `seed` says it; Keras
                gives it.

        Returns:
            EncoderOutputs: sequence [B, S, H], or [B, P, H] at
            sequence_positions; pooled [B, H], or [B, K, H]; and the output of
            each layer.

        Raises:
            ValueError: the inputs' shapes or types do not fit.
        """
        input_ids, input_mask, segment_ids = unpacked_inputs(
            input_ids, input_mask, segment_ids
        )
        input_ids, input_mask, segment_ids, position_ids = checked_inputs(
            self.config, input_ids, input_mask, segment_ids, position_ids
        )
        if training and seed is None:
            seed = self.keys.draw()
        mask = additive_mask(input_mask, self.config.direction)
        embedded = self.embeddings(input_ids, segment_ids, seed, position_ids)
        run = recomputed if self.is_recomputed else BertLayer.__call__
        keys = [  # site 0 is the embeddings'
            fused_ops.dropout_seed(seed, 1 + i * NOISE_SITES_PER_LAYER)
            for i in range(len(self.layers))
        ]
        x, outputs = embedded, []
        for layer, key in zip(self.layers[:-1], keys, strict=False):
            x = run(layer, x, mask, key)
            outputs.append(x)
        # Where few positions are read, the last layer is computed at these
        # alone: pooled_at [B, K], then sequence_positions. It is whole where a
        # mean is pooled, and on JAX: cuDNN takes no odd number of queries.
        last = functools.partial(run, self.layers[-1], x, mask, keys[-1])
        if pooled_positions is not None:
            pooled_at = pooled_positions
        elif self.config.direction == LAST_SEES_ALL:
            pooled_at = last_positions(input_mask)[:, None]
        else:
            pooled_at = ops.zeros_like(input_ids[:, :1], dtype="int32")
        averages = self.config.classifier_pooling == "mean"
        is_whole = averages or keras.config.backend() == "jax"
        if sequence_positions is None or is_whole:
            x = last()
            to_pool = vectors_at(x, pooled_at)
            if averages:
                to_pool = means_at(x, input_mask, pooled_at)
            if sequence_positions is not None:
                x = vectors_at(x, sequence_positions)
        else:
            positions = ops.concatenate([pooled_at, sequence_positions], axis=1)
            # For [CLS] alone, compiling the chains takes longer than they do.
            is_little = sequence_positions.shape[1] == 0
            with fused_ops.uncompiled(is_little):
                x = last(positions)
            num_pooled = ops.shape(pooled_at)[1]
            to_pool, x = x[:, :num_pooled], x[:, num_pooled:]
        outputs.append(x)
        pooled = self.pooler(to_pool)
        if pooled_positions is None:
            pooled = pooled[:, 0]
        return EncoderOutputs(embedded, tuple(outputs), x, pooled)

    def compute_output_spec(
        self,
        input_ids: Tensor | Batch,
        *args: Any,
        pooled_positions: Tensor | None = None,
        sequence_positions: Tensor | None = None,
        **kwargs: Any,
    ) -> EncoderOutputs:
        rows, length = unpacked_inputs(input_ids)[0].shape

        def vectors(*shape: int | None) -> keras.KerasTensor:
            shape = rows, *shape, self.config.hidden_size
            return keras.KerasTensor(shape, self.compute_dtype)

        layers = [vectors(length) for _ in self.layers]
        if sequence_positions is not None:
            layers[-1] = vectors(sequence_positions.shape[1])
        pooled = vectors()
        if pooled_positions is not None:
            pooled = vectors(pooled_positions.shape[1])
        return EncoderOutputs(
            vectors(length), tuple(layers), layers[-1], pooled
        )


def read_by_heads(encoder: Any, sequence: Tensor) -> Tensor:
    """What heads of tokens read: the sequence; in a ModernBERT the pooler's
    output at each position."""
    shares = encoder.config.traits.shares_pooler
    return encoder.pooler(sequence) if shares else sequence


def check_names(inputs: Mapping[str, Any]) -> None:
    """Raises a ValueError where transformers' names would be overlooked, or
    where there are no names."""
    if not isinstance(inputs, Mapping):
        raise ValueError(
            f"the inputs are a {type(inputs).__name__}; expected a dictionary "
            "of input_ids, input_mask and segment_ids"
        )
    others = {"attention_mask": "input_mask", "token_type_ids": "segment_ids"}
    for theirs, ours in others.items():
        if theirs in inputs:
            raise ValueError(
                f"the inputs have {theirs!r}; expected the name {ours!r}"
            )


def unpacked_inputs(
    input_ids: Tensor | Batch,
    input_mask: Tensor | None = None,
    segment_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The three, which the first may hold as a list or a dictionary."""
    if isinstance(input_ids, list | tuple):
        input_ids, input_mask, segment_ids = input_ids
    elif isinstance(input_ids, Mapping):
        check_names(input_ids)
        input_mask = input_ids.get("input_mask", input_mask)
        segment_ids = input_ids.get("segment_ids", segment_ids)
        input_ids = input_ids["input_ids"]
    return input_ids, input_mask, segment_ids


def checked_inputs(
    config: BertConfig,
    input_ids: Tensor,
    input_mask: Tensor | None,
    segment_ids: Tensor | None,
    position_ids: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The four as `Encoder.call` reads them, with defaults in place of None; a
    ValueError where their shapes do not fit."""
    if len(input_ids.shape) != 2:
        raise ValueError(
            f"input_ids has the shape {tuple(input_ids.shape)}; expected "
            "(batch, positions)"
        )
    longest = config.max_position_embeddings
    if (input_ids.shape[1] or 0) > longest:
        raise ValueError(
            f"input_ids has {input_ids.shape[1]} positions; expected at "
            f"most {longest}, the config's max_position_embeddings"
        )
    if input_mask is None:
        input_mask = ops.ones_like(input_ids)
    if segment_ids is None:
        segment_ids = ops.zeros_like(input_ids)
    input_mask = of_same_shape("input_mask", input_mask, input_ids)
    segment_ids = of_same_shape("segment_ids", segment_ids, input_ids)
    if position_ids is not None:
        position_ids = of_same_shape("position_ids", position_ids, input_ids)
    # Where Keras builds a model that it loads, they are floating-point.
    if keras.backend.is_float_dtype(input_ids.dtype):
        input_ids = ops.cast(input_ids, "int32")
    if keras.backend.is_float_dtype(segment_ids.dtype):
        segment_ids = ops.cast(segment_ids, "int32")
    return input_ids, input_mask, segment_ids, position_ids


def of_same_shape(name: str, x: Tensor, input_ids: Tensor) -> Tensor:
    """x, [B, S] as the ids, or a mask [B, S, S]; an error where broadcasting
    would give an answer to rows of another length."""
    expected = tuple(input_ids.shape)
    dynamic = ops.shape(input_ids)
    if name == "input_mask" and len(x.shape) == 3:
        expected, dynamic = (*expected, expected[1]), (*dynamic, dynamic[1])
    found = tuple(x.shape)
    if len(found) != len(expected) or any(
        None not in sizes and sizes[0] != sizes[1]
        for sizes in zip(found, expected, strict=True)
    ):
        raise ValueError(
            f"{name} has the shape {found}; expected {expected}, as input_ids "
            "has it"
        )
    if None in (*found, *expected):  # TensorFlow looks when it runs
        return ops.reshape(x, dynamic)
    return x


def attention_maps(
    encoder: Encoder, input_ids: Tensor, input_mask: Tensor, segment_ids: Tensor
) -> Tensor:
    """How much each position looks at each other, in each head of each layer:
    three [B, S], as the encoder takes them -> [L, B, N, S, S]."""
    outputs = encoder(input_ids, input_mask, segment_ids)
    mask = additive_mask(input_mask, encoder.config.direction)
    inputs = (outputs.embeddings, *outputs.layers[:-1])
    return ops.stack(
        [
            layer.probabilities(x, mask)
            for layer, x in zip(encoder.layers, inputs, strict=True)
        ]
    )


class Embeddings(BertLayer):
    """LayerNorm of word + segment + position vectors, then dropout."""

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.layer_norm = LayerNorm(config, name="LayerNorm")

    def build(self, input_shape: Any = None) -> None:
        config = self.config
        rows = {
            "word_embeddings": config.vocab_size,
            "token_type_embeddings": config.type_vocab_size,  # 0: none
            "position_embeddings": config.position_offset
            + config.max_position_embeddings,
        }
        # Rows are gathered in float32: casting a whole table first would touch
        # every word of the vocabulary at each step.
        self.tables = {  # by Google's names
            name: self.add_weight(
                name=name,
                shape=(number, config.hidden_size),
                initializer=initializer(config),
                dtype="float32",
                autocast=False,
            )
            for name, number in rows.items()
            if number
        }
        self.word_embeddings = self.tables["word_embeddings"]
        self.layer_norm.build()

    def call(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        seed: Tensor | None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """[B, S] each -> [B, S, H]."""
        config = self.config
        x = ops.take(self.word_embeddings, input_ids, axis=0)
        if config.type_vocab_size == 1:  # the second text of a pair has it too
            x = x + self.tables["token_type_embeddings"][0]
        elif config.type_vocab_size:
            # So few that a product beats a gather (upstream's remark).
            table = self.tables["token_type_embeddings"]
            x = x + ops.matmul(
                ops.one_hot(segment_ids, table.shape[0], dtype="float32"), table
            )
        # RoBERTa numbers real tokens from pad_token_id + 1. Padding, at the
        # end of a row, continues here and has pad_token_id there; nothing
        # looks at it.
        table = self.tables["position_embeddings"]
        first = config.position_offset
        if position_ids is None:
            positions = table[first : first + ops.shape(input_ids)[1]]
        else:
            positions = ops.take(table, first + position_ids, axis=0)
        normed = fused_ops.norm_dropout(
            x + positions,  # [B, S, H]
            self.layer_norm.gamma,
            self.layer_norm.beta,
            config.layer_norm_eps,
            config.hidden_dropout_prob,
            seed,
        )
        return ops.cast(normed, self.compute_dtype)


@keras.saving.register_keras_serializable("bert_keras")
class TransformerLayer(BertLayer):
    """Self-attention, then a feed-forward network, each with its residual."""

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        dtype = self.dtype_policy
        hidden, expanded = config.hidden_size, config.intermediate_size
        self.attention = Attention(config, name="attention", dtype=dtype)
        self.attention_output = DenseAddNorm(
            config, hidden, name="attention_output", dtype=dtype
        )
        self.intermediate = Intermediate(
            config, name="intermediate", dtype=dtype
        )
        self.feed_forward_output = DenseAddNorm(
            config, expanded, name="output", dtype=dtype
        )

    def build(self, input_shape: Any = None) -> None:
        self.attention.build()
        self.attention_output.build()
        self.intermediate.build()
        self.feed_forward_output.build()

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
        keys_from = None  # where keys and values come from
        if positions is not None:
            keys_from, x = x, vectors_at(x, positions)
            if mask.shape[2] != 1:  # what is seen differs by position
                mask = vectors_at(mask[:, 0], positions)[:, None]
        keys = [fused_ops.dropout_seed(seed, site) for site in (1, 2)]
        context = self.attention(x, mask, seed, keys_from)
        attended = self.attention_output(context, x, keys[0])
        expanded = self.intermediate(attended)  # [B, S, F]
        return self.feed_forward_output(expanded, attended, keys[1])

    def probabilities(self, x: Tensor, mask: Tensor) -> Tensor:
        """As Attention's."""
        return self.attention.probabilities(x, mask)


def recomputed(
    layer: BertLayer,
    x: Tensor,
    mask: Tensor,
    seed: Tensor | None,
    positions: Tensor | None = None,
) -> Tensor:
    """What the layer gives; of its forward pass only x is kept."""

    def run(x: Tensor) -> Tensor:
        key = seed
        if key is not None:
            # This never changes the key, but makes it depend on x, so that the
            # noise is drawn again in the backward pass and not kept.
            key = ops.where(ops.isnan(x[0, 0, 0]), 0, key)
        return layer(x, mask, key, positions)

    return keras.remat(run)(x)


def last_positions(input_mask: Tensor) -> Tensor:
    """int [B]: the last position that the first one may attend to; masks as in
    Encoder."""
    seen = input_mask if len(input_mask.shape) == 2 else input_mask[:, 0]
    return ops.maximum(ops.sum(ops.cast(seen, "int32"), axis=-1) - 1, 0)


def means_at(x: Tensor, input_mask: Tensor, positions: Tensor) -> Tensor:
    """For each position [B, P], the mean of x [B, S, H] over what it may attend
    to, by a mask as in Encoder: [B, P, H]."""
    sees = ops.cast(input_mask, "float32")
    one_row = len(sees.shape) == 2  # for all positions
    sees = sees[:, None] if one_row else vectors_at(sees, positions)
    sums = ops.matmul(sees, ops.cast(x, "float32"))
    number = ops.maximum(ops.sum(sees, axis=-1, keepdims=True), 1.0)
    return ops.cast(sums / number, x.dtype)
