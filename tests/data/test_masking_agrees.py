"""One set of rules for the three implementations of masking.

Step by step (data/masking.py), vectorized (data/vectorized_masking.py) and in
the input pipeline (data/dynamic_masking.py): each is put through every test, so
that none can be changed alone.
"""

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from bert_keras.data import instances, vectorized_masking
from bert_keras.data.dynamic_masking import BatchMasker
from bert_keras.data.instances import InstanceConfig
from bert_keras.data.masking import mask_tokens, read_masking_vocabulary
from bert_keras.data.segment_sampling import Pairs, Text
from bert_keras.data.special_tokens import BERT

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg", "##x", "##y"]
VOCAB = {word: number for number, word in enumerate(WORDS)}
PIECES = read_masking_vocabulary(VOCAB, BERT)
# A has a [SEP] inside, as between documents; B begins inside a word.
A, B = "a b ##x [SEP] ##y c".split(), "##x d ##y e f g".split()
TOKENS = ["[CLS]", *A, "[SEP]", *B, "[SEP]"]
PLACES = [1, 2, 3, 5, 6, 8, 9, 10, 11, 12, 13]  # that may be hidden
WORD_PLACES = [[1], [2, 3, 5], [6, 8], [9, 10], [11], [12], [13]]
LENGTH = len(TOKENS) + 2  # two places of padding
NUM_ROWS = 4000
LEAST_P_VALUE = 1e-3  # seeds are fixed: a test passes always or never

Features = dict[str, np.ndarray]


def step_by_step(config: InstanceConfig, num_rows: int, seed: int) -> Features:
    rng = random.Random(seed)
    rows = []
    for _ in range(num_rows):
        masked = mask_tokens(TOKENS, config, WORDS, rng)
        segment_ids = [0] * (len(A) + 2) + [1] * (len(B) + 1)
        instance = instances.Instance(
            masked.tokens,
            segment_ids,
            False,
            False,
            masked.positions,
            masked.labels,
        )
        rows.append(instances.to_features(instance, VOCAB, config))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def vectorized(config: InstanceConfig, num_rows: int, seed: int) -> Features:
    text = Text(
        np.array([VOCAB[piece] for piece in A + B], np.uint16),
        np.array([0, len(A), len(A) + len(B)]),
        np.array([0, 2]),
    )
    columns = [0, len(A), len(A), len(B), False, False]
    pairs = Pairs(*(np.full(num_rows, value) for value in columns))
    return vectorized_masking.make_features(
        text, pairs, PIECES, config, np.random.default_rng(seed)
    )


def in_pipeline(config: InstanceConfig, num_rows: int, seed: int) -> Features:
    row = [VOCAB[token] for token in TOKENS] + [0] * (LENGTH - len(TOKENS))
    batch = {
        "input_ids": tf.constant([row] * num_rows),
        "segment_lengths": tf.constant([[len(A) + 2, len(B) + 1]] * num_rows),
        "next_sentence_labels": tf.zeros([num_rows, 1], tf.int32),
    }
    masker = BatchMasker(PIECES, config, seed)
    masked = masker.mask(tf.constant(0, tf.int64), batch)
    return {name: values.numpy() for name, values in masked.items()}


IMPLEMENTATIONS = [step_by_step, vectorized, in_pipeline]
Implementation = Callable[[InstanceConfig, int, int], Features]
every_implementation = pytest.mark.parametrize("mask", IMPLEMENTATIONS)


def config_of(
    prob: float, most: int = 11, **settings: object
) -> InstanceConfig:
    arguments: dict = {"masked_lm_prob": prob, **settings}
    return InstanceConfig(most, max_seq_length=LENGTH, **arguments)


def chosen(features: Features) -> list[tuple[int, ...]]:
    """The places that each row hides."""
    return [
        tuple(places[weights > 0].tolist())
        for places, weights in zip(
            features["masked_lm_positions"],
            features["masked_lm_weights"],
            strict=True,
        )
    ]


@every_implementation
@pytest.mark.parametrize("whole_words", [False, True])
def test_special_tokens_stay_and_labels_are_what_was_hidden(
    mask: Implementation, whole_words: bool
) -> None:
    config = config_of(0.5, 9, do_whole_word_mask=whole_words)
    features = mask(config, 500, 1)
    row = [VOCAB[token] for token in TOKENS] + [0] * (LENGTH - len(TOKENS))
    ids = features["input_ids"].copy()
    rows, columns = np.nonzero(features["masked_lm_weights"])
    labels = features["masked_lm_ids"][rows, columns]
    ids[rows, features["masked_lm_positions"][rows, columns]] = labels
    assert (ids == row).all()
    assert {place for places in chosen(features) for place in places} == set(
        PLACES
    )
    assert all(
        list(places) == sorted(set(places)) for places in chosen(features)
    )
    # padding of the predictions
    is_padding = features["masked_lm_weights"] == 0
    assert is_padding.any()
    assert not features["masked_lm_positions"][is_padding].any()
    assert not features["masked_lm_ids"][is_padding].any()
    assert (np.diff(features["masked_lm_weights"], axis=1) <= 0).all()
    # rows around them
    length, length_a = len(TOKENS), len(A) + 2
    place = np.arange(LENGTH)
    assert (features["input_mask"] == (place < length)).all()
    assert (
        features["segment_ids"] == ((place >= length_a) & (place < length))
    ).all()


@every_implementation
@pytest.mark.parametrize(
    ("prob", "most", "expected"),
    [
        (0.15, 11, 2),  # 2.25
        (0.3, 11, 4),  # 4.5 goes to the even number
        (0.7, 11, 10),  # 10.5 does, too
        (0.01, 11, 1),  # at least one
        (0.9, 5, 5),  # 13.5, but `max_predictions_per_seq`
        (1.0, 12, 11),  # no more than may be hidden
    ],
)
def test_numbers_of_predictions(
    mask: Implementation, prob: float, most: int, expected: int
) -> None:
    features = mask(config_of(prob, most), 20, 2)
    assert features["masked_lm_positions"].shape == (20, most)
    assert (features["masked_lm_weights"].sum(1) == expected).all()


@every_implementation
@pytest.mark.parametrize(
    ("to_mask", "at_random"), [(0.8, 0.1), (0.5, 0.3), (0.0, 0.8), (1.0, 0.0)]
)
def test_shares_of_what_is_shown(
    mask: Implementation, to_mask: float, at_random: float
) -> None:
    config = config_of(0.4, mask_share=to_mask, random_share=at_random)
    features = mask(config, NUM_ROWS, 3)
    rows, columns = np.nonzero(features["masked_lm_weights"])
    labels = features["masked_lm_ids"][rows, columns]
    places = features["masked_lm_positions"][rows, columns]
    shown = features["input_ids"][rows, places]
    # any piece may come at random: [MASK], special tokens and the same one, too
    by_chance = at_random / len(WORDS)
    expected = [(shown == labels, 1 - to_mask - at_random + by_chance)]
    for piece, number in VOCAB.items():
        share = to_mask * (piece == "[MASK]") + by_chance
        differs = labels != number
        expected.append(((shown == number)[differs], share))
    for found, share in expected:
        share = min(max(share, 0.0), 1.0)
        test = stats.binomtest(int(found.sum()), len(found), share)
        assert test.pvalue > LEAST_P_VALUE / 10


@every_implementation
def test_whole_words(mask: Implementation) -> None:
    """Each word is hidden or shown as one, and none is left that would fit."""
    features = mask(config_of(0.3, do_whole_word_mask=True), 1000, 4)
    for places in chosen(features):
        words = [set(word) <= set(places) for word in WORD_PLACES]
        sizes = [len(word) for word in WORD_PLACES]
        assert sum(np.multiply(words, sizes)) == len(places) <= 4
        left = [n for n, taken in zip(sizes, words, strict=True) if not taken]
        assert min(left) > 4 - len(places)


@every_implementation
@pytest.mark.parametrize("whole_words", [False, True])
def test_choices_are_distributed_as_step_by_step(
    mask: Implementation, whole_words: bool
) -> None:
    config = config_of(0.15, do_whole_word_mask=whole_words)
    counts = [
        Counter(chosen(implementation(config, NUM_ROWS, seed)))
        for seed, implementation in ((5, step_by_step), (6, mask))
    ]
    keys = sorted({*counts[0], *counts[1]})
    table = [[count[key] for key in keys] for count in counts]
    assert len(keys) > 5
    assert stats.chi2_contingency(table).pvalue > LEAST_P_VALUE


@every_implementation
def test_masks_depend_on_the_seed_alone(mask: Implementation) -> None:
    config = config_of(0.4)
    first, again, other = (mask(config, 20, seed) for seed in (7, 7, 8))
    for name, values in first.items():
        np.testing.assert_array_equal(again[name], values)
    assert chosen(first) != chosen(other)
