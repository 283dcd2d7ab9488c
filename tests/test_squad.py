"""Tests of tasks/squad.py."""

import json
from pathlib import Path
from typing import Any

import pytest

from input_error import InputError
from tasks.squad import Answer, locate, read_examples, split_words

CONTEXT = "John Smith\u202f(1895-1943)\n  was a keeper."


def question(text: str = "1895", begin: int = 12, **changes: Any) -> dict:
    answer = {"text": text, "answer_start": begin}
    return {"id": "q", "question": "When?", "answers": [answer], **changes}


def write(path: Path, *questions: dict, **changes: Any) -> str:
    paragraph = {"context": CONTEXT, "qas": list(questions), **changes}
    content = {"data": [{"paragraphs": [paragraph]}]}
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def test_words_end_at_upstreams_white_space_only() -> None:
    paragraph = split_words(" a\u202fb\u00a0c\t\r\nd")
    assert paragraph.words == ["a", "b\u00a0c", "d"]
    assert paragraph.word_at == [0, 0, 0, 1, 1, 1, 1, 1, 1, 2]
    assert split_words(" \n").words == []


def test_an_answer_is_placed_by_its_words(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", question())
    (example,) = read_examples(path, False, True)
    assert example.answer == Answer("1895", 2, 2)
    assert example.paragraph.words[2] == "(1895-1943)"
    assert (example.id, example.question) == ("q", "When?")


@pytest.mark.parametrize(
    ("text", "begin", "found"),
    [
        ("Smith\u202f(1895", 5, (1, 2)),
        ("Smith (1895", 5, (1, 2)),
        ("(1895-1943)\n  was", 11, (2, 3)),
        ("1896", 12, None),
        ("keeper.", 31, (5, 5)),
        ("keeper.", 32, None),  # ends behind the paragraph
        ("keeper.", -7, None),
        ("", 3, None),
        (" ", 4, None),
    ],
)
def test_answers_are_looked_for_at_their_place(
    text: str, begin: int, found: tuple[int, int] | None
) -> None:
    answer = locate(text, begin, split_words(CONTEXT))
    assert answer == (found and Answer(text, *found))


def test_questions_without_their_answer_are_counted_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = question("1896"), question("John", 5)
    path = write(tmp_path / "a.json", question(), *lost)
    assert len(read_examples(path, False, True)) == 1
    message = capsys.readouterr().err
    assert "2 of 3 questions are left out" in message
    assert "'1896' in data[0].paragraphs[0].qas[1] (id q)" in message
    assert "'John' in" not in message
    read_examples(path, False, True, names_all=True)
    assert "'John' in" in capsys.readouterr().err
    assert len(read_examples(path, False, False)) == 3
    assert not capsys.readouterr().err


def test_impossible_questions_have_no_answer(tmp_path: Path) -> None:
    impossible = question(is_impossible=True, answers=[])
    path = write(tmp_path / "a.json", impossible, question(is_impossible=False))
    first, second = read_examples(path, True, True)
    assert first.is_impossible and first.answer is None
    assert not second.is_impossible and second.answer is not None


def test_golds_are_all_answers_or_not_known(tmp_path: Path) -> None:
    several = question(answers=[{"text": "a"}, {"text": "b"}])
    none = question(answers=[])
    path = write(tmp_path / "a.json", several, none, {"id": 7, "question": ""})
    examples = read_examples(path, True, False)
    assert [e.golds for e in examples] == [("a", "b"), (), None]
    assert examples[2].id == "7"
    examples = read_examples(path, False, False)
    assert [e.golds for e in examples] == [("a", "b"), None, None]


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.json", question()))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_examples(str(path), False, True)) == 1


PLACE = r"data\[0\].paragraphs\[0\]"


@pytest.mark.parametrize(
    ("questions", "changes", "sentence"),
    [
        ([question()], {"qas": None}, f"'qas' of {PLACE} is null; .* a list"),
        ([question()], {"context": 3}, f"'context' of {PLACE} is a whole numb"),
        (
            [question(), {"id": "x", "question": ""}],
            {},
            rf"{PLACE}.qas\[1\] \(id x\) has no 'answers' \(only id, question",
        ),
        (
            [question(answers=[{}, {}])],
            {},
            r"\(id q\) has 2 answers; training expects exactly one$",
        ),
        (
            [question(answers=[])],
            {},
            r"has 0 answers; .* \(or pass --version_2_with_negative\)",
        ),
        (
            [question(answers=[{"text": "x"}])],
            {},
            r"answers\[0\] has no 'answer_start' \(only text\)",
        ),
        (["no object"], {}, r"qas\[0\] has no 'id' \(it is a string\)"),
        ([question("not there")], {}, "holds no question that can be used"),
    ],
)
def test_faults_are_placed(
    tmp_path: Path, questions: list, changes: dict, sentence: str
) -> None:
    path = write(tmp_path / "a.json", *questions, **changes)
    with pytest.raises(InputError, match=sentence):
        read_examples(path, False, True)


def test_2_0_needs_to_know_what_is_impossible(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", question())
    with pytest.raises(
        InputError, match="'is_impossible'.*for --version_2_with_negative has"
    ):
        read_examples(path, True, True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"data": [}', "line 1, column 11 is not JSON"),
        (b"[]", r"the file has no 'data' \(it is a list\)"),
        (b'{"\xff": 1}', "is not UTF-8 text: byte 0xff at place 2"),
        (None, "cannot read .*: No such file"),
    ],
)
def test_files_that_are_no_squad(
    tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_examples(str(path), False, True)
