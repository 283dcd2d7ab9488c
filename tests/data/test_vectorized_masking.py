"""The vectorized sampler against the step-by-step one."""

import random
from collections import Counter
from collections.abc import Hashable, Iterable

import numpy as np
import pytest
from scipy import stats

from bert_keras.data import vectorized_masking
from bert_keras.data.instances import InstanceConfig, create_instances
from bert_keras.data.masking import read_masking_vocabulary
from bert_keras.data.segment_sampling import Pairs, Text, sample_segments
from bert_keras.data.special_tokens import BERT

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg", "##x", "##y"]
VOCAB = {word: number for number, word in enumerate(WORDS)}
PIECES = read_masking_vocabulary(VOCAB, BERT)
DOCUMENTS = [
    ["a b", "c ##x d", "e"],
    ["f ##y ##x g a b", "c d", "b ##x", "g"],
    ["e f g a b c"],
]
LEAST_P_VALUE = 1e-3  # seeds are fixed: a test passes always or never


def make_text(documents: list[list[str]]) -> Text:
    sentences = [s.split() for document in documents for s in document]
    lengths = [len(sentence) for sentence in sentences]
    return Text(
        np.array([VOCAB[p] for s in sentences for p in s], np.uint16),
        np.cumsum([0, *lengths]),
        np.cumsum([0, *map(len, documents)]),
    )


def assert_same_distribution(
    one: Iterable[Hashable], two: Iterable[Hashable]
) -> None:
    """Chi-square of homogeneity; what is rare goes into one bin."""
    counts = Counter(one), Counter(two)
    keys = {
        k for k in {*counts[0], *counts[1]} if min(c[k] for c in counts) > 9
    }
    assert len(keys) > 1
    rest = [sum(n for k, n in c.items() if k not in keys) for c in counts]
    table = [
        [c[k] for k in keys] + [r] for c, r in zip(counts, rest, strict=True)
    ]
    if not any(rest):
        table = [row[:-1] for row in table]
    assert stats.chi2_contingency(table).pvalue > LEAST_P_VALUE


@pytest.mark.parametrize("max_seq_length", [8, 11, 20])
def test_pairs_are_distributed_as_googles(max_seq_length: int) -> None:
    passes = 2000
    config = InstanceConfig(
        max_seq_length=max_seq_length,
        max_predictions_per_seq=5,
        dupe_factor=passes,
        short_seq_prob=0.3,
    )
    theirs = []
    for instance in create_instances(
        [[s.split() for s in d] for d in DOCUMENTS],
        WORDS,
        config,
        random.Random(4),
    ):
        tokens = list(instance.tokens)
        for place, label in zip(
            instance.masked_lm_positions,
            instance.masked_lm_labels,
            strict=True,
        ):
            tokens[place] = label
        theirs.append((" ".join(tokens), instance.is_random_next))
    rng = np.random.default_rng(5)
    text = make_text(DOCUMENTS)
    _, pairs = sample_segments(text, config, 3, PIECES.end, rng)
    ours = []
    block = vectorized_masking.make_features(text, pairs, PIECES, config, rng)
    ids = unmask(block)
    for row, mask, label in zip(
        ids, block["input_mask"], block["next_sentence_labels"], strict=True
    ):
        words = [WORDS[i] for i in row[: mask.sum()]]
        ours.append((" ".join(words), bool(label[0])))
    assert_same_distribution(theirs, ours)


def unmask(block: dict[str, np.ndarray]) -> np.ndarray:
    ids = block["input_ids"].copy()
    row, column = np.nonzero(block["masked_lm_weights"])
    places = block["masked_lm_positions"][row, column]
    ids[row, places] = block["masked_lm_ids"][row, column]
    return ids


def test_the_layout_of_a_row() -> None:
    text = make_text([["a b", "c d"], ["e"]])
    pairs = Pairs(*map(np.array, ([0], [2], [2], [2], [False], [False])))
    config = InstanceConfig(max_seq_length=9, max_predictions_per_seq=3)
    block = vectorized_masking.make_features(
        text, pairs, PIECES, config, np.random.default_rng(9)
    )
    words = [WORDS[i] for i in unmask(block)[0]]
    assert " ".join(words) == "[CLS] a b [SEP] c d [SEP] [PAD] [PAD]"
    assert block["input_mask"].tolist() == [[1] * 7 + [0] * 2]
    assert block["segment_ids"].tolist() == [[0] * 4 + [1] * 3 + [0] * 2]
    assert block["next_sentence_labels"].tolist() == [[0]]
    assert block["masked_lm_weights"].tolist() == [[1.0, 0.0, 0.0]]
