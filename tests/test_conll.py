"""Tests of tasks/conll.py on files written for them."""

from pathlib import Path

import pytest

from input_error import InputError
from tasks.conll import read_columns, with_column

TEXT = """-DOCSTART- -X- O

Ann NNP I-PER
Lee NNP I-PER
Bob NNP B-PER

sleeps VB O
-DOCSTART- -X- O
Rome NNP I-LOC
"""


def write(folder: Path, text: str) -> str:
    path = folder / "words.txt"
    path.write_text(text)
    return str(path)


def test_columns_and_documents(tmp_path: Path) -> None:
    file = read_columns(write(tmp_path, TEXT))
    assert [s.words for s in file.sentences] == [
        ["Ann", "Lee", "Bob"], ["sleeps"], ["Rome"],
    ]  # fmt: skip
    assert file.sentences[0].tags == ["I-PER", "I-PER", "B-PER"]
    assert [[s.words[0] for s in own] for own in file.documents] == [
        ["Ann", "sleeps"], ["Rome"],
    ]  # fmt: skip


def test_predictions_stand_in_the_files_own_form(tmp_path: Path) -> None:
    """Its columns, its lines, its scheme: IOB1."""
    file = read_columns(write(tmp_path, TEXT))
    predicted = [["B-PER", "B-PER", "O"], ["O"], ["B-LOC"]]
    assert with_column(file, predicted) == (
        "-DOCSTART- -X- O O\n\n"
        "Ann NNP I-PER I-PER\nLee NNP I-PER B-PER\nBob NNP B-PER O\n\n"
        "sleeps VB O O\n-DOCSTART- -X- O O\nRome NNP I-LOC I-LOC\n"
    )


def test_tabs_and_words_alone(tmp_path: Path) -> None:
    file = read_columns(write(tmp_path, "New York\tB-LOC \nis\tO"))
    assert file.sentences[0].words == ["New York", "is"]
    assert file.sentences[0].tags == ["B-LOC", "O"]
    assert with_column(file, [["B-LOC", "O"]]).startswith(
        "New York\tB-LOC \tB-LOC\nis\tO\tO\n"
    )
    alone = read_columns(write(tmp_path, "\nRome\n\n\nnow\n"))
    assert not alone.has_tags and len(alone.sentences) == 2
    assert with_column(alone, [["B-LOC"], ["O"]]) == "\nRome B-LOC\n\n\nnow O\n"


def test_what_separates_columns(tmp_path: Path) -> None:
    """Spaces, but not those that keep the parts of a number together."""
    file = read_columns(write(tmp_path, "10\u00a0000  CD O \nis VBZ O\n"))
    assert file.sentences[0].words == ["10\u00a0000", "is"]
    assert with_column(file, [["B-X", "O"]]) == (
        "10\u00a0000  CD O B-X\nis VBZ O O\n"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no sentence"),
        ("-DOCSTART- O\n\n", "holds no sentence"),
        ("Rome B-LOC\nis a O\n", "line 2 has 3 columns where the lines before"),
        ("Rome B-LOC\n\nis VBZ\n", "line 3 ends with 'VBZ'; expected a tag"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_columns(write(tmp_path, text))


def test_documents_that_are_not_told(tmp_path: Path) -> None:
    file = read_columns(write(tmp_path, "Rome B-LOC\n"))
    with pytest.raises(InputError, match="give --nodocument_context"):
        _ = file.documents
