"""Pre-training: masked language model and next-sentence prediction at once, or
the first alone.

Devlin et al. 2018, section 3.1, and "No NSP" of section 5.1; Liu et al. 2019,
section 4.2. Upstream file: run_pretraining.py. A row is one record of
create_pretraining_data.py or, packed, several (data/packing.py); both losses
are means over predictions and sequences, however these lie in rows.

Shapes: B batch, S positions, H hidden size, P masked predictions, K sequences
of a packed row.
"""

from keras import ops

from bert_keras.modeling.checkpoint import (
    NEXT_SENTENCE,
    VariableMapping,
    encoder_mappings,
    linear_mappings,
    masked_lm_mappings,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.modeling.heads import (
    LinearHead,
    MaskedLmHead,
    cross_entropy,
    row_weights,
)
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.base import TaskModel
from bert_keras.tasks.packed_inputs import encode, is_packed

MASKED_LM_EPSILON = 1e-5  # upstream's guard against a batch without masks


class MaskedLm(TaskModel):
    """An encoder with the head of the masked language model.

    The pooler is not trained, as nothing looks at it; it is kept with the
    model, so that fine-tuning finds one.
    """

    metric_names: tuple[str, ...] = ("masked_lm_loss", "masked_lm_accuracy")

    def __init__(self, config: BertConfig):
        self.encoder = Encoder(config)
        self.masked_lm = MaskedLmHead(config)
        self.parts = (self.encoder, self.masked_lm)
        for part in self.parts:
            part.build()
        self.encoder.pooler.trainable = False

    def mappings(self) -> list[VariableMapping]:
        return [
            *encoder_mappings(self.encoder),
            *masked_lm_mappings(self.masked_lm),
        ]

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {"masked_lm": ops.sum(batch["masked_lm_weights"])}

    def loss(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """As `Pretraining.loss`, of predictions alone; labels of next sentences
        need not be there."""
        places = batch["masked_lm_positions"]
        outputs = encode(self.encoder, batch, seed, None, places)
        return self.masked_loss(outputs.sequence, batch, totals)

    def masked_loss(
        self, sequence: Tensor, batch: Batch, totals: dict[str, Tensor]
    ) -> tuple[Tensor, Sums]:
        """As `loss`, of the sequence [B, P, H] at the masks."""
        logits = self.masked_logits(sequence)
        sums = cross_entropy(
            logits, batch["masked_lm_ids"], batch["masked_lm_weights"]
        )
        loss = sums.loss / (totals["masked_lm"] + MASKED_LM_EPSILON)
        return loss, sums.figures("masked_lm")

    def masked_logits(self, sequence: Tensor) -> Tensor:
        """[B, P, V] of the sequence [B, P, H] at the masks."""
        table = self.encoder.embeddings.word_embeddings
        return self.masked_lm(sequence, table)

    def predictions(self, batch: Batch) -> Tensor:
        """The likeliest id for each mask of the rows, int [B, P]."""
        places = batch["masked_lm_positions"]
        outputs = encode(self.encoder, batch, None, None, places)
        return ops.argmax(self.masked_logits(outputs.sequence), axis=-1)


class Pretraining(MaskedLm):
    """An encoder with both heads, their losses and their accuracies."""

    metric_names = (
        *MaskedLm.metric_names,
        "next_sentence_loss",
        "next_sentence_accuracy",
    )

    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.encoder.pooler.trainable = True
        self.next_sentence = LinearHead(config, 2, name="next_sentence")
        self.next_sentence.build()
        self.parts = (self.encoder, self.masked_lm, self.next_sentence)

    def mappings(self) -> list[VariableMapping]:
        return [
            *super().mappings(),
            *linear_mappings(self.next_sentence, NEXT_SENTENCE),
        ]

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        """What each loss is divided by: a sum over rows, so that it adds up."""
        return {
            **super().totals(batch),
            "next_sentence": ops.sum(_sequence_weights(batch)),
        }

    def loss(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """This batch's part of the loss of the whole that `totals` counts.

        Args:
            batch: the features of a pre-training record, packed or not, each
                [B, length]; a row without input is padding and counts for
                nothing.
            totals: of the global batch, of which this may be one piece.
            seed: int32 [2], the key of the dropout; None for none.

        Returns:
            The loss in nats, and for each metric a sum and its weight.
        """
        labels, pooled_at = batch["next_sentence_labels"], None
        if is_packed(batch):  # labels and pooled outputs are of K sequences
            pooled_at = batch["next_sentence_positions"]
        else:
            labels = labels[:, 0]
        places = batch["masked_lm_positions"]
        outputs = encode(self.encoder, batch, seed, pooled_at, places)
        loss, figures = self.masked_loss(outputs.sequence, batch, totals)
        pair = cross_entropy(
            self.next_sentence(outputs.pooled), labels, _sequence_weights(batch)
        )
        loss += pair.loss / totals["next_sentence"]
        return loss, figures | pair.figures("next_sentence")


def _sequence_weights(batch: Batch) -> Tensor:
    """float32 [B], of packed rows [B, K]: 0 where there is no sequence."""
    if is_packed(batch):
        return batch["next_sentence_weights"]
    return row_weights(batch["input_mask"])
