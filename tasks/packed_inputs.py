"""What models of tasks read with, and what: padded rows, or several examples
in one row.

A packed batch has sequence_numbers and position_ids; its examples see only
themselves, so that what is computed of each is what it would be alone
(data/packing.py). In fine-tuning's (data/batching.py), first_positions say
where in all rows each example begins, in the order of the labels; row_positions
where in each row some begins, and slots which of those is each example's.

Shapes: R rows, S positions, H hidden size, B examples, K at most in a row.
"""

from keras import ops

from bert_keras.modeling.attention import same_sequence
from bert_keras.modeling.encoder import (
    LAST_SEES_ALL,
    Encoder,
    EncoderOutputs,
    read_by_heads,
)
from bert_keras.modeling.heads import row_weights
from bert_keras.modeling.tensors import Batch, Tensor


def is_packed(batch: Batch) -> bool:
    return "sequence_numbers" in batch


def encode(
    encoder: Encoder,
    batch: Batch,
    seed: Tensor | None,
    pooled_positions: Tensor | None = None,
    sequence_positions: Tensor | None = None,
) -> EncoderOutputs:
    """What the encoder makes of the rows; the last two as it takes them."""
    ids, segments = batch["input_ids"], batch.get("segment_ids")
    if not encoder.reads_packed_rows:
        return encoder(ids, batch.get("input_mask"), segments, seed)
    if is_packed(batch):
        mask = same_sequence(batch["sequence_numbers"])
        position_ids = batch["position_ids"]
    else:
        mask, position_ids = batch.get("input_mask"), None
    return encoder(
        *(ids, mask, segments, seed, position_ids),
        pooled_positions,
        sequence_positions,
    )


def encode_tokens(
    encoder: Encoder, batch: Batch, seed: Tensor | None
) -> Tensor:
    """[B, S, H], what heads of tokens read."""
    return read_by_heads(encoder, encode(encoder, batch, seed).sequence)


def pooled_examples(
    encoder: Encoder, batch: Batch, seed: Tensor | None
) -> Tensor:
    """[B, H], the pooler's outputs."""
    nowhere = ops.zeros((ops.shape(batch["input_ids"])[0], 0), "int32")
    if not is_packed(batch):
        return encode(encoder, batch, seed, None, nowhere).pooled
    positions = batch["row_positions"]  # [R, K]
    if encoder.config.direction == LAST_SEES_ALL:
        # Where those end that begin there
        number = 1 + ops.arange(ops.shape(positions)[1], dtype="int32")
        numbers = batch["sequence_numbers"][:, None]
        is_own = ops.equal(numbers, number[None, :, None])
        length = ops.sum(ops.cast(is_own, "int32"), axis=-1)
        positions += ops.maximum(length - 1, 0)
    pooled = encode(encoder, batch, seed, positions, nowhere).pooled
    slots = ops.reshape(pooled, (-1, encoder.config.hidden_size))  # [R K, H]
    return ops.take(slots, batch["slots"], axis=0)


def example_weights(batch: Batch) -> Tensor:
    """float32 [B]: 0 for a row that is nothing but padding, else 1."""
    if is_packed(batch):
        return ops.ones(ops.shape(batch["first_positions"]), "float32")
    return row_weights(batch["input_mask"])
