"""Tests of tasks/ner/data.py on files written for them."""

import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.ner.data import (
    are_columns,
    read_columns,
    read_tagged_json,
    with_column,
    with_field,
)
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


def test_text_is_told_from_columns() -> None:
    assert are_columns(["Ann B-PER", "", "saw O", "Rome B-LOC"])
    lines = ["-DOCSTART-", "# id 1", "", "Ann B-PER", "saw O", "it O"]
    assert are_columns(lines)
    assert are_columns(["Ann NNP B-PER\n", "saw VBD O\n", "it PRP O\n"])
    assert not are_columns(["Ann saw", "Rome and", "left it"])
    assert not are_columns(["O", "O", "O"])
    assert not are_columns(["Ann saw O", "it O", "the B-LOC"])


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


ROWS = [
    {"id": "0", "tokens": ["-DOCSTART-"], "ner_tags": ["O"]},
    {"id": "1", "tokens": ["Ann", "Lee", "sees"], "ner_tags": ["B", "L", "O"]},
    {"id": "2", "tokens": [], "ner_tags": []},
    {"id": "3", "tokens": ["Rome"], "ner_tags": ["U"]},
]


def write_json(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    path = folder / name
    lines = [json.dumps(row) for row in rows]
    text = "\n\n".join(lines) if name.endswith("l") else json.dumps(rows)
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", ["words.jsonl", "words.json"])
def test_sentences_and_predictions(tmp_path: Path, name: str) -> None:
    """Lines, or a list; tags of BILUO without types, and so the predicted."""
    file = read_tagged_json(write_json(tmp_path, name, ROWS))
    assert [s.words for s in file.sentences] == [
        ["Ann", "Lee", "sees"],
        ["Rome"],
    ]
    assert [s.tags for s in file.sentences] == [["B", "L", "O"], ["U"]]
    assert [len(own) for own in file.documents] == [2]
    added = with_field(file, [["B", "O", "O"], ["O"]]).splitlines()
    predicted = [[], ["U", "O", "O"], [], ["O"]]
    assert [json.loads(line) for line in added] == [
        {**row, "predicted_tags": tags}
        for row, tags in zip(ROWS, predicted, strict=True)
    ]


def test_fields_that_are_named(tmp_path: Path) -> None:
    path = write_json(
        tmp_path, "w.jsonl", [{"words": ["Rome"], "tags": ["B-LOC"]}]
    )
    file = read_tagged_json(path, "words", "tags")
    assert file.sentences[0][:2] == (["Rome"], ["B-LOC"])
    assert not read_tagged_json(path, "words").has_tags
    with pytest.raises(InputError, match="'words', 'tags'; name .* `word_col"):
        read_tagged_json(path)


def test_numbers_need_names(tmp_path: Path) -> None:
    rows = [{"tokens": ["in", "Rome"], "ner_tags": [0, 5]}]
    path = write_json(tmp_path, "train.json", rows)
    with pytest.raises(InputError, match="entry 1 has numbers .*dataset_info"):
        read_tagged_json(path)
    names = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC"]
    feature = {"feature": {"names": names, "_type": "ClassLabel"}}
    info = {"features": {"ner_tags": feature}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    assert read_tagged_json(path).sentences[0].tags == ["O", "B-LOC"]
    rows[0]["ner_tags"] = [0, 6]
    with pytest.raises(InputError, match="has 6 .* names the tags 0 to 5"):
        read_tagged_json(write_json(tmp_path, "train.json", rows))


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"tokens": ["a"], "ner_tags": ["VBZ"]}, "line 3 has 'VBZ' in 'ner_ta"),
        ({"tokens": ["a"], "ner_tags": []}, "line 3 has 1 words but 0 tags"),
        ({"tokens": ["a"]}, "line 3 has no list in the field 'ner_tags'"),
        ({"tokens": "a", "ner_tags": ["O"]}, "no list in the field 'tokens'"),
        ({"tokens": [1], "ner_tags": ["O"]}, "that are not texts"),
    ],
)
def test_bad_objects(
    tmp_path: Path, row: dict[str, Any], sentence: str
) -> None:
    path = write_json(tmp_path, "words.jsonl", [ROWS[3], row])
    with pytest.raises(InputError, match=sentence):
        read_tagged_json(path)


@pytest.mark.parametrize("text", ["", "[]", "[3]", "[{", "3"])
def test_files_without_objects(tmp_path: Path, text: str) -> None:
    (tmp_path / "words.json").write_text(text)
    with pytest.raises(InputError):
        read_tagged_json(str(tmp_path / "words.json"))
