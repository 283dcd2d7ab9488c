"""Tests of data/rows.py."""

import numpy as np

from data.rows import Row, join, length_batches, pad, padded_length


def test_join_is_the_worked_example() -> None:
    tokens, segments = join(["a", "b", "c"], ["d", "e"], 7)
    assert tokens == ["[CLS]", "a", "b", "[SEP]", "d", "e", "[SEP]"]
    assert segments == [0, 0, 0, 0, 1, 1, 1]


def test_join_cuts_the_longer_text_and_of_equals_the_second() -> None:
    tokens, _ = join(list("abcdef"), list("gh"), 8)
    assert tokens == ["[CLS]", *"abc", "[SEP]", *"gh", "[SEP]"]
    tokens, _ = join(list("abc"), list("def"), 8)
    assert tokens == ["[CLS]", *"abc", "[SEP]", *"de", "[SEP]"]
    tokens, segments = join(list("abc"), None, 4)
    assert tokens == ["[CLS]", *"ab", "[SEP]"]
    assert segments == [0, 0, 0, 0]


def test_pad_fills_rows_and_columns_with_zeros() -> None:
    features = pad([Row([7, 8, 9], [0, 1, 1])], 5, 2)
    assert features["input_ids"].tolist() == [[7, 8, 9, 0, 0], [0] * 5]
    assert features["input_mask"].tolist() == [[1, 1, 1, 0, 0], [0] * 5]
    assert features["segment_ids"].tolist() == [[0, 1, 1, 0, 0], [0] * 5]


def test_padded_length() -> None:
    assert [padded_length(n) for n in (1, 16, 17, 400, 513)] == [
        16,
        16,
        32,
        512,
        1024,
    ]


def test_batches_hold_every_row_once_at_a_length_that_fits() -> None:
    rng = np.random.default_rng(0)
    rows = [
        Row([i] * n, [0] * n) for i, n in enumerate(rng.integers(1, 60, 83))
    ]
    seen = []
    for indices, features in length_batches(iter(rows), 2, 61):
        assert features["input_ids"].shape[0] == 2
        for i, ids, mask in zip(
            indices, features["input_ids"], features["input_mask"], strict=False
        ):
            assert ids[mask == 1].tolist() == rows[i].input_ids
            seen.append(i)
    assert sorted(seen) == list(range(83))
    assert max(seen[:64]) == 63, "the first chunk is answered first"


def test_a_batch_is_no_longer_than_the_model() -> None:
    rows = [Row([1] * 61, [0] * 61)]
    ((_, features),) = length_batches(rows, 1, 61)
    assert features["input_ids"].shape == (1, 61)
