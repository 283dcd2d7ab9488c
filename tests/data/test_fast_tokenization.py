"""The fast tokenizer against the exact one, with and without its library."""

import json
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data import fast_tokenization, tokenization
from bert_keras.data.fast_tokenization import DISTRUSTED, LineTokenizer
from bert_keras.data.tokenization import FullTokenizer
from tests.conftest import GOLDEN

VOCAB = str(GOLDEN / "tiny_vocab.txt")
SHARED = Path(__file__).parents[3] / "shared"
HOSTILE = [
    "",
    " \t ",
    "\u00a0",  # white space that is not ASCII's
    "\u200b",  # no white space, and no piece
    "\x00",
    "the\x0bsea\x1cthe\x85sea",  # control characters join
    "the\u2028sea",
    "THE SEA, the.sea!",
    "x" * 99 + " " + "x" * 201,
    "é" * 150,
    "한" * 70,
    "ΣΑΣ ΑΣ. Σ",
    "e\u0301 \u0301 a\u0323\u0307",
    "ﬁ ″ ‑ ² … ™ ß İ ǆ",
    "海の船",
    "[CLS] [UNK] ##sea",
    "\ufeffthe sea",
    "a\u00adb",
]


def make(lower: bool = True, strip: bool | None = None) -> LineTokenizer:
    return LineTokenizer(FullTokenizer(VOCAB, lower, strip))


def assert_exact(tokenizer: LineTokenizer, lines: list[str]) -> None:
    found = tokenizer.encode("\n".join([*lines, ""]).encode())
    exact = tokenizer.tokenizer
    assert len(found.lengths) == len(lines)
    parts = np.split(found.ids, found.lengths.cumsum()[:-1])
    for line, ids, is_blank in zip(lines, parts, found.is_blank, strict=True):
        # as data/instances.py reads a line
        text = line.replace("\r", "").strip()
        expected = exact.convert_tokens_to_ids(exact.tokenize(text))
        assert ids.tolist() == expected, line
        assert is_blank == (not text), line


@pytest.mark.parametrize("strip", [None, True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_hostile_lines(lower: bool, strip: bool | None) -> None:
    assert_exact(make(lower, strip), HOSTILE)


@pytest.mark.parametrize("part", [5, 40])
def test_long_lines_in_stretches(
    monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(fast_tokenization, "PART_CHARS", part)
    monkeypatch.setattr(tokenization, "STRETCH", 3)
    assert_exact(make(), [" ".join(HOSTILE), *HOSTILE, ",".join(HOSTILE)])
    assert_exact(make(), ["", "the sea", " ", "", "the captain saw the sea"])


def test_a_long_line_takes_little_memory() -> None:
    pytest.importorskip("tensorflow_text")
    tokenizer, line = make(), b"the captain saw the sea " * 200_000
    tracemalloc.start()
    num_pieces = len(tokenizer.encode(line).ids)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert num_pieces == 1_000_000
    assert peak < 8 * len(line)  # all at once they take 14 times that


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    assert_exact(make(), HOSTILE)


def test_the_library_does_most_of_the_work() -> None:
    pytest.importorskip("tensorflow_text")
    tokenizer = make()
    lines = ["The sea, an old ship.", "naïve café – “quoted”", "b\x1cc", "Σ"]
    assert tokenizer._needs_exact("\n".join(lines), 4).tolist() == [
        False,
        False,
        True,
        True,
    ]
    assert (tokenizer._trust[[ord("\x1c"), ord("Σ")]] == DISTRUSTED).all()


def test_a_vocabulary_with_a_piece_twice(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("[UNK]\nsea\nthe\nsea\n")
    tokenizer = LineTokenizer(FullTokenizer(str(path)))
    assert tokenizer.encode(b"the sea\n").ids.tolist() == [2, 3]


def test_carriage_returns_and_bad_bytes() -> None:
    tokenizer = make()
    assert_exact(tokenizer, ["the\rsea", "\r", "the sea\r"])
    with pytest.raises(UnicodeDecodeError) as error:
        tokenizer.encode(b"the sea\r\nthe\xe9\n")
    assert error.value.start == 11


def test_golden_lines() -> None:
    cases = json.loads((GOLDEN / "tiny_tokens.json").read_text("utf-8"))
    for lower in (True, False):
        lines = [
            text
            for text, do_lower_case, _ in cases
            if do_lower_case == lower and "\n" not in text
        ]
        assert len(lines) > 20
        assert_exact(make(lower), lines)


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        ("bert-base-uncased", True),
        ("bert-base-cased", False),
        ("bert-base-multilingual-cased", False),
        ("bert-base-chinese", True),
    ],
)
def test_golden_lines_of_real_vocabularies(name: str, lower: bool) -> None:
    path = SHARED / "golden" / "tokenization" / "golden.json"
    if not path.exists():
        pytest.skip("the recorded lines are not here")
    lines = json.loads(path.read_text("utf-8"))["lines"]
    vocab = SHARED / "data" / "vocab" / name / "vocab.txt"
    tokenizer = LineTokenizer(FullTokenizer(str(vocab), lower))
    assert_exact(tokenizer, [line for line in lines if "\n" not in line])


WATCHED = make()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"])).map(
            lambda text: text.replace("\n", " ")
        ),
        min_size=1,
        max_size=30,
    )
)
def test_any_text(lines: list[str]) -> None:
    assert_exact(WATCHED, lines)
