"""Multiple-choice questions from files: SWAG, RACE and your own.

Zellers et al. 2018 (SWAG), files of rowanz/swagaf; Lai et al. 2017 (RACE). The
keys of an entry say what it is, so that any file may hold any of these:

    sent1, sent2, ending0, ending1, ..., label    SWAG: CSV or JSON lines
    article, questions, options, answers          RACE: JSON, .json or .txt
    article, question, options, answer            RACE on the Hugging Face hub
    context, question, choices, label             your own: JSON
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_keras.data.text_files import expand_patterns, without_half_characters
from bert_keras.errors import InputError
from bert_keras.tasks.classification.tables import table_rows
from bert_keras.tasks.json_files import read_objects
from bert_keras.tasks.multiple_choice.model import MultipleChoiceExample

BLANK = re.compile("_+")  # in a question of RACE, where the choice belongs

Entry = Mapping[str, Any]


def read_questions(
    patterns: str, argument: str, has_labels: bool
) -> list[MultipleChoiceExample]:
    """The questions of comma-separated files and globs, plain or .gz.

    Args:
        has_labels: whether each has to have one.

    Raises:
        InputError: no such file, or an entry that is not a question.
    """
    questions = [
        question
        for path in expand_patterns(patterns, argument)
        for place, entry in _entries(path)
        for question in _questions(place, entry)
    ]
    if not questions:
        raise InputError(f"`{argument}={patterns}` holds no question")
    for question in questions if has_labels else ():
        if question.label is None:
            raise InputError(
                f"{question.guid} has no label; expected the number of the "
                "right choice, from 0, or its letter"
            )
    return questions


def _entries(path: str) -> Iterator[tuple[str, Entry]]:
    """Yields each with its place, for errors."""
    plain = path.removesuffix(".gz")
    if plain.endswith(".csv"):
        yield from table_rows(path)
    elif plain.endswith((".jsonl", ".json", ".txt")):
        for found in read_objects(path):
            yield found.place, found.values
    else:
        raise InputError(
            f"{path} ends in none of .csv, .jsonl, .json, .txt (.gz may "
            "follow); the ending says how questions are read"
        )


def describe(questions: Sequence[MultipleChoiceExample]) -> str:
    """Counts what was read."""
    numbers = [len(question.choices) for question in questions]
    num_labels = sum(question.label is not None for question in questions)
    texts = [text for q in questions for text in (q.context, *q.choices)]
    num_empty = sum(not text.strip() for text in texts)
    fewest, most = min(numbers), max(numbers)
    choices = f"{most}" if fewest == most else f"{fewest} to {most}"
    return (
        f"{len(questions):,} questions of {choices} choices, "
        f"{num_labels:,} with a label"
        + (f", {num_empty:,} empty texts" if num_empty else "")
    )


def _questions(place: str, entry: Entry) -> Iterator[MultipleChoiceExample]:
    if "article" in entry and "questions" not in entry:
        columns = {"questions": "question", "options": "options"}
        columns |= {"answers": "answer"} if "answer" in entry else {}
        several = {many: [entry.get(one)] for many, one in columns.items()}
        yield from _race(place, {**entry, **several})
    elif "article" in entry:
        yield from _race(place, entry)
    elif "ending0" in entry:
        yield _swag(place, entry)
    elif "choices" in entry:
        yield _own(place, entry)
    else:
        raise InputError(
            f"{place} has the keys {', '.join(map(str, entry)) or 'none'}; "
            "expected those of SWAG (sent1, sent2, ending0, ...), of RACE "
            "(article, questions, options) or context and choices"
        )


def _swag(place: str, entry: Entry) -> MultipleChoiceExample:
    """Its second text is the sentence's beginning and one of its endings."""
    names = map("ending{}".format, itertools.count())
    begin = _text(place, entry, "sent2")
    endings = [
        _text(place, entry, name)
        for name in itertools.takewhile(entry.__contains__, names)
    ]
    while endings and not endings[-1]:  # of rows with fewer than others have
        del endings[-1]
    context = _text(place, entry, "sent1")
    choices = [f"{begin} {ending}" for ending in endings]
    return _question(place, context, choices, entry.get("label"))


def _own(place: str, entry: Entry) -> MultipleChoiceExample:
    choices = _texts(place, entry, "choices")
    if entry.get("question") is not None:
        asked = _text(place, entry, "question")
        choices = [f"{asked} {choice}" for choice in choices]
    context = _text(place, entry, "context")
    return _question(place, context, choices, entry.get("label"))


def _race(place: str, entry: Entry) -> Iterator[MultipleChoiceExample]:
    """A choice stands where the question has its blank, else behind it."""
    article = _text(place, entry, "article")
    asked = _texts(place, entry, "questions")
    options = _list(place, entry, "options")
    answers = [None] * len(asked)
    if "answers" in entry:
        answers = _list(place, entry, "answers")
    if not len(asked) == len(options) == len(answers):
        raise InputError(
            f"{place} has {len(asked)} questions, {len(options)} options and "
            f"{len(answers)} answers; expected the same number of each"
        )
    for i, question in enumerate(asked):
        where = f"{place}, question {i}"
        choices = [
            _put(question, choice)
            for choice in _texts(where, {"options": options[i]}, "options")
        ]
        yield _question(where, article, choices, answers[i])


def _put(question: str, choice: str) -> str:
    """("It is _.", "red") -> "It is red."; ("Is it?", "No") -> "Is it? No"."""
    begin, *rest = BLANK.split(question, maxsplit=1)
    return f"{begin}{choice}{rest[0]}" if rest else f"{question} {choice}"


def _question(
    place: str, context: str, choices: list[str], label: Any
) -> MultipleChoiceExample:
    if len(choices) < 2:
        raise InputError(f"{place} has {len(choices)} choices; expected two")
    number = _number(label)
    if number is not None and not 0 <= number < len(choices):
        raise InputError(
            f"{place} has {len(choices)} choices and the label "
            f"{_shown(label)}; expected a number from 0 to {len(choices) - 1}, "
            "or a letter from A"
        )
    return MultipleChoiceExample(place, context, tuple(choices), number)


def _number(label: Any) -> int | None:
    """2 for 2, "2", 2.0, "2.0" or "C"; -1 for what is not a label.

    None for an empty label and for -1, as in the test sets of the hub.
    """
    if label is None or label in ("", -1, "-1"):
        return None
    if isinstance(label, str) and re.fullmatch("[A-Z]", label):
        return ord(label) - ord("A")
    if isinstance(label, str) and re.fullmatch(r"[0-9]{1,9}(\.0*)?", label):
        return int(float(label))
    is_whole = type(label) is float and label.is_integer()
    return int(label) if is_whole or type(label) is int else -1


def _text(place: str, entry: Entry, key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise InputError(
            f"{place} has {_shown(value)} for {key!r}; expected a text"
        )
    return without_half_characters(value)


def _shown(value: Any) -> str:
    """A value for an error: short, however deep it is."""
    if value is None:
        return "nothing"
    if isinstance(value, list | dict):
        return f"a {type(value).__name__}"
    return repr(value)[:60]


def _list(place: str, entry: Entry, key: str) -> list[Any]:
    value = entry.get(key)
    if not isinstance(value, list):
        raise InputError(
            f"{place} has {_shown(value)} for {key!r}; expected a list"
        )
    return value


def _texts(place: str, entry: Entry, key: str) -> list[str]:
    return [
        _text(place, {key: value}, key) for value in _list(place, entry, key)
    ]
