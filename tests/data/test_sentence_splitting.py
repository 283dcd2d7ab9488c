"""Paragraphs and JSON lines as sentences."""

import pytest

from bert_keras.data.sentence_splitting import LineError, TextFormat


def test_sentences_stay() -> None:
    assert TextFormat().to_sentences(b"a\xff. b.\n\nc") == b"a\xff. b.\n\nc"


def test_paragraphs_by_hand() -> None:
    text = "Dr. Smith saw 3.5 ships. Really?  Yes!\nA zoo.\n \nThe sea. "
    found = TextFormat("paragraphs").to_sentences(text.encode()).decode()
    assert found.split("\n") == [
        "Dr. Smith saw 3.5 ships.",
        "Really?",
        "Yes!",
        "A zoo.",
        "",
        "The sea.",
        "",
    ]


def test_another_language() -> None:
    text = "你好。我很好!谢谢。".encode()
    found = TextFormat("paragraphs", language="zh").to_sentences(text)
    assert found.decode() == "你好。\n我很好!\n谢谢。\n"


def test_json_lines_by_hand() -> None:
    text = b'{"text": "A zoo. The\\nsea.\\n\\n"}\n\n{"text": ""}\n'
    found = TextFormat("jsonl").to_sentences(text)
    assert found == b"A zoo.\nThe\nsea.\n\n\n"


def test_half_a_sign() -> None:
    found = TextFormat("jsonl").to_sentences(b'{"text": "sea \\ud83d"}')
    assert found == b"sea ?\n\n"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"text": "a"', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('["a"]', "has no text in the field `text_field=text`"),
        ('{"text": 3}', "has no text in the field `text_field=text`"),
    ],
)
def test_faulty_json(line: str, fault: str) -> None:
    with pytest.raises(LineError) as error:
        TextFormat("jsonl").to_sentences(f'{{"text": "a"}}\n{line}'.encode())
    assert error.value.number == 1
    assert error.value.fault.startswith(fault)
