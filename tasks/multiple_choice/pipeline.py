"""Answers of a multiple choice model: which of several texts fits."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.errors import InputError
from bert_keras.tasks.base import Outputs
from bert_keras.tasks.keyword_settings import as_list
from bert_keras.tasks.multiple_choice.data import (
    CHOICES_TOO,
    MultipleChoiceExample,
    encode_question,
)
from bert_keras.tasks.multiple_choice.model import MultipleChoice, log_shares
from bert_keras.tasks.pipeline import (
    BATCH_SIZE,
    Question,
    TaskPipeline,
    pairs_of,
)
from bert_keras.tasks.task_config import TaskConfig


@dataclasses.dataclass(frozen=True)
class Choice:
    """The choice that fits best."""

    choice: int  # its index
    text: str
    probabilities: list[float]  # of each choice; their sum is 1


class MultipleChoicePipeline(TaskPipeline):
    """A context, a tab, a choice, a tab, a choice, ...: the one that fits."""

    model_class = MultipleChoice
    needs_pooler = True
    reads_pairs = True
    method = "choose"

    def choose(
        self,
        contexts: str | Sequence[str],
        choices: Sequence[str] | Sequence[Sequence[str]],
        batch_size: int = BATCH_SIZE,
        progress: bool = False,
    ) -> Any:
        """Chooses what fits a context, or what fits each of several.

        Examples:
            >>> model = bert_keras.load("swag")
            >>> answer = model.choose("The sky is", ["a dog", "blue"])
            >>> answer.choice, answer.text
            (1, 'blue')

        Args:
            choices: two or more texts; of several contexts a list of such
                lists.

        Returns:
            A Choice, or a list of them.
        """
        is_one = isinstance(contexts, str)
        several = [choices] if is_one else as_list(choices)
        questions = pairs_of("contexts", as_list(contexts), "choices", several)
        lines = [(context, *as_list(texts)) for context, texts in questions]
        return self.ask(lines, is_one, Choice, batch_size, progress)

    @staticmethod
    def exported(
        outputs: dict[str, Any], settings: TaskConfig
    ) -> dict[str, Any]:
        """Of [B, 1] logits; a softmax over a question's rows is left."""
        return {"score": outputs["logits"][:, 0]}

    def preprocess(self, number: int, texts: Sequence[str]) -> Question:
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
        note = f"its {what} cut to {length} tokens" if cut else ""
        return Question(number, rows, choices, note)

    def postprocess(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        logs = log_shares(outputs)
        best, shares = int(logs.argmax()), np.exp(logs).tolist()
        text = question.content[best]
        fields = {"choice": best, "text": text, "probabilities": shares}
        return fields, [str(best), text, *(f"{x:.6f}" for x in shares)]
