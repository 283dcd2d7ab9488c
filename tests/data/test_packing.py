"""Packing by hand-worked examples, those of its docstrings."""

import numpy as np

from bert_keras.data.packing import (
    PackingConfig,
    fill_rows,
    plan_rows,
    unpack_rows,
)
from bert_keras.data.record_schema import packed_features
from tests.conftest import NUM_PREDICTIONS, SEQ_LENGTH, tiny_batch

FILLED = {
    "input_ids": [2, 5, 3, 4, 3, 2, 4, 3, 9, 9, 3, 0, 0],
    "segment_ids": [0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0],
    "position_ids": [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 0, 0],
    "sequence_numbers": [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0, 0],
    "masked_lm_positions": [3, 6, 0, 0],
    "masked_lm_ids": [6, 8, 0, 0],
    "masked_lm_weights": [1, 1, 0, 0],
    "next_sentence_positions": [0, 5, 0],
    "next_sentence_labels": [0, 1, 0],
    "next_sentence_weights": [1, 1, 0],
}


def up_to(counts: list[int], width: int) -> np.ndarray:
    """Ones, as many as each count, then zeros: [R, width]."""
    return (np.arange(width) < np.array(counts)[:, None]).astype("int32")


def test_plan_by_hand() -> None:
    records = {
        "input_mask": up_to([4, 9, 6, 3, 3, 2, 1], 10),
        "masked_lm_weights": up_to([1, 4, 2, 1, 1, 1, 2], 5),
    }
    config = PackingConfig(10, 5, max_sequences_per_pack=3)
    plan = plan_rows(records, config)
    assert plan == [[1], [2, 0], [3, 4, 5], [6]]


def test_the_row_with_the_least_room_is_filled() -> None:
    # 7 leaves 3, 5 and 4 leave 1: there the 1 goes, though the 7 came first.
    records = {
        "input_mask": up_to([5, 4, 7, 1], 10),
        "masked_lm_weights": up_to([1, 1, 1, 1], 5),
    }
    assert plan_rows(records, PackingConfig(10, 5)) == [[0, 1, 3], [2]]


def test_fill_by_hand() -> None:
    records = {
        "input_ids": np.array([[2, 5, 3, 4, 3, 0], [2, 4, 3, 9, 9, 3]]),
        "input_mask": up_to([5, 6], 6),
        "segment_ids": np.array([[0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1]]),
        "masked_lm_positions": np.array([[3, 0], [1, 0]]),
        "masked_lm_ids": np.array([[6, 0], [8, 0]]),
        "masked_lm_weights": np.array([[1.0, 0.0], [1.0, 0.0]]),
        "next_sentence_labels": np.array([[0], [1]]),
    }
    features = packed_features(13, 4, 3)
    filled = fill_rows(records, [[0, 1]], features)
    assert {k: v.tolist() for k, v in filled.items()} == {
        name: [values] for name, values in FILLED.items()
    }
    assert [f.name for f in features] == list(FILLED)
    assert filled["input_ids"].dtype == "int32"
    assert filled["next_sentence_weights"].dtype == "float32"


def test_unpacked_are_the_records_of_rows() -> None:
    records = tiny_batch(53)
    rows = plan_rows(records, PackingConfig(SEQ_LENGTH, NUM_PREDICTIONS))
    assert max(map(len, rows)) > 1
    features = packed_features(SEQ_LENGTH, NUM_PREDICTIONS, 3)
    unpacked = unpack_rows(fill_rows(records, rows, features))
    assert set(unpacked) == set(records)
    for name, values in unpacked.items():
        assert values.dtype == records[name].dtype
        np.testing.assert_array_equal(values, records[name][sum(rows, [])])


def test_each_record_is_in_one_row_and_rows_keep_their_limits() -> None:
    records = tiny_batch(211)
    config = PackingConfig(SEQ_LENGTH + 2, NUM_PREDICTIONS, 2)
    rows = plan_rows(records, config)
    assert sorted(sum(rows, [])) == list(range(211))
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    lengths = records["input_mask"].sum(-1)
    masks = records["masked_lm_weights"].sum(-1)
    assert max(lengths[row].sum() for row in rows) <= SEQ_LENGTH + 2
    assert max(masks[row].sum() for row in rows) == NUM_PREDICTIONS
    assert max(len(row) for row in rows) == 2
    assert all(lengths[row[0]] == lengths[row].max() for row in rows)
