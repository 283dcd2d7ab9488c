"""Tests of data/input_features.py."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from bert_keras.data.input_features import (
    IndexedBatch,
    InputFeatures,
    bucket_by_length,
    build_inputs,
    max_context_window,
    pad,
    padded_length,
    run_documents,
    windows,
)
from bert_keras.data.special_tokens import BERT


def test_join_is_the_worked_example() -> None:
    tokens, segments = build_inputs(["a", "b", "c"], ["d", "e"], 7, BERT)
    assert tokens == ["[CLS]", "a", "b", "[SEP]", "d", "e", "[SEP]"]
    assert segments == [0, 0, 0, 0, 1, 1, 1]


def test_join_cuts_the_longer_text_and_of_equals_the_second() -> None:
    tokens, _ = build_inputs(list("abcdef"), list("gh"), 8, BERT)
    assert tokens == ["[CLS]", *"abc", "[SEP]", *"gh", "[SEP]"]
    tokens, _ = build_inputs(list("abc"), list("def"), 8, BERT)
    assert tokens == ["[CLS]", *"abc", "[SEP]", *"de", "[SEP]"]
    tokens, segments = build_inputs(list("abc"), None, 4, BERT)
    assert tokens == ["[CLS]", *"ab", "[SEP]"]
    assert segments == [0, 0, 0, 0]


def test_pad_fills_rows_and_columns_with_zeros() -> None:
    features = pad([InputFeatures([7, 8, 9], [0, 1, 1])], 5, 2)
    assert features["input_ids"].tolist() == [[7, 8, 9, 0, 0], [0] * 5]
    assert features["input_mask"].tolist() == [[1, 1, 1, 0, 0], [0] * 5]
    assert features["segment_ids"].tolist() == [[0, 1, 1, 0, 0], [0] * 5]


def test_pad_fills_positions_to_a_power_of_two() -> None:
    rows = [
        InputFeatures([7, 8, 9, 8], [0] * 4, [1, 2, 3]),
        InputFeatures([7], [0]),
    ]
    positions = pad(rows, 5, 3)["positions"]
    assert positions.tolist() == [[1, 2, 3, 0], [0] * 4, [0] * 4]
    assert positions.dtype == np.int32
    assert "positions" not in pad([InputFeatures([7], [0])], 5, 1)


def test_padded_length() -> None:
    lengths = {padded_length(n) for n in range(1, 513)}
    assert sorted(lengths) == [16, 32, 48, 64, 96, 128, 192, 256, 384, 512]
    finer = {padded_length(n, fine_buckets=True) for n in range(1, 257)}
    assert sorted(finer) == [
        *range(4, 64, 4), *range(64, 128, 8), *range(128, 257, 16)
    ]  # fmt: skip
    assert all(n <= padded_length(n) < 2 * n for n in range(16, 2000))


def test_batches_hold_every_row_once_at_a_length_that_fits() -> None:
    rng = np.random.default_rng(0)
    rows = [
        InputFeatures([i] * n, [0] * n)
        for i, n in enumerate(rng.integers(1, 60, 83))
    ]
    seen: list[int] = []
    # A chunk ends with row 63; the other has 19 rows.
    chunk_positions = sum(padded_length(len(x.input_ids)) for x in rows[:64])
    batches = bucket_by_length(
        iter(rows), 2, 61, chunk_positions=chunk_positions
    )
    for indices, features in batches:
        # 122 positions, in rows of a power of two.
        num_rows = {16: 4, 32: 2, 48: 2, 61: 2}[features["input_ids"].shape[1]]
        assert features["input_ids"].shape[0] == num_rows
        for i, ids, mask in zip(
            indices, features["input_ids"], features["input_mask"], strict=False
        ):
            assert ids[mask == 1].tolist() == rows[i].input_ids
            seen.append(i)
    assert sorted(seen) == list(range(83))
    assert max(seen[:64]) == 63, "the first chunk is answered first"


def test_a_batch_is_no_longer_than_the_model() -> None:
    rows = [InputFeatures([1] * 61, [0] * 61)]
    ((_, features),) = bucket_by_length(rows, 8, 61)
    assert features["input_ids"].shape == (1, 61)


def test_a_small_chunk_makes_a_small_batch() -> None:
    rows = [InputFeatures([1] * 9, [0] * 9)] * 5
    ((indices, features),) = bucket_by_length(rows, 32, 512)
    assert indices == [0, 1, 2, 3, 4]
    assert features["input_ids"].shape == (8, 16)


def test_large_chunks_have_finer_lengths() -> None:
    rows = [InputFeatures([1] * n, [0] * n) for n in (70, 65, 60, 66, 67)]
    lengths = [
        features["input_ids"].shape
        for _, features in bucket_by_length(rows, 1, 128, True, 96 + 96 + 1)
    ]
    assert lengths == [(1, 72), (1, 72), (2, 60), (1, 96), (1, 96)]


def test_windows_cover_every_piece() -> None:
    assert windows(7, 4, 2) == [range(0, 4), range(2, 6), range(4, 7)]
    assert windows(8, 4, 2) == [range(0, 4), range(2, 6), range(4, 8)]
    assert windows(4, 4, 2) == [range(4)]
    assert windows(0, 4, 2) == [range(0)]
    assert windows(7, 3, 5) == [range(0, 3), range(3, 6), range(6, 7)]


def test_most_context() -> None:
    # piece     0  1  2  3  4  5  6  7  8  9
    # in 0-5    0  1  2  2  1  0
    # in 3-8             0  1  2  2  1  0
    # in 6-9                      0  1  1  0, but 0.02 less for its length
    owners = max_context_window(windows(10, 6, 3), 10)
    assert owners == [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]
    # Piece 275 has 24 neighbours on one side in the first window and 25 in
    # the second, which is 200 pieces shorter: 24 + 3 against 25 + 1.
    assert max_context_window([range(300), range(250, 350)], 350)[275] == 0
    assert max_context_window([range(300), range(250, 350)], 350)[276] == 1
    assert max_context_window([range(0)], 0) == []


@pytest.mark.parametrize(("width", "stride"), [(5, 1), (11, 4), (16, 16)])
def test_most_context_is_upstreams_rule(width: int, stride: int) -> None:
    spans = windows(61, width, stride)
    for piece, owner in enumerate(max_context_window(spans, 61)):
        scores = [
            min(piece - s.start, s.stop - 1 - piece) + 0.01 * len(s)
            if piece in s
            else -1.0
            for s in spans
        ]
        assert owner == scores.index(max(scores))


class Text(NamedTuple):
    rows: list[InputFeatures]


def first_ids(batches: Iterator[IndexedBatch]) -> Iterator[int]:
    for indices, features in batches:
        assert indices == sorted(indices), "these rows are of equal length"
        yield from features["input_ids"][: len(indices), 0].tolist()


def test_documents_get_the_outputs_of_their_rows() -> None:
    """A document of two rows, two of none, one of one, one of none."""
    documents = [
        Text([InputFeatures([i], [0]) for i in numbers])
        for numbers in ([1, 2], [], [], [3], [])
    ]

    results = list(run_documents(documents, first_ids, 8, 16))
    assert [document for document, _ in results] == documents
    assert [outputs for _, outputs in results] == [[1, 2], [], [], [3], []]


def test_documents_are_answered_before_all_are_read() -> None:
    documents = iter([Text([InputFeatures([i], [0])]) for i in range(9)])
    answers = run_documents(documents, first_ids, 8, 16, chunk_positions=1)
    next(answers)
    assert len(list(documents)) == 8
