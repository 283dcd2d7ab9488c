"""A model folder's answers to lines of text, whatever it was trained for.

A kind of model reads a line into rows, and makes an answer of their outputs;
what all kinds share is `LinePredictor`. Lines that cannot be answered get an
answer that says why, so that answers and lines stay side by side:

    model = load("/tmp/mrpc")
    run = functools.partial(predict, Predictor(model.forward))
    for answer in model.answer_all(["One text.\\tAnother."], run):
        print(answer.fields)

`predict` and `Predictor` are training.inference's.

Shapes: W windows of a line, C outputs.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from data.any_tokenizer import (
    Tokenizer,
    check_any_vocabulary,
    load_tokenizer,
)
from data.rows import Batch, Row, length_batches, run_documents
from input_error import InputError
from modeling.config import BertConfig
from modeling.conversion import Binding, LoadReport, load_checkpoint
from modeling.folder_files import vocabulary_file
from modeling.hugging_face import model_config_file
from tasks.answers import Answerer, Logits
from tasks.blanks import BlankFiller, encode
from tasks.classification import Classifier, pool_windows
from tasks.examples import Example, encode_example
from tasks.spans import SpanModel
from tasks.squad import Example as SpanExample
from tasks.squad import split_words
from tasks.targets import make_target
from tasks.task import TaskSettings
from tasks.windows import make_windows

BATCH_SIZE = 32  # rows
EMPTY = "the line is empty"

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
    rows: Sequence[Row]
    content: Any = None  # what the kind keeps for its answer
    note: str = ""
    error: str = ""  # why there will be no answer


class Model(Protocol):
    def bindings(self) -> list[Binding]: ...

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]: ...


class Kind(Protocol):
    """Not a base class: the three below have this form."""

    @property
    def model(self) -> Model: ...

    def read(self, number: int, line: str) -> Question:
        """Raises an InputError where the line is not such as it answers."""

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
        lines: Iterable[str],
        run: Run,
        batch_size: int = BATCH_SIZE,
        first_number: int = 1,
        finely: bool = False,
    ) -> Iterator[Answer]:
        """Yields an answer for each line, in their order.

        Lines are read many batches at a time and sorted by length; to have
        each answered at once, hand them over one by one.

        Args:
            run: batches in, the outputs of each row out, in order.
            batch_size, finely: as in `length_batches`.
            first_number: that of the first line.
        """
        questions = (
            self._read(number, line)
            for number, line in enumerate(lines, first_number)
        )
        results = run_documents(
            questions,
            lambda rows: run(
                length_batches(rows, batch_size, self.max_length, finely)
            ),
        )
        for question, outputs in results:
            if question.error:
                fields: dict[str, Any] = {"error": question.error}
                columns: list[str] = []
            else:
                fields, columns = self.kind.answer(question, outputs)
            yield Answer(question.number, fields, columns, question.note)

    def _read(self, number: int, line: str) -> Question:
        if not line.strip():
            return Question(number, [], error=EMPTY)
        try:
            return self.kind.read(number, line.rstrip("\r\n"))
        except InputError as error:
            return Question(number, [], error=str(error))


class TextKind:
    """One text, or two with a tab between them: a class, several, a number."""

    def __init__(
        self,
        config: BertConfig,
        tokenizer: Tokenizer,
        settings: TaskSettings,
    ):
        self.target = make_target(settings.target, settings.labels)
        self.model = Classifier(config, self.target)
        self.tokenizer = tokenizer
        self.settings = settings

    def read(self, number: int, line: str) -> Question:
        texts = line.split("\t")
        if len(texts) > 2:
            raise InputError(
                f"it has {len(texts)} texts with tabs between them; one or "
                "two were expected"
            )
        first, *rest = texts
        length = self.settings.max_seq_length
        rows, is_cut = encode_example(
            Example(str(number), first, rest[0] if rest else None, None),
            self.tokenizer,
            length,
            self.settings.doc_stride,
        )
        note = f"it is cut to {length} pieces" if is_cut else ""
        if len(rows) > 1:
            note = f"it is read through {len(rows)} windows of {length} pieces"
        return Question(number, rows, note=note)

    def answer(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        logits = (output["logits"] for output in outputs)
        pooling = self.settings.window_pooling
        (pooled,) = pool_windows(logits, [question.rows], pooling)  # [C]
        scores = self.target.scores(pooled).tolist()
        if self.settings.target == "regression":
            return {"value": scores[0]}, [f"{scores[0]:.6f}"]
        labels = dict(zip(self.settings.labels, scores, strict=True))
        columns = [f"{name} {share:.6f}" for name, share in labels.items()]
        if self.settings.target == "single_label":
            best = max(labels, key=lambda name: labels[name])
            return {"label": best, "probabilities": labels}, [best, *columns]
        chosen = [name for name, share in labels.items() if share > 0.5]
        fields = {"labels": chosen, "probabilities": labels}
        return fields, [",".join(chosen), *columns]


class SpanKind:
    """A question, a tab, a paragraph: the part of it that is the answer."""

    def __init__(
        self,
        config: BertConfig,
        tokenizer: Tokenizer,
        settings: TaskSettings,
    ):
        self.model = SpanModel(config)
        self.tokenizer = tokenizer
        self.settings = settings
        self.answerer = Answerer(tokenizer, settings)

    def read(self, number: int, line: str) -> Question:
        question, tab, paragraph = line.partition("\t")
        if not question.strip() or not paragraph.strip():
            raise InputError("expected a question, a tab and a paragraph")
        example = SpanExample(str(number), question, split_words(paragraph))
        (windows,) = make_windows([example], self.tokenizer, self.settings)
        if not windows:
            raise InputError("there is nothing readable in the paragraph")
        note = (
            f"its paragraph is read through {len(windows)} windows of "
            f"{self.settings.max_seq_length} pieces"
            if len(windows) > 1
            else ""
        )
        rows = [window.row for window in windows]
        return Question(number, rows, (example, windows), note)

    def answer(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        example, windows = question.content
        logits = [
            Logits(
                output["start_logits"][: len(row.input_ids)],
                output["end_logits"][: len(row.input_ids)],
            )
            for output, row in zip(outputs, question.rows, strict=True)
        ]
        found = self.answerer.answer(example, windows, logits)
        text = found.text(self.settings.null_score_diff_threshold)
        place = [entry.text for entry in found.nbest].index(text)
        probability = found.probabilities[place]
        fields = {
            "answer": text,
            "probability": probability,
            "score": found.nbest[place].score,
        }
        if found.null_odds is not None:
            fields["null_odds"] = found.null_odds
        return fields, [text, f"{probability:.6f}"]


class BlankKind:
    """A text with [MASK]s (or <mask>s): the likeliest pieces for each."""

    def __init__(self, config: BertConfig, tokenizer: Tokenizer, count: int):
        self.model = BlankFiller(config, tokenizer.inv_vocab, count)
        self.max_length = config.max_position_embeddings
        self.tokenizer = tokenizer

    def read(self, number: int, line: str) -> Question:
        rows = encode(line, self.tokenizer, self.max_length)
        note = (
            f"it is read through windows of {self.max_length} pieces"
            if len(rows[0].input_ids) == self.max_length
            else ""
        )
        return Question(number, rows, line, note)

    def answer(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        blanks = [
            [
                {"piece": self.tokenizer.inv_vocab[i], "probability": share}
                for i, share in zip(ids, shares, strict=True)
            ]
            for output, row in zip(outputs, question.rows, strict=True)
            for ids, shares in zip(
                output["ids"][: len(row.positions)].tolist(),
                output["probabilities"].tolist(),
                strict=False,
            )
        ]
        columns = [
            "  ".join(f"{p['piece']} {p['probability']:.6f}" for p in blank)
            for blank in blanks
        ]
        text, *parts = question.content.split(self.tokenizer.marks.mask)
        for blank, part in zip(blanks, parts, strict=True):
            filled = self.tokenizer.to_text([blank[0]["piece"]])
            if filled.startswith(" "):  # it brings the space along
                text = text.rstrip()
            text += filled + part
        columns = [text.replace("\t", " "), *columns]
        return {"text": text, "blanks": blanks}, columns


def load(
    folder: str,
    do_lower_case: bool = True,
    strip_accents: bool | None = None,
    top_k: int = 5,
) -> LinePredictor:
    """Reads a model folder.

    Its task.json says what it was trained for; without one it is asked to
    fill in blanks.

    Args:
        do_lower_case, strip_accents: where there is no task.json.
        top_k: pieces wanted for a blank.

    Raises:
        InputError: a file is missing or does not fit the others.
    """
    settings = TaskSettings.from_folder(folder)
    config_file, vocab_file = model_config_file(folder), vocabulary_file(folder)
    if config_file is None or vocab_file is None:
        raise InputError(
            f"{folder} has no {'vocabulary' if config_file else 'config'}; "
            "expected a model folder: weights, bert_config.json and vocab.txt "
            "(or vocab.json and merges.txt)"
        )
    config = BertConfig.from_json_file(config_file)
    check_any_vocabulary(vocab_file, config.vocab_size)
    if settings is not None:
        if settings.max_seq_length > config.max_position_embeddings:
            raise InputError(
                f"{folder} has a task.json with max_seq_length "
                f"{settings.max_seq_length}, but its model has "
                f"{config.max_position_embeddings} positions"
            )
        do_lower_case = settings.do_lower_case
        strip_accents = settings.strip_accents
    tokenizer = load_tokenizer(vocab_file, do_lower_case, strip_accents)
    kind = _make_kind(config, tokenizer, settings, top_k)
    report = load_checkpoint(kind.model.bindings(), folder)
    _check_complete(folder, kind, report)
    return LinePredictor(kind, config.max_position_embeddings, report)


def _make_kind(
    config: BertConfig,
    tokenizer: Tokenizer,
    settings: TaskSettings | None,
    top_k: int,
) -> Kind:
    if settings is None:
        return BlankKind(config, tokenizer, top_k)
    if settings.target == "span":
        return SpanKind(config, tokenizer, settings)
    return TextKind(config, tokenizer, settings)


def _check_complete(folder: str, kind: Kind, report: LoadReport) -> None:
    """Refuses what would answer at random. Only texts need the pooler."""
    missing = [
        name
        for name in report.missing
        if isinstance(kind, TextKind) or "/pooler/" not in name
    ]
    if missing:
        what = (
            "fill in blanks, and no task.json says what else it was trained for"
            if isinstance(kind, BlankKind)
            else "predict"
        )
        raise InputError(
            f"the model in {folder} cannot {what}: its checkpoint has no "
            f"{missing[0]}"
        )
