"""Fine-tuning on spans: encoder, and a head that scores both ends of one.

Devlin et al. 2018, section 4.2. Upstream file: run_squad.py, create_model.

Shapes: B examples, R rows (as many, unless they are packed), S positions.
"""

from typing import Any

import keras
from keras import ops

from bert_keras.modeling.checkpoint import SPAN
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.modeling.heads import LinearHead, cross_entropy
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.packed_inputs import (
    encode_tokens,
    example_weights,
    is_packed,
)
from bert_keras.tasks.task_model import TaskModel

NO_CLASS = -1e9  # a logit
ENDS = "start", "end"


@keras.saving.register_keras_serializable("bert_keras")
class QuestionAnsweringModel(TaskModel):
    """An encoder with a head for starts and ends, their losses, accuracies.

    `call` gives {"start": [B, S], "end": [B, S]}, logits of positions.

    The pooler is not trained, as nothing looks at it but in a ModernBERT; it is
    kept with the model, as upstream keeps it.

    Examples:
        >>> model = bert_keras.QuestionAnsweringModel.from_folder("squad")
        >>> inputs = model.tokenize([("What is blue?", "The sky is blue.")])
        >>> logits = model.predict(inputs, verbose=0)
        >>> logits["start"].shape, logits["end"].shape
        ((1, 12), (1, 12))
    """

    defaults = {"target": "span", "max_seq_length": 384, "doc_stride": 128}
    targets = ("span",)
    head_scope = SPAN

    def __init__(
        self,
        config: BertConfig,
        padding_in_loss: bool = True,
        encoder: Encoder | None = None,
        **kwargs: Any,
    ):
        """
        Args:
            config: the encoder's.
            padding_in_loss: whether padding is among the classes.
            encoder: None: a new one of the config.
            kwargs: name, dtype and trainable, as every Keras model has.
        """
        super().__init__(config, encoder, **kwargs)
        self.padding_in_loss = padding_in_loss
        self.head = LinearHead(self.encoder.config, 2, name="span")
        self.build_layers()
        if not config.traits.shares_pooler:
            for pooler in self.encoder.poolers:
                pooler.trainable = False

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {"rows": ops.sum(example_weights(batch))}

    def loss_of(
        self, logits: Any, batch: Batch, totals: dict[str, Tensor]
    ) -> tuple[Tensor, Sums]:
        """Reads start_positions and end_positions, each [B, 1]. Rows without
        input are padding and do not count.

        Each end is one of S classes. Positions of padding are among them, as
        they are upstream: a row's loss depends on S. Without them it does not.
        """
        weights = example_weights(batch)
        shift: Tensor | int = 0  # where in its row each example begins
        if is_packed(batch):
            length = ops.shape(batch["sequence_numbers"])[1]
            shift = ops.mod(batch["first_positions"], length)
        start, end = (
            cross_entropy(
                logits[end], shift + batch[f"{end}_positions"][:, 0], weights
            )
            for end in ENDS
        )
        loss = (start.loss + end.loss) / (2.0 * totals["rows"])
        return loss, start.figures("start") | end.figures("end")

    def label_limits(self, batch: Batch) -> dict[str, tuple[Any, Tensor]]:
        if is_packed(batch):
            return {}
        length = ops.shape(batch["input_ids"])[1]
        weights = example_weights(batch)[:, None]
        return {f"{end}_positions": (length, weights) for end in ENDS}

    def outputs_by_name(self, batch: Batch) -> dict[str, Tensor]:
        """start_logits and end_logits, each [B, S], without dropout."""
        logits = self.head(encode_tokens(self.encoder, batch, None))
        return {"start_logits": logits[:, :, 0], "end_logits": logits[:, :, 1]}

    def example_weights(self, batch: Batch) -> Tensor:
        """float32 [B]: how much each example counts."""
        return example_weights(batch)

    def logits(self, batch: Batch, seed: Tensor | None) -> dict[str, Tensor]:
        """{"start": [B, S], "end": [B, S]}, of the ends of each example, in the
        row where it lies.

        Args:
            batch: input_ids, input_mask and segment_ids, each [B, S]. Without
                padding in the loss, rows may also be packed ones
                (data/batching.py).
            seed: int32 [2], the key of dropout; None: without dropout, unless
                Keras trains.
        """
        logits = self.head(encode_tokens(self.encoder, batch, seed))
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
        return dict(zip(ENDS, ops.unstack(logits, axis=2), strict=True))

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"padding_in_loss": self.padding_in_loss}

    def compute_output_spec(self, inputs: Batch, **_: Any) -> Any:
        shape = inputs["input_ids"].shape
        return {end: keras.KerasTensor(shape, "float32") for end in ENDS}
