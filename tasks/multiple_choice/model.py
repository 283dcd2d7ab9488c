"""Multiple choice: each choice is a row, and one number scores it.

Devlin et al. 2018, section 4.4: [CLS] context [SEP] choice [SEP] for each of a
question's choices, the product of a vector with the pooled [CLS] as its score,
and a softmax over the scores of one question. Of google-research/bert no code
for it is public; as in Hugging Face's BertForMultipleChoice the vector has a
bias, which changes no share.

Shapes: Q questions, C choices of each, B = Q * C rows, S positions.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.errors import InputError
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.modeling.heads import cross_entropy
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.base import Outputs
from bert_keras.tasks.classification.model import LABELS, PooledClassifier
from bert_keras.tasks.keyword_settings import plain
from bert_keras.tasks.metrics import log_softmax
from bert_keras.tasks.multiple_choice.data import (
    encode_question,
    read_questions,
)
from bert_keras.tasks.squad.model import NO_CLASS

NUM_CHOICES = "num_choices"


@keras.saving.register_keras_serializable("bert_keras")
class MultipleChoice(PooledClassifier):
    """A score for each row, and the loss of whole questions.

    `call` takes input_ids, input_mask and segment_ids, each [Q, C, S], and
    gives logits [Q, C]. `outputs_by_name` takes rows [B, S] in any order.

    Examples:
        >>> model = bert_keras.MultipleChoice.from_folder("swag")
        >>> inputs = model.tokenize([("The sky is", ["a dog", "blue"])])
        >>> model.predict(inputs, verbose=0).argmax(1)
        array([1])
    """

    defaults = {"target": "choice", "max_seq_length": 128}
    targets = ("choice",)

    def __init__(
        self, config: BertConfig, encoder: Encoder | None = None, **kwargs: Any
    ):
        """
        Args:
            config: the encoder's.
            encoder: None: a new one of the config.
            kwargs: name, dtype and trainable, as every Keras model has.
        """
        super().__init__(config, 1, "choice", encoder, **kwargs)

    def tokenize(
        self, texts: Sequence[Any], max_length: int | None = None
    ) -> dict[str, np.ndarray]:
        """Makes inputs of contexts with choices. As in training, a context that
        is too long loses its end, then a choice its beginning.

        Examples:
            >>> model = bert_keras.MultipleChoice.from_folder("swag")
            >>> inputs = model.tokenize([("The sky is", ["blue", "a dog"])])
            >>> inputs["input_ids"].shape
            (1, 2, 8)

        Args:
            texts: N tuples of a context and its C choices.
            max_length: in tokens, [CLS] and [SEP] included. None: the settings'
                max_seq_length.

        Returns:
            input_ids, input_mask and segment_ids, each int32 [N, C, S], S being
            the length of the longest.

        Raises:
            InputError: the model has no tokenizer or fewer positions, or the
                numbers of choices differ.
        """
        tokenizer, max_length = self._reader(max_length)
        entries = []
        for number, parts in enumerate(plain(texts)):
            if not isinstance(parts, list) or len(parts) != 2:
                raise InputError(
                    f"number {number} of `texts` is {repr(parts)[:60]}; "
                    "expected a tuple of a context and its choices"
                )
            entries.append({"context": parts[0], "choices": parts[1]})
        questions = read_questions(entries, "texts", has_labels=False)
        rows: list[InputFeatures] = []
        for question in questions:
            if len(question.choices) != len(questions[0].choices):
                raise InputError(
                    f"{question.guid} has {len(question.choices)} choices and "
                    f"the first {len(questions[0].choices)}; expected as many "
                    "in each"
                )
            rows += encode_question(question, tokenizer, max_length)[0]
        longest = max((len(row.input_ids) for row in rows), default=1)
        return {
            name: x.reshape(len(questions), -1, longest)
            for name, x in pad(rows, longest, len(rows)).items()
        }

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {"questions": ops.sum(_weights(batch))}

    def loss_of(
        self, logits: Tensor, batch: Batch, totals: dict[str, Tensor]
    ) -> tuple[Tensor, Sums]:
        """Reads label_ids and num_choices, each [Q, 1], a question without
        choices being padding. Logits are those of rows, [B, 1] or [Q, C],
        question after question; past num_choices they count for nothing."""
        labels = batch[LABELS][:, 0]
        scores = ops.reshape(logits, (ops.shape(labels)[0], -1))
        place = ops.arange(ops.shape(scores)[1], dtype="int32")
        scores = ops.where(place < batch[NUM_CHOICES], scores, NO_CLASS)
        sums = cross_entropy(scores, labels, _weights(batch))
        return sums.loss / totals["questions"], {
            "accuracy": (sums.correct, sums.weight)
        }

    def label_limits(self, batch: Batch) -> dict[str, tuple[Any, Tensor]]:
        return {LABELS: (batch[NUM_CHOICES], _weights(batch)[:, None])}

    def call(
        self,
        inputs: Batch,
        seed: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        num_questions, num_choices, length = ops.shape(inputs["input_ids"])
        rows = {
            name: ops.reshape(x, (num_questions * num_choices, length))
            for name, x in inputs.items()
            if name in ("input_ids", "input_mask", "segment_ids")
        }
        scores = super().call(rows, seed)
        return ops.reshape(scores, (num_questions, num_choices))

    def compute_output_spec(self, inputs: Batch, **_: Any) -> Any:
        return keras.KerasTensor(inputs["input_ids"].shape[:2], "float32")


def _weights(batch: Batch) -> Tensor:
    """float32 [Q]: 0 for padding, else 1."""
    return ops.cast(batch[NUM_CHOICES][:, 0] > 0, "float32")


def log_shares(outputs: Sequence[Outputs]) -> np.ndarray:
    """The logits [1] of a question's rows -> log-probabilities [C]."""
    return log_softmax(np.concatenate([row["logits"] for row in outputs]))
