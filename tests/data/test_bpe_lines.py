"""Blocks of lines to ids of byte-level pieces, against the tokenizer's own."""

import itertools

import pytest

from bert_keras.data import bpe_lines
from bert_keras.data.bpe import load_byte_level
from bert_keras.data.bpe_lines import ByteLevelLines
from tests.conftest import GOLDEN

TOKENIZER = load_byte_level(str(GOLDEN / "byte_level" / "vocab.json"))
LINES = (
    "the sea, an old ship.\n  It's the\tship\r\n\n \t\nÉté: 12 cafés  \u3000 \n"
    "\u6d77 and\n\n\nold\n"
)


def test_sentences_of_a_document_are_running_text() -> None:
    lines = ByteLevelLines(TOKENIZER).encode(LINES.encode())
    found = iter(TOKENIZER.convert_ids_to_tokens(lines.ids.tolist()))
    texts = [
        TOKENIZER.to_text(itertools.islice(found, length))
        for length in lines.lengths
    ]
    assert texts == [
        "the sea, an old ship.",
        " It's the\tship",
        "",
        "",
        "Été: 12 cafés",
        " \u6d77 and",
        "",
        "",
        "old",
    ]
    assert lines.is_blank.tolist() == [not text for text in texts]


def test_ids_are_the_tokenizers(monkeypatch: pytest.MonkeyPatch) -> None:
    # so few remembered that they are forgotten at times
    monkeypatch.setattr(bpe_lines, "MAX_CACHED_WORDS", 3)
    text = " ".join(LINES.split())
    for line in (text, text.encode("ascii", "ignore").decode()):
        lines = ByteLevelLines(TOKENIZER).encode(f"{line}\n{line}".encode())
        expected = TOKENIZER.tokenize(line) + TOKENIZER.tokenize(f" {line}")
        assert TOKENIZER.convert_ids_to_tokens(lines.ids.tolist()) == expected


def test_what_is_not_utf8_is_left_to_the_caller() -> None:
    with pytest.raises(UnicodeDecodeError):
        ByteLevelLines(TOKENIZER).encode(b"sea\xff")
