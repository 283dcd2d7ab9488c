"""SQuAD 1.1 and 2.0: questions about paragraphs, and their answers.

Rajpurkar et al. 2016 and 2018. Upstream file: run_squad.py,
read_squad_examples. Two forms are read, as one JSON value or as JSON lines:

    data: [{paragraphs: [{context, qas: [{id, question, answers: [{text,
        answer_start}], is_impossible}]}]}]                   SQuAD's
    {id, context, question, answers: {text: [], answer_start: []}}
                                       a question, as the Hugging Face hub has
"""

import bisect
import collections
import dataclasses
import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bert_keras.data.text_files import without_half_characters
from bert_keras.errors import InputError
from bert_keras.files import open_unpacked
from bert_keras.tasks.label_names import to_number
from bert_keras.tasks.tables import JsonObject, parse_objects
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
    source: Any,
    version_2_with_negative: bool,
    is_training: bool,
    names_all: bool = False,
    answer_offsets: str = "exact",
    name: str = "the data",
) -> list[SquadExample]:
    """Reads a SQuAD file, plain or .gz, or what one holds.

    In training a question whose answer is not in its paragraph is left out,
    as upstream does; how many, and the first of them (or with `names_all` all
    of them), goes to standard error. Of several answers the first is
    trained, and a line says so.

    Args:
        source: a path; or a SQuAD file's object, or a list of its entries.
        answer_offsets: as in TaskConfig. With "exact" all white space is
            equal where an answer is looked for.
        name: of `source` in errors, where it is not a path.

    Raises:
        InputError: no such file, no JSON, a key that is missing or of another
            type; in training, a question without an answer; in prediction,
            two questions with the same id.
    """
    has_more = version_2_with_negative and is_training
    form = f"a SQuAD file{' for `version_2_with_negative`' if has_more else ''}"
    path = source if isinstance(source, str) else name
    questions = _questions(_Node(path, form, "", None), _objects(path, source))
    if is_training:
        examples = _to_train(
            path, questions, version_2_with_negative, names_all, answer_offsets
        )
    else:
        examples = []
        places: dict[str, str] = {}  # of ids
        for node, example in questions:
            if example.id in places:
                raise InputError(
                    f"{path}: {places[example.id]} and {node.place} have the "
                    "same id, and answers are written by id; give each "
                    "question another id"
                )
            places[example.id] = node.place
            answers = node.answers(False) if "answers" in node.value else None
            golds = None
            if answers or (answers is not None and version_2_with_negative):
                golds = tuple(answer.get("text", str) for answer in answers)
            examples.append(dataclasses.replace(example, golds=golds))
    if not examples:
        raise InputError(f"{path} holds no question that can be used")
    return examples


def _to_train(
    path: str,
    questions: "Iterable[tuple[_Node, SquadExample]]",
    version_2_with_negative: bool,
    names_all: bool,
    answer_offsets: str,
) -> list[SquadExample]:
    """The questions that can be trained on; says what is left out."""
    examples = []
    left_out = collections.defaultdict[str, list[str]](list)
    num_several = 0  # questions with several answers
    for node, example in questions:
        if version_2_with_negative and node.is_impossible():
            examples.append(dataclasses.replace(example, is_impossible=True))
            continue
        answers = node.answers(True)
        if answers is None:
            left_out["their answers are null"].append(node.place)
            continue
        if not answers:
            raise InputError(
                f"{path}: {node.place} has 0 answers; training expects one (or "
                "pass `version_2_with_negative`)"
            )
        num_several += len(answers) > 1
        first = answers[0]
        text, begin = first.get("text", str), first.answer_start()
        answer = locate(text, begin, example.paragraph, answer_offsets)
        if answer is not None:
            examples.append(dataclasses.replace(example, answer=answer))
            continue
        reason = "their answers are not in the paragraphs"
        left_out[reason].append(f"{text!r} in {first.place}")
    number = len(examples) + sum(map(len, left_out.values()))
    for reason, places in left_out.items():
        print(
            f"{path}: {len(places)} of {number} questions are left out, as "
            f"{reason}:",
            "\n  ".join(["", *places[: None if names_all else 1]]),
            file=sys.stderr,
        )
    if num_several:
        print(
            f"{path}: {num_several} of {number} questions have several "
            "answers; the first of each is trained",
            file=sys.stderr,
        )
    return examples


def _objects(path: str, source: Any) -> list[JsonObject]:
    if isinstance(source, str):
        return list(parse_objects(path, io.StringIO(_read(path))))
    entries = [source] if isinstance(source, dict) else source
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise InputError(
                f"{path}: entry {number} is a {type(entry).__name__}; expected "
                "a dictionary, as a SQuAD file's JSON has it"
            )
    return [JsonObject(path, "entry", i, x) for i, x in enumerate(entries, 1)]


def _questions(
    root: "_Node", found: Sequence[JsonObject]
) -> "Iterator[tuple[_Node, SquadExample]]":
    """Yields a file's questions, each with its place in the file."""
    if len(found) == 1 and not {"context", "paragraphs"} & set(found[0].values):
        entries = root._replace(value=found[0].values).each("data")
    else:
        entries = [
            root._replace(place=f"{x.unit} {x.number}", value=x.values)
            for x in found
        ]
    paragraphs: dict[str, Paragraph] = {}  # of questions without articles
    progress = with_progress(entries, len(entries), " texts", "reading")
    for number, entry in enumerate(progress):
        article: int | None = number
        groups: Iterable[tuple[Paragraph, list[_Node]]]
        keys = entry.value if isinstance(entry.value, dict) else ()
        if "context" in keys and "paragraphs" not in keys:
            context = entry.get("context", str)
            if context not in paragraphs:
                paragraphs[context] = split_words(context)
            article, groups = None, [(paragraphs[context], [entry])]
        else:
            groups = (
                (split_words(part.get("context", str)), part.each("qas"))
                for part in entry.each("paragraphs")
            )
        for paragraph, nodes in groups:
            for node in nodes:
                key = str(node.get("id", str, int))
                question = node.get("question", str)
                node = node._replace(place=f"{node.place} (id {key})")
                yield (
                    node,
                    SquadExample(key, question, paragraph, article=article),
                )


def _read(path: str) -> str:
    with open_unpacked(path) as file:
        content: bytes = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text: byte 0x{error.object[error.start]:02x}"
            f" at place {error.start}"
        ) from error


class _Node(NamedTuple):
    """A value in a file's JSON, and the way to it, which errors name."""

    path: str
    form: str  # what has the keys that are asked for
    place: str
    value: Any

    def get(self, key: str, *kinds: type) -> Any:
        """The value of this key; an error unless it is of one of these types,
        of which the first is SQuAD's own."""
        place, values = self.place or "the file", self.value
        if not isinstance(values, dict) or key not in values:
            found = f"it is {_name(values)}"
            if isinstance(values, dict):
                found = f"only {', '.join(values) or 'nothing'}"
            raise InputError(
                f"{self.path}: {place} has no {key!r} ({found}), as "
                f"{self.form} has"
            )
        value = values[key]
        if not isinstance(value, kinds):
            raise InputError(
                f"{self.path}: {key!r} of {place} is {_name(value)}; "
                f"SQuAD files have {_NAMES[kinds[0]]} there"
            )
        if isinstance(value, str):
            return without_half_characters(value)
        return value

    def each(self, key: str) -> list["_Node"]:
        """What the list of this key holds."""
        way = f"{self.place}.{key}".removeprefix(".")
        return [
            self._replace(place=f"{way}[{i}]", value=value)
            for i, value in enumerate(self.get(key, list))
        ]

    def answers(self, with_places: bool) -> list["_Node"] | None:
        """A question's, in SQuAD's form; None where they are null."""
        answers = self.get("answers", list, dict, type(None))
        if not isinstance(answers, dict):
            return answers and self.each("answers")
        place = f"{self.place}.answers"
        columns = self._replace(place=place, value=answers)
        texts = starts = columns.get("text", list)
        if with_places or "answer_start" in answers:
            starts = columns.get("answer_start", list)
        if len(texts) != len(starts):
            raise InputError(
                f"{self.path}: {place} has {len(texts)} texts and "
                f"{len(starts)} places in answer_start; expected the same "
                "number of each"
            )
        rows = [
            {"text": text, "answer_start": start}
            for text, start in zip(texts, starts, strict=True)
        ]
        return self._replace(value={"answers": rows}).each("answers")

    def is_impossible(self) -> bool:
        """Of a question; without that key, whether it has no answer."""
        if (value := self.value.get("is_impossible")) is None:
            return self.answers(True) == []
        if (word := str(value).lower()) not in ("true", "1", "false", "0"):
            raise InputError(
                f"{self.path}: 'is_impossible' of {self.place} is {value!r}; "
                "expected true or false"
            )
        return word in ("true", "1")

    def answer_start(self) -> int:
        """An answer's first character: 79, also "79" and 79.0, as in tables."""
        value = self.get("answer_start", int, float, str)
        number = to_number(str(value))
        if number is not None and number.is_integer():
            return int(number)
        raise InputError(
            f"{self.path}: 'answer_start' of {self.place} is {value!r:.60}; "
            "expected a whole number"
        )


_NAMES: dict[type, str] = {
    bool: "true or false",
    dict: "an object",
    float: "a fraction",
    int: "a whole number",
    list: "a list",
    str: "a string",
    type(None): "null",
}


def _name(value: Any) -> str:
    return _NAMES.get(type(value), f"a {type(value).__name__}")


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


def locate(
    text: str, begin: int, paragraph: Paragraph, answer_offsets: str = "exact"
) -> AnswerSpan | None:
    """The words around `text`, which begins at this character.

    None if they do not hold it. Upstream asks for each no-break space that the
    text has as a plain one. With exact offsets all white space is equal, and
    the answer's own place is where it is nearest to `begin` in these words.
    """
    answer = text
    if answer_offsets == "exact":
        space = len(text) - len(text.lstrip())
        if paragraph.context[begin : begin + space].isspace():
            begin += space
        text = text.strip()
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
    if paragraph.context.startswith(text, begin):
        place = range(begin, begin + len(text))
        return AnswerSpan(answer, first_word, last_word, place)
    first = paragraph.starts[first_word]
    past = paragraph.starts[last_word] + len(words[-1])
    places = [
        i
        for i in range(first, past)
        if i == first or not paragraph.context[i - 1 : i + 1].isspace()
    ]
    # With a space for each stretch of white space
    shown = "".join(paragraph.context[i] for i in places)
    shown, wanted = re.sub(r"\s", " ", shown), " ".join(text.split())
    middle = bisect.bisect_left(places, begin)
    before = shown[: max(middle - 1, 0) + len(wanted)]  # begins before it
    backward = before[::-1].find(wanted[::-1]) if middle else -1
    starts = [
        *([len(before) - backward - len(wanted)] if backward >= 0 else []),
        *([i] if (i := shown.find(wanted, middle)) >= 0 else []),
    ]
    if not starts:
        return None
    start = min(starts, key=lambda i: abs(places[i] - begin))
    place = range(places[start], places[start + len(wanted) - 1] + 1)
    return AnswerSpan(answer, first_word, last_word, place)


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
