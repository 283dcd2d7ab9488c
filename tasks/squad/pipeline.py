"""Answers of a question answering model: a part of a paragraph."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from bert_keras.errors import InputError
from bert_keras.tasks.base import Outputs
from bert_keras.tasks.keyword_settings import as_list
from bert_keras.tasks.pipeline import (
    BATCH_SIZE,
    Question,
    TaskPipeline,
    pairs_of,
)
from bert_keras.tasks.squad.data import SquadExample, split_words
from bert_keras.tasks.squad.features import make_windows
from bert_keras.tasks.squad.model import QuestionAnsweringModel
from bert_keras.tasks.squad.postprocessing import (
    NOTHING,
    Answerer,
    logits_of,
)


@dataclasses.dataclass(frozen=True)
class PredictedAnswer:
    """A part of a paragraph: paragraph[begin:end], with single spaces.

    Of a model with `answer_offsets=google`, begin and end are those of the
    words around the answer.
    """

    answer: str  # "" where the paragraph does not answer the question
    probability: float  # among the best spans
    score: float  # the sum of both ends' logits
    begin: int | None  # index of its first character; None without an answer
    end: int | None  # index behind its last character
    null_odds: float | None = None  # score of no answer less the best one's


class QuestionAnsweringPipeline(TaskPipeline):
    """A question, a tab, a paragraph: the part of it that is the answer."""

    model_class = QuestionAnsweringModel
    needs_pooler = False
    answers_tokens = True
    method = "answer"

    @functools.cached_property
    def answerer(self) -> Answerer:
        return Answerer(self.tokenizer, self.settings)

    def answer(
        self,
        questions: str | Sequence[str],
        paragraphs: str | Sequence[str],
        batch_size: int = BATCH_SIZE,
        progress: bool = False,
    ) -> Any:
        """Answers a question, or several.

        Examples:
            >>> model = bert_keras.load("squad")
            >>> found = model.answer("What is blue?", "The sky is blue.")
            >>> found.answer, found.begin, found.end
            ('sky', 4, 7)

        Args:
            paragraphs: one of each question, or one for all.

        Returns:
            A PredictedAnswer, or a list of them.
        """
        several = as_list(questions)
        if isinstance(paragraphs, str):
            paragraphs = [paragraphs] * len(several)
        return self.ask(
            pairs_of("questions", several, "paragraphs", as_list(paragraphs)),
            isinstance(questions, str),
            PredictedAnswer,
            batch_size,
            progress,
        )

    def preprocess(self, number: int, texts: Sequence[str]) -> Question:
        question, paragraph = texts[0], "\t".join(texts[1:])
        if not question.strip() or not paragraph.strip():
            raise InputError("expected a question, a tab and a paragraph")
        example = SquadExample(str(number), question, split_words(paragraph))
        (windows,) = make_windows([example], self.tokenizer, self.settings)
        if not windows:
            raise InputError("there is nothing readable in the paragraph")
        notes = []
        if windows[0].question_length > self.settings.max_query_length:
            notes.append(
                f"its question is cut to {self.settings.max_query_length} "
                "tokens"
            )
        if len(windows) > 1:
            notes.append(
                f"its paragraph is read through {len(windows)} windows of "
                f"{self.settings.max_seq_length} tokens"
            )
        rows = [window.row for window in windows]
        return Question(number, rows, (example, windows), "; ".join(notes))

    def postprocess(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        example, windows = question.content
        logits = logits_of(windows, outputs)
        found = self.answerer.answer(example, windows, logits)
        text = found.text(self.settings.null_score_diff_threshold)
        place = [entry.text for entry in found.nbest].index(text)
        probability = found.probabilities[place]
        begin, end = found.nbest[place].place or (None, None)
        if text == NOTHING and begin is None:  # no span was allowed
            text, probability = "", 0.0
        fields = {
            "answer": text,
            "probability": probability,
            "score": found.nbest[place].score,
            "begin": begin,
            "end": end,
        }
        if found.null_odds is not None:
            fields["null_odds"] = found.null_odds
        return fields, [text, f"{probability:.6f}"]
