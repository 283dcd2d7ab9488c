"""Fine-tuning on spans: encoder, and a head that scores both ends of one.

Devlin et al. 2018, section 4.2. Upstream file: run_squad.py, create_model.

Shapes: B batch, S positions.
"""

from typing import Any

import keras
from keras import ops

from modeling.config import BertConfig
from modeling.conversion import (
    SPAN,
    Binding,
    encoder_bindings,
    linear_bindings,
)
from modeling.encoder import Encoder
from modeling.heads import LinearHead, cross_entropy, row_weights

Tensor = Any
Batch = dict[str, Tensor]
Sums = dict[str, tuple[Tensor, Tensor]]


class SpanModel:
    """An encoder with a head for starts and ends, their losses, accuracies.

    The pooler is not trained, as nothing looks at it; it is kept with the
    model, as upstream keeps it.
    """

    def __init__(self, config: BertConfig):
        self.encoder = Encoder(config)
        self.head = LinearHead(config, 2, name="span")
        self.encoder.build()
        self.head.build()
        self.encoder.pooler.trainable = False

    @property
    def variables(self) -> list[keras.Variable]:
        return [*self.encoder.variables, *self.head.variables]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return [
            *self.encoder.trainable_variables,
            *self.head.trainable_variables,
        ]

    def bindings(self) -> list[Binding]:
        return [
            *encoder_bindings(self.encoder),
            *linear_bindings(self.head, SPAN),
        ]

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {"rows": ops.sum(row_weights(batch["input_mask"]))}

    def loss(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """This batch's part of the mean loss of the rows in `totals`.

        Each end is one of S classes. Positions of padding are among them, as
        they are upstream: a row's loss depends on S.

        Args:
            batch: input_ids, input_mask, segment_ids, each [B, S], and
                start_positions and end_positions, each [B, 1]; a row without
                input is padding and counts for nothing.
            totals: of the global batch, of which this may be one piece.
            seed: int32 [2], the key of the dropout; None for none.
        """
        weights = row_weights(batch["input_mask"])
        start_logits, end_logits = self._logits(batch, seed)
        start = cross_entropy(
            start_logits, batch["start_positions"][:, 0], weights
        )
        end = cross_entropy(end_logits, batch["end_positions"][:, 0], weights)
        return (start.loss + end.loss) / (2.0 * totals["rows"]), {
            "start_loss": (start.loss, start.weight),
            "start_accuracy": (start.correct, start.weight),
            "end_loss": (end.loss, end.weight),
            "end_accuracy": (end.correct, end.weight),
        }

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """start_logits and end_logits, each [B, S], without dropout."""
        start_logits, end_logits = self._logits(batch, None)
        return {"start_logits": start_logits, "end_logits": end_logits}

    def _logits(
        self, batch: Batch, seed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        outputs = self.encoder(
            batch["input_ids"], batch["input_mask"], batch["segment_ids"], seed
        )
        logits = self.head(outputs.sequence)  # [B, S, 2]
        return logits[:, :, 0], logits[:, :, 1]
