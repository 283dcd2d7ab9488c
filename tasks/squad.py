"""SQuAD 1.1 and 2.0: questions about paragraphs, and their answers.

Rajpurkar et al. 2016 and 2018. Upstream file: run_squad.py,
read_squad_examples.
"""

import dataclasses
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tqdm import tqdm

from input_error import InputError

SECONDS_WITHOUT_PROGRESS = 5.0  # what is quicker shows none
SECONDS_BETWEEN_LINES = 30.0  # of progress, where stderr is no terminal


@dataclasses.dataclass(frozen=True, eq=False)
class Paragraph:
    words: list[str]
    word_at: list[int]  # for each character its word, or the nearest


class Answer(NamedTuple):
    """Where training finds it: words[first_word : last_word + 1]."""

    text: str
    first_word: int
    last_word: int


@dataclasses.dataclass(frozen=True)
class Example:
    """One question; an `answer` only in training, if there is one."""

    id: str
    question: str
    paragraph: Paragraph
    answer: Answer | None = None
    is_impossible: bool = False
    golds: tuple[str, ...] | None = None  # to evaluate by; None: not told


def read_examples(
    path: str,
    version_2_with_negative: bool,
    is_training: bool,
    names_all: bool = False,
) -> list[Example]:
    """Reads a SQuAD file.

    In training a question whose answer is not in its paragraph is left out,
    as upstream does; how many, and the first of them (or with `names_all` all
    of them), is said on standard error.

    Raises:
        InputError: no such file, no JSON, a key that is missing or of another
            type, or in training a question with several answers or with none.
    """
    reader = _Reader(path, version_2_with_negative, is_training)
    examples = list(reader.examples(_load(path)))
    left_out = reader.not_found
    if left_out:
        print(
            f"{path}: {len(left_out)} of {len(examples) + len(left_out)} "
            "questions are left out, as their answers are not in the "
            "paragraphs:",
            "\n  ".join(["", *left_out[: None if names_all else 1]]),
            file=sys.stderr,
        )
    if not examples:
        raise InputError(f"{path} holds no question that can be used")
    return examples


def split_words(context: str) -> Paragraph:
    """Cuts at space, tab, line ends and U+202F; other spaces stay inside."""
    words: list[str] = []
    word_at: list[int] = []
    for part in re.split(r"([ \t\r\n\u202f]+)", context):
        if part and part[0] not in " \t\r\n\u202f":
            words.append(part)
        word_at += [max(len(words) - 1, 0)] * len(part)
    return Paragraph(words, word_at)


def progress(things: Sequence[Any], name: str, unit: str) -> Any:
    return tqdm(
        things,
        desc=name,
        unit=unit,
        file=sys.stderr,
        delay=SECONDS_WITHOUT_PROGRESS,
        mininterval=0.5 if sys.stderr.isatty() else SECONDS_BETWEEN_LINES,
    )


def _load(path: str) -> Any:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}, column {error.colno} is not JSON "
            f"({error.msg}); a SQuAD file was expected"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text: byte 0x{error.object[error.start]:02x}"
            f" at place {error.start}"
        ) from error
    except (ValueError, RecursionError) as error:  # a long number; depth
        raise InputError(
            f"{path} is not JSON ({error}); a SQuAD file was expected"
        ) from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


class _Reader:
    """Walks a file's JSON; an error names the way to the faulty place."""

    def __init__(
        self, path: str, version_2_with_negative: bool, is_training: bool
    ):
        self.path = path
        self.version_2_with_negative = version_2_with_negative
        self.is_training = is_training
        self.not_found: list[str] = []

    def examples(self, content: Any) -> Iterator[Example]:
        articles = self._get(content, "", "data", list)
        for i, article in enumerate(progress(articles, "reading", " texts")):
            place = f"data[{i}]"
            paragraphs = self._get(article, place, "paragraphs", list)
            for j, paragraph in enumerate(paragraphs):
                inside = f"{place}.paragraphs[{j}]"
                yield from self._paragraph(paragraph, inside)

    def _paragraph(self, content: Any, place: str) -> Iterator[Example]:
        context = self._get(content, place, "context", str)
        paragraph = split_words(context)
        for i, question in enumerate(self._get(content, place, "qas", list)):
            yield from self._question(question, f"{place}.qas[{i}]", paragraph)

    def _question(
        self, content: Any, place: str, paragraph: Paragraph
    ) -> Iterator[Example]:
        """Yields the example, or nothing if its answer is not to be found."""
        name = str(self._get(content, place, "id", (str, int)))
        question = self._get(content, place, "question", str)
        place += f" (id {name})"
        if not self.is_training:
            golds = self._golds(content, place)
            yield Example(name, question, paragraph, golds=golds)
        elif self.version_2_with_negative and self._get(
            content, place, "is_impossible", bool
        ):
            yield Example(name, question, paragraph, is_impossible=True)
        else:
            answer = self._answer(content, place, paragraph)
            if answer is not None:
                yield Example(name, question, paragraph, answer)

    def _golds(self, content: Any, place: str) -> tuple[str, ...] | None:
        if "answers" not in content:
            return None
        answers = self._get(content, place, "answers", list)
        if not answers and not self.version_2_with_negative:
            return None
        return tuple(
            self._get(answer, f"{place}.answers[{i}]", "text", str)
            for i, answer in enumerate(answers)
        )

    def _answer(
        self, content: Any, place: str, paragraph: Paragraph
    ) -> Answer | None:
        """The one answer; None if the text at its place does not hold it."""
        answers = self._get(content, place, "answers", list)
        if len(answers) != 1:
            remedy = "" if answers else " (or pass --version_2_with_negative)"
            raise InputError(
                f"{self.path}: {place} has {len(answers)} answers; training "
                f"expects exactly one{remedy}"
            )
        place += ".answers[0]"
        text = self._get(answers[0], place, "text", str)
        begin = self._get(answers[0], place, "answer_start", int)
        answer = locate(text, begin, paragraph)
        if answer is None:
            self.not_found.append(f"{text!r} in {place}")
        return answer

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
                else f"it is {_name(content)}"
            )
            raise InputError(
                f"{self.path}: {place} has no {key!r} ({found}), as a SQuAD "
                f"file{self._flags()} has"
            )
        value = content[key]
        if not isinstance(value, kind):
            raise InputError(
                f"{self.path}: {key!r} of {place} is {_name(value)}; SQuAD "
                f"files have {_NAMES[kind]} there"
            )
        if isinstance(value, str):
            # half of a sign that takes two, as where a text was cut
            return value.encode("utf-8", "replace").decode()
        return value

    def _flags(self) -> str:
        return (
            " for --version_2_with_negative"
            if self.version_2_with_negative and self.is_training
            else ""
        )


_NAMES = {
    bool: "true or false",
    dict: "an object",
    float: "a fraction",
    int: "a whole number",
    list: "a list",
    str: "a string",
    type(None): "null",
    (str, int): "a string",
}


def _name(value: Any) -> str:
    return _NAMES[type(value)]


def locate(text: str, begin: int, paragraph: Paragraph) -> Answer | None:
    """The words around `text`, which begins at this character.

    None if they do not hold it: white space counts for nothing there.
    """
    last = begin + len(text) - 1
    if not 0 <= begin <= last < len(paragraph.word_at):
        return None
    first_word, last_word = paragraph.word_at[begin], paragraph.word_at[last]
    around = " ".join(paragraph.words[first_word : last_word + 1])
    wanted = " ".join(text.split())
    if not wanted or wanted not in around:
        return None
    return Answer(text, first_word, last_word)
