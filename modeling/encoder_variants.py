"""More than an encoder below a head: a BiLSTM on it, or another beside it.

Devlin et al. 2018, section 5.1: what makes up for reading in one direction.
Each has the form of an Encoder, so that heads and training need not know; the
paper says of neither how wide it is nor what is pooled. Ours; google-research
has neither.

Shapes: B batch, S positions, H hidden size.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.attention import vectors_at
from bert_keras.modeling.checkpoint import (
    LoadReport,
    VariableMapping,
    encoder_mappings,
    layer_mappings,
    load_checkpoint,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import (
    Encoder,
    EncoderOutputs,
    last_positions,
)
from bert_keras.modeling.tensors import Tensor

BILSTM = "bilstm"  # names of its variables in checkpoints begin so
SECOND = "bert_1/"  # those of a second encoder, where a first has "bert/"


@keras.saving.register_keras_serializable("bert_keras")
class BiLstmEncoder(Encoder):
    """An encoder and a BiLSTM on it, of half the hidden size a direction.

    So heads are as wide as without it. Pooled are the outputs of the forward
    half at the last position and of the backward half at the first, side by
    side: each has read the whole text. The encoder's own pooler, of which
    nothing is used, is not trained.
    """

    reads_packed_rows = False

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        if config.hidden_size % 2:
            raise InputError(
                f"the config has hidden_size = {config.hidden_size}; a BiLSTM "
                "has half of it in each direction, so expected an even number"
            )
        self.bilstm = keras.layers.Bidirectional(
            keras.layers.LSTM(
                config.hidden_size // 2,
                return_sequences=True,
                use_cudnn=False,  # XLA cannot compile it
                dtype="float32",
            ),
            dtype="float32",
            name=BILSTM,
        )

    def build(self, input_shape: Any = None) -> None:
        super().build()
        self.pooler.trainable = False
        self.bilstm.build((None, None, self.config.hidden_size))

    def call(  # type: ignore[override] # it reads neither packed rows nor parts
        self,
        input_ids: Tensor,
        input_mask: Tensor,
        segment_ids: Tensor,
        seed: Tensor | None = None,
        training: bool | None = None,
    ) -> EncoderOutputs:
        """As Encoder, of padded rows: input_mask is [B, S]."""
        outputs = super().call(
            input_ids, input_mask, segment_ids, seed, training=training
        )
        sequence = self.bilstm(
            ops.cast(outputs.sequence, "float32"),
            mask=ops.cast(input_mask, "bool"),
        )
        forward, backward = ops.split(sequence, 2, axis=-1)  # [B, S, H / 2]
        last = last_positions(input_mask)[:, None]
        ends = [vectors_at(forward, last)[:, 0], backward[:, 0]]
        return outputs._replace(
            # Joined again: Keras's own bears a mask that no head asks for.
            sequence=ops.concatenate([forward, backward], axis=-1),
            pooled=ops.concatenate(ends, axis=-1),
        )


@encoder_mappings.register
def _(encoder: BiLstmEncoder) -> list[VariableMapping]:
    mappings = encoder_mappings.dispatch(Encoder)(encoder)
    for name, layer in (
        ("forward", encoder.bilstm.forward_layer),
        ("backward", encoder.bilstm.backward_layer),
    ):
        mappings += layer_mappings(
            f"{BILSTM}/{name}/",
            layer.cell,
            ("kernel", "recurrent_kernel", "bias"),
        )
    return mappings


@keras.saving.register_keras_serializable("bert_keras")
class ConcatenatedEncoders(keras.layers.Layer):
    """Two encoders that read the same, their outputs side by side.

    As ELMo has a left-to-right and a right-to-left model. All outputs are 2H
    wide; pooled are both poolers', each from where its encoder has seen all.
    """

    reads_packed_rows = False

    def __init__(
        self,
        config: BertConfig,
        second_direction: str,
        name: str = "twin",
        **kwargs: Any,
    ):
        """`second_direction`: in which the second is not as `config` says."""
        super().__init__(name=name, **kwargs)
        second = dataclasses.replace(config, direction=second_direction)
        dtype = self.dtype_policy
        self.first = Encoder(config, dtype=dtype)
        self.second = Encoder(second, name="bert_1", dtype=dtype)
        # Of what a head sees: its width.
        self.config = dataclasses.replace(
            config, hidden_size=2 * config.hidden_size
        )
        self.layers = self.first.layers  # to count them
        self.num_noise_sites = 2 * self.first.num_noise_sites

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "config": dataclasses.asdict(self.first.config),
            "second_direction": self.second.config.direction,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ConcatenatedEncoders":
        return cls(**{**config, "config": BertConfig(**config["config"])})

    def freeze(self, num_layers: int) -> None:
        for encoder in (self.first, self.second):
            encoder.freeze(num_layers)

    def recompute(self) -> None:
        for encoder in (self.first, self.second):
            encoder.recompute()

    def depth(self, variable: keras.Variable) -> int:
        """Each counts what is not its own as above it."""
        return min(self.first.depth(variable), self.second.depth(variable))

    def build(self, input_shape: Any = None) -> None:
        self.first.build()
        self.second.build()

    @property
    def poolers(self) -> list[keras.layers.Layer]:
        return [self.first.pooler, self.second.pooler]

    def call(
        self,
        input_ids: Tensor,
        input_mask: Tensor,
        segment_ids: Tensor,
        seed: Tensor | None = None,
    ) -> EncoderOutputs:
        """As Encoder, of padded rows: input_mask is [B, S]."""
        inputs = input_ids, input_mask, segment_ids
        one = self.first(*inputs, seed)
        other_seed = fused_ops.dropout_seed(seed, self.first.num_noise_sites)
        two = self.second(*inputs, other_seed)
        return keras.tree.map_structure(
            lambda *pair: ops.concatenate(pair, axis=-1), one, two
        )


@encoder_mappings.register
def _(encoder: ConcatenatedEncoders) -> list[VariableMapping]:
    return encoder_mappings(encoder.first) + [
        dataclasses.replace(m, name=m.name.replace("bert/", SECOND, 1))
        for m in encoder_mappings(encoder.second)
    ]


def make_encoder(
    config: BertConfig,
    bilstm: bool,
    second_direction: str | None,
    dtype: Any = None,
) -> Any:
    """An Encoder, or what stands in for one; by task.json's fields."""
    if config.is_modern and (bilstm or second_direction):
        raise InputError(
            f"the config has family = {config.family!r}; expected another for "
            "a BiLSTM or a second encoder"
        )
    if bilstm:
        return BiLstmEncoder(config, dtype=dtype)
    if second_direction:
        return ConcatenatedEncoders(config, second_direction, dtype=dtype)
    return Encoder(config, dtype=dtype)


def load_encoders(
    encoder: Encoder | ConcatenatedEncoders,
    mappings: Sequence[VariableMapping],
    first: str,
    second: str | None,
) -> list[LoadReport]:
    """Loads a checkpoint, or each of two into its encoder.

    Args:
        mappings: of the whole model; a head comes with the first.
    """
    if second is None:
        return [load_checkpoint(mappings, first)]
    assert isinstance(encoder, ConcatenatedEncoders), "the task has looked"
    own = [m for m in mappings if not m.name.startswith(SECOND)]
    return [
        load_checkpoint(own, first),
        load_checkpoint(encoder_mappings(encoder.second), second),
    ]
