"""Tests of tasks/ner/features.py: windows worked out by hand."""

import numpy as np

from bert_keras.data.tokenization import FullTokenizer
from bert_keras.tasks.ner.features import label_arrays, read_words
from tests.conftest import GOLDEN

TOKENIZER = FullTokenizer(str(GOLDEN / "tiny_vocab.txt"))
# Eight words of ten pieces: "\u200b" is nothing readable.
WORDS = ["the", "old", "unaffable", "\u200b", "saw", "the", "sea", "."]
PIECES = "the old un ##aff ##able [UNK] saw the sea .".split()


def test_a_text_that_fits_is_one_row() -> None:
    text = read_words(WORDS, TOKENIZER, 12, 4)
    (row,) = text.rows
    tokens = TOKENIZER.convert_ids_to_tokens(row.input_ids)
    assert tokens == ["[CLS]", *PIECES, "[SEP]"]
    assert row.segment_ids == [0] * 12
    assert row.positions == [1, 2, 3, 6, 7, 8, 9, 10]  # where words begin
    assert text.places == [(0, i) for i in range(8)]


def test_windows_answer_where_a_word_has_most_context() -> None:
    """Ten pieces, four a window, two apart: 0-3, 2-5, 4-7, 6-9. Of a window
    the inner two pieces have context on both sides: 1 and 2, 3 and 4 in the
    second, 5 and 6, 7 and 8; at the ends 0 and 9 have none anywhere."""
    text = read_words(WORDS, TOKENIZER, 6, 2)
    assert [
        " ".join(TOKENIZER.convert_ids_to_tokens(row.input_ids))
        for row in text.rows
    ] == [
        "[CLS] the old un ##aff [SEP]",
        "[CLS] un ##aff ##able [UNK] [SEP]",
        "[CLS] ##able [UNK] saw the [SEP]",
        "[CLS] saw the sea . [SEP]",
    ]
    assert [row.positions for row in text.rows] == [
        [1, 2, 3], [1, 4], [2, 3, 4], [1, 2, 3, 4],
    ]  # fmt: skip
    assert text.places == [
        *[(0, 0), (0, 1), (0, 2)],  # the old unaffable
        *[(2, 0), (2, 1)],  # nothing, saw
        *[(3, 1), (3, 2), (3, 3)],  # the sea .
    ]
    outputs = [{"logits": np.arange(10) + 10 * i} for i in range(4)]
    joined = text.join(outputs, "logits")
    assert joined.tolist() == [0, 1, 2, 20, 21, 31, 32, 33]


def test_a_window_in_which_no_word_begins() -> None:
    """A piece a window; it asks for its mark, and has no label."""
    text = read_words(["unaffable", "sea"], TOKENIZER, 3, 1)
    assert [row.positions for row in text.rows] == [[1], [0], [0], [1]]
    assert text.places == [(0, 0), (3, 0)]
    arrays = label_arrays([text], [[4, 6]])
    assert arrays["label_ids"].tolist() == [[5], [0], [0], [7]]


def test_labels_stand_where_words_are_answered() -> None:
    texts = [
        read_words(words, TOKENIZER, 6, 2) for words in (["the", "sea"], WORDS)
    ]
    arrays = label_arrays(texts, [[0, 4], range(8)])
    assert arrays["label_ids"].tolist() == [
        [1, 5, 0, 0],
        [1, 2, 3, 0],
        [0, 0, 0, 0],
        [4, 5, 0, 0],
        [0, 6, 7, 8],
    ]
    assert arrays["label_positions"].tolist() == [
        [1, 2, 0, 0],
        [1, 2, 3, 0],
        [1, 4, 0, 0],
        [2, 3, 4, 0],
        [1, 2, 3, 4],
    ]
