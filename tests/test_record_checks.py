"""Tests of data/record_checks.py: what fits the table, and what is damaged."""

import pathlib
from collections.abc import Sequence

import pytest
import tensorflow as tf

from data import record_checks, record_features, records
from input_error import InputError

FEATURES = record_features.pretraining_features(7, 3)
VALUES: dict[str, Sequence[float]] = {
    "input_ids": [2, 4, 3, 11, 3, 0, 0],
    "input_mask": [1, 1, 1, 1, 1, 0, 0],
    "segment_ids": [0, 0, 0, 1, 1, 0, 0],
    "masked_lm_positions": [1, 0, 0],
    "masked_lm_ids": [12, 0, 0],
    "masked_lm_weights": [1.0, 0.0, 0.0],
    "next_sentence_labels": [1],
}
RECORD = records.encode(FEATURES, VALUES)


def write(path: pathlib.Path, written: list[bytes]) -> str:
    with records.RecordWriter([str(path)]) as writer:
        for record in written:
            writer.write(record)
    return str(path)


def test_good_files_pass(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a", [RECORD] * 3)
    record_checks.check_files([path], FEATURES, 13)
    assert record_checks.find_damage([path], FEATURES, 13) is None


def changed(**changes: Sequence[float]) -> bytes:
    values: dict[str, Sequence[float]] = {**VALUES, **changes}
    features = [
        record_features.Feature(f.name, len(values[f.name]), f.dtype)
        for f in FEATURES
        if values[f.name]
    ]
    return records.encode(features, values)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            changed(input_ids=[2] * 11),
            "input_ids holds 11 numbers of type int64, not 7; "
            "pass --max_seq_length=11",
        ),
        (
            changed(masked_lm_weights=[1.0] * 5),
            "masked_lm_weights holds 5 numbers of type float32, not 3; "
            "pass --max_predictions_per_seq=5",
        ),
        (
            changed(masked_lm_ids=[]),
            "it has no masked_lm_ids (only input_ids, ",
        ),
        (
            changed(input_ids=[2, 13, 0, 0, 0, 0, 0]),
            "input_ids holds 13, outside vocab_size of --bert_config_file (13)",
        ),
        (
            changed(masked_lm_ids=[2, 90, 0]),
            "masked_lm_ids holds 90, outside vocab_size",
        ),
        (changed(masked_lm_positions=[7, 0, 0]), "holds 7, too large (7)"),
        (changed(segment_ids=[-1] * 7), "segment_ids holds -1, a negative"),
        (changed(next_sentence_labels=[2]), "labels holds 2, too large (2)"),
        (b"\xff\xff", "this is no tf.train.Example"),
        (tf.train.Example().SerializeToString(), "(only nothing)"),
    ],
)
def test_disagreeing_records(
    tmp_path: pathlib.Path, record: bytes, message: str
) -> None:
    path = write(tmp_path / "a", [record])
    with pytest.raises(InputError) as caught:
        record_checks.check_files([path], FEATURES, 13)
    assert f"{path}, record 1: " in str(caught.value)
    assert message in str(caught.value)
    good = write(tmp_path / "b", [RECORD])
    late = write(tmp_path / "c.gz", [RECORD, RECORD, record, RECORD])
    record_checks.check_files([good, late], FEATURES, 13)
    damage = record_checks.find_damage([good, late], FEATURES, 13)
    assert damage is not None
    assert damage.startswith(f"{late}, record 3: ")
    assert message in damage


def test_packed_records_are_told_by_the_first(tmp_path: pathlib.Path) -> None:
    packed = record_features.packed_features(7, 3, 2, 2)
    values = {feature.name: [1] * feature.length for feature in packed}
    path = write(tmp_path / "packed", [records.encode(packed, values)])
    assert record_checks.find_pretraining_features(path, 7, 3, 2) == packed
    record_checks.check_files([path], packed, 13)
    others = record_features.pretraining_features(7, 3, 2)
    for record in (RECORD, b"no example"):
        path = write(tmp_path / "other", [record])
        assert record_checks.find_pretraining_features(path, 7, 3, 2) == others


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("segment_ids", 2),
        ("position_ids", 7),
        ("sequence_numbers", 3),
        ("next_sentence_positions", 7),
        ("next_sentence_labels", 2),
    ],
)
def test_limits_of_packed_records(
    tmp_path: pathlib.Path, name: str, limit: int
) -> None:
    packed = record_features.packed_features(7, 3, 2, 2)
    values = {f.name: [0] * f.length for f in packed}
    values[name][-1] = limit
    path = write(tmp_path / "packed", [records.encode(packed, values)])
    with pytest.raises(InputError, match=f"{name} holds {limit}, too large"):
        record_checks.check_files([path], packed, 13)
