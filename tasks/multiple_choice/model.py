"""Multiple choice: each choice is a row, and one number scores it.

Devlin et al. 2018, section 4.4: [CLS] context [SEP] choice [SEP] for each of a
question's choices, the product of a vector with the pooled [CLS] as its score,
and a softmax over the scores of one question. Of google-research/bert no code
for it is public; as in Hugging Face's BertForMultipleChoice the vector has a
bias, which changes no share.

Shapes: Q questions, C choices of each, B = Q * C rows, S positions.
"""

import collections
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from keras import ops

from bert_keras.data.input_features import InputFeatures, make_features
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import with_flags
from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import (
    CLASSIFIER,
    VariableMapping,
    encoder_mappings,
    linear_mappings,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.modeling.heads import LinearHead, cross_entropy
from bert_keras.modeling.tensors import Batch, Tensor
from bert_keras.tasks.base import TaskModel
from bert_keras.tasks.classification.label_types import LABELS, Sums
from bert_keras.tasks.classification.model import HEAD_DROPOUT_PROB
from bert_keras.tasks.metrics import log_softmax
from bert_keras.tasks.packed_inputs import pooled_examples
from bert_keras.tasks.squad.model import NO_CLASS
from bert_keras.training.inference import with_progress

NUM_CHOICES = "num_choices"
CONTEXTS, CHOICES_TOO = "contexts", "contexts and choices"  # that were cut


class MultipleChoiceExample(NamedTuple):
    guid: str  # where it comes from, for people
    context: str
    choices: tuple[str, ...]  # each with the question, where there is one
    label: int | None  # number of the right one; None: not known


def encode_questions(
    questions: Sequence[MultipleChoiceExample],
    tokenizer: Tokenizer,
    max_seq_length: int,
) -> list[list[InputFeatures]]:
    """The rows of each question; how many were cut is said on standard
    error."""
    encoded, cuts = [], collections.Counter[str]()
    for question in with_progress(
        questions, len(questions), " questions", "tokens"
    ):
        rows, cut = encode_question(question, tokenizer, max_seq_length)
        encoded.append(rows)
        cuts[cut] += 1
    for cut, count in cuts.items():
        if cut:
            text = (
                f"{count} of {len(questions)} questions are longer than "
                f"`max_seq_length={max_seq_length}` pieces; their {cut} were "
                "cut"
            )
            print(with_flags(text), file=sys.stderr)
    return encoded


def encode_question(
    question: MultipleChoiceExample, tokenizer: Tokenizer, max_seq_length: int
) -> tuple[list[InputFeatures], str]:
    """A row for each choice, and what was cut: "", CONTEXTS or CHOICES_TOO.

    The context gives way: context "a b c d" with the choices "e" and "f g" in
    7 pieces is [CLS] a b c [SEP] e [SEP] and [CLS] a b [SEP] f g [SEP]. Of a
    choice that does not fit by itself, its beginning does.
    """
    room = max_seq_length - tokenizer.special_tokens.count(is_pair=True)
    context = tokenizer.tokenize(question.context)
    rows, cut = [], ""
    for choice in question.choices:
        second = tokenizer.tokenize(choice)
        if len(second) > room:
            cut = CHOICES_TOO
        elif len(context) + len(second) > room:
            cut = cut or CONTEXTS
        second = second[-room:]
        first = context[: room - len(second)]
        rows.append(make_features(first, second, max_seq_length, tokenizer))
    return rows, cut


def pad_choices(
    encoded: Sequence[list[InputFeatures]],
) -> tuple[list[InputFeatures], int]:
    """All rows, those of a question filled up with empty ones to as many as
    any question has; and this number C."""
    most = max(map(len, encoded))
    filled = (
        rows + [InputFeatures([], [])] * (most - len(rows)) for rows in encoded
    )
    return [row for rows in filled for row in rows], most


class MultipleChoice(TaskModel):
    """An encoder, a score for each row, and the loss of whole questions."""

    def __init__(self, config: BertConfig):
        self.encoder = Encoder(config)
        self.head = LinearHead(config, 1, HEAD_DROPOUT_PROB, name="choice")
        self.parts = (self.encoder, self.head)
        for part in self.parts:
            part.build()

    def mappings(self) -> list[VariableMapping]:
        return [
            *encoder_mappings(self.encoder),
            *linear_mappings(self.head, CLASSIFIER),
        ]

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {"questions": ops.sum(_weights(batch))}

    def loss(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """This batch's part of the mean loss of the questions in `totals`.

        Args:
            batch: label_ids and num_choices, each [Q, 1], a question without
                choices being padding; and its rows, question after question,
                C of each, of which those past num_choices count for nothing:
                input_ids, input_mask and segment_ids [B, S], or packed ones
                (data/batching.py).
            totals: of the global batch, of which this may be one piece.
            seed: int32 [2], the key of the dropout; None for none.
        """
        num_questions = ops.shape(batch[LABELS])[0]
        scores = ops.reshape(self._scores(batch, seed), (num_questions, -1))
        place = ops.arange(ops.shape(scores)[1], dtype="int32")
        scores = ops.where(place < batch[NUM_CHOICES], scores, NO_CLASS)
        sums = cross_entropy(scores, batch[LABELS][:, 0], _weights(batch))
        return sums.loss / totals["questions"], {
            "accuracy": (sums.correct, sums.weight)
        }

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """{"logits": [B, 1]} without dropout: rows may come in any order."""
        return {"logits": self._scores(batch, None)}

    def _scores(self, batch: Batch, seed: Tensor | None) -> Tensor:
        """[B, 1]."""
        pooled = pooled_examples(self.encoder, batch, seed)
        return self.head(
            pooled, fused_ops.site_seed(seed, self.encoder.num_noise_sites)
        )


def _weights(batch: Batch) -> Tensor:
    """float32 [Q]: 0 for padding, else 1."""
    return ops.cast(batch[NUM_CHOICES][:, 0] > 0, "float32")


def log_shares(scores: Sequence[np.ndarray]) -> np.ndarray:
    """The logits [1] of a question's rows -> log-probabilities [C]."""
    return log_softmax(np.concatenate(scores))
