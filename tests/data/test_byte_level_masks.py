"""Masks of RoBERTa's records: made with the records, and when they are read."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data import vectorized_masking
from bert_keras.data.dynamic_masking import BatchMasker
from bert_keras.data.instances import InstanceConfig
from bert_keras.data.masking import MaskConfig, read_masking_vocabulary
from bert_keras.data.segment_sampling import Text, sample_segments
from bert_keras.data.special_tokens import ROBERTA

NAMES = ["<s>", "<pad>", "</s>", "<unk>", *"abcdefg", "<mask>"]
NAMES += [f"\u0120{letter}" for letter in "uvwxyz"]
PIECES = read_masking_vocabulary(
    {name: i for i, name in enumerate(NAMES)}, ROBERTA
)
START, PADDING, END, MASK = 0, 1, 2, 11
CONFIG = InstanceConfig(
    max_seq_length=23,
    max_predictions_per_seq=11,
    do_whole_word_mask=True,
    masked_lm_prob=0.4,
    dupe_factor=50,
)
Block = dict[str, np.ndarray]


def blocks(name: str, is_dynamic: bool) -> Block:
    """The features of some hundred records."""
    rng = np.random.default_rng(3)
    letters = np.array([*range(4, 11), *range(12, 18)])
    lengths = rng.integers(1, 9, 31)
    text = Text(
        rng.choice(letters, lengths.sum()).astype(np.uint16),
        np.cumsum([0, *lengths]),
        np.array([0, 2, 9, 10, 19, 31]),
    )
    config = dataclasses.replace(
        CONFIG, sequence_format=name, dynamic_masking=is_dynamic
    )
    num_special_tokens = ROBERTA.count(config.is_pair)
    text, pairs = sample_segments(text, config, num_special_tokens, END, rng)
    block = vectorized_masking.make_features(text, pairs, PIECES, config, rng)
    if not is_dynamic:
        return block
    masker = BatchMasker(PIECES, MaskConfig(11, 0.4, True), seed=5)
    unmasked = {name: tf.constant(x, tf.int32) for name, x in block.items()}
    masked = masker.mask(tf.constant(0, tf.int64), unmasked)
    return {name: x.numpy() for name, x in masked.items()}


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("name", ["segment_pair", "full_sentences"])
def test_marks_stay_and_words_are_whole(name: str, is_dynamic: bool) -> None:
    block = blocks(name, is_dynamic)
    assert ("next_sentence_labels" in block) == (name == "segment_pair")
    assert not block["segment_ids"].any()
    rows, columns = np.nonzero(block["masked_lm_weights"])
    places = block["masked_lm_positions"][rows, columns]
    labels = block["masked_lm_ids"][rows, columns]
    shown = block["input_ids"][rows, places]
    special_tokens = [NAMES.index(mark) for mark in ROBERTA.tokens]
    assert not np.isin(labels, special_tokens).any()
    assert set(shown[np.isin(shown, special_tokens)]) == {MASK}
    assert len(set(shown.tolist())) == 14  # each piece replaces some other

    ids = block["input_ids"].copy()
    ids[rows, places] = labels
    is_hidden = np.zeros(ids.shape, bool)
    is_hidden[rows, places] = True
    is_real = block["input_mask"] == 1
    assert (ids[~is_real] == PADDING).all()
    # A piece without a space goes on with what is before it, but for a mark.
    is_inner = (ids > END) & (ids < MASK) & is_real
    is_inner[:, 1:] &= ids[:, :-1] > END
    row, column = np.nonzero(is_inner[:, 1:])
    assert len(row) > 500
    assert (is_hidden[row, column] == is_hidden[row, column + 1]).all()


def test_both_see_the_same_rows() -> None:
    one, other = blocks("full_sentences", False), blocks("full_sentences", True)
    for block in (one, other):
        rows, columns = np.nonzero(block["masked_lm_weights"])
        places = block["masked_lm_positions"][rows, columns]
        labels = block["masked_lm_ids"][rows, columns]
        block["input_ids"][rows, places] = labels
    for name in ("input_ids", "input_mask", "segment_ids"):
        np.testing.assert_array_equal(one[name], other[name])
    is_separator = (one["input_ids"] == END).sum(1) > 1
    assert is_separator.any()
