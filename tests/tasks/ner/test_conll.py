"""Tests of tasks/ner/conll.py on files written for them."""

from pathlib import Path

import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.ner.conll import read_columns, with_column
from bert_keras.tasks.ner.task import Files, read_problem

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


GERMEVAL = """#\thttp://de.wikipedia.org [2009-10-17]
1\tSchartau\tB-PER\tO
2\tin\tO\tO

# http://de.wikipedia.org
1\tBerlin\tB-LOC\tO
2\t#\tO\tO
"""


def test_columns_that_are_named(tmp_path: Path) -> None:
    """The words are the second column, and of two levels of tags the first is
    asked for; comments stay as they are."""
    file = read_columns(write(tmp_path, GERMEVAL), "1", "2")
    assert [s.words for s in file.sentences] == [
        ["Schartau", "in"], ["Berlin", "#"],
    ]  # fmt: skip
    assert [s.tags for s in file.sentences] == [["B-PER", "O"], ["B-LOC", "O"]]
    assert file.layout == (
        "words in column 1, tags in column 2 (tags, too, in column 3), "
        "2 comment lines"
    )
    assert with_column(file, [["B-PER", "O"], ["O", "O"]]).splitlines() == [
        "#\thttp://de.wikipedia.org [2009-10-17]",
        "1\tSchartau\tB-PER\tO\tB-PER",
        "2\tin\tO\tO\tO",
        "",
        "# http://de.wikipedia.org",
        "1\tBerlin\tB-LOC\tO\tO",
        "2\t#\tO\tO\tO",
    ]
    last = read_columns(write(tmp_path, GERMEVAL), "-3")
    assert last.sentences[0].words == ["Schartau", "in"]
    assert last.sentences[0].tags == ["O", "O"]


def test_numbers_of_words_are_not_words(tmp_path: Path) -> None:
    for text in (GERMEVAL, "0 Rome B-LOC\n1 is O\n\n0 Now O\n"):
        with pytest.raises(InputError, match="column 0.*`word_column=1"):
            read_columns(write(tmp_path, text))
    # One that has numbers among its words, and words alone.
    for text in ("1 O\n\n2 O\n", "1 O\n2 O\n\nRome B-LOC\n", "1\n2\n"):
        assert read_columns(write(tmp_path, text)).sentences[0].words[0] == "1"


def test_contractions_of_conllu_are_not_words(tmp_path: Path) -> None:
    text = "# text = im Haus\n1-2\tim\t_\n1\tin\tO\n2\tdem\tO\n2.1\tx\t_\n"
    file = read_columns(write(tmp_path, text), "1")
    assert file.sentences[0].words == ["in", "dem"]
    lines = with_column(file, [["B-X", "O"]]).splitlines()
    assert [line.split("\t")[-1] for line in lines] == [
        "# text = im Haus", "_", "B-X", "O", "_",
    ]  # fmt: skip


def test_words_that_begin_like_comments(tmp_path: Path) -> None:
    file = read_columns(write(tmp_path, "#ner B-MISC\n# O\n\n# O\nis O\n"))
    assert [s.words for s in file.sentences] == [["#ner", "#"], ["#", "is"]]


def test_a_file_without_the_column_of_tags(tmp_path: Path) -> None:
    file = read_columns(write(tmp_path, "1 Rome\n2 is\n"), "1", "2")
    assert file.sentences[0].words == ["Rome", "is"] and not file.has_tags


@pytest.mark.parametrize(
    ("word_column", "tag_column", "sentence"),
    [
        ("2", None, "has 2 columns, and `word_column=2` is not"),
        ("-3", None, "has 2 columns, and `word_column=-3` is not"),
        ("word", None, "`word_column=word` is not a number"),
        (None, "0", "has no tags"),
    ],
)
def test_columns_that_are_not_there(
    tmp_path: Path,
    word_column: str | None,
    tag_column: str | None,
    sentence: str,
) -> None:
    path = write(tmp_path, "Rome B-LOC\n")
    files = Files(None, path, None, None, word_column, tag_column)
    with pytest.raises(InputError, match=sentence):
        read_problem(files, True, False, False, ())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no sentence"),
        ("-DOCSTART- O\n\n", "holds no sentence"),
        ("Rome B-LOC\nis a O\n", "line 2 has 3 columns where the lines before"),
        ("Rome B-LOC\n\nis VBZ\n", "line 3 has 'VBZ' in column 1; expected a"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_columns(write(tmp_path, text))


def test_documents_that_are_not_told(tmp_path: Path) -> None:
    file = read_columns(write(tmp_path, "Rome B-LOC\n"))
    with pytest.raises(InputError, match="give `document_context=False"):
        _ = file.documents
