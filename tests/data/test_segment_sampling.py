"""Which stretches of a text records hold: by hand, and on every record of a set
in which each piece comes once."""

import itertools
import random

import numpy as np
import pytest
from scipy import stats

from bert_keras.data import segment_sampling, vectorized_masking
from bert_keras.data.instances import FORMATS, InstanceConfig, truncate_pair
from bert_keras.data.masking import read_masking_vocabulary
from bert_keras.data.segment_sampling import Pairs, Text, sample_segments
from bert_keras.data.special_tokens import BERT, ROBERTA, SpecialTokens

LEAST_P_VALUE = 1e-3  # seeds are fixed: a test passes always or never
FIRST_ID = 5  # after the marks
DUPE_FACTOR = 3


def make_text(documents: list[list[int]]) -> Text:
    """Of sentences of these lengths; the pieces are 5, 6, 7, ..."""
    lengths = [length for document in documents for length in document]
    return Text(
        np.arange(FIRST_ID, FIRST_ID + sum(lengths), dtype=np.uint16),
        np.cumsum([0, *lengths]),
        np.cumsum([0, *map(len, documents)]),
    )


def pairs_of(*lengths: tuple[int, int]) -> Pairs:
    a, b = np.array(lengths).T
    zeros = np.zeros(len(lengths), int)
    return Pairs(zeros, a, zeros + 100, b, zeros > 0, zeros > 0)


def stretches(rows: Pairs, text: Text) -> list[list[int]]:
    return [
        text.ids[start : start + length].tolist()
        for start, length in zip(rows.a_start, rows.a_length, strict=True)
    ]


def test_truncation_by_hand() -> None:
    cut = segment_sampling.truncate(
        pairs_of((9, 4), (6, 6), (3, 2)), 8, np.random.default_rng(0)
    )
    assert cut.a_length.tolist() == [4, 4, 3]
    assert cut.b_length.tolist() == [4, 4, 2]
    assert cut.is_truncated.tolist() == [True, True, False]
    nine = segment_sampling.truncate(
        pairs_of((6, 6)), 9, np.random.default_rng(0)
    )
    assert (nine.a_length[0], nine.b_length[0]) == (5, 4)


def test_truncated_lengths_are_googles() -> None:
    lengths = [(a, b) for a in range(1, 12) for b in range(1, 12)]
    for longest in (2, 5, 8):
        cut = segment_sampling.truncate(
            pairs_of(*lengths), longest, np.random.default_rng(1)
        )
        expected = [
            [
                len(p)
                for p in truncate_pair(
                    ["a"] * a, ["b"] * b, longest, random.Random(0)
                )
            ]
            for a, b in lengths
        ]
        assert np.transpose([cut.a_length, cut.b_length]).tolist() == expected


def test_both_ends_are_cut() -> None:
    cut = segment_sampling.truncate(
        pairs_of(*[(1, 11)] * 3000), 8, np.random.default_rng(2)
    )
    begins = np.bincount(cut.b_start - 100, minlength=5)
    expected = 3000 * stats.binom(4, 0.5).pmf(range(5))
    assert stats.chisquare(begins, expected).pvalue > LEAST_P_VALUE
    assert (cut.b_length == 7).all()


def test_full_rows_by_hand() -> None:
    text = make_text([[3, 2], [1, 6]])
    same, rows = segment_sampling.fill(text, 8)
    assert same is text
    assert stretches(rows, text) == [[5, 6, 7, 8, 9], list(range(10, 17))]
    marked, rows = segment_sampling.fill(text, 8, 2)
    assert stretches(rows, marked) == [
        [5, 6, 7, 8, 9, 2, 10],
        list(range(11, 17)),
    ]


def test_no_row_begins_or_ends_with_a_separator() -> None:
    # 5 and a separator would fill 6, but no sentence is left room for.
    marked, rows = segment_sampling.fill(make_text([[3, 2], [1], [4]]), 6, 2)
    assert stretches(rows, marked) == [
        [5, 6, 7, 8, 9],
        [10, 2, 11, 12, 13, 14],
    ]


def test_long_sentences_are_split_by_hand() -> None:
    text = make_text([[2, 9], [4, 1]])
    split, is_part = segment_sampling.split_sentences(text, 4)
    assert split.sentence_ends.tolist() == [0, 2, 6, 10, 11, 15, 16]
    assert split.document_ends.tolist() == [0, 4, 6]
    assert is_part.tolist() == [False, True, True, True, False, False]
    config = InstanceConfig(
        max_seq_length=6,
        max_predictions_per_seq=2,
        dupe_factor=1,
        sequence_format="doc_sentences",
    )
    _, rows = sample_segments(text, config, 2, 2, np.random.default_rng(0))
    found = sorted(zip(stretches(rows, text), rows.is_truncated, strict=True))
    assert found == [
        ([5, 6], False),
        ([7, 8, 9, 10], True),
        ([11, 12, 13, 14], True),
        ([15], True),
        ([16, 17, 18, 19], False),
        ([20], False),
    ]


# Every record of a small set

LENGTHS = [
    np.random.default_rng(number).integers(1, 17, size).tolist()
    for number, size in enumerate([1, 7, 2, 13, 5, 3, 11, 1, 29])
]
LENGTHS[3][2] = 61  # longer than any record
TEXT = make_text(LENGTHS)
SENTENCE_OF = np.repeat(
    np.arange(len(TEXT.sentence_ends) - 1), np.diff(TEXT.sentence_ends)
)
DOCUMENT_OF = np.searchsorted(TEXT.document_ends, SENTENCE_OF, "right") - 1


def records(
    name: str, special_tokens: SpecialTokens
) -> list[tuple[list[list[int]], int]]:
    """Of each record the numbers of the text's pieces, stretch by stretch, as
    marks divide them, and its label."""
    vocab = {mark: number for number, mark in enumerate(special_tokens.tokens)}
    vocab |= {f"a{i}": i for i in range(FIRST_ID, FIRST_ID + len(TEXT.ids))}
    pieces = read_masking_vocabulary(vocab, special_tokens)
    config = InstanceConfig(
        max_seq_length=31,
        max_predictions_per_seq=5,
        dupe_factor=DUPE_FACTOR,
        sequence_format=name,
    )
    rng = np.random.default_rng(1)
    num_special_tokens = special_tokens.count(config.is_pair)
    text, pairs = sample_segments(
        TEXT, config, num_special_tokens, pieces.end, rng
    )
    found = []
    block = vectorized_masking.make_features(text, pairs, pieces, config, rng)
    rows, columns = np.nonzero(block["masked_lm_weights"])
    places = block["masked_lm_positions"][rows, columns]
    ids = block["input_ids"].copy()
    ids[rows, places] = block["masked_lm_ids"][rows, columns]
    assert (ids[block["input_mask"] == 0] == pieces.padding).all()
    labels = block.get("next_sentence_labels", np.zeros((len(ids), 1)))
    for row, mask, label in zip(
        ids, block["input_mask"], labels[:, 0], strict=True
    ):
        tokens = row[mask == 1].tolist()
        assert tokens[0] == pieces.start
        assert tokens[-1] == pieces.end
        parts = itertools.groupby(tokens[1:-1], lambda x: x == pieces.end)
        text_parts = [
            [number - FIRST_ID for number in part]
            for is_mark, part in parts
            if not is_mark
        ]
        found.append((text_parts, int(label)))
    assert len(found) > 50
    return found


def assert_whole_sentences(part: list[int]) -> None:
    """Pieces of one document that follow one another, cut where sentences are;
    but for the long one."""
    assert part == list(range(part[0], part[-1] + 1))
    assert len(set(DOCUMENT_OF[part])) == 1
    for place, beside in ((part[0], part[0] - 1), (part[-1], part[-1] + 1)):
        sentence = SENTENCE_OF[place]
        is_long = np.diff(TEXT.sentence_ends)[sentence] == 61
        is_inside = 0 <= beside < len(SENTENCE_OF)
        is_cut = is_inside and SENTENCE_OF[beside] == sentence
        assert is_long or not is_cut


@pytest.mark.parametrize("special_tokens", [BERT, ROBERTA])
@pytest.mark.parametrize("name", FORMATS)
def test_no_record_crosses_what_it_may_not(
    name: str, special_tokens: SpecialTokens
) -> None:
    made = records(name, special_tokens)
    if name in ("segment_pair", "sentence_pair"):
        for (a, b), is_random in made:
            for part in (a, b):
                assert part == list(range(part[0], part[-1] + 1))
                assert len(set(DOCUMENT_OF[part])) == 1
                sentences = set(SENTENCE_OF[part])
                assert name == "segment_pair" or len(sentences) == 1
            assert is_random == (DOCUMENT_OF[a[0]] != DOCUMENT_OF[b[0]])
            gap = SENTENCE_OF[b[0]] - SENTENCE_OF[a[-1]]
            # truncation may take whole sentences from between the two
            is_next = gap == 1 or (gap > 1 and name == "segment_pair")
            assert is_random or is_next
        shares = [label for _, label in made]
        assert 0 < sum(shares) < len(shares)
        return
    for parts, _ in made:
        assert name == "full_sentences" or len(parts) == 1
        for part in parts:
            assert_whole_sentences(part)
        for one, other in itertools.pairwise(parts):
            assert other[0] == one[-1] + 1
            assert DOCUMENT_OF[other[0]] == DOCUMENT_OF[one[-1]] + 1
    pieces = sorted(piece for parts, _ in made for p in parts for piece in p)
    assert pieces == sorted([*range(len(TEXT.ids))] * DUPE_FACTOR)


@pytest.mark.parametrize("name", ["full_sentences", "doc_sentences"])
def test_rows_hold_as_many_sentences_as_fit(name: str) -> None:
    for parts, _ in records(name, BERT):
        after = parts[-1][-1] + 1
        if (
            after == len(TEXT.ids)
            or SENTENCE_OF[after - 1] == (SENTENCE_OF[after])
        ):
            continue
        is_new = DOCUMENT_OF[after] != DOCUMENT_OF[after - 1]
        if is_new and name == "doc_sentences":
            continue
        length = sum(map(len, parts)) + len(parts) - 1 + is_new
        following = np.diff(TEXT.sentence_ends)[SENTENCE_OF[after]]
        assert length + min(following, 29) > 29
