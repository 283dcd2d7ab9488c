"""Masks drawn by TensorFlow against those of the step-by-step code."""

import random
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from bert_keras.data.batching import HostShard
from bert_keras.data.dynamic_masking import BatchMasker, MaskConfig
from bert_keras.data.masking import mask_tokens
from bert_keras.data.masking_vocabulary import read_masking_vocabulary
from bert_keras.data.special_tokens import BERT

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg", "##x", "##y"]
VOCAB = {word: number for number, word in enumerate(WORDS)}
PIECES = read_masking_vocabulary(VOCAB, BERT)
LINE = "[CLS] a b ##x ##y c [SEP] ##x d ##y e f g [SEP]"
LENGTH, WIDTH = 17, 5
LEAST_P_VALUE = 1e-3  # seeds are fixed: a test passes always or never
NUM_ROWS = 6000


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


def assert_same_distribution(
    one: Sequence[Hashable], two: Sequence[Hashable]
) -> None:
    counts = Counter(one), Counter(two)
    keys = sorted({*counts[0], *counts[1]}, key=str)
    common = [k for k in keys if min(count[k] for count in counts) > 9]
    rest = [sum(c.values()) - sum(c[k] for k in common) for c in counts]
    table = np.array(
        [
            [*(c[k] for k in common), r]
            for c, r in zip(counts, rest, strict=True)
        ]
    )
    assert len(common) > 1
    test = stats.chi2_contingency(table[:, table.any(0)])
    assert test.pvalue > LEAST_P_VALUE


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("share", [0.15, 0.3])
def test_choice_is_distributed_as_step_by_step(
    whole_words: bool, share: float
) -> None:
    config = MaskConfig(WIDTH, share, whole_words)
    rng = random.Random(2)
    theirs = [
        tuple(
            mask_tokens(
                LINE.split(), share, WIDTH, whole_words, WORDS, rng
            ).positions
        )
        for _ in range(NUM_ROWS)
    ]
    masked = mask(config, [LINE] * NUM_ROWS)
    assert_same_distribution(theirs, places_of(masked))


@pytest.mark.parametrize(
    ("to_mask", "at_random"), [(0.8, 0.1), (0.8, 0.2), (0.0, 0.8), (1.0, 0.0)]
)
def test_what_is_shown(to_mask: float, at_random: float) -> None:
    config = MaskConfig(WIDTH, 0.3, mask_share=to_mask, random_share=at_random)
    masked = mask(config, [LINE] * NUM_ROWS)
    before = make_batch([LINE] * NUM_ROWS)["input_ids"].numpy()
    row, column = np.nonzero(masked["masked_lm_weights"])
    places = masked["masked_lm_positions"][row, column]
    labels = masked["masked_lm_ids"][row, column]
    shown = masked["input_ids"][row, places]
    assert (labels == before[row, places]).all()
    untouched = masked["input_ids"].copy()
    untouched[row, places] = labels
    assert (untouched == before).all()
    other = 1 / len(WORDS)  # a random piece may be [MASK], or the same
    by_chance = at_random * other
    for found, share in (
        (shown == VOCAB["[MASK]"], to_mask + by_chance),
        (shown == labels, max(1 - to_mask - at_random, 0.0) + by_chance),
        (shown == VOCAB["[PAD]"], by_chance),
    ):
        test = stats.binomtest(int(found.sum()), len(found), share)
        assert test.pvalue > LEAST_P_VALUE


def test_numbers_by_hand() -> None:
    # 14 * 0.15 = 2.1, 4 * 0.15 = 0.6 but at least one, 14 * 0.9 is cut to 5
    lines = [LINE, "[CLS] a [SEP] [SEP]"]
    masked = mask(MaskConfig(WIDTH, 0.15), lines)
    assert masked["masked_lm_weights"].sum(-1).tolist() == [2, 1]
    assert places_of(masked)[1] == (1,)
    assert not masked["masked_lm_positions"][1, 1:].any()
    assert not masked["masked_lm_ids"][1, 1:].any()
    many = mask(MaskConfig(WIDTH, 0.9), [LINE])
    assert many["masked_lm_weights"].sum() == 5
    assert (np.diff(many["masked_lm_positions"][0]) > 0).all()


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
