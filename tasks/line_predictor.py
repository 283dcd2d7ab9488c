"""Lines of text in, answers out, whatever kind of model answers them.

A kind of model reads a line into rows, and makes an answer of their outputs
(tasks/line_kinds.py); what all kinds share is `LinePredictor`. Lines that
cannot be answered get an answer that says why, so that answers and lines stay
side by side.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from bert_keras.data.input_features import (
    Batch,
    InputFeatures,
    bucket_by_length,
    run_documents,
)
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import LoadReport, VariableMapping

BATCH_SIZE = 32  # rows
EMPTY = "the line is empty"

# A text with tabs between its parts, or the columns of a table's row.
Line = str | tuple[str, ...]

Outputs = dict[str, np.ndarray]
Run = Callable[[Iterable[Batch]], Iterator[Outputs]]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a model says to a line."""

    number: int  # of the line, from 1
    fields: dict[str, Any]  # for programs; "error" alone: there is no answer
    columns: list[str]  # for people
    note: str = ""  # what was done to the line, if anything


@dataclasses.dataclass(frozen=True)
class Question:
    """A line, as a kind of model reads it."""

    number: int
    rows: Sequence[InputFeatures]
    content: Any = None  # what the kind keeps for its answer
    note: str = ""
    error: str = ""  # why there will be no answer


class Model(Protocol):
    def mappings(self) -> list[VariableMapping]: ...

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]: ...


class Kind(Protocol):
    """Not a base class: tasks/line_kinds.py has those of this form."""

    @property
    def model(self) -> Model: ...

    def read(self, number: int, texts: Sequence[str]) -> Question:
        """Raises an InputError if it cannot answer such a line.

        Args:
            texts: of a line, between its tabs.
        """

    def answer(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        """Fields and columns, of the outputs of the question's rows."""


class LinePredictor:
    """A kind of model with its weights; `load` makes it."""

    def __init__(self, kind: Kind, max_length: int, report: LoadReport):
        self.kind = kind
        self.max_length = max_length
        self.report = report
        self.forward = kind.model.forward

    def answer_all(
        self,
        lines: Iterable[Line],
        run: Run,
        batch_size: int = BATCH_SIZE,
        first_number: int = 1,
        fine_buckets: bool = False,
    ) -> Iterator[Answer]:
        """Yields an answer for each line, in their order.

        Lines are read many batches at a time and sorted by length; to have
        each answered at once, hand them over one by one.

        Args:
            run: batches in, the outputs of each row out, in order.
            batch_size, finely: as in `bucket_by_length`.
            first_number: that of the first line.
        """
        questions = (
            self._read(number, line)
            for number, line in enumerate(lines, first_number)
        )
        results = run_documents(
            questions,
            lambda rows: run(
                bucket_by_length(
                    rows, batch_size, self.max_length, fine_buckets
                )
            ),
        )
        for question, outputs in results:
            if question.error:
                fields: dict[str, Any] = {"error": question.error}
                columns: list[str] = []
            else:
                fields, columns = self.kind.answer(question, outputs)
            yield Answer(question.number, fields, columns, question.note)

    def _read(self, number: int, line: Line) -> Question:
        if isinstance(line, str):
            line = tuple(line.rstrip("\r\n").split("\t"))
        if not "".join(line).strip():
            return Question(number, [], error=EMPTY)
        try:
            return self.kind.read(number, line)
        except InputError as error:
            return Question(number, [], error=str(error))
