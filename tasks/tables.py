"""Rows of files, each with its place for errors: TSV, CSV and JSON, or .gz.

A JSON file has one object a line, an array of objects, or one object over many
lines; which of these it is shows in its first line that is not empty.
"""

import contextlib
import csv
import io
import itertools
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bert_keras.data.text_files import (
    MAX_LINE_BYTES,
    MAX_ROW_BYTES,
    read_text_lines,
    without_half_characters,
)
from bert_keras.errors import InputError, say_once, warn
from bert_keras.files import parse_json

ENDINGS = (".tsv", ".csv", ".jsonl", ".json")
SEPARATORS = {"\t": "tab", ",": ",", ";": ";", "|": "|"}  # for the argument
QUOTED = re.compile('"(?:[^"]|"")*"')  # a cell as CSV encloses it
HEADER_WORDS = frozenset(
    "category class id index label labels question review score sentence"
    " sentence1 sentence2 target text title".split()
)


class JsonObject(NamedTuple):
    path: str
    unit: str  # "line", or "entry" of an array
    number: int  # of the line or entry, from 1
    values: dict[str, Any]

    @property
    def place(self) -> str:
        return f"{self.path}, {self.unit} {self.number}"


class Row(NamedTuple):
    place: str  # "FILE, line N", for errors
    names: Sequence[str]  # of the columns; some may be the same
    cells: Sequence[Any]  # texts, or any values of JSON

    def by_name(self) -> tuple[str, dict[str, Any]]:
        """The place, and the cells by their columns' names."""
        return self.place, dict(zip(self.names, self.cells, strict=True))


def read_rows(
    path: str,
    endings: tuple[str, ...] = ENDINGS,
    wanted: Sequence[str] = (),
    has_header: bool = True,
    separator: str | None = None,
    encoding: str | None = None,
) -> Iterator[Row]:
    """Yields the rows of a table.

    A row of a .tsv or .csv file is at its last line; an empty line is a row
    only where rows have one column. Files of other endings hold JSON objects.

    Args:
        endings: that are taken; .gz may follow.
        wanted: columns that must exist.
        has_header: whether the first line of a .tsv or .csv file names its
            columns; if not, they are called "0", "1", and so on.
        separator: between columns; None: the one at which the header has the
            wanted columns, else a comma for .csv and a tab for .tsv. A line
            says where this is not the ending's.
        encoding: None: by a byte-order mark, else UTF-8.

    Raises:
        InputError: the file cannot be read, a wanted column is missing, or a
            row has more or fewer columns than the first.
    """
    plain = path.removesuffix(".gz")
    if not plain.endswith(endings):
        raise InputError(
            f"{path} ends in none of {', '.join(endings)} (.gz may follow); "
            "the ending says how a file is read"
        )
    is_csv = plain.endswith(".csv")
    if not is_csv and not plain.endswith(".tsv"):
        for found in read_objects(path, encoding):
            _check_columns(found.place, [*found.values], wanted)
            yield Row(found.place, [*found.values], [*found.values.values()])
        return
    csv.field_size_limit(MAX_ROW_BYTES)  # by default it is 131,072
    lines = list(read_text_lines(path, encoding, any_end=is_csv))
    if separator is None:
        separator = "," if is_csv else "\t"
        if has_header:
            separator = _separator(path, lines, wanted, separator)
    names: Sequence[str] = ()
    empty: list[str] = []  # places before the first that is not
    as_csv = is_csv or separator != "\t"
    cut = (
        _csv_rows(path, lines, separator) if as_csv else _tsv_rows(path, lines)
    )
    for number, cells in cut:
        place = f"{path}, line {number}"
        if cells in ([], [""]):
            if not names:
                empty.append(place)
            elif len(names) == 1:
                yield Row(place, names, [""])
            continue
        if not names:
            names = cells if has_header else [str(i) for i in range(len(cells))]
            _check_columns(place, names, wanted)
            if has_header:
                continue
            used = [cells[names.index(column)] for column in wanted]
            warn_of_header(path, used, "leave out `has_header=False`")
            if len(names) == 1:
                yield from (Row(blank, names, [""]) for blank in empty)
        if has_header and len(names) > 1 and cells == names:
            raise InputError(
                f"{place} is the header once more; delete the line"
            )
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
        yield Row(place, names, cells)


def csv_line(cells: Iterable[Any]) -> str:
    """A row as CSV, without the end of its line.

    >>> csv_line(["a", "b; c", None, 1.5, "d, e"])
    'a,b; c,,1.5,"d, e"'
    """
    line = io.StringIO()
    csv.writer(line).writerow([_csv_cell(cell) for cell in cells])
    return line.getvalue().removesuffix("\r\n")


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return without_half_characters(text)


def read_objects(
    path: str, encoding: str | None = None
) -> Iterator[JsonObject]:
    """Yields the objects of a JSON file, plain or .gz.

    Raises:
        InputError: it cannot be read, is not JSON or has something else.
    """
    lines = read_text_lines(path, encoding, longest=MAX_LINE_BYTES)
    return parse_objects(path, lines)


def parse_objects(path: str, lines: Iterable[str]) -> Iterator[JsonObject]:
    """Yields the objects of a file's lines, each with its end."""
    rest = iter(lines)
    begin, head = next(
        ((i, x) for i, x in enumerate(rest, 1) if x.strip()), (1, "")
    )
    first = []  # the value of the first line, if it is one
    if not head.lstrip().startswith("["):
        with contextlib.suppress(ValueError):
            first = [(begin, parse_json(head))]
    values: Iterable[tuple[int, Any]]
    if first:
        unit, others = "line", enumerate(rest, begin + 1)
        values = itertools.chain(
            first, ((i, _parse(path, i, x)) for i, x in others if x.strip())
        )
    else:
        unit, text = "entry", head + "".join(rest)
        found = _parse(path, begin, text) if text else []
        values = enumerate(found if isinstance(found, list) else [found], 1)
    for number, value in values:
        if not isinstance(value, dict):
            shown = "a list" if isinstance(value, list) else json.dumps(value)
            raise InputError(
                f"{path}, {unit} {number} is not a JSON object but {shown[:60]}"
            )
        yield JsonObject(path, unit, number, value)


def _parse(path: str, first_line: int, text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        place, reason = path, str(error)
        if isinstance(error, json.JSONDecodeError):
            line = first_line + error.lineno - 1
            place += f", line {line}, column {error.colno}"
            reason = error.msg
        raise InputError(
            f"{place} is not JSON ({reason}); expected an object a line, or an "
            "array of objects"
        ) from error


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
    path: str, lines: Iterable[str], wanted: Collection[str], usual: str
) -> str:
    """The one at which the header has the wanted columns, else the usual."""
    header = next((line for line in lines if line.strip("\r\n")), "")
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
                say_once(text)
            return separator
    return usual


def header_names(
    path: str,
    separator: str | None = None,
    encoding: str | None = None,
    wanted: Collection[str] = (),
) -> list[str]:
    """The cells of a TSV file's first line that is not empty.

    Args:
        separator: None: the one at which these are the wanted columns.
    """
    lines = read_text_lines(path, encoding, refuses=False)
    header = next((line for line in lines if line.strip()), "")
    separator = separator or _separator(path, [header], wanted, "\t")
    cells = header.rstrip("\r\n").split(separator)
    return [_unquoted(cell) for cell in cells]


def warn_of_header(path: str, cells: Sequence[str], remedy: str) -> None:
    """Warns of a first line that is read as an example but does not look so."""
    if HEADER_WORDS.intersection(cell.strip().lower() for cell in cells):
        warn(
            f"{path} begins with {', '.join(map(repr, cells))}, which looks "
            f"like a header and is read as an example; {remedy} if it is one"
        )


def _tsv_rows(
    path: str, lines: Iterable[str]
) -> Iterator[tuple[int, list[str]]]:
    """The number of each line and its cells.

    Quotes are characters, unless every cell with a quote is enclosed in quotes,
    and either some have doubled quotes inside or the whole header is enclosed.
    """
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
    return cell[1:-1].replace('""', '"') if QUOTED.fullmatch(cell) else cell


def _csv_rows(
    path: str, lines: Iterable[str], separator: str
) -> Iterator[tuple[int, list[str]]]:
    """The number of each row's last line and its cells."""
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num} is not CSV: {error}"
        ) from error
