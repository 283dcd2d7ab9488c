"""Multiple-choice questions: from files of SWAG, RACE and your own to rows.

Zellers et al. 2018 (SWAG), files of rowanz/swagaf; Lai et al. 2017 (RACE). The
keys of an entry say what it is, so that any file may hold any of these:

    sent1, sent2, ending0, ending1, ..., label    SWAG: CSV or JSON lines
    article, questions, options, answers          RACE: JSON, .json or .txt
    article, question, options, answer            RACE on the Hugging Face hub
    context, question, choices, label             your own: JSON
"""

import collections
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bert_keras.data.input_features import InputFeatures, make_features
from bert_keras.data.text_files import expand_patterns, without_half_characters
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError, with_flags
from bert_keras.tasks.tables import Row, read_rows
from bert_keras.training.inference import with_progress

ENDINGS = (".csv", ".jsonl", ".json", ".txt")
# In a question of RACE, where the choice belongs; first without letters beside
BLANKS = re.compile(r"(?<!\w)_+(?!\w)"), re.compile("_+")
CONTEXTS, CHOICES_TOO = "contexts", "contexts and choices"  # that were cut

Entry = Mapping[str, Any]


class MultipleChoiceExample(NamedTuple):
    guid: str  # where it comes from, for people
    context: str
    choices: tuple[str, ...]  # each with the question, where there is one
    label: int | None  # number of the right one; None: not known


def _entry(row: Row) -> tuple[str, Entry]:
    """The place of a row, and its cells by their columns' names."""
    for name in filter(None, row.names):
        if (number := row.names.count(name)) > 1:
            raise InputError(
                f"{row.place} has {number} columns {name!r}; expected one"
            )
    return row.by_name()


def read_questions(
    source: str | Iterable[Entry], argument: str, has_labels: bool
) -> list[MultipleChoiceExample]:
    """The questions of comma-separated files and globs, plain or .gz, or of
    what such files hold.

    Args:
        has_labels: whether each has to have one.

    Raises:
        InputError: no such file, or an entry that is not a question.
    """
    rows: Iterable[tuple[str, Entry]]
    if isinstance(source, str):
        paths = expand_patterns(source, argument)
        rows = (
            _entry(row) for path in paths for row in read_rows(path, ENDINGS)
        )
    else:
        rows = ((f"example {i}", entry) for i, entry in enumerate(source))
    questions = [
        question
        for place, entry in rows
        for question in _questions(place, entry)
    ]
    if not questions:
        shown = f"={source}" if isinstance(source, str) else ""
        raise InputError(f"`{argument}{shown}` holds no question")
    for question in questions if has_labels else ():
        if question.label is None:
            raise InputError(
                f"{question.guid} has no label; expected the number of the "
                "right choice, from 0, or its letter"
            )
    return questions


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
    if not isinstance(entry, Mapping):
        raise InputError(
            f"{place} is a {type(entry).__name__}; expected a dictionary with "
            "context and choices"
        )
    if "article" in entry:
        yield from _race(place, entry)
    elif "ending0" in entry:
        # The second text is the sentence's beginning and one of its endings.
        begin = _get(place, entry, "sent2", str)
        names = map("ending{}".format, itertools.count())
        endings = [
            _get(place, entry, name, str)
            for name in itertools.takewhile(entry.__contains__, names)
        ]
        while endings and not endings[-1]:  # a row with fewer than others
            del endings[-1]
        context = _get(place, entry, "sent1", str)
        choices = [f"{begin} {ending}" for ending in endings]
        yield _question(place, context, choices, entry.get("label"))
    elif "choices" in entry:
        choices = _texts(place, entry, "choices")
        if entry.get("question") is not None:
            asked = _get(place, entry, "question", str)
            choices = [f"{asked} {choice}" for choice in choices]
        context = _get(place, entry, "context", str)
        yield _question(place, context, choices, entry.get("label"))
    else:
        raise InputError(
            f"{place} has the keys {', '.join(map(str, entry)) or 'none'}; "
            "expected those of SWAG (sent1, sent2, ending0, ...), of RACE "
            "(article, questions, options) or context and choices"
        )


def _race(place: str, entry: Entry) -> Iterator[MultipleChoiceExample]:
    """A choice stands where the question has its blank, else behind it:
    ("It is _.", "red") -> "It is red."; ("Is it?", "No") -> "Is it? No"."""
    if "questions" not in entry:  # the hub's
        columns = {"questions": "question", "options": "options"}
        columns |= {"answers": "answer"} if "answer" in entry else {}
        several = {many: [entry.get(one)] for many, one in columns.items()}
        entry = {**entry, **several}
    article = _get(place, entry, "article", str)
    asked = _texts(place, entry, "questions")
    options = _get(place, entry, "options", list)
    answers = [None] * len(asked)
    if "answers" in entry:
        answers = _get(place, entry, "answers", list)
    if not len(asked) == len(options) == len(answers):
        raise InputError(
            f"{place} has {len(asked)} questions, {len(options)} options and "
            f"{len(answers)} answers; expected the same number of each"
        )
    for i, question in enumerate(asked):
        where = f"{place}, question {i}"
        blank = next((x for x in BLANKS if x.search(question)), BLANKS[0])
        begin, *rest = blank.split(question, maxsplit=1)
        choices = [
            f"{begin}{choice}{rest[0]}" if rest else f"{question} {choice}"
            for choice in _texts(where, {"options": options[i]}, "options")
        ]
        yield _question(where, article, choices, answers[i])


def _question(
    place: str, context: str, choices: list[str], label: Any
) -> MultipleChoiceExample:
    """Labels are 2, "2", 2.0, "2.0" or "C"; none is null, "" or, as in the test
    sets of the hub, -1."""
    if len(choices) < 2:
        raise InputError(f"{place} has {len(choices)} choices; expected two")
    number: int | None = -1
    if label is None or label in ("", -1, "-1"):
        number = None
    elif isinstance(label, str) and re.fullmatch("[A-Z]", label):
        number = ord(label) - ord("A")
    elif isinstance(label, str) and re.fullmatch(r"[0-9]{1,9}(\.0*)?", label):
        number = int(float(label))
    elif type(label) is int or (type(label) is float and label.is_integer()):
        number = int(label)
    if number is not None and not 0 <= number < len(choices):
        raise InputError(
            f"{place} has {len(choices)} choices and the label "
            f"{_shown(label)}; expected a number from 0 to {len(choices) - 1}, "
            "or a letter from A"
        )
    return MultipleChoiceExample(place, context, tuple(choices), number)


def _get(place: str, entry: Entry, key: str, kind: type) -> Any:
    """entry[key]; an error unless it is a text or a list, as `kind` says."""
    value = entry.get(key)
    if not isinstance(value, kind):
        expected = "text" if kind is str else "list"
        raise InputError(
            f"{place} has {_shown(value)} for {key!r}; expected a {expected}"
        )
    return without_half_characters(value) if isinstance(value, str) else value


def _texts(place: str, entry: Entry, key: str) -> list[str]:
    values = _get(place, entry, key, list)
    return [_get(place, {key: value}, key, str) for value in values]


def _shown(value: Any) -> str:
    """A value for an error: short, however deep it is."""
    if value is None:
        return "nothing"
    if isinstance(value, list | dict):
        return f"a {type(value).__name__}"
    return repr(value)[:60]


def encode_questions(
    questions: Sequence[MultipleChoiceExample],
    tokenizer: Tokenizer,
    max_seq_length: int,
) -> list[list[InputFeatures]]:
    """The rows of each question; how many were cut is said on standard
    error."""
    encoded = [
        encode_question(question, tokenizer, max_seq_length)
        for question in with_progress(
            questions, len(questions), " questions", "tokens"
        )
    ]
    cuts = collections.Counter(cut for _, cut in encoded if cut)
    for cut, count in cuts.items():
        text = (
            f"{count} of {len(questions)} questions are longer than "
            f"`max_seq_length={max_seq_length}` tokens; their {cut} were cut"
        )
        print(with_flags(text), file=sys.stderr)
    return [rows for rows, _ in encoded]


def encode_question(
    question: MultipleChoiceExample, tokenizer: Tokenizer, max_seq_length: int
) -> tuple[list[InputFeatures], str]:
    """A row for each choice, and what was cut: "", CONTEXTS or CHOICES_TOO.

    The context gives way: context "a b c d" with the choices "e" and "f g" in
    7 tokens is [CLS] a b c [SEP] e [SEP] and [CLS] a b [SEP] f g [SEP]. A
    choice that does not fit by itself loses its beginning.
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
