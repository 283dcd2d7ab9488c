"""What training a BERT takes: operations of a step and memory, by formulas.

Operations are those of the matrix products, two (a product, a sum) for each
weight or score and row: Kaplan et al. 2020, section 2.1. Memory is counted in
the manner of Korthikanti et al. 2022, section 4, for chains that keep nothing
but their arguments, and attention that keeps its probabilities
(modeling/fused_ops.py, on a CPU). Both are for a look before the first step:
passing tensors, an allocator and TensorFlow itself add to the memory, and
shorter rows need less. A row of 128 of BERT-base took 92 MiB where 98 are
estimated (benchmarks/RESULTS.md). On a GPU or TPU more is kept, perhaps half as
much again.

Shapes: B rows, S positions, H hidden size, F feed-forward size, N heads, L
layers, V vocabulary, P masked predictions and K pooled positions of a row.
"""

import dataclasses
import os

from bert_keras.errors import InputError
from bert_keras.modeling.config import BertConfig

FLOAT32_BYTES = 4
BACKWARD_FORWARDS = 2  # gradients of both factors of each product


@dataclasses.dataclass(frozen=True)
class Rows:
    """Of a batch, or of a micro-batch."""

    number: int  # B
    length: int  # S, with padding
    num_predictions: int = 0  # P; 0: there is no masked language model
    num_pooled: int = 1  # K


def check_weights_fit(config: BertConfig) -> None:
    """Raises an InputError where an encoder's weights alone are more than the
    memory of this machine."""
    hidden, inner = config.hidden_size, config.intermediate_size
    rows = config.vocab_size + config.type_vocab_size
    if not config.is_modern:
        rows += config.max_position_embeddings
    kernels = config.traits.num_feed_forward_kernels
    matrices = hidden * (4 * hidden + kernels * inner)
    number = rows * hidden + config.num_hidden_layers * matrices
    if not hasattr(os, "sysconf"):  # Windows
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if FLOAT32_BYTES * number > memory:
        raise InputError(
            f"the config describes an encoder of {number:,} weights, which "
            f"take {FLOAT32_BYTES * number >> 30:,} GiB where this machine has "
            f"{memory >> 30:,} GiB of memory; check its vocab_size "
            f"{config.vocab_size}, hidden_size {hidden}, num_hidden_layers "
            f"{config.num_hidden_layers}, intermediate_size {inner}, "
            f"max_position_embeddings {config.max_position_embeddings} and "
            f"type_vocab_size {config.type_vocab_size}"
        )


def step_flop(
    config: BertConfig,
    rows: Rows,
    num_frozen_layers: int,
    recompute: bool = False,
) -> int:
    """Operations of a training step over these rows.

    Forward, a layer: B S (8 H^2 + 4 H F + 4 S H), which are query, key, value
    and output; both halves of the feed-forward (6 H F with a gate); scores and
    context. On top:
    B K 2 H^2 of the pooler and B P (2 H^2 + 2 H V) of the masked language
    model. Backward is twice that, but for frozen layers; recomputed layers are
    done forward once more. Without heads of a few classes, embeddings, and what
    is done element by element; the last layer is counted whole, though
    pre-training and classification compute most of it only where it is read.

    Args:
        num_frozen_layers: the lowest; 0 or -1: none.
    """
    hidden, length = config.hidden_size, rows.length
    kernels = config.traits.num_feed_forward_kernels
    layer = length * (
        8 * hidden**2
        + 2 * kernels * hidden * config.intermediate_size
        + 4 * length * hidden
    )
    top = rows.num_pooled * 2 * hidden**2
    top += rows.num_predictions * 2 * hidden * (hidden + config.vocab_size)
    num_trained = config.num_hidden_layers - max(num_frozen_layers, 0)
    forward = config.num_hidden_layers * layer + top
    backward = BACKWARD_FORWARDS * (num_trained * layer + top)
    again = num_trained * layer if recompute else 0
    return rows.number * (forward + again + backward)


def training_memory(
    config: BertConfig,
    rows: Rows,
    num_parameters: int,
    num_trained: int,
    num_frozen_layers: int = -1,
    is_bfloat16: bool = False,
    accumulates: bool = False,
    recompute: bool = False,
) -> dict[str, int]:
    """Bytes of memory that a step takes on one device, by what is in them.

    With e bytes a number (4, or 2 in bfloat16): 4 bytes a parameter, and 2 for
    its copy in bfloat16; 4 bytes a gradient (at most: in bfloat16 some have
    2), twice where they accumulate; 8 bytes of Adam's moments; and what the
    forward pass keeps for the backward pass of the micro-batch `rows`. Of that
    a position of a layer keeps:

    - 8 H e: query, key, value, context; and of both residuals what comes out of
      the product, and what is normalised;
    - 2 F e: the feed-forward before and after its activation (3 F e with a
      gate);
    - 2 N S e: probabilities, before and after dropout.

    A position of the embeddings: H (e + 4), their float32 sum, and what is
    normalised. A masked prediction: 12 V, which are logits, their
    softmax and their gradient. Frozen layers: nothing. Where layers are
    recomputed, each keeps H e, its input, and one all of it.

    Args:
        rows: of the micro-batch that one device holds at a time.
        num_trained: parameters with a gradient.
    """
    number_bytes = 2 if is_bfloat16 else FLOAT32_BYTES
    copy_bytes = number_bytes if is_bfloat16 else 0
    hidden, length = config.hidden_size, rows.length
    scores = config.num_attention_heads * length
    kernels = config.traits.num_feed_forward_kernels
    numbers = 8 * hidden + kernels * config.intermediate_size + 2 * scores
    per_position = numbers * number_bytes
    num_layers = config.num_hidden_layers - max(num_frozen_layers, 0)
    activations = num_layers * length * per_position
    if recompute:
        kept = num_layers * hidden * number_bytes
        activations = length * (kept + per_position)
    if num_frozen_layers < 0:
        activations += length * hidden * (number_bytes + FLOAT32_BYTES)
    activations += 12 * rows.num_predictions * config.vocab_size
    return {
        "weights": num_parameters * (FLOAT32_BYTES + copy_bytes),
        "gradients": num_trained * FLOAT32_BYTES * (2 if accumulates else 1),
        "Adam's moments": num_trained * FLOAT32_BYTES * 2,
        f"activations of {rows.number} x {length}": rows.number * activations,
    }
