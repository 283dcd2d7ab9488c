"""Tests of tasks/ner/tagged_json.py on files written for them."""

import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.ner.tagged_json import read_tagged_json, with_field

ROWS = [
    {"id": "0", "tokens": ["-DOCSTART-"], "ner_tags": ["O"]},
    {"id": "1", "tokens": ["Ann", "Lee", "sees"], "ner_tags": ["B", "L", "O"]},
    {"id": "2", "tokens": [], "ner_tags": []},
    {"id": "3", "tokens": ["Rome"], "ner_tags": ["U"]},
]


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    path = folder / name
    lines = [json.dumps(row) for row in rows]
    text = "\n\n".join(lines) if name.endswith("l") else json.dumps(rows)
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", ["words.jsonl", "words.json"])
def test_sentences_and_predictions(tmp_path: Path, name: str) -> None:
    """Lines, or a list; tags of BILUO without types, and so the predicted."""
    file = read_tagged_json(write(tmp_path, name, ROWS))
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
    path = write(tmp_path, "w.jsonl", [{"words": ["Rome"], "tags": ["B-LOC"]}])
    file = read_tagged_json(path, "words", "tags")
    assert file.sentences[0][:2] == (["Rome"], ["B-LOC"])
    assert not read_tagged_json(path, "words").has_tags
    with pytest.raises(InputError, match="'words', 'tags'; name .* `word_col"):
        read_tagged_json(path)


def test_numbers_need_names(tmp_path: Path) -> None:
    rows = [{"tokens": ["in", "Rome"], "ner_tags": [0, 5]}]
    path = write(tmp_path, "train.json", rows)
    with pytest.raises(InputError, match="entry 1 has numbers .*dataset_info"):
        read_tagged_json(path)
    names = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC"]
    feature = {"feature": {"names": names, "_type": "ClassLabel"}}
    info = {"features": {"ner_tags": feature}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    assert read_tagged_json(path).sentences[0].tags == ["O", "B-LOC"]
    rows[0]["ner_tags"] = [0, 6]
    with pytest.raises(InputError, match="has 6 .* names the tags 0 to 5"):
        read_tagged_json(write(tmp_path, "train.json", rows))


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
    path = write(tmp_path, "words.jsonl", [ROWS[3], row])
    with pytest.raises(InputError, match=sentence):
        read_tagged_json(path)


@pytest.mark.parametrize("text", ["", "[]", "[3]", "[{", "3"])
def test_bad_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "words.json").write_text(text)
    with pytest.raises(InputError):
        read_tagged_json(str(tmp_path / "words.json"))
