"""Distillation at pre-training: a masked language model taught by another.

Sanh et al. 2019 (DistilBERT), section 2, the triple loss, and section 3, the
student and its first weights. What the paper leaves open is as in the authors'
distiller.py. A student of a BERT has no token types, as theirs. The teacher is
shown the records' ones, as it was trained; theirs reads zeros.

Shapes: B batch, S positions, H hidden size, V vocabulary, P masked predictions,
Q positions of soft targets (P or S).
"""

import dataclasses
import re
from collections.abc import Sequence

from keras import ops

from bert_keras.modeling import fused_ops
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import vectors_at
from bert_keras.modeling.heads import cross_entropy
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.distillation.config import DistilBertLoss
from bert_keras.tasks.distillation.student import Distilled
from bert_keras.tasks.packed_inputs import encode, is_packed
from bert_keras.tasks.pretraining.model import MaskedLm


def student_config(teacher: BertConfig, num_layers: int) -> BertConfig:
    """The teacher's, but for the depth and, of a BERT's, the token types."""
    config = dataclasses.replace(
        teacher, num_hidden_layers=num_layers, other={}
    )
    if teacher.family != "bert":
        return config
    return dataclasses.replace(config, family="distilbert", type_vocab_size=0)


class Distillation(Distilled[MaskedLm]):
    """A student, the teacher that it learns from, and the triple loss."""

    metric_names = (*MaskedLm.metric_names, "soft_target_loss", "cosine_loss")

    def __init__(
        self,
        config: BertConfig,
        teacher_config: BertConfig,
        settings: DistilBertLoss,
    ):
        """`config`: the student's, as wide as the teacher's."""
        super().__init__(MaskedLm(config))
        self.teacher = MaskedLm(teacher_config)
        self.settings = settings

    def copy_layers(self, layers: Sequence[int]) -> None:
        """Makes these layers of the teacher the student's, in order; and what
        else both have: embeddings, with token type 0 in the positions where the
        student has none, and the head. The pooler stays: nothing trains it.
        """
        theirs = {b.name: b for b in self.teacher.mappings()}
        segments = theirs.get("bert/embeddings/token_type_embeddings")
        has_none = not self.student.encoder.config.type_vocab_size
        for binding in self.mappings():
            name = re.sub(
                r"layer_(\d+)",
                lambda found: f"layer_{layers[int(found[1])]}",
                binding.name,
            )
            if "/pooler/" in name:
                continue
            value = theirs[name].read()
            if name.endswith("position_embeddings") and segments and has_none:
                value = value + segments.read()[0]
            binding.write(value)

    def predictions(self, batch: Batch) -> Tensor:
        """The student's likeliest id at each of masked_lm_positions."""
        return self.student.predictions(batch)

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {
            "soft_targets": ops.sum(self._soft_places(batch)[1]),
            "masked_lm": ops.sum(batch["masked_lm_weights"]),
            "pieces": ops.sum(_piece_weights(batch)),
        }

    def loss_fn(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """This batch's part of the loss of the whole that `totals` counts.

        Args:
            batch: the features of a pre-training record, packed or not, each
                [B, length]; those of next sentences are not looked at.
            totals: of the global batch, of which this may be one piece.
            seed: int32 [2], the key of the student's dropout; None for none.

        Returns:
            The means of the three parts, each times its weight, added up; and
            for each metric a sum and its weight, as Pretraining.loss.
        """
        own = encode(self.student.encoder, batch, seed).sequence  # [B, S, H]
        shown = ops.stop_gradient(
            encode(self.teacher.encoder, batch, None).sequence
        )
        logits = _scores(self.student, own, batch["masked_lm_positions"])
        soft = self._soft_targets(batch, own, shown, logits)
        masked = cross_entropy(
            logits, batch["masked_lm_ids"], batch["masked_lm_weights"]
        )
        cosine = _weighted(
            fused_ops.cosine_distance(own, shown), _piece_weights(batch)
        )
        settings = self.settings
        loss = sum(
            weight * ops.divide_no_nan(total, totals[name])
            for weight, total, name in (
                (settings.soft_target_weight, soft[0], "soft_targets"),
                (settings.masked_lm_weight, masked.loss, "masked_lm"),
                (settings.cosine_weight, cosine[0], "pieces"),
            )
        )
        return loss, {
            "soft_target_loss": soft,
            **masked.figures("masked_lm"),
            "cosine_loss": cosine,
        }

    def _soft_targets(
        self, batch: Batch, own: Tensor, shown: Tensor, at_masks: Tensor
    ) -> tuple[Tensor, Tensor]:
        """How far the student's probabilities are from the teacher's: a sum and
        its weight.

        Args:
            own: [B, S, H], what the student makes of the rows.
            shown: [B, S, H], what the teacher does.
            at_masks: [B, P, V], the student's logits.
        """
        places, weights = self._soft_places(batch)
        logits = at_masks
        if not self.settings.soft_targets_at_masks:
            logits = _scores(self.student, own, places)
        targets = ops.stop_gradient(_scores(self.teacher, shown, places))
        temperature = self.settings.distillation_temperature
        total, weight = _weighted(
            fused_ops.divergence(logits, targets, temperature), weights
        )
        # Gradients fall with the square: Hinton et al. 2015, section 2.
        return temperature**2 * total, weight

    def _soft_places(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """int [B, Q], and float32 [B, Q], 0 where there is nothing."""
        if self.settings.soft_targets_at_masks:
            return batch["masked_lm_positions"], batch["masked_lm_weights"]
        pieces = _piece_weights(batch)
        rows, length = ops.shape(pieces)
        row = ops.arange(length, dtype="int32")[None]
        return ops.broadcast_to(row, (rows, length)), pieces


def _scores(model: MaskedLm, sequence: Tensor, positions: Tensor) -> Tensor:
    """Logits [B, Q, V] of the vocabulary at int [B, Q]."""
    table = model.encoder.embeddings.word_embeddings
    return model.masked_lm(vectors_at(sequence, positions), table)


def _piece_weights(batch: Batch) -> Tensor:
    """float32 [B, S]: 0 for padding, else 1."""
    name = "sequence_numbers" if is_packed(batch) else "input_mask"
    return ops.cast(batch[name] > 0, "float32")


def _weighted(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    return ops.sum(weights * values), ops.sum(weights)
