"""Blanks: a line as rows, and pieces by probability."""

from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.errors import InputError
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.fill_mask import BlankFiller, encode
from tests.limits import time_limit

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


def test_many_blanks_take_time_in_proportion(
    tokenizer: FullTokenizer,
) -> None:
    with time_limit(60):
        rows = encode("[MASK] a " * 50_000, tokenizer, 16)
    assert sum(len(row.positions) for row in rows) == 50_000


def test_encode(tokenizer: FullTokenizer) -> None:
    # [CLS] a [MASK] . [SEP]
    expected = [InputFeatures([2, 5, 4, 6, 3], [0] * 5, [2])]
    assert encode("A [MASK].", tokenizer, 5) == expected


def test_encode_answers_every_mask(tokenizer: FullTokenizer) -> None:
    # [CLS] [MASK] [MASK] sky [UNK] [SEP]
    expected = [InputFeatures([2, 4, 4, 7, 1, 3], [0] * 6, [1, 2])]
    assert encode("[MASK][MASK] Sky blue\n", tokenizer, 37) == expected


def test_encode_wants_a_mask(tokenizer: FullTokenizer) -> None:
    with pytest.raises(InputError, match=r"no \[MASK\] in it"):
        encode("a sky\n", tokenizer, 37)


def test_a_long_line_is_read_where_its_masks_are(
    tokenizer: FullTokenizer,
) -> None:
    """Nine pieces, four a window, two apart: 0-3, 2-5, 4-7, 5-8 has none."""
    rows = encode("a [MASK] a . [MASK] [MASK] . sky .", tokenizer, 6)
    assert rows == [
        InputFeatures([2, 5, 4, 5, 6, 3], [0] * 6, [2]),  # a [MASK] a .
        InputFeatures([2, 5, 6, 4, 4, 3], [0] * 6, [3]),  # a . [MASK] [MASK]
        InputFeatures([2, 4, 4, 6, 7, 3], [0] * 6, [2]),  # [MASK] [MASK] . sky
    ]


def test_the_likeliest_pieces_do_not_see_the_padding() -> None:
    """And ids that the vocabulary has not, 9 and 10, are left out."""
    model = BlankFiller(CONFIG, range(9), count=3)
    for mapping in model.mappings():
        rng = np.random.default_rng(len(mapping.name))
        mapping.write(rng.normal(size=mapping.shape).astype(np.float32))
    for length in (16, 17):
        ids = [2, *(5 + i % 4 for i in range(length - 2)), 3]
        row = InputFeatures(ids, [0] * length, [3, 1, 2])
        outputs = model.outputs_by_name(pad([row], 32, 2))
        exact = model.encoder(
            np.array([ids]), np.ones([1, length]), np.zeros([1, length], int)
        )
        logits = model.masked_lm(
            exact.sequence[:, 1:4],
            model.encoder.embeddings.word_embeddings.value,
        )
        odds = np.exp(logits)[0, [2, 0, 1]]
        expected = (odds / odds.sum(axis=-1, keepdims=True))[:, :9]
        best = np.argsort(-expected, axis=-1)[:, :3]
        np.testing.assert_array_equal(outputs["ids"][0, :3], best)
        np.testing.assert_allclose(
            outputs["probabilities"][0, :3],
            np.take_along_axis(expected, best, axis=-1),
            atol=1e-5,
        )
