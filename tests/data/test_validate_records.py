"""Tests of data/validate_records.py: what fits the table; what is damaged."""

import pathlib
from collections.abc import Sequence

import pytest
import tensorflow as tf

from bert_keras.data import record_schema, tfrecords, validate_records
from bert_keras.errors import InputError
from tests.data.test_tfrecords import FEATURES, RECORD, VALUES, write


def test_good_files_pass(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a", [RECORD] * 3)
    validate_records.check_files([path], FEATURES, 13)
    assert validate_records.find_damage([path], FEATURES, 13) is None


def changed(**changes: Sequence[float]) -> bytes:
    values: dict[str, Sequence[float]] = {**VALUES, **changes}
    features = [
        record_schema.Feature(f.name, len(values[f.name]), f.dtype)
        for f in FEATURES
        if values[f.name]
    ]
    return tfrecords.encode(features, values)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            changed(input_ids=[2] * 11),
            "input_ids holds 11 numbers of type int64, not 7; "
            "pass `max_seq_length=11`",
        ),
        (
            changed(masked_lm_weights=[1.0] * 5),
            "masked_lm_weights holds 5 numbers of type float32, not 3; "
            "pass `max_predictions_per_seq=5`",
        ),
        (
            changed(masked_lm_ids=[]),
            "it has no masked_lm_ids (only input_ids, ",
        ),
        (
            changed(input_ids=[2, 13, 0, 0, 0, 0, 0]),
            "input_ids holds 13, outside vocab_size of `bert_config_file` (13)",
        ),
        (
            changed(masked_lm_ids=[2, 90, 0]),
            "masked_lm_ids holds 90, outside vocab_size",
        ),
        (changed(masked_lm_positions=[7, 0, 0]), "holds 7, too large (7)"),
        (changed(segment_ids=[-1] * 7), "segment_ids holds -1, a negative"),
        (changed(next_sentence_labels=[2]), "labels holds 2, too large (2)"),
        (b"\xff\xff", "this is not a tf.train.Example"),
        (tf.train.Example().SerializeToString(), "(only nothing)"),
    ],
)
def test_disagreeing_records(
    tmp_path: pathlib.Path, record: bytes, message: str
) -> None:
    path = write(tmp_path / "a", [record])
    with pytest.raises(InputError) as caught:
        validate_records.check_files([path], FEATURES, 13)
    assert f"{path}, record 1: " in str(caught.value)
    assert message in str(caught.value)
    good = write(tmp_path / "b", [RECORD])
    late = write(tmp_path / "c.gz", [RECORD, RECORD, record, RECORD])
    validate_records.check_files([good, late], FEATURES, 13)
    damage = validate_records.find_damage([good, late], FEATURES, 13)
    assert damage is not None
    assert damage.startswith(f"{late}, record 3: ")
    assert message in damage


PACKED = record_schema.packed_features(7, 3, 2, 2)
UNMASKED = record_schema.unmasked_features(7)
NO_PAIRS, NO_PAIRS_PACKED = (
    record_schema.without_next_sentence(features)
    for features in (record_schema.pretraining_features(7, 3, 2), PACKED)
)


def of_ones(features: tuple[record_schema.Feature, ...]) -> bytes:
    values = {feature.name: [1] * feature.length for feature in features}
    return tfrecords.encode(features, values)


def test_tables_are_told_by_the_first(tmp_path: pathlib.Path) -> None:
    foreign = tf.train.Example().SerializeToString()
    for record, expected in [
        (of_ones(PACKED), PACKED),
        (of_ones(UNMASKED), UNMASKED),
        (RECORD, record_schema.pretraining_features(7, 3, 2)),
        (of_ones(NO_PAIRS), NO_PAIRS),
        (of_ones(NO_PAIRS_PACKED), NO_PAIRS_PACKED),
        (foreign, record_schema.pretraining_features(7, 3, 2)),
    ]:
        path = write(tmp_path / "x", [record, RECORD])
        first = validate_records.read_first(path)
        assert validate_records.table_of(first, 7, 3, 2) == expected
        if record != foreign:
            validate_records.check_files([path], expected, 13)


def test_masks_are_missed_where_they_are_all(tmp_path: pathlib.Path) -> None:
    none = tfrecords.encode(
        FEATURES, {**VALUES, "masked_lm_weights": [0.0] * 3}
    )
    path = write(tmp_path / "none", [none, none])
    validate_records.check_masks([path], FEATURES)  # there is the other loss
    validate_records.check_masks([path], UNMASKED)
    alone = record_schema.without_next_sentence(FEATURES)
    with pytest.raises(InputError, match="nothing is masked in the first"):
        validate_records.check_masks([path], alone)
    one = write(tmp_path / "one", [none, RECORD])
    validate_records.check_masks([one], alone)


def test_files_of_different_kinds_are_named(tmp_path: pathlib.Path) -> None:
    a, b = (write(tmp_path / name, [RECORD]) for name in "ab")
    c, d = (write(tmp_path / name, [of_ones(PACKED)]) for name in "cd")
    e = write(tmp_path / "e", [of_ones(UNMASKED)])
    g = write(tmp_path / "g", [of_ones(NO_PAIRS)])
    f = write(tmp_path / "f", [tf.train.Example().SerializeToString()])
    cases = [
        ([a, b, c, d], FEATURES, [f"{a} holds records with masks", c]),
        ([d, b, c], PACKED, [f"{d} holds packed rows", b]),
        ([b, e, d], FEATURES, [f"{b} holds records with masks", e, d]),
        ([e, a], UNMASKED, [f"{e} holds records without masks", a]),
        ([a, g], FEATURES, [f"{a} holds records with masks", g]),
    ]
    for paths, features, named in cases:
        with pytest.raises(InputError) as caught:
            validate_records.check_files(paths, features, 13)
        sentence = str(caught.value)
        assert sentence.startswith(named[0])
        assert sentence.count(" holds ") == len(named)
        assert all(f" and {path} holds " in sentence for path in named[1:])
        assert sentence.endswith(": all files must be of one kind")
    with pytest.raises(InputError, match="f, record 1: it has no input_ids"):
        validate_records.check_files([a, f], FEATURES, 13)


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
    values = {f.name: [0] * f.length for f in PACKED}
    values[name][-1] = limit
    path = write(tmp_path / "packed", [tfrecords.encode(PACKED, values)])
    with pytest.raises(InputError, match=f"{name} holds {limit}, too large"):
        validate_records.check_files([path], PACKED, 13)
