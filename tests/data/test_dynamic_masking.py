"""Masks drawn by TensorFlow; their rules: test_masking_agrees.py."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bert_keras.data.dynamic_masking import BatchMasker
from bert_keras.data.masking import MaskConfig, read_masking_vocabulary
from bert_keras.data.record_schema import HostShard
from bert_keras.data.special_tokens import BERT

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg", "##x", "##y"]
VOCAB = {word: number for number, word in enumerate(WORDS)}
PIECES = read_masking_vocabulary(VOCAB, BERT)
LINE = "[CLS] a b ##x ##y c [SEP] ##x d ##y e f g [SEP]"
LENGTH, WIDTH = 17, 5


def make_batch(lines: Sequence[str]) -> dict[str, tf.Tensor]:
    """Rows padded with zeros; B begins after the first [SEP]."""
    ids = np.zeros((len(lines), LENGTH), np.int32)
    lengths = np.zeros((len(lines), 2), np.int32)
    for row, line in enumerate(lines):
        words = line.split()
        ids[row, : len(words)] = [VOCAB[word] for word in words]
        length_a = words.index("[SEP]") + 1
        lengths[row] = length_a, len(words) - length_a
    return {
        "input_ids": tf.constant(ids),
        "segment_lengths": tf.constant(lengths),
        "next_sentence_labels": tf.zeros([len(lines), 1], tf.int32),
    }


def mask(
    config: MaskConfig, lines: Sequence[str], number: int = 0, seed: int = 1
) -> dict[str, np.ndarray]:
    masker = BatchMasker(PIECES, config, seed)
    masked = masker.mask(tf.constant(number, tf.int64), make_batch(lines))
    return {name: values.numpy() for name, values in masked.items()}


def places_of(masked: dict[str, np.ndarray]) -> list[tuple[int, ...]]:
    return [
        tuple(places[weights > 0].tolist())
        for places, weights in zip(
            masked["masked_lm_positions"],
            masked["masked_lm_weights"],
            strict=True,
        )
    ]


def test_masks_depend_on_seed_and_number_alone() -> None:
    config = MaskConfig(WIDTH, 0.3)
    first = mask(config, [LINE] * 20)
    for name, values in mask(config, [LINE] * 20).items():
        np.testing.assert_array_equal(values, first[name])
    for other in (
        mask(config, [LINE] * 20, number=1),
        mask(config, [LINE] * 20, seed=2),
    ):
        assert places_of(other) != places_of(first)


def test_segments_by_hand() -> None:
    masked = mask(MaskConfig(WIDTH), ["[CLS] a b [SEP] c [SEP]"])
    padding = [0] * (LENGTH - 6)
    assert masked["input_mask"].tolist() == [[1] * 6 + padding]
    assert masked["segment_ids"].tolist() == [[0] * 4 + [1] * 2 + padding]


def test_each_host_masks_its_rows_as_one_would() -> None:
    config = MaskConfig(WIDTH, 0.3, do_whole_word_mask=True)
    whole = mask(config, [LINE] * 6)
    for index in (0, 1):
        masker = BatchMasker(PIECES, config, 1, HostShard(index, 2))
        own = masker.mask(tf.constant(0, tf.int64), make_batch([LINE] * 3))
        for name, values in own.items():
            np.testing.assert_array_equal(values, whole[name][index::2])


def test_inside_a_pipeline() -> None:
    config = MaskConfig(WIDTH, 0.3, do_whole_word_mask=True)
    masker = BatchMasker(PIECES, config, 1)
    data = tf.data.Dataset.from_tensors(make_batch([LINE] * 3)).repeat(2)
    found = list(data.enumerate().map(masker.mask).as_numpy_iterator())
    for number in (0, 1):
        expected = mask(config, [LINE] * 3, number)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[number][name], values)
