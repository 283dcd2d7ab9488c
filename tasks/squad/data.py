"""SQuAD 1.1 and 2.0: questions about paragraphs, and their answers.

Rajpurkar et al. 2016 and 2018. Upstream file: run_squad.py,
read_squad_examples. Two forms are read, as one JSON value or as JSON lines:

    data: [{paragraphs: [{context, qas: [{id, question, answers: [{text,
        answer_start}], is_impossible}]}]}]                   SQuAD's
    {id, context, question, answers: {text: [], answer_start: []}}
                                       a question, as the Hugging Face hub has
"""

import collections
import contextlib
import dataclasses
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bert_keras.data.text_files import without_half_characters
from bert_keras.errors import InputError
from bert_keras.tasks.tables import parse_objects
from bert_keras.training.inference import with_progress


@dataclasses.dataclass(frozen=True, eq=False)
class Paragraph:
    context: str
    words: list[str]
    starts: list[int]  # of each word, its first character
    word_at: list[int]  # for each character its word, or the nearest


class AnswerSpan(NamedTuple):
    """Where training finds it: words[first_word : last_word + 1]."""

    text: str
    first_word: int
    last_word: int
    place: range | None = None  # its characters; None: the words are known


@dataclasses.dataclass(frozen=True)
class SquadExample:
    """One question; an `answer` only in training, if there is one."""

    id: str
    question: str
    paragraph: Paragraph
    answer: AnswerSpan | None = None
    is_impossible: bool = False
    golds: tuple[str, ...] | None = None  # to evaluate by; None: not told
    article: int | None = None  # its number; None: the file has none


def read_examples(
    path: str,
    version_2_with_negative: bool,
    is_training: bool,
    names_all: bool = False,
    answer_offsets: str = "exact",
) -> list[SquadExample]:
    """Reads a SQuAD file, plain or .gz.

    In training a question whose answer is not in its paragraph is left out,
    as upstream does; how many, and the first of them (or with `names_all` all
    of them), goes to standard error. Of several answers the first is
    trained, and a line says so.

    Args:
        answer_offsets: as in TaskSettings. With "exact" all white space is
            equal where an answer is looked for.

    Raises:
        InputError: no such file, no JSON, a key that is missing or of another
            type; in training, a question without an answer; in prediction,
            two questions with the same id.
    """
    reader = _Reader(path, version_2_with_negative, is_training, answer_offsets)
    examples = list(reader.examples())
    number = len(examples) + sum(map(len, reader.left_out.values()))
    for reason, places in reader.left_out.items():
        print(
            f"{path}: {len(places)} of {number} questions are left out, as "
            f"{reason}:",
            "\n  ".join(["", *places[: None if names_all else 1]]),
            file=sys.stderr,
        )
    if reader.num_several:
        print(
            f"{path}: {reader.num_several} of {number} questions have several "
            "answers; the first of each is trained",
            file=sys.stderr,
        )
    if not examples:
        raise InputError(f"{path} holds no question that can be used")
    return examples


def describe(examples: Sequence[SquadExample]) -> str:
    """Counts what was read."""
    paragraphs = {example.paragraph for example in examples}
    articles = {example.article for example in examples} - {None}
    num_answered = sum(bool(e.answer or e.golds) for e in examples)
    num_unknown = sum(
        e.golds is None and not e.answer and not e.is_impossible
        for e in examples
    )
    num_without = len(examples) - num_answered - num_unknown
    empty = {
        "empty questions": sum(not e.question.strip() for e in examples),
        "empty paragraphs": sum(not p.words for p in paragraphs),
    }
    return ", ".join(
        [
            *([f"{len(articles):,} articles"] if articles else []),
            f"{len(paragraphs):,} paragraphs",
            f"{len(examples):,} questions: {num_answered:,} with an answer",
            f"{num_without:,} without",
            *([f"{num_unknown:,} not known"] if num_unknown else []),
            *(f"{count:,} {what}" for what, count in empty.items() if count),
        ]
    )


def split_words(context: str) -> Paragraph:
    """Cuts at space, tab, line ends and U+202F; other spaces stay inside."""
    words: list[str] = []
    starts: list[int] = []
    word_at: list[int] = []
    for part in re.split(r"([ \t\r\n\u202f]+)", context):
        if part and part[0] not in " \t\r\n\u202f":
            words.append(part)
            starts.append(len(word_at))
        word_at += [max(len(words) - 1, 0)] * len(part)
    return Paragraph(context, words, starts, word_at)


def _read(path: str) -> str:
    opener: Any = gzip.open if path.endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text: byte 0x{error.object[error.start]:02x}"
            f" at place {error.start}"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}") from error


class _Reader:
    """Walks a file's JSON; an error names the way to the faulty place."""

    def __init__(
        self,
        path: str,
        version_2_with_negative: bool,
        is_training: bool,
        answer_offsets: str,
    ):
        self.path = path
        self.version_2_with_negative = version_2_with_negative
        self.is_training = is_training
        self.answer_offsets = answer_offsets
        self.left_out = collections.defaultdict[str, list[str]](list)
        self.num_several = 0  # questions with several answers
        self.places: dict[str, str] = {}  # of ids
        self.paragraphs: dict[str, Paragraph] = {}  # of single questions

    def entries(self) -> list[tuple[str, Any]]:
        """The articles or questions of the file, each with its place."""
        lines = io.StringIO(_read(self.path))
        found = list(parse_objects(self.path, lines))
        is_entry = {"context", "paragraphs"}.intersection
        if len(found) != 1 or is_entry(found[0].values):
            return [(f"{x.unit} {x.number}", x.values) for x in found]
        articles = self._get(found[0].values, "", "data", list)
        return [(f"data[{i}]", entry) for i, entry in enumerate(articles)]

    def examples(self) -> Iterator[SquadExample]:
        entries = self.entries()
        for i, (place, entry) in enumerate(
            with_progress(entries, len(entries), " texts", "reading")
        ):
            is_flat = isinstance(entry, dict) and "paragraphs" not in entry
            if is_flat and "context" in entry:
                context = self._get(entry, place, "context", str)
                if context not in self.paragraphs:
                    self.paragraphs[context] = split_words(context)
                paragraph = self.paragraphs[context]
                yield from self._question(entry, place, paragraph, None)
                continue
            paragraphs = self._get(entry, place, "paragraphs", list)
            for j, content in enumerate(paragraphs):
                inside = f"{place}.paragraphs[{j}]"
                context = self._get(content, inside, "context", str)
                paragraph = split_words(context)
                questions = self._get(content, inside, "qas", list)
                for k, question in enumerate(questions):
                    yield from self._question(
                        question, f"{inside}.qas[{k}]", paragraph, i
                    )

    def _question(
        self,
        content: Any,
        place: str,
        paragraph: Paragraph,
        article: int | None,
    ) -> Iterator[SquadExample]:
        """Yields the example, or nothing if its answer is not to be found."""
        name = str(self._get(content, place, "id", (str, int)))
        question = self._get(content, place, "question", str)
        place += f" (id {name})"
        example = SquadExample(name, question, paragraph, article=article)
        if not self.is_training:
            if name in self.places:
                raise InputError(
                    f"{self.path}: {self.places[name]} and {place} have the "
                    "same id, and answers are written by id; give each "
                    "question another id"
                )
            self.places[name] = place
            golds = self._golds(content, place)
            yield dataclasses.replace(example, golds=golds)
            return
        if self.version_2_with_negative and self._is_impossible(content, place):
            yield dataclasses.replace(example, is_impossible=True)
            return
        answer = self._answer(content, place, paragraph)
        if answer is not None:
            yield dataclasses.replace(example, answer=answer)

    def _is_impossible(self, content: Any, place: str) -> bool:
        """is_impossible, or without that key whether it has no answer."""
        if content.get("is_impossible") is None:
            return self._answers(content, place) == []
        value = self._get(
            content, place, "is_impossible", (bool, int, float, str)
        )
        words = {"true": True, "1": True, "false": False, "0": False}
        if str(value).lower() not in words:
            raise InputError(
                f"{self.path}: 'is_impossible' of {place} is {value!r}; "
                "expected true or false"
            )
        return words[str(value).lower()]

    def _answers(self, content: Any, place: str) -> list[Any] | None:
        """SQuAD's list of them; None where they are null."""
        answers = self._get(content, place, "answers", (list, dict, type(None)))
        if not isinstance(answers, dict):
            return answers
        place += ".answers"
        columns = {
            name: self._get(answers, place, name, list)
            for name in ("text", "answer_start")
            if name in answers or name == "text" or self.is_training
        }
        if len(set(map(len, columns.values()))) > 1:
            raise InputError(
                f"{self.path}: {place} has {len(columns['text'])} texts and "
                f"{len(columns['answer_start'])} places in answer_start; "
                "expected the same number of each"
            )
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _golds(self, content: Any, place: str) -> tuple[str, ...] | None:
        if "answers" not in content:
            return None
        answers = self._answers(content, place)
        if answers is None or not (answers or self.version_2_with_negative):
            return None
        return tuple(
            self._get(answer, f"{place}.answers[{i}]", "text", str)
            for i, answer in enumerate(answers)
        )

    def _answer(
        self, content: Any, place: str, paragraph: Paragraph
    ) -> AnswerSpan | None:
        """The first one; None if the text at its place does not hold it."""
        answers = self._answers(content, place)
        if answers is None:
            self.left_out["their answers are null"].append(place)
            return None
        if not answers:
            raise InputError(
                f"{self.path}: {place} has 0 answers; training expects one (or "
                "pass `version_2_with_negative`)"
            )
        self.num_several += len(answers) > 1
        place += ".answers[0]"
        text = self._get(answers[0], place, "text", str)
        begin = self._start(answers[0], place)
        answer = locate(text, begin, paragraph, self.answer_offsets)
        if answer is None:
            reason = "their answers are not in the paragraphs"
            self.left_out[reason].append(f"{text!r} in {place}")
        return answer

    def _start(self, answer: Any, place: str) -> int:
        """answer_start: 79, but also "79" and 79.0, as tables have it."""
        value = self._get(answer, place, "answer_start", (int, float, str))
        with contextlib.suppress(ValueError, OverflowError):
            if float(value) == int(float(value)):
                return int(float(value))
        raise InputError(
            f"{self.path}: 'answer_start' of {place} is {value!r}; expected a "
            "whole number"
        )

    def _get(
        self,
        content: Any,
        place: str,
        key: str,
        kind: type | tuple[type, ...],
    ) -> Any:
        """content[key]; an error unless it is there and of this type."""
        place = place or "the file"
        if not isinstance(content, dict) or key not in content:
            found = (
                f"only {', '.join(content) or 'nothing'}"
                if isinstance(content, dict)
                else f"it is {_NAMES[type(content)]}"
            )
            needs_flag = self.version_2_with_negative and self.is_training
            given = " for `version_2_with_negative`" if needs_flag else ""
            raise InputError(
                f"{self.path}: {place} has no {key!r} ({found}), as a SQuAD "
                f"file{given} has"
            )
        value = content[key]
        if not isinstance(value, kind):
            raise InputError(
                f"{self.path}: {key!r} of {place} is {_NAMES[type(value)]}; "
                f"SQuAD files have {_NAMES[kind]} there"
            )
        if isinstance(value, str):
            return without_half_characters(value)
        return value


_NAMES = {
    bool: "true or false",
    dict: "an object",
    float: "a fraction",
    int: "a whole number",
    list: "a list",
    str: "a string",
    type(None): "null",
    (str, int): "a string",
    (int, float, str): "a whole number",
    (bool, int, float, str): "true or false",
    (list, dict, type(None)): "a list",
}


def locate(
    text: str, begin: int, paragraph: Paragraph, answer_offsets: str = "exact"
) -> AnswerSpan | None:
    """The words around `text`, which begins at this character.

    None if they do not hold it. Upstream asks for each no-break space that the
    text has as a plain one. With exact offsets all white space is equal, and
    the answer's own place is where it is nearest to `begin` in these words.
    """
    last = begin + len(text) - 1
    if not 0 <= begin <= last < len(paragraph.word_at):
        return None
    first_word, last_word = paragraph.word_at[begin], paragraph.word_at[last]
    words = paragraph.words[first_word : last_word + 1]
    if not words or not text.split():
        return None
    if answer_offsets == "google":
        is_there = " ".join(text.split()) in " ".join(words)
        return AnswerSpan(text, first_word, last_word) if is_there else None
    if text == text.strip() and paragraph.context.startswith(text, begin):
        place = range(begin, begin + len(text))
        return AnswerSpan(text, first_word, last_word, place)
    wanted = r"\s+".join(map(re.escape, text.split()))
    first = paragraph.starts[first_word]
    past = paragraph.starts[last_word] + len(words[-1])
    places = [  # looked for ahead, since they may overlap
        range(*match.span(1))
        for match in re.compile(f"(?=({wanted}))").finditer(
            paragraph.context, first, past
        )
    ]
    if not places:
        return None
    place = min(places, key=lambda place: abs(place.start - begin))
    return AnswerSpan(text, first_word, last_word, place)
