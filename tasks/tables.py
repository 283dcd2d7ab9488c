"""People's own examples: TSV, CSV and JSONL files, plain or .gz.

Ours; google-research/bert asks for a processor class for each data set.
"""

import csv
import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from data.files import read_lines
from input_error import InputError
from tasks.examples import Example

ENDINGS = (".tsv", ".csv", ".jsonl", ".json")
MAX_CELL = 1 << 30  # characters; the csv module's own limit is 131,072


@dataclasses.dataclass(frozen=True)
class TableFormat:
    """Columns by their names in the header, by their numbers from 0 where
    there is none, or by the keys of a JSON object."""

    text_column: str
    text_pair_column: str | None
    label_column: str
    has_header: bool
    label_separator: str = ","  # put between those that JSON lists


def read_table(
    path: str, table: TableFormat, has_labels: bool
) -> list[Example]:
    """The examples of a file; its ending says what it is.

    Args:
        has_labels: whether the label column has to be there.

    Raises:
        InputError: no such file, or a row that does not fit the format.
    """
    plain = path.removesuffix(".gz")
    if plain.endswith((".jsonl", ".json")):
        rows = _json_rows(path, table.label_separator)
    elif plain.endswith((".tsv", ".csv")):
        rows = table_rows(path, plain.endswith(".csv"), table.has_header)
    else:
        raise InputError(
            f"{path} ends in none of {', '.join(ENDINGS)} (.gz may follow); "
            "the ending says how a table is read"
        )
    wanted = [table.text_column, table.text_pair_column]
    wanted.append(table.label_column if has_labels else None)
    examples = []
    for number, row in rows:
        text_a, text_b, label = (
            None if column is None else _cell(path, number, row, column)
            for column in wanted
        )
        guid = f"{path}, line {number}"
        examples.append(Example(guid, text_a or "", text_b, label))
    if not examples:
        raise InputError(f"{path} holds no example")
    return examples


def labels_of(
    examples: Iterable[Example], separator: str | None = None
) -> tuple[str, ...]:
    """All labels, numbers in their order before the rest in theirs.

    Args:
        separator: between several labels of one example; None: one each.
    """
    labels: set[str] = set()
    for example in examples:
        label = example.label or ""
        parts = [label] if separator is None else label.split(separator)
        labels.update(part.strip() for part in parts)
    return tuple(sorted(labels - {""}, key=_natural))


def _natural(label: str) -> tuple[bool, float, str]:
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    if math.isfinite(number):  # "nan" and "inf" are words here
        return False, number, label
    return True, 0.0, label


def _cell(path: str, number: int, row: dict[str, str], column: str) -> str:
    if column not in row:
        raise InputError(
            f"{path}, line {number} has no column {column!r} but "
            f"{', '.join(map(repr, row))}; check --text_column, "
            "--text_pair_column, --label_column and --has_header"
        )
    return row[column].strip()


def _lines(path: str) -> Iterator[str]:
    for number, line in enumerate(read_lines(path)):
        yield line.removeprefix("\ufeff") if number == 0 else line


def json_objects(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """One a line, with the line's number from 1; empty lines have none."""
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number} is not JSON ({error}); expected one "
                "object a line"
            ) from error
        if not isinstance(row, dict):
            raise InputError(
                f"{path}, line {number} is not a JSON object but {line[:60]!r}"
            )
        yield number, row


def _json_rows(
    path: str, separator: str
) -> Iterator[tuple[int, dict[str, str]]]:
    for number, row in json_objects(path):
        try:
            yield number, {k: _text(v, separator) for k, v in row.items()}
        except RecursionError as error:
            raise InputError(
                f"{path}, line {number} has lists in too many lists ({error})"
            ) from error


def _text(value: object, separator: str) -> str:
    """What a table would say: a list of labels is one cell."""
    if isinstance(value, list):
        return separator.join(_text(part, separator) for part in value)
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    # half of a sign that takes two, as where a text was cut
    return text.encode("utf-8", "replace").decode()


def table_rows(
    path: str, is_csv: bool, has_header: bool
) -> Iterator[tuple[int, dict[str, str]]]:
    """The cells of each line by their columns' names, with its number."""
    names: Sequence[str] | None = None
    for number, cells in _csv_rows(path) if is_csv else _tsv_rows(path):
        if names is None:
            names = cells if has_header else [str(i) for i in range(len(cells))]
            if has_header:
                continue
        if len(cells) != len(names):
            raise InputError(
                f"{path}, line {number} has {len(cells)} columns, where the "
                f"first line has {len(names)}"
            )
        yield number, dict(zip(names, cells, strict=True))


def _tsv_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(_lines(path), 1):
        line = line.removesuffix("\n")
        if line:
            yield number, line.split("\t")


def _csv_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(MAX_CELL)
    reader = csv.reader(_lines(path), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num} is not CSV: {error}"
        ) from error
