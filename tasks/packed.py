"""What models of tasks read with, and what: padded rows, or several examples
in one row.

A packed batch has sequence_numbers and position_ids; its examples see only
themselves, so that what is computed of each is what it would be alone
(data/packing.py). In fine-tuning's (data/batches.py), first_positions say where
in all rows each example begins, in the order of the labels.

Shapes: R rows, S positions, H hidden size, B examples.
"""

from typing import Any

from keras import ops

from modeling.attention import same_sequence
from modeling.combined import AnyEncoder, RecurrentEncoder, TwinEncoder
from modeling.config import BertConfig
from modeling.encoder import LAST_SEES_ALL, Encoder, EncoderOutputs
from modeling.heads import row_weights
from tasks.task import TaskSettings

Tensor = Any
Batch = dict[str, Tensor]


def make_encoder(config: BertConfig, settings: TaskSettings) -> AnyEncoder:
    """What task.json says stands below the head."""
    if settings.bilstm:
        return RecurrentEncoder(config)
    if settings.second_direction:
        return TwinEncoder(config, settings.second_direction)
    return Encoder(config)


def is_packed(batch: Batch) -> bool:
    return "sequence_numbers" in batch


def encode(
    encoder: AnyEncoder,
    batch: Batch,
    seed: Tensor | None,
    pooled_positions: Tensor | None = None,
) -> EncoderOutputs:
    """What the encoder makes of the rows; the last two as it takes them."""
    ids, segments = batch["input_ids"], batch["segment_ids"]
    if not is_packed(batch):
        return encoder(ids, batch["input_mask"], segments, seed)
    assert isinstance(encoder, Encoder), "the others read padded rows"
    mask = same_sequence(batch["sequence_numbers"])
    positions = batch["position_ids"]
    return encoder(ids, mask, segments, seed, positions, pooled_positions)


def pooled_examples(
    encoder: AnyEncoder, batch: Batch, seed: Tensor | None
) -> Tensor:
    """[B, H], the pooler's outputs."""
    outputs = encode(encoder, batch, seed)
    if not is_packed(batch):
        return outputs.pooled
    assert isinstance(encoder, Encoder)
    as_one_row = ops.reshape(
        outputs.sequence, (1, -1, ops.shape(outputs.sequence)[-1])
    )
    positions = batch["first_positions"]
    if encoder.config.direction == LAST_SEES_ALL:
        positions = _last_positions(batch["sequence_numbers"], positions)
    return encoder.pooler(as_one_row, positions[None])[0]


def _last_positions(sequence_numbers: Tensor, first: Tensor) -> Tensor:
    """int [B]: where in all rows [R, S] the examples end that begin there."""
    number = ops.take(ops.reshape(sequence_numbers, -1), first)
    row = ops.floor_divide(first, ops.shape(sequence_numbers)[1])
    is_own = ops.equal(ops.take(sequence_numbers, row, axis=0), number[:, None])
    return first + ops.sum(ops.cast(is_own, "int32"), axis=-1) - 1


def example_weights(batch: Batch) -> Tensor:
    """float32 [B]: 0 for a row that is nothing but padding, else 1."""
    if is_packed(batch):
        return ops.ones(ops.shape(batch["first_positions"]), "float32")
    return row_weights(batch["input_mask"])
