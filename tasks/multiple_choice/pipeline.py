"""Answers of a multiple choice model: which of several texts fits."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.errors import InputError
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.base import Outputs, Question, TaskPipeline
from bert_keras.tasks.multiple_choice.data import (
    CHOICES_TOO,
    MultipleChoiceExample,
    encode_question,
)
from bert_keras.tasks.multiple_choice.model import MultipleChoice, log_shares
from bert_keras.tasks.task_config import TaskConfig


class MultipleChoicePipeline(TaskPipeline):
    """A context, a tab, a choice, a tab, a choice, ...: the one that fits."""

    needs_pooler = True
    reads_pairs = True

    @staticmethod
    def make_model(config: BertConfig, settings: TaskConfig) -> MultipleChoice:
        return MultipleChoice(config)

    @staticmethod
    def exported(
        outputs: dict[str, Any], settings: TaskConfig
    ) -> dict[str, Any]:
        """Of [B, 1] logits; a softmax over a question's rows is left."""
        return {"score": outputs["logits"][:, 0]}

    def read(self, number: int, texts: Sequence[str]) -> Question:
        context, *choices = texts
        if len(choices) < 2:
            raise InputError(
                f"it has {len(choices)} choices; expected a context and two or "
                "more choices, with a tab before each"
            )
        length = self.settings.max_seq_length
        example = MultipleChoiceExample("", context, tuple(choices), None)
        rows, cut = encode_question(example, self.tokenizer, length)
        what = "context and choices are" if cut == CHOICES_TOO else "context is"
        note = f"its {what} cut to {length} pieces" if cut else ""
        return Question(number, rows, choices, note)

    def answer(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        logs = log_shares([output["logits"] for output in outputs])
        best, shares = int(logs.argmax()), np.exp(logs).tolist()
        text = question.content[best]
        fields = {"choice": best, "text": text, "probabilities": shares}
        return fields, [str(best), text, *(f"{x:.6f}" for x in shares)]
