"""Fine-tuning on a target of a text or a pair: encoder, pooler, linear head.

Devlin et al. 2018, section 4.1. Upstream file: run_classifier.py,
create_model.

Shapes: B batch, S positions, C outputs, W windows of a document.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from keras import ops

from bert_keras.data.input_features import InputFeatures
from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import (
    CLASSIFIER,
    VariableMapping,
    linear_mappings,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.modeling.encoder_variants import (
    AnyEncoder,
    any_encoder_mappings,
)
from bert_keras.modeling.heads import LinearHead
from bert_keras.modeling.tensors import Batch, Tensor
from bert_keras.tasks.base import TaskModel
from bert_keras.tasks.classification.label_types import LABELS, LabelType, Sums
from bert_keras.tasks.packed_inputs import example_weights, pooled_examples

HEAD_DROPOUT_PROB = 0.1  # upstream's, whatever the config says


class TextClassifier(TaskModel):
    """An encoder with a head on its pooled output, and the target's loss."""

    def __init__(
        self,
        config: BertConfig,
        target: LabelType,
        encoder: AnyEncoder | None = None,
    ):
        """`encoder`: where it is not the plain one of the config."""
        self.target = target
        self.encoder = encoder or Encoder(config)
        self.head = LinearHead(
            self.encoder.config,
            target.num_outputs,
            HEAD_DROPOUT_PROB,
            name="classifier",
        )
        self.parts = (self.encoder, self.head)
        for part in self.parts:
            part.build()

    def mappings(self) -> list[VariableMapping]:
        return [
            *any_encoder_mappings(self.encoder),
            *linear_mappings(self.head, CLASSIFIER),
        ]

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {"rows": ops.sum(self.weights(batch))}

    def loss(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """This batch's part of the mean loss of the rows in `totals`.

        Args:
            batch: label_ids [B, length], and padded rows, which are input_ids,
                input_mask and segment_ids, each [B, S], one without input
                being padding; or packed ones (data/batching.py).
            totals: of the global batch, of which this may be one piece.
            seed: int32 [2], the key of the dropout; None for none.
        """
        return self.loss_of(self.logits(batch, seed), batch, totals)

    def loss_of(
        self, logits: Tensor, batch: Batch, totals: dict[str, Tensor]
    ) -> tuple[Tensor, Sums]:
        """As `loss`, of what `logits` gave."""
        total, sums = self.target.loss(
            logits, batch[LABELS], example_weights(batch)
        )
        # A batch of classes that weigh nothing costs nothing.
        return ops.divide_no_nan(total, totals["rows"]), sums

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """{"logits": [B, C]} without dropout."""
        return {"logits": self.logits(batch, None)}

    def logits(self, batch: Batch, seed: Tensor | None) -> Tensor:
        """[B, C]; the seed as in `loss`."""
        pooled = pooled_examples(self.encoder, batch, seed)
        return self.head(
            pooled, fused_ops.site_seed(seed, self.encoder.num_noise_sites)
        )

    def weights(self, batch: Batch) -> Tensor:
        """float32 [B]: how much each row counts."""
        return self.target.weights(batch[LABELS], example_weights(batch))


def pool_windows(
    logits: Iterable[np.ndarray],
    rows: Sequence[Sequence[InputFeatures]],
    pooling: str,
) -> Iterator[np.ndarray]:
    """Joins the logits [C] of each document's W windows into one [C].

    Args:
        logits: of all windows, document after document.
        pooling: "mean" or "max".
    """
    windows = iter(logits)
    for document in rows:
        members = [next(windows) for _ in document]
        yield np.mean(members, 0) if pooling == "mean" else np.max(members, 0)
