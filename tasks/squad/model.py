"""Fine-tuning on spans: encoder, and a head that scores both ends of one.

Devlin et al. 2018, section 4.2. Upstream file: run_squad.py, create_model.

Shapes: B examples, R rows (as many, unless they are packed), S positions.
"""

from keras import ops

from bert_keras.modeling.checkpoint import (
    SPAN,
    VariableMapping,
    encoder_mappings,
    linear_mappings,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.modeling.heads import LinearHead, cross_entropy
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.base import TaskModel
from bert_keras.tasks.packed_inputs import encode, example_weights, is_packed

NO_CLASS = -1e9  # a logit


class QuestionAnsweringModel(TaskModel):
    """An encoder with a head for starts and ends, their losses, accuracies.

    The pooler is not trained, as nothing looks at it; it is kept with the
    model, as upstream keeps it.
    """

    def __init__(
        self,
        config: BertConfig,
        padding_in_loss: bool = True,
        encoder: Encoder | None = None,
    ):
        """`padding_in_loss`: whether padding is among the classes. `encoder`:
        where it is not the plain one of the config."""
        self.padding_in_loss = padding_in_loss
        self.encoder = encoder or Encoder(config)
        self.head = LinearHead(self.encoder.config, 2, name="span")
        self.parts = (self.encoder, self.head)
        for part in self.parts:
            part.build()
        for pooler in self.encoder.poolers:
            pooler.trainable = False

    def mappings(self) -> list[VariableMapping]:
        return [
            *encoder_mappings(self.encoder),
            *linear_mappings(self.head, SPAN),
        ]

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {"rows": ops.sum(self.weights(batch))}

    def loss(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """This batch's part of the mean loss of the rows in `totals`.

        Each end is one of S classes. Positions of padding are among them, as
        they are upstream: a row's loss depends on S. Without them it does not.

        Args:
            batch: input_ids, input_mask, segment_ids, each [B, S], and
                start_positions and end_positions, each [B, 1]; a row without
                input is padding and counts for nothing. Without padding in the
                loss, rows may also be packed ones (data/batching.py).
            totals: of the global batch, of which this may be one piece.
            seed: int32 [2], the key of the dropout; None for none.
        """
        return self.loss_of(self.logits(batch, seed), batch, totals)

    def loss_of(
        self, logits: Tensor, batch: Batch, totals: dict[str, Tensor]
    ) -> tuple[Tensor, Sums]:
        """As `loss`, of what `logits` gave."""
        weights = self.weights(batch)
        shift: Tensor | int = 0  # where in its row each example begins
        if is_packed(batch):
            length = ops.shape(batch["sequence_numbers"])[1]
            shift = ops.mod(batch["first_positions"], length)
        start, end = (
            cross_entropy(
                logits[:, i], shift + batch[f"{end}_positions"][:, 0], weights
            )
            for i, end in enumerate(("start", "end"))
        )
        loss = (start.loss + end.loss) / (2.0 * totals["rows"])
        return loss, start.figures("start") | end.figures("end")

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """start_logits and end_logits, each [B, S], without dropout."""
        logits = self.head(encode(self.encoder, batch, None).sequence)
        return {
            "start_logits": logits[:, :, 0],
            "end_logits": logits[:, :, 1],
        }

    def weights(self, batch: Batch) -> Tensor:
        """float32 [B]: how much each row counts."""
        return example_weights(batch)

    def logits(self, batch: Batch, seed: Tensor | None) -> Tensor:
        """[B, 2, S], of the ends of each example, in the row where it lies; the
        seed as in `loss`."""
        logits = self.head(encode(self.encoder, batch, seed).sequence)
        is_class = None  # [B, S]; None: all positions
        if is_packed(batch):
            assert not self.padding_in_loss, "packed rows have none"
            numbers, first = batch["sequence_numbers"], batch["first_positions"]
            row = ops.floor_divide(first, ops.shape(numbers)[1])
            own = ops.take(ops.reshape(numbers, -1), first)  # [B]
            is_class = ops.equal(ops.take(numbers, row, axis=0), own[:, None])
            logits = ops.take(logits, row, axis=0)
        elif not self.padding_in_loss:
            is_class = batch["input_mask"] > 0
        if is_class is not None:
            logits = ops.where(is_class[:, :, None], logits, NO_CLASS)
        return ops.transpose(logits, (0, 2, 1))
