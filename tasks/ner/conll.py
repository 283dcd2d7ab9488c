"""Files of tagged words in columns: one word a line, as CoNLL-2003 has them.

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
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bert_keras.data.text_files import read_bare_lines
from bert_keras.errors import InputError
from bert_keras.tasks.ner.iob_tags import (
    IOB2,
    OUTSIDE,
    TAG,
    entities,
    scheme_of,
    to_tags,
)

DOCUMENT = "-DOCSTART-"
NUMBER = re.compile(r"\d+([-.]\d+)?")  # of a word, or of CoNLL-U's other lines
NO_TAG = "_"  # of those


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
        count = self.sentences[-1].document + 1
        documents: list[list[Sentence]] = [[] for _ in range(count)]
        for sentence in self.sentences:
            documents[sentence.document].append(sentence)
        return [own for own in documents if own]

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


class _Layout(NamedTuple):
    width: int  # columns of a word's line
    word: int
    tag: int | None
    has_numbers: bool  # the first column numbers the words


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
    layout = _find_layout(path, rows, word_column, tag_column)
    sentences, other_tags = _read(path, rows, layout)
    if not sentences:
        raise InputError(
            f"{path} holds no sentence; expected a word a line, its tag last"
        )
    if layout.width > 1 and _are_numbers(sentences):
        raise InputError(
            f"{path} has numbers (1, 2, 3, ...) in column {layout.word}, where "
            "words were expected; name the column of the words, counted from "
            f"0, such as `word_column={layout.word + 1}`"
        )
    num_comments = (
        sum(map(bool, rows))
        - sum(len(sentence.words) for sentence in sentences)
        - len(other_tags)
    )
    description = _describe(rows, layout)
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


def _find_layout(
    path: str,
    rows: Sequence[list[str]],
    word_column: str | None,
    tag_column: str | None,
) -> _Layout:
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
    has_tags = -width <= tag < width and tag % width != word
    has_numbers = word > 0 and all(NUMBER.fullmatch(row[0]) for row in words)
    return _Layout(width, word, tag % width if has_tags else None, has_numbers)


def _to_number(argument: str, column: str) -> int:
    try:
        return int(column)
    except ValueError as error:
        raise InputError(
            f"`{argument}={column}` is not a number; columns of a text file "
            "are counted from 0, and -1 is the last (names are for JSON)"
        ) from error


def _read(
    path: str, rows: Sequence[list[str]], layout: _Layout
) -> tuple[list[Sentence], dict[int, str]]:
    """The sentences, and the tags of lines that are not words."""
    sentences: list[Sentence] = []
    other_tags: dict[int, str] = {}
    document = -1
    numbers: list[int] = []  # of the lines of a sentence
    for number, row in enumerate([*rows, []]):
        if row and DOCUMENT not in row:
            has_width = len(row) == layout.width
            is_tagged = has_width and (
                layout.tag is None or TAG.fullmatch(row[layout.tag])
            )
            if not numbers and row[0].startswith("#") and not is_tagged:
                continue  # a comment
            if layout.has_numbers and not row[0].isdecimal():
                other_tags[number] = NO_TAG
                continue
            if not has_width:
                raise InputError(
                    f"{path}, line {number + 1} has {len(row)} columns where "
                    f"the lines before have {layout.width}; expected the same "
                    "in every line"
                )
            if layout.tag is not None and not is_tagged:
                raise InputError(
                    f"{path}, line {number + 1} has {row[layout.tag]!r} in "
                    f"column {layout.tag}; expected a tag, O or one like B-PER "
                    "and I-PER (`tag_column` names another column, counted "
                    "from 0; a file without tags has one column)"
                )
            numbers.append(number)
            continue
        if numbers:
            words = [rows[i][layout.word] for i in numbers]
            tags = []
            if layout.tag is not None:
                tags = [rows[i][layout.tag] for i in numbers]
            sentences.append(Sentence(words, tags, numbers, document))
            numbers = []
        if row:
            other_tags[number] = OUTSIDE
            document += 1
    return sentences, other_tags


def _are_numbers(sentences: Sequence[Sentence]) -> bool:
    """Whether the words of each sentence are 1, 2, 3 ... or 0, 1, 2 ..."""
    if all(len(sentence.words) == 1 for sentence in sentences):
        return False
    for words, *_ in sentences:
        begin = int(words[0] == "1")
        if words != [str(i) for i in range(begin, begin + len(words))]:
            return False
    return True


def _describe(rows: Sequence[list[str]], layout: _Layout) -> str:
    """Names other columns that look like tags, too."""
    if layout.width == 1:
        return "a word a line"
    if layout.tag is None:
        return f"words in column {layout.word}, no tags"
    text = f"words in column {layout.word}, tags in column {layout.tag}"
    words = [
        row for row in rows if len(row) == layout.width and DOCUMENT not in row
    ]
    others = [
        str(column)
        for column in range(layout.width)
        if column not in (layout.word, layout.tag)
        and all(TAG.fullmatch(row[column]) for row in words)
    ]
    if others:
        text += f" (tags, too, in column {', '.join(others)})"
    return text


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
