"""Pre-training: masked language model and next-sentence prediction at once, or
the first alone.

Devlin et al. 2018, section 3.1, and "No NSP" of section 5.1; Liu et al. 2019,
section 4.2. Upstream file: run_pretraining.py. A row is one record of
create_pretraining_data.py or, packed, several (data/packing.py); both losses
are means over predictions and sequences, however these lie in rows.

Shapes: B batch, S positions, H hidden size, P masked predictions, K sequences
of a packed row.
"""

from typing import Any

import keras
from keras import ops

from bert_keras.data.input_features import split_at_masks
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.modeling.checkpoint import (
    NEXT_SENTENCE,
    VariableMapping,
    encoder_mappings,
    linear_mappings,
    masked_lm_mappings,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder, read_by_heads
from bert_keras.modeling.heads import (
    LinearHead,
    cross_entropy,
    masked_lm_head,
    row_weights,
)
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.packed_inputs import encode, is_packed
from bert_keras.tasks.task_model import TaskModel

MASKED_LM_EPSILON = 1e-5  # upstream's guard against a batch without masks


@keras.saving.register_keras_serializable("bert_keras")
class MaskedLm(TaskModel):
    """An encoder with the head of the masked language model.

    The pooler is not trained, as nothing looks at it but in a ModernBERT; it is
    kept with the model, so that fine-tuning finds one.

    Examples:
        >>> model = bert_keras.MaskedLm.from_folder("bert")
        >>> inputs = model.tokenize(["The sky is [MASK]."])
        >>> logits = model.predict(inputs, verbose=0)
        >>> tokenizer = model.tokenizer.load()
        >>> is_mask = inputs["input_ids"] == tokenizer.vocab["[MASK]"]
        >>> [tokenizer.inv_vocab[i] for i in logits[is_mask].argmax(1)]
        ['blue']
    """

    metric_names: tuple[str, ...] = ("masked_lm_loss", "masked_lm_accuracy")

    def __init__(
        self, config: BertConfig, encoder: Encoder | None = None, **kwargs: Any
    ):
        """
        Args:
            config: the encoder's.
            encoder: None: a new one of the config.
            kwargs: name, dtype and trainable, as every Keras model has.
        """
        super().__init__(config, encoder, **kwargs)
        self.masked_lm = masked_lm_head(config, dtype=self.dtype_policy)
        self.build_layers()
        if not config.traits.shares_pooler:
            self.encoder.pooler.trainable = False

    def mappings(self) -> list[VariableMapping]:
        return [
            *encoder_mappings(self.encoder),
            *masked_lm_mappings(self.masked_lm),
        ]

    def split(self, text: str, tokenizer: Tokenizer) -> list[str]:
        """Each [MASK] in the text is a token."""
        return split_at_masks(text, tokenizer)

    def logits(self, batch: Batch, seed: Tensor | None) -> Any:
        """[B, P, V] at masked_lm_positions [B, P]; without them [B, S, V].

        Args:
            batch: the features of a pre-training record, packed or not, each
                [B, length].
            seed: int32 [2], the key of dropout; None: without dropout, unless
                Keras trains.
        """
        places = batch.get("masked_lm_positions")
        outputs = encode(self.encoder, batch, seed, None, places)
        return self.word_scores(outputs.sequence)

    def word_scores(self, sequence: Tensor) -> Tensor:
        """[B, P, H] -> [B, P, V]."""
        tokens = read_by_heads(self.encoder, sequence)
        return self.masked_lm(tokens, self.word_embeddings)

    @property
    def word_embeddings(self) -> Tensor:
        return self.encoder.embeddings.word_embeddings

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {"masked_lm": ops.sum(batch["masked_lm_weights"])}

    def loss_of(
        self, logits: Any, batch: Batch, totals: dict[str, Tensor]
    ) -> tuple[Tensor, Sums]:
        """Reads masked_lm_ids and masked_lm_weights, and no labels of next
        sentences."""
        sums = cross_entropy(
            logits, batch["masked_lm_ids"], batch["masked_lm_weights"]
        )
        loss = sums.loss / (totals["masked_lm"] + MASKED_LM_EPSILON)
        return loss, sums.figures("masked_lm")

    def label_limits(self, batch: Batch) -> dict[str, tuple[Any, Tensor]]:
        limit = self.encoder.config.vocab_size
        return {"masked_lm_ids": (limit, batch["masked_lm_weights"])}

    def predictions(self, batch: Batch) -> Tensor:
        """The likeliest id at each of masked_lm_positions, int [B, P]."""
        return ops.argmax(MaskedLm.logits(self, batch, None), axis=-1)

    def compute_output_spec(self, inputs: Batch, **_: Any) -> Any:
        name = "masked_lm_positions"
        name = name if name in inputs else "input_ids"
        shape = *inputs[name].shape, self.encoder.config.vocab_size
        return keras.KerasTensor(shape, self.compute_dtype)


@keras.saving.register_keras_serializable("bert_keras")
class Pretraining(MaskedLm):
    """An encoder with both heads, their losses and their accuracies.

    `call` gives {"masked_lm": [B, P, V], "next_sentence": [B, 2]}.

    Examples:
        >>> model = bert_keras.Pretraining.from_folder("bert")
        >>> model.compile("adamw")  # its own loss, of the records' labels
        >>> data = bert_keras.record_dataset("records.tfrecord", batch_size=8)
        >>> history = model.fit(data, steps_per_epoch=2, verbose=0)
        >>> sorted(history.history)
        ['loss']
    """

    metric_names = (
        *MaskedLm.metric_names,
        "next_sentence_loss",
        "next_sentence_accuracy",
    )

    def __init__(
        self, config: BertConfig, encoder: Encoder | None = None, **kwargs: Any
    ):
        super().__init__(config, encoder, **kwargs)
        self.encoder.pooler.trainable = True
        self.next_sentence = LinearHead(config, 2, name="next_sentence")
        self.next_sentence.build()

    def mappings(self) -> list[VariableMapping]:
        return [
            *super().mappings(),
            *linear_mappings(self.next_sentence, NEXT_SENTENCE),
        ]

    def logits(self, batch: Batch, seed: Tensor | None) -> Any:
        """{"masked_lm": [B, P, V], "next_sentence": [B, 2], or [B, K, 2] of
        packed rows}; of a batch as in MaskedLm."""
        pooled_at = batch.get("next_sentence_positions")  # of packed rows
        places = batch.get("masked_lm_positions")
        outputs = encode(self.encoder, batch, seed, pooled_at, places)
        return {
            "masked_lm": self.word_scores(outputs.sequence),
            "next_sentence": self.next_sentence(outputs.pooled),
        }

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {
            **super().totals(batch),
            "next_sentence": ops.sum(_sequence_weights(batch)),
        }

    def loss_of(
        self, logits: Any, batch: Batch, totals: dict[str, Tensor]
    ) -> tuple[Tensor, Sums]:
        """Reads the features of pre-training records, packed or not, each
        [B, length]. Rows without input are padding and do not count."""
        loss, figures = super().loss_of(logits["masked_lm"], batch, totals)
        labels = batch["next_sentence_labels"]
        if not is_packed(batch):  # one sequence a row
            labels = labels[:, 0]
        pair = cross_entropy(
            logits["next_sentence"], labels, _sequence_weights(batch)
        )
        loss += pair.loss / totals["next_sentence"]
        return loss, figures | pair.figures("next_sentence")

    def label_limits(self, batch: Batch) -> dict[str, tuple[Any, Tensor]]:
        weights = _sequence_weights(batch)
        if not is_packed(batch):
            weights = weights[:, None]
        return {
            **super().label_limits(batch),
            "next_sentence_labels": (2, weights),
        }

    def compute_output_spec(self, inputs: Batch, **_: Any) -> Any:
        shape: tuple[int | None, ...] = (inputs["input_ids"].shape[0], 2)
        if (places := inputs.get("next_sentence_positions")) is not None:
            shape = *places.shape, 2
        return {
            "masked_lm": super().compute_output_spec(inputs),
            "next_sentence": keras.KerasTensor(shape, "float32"),
        }


def _sequence_weights(batch: Batch) -> Tensor:
    """float32 [B], of packed rows [B, K]: 0 where there is no sequence."""
    if is_packed(batch):
        return batch["next_sentence_weights"]
    return row_weights(batch["input_mask"])
