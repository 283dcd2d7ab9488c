"""Tests of tasks/multiple_choice/data.py. The rows are made up."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras.data.tokenizers import load_tokenizer
from bert_keras.errors import InputError
from bert_keras.tasks.multiple_choice.data import (
    MultipleChoiceExample,
    describe,
    encode_question,
    encode_questions,
    read_questions,
)

SWAG = {
    "sent1": "The captain saw the sea.",
    "sent2": "He",
    "ending0": "swam.",
    "ending1": "sank.",
    "ending2": "sang.",
    "ending3": "slept, and snored.",
    "label": 3,
}
SWAG_COLUMNS = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,"
    "ending2,ending3,label\n"
)
RACE: dict[str, Any] = {
    "answers": ["B", "A"],
    "options": [["red", "blue", "green"], ["No.", "Yes."]],
    "questions": ["The sea is  _  today.", "Is it deep?"],
    "article": "A blue sea.\nIt is shallow.",
    "id": "middle1.txt",
}
OWN = {"context": "c", "question": "q?", "choices": ["x", "y"], "label": 1}


def write(folder: Path, name: str, content: str) -> str:
    (folder / name).write_text(content)
    return str(folder / name)


def test_swag_as_csv_and_as_json_lines_is_the_same(tmp_path: Path) -> None:
    row = (
        "0,anet_1,2,The captain saw the sea. He,The captain saw the sea.,He,"
        'gold,swam.,sank.,sang.,"slept, and snored.",3\n'
    )
    csv = write(tmp_path, "train.csv", SWAG_COLUMNS + row)
    lines = write(tmp_path, "train.jsonl", json.dumps(SWAG) + "\n")
    (from_csv,) = read_questions(csv, "train_file", True)
    (from_lines,) = read_questions(lines, "train_file", True)
    assert from_csv.guid == f"{csv}, line 2"
    assert from_csv[1:] == from_lines[1:]
    twice = SWAG_COLUMNS.rstrip() + ",label\n" + row.rstrip() + ",3\n"
    csv = write(tmp_path, "twice.csv", twice)
    with pytest.raises(InputError, match="line 2 has 2 columns 'label'; exp"):
        read_questions(csv, "train_file", True)
    assert from_csv.context == "The captain saw the sea."
    assert from_csv.choices[:2] == ("He swam.", "He sank.")
    assert from_csv.choices[3] == "He slept, and snored."
    assert from_csv.label == 3


def test_questions_of_a_table_have_as_many_choices_as_endings(
    tmp_path: Path,
) -> None:
    text = "sent1,sent2,ending0,ending1,ending2,label\na,b,x,y,,1\na,b,x,y,z,2"
    path = write(tmp_path, "train.csv", text)
    questions = read_questions(path, "train_file", True)
    assert [q.choices for q in questions] == [
        ("b x", "b y"), ("b x", "b y", "b z"),
    ]  # fmt: skip


def test_csv_without_labels_is_for_prediction(tmp_path: Path) -> None:
    columns = SWAG_COLUMNS.replace(",label", "")
    path = write(tmp_path, "test.csv", columns + "0,a,1,s,t,u,gold,1,2,3,4\n")
    (question,) = read_questions(path, "predict_file", False)
    assert question.label is None
    with pytest.raises(InputError, match="line 2 has no label"):
        read_questions(path, "eval_file", True)


def test_race_as_one_object_and_as_a_list(tmp_path: Path) -> None:
    whole = write(tmp_path, "dev.json", json.dumps([RACE, RACE], indent=1))
    single = write(tmp_path, "1.txt", json.dumps(RACE))
    with gzip.open(tmp_path / "2.json.gz", "wt") as file:
        file.write(json.dumps(RACE))
    questions = read_questions(whole, "train_file", True)
    assert len(questions) == 4
    first, second = (q[1:] for q in questions[:2])
    assert first == (
        RACE["article"],
        (
            "The sea is  red  today.",
            "The sea is  blue  today.",
            "The sea is  green  today.",
        ),
        1,
    )
    assert second[1:] == (("Is it deep? No.", "Is it deep? Yes."), 0)
    others = read_questions(f"{single},{tmp_path}/2*", "train_file", True)
    assert [q[1:] for q in others] == [first, second] * 2


@pytest.mark.parametrize(
    "question, filled",
    [
        ("use snake_case or _ ?", "use snake_case or X ?"),
        ("It is ___.", "It is X."),
        ("He __ed it", "He Xed it"),
        ("_ and _", "X and _"),
    ],
)
def test_the_blank_of_a_question(
    tmp_path: Path, question: str, filled: str
) -> None:
    race = RACE | {"questions": [question], "options": [["X", "Y", "Z"]],
                   "answers": ["A"]}  # fmt: skip
    path = write(tmp_path, "1.json", json.dumps(race))
    (found,) = read_questions(path, "train_file", True)
    assert found.choices[0] == filled


def test_race_as_the_hub_has_it(tmp_path: Path) -> None:
    entries = [
        {
            "article": RACE["article"],
            "question": RACE["questions"][i],
            "options": RACE["options"][i],
            "answer": RACE["answers"][i],
        }
        for i in range(2)
    ]
    lines = "\n".join(map(json.dumps, entries))
    flat = write(tmp_path, "hub.jsonl", lines)
    whole = write(tmp_path, "race.json", json.dumps(RACE))
    assert [q[1:] for q in read_questions(flat, "train_file", True)] == [
        q[1:] for q in read_questions(whole, "train_file", True)
    ]
    del entries[0]["answer"]
    path = write(tmp_path, "test.jsonl", json.dumps(entries[0]))
    (question,) = read_questions(path, "predict_file", False)
    assert question.label is None and len(question.choices) == 3


def test_json_is_read_as_a_list_and_as_lines(tmp_path: Path) -> None:
    entries = [OWN, SWAG]
    lines = "\n".join(map(json.dumps, entries)) + "\n"
    for name, text in (
        ("list.jsonl", "\n " + json.dumps(entries, indent=1)),
        ("list.json", json.dumps(entries)),
        ("lines.jsonl", lines),
        ("lines.json", lines),
        ("list.jsonl.gz", "[" + ",".join(map(json.dumps, entries)) + "]"),
    ):
        path = str(tmp_path / name)
        opener = gzip.open if name.endswith(".gz") else open
        with opener(path, "wt") as file:
            file.write(text)
        first, second = read_questions(path, "train_file", True)
        assert first[1:] == ("c", ("q? x", "q? y"), 1)
        assert (len(second.choices), second.label) == (4, 3)
        place = "line 2" if name.startswith("lines") else "entry 2"
        assert second.guid == f"{path}, {place}"
    assert describe([first, second._replace(label=None, context=" ")]) == (
        "2 questions of 2 to 4 choices, 1 with a label, 1 empty texts"
    )


@pytest.mark.parametrize(
    ("label", "expected"),
    [(1, 1), ("1", 1), (1.0, 1), ("1.0", 1), ("B", 1), (0.0, 0)]
    + [(None, None), ("", None), (-1, None), ("-1", None)],
)
def test_labels_are_read_where_they_are_plain(
    tmp_path: Path, label: object, expected: int | None
) -> None:
    path = write(tmp_path, "a.jsonl", json.dumps({**OWN, "label": label}))
    (question,) = read_questions(path, "predict_file", False)
    assert question.label == expected


def test_own_questions(tmp_path: Path) -> None:
    entries = [OWN, {"context": "d", "choices": ["x", "y", "z"]}]
    path = write(tmp_path, "own.jsonl", "\n".join(map(json.dumps, entries)))
    first, second = read_questions(path, "predict_file", False)
    assert first[1:] == ("c", ("q? x", "q? y"), 1)
    assert second[1:] == ("d", ("x", "y", "z"), None)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, "has the keys none; expected those of SWAG"),
        ({**OWN, "label": 2}, "2 choices and the label 2; expected a number"),
        ({**OWN, "label": "B "}, "the label 'B '; expected"),
        ({**OWN, "label": True}, "the label True; expected"),
        ({**OWN, "label": 0.5}, "the label 0.5; expected"),
        ({**OWN, "label": [1]}, "the label a list; expected"),
        ({**OWN, "choices": ["x"]}, "has 1 choices; expected two"),
        ({**OWN, "choices": "xy"}, "has 'xy' for 'choices'; expected a list"),
        ({**OWN, "choices": ["x", 2]}, "has 2 for 'choices'; expected a text"),
        ({"choices": ["x", "y"]}, "has nothing for 'context'"),
        ({**SWAG, "sent2": {}}, "has a dict for 'sent2'; expected a text"),
        ({**RACE, "answers": ["A"]}, "2 questions, 2 options and 1 answers"),
        ({**RACE, "options": [[], ["a"]]}, "question 0 has 0 choices"),
        ({**RACE, "options": [1, 2]}, "question 0 has 1 for 'options'"),
    ],
)
def test_what_is_no_question_is_named(
    tmp_path: Path, entry: dict, expected: str
) -> None:
    path = write(tmp_path, "bad.jsonl", json.dumps(entry))
    with pytest.raises(InputError, match=r"bad.jsonl, line 1") as error:
        read_questions(path, "train_file", False)
    assert expected in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name, content, expected in (
        ("a.tsv", "x", "ends in none of .csv"),
        ("a.json", "{", "is not JSON"),
        ("b.json", "[1]", "entry 1 is not a JSON object but 1"),
        ("c.json", "[" * 100_000, "is not JSON"),
        ("d.json", "[]", "holds no question"),
        ("e.csv", SWAG_COLUMNS + "1,2\n", "line 2 has 2 columns"),
    ):
        path = write(tmp_path, name, content)
        with pytest.raises(InputError, match=expected):
            read_questions(path, "train_file", True)
    with pytest.raises(InputError, match="no file matches `train_file="):
        read_questions(f"{tmp_path}/none", "train_file", True)


def test_the_context_gives_way(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """The worked example of encode_question."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    tokenizer = load_tokenizer(str(tmp_path / "vocab.txt"))
    question = MultipleChoiceExample("here", "a b c d", ("e", "f g"), None)
    for length, expected, what in (
        (
            7,
            ["[CLS] a b c [SEP] e [SEP]", "[CLS] a b [SEP] f g [SEP]"],
            "contexts",
        ),
        (
            9,
            ["[CLS] a b c d [SEP] e [SEP]", "[CLS] a b c d [SEP] f g [SEP]"],
            "",
        ),
        (
            4,
            ["[CLS] [SEP] e [SEP]", "[CLS] [SEP] g [SEP]"],
            "contexts and choices",
        ),
    ):
        rows, cut = encode_question(question, tokenizer, length)
        texts = [
            " ".join(tokenizer.convert_ids_to_tokens(row.input_ids))
            for row in rows
        ]
        assert texts == expected
        assert cut == what
        for row in rows:
            end = row.input_ids.index(tokenizer.vocab["[SEP]"]) + 1
            rest = len(row.input_ids) - end
            assert row.segment_ids == [0] * end + [1] * rest
    encode_questions([question, question], tokenizer, 7)
    encode_questions([question], tokenizer, 4)
    assert capsys.readouterr().err.splitlines() == [
        "2 of 2 questions are longer than `max_seq_length=7` tokens; their "
        "contexts were cut",
        "1 of 1 questions are longer than `max_seq_length=4` tokens; their "
        "contexts and choices were cut",
    ]
