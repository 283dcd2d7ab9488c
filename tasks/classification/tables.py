"""Your own examples: TSV, CSV and JSON files, plain or .gz.

Ours; google-research/bert asks for a processor class for each data set.
"""

import contextlib
import csv
import dataclasses
import itertools
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_keras.data.text_files import read_text_lines, without_half_characters
from bert_keras.errors import InputError, warn, with_flags
from bert_keras.tasks.classification.examples import InputExample, Label
from bert_keras.tasks.json_files import read_objects
from bert_keras.tasks.label_names import class_key

ENDINGS = (".tsv", ".csv", ".jsonl", ".json")
SEPARATORS = {"\t": "tab", ",": ",", ";": ";", "|": "|"}  # for the argument
QUOTED = re.compile('"(?:[^"]|"")*"')  # a cell as CSV encloses it
MAX_CELL = 1 << 30  # characters; the csv module's own limit is 131,072
HEADER_WORDS = frozenset(
    "category class id index label labels question review score sentence"
    " sentence1 sentence2 target text title".split()
)

Cells = Iterator[tuple[int, list[str]]]  # of each line, with its number


@dataclasses.dataclass(frozen=True)
class TableFormat:
    """Columns by their names in the header, by their numbers from 0 in a file
    without header, or by the keys of a JSON object."""

    text_column: str
    text_pair_column: str | None
    label_column: str
    has_header: bool
    separator: str | None = None  # None: by the ending, or by the header
    encoding: str | None = None  # None: by a byte-order mark, else UTF-8

    def __post_init__(self) -> None:
        if self.separator in ("tab", "\\t"):
            object.__setattr__(self, "separator", "\t")
        elif self.separator is not None and (
            len(self.separator) != 1 or self.separator in '"\r\n'
        ):
            raise InputError(
                f"`separator` is {self.separator!r}; expected one character, "
                "or tab"
            )

    @property
    def text_columns(self) -> list[str]:
        pair = self.text_pair_column
        return [self.text_column, *([] if pair is None else [pair])]


def read_table(
    path: str, table: TableFormat, has_labels: bool
) -> list[InputExample]:
    """Reads a file whose ending says what it is; each row is an example.

    Args:
        has_labels: whether the label column has to be there.

    Raises:
        InputError: no such file, or a row that does not fit the format.
    """
    plain = path.removesuffix(".gz")
    wanted = [*table.text_columns, *([table.label_column] * has_labels)]
    rows: Iterator[tuple[str, Mapping[str, Any]]]
    if plain.endswith((".tsv", ".csv")):
        rows = table_rows(
            path, wanted, table.has_header, table.separator, table.encoding
        )
    elif plain.endswith((".jsonl", ".json")):
        rows = (
            (found.place, found.values)
            for found in read_objects(path, table.encoding)
        )
    else:
        raise InputError(
            f"{path} ends in none of {', '.join(ENDINGS)} (.gz may follow); "
            "the ending says how a table is read"
        )
    examples = []
    for place, row in rows:
        _check_columns(place, list(row), wanted)
        first, *rest = (
            _text(place, column, row[column]) for column in table.text_columns
        )
        label: Label = None
        if has_labels:
            column = table.label_column
            value = row[column]
            label = (
                tuple(_text(place, column, part) for part in value)
                if isinstance(value, list)
                else _text(place, column, value)
            )
        examples.append(
            InputExample(place, first, rest[0] if rest else None, label)
        )
    if not examples:
        raise InputError(f"{path} holds no example")
    return examples


def names_text_columns(path: str, table: TableFormat) -> bool:
    """Whether a TSV file has a header with the columns of the texts. Warns
    where it has not, but its first line looks like a header."""
    lines = read_text_lines(path, table.encoding, refuses=False)
    header = next((line for line in lines if line.strip()), "")
    cells = header.rstrip("\r\n").split(table.separator or "\t")
    names = [_unquoted(cell) for cell in cells]
    if table.has_header and {*table.text_columns} <= {*names}:
        return True
    _warn_of_header(path, names, "give `text_column`")
    return False


def labels_of(
    examples: Iterable[InputExample], separator: str | None = None
) -> tuple[str, ...]:
    """All labels: numbers first, in their order, then the others in theirs.
    Spellings of one whole number become one label, and a line says so.

    Args:
        separator: between several labels of one example; None: one each.
    """
    labels: set[str] = set()
    for example in examples:
        parts: Sequence[str] = example.label or ()
        if isinstance(parts, str):
            parts = [parts] if separator is None else parts.split(separator)
        labels.update(part.strip() for part in parts)
    spellings: dict[str, list[str]] = {}
    for label in sorted(labels - {""}, key=lambda label: (len(label), label)):
        spellings.setdefault(class_key(label), []).append(label)
    for first, *others in spellings.values():
        if others:
            print(
                f"the labels {', '.join([first, *others])} are the same number "
                f"and become one class, {first}",
                file=sys.stderr,
            )
    firsts = (first for first, *_ in spellings.values())
    return tuple(sorted(firsts, key=_natural))


def are_measures(labels: Sequence[str], num_examples: int) -> bool:
    """Whether they look like measured numbers rather than classes: more than
    ten that are not all whole, or hardly two examples for each."""
    numbers = [number for is_word, number, _ in map(_natural, labels)]
    if any(is_word for is_word, _, _ in map(_natural, labels)):
        return False
    are_whole = all(number.is_integer() for number in numbers)
    return len(labels) > 10 and (
        not are_whole or len(labels) > num_examples / 2
    )


def _natural(label: str) -> tuple[bool, float, str]:
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    if math.isfinite(number):  # "nan" and "inf" are words here
        return False, number, label
    return True, 0.0, label


def _text(place: str, column: str, value: Any) -> str:
    if isinstance(value, list | dict):
        kind = "a list" if isinstance(value, list) else "an object"
        raise InputError(
            f"{place} has {kind} in {column!r}, where a text was expected"
        )
    if value is None or value != value:  # null and NaN
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return without_half_characters(text).strip()


def table_rows(
    path: str,
    wanted: Sequence[str] = (),
    has_header: bool = True,
    separator: str | None = None,
    encoding: str | None = None,
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the place of each row of a .csv or .tsv file, which is its last
    line, and its cells by their columns' names.

    An empty line is a row only where rows have one column.

    Args:
        wanted: columns that must exist.
        separator: between columns; None: the one at which the header has the
            wanted columns, else a comma for .csv and a tab for .tsv. A line
            says where this is not the ending's.

    Raises:
        InputError: a wanted column is missing, or a row has more or fewer
            columns than the first.
    """
    csv.field_size_limit(MAX_CELL)
    is_csv = path.removesuffix(".gz").endswith(".csv")
    lines = read_text_lines(path, encoding, any_end=is_csv)
    head = []
    for line in lines:
        head.append(line)
        if line.strip("\r\n"):
            break
    if separator is None:
        separator = "," if is_csv else "\t"
        if has_header and head:
            separator = _separator(path, head[-1], wanted, separator)
    lines = itertools.chain(head, lines)
    rows = (
        _csv_rows(path, lines, separator)
        if is_csv or separator != "\t"
        else _tsv_rows(path, lines)
    )
    names: Sequence[str] = ()
    empty: list[str] = []  # places before the first that is not
    for number, cells in rows:
        place = f"{path}, line {number}"
        if cells in ([], [""]):
            if not names:
                empty.append(place)
            elif len(names) == 1:
                yield place, {names[0]: ""}
            continue
        if not names:
            names = cells if has_header else [str(i) for i in range(len(cells))]
            _check_columns(place, names, wanted)
            if has_header:
                continue
            used = [cells[names.index(column)] for column in wanted]
            _warn_of_header(path, used, "leave out `has_header=False`")
            if len(names) == 1:
                yield from ((blank, {names[0]: ""}) for blank in empty)
        if len(cells) != len(names):
            remedy = (
                "; if its cells are enclosed in quotes, name it .csv"
                if not is_csv and any('"' in cell for cell in cells)
                else ""
            )
            raise InputError(
                f"{place} has {len(cells)} columns, where the first line has "
                f"{len(names)}{remedy}"
            )
        yield place, dict(zip(names, cells, strict=True))


def _check_columns(
    place: str, names: Sequence[str], wanted: Sequence[str]
) -> None:
    for column in wanted:
        if column not in names:
            raise InputError(
                f"{place} has no column {column!r} but "
                f"{', '.join(map(repr, names))}; check `text_column`, "
                "`text_pair_column`, `label_column`, `separator` and "
                "`has_header`"
            )
        if names.count(column) > 1:
            raise InputError(
                f"{place} names {names.count(column)} columns {column!r}; "
                "expected one"
            )


def _separator(
    path: str, header: str, wanted: Sequence[str], usual: str
) -> str:
    """The one at which the header has the wanted columns, else the usual."""
    for separator in (usual, *SEPARATORS):
        with contextlib.suppress(csv.Error):  # NUL, before Python 3.11
            names = next(csv.reader([header], delimiter=separator), [])
            if not names or not {*wanted} <= {*names}:
                continue
            if separator != usual:
                text = (
                    f"{path} is read with `separator="
                    f"'{SEPARATORS[separator]}'`, as its header shows"
                )
                print(with_flags(text), file=sys.stderr)
            return separator
    return usual


def _warn_of_header(path: str, cells: Sequence[str], remedy: str) -> None:
    if HEADER_WORDS.intersection(cell.strip().lower() for cell in cells):
        warn(
            f"{path} begins with {', '.join(map(repr, cells))}, which looks "
            f"like a header and is read as an example; {remedy} if it is one"
        )


def _tsv_rows(path: str, lines: Iterable[str]) -> Cells:
    """Quotes are characters, unless every cell with a quote is enclosed in
    quotes, and either some have doubled quotes inside or the whole header is
    enclosed."""
    rows = [line.rstrip("\r\n").split("\t") for line in lines]
    cells = [cell for row in rows for cell in row if '"' in cell]
    header = next((row for row in rows if row != [""]), [])
    if all(map(QUOTED.fullmatch, cells)) and (
        any('""' in cell[1:-1] for cell in cells)
        or (header and all(map(QUOTED.fullmatch, header)))
    ):
        print(
            f"{path} encloses cells in quotes as CSV does, and is read so",
            file=sys.stderr,
        )
        rows = [[_unquoted(cell) for cell in row] for row in rows]
    yield from enumerate(rows, 1)


def _unquoted(cell: str) -> str:
    if QUOTED.fullmatch(cell):
        return cell[1:-1].replace('""', '"')
    return cell


def _csv_rows(path: str, lines: Iterable[str], separator: str) -> Cells:
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num} is not CSV: {error}"
        ) from error
