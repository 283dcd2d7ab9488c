"""Blanks: a line as ids, and pieces by probability."""

from pathlib import Path

import numpy as np
import pytest

from data.tokenization import FullTokenizer
from input_error import InputError
from modeling.config import BertConfig
from tasks.blanks import (
    BlankFiller,
    Blanks,
    encode,
    likeliest,
    padded_length,
)

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] a . sky ##y".split()
CONFIG = BertConfig(
    vocab_size=11,
    hidden_size=6,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=13,
    max_position_embeddings=37,
    type_vocab_size=2,
)


@pytest.fixture
def tokenizer(tmp_path: Path) -> FullTokenizer:
    path = tmp_path / "vocab.txt"
    path.write_text("".join(piece + "\n" for piece in PIECES))
    return FullTokenizer(str(path))


def test_encode(tokenizer: FullTokenizer) -> None:
    # [CLS] a [MASK] . [SEP]
    assert encode("A [MASK].", tokenizer, 5) == Blanks([2, 5, 4, 6, 3], [2])


def test_encode_answers_every_mask(tokenizer: FullTokenizer) -> None:
    # [CLS] [MASK] [MASK] sky [UNK] [SEP]
    blanks = encode("[MASK][MASK] Sky blue\n", tokenizer, 37)
    assert blanks == Blanks([2, 4, 4, 7, 1, 3], [1, 2])


def test_encode_wants_a_mask(tokenizer: FullTokenizer) -> None:
    with pytest.raises(InputError, match=r"no \[MASK\] in it: 'a sky'"):
        encode("a sky\n", tokenizer, 37)


def test_encode_refuses_what_is_too_long(tokenizer: FullTokenizer) -> None:
    with pytest.raises(InputError, match="5 pieces.*at most 4"):
        encode("a [MASK].", tokenizer, 4)


def test_likeliest_leaves_out_what_the_vocabulary_has_not() -> None:
    row = np.array([0.125, 0.5, 0.125, 0.25], np.float32)
    assert likeliest(row, {0: "a", 2: "c", 3: "d"}, 2) == [
        ("d", 0.25),
        ("a", 0.125),
    ]


@pytest.mark.parametrize(
    ("length", "limit", "expected"),
    [(1, 64, 16), (16, 64, 16), (17, 64, 32), (33, 37, 37), (64, 64, 64)],
)
def test_padded_length(length: int, limit: int, expected: int) -> None:
    assert padded_length(length, limit) == expected


def test_probabilities_do_not_see_the_padding() -> None:
    """16 pieces need none, and 17 are padded to 32: both equal no padding."""
    model = BlankFiller(CONFIG)
    for binding in model.bindings():
        size = np.random.default_rng(len(binding.name)).normal(
            size=binding.shape
        )
        binding.write(size.astype(np.float32))
    for length in (16, 17):
        ids = [2, *(5 + i % 4 for i in range(length - 2)), 3]
        rows = model.probabilities(Blanks(ids, [3, 1]))
        exact = model.encoder(
            np.array([ids]), np.ones([1, length]), np.zeros([1, length], int)
        )
        logits = model.masked_lm(
            exact.sequence,
            np.array([[3, 1]], np.int32),
            model.encoder.embeddings.word_embeddings.value,
        )
        odds = np.exp(logits)[0]
        expected = odds / odds.sum(axis=-1, keepdims=True)
        assert rows.shape == (2, 11)
        np.testing.assert_allclose(rows, expected, atol=1e-5)
