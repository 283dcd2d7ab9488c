"""People's own tables: TSV, CSV and JSON lines."""

import dataclasses
import gzip
from pathlib import Path

import pytest

from input_error import InputError
from tasks.examples import Example
from tasks.tables import TableFormat, labels_of, read_table

ONE_TEXT = TableFormat("text", None, "label", has_header=True)
PAIR = TableFormat("question", "answer", "label", has_header=True)


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def contents(examples: list[Example]) -> list[tuple[str | None, ...]]:
    return [(e.text_a, e.text_b, e.label) for e in examples]


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "mark"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", 'text\tid\tlabel\nSo "good\t1\tyes\nSo, bad\t2\tno\n'),
        ("a.csv", 'text,id,label\r\n"So ""good",1,yes\r\n"So, bad",2,no'),
        (
            "a.jsonl",
            '{"text": "So \\"good", "label": "yes"}\n\n'
            '{"label": "no", "text": "So, bad"}\n',
        ),
    ],
)
def test_one_text(
    tmp_path: Path, name: str, text: str, mark: str, ending: str
) -> None:
    path = write(tmp_path, name + ending, mark + text)
    found = read_table(path, ONE_TEXT, has_labels=True)
    assert contents(found) == [
        ('So "good', None, "yes"),
        ("So, bad", None, "no"),
    ]
    assert found[0].guid == f"{path}, line {1 if 'json' in name else 2}"


def test_pairs_without_labels(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", "answer\tquestion\nB\tA\n\tC\n")
    assert contents(read_table(path, PAIR, has_labels=False)) == [
        ("A", "B", None),
        ("C", "", None),
    ]


def test_columns_by_number_where_there_is_no_header(tmp_path: Path) -> None:
    table = TableFormat("2", "0", "1", has_header=False)
    path = write(tmp_path, "a.csv", "b,1,a\nd,0,c\n")
    assert contents(read_table(path, table, has_labels=True)) == [
        ("a", "b", "1"),
        ("c", "d", "0"),
    ]


def test_a_quoted_cell_of_csv_may_hold_lines_and_be_long(
    tmp_path: Path,
) -> None:
    path = write(
        tmp_path, "a.csv", f'text,label\n"x\ny",1\n{"z" * 200_000},0\n'
    )
    found = read_table(path, ONE_TEXT, has_labels=True)
    assert contents(found) == [("x\ny", None, "1"), ("z" * 200_000, None, "0")]


def test_a_row_of_empty_cells_is_a_row(tmp_path: Path) -> None:
    """Predictions are to have as many lines as there are rows."""
    path = write(tmp_path, "a.tsv", "text\tid\na\t\n\t\nb\t\n")
    found = read_table(path, ONE_TEXT, has_labels=False)
    assert [e.text_a for e in found] == ["a", "", "b"]


def test_values_of_json_are_cells(tmp_path: Path) -> None:
    lines = ["2", "2.5", "true", "null", '["b", "a"]', "[]", '"b, a"']
    text = "".join(f'{{"text": "t", "label": {x}}}\n' for x in lines)
    path = write(tmp_path, "a.json", text)
    found = read_table(path, ONE_TEXT, has_labels=True)
    assert [e.label for e in found] == [
        "2", "2.5", "true", "", "b,a", "", "b, a",
    ]  # fmt: skip


def test_listed_labels_may_hold_a_comma(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "t", "label": ["a, b", "c"]}\n')
    table = dataclasses.replace(ONE_TEXT, label_separator=";")
    found = read_table(path, table, has_labels=True)
    assert labels_of(found, ";") == ("a, b", "c")


def test_labels_are_sorted_as_people_would() -> None:
    def examples(*labels: str | None) -> list[Example]:
        return [Example("x", "t", None, label) for label in labels]

    assert labels_of(examples("10", "9", "-1", "9", None, "")) == (
        "-1",
        "9",
        "10",
    )
    assert labels_of(examples("no", "3", "nan", "2.5", "inf", "Yes")) == (
        "2.5",
        "3",
        "Yes",
        "inf",
        "nan",
        "no",
    )
    assert labels_of(examples("b, a", "c", "", "a"), ",") == ("a", "b", "c")
    assert labels_of(examples("b, a", "c")) == ("b, a", "c")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "", "holds no example"),
        ("a.csv", "text,label\n", "holds no example"),
        ("a.jsonl", "\n", "holds no example"),
        ("a.txt", "text\n", r"ends in none of \.tsv, \.csv"),
        (
            "a.tsv",
            "sentence\tlabel\na\t1\n",
            "line 2 has no column 'text' but 'sentence', 'label'; check --text",
        ),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "b"}\n',
            "line 2 has no column 'label' but 'text'",
        ),
        ("a.tsv", "text\tlabel\na\t1\nb\t1\t2\n", "line 3 has 3 columns.* 2"),
        ("a.csv", "text,label\na,1\nb\n", "line 3 has 1 columns.* 2"),
        ("a.csv", 'text,label\na,1\n"b" c,1\n', "line 3 is not CSV"),
        ("a.csv", 'text,label\na,1\n"b,1\n', "line 3 is not CSV"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"te', "line 2 is not JSON"),
        ("a.jsonl", "[1]\n", r"line 1 is not a JSON object but '\[1\]"),
    ],
)
def test_bad_tables_are_named_with_the_line(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(InputError, match=message) as caught:
        read_table(path, ONE_TEXT, has_labels=True)
    assert str(caught.value).startswith(path)


def test_no_utf_8_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\na,1\nb\xe9,0\n")
    with pytest.raises(InputError, match=r"a\.csv, line 3 is not UTF-8"):
        read_table(str(path), ONE_TEXT, has_labels=True)
    with pytest.raises(InputError, match=r"b\.csv"):
        read_table(str(tmp_path / "b.csv"), ONE_TEXT, has_labels=True)


def test_the_label_column_is_asked_for_only_where_labels_are_wanted(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, "a.tsv", "text\na\n")
    assert contents(read_table(path, ONE_TEXT, False)) == [("a", None, None)]
    other = dataclasses.replace(ONE_TEXT, label_column="class")
    with pytest.raises(InputError, match="no column 'class'"):
        read_table(path, other, has_labels=True)
