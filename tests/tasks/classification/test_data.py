"""Your own tables, and rows of texts and pairs: the original's, and by hand."""

import dataclasses
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.input_features import pad
from bert_keras.data.tokenization import BasicTokenizer, FullTokenizer
from bert_keras.errors import InputError
from bert_keras.tasks.classification.data import (
    InputExample,
    Label,
    TableFormat,
    are_measures,
    encode_example,
    encode_examples,
    labels_of,
    names_text_columns,
    read_table,
    split_labels,
    to_examples,
)
from bert_keras.tasks.classification.glue import find_task
from bert_keras.tasks.tables import csv_line
from tests.conftest import GOLDEN

LETTERS = "abcdefghijklmnop"
ONE_TEXT = TableFormat("text", None, "label", has_header=True)
PAIR = TableFormat("question", "answer", "label", has_header=True)


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def contents(examples: list[InputExample]) -> list[tuple[Label, ...]]:
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
    lines = ["2", "2.5", "true", "null", '["b", 2]', "[]", '"b, a"']
    text = "".join(f'{{"text": "t", "label": {x}}}\n' for x in lines)
    path = write(tmp_path, "a.json", text)
    found = read_table(path, ONE_TEXT, has_labels=True)
    assert [e.label for e in found] == [
        "2", "2.5", "true", "", ("b", "2"), (), "b, a",
    ]  # fmt: skip
    path = write(tmp_path, "b.json", '{"text": "t", "label": NaN}\n')
    with pytest.raises(InputError, match="line 1.*NaN is not a number in JSON"):
        read_table(path, ONE_TEXT, has_labels=True)


def labelled(folder: Path, *labels: str) -> str:
    """A JSON file with an example for each label."""
    lines = (f'{{"text": "t", "label": {label}}}\n' for label in labels)
    return write(folder, "a.jsonl", "".join(lines))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["[2]", "[1, 0, 1]"], "line 2 has the labels 1, 0, 1, a 0 or 1 for "),
        (["[0.0, 0.0]"], "line 1 has the labels 0.0, 0.0, a 0 or 1 for each"),
        (["[true, false, false]"], "line 1 has the labels true, false, false"),
        # with one 1 each, none of them has anything twice
        (["null", "[1, 0]", "[0, 1]"], "line 2 has the labels 1, 0, a 0 or 1"),
        (["[false, true]", '""'], "line 1 has the labels false, true, a 0 or"),
        # which may be names, but every example would have all of them
        (["[0, 1]"], r'expected the names .* in quotes .* 1: \["0", "1"\]'),
    ],
)
def test_multi_hot_labels_are_not_names(
    tmp_path: Path, labels: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_table(labelled(tmp_path, *labels), ONE_TEXT, has_labels=True)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["[0, 1]", "[2, 0]", "[1]", '["a", "a"]'], ("0", "1", "2", "a")),
        (["[0, 1]", "[0]"], ("0", "1")),
        (["[0, 1]", "0"], ("0", "1")),
        (["[0, 1]", "[]"], ("0", "1")),
        (['["0", "1"]'], ("0", "1")),
    ],
)
def test_numbers_may_be_names_of_labels(
    tmp_path: Path, labels: list[str], names: tuple[str, ...]
) -> None:
    found = read_table(labelled(tmp_path, *labels), ONE_TEXT, has_labels=True)
    assert labels_of(found, ",") == names


def test_what_is_no_text_is_named() -> None:
    for value in (b"the sea", ("the", "sea"), {"the sea"}):
        rows = [("row 1", {"text": "the sea", "label": value})]
        kind = type(value).__name__
        with pytest.raises(InputError, match=f"row 1 has a {kind} in 'label'"):
            to_examples(rows, ONE_TEXT, has_labels=True)


def test_listed_labels_may_hold_a_comma(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.jsonl",
        '{"text": "t", "label": ["blue, dark", "red"]}\n'
        '{"text": "t", "label": ["blue, dark"]}\n'
        '{"text": "t", "label": []}\n'
        '{"text": "t", "label": "red, green"}\n',
    )
    found = read_table(path, ONE_TEXT, has_labels=True)
    assert labels_of(found, ",") == ("blue, dark", "green", "red")


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("['sports', 'news']", ["sports", "news"]),
        ("['news']", ["news"]),
        (" [] ", []),
        ('["a, b", "c"]', ["a, b", "c"]),
        (r'["it\u0027s", "\/", "\ud83d"]', ["it's", "/", "?"]),
        (r"""["it's", 'a "b"', 'c\'d\\', 'é']""",
         ["it's", 'a "b"', "c'd\\", "é"]),
        ("['a', ' ', ' b ']", ["a", "b"]),
        ("[a", ["[a"]),
        ("[a], b", ["[a]", "b"]),
        ("[", ["["]),
    ],
)  # fmt: skip
def test_a_cell_may_hold_a_list_of_labels(
    tmp_path: Path, cell: str, names: list[str]
) -> None:
    """As pandas writes a column of lists."""
    assert split_labels(cell, ",") == names
    row = csv_line([f"{cell}", "t"])
    path = write(tmp_path, "a.csv", f"label,text\n{row}\n")
    examples = read_table(path, ONE_TEXT, has_labels=True)
    assert labels_of(examples, ",") == tuple(sorted(names))
    # nor is a list looked for where there is one label
    assert labels_of(examples) == (cell.strip(),)


@pytest.mark.parametrize(
    "cell",
    [
        "[news]",
        "[1, 0]",
        "['a', None]",
        "['a' 'b']",  # NumPy's, which Python would join
        "[['a']]",
        "[b'a']",
        "['a'] + ['b']",
        r"['\x']",
        '["a\0", 1]',
        "[" * 100_000 + "]" * 100_000,
        "['a'" + " " * 100_000 + "']",
        "['a', " * 100_000 + "]",
    ],
)
def test_what_looks_like_a_list_of_labels(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path, "a.tsv", f"text\tlabel\nt\ta\nt\t{cell}\n")
    with pytest.raises(InputError) as caught:
        labels_of(read_table(path, ONE_TEXT, has_labels=True), ",")
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}, line 3: the label ")
    assert 'is not a list of names; expected one, such as ["a"' in sentence


def test_spellings_of_a_number_are_one_label(
    capsys: pytest.CaptureFixture[str],
) -> None:
    labels = "1.0", "0", "0.0", "1", "01", "2.5", "1.00"
    examples = [InputExample("x", "t", None, label) for label in labels]
    assert labels_of(examples) == ("0", "01", "1", "2.5")
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" are")[0] for line in said] == [
        "the labels 0, 0.0",
        "the labels 1, 1.0, 1.00",
    ]
    assert labels_of(examples[:1]) == ("1.0",)
    assert capsys.readouterr().err == ""


def test_labels_that_look_alike_are_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    labels = ["Positive", "positive", "not good", "not  good", "bad\u200b",
              "bad", "cafe\u0301", "caf\u00e9", "fine", "Да", "да"]  # fmt: skip
    assert len(labels_of(InputExample("", "", None, x) for x in labels)) == 11
    said = " ".join(capsys.readouterr().err.split())
    for pair in (
        "'Positive' and 'positive'",
        "'not good' and 'not good'",
        r"'bad' and 'bad\u200b'",
        r"'caf\xe9' and 'cafe\u0301'",
        "'Да' and 'да'",
    ):
        assert f"the labels {pair} are two classes and look alike" in said
    assert said.count("look alike") == 5


def test_labels_are_sorted_as_people_would() -> None:
    def examples(*labels: str | None) -> list[InputExample]:
        return [InputExample("x", "t", None, label) for label in labels]

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
            "line 1 has no column .text. but .sentence., .label.; "
            "check `text_column`",
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
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"te',
            "line 2, column 2 is not",
        ),
        ("a.jsonl", '{"text": ["a"], "label": 1}', "line 1 has a list in 'tex"),
        ("a.json", '[{"text": {}, "label": 1}]', "entry 1 has an object in 't"),
        (
            "a.json",
            '[{"text": "a", "label": 1}, 7]',
            "entry 2 is not a JSON ob",
        ),
        ("a.json", '[{"text": "a", "label": 1}', "is not JSON .*array of obj"),
        ("a.csv", "text,label,text\na,1,b\n", "line 1 names 2 columns 'text'"),
        ("a.tsv", 'text\tlabel\n"a\nb"\t1\n', "line 2 has 1 .* name it .csv"),
        ("a.csv", "t\0e\0x\0t\0\n", "as UTF-16 text .*`encoding=utf-16-le`"),
        ("a.jsonl", "[1]\n", "entry 1 is not a JSON object but 1"),
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
    with pytest.raises(
        InputError,
        match=r"a\.csv, line 3 is not UTF-8 .*0xe9 at column 2.*cp12",
    ):
        read_table(str(path), ONE_TEXT, has_labels=True)
    table = dataclasses.replace(ONE_TEXT, encoding="cp1252")
    found = read_table(str(path), table, has_labels=True)
    assert contents(found)[1] == ("b\xe9", None, "0")
    table = dataclasses.replace(ONE_TEXT, encoding="cp99")
    with pytest.raises(InputError, match="`encoding=cp99` is not known"):
        read_table(str(path), table, has_labels=True)
    with pytest.raises(InputError, match=r"b\.csv"):
        read_table(str(tmp_path / "b.csv"), ONE_TEXT, has_labels=True)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_byte_order_marks_say_the_encoding(
    tmp_path: Path, encoding: str, ending: str
) -> None:
    path = tmp_path / f"a.tsv{ending}"
    data = "text\tlabel\r\nnaïve 好\t1\r\n".encode(encoding)
    path.write_bytes(gzip.compress(data) if ending else data)
    found = read_table(str(path), ONE_TEXT, has_labels=True)
    assert contents(found) == [("naïve 好", None, "1")]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_lines(tmp_path: Path, name: str, end: str) -> None:
    """Also those of old Macs, of which Excel still writes some."""
    lines = ["text,label", "good,1", "bad,0"]
    if name == "a.tsv":
        lines = [line.replace(",", "\t") for line in lines]
    elif name == "a.jsonl":
        lines = [f'{{"text": "{t}", "label": {n}}}' for t, n in WORDS]
    path = write(tmp_path, name, end.join(lines) + end)
    found = read_table(path, ONE_TEXT, has_labels=True)
    assert contents(found) == [("good", None, "1"), ("bad", None, "0")]


WORDS = (("good", 1), ("bad", 0))


def test_a_return_inside_a_cell_is_white_space(tmp_path: Path) -> None:
    """`awful\\rfilm` is two words, as google-research/bert's tokenizer says."""
    rows = 'text,label\n"awful\rfilm",bad\n"nice\r\nfilm",good\n'
    path = write(tmp_path, "a.csv", rows)
    texts = [e.text_a for e in read_table(path, ONE_TEXT, has_labels=True)]
    assert texts == ["awful\rfilm", "nice\r\nfilm"]
    tokens = [BasicTokenizer().tokenize(text) for text in texts]
    assert tokens == [["awful", "film"], ["nice", "film"]]
    path = write(tmp_path, "a.tsv", "text\tlabel\r\nawful\rfilm\tbad\r\n")
    (found,) = read_table(path, ONE_TEXT, has_labels=True)
    assert found.text_a.split() == ["awful", "film"]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_an_empty_line_is_a_row_where_there_is_one_column(
    tmp_path: Path, name: str
) -> None:
    """Predictions are to have as many lines as there are rows."""
    path = write(tmp_path, name, "text\na\n\nb\n\n")
    found = read_table(path, ONE_TEXT, has_labels=False)
    assert [e.text_a for e in found] == ["a", "", "b", ""]
    assert found[2].guid == f"{path}, line 4"
    table = dataclasses.replace(ONE_TEXT, text_column="0", has_header=False)
    path = write(tmp_path, name, "\n\na\n\nb")
    found = read_table(path, table, has_labels=False)
    assert [e.text_a for e in found] == ["", "", "a", "", "b"]


@pytest.mark.parametrize(
    ("name", "separator"),
    [("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", ";"), ("a.tsv", ",")],
)
def test_the_header_shows_the_separator(
    tmp_path: Path,
    name: str,
    separator: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = f'text;label\n"Sehr{separator} gut";1\nna, ja|;0\n'
    if separator != ";":
        text = text.replace("na, ja", "na ja").replace(";", separator)
    path = write(tmp_path, name, text)
    found = [e.text_a for e in read_table(path, ONE_TEXT, has_labels=True)]
    assert found[0] == f"Sehr{separator} gut"
    shown = "tab" if separator == "\t" else separator
    assert f"read with `separator='{shown}'" in capsys.readouterr().err
    table = dataclasses.replace(ONE_TEXT, separator=shown)
    assert [e.text_a for e in read_table(path, table, True)] == found
    table = dataclasses.replace(ONE_TEXT, separator="|")
    with pytest.raises(InputError, match="no column 'text' but .*`separator"):
        read_table(path, table, has_labels=True)


def test_numbers_that_look_measured() -> None:
    tenths = [str(i / 10) for i in range(12)]
    assert are_measures(tenths, 500)
    assert not are_measures(tenths[:10], 500)  # stars and halves of stars
    assert not are_measures([*tenths, "none"], 500)
    codes = [str(i) for i in range(77)]
    assert are_measures(codes, 100)
    assert not are_measures(codes, 10_000)


@pytest.mark.parametrize("separator", ["", ";;", '"', "\n"])
def test_a_separator_is_one_character(separator: str) -> None:
    with pytest.raises(InputError, match="expected one character, or tab"):
        dataclasses.replace(ONE_TEXT, separator=separator)


QUOTED_ROWS = [('He said "hi" to me', None, "1"), ("meh", None, "0")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # as pandas writes it
        ('text\tlabel\n"He said ""hi"" to me"\t1\nmeh\t0\n', QUOTED_ROWS),
        (
            '"text"\t"label"\n"He said ""hi"" to me"\t"1"\n"meh"\t"0"\n',
            QUOTED_ROWS,
        ),
        # as it stands in the tasks of GLUE
        ('text\tlabel\n"A b"\t1\nc "d\t0\n', [
            ('"A b"', None, "1"), ('c "d', None, "0"),
        ]),
        ('text\tlabel\n"A b"\t1\n', [('"A b"', None, "1")]),
        ('text\tlabel\n"A ""b"""\t1\n6" c\t0\n', [
            ('"A ""b"""', None, "1"), ('6" c', None, "0"),
        ]),
    ],
)  # fmt: skip
def test_quotes_of_tsv(
    tmp_path: Path, text: str, expected: list[tuple[Label, ...]]
) -> None:
    path = write(tmp_path, "a.tsv", text)
    assert contents(read_table(path, ONE_TEXT, has_labels=True)) == expected


@pytest.mark.parametrize(
    ("text", "is_header"),
    [
        ("\n\ufeffquestion\tid\tanswer\n", True),
        ('"answer"\t"question"\n', True),
        ("question\tid\n", False),
        ("The question\tThe answer\n", False),
        ("", False),
        ("question;id;answer\n", True),
        ('"question",answer\n', True),
        ("question;id\n", False),
    ],
)
def test_whether_a_header_names_the_texts(
    tmp_path: Path,
    text: str,
    is_header: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(tmp_path, "a.tsv", text.replace("\n\ufeff", "\ufeff\n"))
    assert names_text_columns(path, PAIR) is is_header
    looks_like_one = text == "question\tid\n"
    said = capsys.readouterr().err
    assert ("looks like a header" in said) is looks_like_one
    without = dataclasses.replace(PAIR, has_header=False)
    assert not names_text_columns(path, without)
    tabs = dataclasses.replace(PAIR, separator="\t")
    assert names_text_columns(path, tabs) is (is_header and "\t" in text)


def test_an_array_of_json(tmp_path: Path) -> None:
    text = '\n[\n {"text": "a",\n "label": 1},\n {"label": 0, "text": "b"}]\n'
    path = write(tmp_path, "a.json", text)
    found = read_table(path, ONE_TEXT, has_labels=True)
    assert contents(found) == [("a", None, "1"), ("b", None, "0")]
    assert found[1].guid == f"{path}, entry 2"


def test_a_header_read_as_a_row_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = TableFormat("1", None, "0", has_header=False)
    path = write(tmp_path, "a.csv", "1,Label\n0,a\n")
    assert len(read_table(path, table, has_labels=True)) == 2
    assert "begins with 'Label', '1', which looks like a header" in (
        capsys.readouterr().err
    )
    path = write(tmp_path, "a.csv", "1,A label\n0,a\n")
    assert len(read_table(path, table, has_labels=True)) == 2
    assert capsys.readouterr().err == ""


def test_the_label_column_is_asked_for_only_where_labels_are_wanted(
    tmp_path: Path,
) -> None:
    path = write(tmp_path, "a.tsv", "text\na\n")
    assert contents(read_table(path, ONE_TEXT, False)) == [("a", None, None)]
    other = dataclasses.replace(ONE_TEXT, label_column="class")
    with pytest.raises(InputError, match="no column 'class'"):
        read_table(path, other, has_labels=True)


@pytest.fixture(scope="module")
def golden_vocab(tmp_path_factory: pytest.TempPathFactory) -> str:
    """bert-base-uncased's pieces of the golden texts, each at its id.

    A piece that is longest in the whole vocabulary is longest in this part of
    it, so that texts are cut alike.
    """
    pieces = json.loads((GOLDEN / "classifier_pieces.json").read_text("utf-8"))
    lines = [f"[unused{i}]" for i in range(max(pieces.values()) + 1)]
    for piece, number in pieces.items():
        lines[number] = piece
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> FullTokenizer:
    """Every letter is a piece, and its id its place from 5."""
    path = tmp_path_factory.mktemp("letters") / "vocab.txt"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path.write_text("\n".join([*special, *LETTERS]))
    return FullTokenizer(str(path))


def shown(
    tokenizer: FullTokenizer,
    example: InputExample,
    max_seq_length: int,
    doc_stride: int | None = None,
) -> list[str]:
    """Rows as strings: "^abc|de|" for [CLS] a b c [SEP] d e [SEP]."""
    rows, *_ = encode_example(example, tokenizer, max_seq_length, doc_stride)
    for row in rows:
        ends = [i for i, n in enumerate(row.input_ids) if n == 3]
        assert row.segment_ids == [
            int(i > ends[0]) for i in range(len(row.input_ids))
        ]
        assert len(row.input_ids) <= max_seq_length
    signs = "?" * 2 + "^|?" + LETTERS
    return ["".join(signs[n] for n in row.input_ids) for row in rows]


def text(first: str, second: str | None = None) -> InputExample:
    return InputExample(
        "x", " ".join(first), None if second is None else " ".join(second), None
    )


@pytest.mark.parametrize("name", ["mrpc", "cola"])
def test_rows_are_the_originals(name: str, golden_vocab: str) -> None:
    folder = GOLDEN / f"classifier_{name}"
    golden = np.load(folder / "features.npz")
    task = find_task(name)
    assert task.labels is not None
    examples = task.read(str(folder), "train")
    encoded = encode_examples(
        examples, FullTokenizer(golden_vocab), golden["input_ids"].shape[1]
    )
    assert all(len(rows) == 1 for rows in encoded)
    features = pad(
        [rows[0] for rows in encoded], *golden["input_ids"].shape[::-1]
    )
    assert set(golden.files) == {*features, "label_id"}
    for feature, values in features.items():
        np.testing.assert_array_equal(values, golden[feature], feature)
    labels = [task.labels.index(e.label) for e in examples if e.label]
    assert labels == golden["label_id"].tolist()


def test_without_a_stride_long_texts_are_cut(tokenizer: FullTokenizer) -> None:
    assert shown(tokenizer, text("abcdefg"), 6) == ["^abcd|"]
    assert shown(tokenizer, text("abcdef", "ghi"), 9) == ["^abc|ghi|"]


@pytest.mark.parametrize("second", ["", " ", "\u200b"])
def test_a_second_text_without_pieces_is_none(
    tokenizer: FullTokenizer, second: str
) -> None:
    """As in the original, which then writes one [SEP] only."""
    assert shown(tokenizer, InputExample("x", "a b", second, None), 9) == [
        "^ab|"
    ]


def test_windows_of_one_text(tokenizer: FullTokenizer) -> None:
    assert shown(tokenizer, text("abcdefg"), 6, 2) == [
        "^abcd|",
        "^cdef|",
        "^efg|",
    ]
    assert shown(tokenizer, text("abcd"), 6, 2) == ["^abcd|"]
    assert shown(tokenizer, text(""), 6, 2) == ["^|"]


def test_windows_leave_no_gap(tokenizer: FullTokenizer) -> None:
    assert shown(tokenizer, text("abcdefg"), 6, 50) == ["^abcd|", "^efg|"]


@pytest.mark.parametrize("max_seq_length", [4, 5, 8])
@pytest.mark.parametrize("first", ["", "a", "abc", "abcdefgh"])
def test_windows_show_everything_and_none_is_empty(
    tokenizer: FullTokenizer, first: str, max_seq_length: int
) -> None:
    for end in range(len(LETTERS) + 1):
        second = LETTERS[8:end] or None
        for stride in (1, 2, 3, 50):
            rows = shown(tokenizer, text(first, second), max_seq_length, stride)
            parts = [row[:-1].split("|")[-1].strip("^") for row in rows]
            whole = second or first
            assert set("".join(parts)) == set(whole)
            assert all(part and part in whole for part in parts) or not whole


def test_windows_of_a_pair_go_over_the_second(tokenizer: FullTokenizer) -> None:
    assert shown(tokenizer, text("ab", "cdefgh"), 9, 2) == [
        "^ab|cdef|",
        "^ab|efgh|",
    ]


def test_a_pair_that_fits_stays_whole(tokenizer: FullTokenizer) -> None:
    assert shown(tokenizer, text("abcde", "f"), 9, 2) == ["^abcde|f|"]


def test_the_first_of_a_pair_keeps_half_or_what_is_left(
    tokenizer: FullTokenizer,
) -> None:
    assert shown(tokenizer, text("abcdefgh", "ij"), 9, 2) == ["^abcd|ij|"]
    assert shown(tokenizer, text("abcdefgh", "ijklm"), 9, 2) == [
        "^abc|ijk|",
        "^abc|klm|",
    ]


@pytest.mark.parametrize(
    ("example", "stride", "is_cut"),
    [
        (text("abcd"), None, False),
        (text("abcde"), None, True),
        (text("abcde"), 2, False),
        (text("a", "bc"), None, False),
        (text("a", "bcd"), None, True),
        (text("a", "bcd"), 2, False),
        (text("abcd", "e"), 2, True),
    ],
)
def test_what_is_cut_is_told(
    tokenizer: FullTokenizer,
    example: InputExample,
    stride: int | None,
    is_cut: bool,
) -> None:
    assert encode_example(example, tokenizer, 6, stride)[1] is is_cut


def test_lengths_and_how_many_were_cut_are_said(
    tokenizer: FullTokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = [text("abc"), text("abcdefg"), text("abcde")]
    assert len(encode_examples(examples, tokenizer, 6)) == 3
    assert capsys.readouterr().err == (
        "3 texts of 5 to 9 tokens, median 7; 2 of 3 were cut to "
        "`max_seq_length=6`\n"
    )
    encode_examples([*examples, text("a", "bcd")], tokenizer, 9)
    assert "4 texts of 5 to 9 tokens, median 7; 0 of 4 were cut" in (
        capsys.readouterr().err
    )
