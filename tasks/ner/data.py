"""Files of tagged words: in columns, as CoNLL-2003 has them, or as JSON.

In columns there is one word a line:

    -DOCSTART- -X- -X- O

    Peter NNP B-NP B-PER
    Blackburn NNP I-NP I-PER

The word is in the first column and the tag in the last, unless other columns
are named; the rest is not looked at. An empty line ends a sentence, a
-DOCSTART- line begins a document. A file without tags has words alone. Format:
Tjong Kim Sang and De Meulder 2003, section 2.2.

Before a sentence there may be comments: lines that begin with # and do not have
a word's columns. Where the first column numbers the words, as in CoNLL-U, its
lines 3-4 and 3.1 are not words.

In JSON a sentence is an object, as in the data sets of the Hugging Face hub:

    {"tokens": ["Peter", "lives"], "ner_tags": ["B-PER", "O"]}

One object a line, or a list of them. Tags are texts, or numbers whose names are
in a dataset_info.json beside the file, as the datasets library writes it. An
object with the word -DOCSTART- alone begins a document.
"""

import collections
import contextlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bert_keras.data.text_files import read_bare_lines, without_half_characters
from bert_keras.errors import InputError
from bert_keras.files import content, parse_json
from bert_keras.tasks.ner.iob_tags import (
    IOB2,
    OUTSIDE,
    TAG,
    entities,
    scheme_of,
    to_tags,
)
from bert_keras.tasks.tables import JsonObject, read_objects

DOCUMENT = "-DOCSTART-"
NUMBER = re.compile(r"\d+([-.]\d+)?")  # of a word, or of CoNLL-U's other lines
NO_TAG = "_"  # of those
WORDS, TAGS = "tokens", "ner_tags"  # the hub's names of fields
JSON_ENDINGS = (".json", ".jsonl")
INFO = "dataset_info.json"
PREDICTED = "predicted_tags"


class Sentence(NamedTuple):
    words: list[str]
    tags: list[str]  # as the file has them; empty where it has none
    lines: list[int]  # of each word, from 0
    document: int  # -1 before the first -DOCSTART-


class TaggedFile(NamedTuple):
    path: str
    lines: list[str]  # without their ends
    sentences: list[Sentence]
    layout: str  # where words and tags were found, as a phrase
    other_tags: Mapping[int, str]  # by line: of lines that are not words
    unit: str = "line"  # or "entry": what each of `lines` is in the file

    @property
    def has_tags(self) -> bool:
        return bool(self.sentences[0].tags)

    @property
    def tag_counts(self) -> collections.Counter[str]:
        return collections.Counter(t for s in self.sentences for t in s.tags)

    def line_tags(self) -> Iterator[tuple[int, str]]:
        """Yields each word's line, from 0, and tag."""
        for sentence in self.sentences:
            if sentence.tags:
                yield from zip(sentence.lines, sentence.tags, strict=True)

    @property
    def documents(self) -> list[list[Sentence]]:
        """The sentences by document.

        Raises:
            InputError: the file does not say where documents begin.
        """
        if self.sentences[0].document < 0:
            raise InputError(
                f"{self.path} does not begin with a {DOCUMENT} line, so that "
                "its documents are not known; give `document_context=False` or "
                "put such a line before each document"
            )
        groups = itertools.groupby(self.sentences, lambda s: s.document)
        return [list(sentences) for _, sentences in groups]

    def in_own_scheme(
        self, predicted: Iterable[Sequence[str]]
    ) -> list[list[str]]:
        """The tags of each sentence in the scheme of the file's tags, or in
        IOB2 if it has none."""
        scheme = IOB2
        if self.has_tags:
            scheme = scheme_of(s.tags for s in self.sentences)
        return [
            to_tags(entities(tags), len(tags), scheme) for tags in predicted
        ]


def read_columns(
    path: str, word_column: str | None = None, tag_column: str | None = None
) -> TaggedFile:
    """Reads a file, which may also lie on gs:// or be packed as .gz.

    Args:
        word_column: a number from 0, or downwards from -1, the last; None: 0.
        tag_column: a number like word_column; None: the last. A file without
            this column, or with the words in it, has no tags.

    Raises:
        InputError: it holds no sentence, its lines differ in the number of
            columns, a tag is not one, or the words are 1, 2, 3, ...
    """
    lines = list(read_bare_lines(path))
    rows = [_columns(line) for line in lines]
    width, word, tag, has_numbers, description = _find_layout(
        path, rows, word_column, tag_column
    )
    sentences: list[Sentence] = []
    other_tags: dict[int, str] = {}
    document = -1
    num_comments = 0
    numbers: list[int] = []  # of the lines of a sentence
    for number, row in enumerate([*rows, []]):
        if row and DOCUMENT not in row:
            has_width = len(row) == width
            is_tagged = has_width and (
                tag is None or TAG.fullmatch(row[tag]) is not None
            )
            if not numbers and row[0].startswith("#") and not is_tagged:
                num_comments += 1
            elif has_numbers and not row[0].isdecimal():
                other_tags[number] = NO_TAG
            elif not has_width:
                raise InputError(
                    f"{path}, line {number + 1} has {len(row)} columns where "
                    f"the lines before have {width}; expected the same in "
                    "every line"
                )
            elif tag is not None and not is_tagged:
                raise InputError(
                    f"{path}, line {number + 1} has {row[tag]!r} in column "
                    f"{tag}; expected a tag, O or one like B-PER and I-PER "
                    "(`tag_column` names another column, counted from 0; a "
                    "file without tags has one column)"
                )
            else:
                numbers.append(number)
            continue
        if numbers:
            words = [rows[i][word] for i in numbers]
            tags = [] if tag is None else [rows[i][tag] for i in numbers]
            sentences.append(Sentence(words, tags, numbers, document))
            numbers = []
        if row:
            other_tags[number] = OUTSIDE
            document += 1
    if not sentences:
        raise InputError(
            f"{path} holds no sentence; expected a word a line, its tag last"
        )
    # whether the words of each sentence are 1, 2, 3 ... or 0, 1, 2 ...
    are_numbers = any(len(s.words) > 1 for s in sentences) and all(
        s.words == [str(i + (s.words[0] == "1")) for i in range(len(s.words))]
        for s in sentences
    )
    if width > 1 and are_numbers:
        raise InputError(
            f"{path} has numbers (1, 2, 3, ...) in column {word}, where words "
            "were expected; name the column of the words, counted from 0, such "
            f"as `word_column={word + 1}`"
        )
    if num_comments:
        description += f", {num_comments:,} comment lines"
    return TaggedFile(path, lines, sentences, description, other_tags)


def _columns(line: str) -> list[str]:
    """Columns end at tabs, if a line has any (words may then have spaces), else
    at spaces."""
    if not line.strip():
        return []
    if "\t" not in line:
        return [column for column in line.split(" ") if column]
    return [column.strip() for column in line.split("\t")]


def are_columns(lines: Iterable[str]) -> bool:
    """Whether they have a word and its tag each, as text hardly has."""
    rows = [
        row
        for line in lines
        if (row := _columns(line.strip()))
        and DOCUMENT not in row
        and not row[0].startswith("#")
    ]
    return (
        len(rows) > 2
        and len(rows[0]) > 1
        and all(len(row) == len(rows[0]) for row in rows)
        and all(TAG.fullmatch(row[-1]) for row in rows)
    )


def _find_layout(
    path: str,
    rows: Sequence[list[str]],
    word_column: str | None,
    tag_column: str | None,
) -> tuple[int, int, int | None, bool, str]:
    """The columns of a word's line: how many, which is the word's and which the
    tag's, whether the first one numbers the words; and a description."""
    lines = [row for row in rows if row and DOCUMENT not in row]
    # A word may begin with #, as a comment does.
    words = [row for row in lines if not row[0].startswith("#")] or lines
    width = len(words[0]) if words else 1
    word = _to_number("word_column", word_column or "0")
    tag = _to_number("tag_column", tag_column or "-1")
    if not -width <= word < width:
        raise InputError(
            f"{path} has {width} columns, and `word_column={word}` is not one "
            "of them; they are counted from 0, and -1 is the last"
        )
    word %= width
    has_numbers = word > 0 and all(NUMBER.fullmatch(row[0]) for row in words)
    if not -width <= tag < width or tag % width == word:
        where = f"words in column {word}, no tags"
        where = where if width > 1 else "a word a line"
        return width, word, None, has_numbers, where
    tag %= width
    where = f"words in column {word}, tags in column {tag}"
    rows_of_words = [row for row in lines if len(row) == width]
    others = [
        str(column)
        for column in range(width)
        if column not in (word, tag)
        and all(TAG.fullmatch(row[column]) for row in rows_of_words)
    ]
    if others:
        where += f" (tags, too, in column {', '.join(others)})"
    return width, word, tag, has_numbers, where


def _to_number(argument: str, column: str) -> int:
    try:
        return int(column)
    except ValueError as error:
        raise InputError(
            f"`{argument}={column}` is not a number; columns of a text file "
            "are counted from 0, and -1 is the last (names are for JSON)"
        ) from error


def with_column(file: TaggedFile, predicted: Sequence[Sequence[str]]) -> str:
    """The file with the predicted tags, in its scheme, as one more column.

    Args:
        predicted: the tags of each sentence.
    """
    tag_of = dict(file.other_tags)  # by line
    for sentence, tags in zip(
        file.sentences, file.in_own_scheme(predicted), strict=True
    ):
        tag_of |= zip(sentence.lines, tags, strict=True)
    lines = []
    for number, line in enumerate(file.lines):
        if (tag := tag_of.get(number)) is not None:
            before = f"{line}\t" if "\t" in line else f"{line.rstrip(' ')} "
            line = before + tag
        lines.append(f"{line}\n")
    return "".join(lines)


def is_json(path: str) -> bool:
    return path.removesuffix(".gz").endswith(JSON_ENDINGS)


def read_tagged_json(
    path: str, word_field: str | None = None, tag_field: str | None = None
) -> TaggedFile:
    """Reads a file, which may also be packed as .gz.

    Args:
        word_field, tag_field: None: the hub's names. A file in which no object
            has the field of the tags has words alone.

    Raises:
        InputError: it holds no sentence, or an object that is not one.
    """
    objects = list(read_objects(path))
    names: list[str] = []  # of tags that are numbers, where they are known
    info = content(os.path.join(os.path.dirname(path), INFO)) or b"{}"
    with contextlib.suppress(ValueError, TypeError, LookupError):
        feature = parse_json(info)["features"][tag_field or TAGS]["feature"]
        if isinstance(feature["names"], list):
            names = [str(name) for name in feature["names"]]
    return tagged_objects(path, objects, word_field, tag_field, names)


def tagged_objects(
    path: str,
    objects: Sequence[JsonObject],
    word_field: str | None = None,
    tag_field: str | None = None,
    names: Sequence[str] = (),
) -> TaggedFile:
    """Makes sentences of JSON objects, in the forms of `read_tagged_json`.

    Args:
        path: names the objects' source in errors.
        word_field, tag_field: keys; None: the usual ones.
        names: of tags that are numbers.

    Raises:
        InputError: an object is not a sentence.
    """
    word_field, tag_field = word_field or WORDS, tag_field or TAGS
    has_tags = any(tag_field in found.values for found in objects)
    sentences = []
    document = -1
    for found in objects:
        words = _list(found, word_field, "word_column")
        if not all(isinstance(word, str) for word in words):
            raise InputError(
                f"{found.place} has words in {word_field!r} that are not texts"
            )
        words = [without_half_characters(word) for word in words]
        if words == [DOCUMENT]:
            document += 1
        elif words:
            tags = _read_tags(found, tag_field, names) if has_tags else []
            if has_tags and len(tags) != len(words):
                raise InputError(
                    f"{found.place} has {len(words)} words but {len(tags)} tags"
                )
            lines = [found.number - 1] * len(words)
            sentences.append(Sentence(words, tags, lines, document))
    if not sentences:
        raise InputError(f"{path} holds no sentence")
    texts = [""] * objects[-1].number
    for found in objects:
        texts[found.number - 1] = json.dumps(found.values)
    fields = ", ".join(map(repr, objects[0].values))
    tags_in = f"tags in {tag_field!r}" if has_tags else "no tags"
    layout = f"words in {word_field!r}, {tags_in}, of the fields {fields}"
    return TaggedFile(path, texts, sentences, layout, {}, objects[0].unit)


def _read_tags(
    found: JsonObject, field: str, names: Sequence[str]
) -> list[str]:
    tags = _list(found, field, "tag_column")
    if any(type(tag) is int for tag in tags):
        if not names:
            raise InputError(
                f"{found.place} has numbers in {field!r} without the names of "
                f"their tags: put the {INFO} of the data set, which lists "
                "them, beside the file, or write the tags as texts (with the "
                f"datasets library: features[{field!r}].feature.int2str)"
            )
        for tag in tags:
            if type(tag) is not int or not 0 <= tag < len(names):
                raise InputError(
                    f"{found.place} has {tag!r} in {field!r}; {INFO} names the "
                    f"tags 0 to {len(names) - 1}"
                )
        tags = [names[tag] for tag in tags]
    for tag in tags:
        if not isinstance(tag, str) or not TAG.fullmatch(tag):
            raise InputError(
                f"{found.place} has {tag!r} in {field!r}; expected a tag, O or "
                "one like B-PER and I-PER (`tag_column` names another field)"
            )
    return tags


def _list(found: JsonObject, field: str, argument: str) -> list[Any]:
    values = found.values.get(field)
    if not isinstance(values, list):
        raise InputError(
            f"{found.place} has no list in the field {field!r}; its fields are "
            f"{', '.join(map(repr, found.values))}; name the right one by "
            f"`{argument}`"
        )
    return values


def with_field(file: TaggedFile, predicted: Iterable[Sequence[str]]) -> str:
    """The objects with the predicted tags, in the file's scheme, as one more
    field."""
    objects = {
        number: {**json.loads(line), PREDICTED: []}
        for number, line in enumerate(file.lines)
        if line
    }
    for sentence, tags in zip(
        file.sentences, file.in_own_scheme(predicted), strict=True
    ):
        objects[sentence.lines[0]][PREDICTED] = tags
    return "".join(f"{json.dumps(row)}\n" for row in objects.values())
