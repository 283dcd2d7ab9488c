"""Rows of texts and pairs: the original's, and worked out by hand."""

import json

import numpy as np
import pytest

from bert_keras.data.input_features import pad
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.tasks.classification.examples import (
    InputExample,
    encode_example,
    encode_examples,
)
from bert_keras.tasks.classification.glue import find_task
from tests.conftest import GOLDEN

LETTERS = "abcdefghijklmnop"


@pytest.fixture(scope="module")
def golden_vocab(tmp_path_factory: pytest.TempPathFactory) -> str:
    """bert-base-uncased's pieces of the golden texts, each at its id.

    A piece that is longest in the whole vocabulary is longest in this part of
    it, so that texts are cut alike.
    """
    pieces = json.loads((GOLDEN / "classifier_pieces.json").read_text("utf-8"))
    lines = [f"[unused{i}]" for i in range(max(pieces.values()) + 1)]
    for piece, number in pieces.items():
        lines[number] = piece
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> FullTokenizer:
    """Every letter is a piece, and its id its place from 5."""
    path = tmp_path_factory.mktemp("letters") / "vocab.txt"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path.write_text("\n".join([*special, *LETTERS]))
    return FullTokenizer(str(path))


def shown(
    tokenizer: FullTokenizer,
    example: InputExample,
    max_seq_length: int,
    doc_stride: int | None = None,
) -> list[str]:
    """Rows as strings: "^abc|de|" for [CLS] a b c [SEP] d e [SEP]."""
    rows, _ = encode_example(example, tokenizer, max_seq_length, doc_stride)
    for row in rows:
        ends = [i for i, n in enumerate(row.input_ids) if n == 3]
        assert row.segment_ids == [
            int(i > ends[0]) for i in range(len(row.input_ids))
        ]
        assert len(row.input_ids) <= max_seq_length
    signs = "?" * 2 + "^|?" + LETTERS
    return ["".join(signs[n] for n in row.input_ids) for row in rows]


def text(first: str, second: str | None = None) -> InputExample:
    return InputExample(
        "x", " ".join(first), None if second is None else " ".join(second), None
    )


@pytest.mark.parametrize("name", ["mrpc", "cola"])
def test_rows_are_the_originals(name: str, golden_vocab: str) -> None:
    folder = GOLDEN / f"classifier_{name}"
    golden = np.load(folder / "features.npz")
    task = find_task(name)
    assert task.labels is not None
    examples = task.read(str(folder), "train")
    encoded = encode_examples(
        examples, FullTokenizer(golden_vocab), golden["input_ids"].shape[1]
    )
    assert all(len(rows) == 1 for rows in encoded)
    features = pad(
        [rows[0] for rows in encoded], *golden["input_ids"].shape[::-1]
    )
    assert set(golden.files) == {*features, "label_id"}
    for feature, values in features.items():
        np.testing.assert_array_equal(values, golden[feature], feature)
    labels = [task.labels.index(e.label) for e in examples if e.label]
    assert labels == golden["label_id"].tolist()


def test_without_a_stride_long_texts_are_cut(tokenizer: FullTokenizer) -> None:
    assert shown(tokenizer, text("abcdefg"), 6) == ["^abcd|"]
    assert shown(tokenizer, text("abcdef", "ghi"), 9) == ["^abc|ghi|"]


@pytest.mark.parametrize("second", ["", " ", "\u200b"])
def test_a_second_text_without_pieces_is_none(
    tokenizer: FullTokenizer, second: str
) -> None:
    """As in the original, which then writes one [SEP] only."""
    assert shown(tokenizer, InputExample("x", "a b", second, None), 9) == [
        "^ab|"
    ]


def test_windows_of_one_text(tokenizer: FullTokenizer) -> None:
    assert shown(tokenizer, text("abcdefg"), 6, 2) == [
        "^abcd|",
        "^cdef|",
        "^efg|",
    ]
    assert shown(tokenizer, text("abcd"), 6, 2) == ["^abcd|"]
    assert shown(tokenizer, text(""), 6, 2) == ["^|"]


def test_windows_leave_no_gap(tokenizer: FullTokenizer) -> None:
    assert shown(tokenizer, text("abcdefg"), 6, 50) == ["^abcd|", "^efg|"]


@pytest.mark.parametrize("max_seq_length", [4, 5, 8])
@pytest.mark.parametrize("first", ["", "a", "abc", "abcdefgh"])
def test_windows_show_everything_and_none_is_empty(
    tokenizer: FullTokenizer, first: str, max_seq_length: int
) -> None:
    for end in range(len(LETTERS) + 1):
        second = LETTERS[8:end] or None
        for stride in (1, 2, 3, 50):
            rows = shown(tokenizer, text(first, second), max_seq_length, stride)
            parts = [row[:-1].split("|")[-1].strip("^") for row in rows]
            whole = second or first
            assert set("".join(parts)) == set(whole)
            assert all(part and part in whole for part in parts) or not whole


def test_windows_of_a_pair_go_over_the_second(tokenizer: FullTokenizer) -> None:
    assert shown(tokenizer, text("ab", "cdefgh"), 9, 2) == [
        "^ab|cdef|",
        "^ab|efgh|",
    ]


def test_a_pair_that_fits_stays_whole(tokenizer: FullTokenizer) -> None:
    assert shown(tokenizer, text("abcde", "f"), 9, 2) == ["^abcde|f|"]


def test_the_first_of_a_pair_keeps_half_or_what_is_left(
    tokenizer: FullTokenizer,
) -> None:
    assert shown(tokenizer, text("abcdefgh", "ij"), 9, 2) == ["^abcd|ij|"]
    assert shown(tokenizer, text("abcdefgh", "ijklm"), 9, 2) == [
        "^abc|ijk|",
        "^abc|klm|",
    ]


@pytest.mark.parametrize(
    ("example", "stride", "is_cut"),
    [
        (text("abcd"), None, False),
        (text("abcde"), None, True),
        (text("abcde"), 2, False),
        (text("a", "bc"), None, False),
        (text("a", "bcd"), None, True),
        (text("a", "bcd"), 2, False),
        (text("abcd", "e"), 2, True),
    ],
)
def test_what_is_cut_is_told(
    tokenizer: FullTokenizer,
    example: InputExample,
    stride: int | None,
    is_cut: bool,
) -> None:
    assert encode_example(example, tokenizer, 6, stride)[1] is is_cut


def test_lengths_and_how_many_were_cut_are_said(
    tokenizer: FullTokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = [text("abc"), text("abcdefg"), text("abcde")]
    assert len(encode_examples(examples, tokenizer, 6)) == 3
    assert capsys.readouterr().err == (
        "3 texts of 5 to 9 tokens, median 7; 2 of 3 were cut to "
        "`max_seq_length=6`\n"
    )
    encode_examples([*examples, text("a", "bcd")], tokenizer, 9)
    assert "4 texts of 5 to 9 tokens, median 7; 0 of 4 were cut" in (
        capsys.readouterr().err
    )
