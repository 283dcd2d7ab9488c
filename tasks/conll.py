"""Files of tagged words in columns: one word a line, as CoNLL-2003 has them.

    -DOCSTART- -X- -X- O

    Peter NNP B-NP B-PER
    Blackburn NNP I-NP I-PER

The word is in the first column and the tag in the last; what is between, if
anything, is not looked at. An empty line ends a sentence, a -DOCSTART- line
begins a document. A file without tags has words alone. Format: Tjong Kim Sang
and De Meulder 2003, section 2.2.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from data.files import read_lines
from input_error import InputError
from tasks.entities import (
    IOB2,
    OUTSIDE,
    TAG,
    entities,
    scheme_of,
    to_tags,
)

DOCUMENT = "-DOCSTART-"


class Sentence(NamedTuple):
    words: list[str]
    tags: list[str]  # as the file has them; empty where it has none
    first_line: int  # of the file, from 0
    document: int  # -1 before the first -DOCSTART-


class ColumnFile(NamedTuple):
    path: str
    lines: list[str]  # without their ends
    sentences: list[Sentence]

    @property
    def has_tags(self) -> bool:
        return bool(self.sentences[0].tags)

    @property
    def documents(self) -> list[list[Sentence]]:
        """The sentences by document.

        Raises:
            InputError: the file does not tell.
        """
        if self.sentences[0].document < 0:
            raise InputError(
                f"{self.path} does not begin with a {DOCUMENT} line, so that "
                "its documents are not known; give --nodocument_context or "
                "put such a line before each document"
            )
        count = self.sentences[-1].document + 1
        documents: list[list[Sentence]] = [[] for _ in range(count)]
        for sentence in self.sentences:
            documents[sentence.document].append(sentence)
        return [own for own in documents if own]


def read_columns(path: str) -> ColumnFile:
    """Reads a file, which may also lie on gs:// or be packed as .gz.

    Raises:
        InputError: it holds no sentence, its lines differ in their columns, or
            a last column is no tag.
    """
    lines = [line.rstrip("\n") for line in read_lines(path)]
    if lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    sentences = list(_sentences(path, lines))
    if not sentences:
        raise InputError(
            f"{path} holds no sentence; expected a word a line, its tag last"
        )
    return ColumnFile(path, lines, sentences)


def _sentences(path: str, lines: Sequence[str]) -> Iterator[Sentence]:
    document, width = -1, 0
    rows: list[list[str]] = []
    for number, line in enumerate([*lines, ""]):
        columns = _columns(line)
        is_document = columns[:1] == [DOCUMENT]
        if columns and not is_document:
            width = width or len(columns)
            _check(path, number, columns, width)
            rows.append(columns)
        elif rows:
            tags = [row[-1] for row in rows] if width > 1 else []
            words = [row[0] for row in rows]
            yield Sentence(words, tags, number - len(rows), document)
            rows = []
        document += is_document


def _columns(line: str) -> list[str]:
    """Of a line with tabs, what is between them: words may have spaces."""
    if not line.strip():
        return []
    if "\t" not in line:
        return [column for column in line.split(" ") if column]
    return [column.strip() for column in line.split("\t")]


def _check(path: str, number: int, columns: list[str], width: int) -> None:
    if len(columns) != width:
        raise InputError(
            f"{path}, line {number + 1} has {len(columns)} columns where the "
            f"lines before have {width}; expected the same in every line"
        )
    if width > 1 and not TAG.fullmatch(columns[-1]):
        raise InputError(
            f"{path}, line {number + 1} ends with {columns[-1]!r}; expected a "
            "tag as the last column, O or one like B-PER and I-PER (a file "
            "without tags has one column)"
        )


def with_column(file: ColumnFile, predicted: Sequence[Sequence[str]]) -> str:
    """The file with another column: predicted tags, in the file's scheme.

    Args:
        predicted: of each sentence.
    """
    scheme = (
        scheme_of(s.tags for s in file.sentences) if file.has_tags else IOB2
    )
    added: dict[int, str] = {}
    for sentence, tags in zip(file.sentences, predicted, strict=True):
        own = to_tags(entities(tags), len(tags), scheme)
        added |= dict(enumerate(own, sentence.first_line))
    return "".join(
        f"{_with(line, added.get(number, OUTSIDE))}\n"
        for number, line in enumerate(file.lines)
    )


def _with(line: str, tag: str) -> str:
    if not line.strip():
        return line
    return f"{line}\t{tag}" if "\t" in line else f"{line.rstrip(' ')} {tag}"
