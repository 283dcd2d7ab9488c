"""Fine-tuning on tags of words: encoder, and a linear head on first tokens.

Devlin et al. 2018, sections 4 (figure 4d) and 5.3: the head is on the vector of
a word's first token, and no tag looks at another, as a CRF's would.

Shapes: B examples, R rows (as many, unless they are packed), S positions, P
words of an example, H hidden size, C tags.
"""

from typing import Any

import keras
from keras import ops

from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.attention import vectors_at
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.modeling.heads import LinearHead, cross_entropy
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.classification.model import HEAD_DROPOUT_PROB, LABELS
from bert_keras.tasks.packed_inputs import encode_tokens, is_packed
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.tasks.task_model import TaskModel

POSITIONS = "label_positions"


class Tagger(TaskModel):
    """A model of the tags of words."""

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        """The words that have labels."""
        return {"words": ops.sum(ops.cast(batch[LABELS] > 0, "float32"))}

    def label_limits(self, batch: Batch) -> dict[str, tuple[Any, Tensor]]:
        return {LABELS: (1 + self.head.num_classes, ops.ones(()))}

    def loss_of(
        self, logits: Tensor, batch: Batch, totals: dict[str, Tensor]
    ) -> tuple[Tensor, Sums]:
        """Reads label_ids [B, P]: a label's number + 1, or 0 where there is
        none; logits are [B, P, C]."""
        labels = batch[LABELS]
        weights = ops.cast(labels > 0, "float32")
        sums = cross_entropy(logits, ops.maximum(labels - 1, 0), weights)
        # Windows may hold nothing but words that others answer about.
        loss = ops.divide_no_nan(sums.loss, totals["words"])
        return loss, {"accuracy": (sums.correct, sums.weight)}


@keras.saving.register_keras_serializable("bert_keras")
class TokenClassifier(Tagger):
    """An encoder with a head for the tags of words. `call` gives logits.

    Without a loss of yours, `fit` reads label_ids, int [B, P], the number of a
    word's label + 1 and 0 where there is none, at label_positions [B, P].

    The pooler is not trained, as nothing looks at it but in a ModernBERT; it is
    kept with the model.

    Examples:
        >>> model = bert_keras.TokenClassifier.from_folder("ner")
        >>> inputs = model.tokenize(["Ann saw Rome."])
        >>> logits = model.predict(inputs, verbose=0)
        >>> [model.settings.labels[i] for i in logits[0].argmax(1)[1:-1]]
        ['B-PER', 'O', 'B-LOC', 'O']
    """

    defaults = {"target": "tags", "max_seq_length": 128}
    targets = ("tags",)
    takes_pairs = False

    def __init__(
        self,
        config: BertConfig,
        num_tags: int,
        encoder: Encoder | None = None,
        **kwargs: Any,
    ):
        """
        Args:
            config: the encoder's.
            num_tags: C.
            encoder: None: a new one of the config.
            kwargs: name, dtype and trainable, as every Keras model has.
        """
        super().__init__(config, encoder, **kwargs)
        self.head = LinearHead(
            config, num_tags, HEAD_DROPOUT_PROB, name="classifier"
        )
        self.build_layers()
        if not config.traits.shares_pooler:
            self.encoder.pooler.trainable = False

    @classmethod
    def from_settings(
        cls, config: BertConfig, settings: TaskConfig, **kwargs: Any
    ) -> "TokenClassifier":
        if not settings.labels or settings.feature_layers is not None:
            raise InputError(
                "the tags are not known, or are told from the features of an "
                "encoder; give `labels`, and `feature_layers=None`"
            )
        return cls(config, len(settings.labels), **kwargs)

    def logits(self, batch: Batch, seed: Tensor | None) -> Tensor:
        """[B, P, C] of words; without label_positions [B, S, C].

        Args:
            batch: label_positions [B, P], and padded rows, which are input_ids,
                input_mask and segment_ids, each [B, S], or packed ones
                (data/batching.py).
            seed: int32 [2], the key of dropout; None: without dropout, unless
                Keras trains.
        """
        sequence = encode_tokens(self.encoder, batch, seed)
        site = fused_ops.dropout_seed(seed, self.encoder.num_noise_sites)
        logits = self.head(sequence, site)  # [R, S, C]
        if POSITIONS not in batch:
            return logits
        num_rows, length, num_tags = ops.shape(logits)
        first = (
            batch["first_positions"]
            if is_packed(batch)
            else ops.arange(num_rows, dtype="int32") * length
        )
        places = first[:, None] + batch[POSITIONS]  # [B, P]
        return ops.take(ops.reshape(logits, (-1, num_tags)), places, axis=0)

    def outputs_by_name(self, batch: Batch) -> dict[str, Tensor]:
        """{"logits"} without dropout: [B, P, C] where the batch has positions
        [B, P], those of words; else [B, S, C]."""
        x = encode_tokens(self.encoder, batch, None)
        if "positions" in batch:
            x = vectors_at(x, batch["positions"])
        return {"logits": self.head(x)}

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"num_tags": self.head.num_classes}

    def compute_output_spec(self, inputs: Batch, **_: Any) -> Any:
        name = POSITIONS if POSITIONS in inputs else "input_ids"
        shape = *inputs[name].shape, self.head.num_classes
        return keras.KerasTensor(shape, "float32")
