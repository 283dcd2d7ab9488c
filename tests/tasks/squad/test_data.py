"""Tests of tasks/squad/data.py."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.squad.data import (
    AnswerSpan,
    describe,
    locate,
    read_examples,
    split_words,
)
from tests.limits import time_limit

CONTEXT = "John Smith\u202f(1895-1943)\n  was a keeper."


def question(text: str = "1895", begin: Any = 12, **changes: Any) -> dict:
    answer = {"text": text, "answer_start": begin}
    return {"id": "q", "question": "When?", "answers": [answer], **changes}


def write(path: Path, *questions: dict, **changes: Any) -> str:
    paragraph = {"context": CONTEXT, "qas": list(questions), **changes}
    content = {"data": [{"paragraphs": [paragraph]}]}
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def test_a_long_answer_is_found_in_linear_time() -> None:
    paragraph = split_words("a" * 400_000)
    with time_limit(60):
        assert locate("a" * 200_000 + "b", 0, paragraph) is None
    paragraph = split_words("a\u00a0" * 200_000)
    with time_limit(60):
        answer = locate("a " * 50_000, 101, paragraph)
    assert answer is not None and answer.place == range(100, 100_099)


def test_words_end_at_upstreams_white_space_only() -> None:
    paragraph = split_words(" a\u202fb\u00a0c\t\r\nd")
    assert paragraph.words == ["a", "b\u00a0c", "d"]
    assert paragraph.starts == [1, 3, 9]
    assert paragraph.word_at == [0, 0, 0, 1, 1, 1, 1, 1, 1, 2]
    assert split_words(" \n").words == []


def test_an_answer_is_placed_by_its_words(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", question())
    (example,) = read_examples(path, False, True)
    assert example.answer == AnswerSpan("1895", 2, 2, range(12, 16))
    assert example.paragraph.words[2] == "(1895-1943)"
    assert (example.id, example.question) == ("q", "When?")


@pytest.mark.parametrize(
    ("text", "begin", "found"),
    [
        ("Smith\u202f(1895", 5, (1, 2, range(5, 16))),
        ("Smith (1895", 5, (1, 2, range(5, 16))),
        ("Smith\u00a0(1895", 5, (1, 2, range(5, 16))),
        ("(1895-1943)\n  was", 11, (2, 3, range(11, 28))),
        ("(1895-1943) was", 11, (2, 3, range(11, 28))),
        ("1895", 14, (2, 2, range(12, 16))),
        ("1896", 12, None),
        ("keeper.", 31, (5, 5, range(31, 38))),
        ("keeper.", 32, None),  # ends behind the paragraph
        ("keeper.", -7, None),
        ("", 3, None),
        (" ", 4, None),
    ],
)
def test_answers_are_looked_for_at_their_place(
    text: str, begin: int, found: tuple[int, int, range] | None
) -> None:
    answer = locate(text, begin, split_words(CONTEXT))
    assert answer == (found and AnswerSpan(text, *found))


def test_of_overlapping_places_the_one_meant_is_taken() -> None:
    for begin in range(3):
        answer = locate("\u4e00\u4e00", begin, split_words("\u4e00" * 4))
        assert answer and answer.place == range(begin, begin + 2)


@pytest.mark.parametrize(
    ("context", "text", "begin", "place"),
    [
        ("He paid the man b b.", " b", 17, range(18, 19)),
        ("New York York was", " York", 8, range(9, 13)),
        ("all the   sea", "   sea ", 7, range(10, 13)),
        ("a b c", "  b", 2, range(2, 3)),  # where the word begins
    ],
)
def test_white_space_before_an_answer_is_not_a_word(
    context: str, text: str, begin: int, place: range
) -> None:
    answer = locate(text, begin, split_words(context))
    assert answer and (answer.text, answer.place) == (text, place)
    assert context.split()[answer.first_word].startswith(text.strip())


def test_google_asks_for_plain_spaces() -> None:
    context = "10\u00a0000 euros"
    assert locate("10\u00a0000", 0, split_words(context), "google") is None
    answer = locate("000 euros", 3, split_words(context), "google")
    assert answer == AnswerSpan("000 euros", 0, 1, None)


def test_questions_without_their_answer_are_counted_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = question("1896"), question("John", 5, id="j")
    path = write(tmp_path / "a.json", question(id="a"), *lost)
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
    none = question(answers=[], id="none")
    null = question(answers=None, id="null")
    path = write(
        tmp_path / "a.json", several, none, {"id": 7, "question": ""}, null
    )
    examples = read_examples(path, True, False)
    assert [e.golds for e in examples] == [("a", "b"), (), None, None]
    assert examples[2].id == "7"
    assert describe(examples) == (
        "1 articles, 1 paragraphs, 4 questions: 1 with an answer, 1 without, "
        "2 not known, 1 empty questions"
    )
    examples = read_examples(path, False, False)
    assert [e.golds for e in examples] == [("a", "b"), None, None, None]


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
            [question(answers={"text": ["a", "b"], "answer_start": [1]})],
            {},
            r"\(id q\).answers has 2 texts and 1 places in answer_start",
        ),
        (
            [question(answers={"text": ["a"]})],
            {},
            r"\(id q\).answers has no 'answer_start' \(only text\)",
        ),
        ([question(begin="x")], {}, "'answer_start' of .* is 'x'; expected a"),
        ([question(begin="4_5")], {}, "'answer_start' of .* is '4_5'; expec"),
        ([question(begin=1.5)], {}, "'answer_start' of .* is 1.5; expected a"),
        ([question(begin="9" * 9000)], {}, "is '9{59}; expected a whole"),
        (
            [question(answers=[])],
            {},
            r"has 0 answers; .* \(or pass `version_2_with_negative`\)",
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


def test_what_is_impossible_is_read_where_it_is_plain(tmp_path: Path) -> None:
    values = [True, 1, "true", "True", False, 0, "false", "0"]
    path = write(
        tmp_path / "a.json",
        *(question(is_impossible=value) for value in values),
        question(),  # the answers tell
        question(answers=[]),
        question(is_impossible=None),
    )
    examples = read_examples(path, True, True)
    assert [e.is_impossible for e in examples] == [
        *(True, True, True, True, False, False, False, False),
        *(False, True, False),
    ]  # fmt: skip
    assert [e.answer is None for e in examples] == [
        e.is_impossible for e in examples
    ]
    for value in ("maybe", 2, 0.5):
        path = write(tmp_path / "a.json", question(is_impossible=value))
        with pytest.raises(InputError, match="'is_impossible' of .* is .*true"):
            read_examples(path, True, True)
    path = write(tmp_path / "a.json", {"id": "x", "question": ""})
    with pytest.raises(
        InputError, match="'answers'.*for `version_2_with_negative` has"
    ):
        read_examples(path, True, True)


def test_null_answers_are_left_out_of_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.json", question(answers=None), question())
    for has_negatives in (False, True):
        (example,) = read_examples(path, has_negatives, True)
        assert example.answer
        assert "1 of 2 questions are left out, as their answers are null:" in (
            capsys.readouterr().err
        )


def test_of_several_answers_the_first_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [
        {"text": "1895", "answer_start": 12},
        {"text": "1943", "answer_start": 17},
    ]
    two = question(answers=texts)
    path = write(tmp_path / "a.json", two, two, question())
    examples = read_examples(path, False, True)
    assert [e.answer and e.answer.text for e in examples] == ["1895"] * 3
    assert capsys.readouterr().err == (
        f"{path}: 2 of 3 questions have several answers; the first of each is "
        "trained\n"
    )


@pytest.mark.parametrize("begin", ["12", 12.0, "12.0"])
def test_places_are_read_where_they_are_plain(
    tmp_path: Path, begin: Any
) -> None:
    path = write(tmp_path / "a.json", question(begin=begin))
    (example,) = read_examples(path, False, True)
    assert example.answer and example.answer.place == range(12, 16)


def test_answers_by_id_need_ids_that_differ(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", question(), question())
    with pytest.raises(InputError, match=r"qas\[1\] \(id q\) have the same id"):
        read_examples(path, False, False)
    assert len(read_examples(path, False, True)) == 2


def test_the_hubs_flat_questions(tmp_path: Path) -> None:
    """As one list, under "data", as lines, as a single question, and packed."""
    answers = {"text": ["1895", "1943"], "answer_start": [12, 17]}
    flat: list[dict[str, Any]] = [
        {"id": name, "title": "t", "context": CONTEXT, "question": "When?",
         "answers": own}
        for name, own in (
            ("a", answers), ("b", {"text": [], "answer_start": []}),
        )
    ]  # fmt: skip
    lines = "\n".join(map(json.dumps, flat)) + "\n"
    packed = tmp_path / "d.json.gz"
    packed.write_bytes(gzip.compress(lines.encode()))
    for number, text in enumerate(
        [json.dumps(flat), json.dumps({"data": flat}), lines]
    ):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        for name in (path, packed):
            first, second = read_examples(str(name), True, True)
            assert first.answer == AnswerSpan("1895", 2, 2, range(12, 16))
            assert second.is_impossible
            assert first.paragraph is second.paragraph
            first, second = read_examples(str(name), True, False)
            assert (first.golds, second.golds) == (("1895", "1943"), ())
            assert describe([first, second]) == (
                "1 paragraphs, 2 questions: 1 with an answer, 1 without"
            )
            with pytest.raises(InputError, match="0 answers; .*`version_2"):
                read_examples(str(name), False, True)
    (tmp_path / "one.json").write_text(json.dumps(flat[0]))
    (only,) = read_examples(str(tmp_path / "one.json"), False, False)
    assert only.id == "a"
    (tmp_path / "bad.json").write_text(lines + "{")
    with pytest.raises(InputError, match="line 3, column 2 is not JSON"):
        read_examples(str(tmp_path / "bad.json"), False, False)
    del flat[1]["question"]
    path.write_text("\n".join(map(json.dumps, flat)))
    with pytest.raises(InputError, match="line 2 has no 'question' "):
        read_examples(str(path), False, False)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"data": [}', "line 1, column 11 is not JSON"),
        (b"[]", "holds no question that can be used"),
        (b"7", "line 1 is not a JSON object but 7"),
        (b'{"a": 1}', r"the file has no 'data' \(only a\)"),
        (b'{"data": 3}', "'data' of the file is a whole number; .* a list"),
        (b"[7]", "entry 1 is not a JSON object but 7"),
        (b'{"data": []}\n}', "line 2, column 1 is not JSON"),
        (b'{\n"data": []}\n}', "line 3, column 1 is not JSON"),
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
