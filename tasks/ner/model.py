"""Fine-tuning on tags of words: encoder, and a linear head on first pieces.

Devlin et al. 2018, sections 4 (figure 4d) and 5.3: the head is on the vector of
a word's first piece, and no tag looks at another, as a CRF's would.

Shapes: B examples, R rows (as many, unless they are packed), S positions, P
words of an example, H hidden size, C tags.
"""

from keras import ops

from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import (
    CLASSIFIER,
    VariableMapping,
    encoder_mappings,
    linear_mappings,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder, vectors_at
from bert_keras.modeling.heads import LinearHead, cross_entropy
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.base import TaskModel
from bert_keras.tasks.classification.model import LABELS
from bert_keras.tasks.packed_inputs import encode, is_packed

POSITIONS = "label_positions"
HEAD_DROPOUT_PROB = 0.1


def num_words(batch: Batch) -> dict[str, Tensor]:
    """The totals of a batch: the words that have labels."""
    return {"words": ops.sum(ops.cast(batch[LABELS] > 0, "float32"))}


def tag_loss(
    logits: Tensor, batch: Batch, totals: dict[str, Tensor]
) -> tuple[Tensor, Sums]:
    """The part that [B, P, C] has in the mean loss of the words in `totals`."""
    labels = batch[LABELS]
    weights = ops.cast(labels > 0, "float32")
    sums = cross_entropy(logits, ops.maximum(labels - 1, 0), weights)
    # Windows may hold nothing but words that others answer about.
    loss = ops.divide_no_nan(sums.loss, totals["words"])
    return loss, {"accuracy": (sums.correct, sums.weight)}


class TokenClassifier(TaskModel):
    """An encoder with a head for the tags of words.

    The pooler is not trained, as nothing looks at it; it is kept with the
    model.
    """

    def __init__(self, config: BertConfig, num_tags: int):
        self.encoder = Encoder(config)
        self.head = LinearHead(
            config, num_tags, HEAD_DROPOUT_PROB, name="classifier"
        )
        self.parts = (self.encoder, self.head)
        for part in self.parts:
            part.build()
        self.encoder.pooler.trainable = False

    def mappings(self) -> list[VariableMapping]:
        return [
            *encoder_mappings(self.encoder),
            *linear_mappings(self.head, CLASSIFIER),
        ]

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return num_words(batch)

    def loss(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """This batch's part of the mean loss of the words in `totals`.

        Args:
            batch: label_ids and label_positions, each [B, P], as
                tasks/ner/features.py has them; and padded rows, which are
                input_ids, input_mask and segment_ids, each [B, S], or packed
                ones (data/batching.py).
            totals: of the global batch, of which this may be one piece.
            seed: int32 [2], the key of the dropout; None for none.
        """
        sequence = encode(self.encoder, batch, seed).sequence
        site = fused_ops.dropout_seed(seed, self.encoder.num_noise_sites)
        logits = self.head(sequence, site)  # [R, S, C]
        num_rows, length, num_tags = ops.shape(logits)
        first = (
            batch["first_positions"]
            if is_packed(batch)
            else ops.arange(num_rows, dtype="int32") * length
        )
        places = first[:, None] + batch[POSITIONS]  # [B, P]
        flat = ops.reshape(logits, (-1, num_tags))
        return tag_loss(ops.take(flat, places, axis=0), batch, totals)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """{"logits"} without dropout: [B, P, C] where the batch has positions
        [B, P], those of words; else [B, S, C]."""
        x = encode(self.encoder, batch, None).sequence
        if "positions" in batch:
            x = vectors_at(x, batch["positions"])
        return {"logits": self.head(x)}
