"""Tests of data/validate_records.py: what fits the table, what is damaged, and
what is left out then."""

import json
import pathlib
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data import record_schema, tfrecords, validate_records
from bert_keras.errors import InputError
from tests.conftest import NUM_PREDICTIONS, SEQ_LENGTH, TINY, tiny_record
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
            "input_ids holds 13, outside vocab_size of the model (13)",
        ),
        (
            changed(masked_lm_ids=[2, 90, 0]),
            "masked_lm_ids holds 90, outside vocab_size",
        ),
        (changed(masked_lm_positions=[7, 0, 0]), "holds 7, too large (7)"),
        (changed(segment_ids=[-1] * 7), "segment_ids holds -1, a negative"),
        (changed(next_sentence_labels=[2]), "labels holds 2, too large (2)"),
        (
            changed(masked_lm_weights=[-0.5, 0.0, 0.0]),
            "masked_lm_weights holds -0.5, expected a weight from 0 to 1",
        ),
        (changed(masked_lm_weights=[1.5, 0.0, 0.0]), "weights holds 1.5, exp"),
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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("input_ids", -1, "input_ids holds -1, a negative number"),
        ("input_mask", 2, "input_mask holds 2, too large (2)"),
        ("input_mask", 0, "input_mask begins with 0: the row is empty"),
        ("segment_ids", -1, "segment_ids holds -1, a negative number"),
        ("masked_lm_positions", 7, "positions holds 7, too large (7)"),
        ("masked_lm_ids", -1, "masked_lm_ids holds -1, a negative number"),
        ("masked_lm_weights", float("nan"), "weights holds nan"),
        ("masked_lm_weights", -1.0, "holds -1.0, expected a weight"),
        ("masked_lm_weights", 1e30, "expected a weight from 0 to 1"),
        ("next_sentence_labels", -1, "labels holds -1, a negative number"),
    ],
)
def test_numbers_of_many_records_are_checked(
    tmp_path: pathlib.Path, name: str, value: float, message: str
) -> None:
    strange = changed(**{name: [value, *VALUES[name][1:]]})
    path = write(tmp_path / "a", [RECORD, strange, RECORD])
    good = validate_records.parse_records(FEATURES, [RECORD], [path])
    validate_records.check_numbers(FEATURES, good, [path])
    all_of_it = validate_records.parse_records(
        FEATURES, [RECORD, strange, RECORD], [path]
    )
    with pytest.raises(InputError) as caught:
        validate_records.check_numbers(FEATURES, all_of_it, [path])
    assert f"{path}, record 2: " in str(caught.value)
    assert message in str(caught.value)


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


LONG = record_schema.pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
RNG = np.random.default_rng(3)
SOUND = [tfrecords.encode(LONG, tiny_record(RNG)) for _ in range(7)]


def write_bytes(path: pathlib.Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def test_damaged_records_are_left_out_once_for_all(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flipped = bytearray(tfrecords.frame(SOUND))
    third = sum(
        tfrecords.HEAD_BYTES + len(r) + tfrecords.TAIL_BYTES for r in SOUND[:2]
    )
    flipped[third + tfrecords.HEAD_BYTES + 20] ^= 1
    strange = tfrecords.encode(
        LONG,
        {
            **tiny_record(RNG),
            "input_ids": [TINY.vocab_size] + [2] * (SEQ_LENGTH - 1),
        },
    )
    with tfrecords.RecordWriter([str(tmp_path / "zipped.gz")]) as writer:
        for record in SOUND:
            writer.write(record)
    zipped = (tmp_path / "zipped.gz").read_bytes()
    paths = [
        write_bytes(tmp_path / "whole", tfrecords.frame(SOUND)),
        write_bytes(tmp_path / "flipped", bytes(flipped)),
        write_bytes(tmp_path / "cut", tfrecords.frame(SOUND)[:-3]),
        write_bytes(
            tmp_path / "strange", tfrecords.frame([SOUND[0], strange, b"\xff"])
        ),
        write_bytes(tmp_path / "zipped.gz", zipped[: len(zipped) // 2]),
        write_bytes(tmp_path / "foreign", b"no records at all"),
    ]
    folder = str(tmp_path / "out")
    known = validate_records.CleanRecords(LONG, TINY.vocab_size, folder)
    known.make(paths)
    named = capsys.readouterr().err
    for part in (
        "flipped, record 3 cannot be read: it is damaged",
        "cut, record 7 cannot be read, nor what follows",
        "strange, record 2: input_ids holds 101, outside vocab_size",
        "strange, record 3: this is not a tf.train.Example",
        "foreign, record 1 cannot be read, nor what follows",
    ):
        assert f"left out: {tmp_path}/{part}" in named
    sound = known.files(paths)
    assert sound[0] == paths[0]
    assert "6 records in 5 files" in capsys.readouterr().out
    assert len(sound) in (4, 5)  # whether half a .gz has a whole record
    contents = [list(tfrecords.read_records(path)) for path in sound[:4]]
    assert contents[0] == SOUND
    assert contents[1] == SOUND[:2] + SOUND[3:]
    assert contents[2] == SOUND[:6]
    assert contents[3] == SOUND[:1]

    # what is known is not read again
    left_out = (tmp_path / "out" / "left_out.json").stat().st_mtime_ns
    known.make(paths)
    assert known.files(paths) == sound
    assert (tmp_path / "out" / "left_out.json").stat().st_mtime_ns == left_out
    report = json.loads((tmp_path / "out" / "left_out.json").read_text())
    assert [report[path]["count"] for path in paths] == [0, 1, 1, 2, 1, 1]
    name = report[paths[1]]["copy"]
    assert name.endswith("-flipped")
    # nor is another vocabulary's, or a copy that is gone
    assert known.are_made(paths)
    assert not validate_records.CleanRecords(LONG, 500, folder).are_made(paths)
    (tmp_path / "out" / name).rename(tmp_path / "moved")
    assert not known.are_made(paths)
    known.make(paths)
    assert (tmp_path / "out" / name).exists()
    # of the same size, and something else
    pathlib.Path(paths[0]).write_bytes(bytes(len(tfrecords.frame(SOUND))))
    known.make(paths)
    assert paths[0] not in known.files(paths)
    pathlib.Path(paths[1]).write_bytes(
        tfrecords.frame(SOUND) * 2
    )  # another one by now
    assert not known.are_made(paths)
    known.make(paths)
    assert known.files(paths[1:2]) == paths[1:2]
    (tmp_path / "out" / "left_out.json").write_text("{")
    with pytest.raises(
        InputError, match="left_out.json is not .* is made anew"
    ):
        known.files(paths)


def test_where_nothing_can_be_used(tmp_path: pathlib.Path) -> None:
    foreign = write_bytes(tmp_path / "foreign", b"no records at all")
    late = write_bytes(tmp_path / "late", tfrecords.frame([b"\xff", SOUND[0]]))
    assert "masked_lm_ids" in validate_records.read_first_known([foreign, late])
    with pytest.raises(InputError, match="no record of pre-training"):
        validate_records.read_first_known([foreign])
    sound = validate_records.CleanRecords(
        LONG, TINY.vocab_size, str(tmp_path / "out")
    )
    sound.make([foreign])
    with pytest.raises(InputError, match="no record in them can be used"):
        sound.files([foreign])
