"""Tests of data/drop_corrupt_records.py."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.drop_corrupt_records import CleanRecords, first_known
from bert_keras.data.record_schema import pretraining_features
from bert_keras.data.tfrecord_codec import HEAD_BYTES, TAIL_BYTES, frame
from bert_keras.data.tfrecords import RecordWriter, encode, read_records
from bert_keras.errors import InputError
from tests.conftest import NUM_PREDICTIONS, SEQ_LENGTH, TINY, tiny_record

FEATURES = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
RNG = np.random.default_rng(3)
RECORDS = [encode(FEATURES, tiny_record(RNG)) for _ in range(7)]


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def test_damaged_records_are_left_out_once_for_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flipped = bytearray(frame(RECORDS))
    third = sum(HEAD_BYTES + len(r) + TAIL_BYTES for r in RECORDS[:2])
    flipped[third + HEAD_BYTES + 20] ^= 1
    strange = encode(
        FEATURES,
        {
            **tiny_record(RNG),
            "input_ids": [TINY.vocab_size] + [2] * (SEQ_LENGTH - 1),
        },
    )
    with RecordWriter([str(tmp_path / "zipped.gz")]) as writer:
        for record in RECORDS:
            writer.write(record)
    zipped = (tmp_path / "zipped.gz").read_bytes()
    paths = [
        write(tmp_path / "whole", frame(RECORDS)),
        write(tmp_path / "flipped", bytes(flipped)),
        write(tmp_path / "cut", frame(RECORDS)[:-3]),
        write(tmp_path / "strange", frame([RECORDS[0], strange, b"\xff"])),
        write(tmp_path / "zipped.gz", zipped[: len(zipped) // 2]),
        write(tmp_path / "foreign", b"no records at all"),
    ]
    folder = str(tmp_path / "out")
    known = CleanRecords(FEATURES, TINY.vocab_size, folder)
    known.make(paths)
    named = capsys.readouterr().err
    for part in (
        "flipped, record 3 is damaged",
        "cut: record 7 and what follows cannot be read",
        "strange, record 2: input_ids holds 101, outside vocab_size",
        "strange, record 3: this is not a tf.train.Example",
        "foreign: record 1 and what follows cannot be read",
    ):
        assert f"left out: {tmp_path}/{part}" in named
    sound = known.files(paths)
    assert sound[0] == paths[0]
    assert "6 records in 5 files" in capsys.readouterr().out
    assert len(sound) in (4, 5)  # whether half a .gz has a whole record
    contents = [list(read_records(path)) for path in sound[:4]]
    assert contents[0] == RECORDS
    assert contents[1] == RECORDS[:2] + RECORDS[3:]
    assert contents[2] == RECORDS[:6]
    assert contents[3] == RECORDS[:1]

    # what is known is not read again
    left_out = (tmp_path / "out" / "left_out.json").stat().st_mtime_ns
    os.utime(paths[0])
    known.make(paths)
    assert known.files(paths) == sound
    assert (tmp_path / "out" / "left_out.json").stat().st_mtime_ns == left_out
    report = json.loads((tmp_path / "out" / "left_out.json").read_text())
    assert [report[path]["count"] for path in paths] == [0, 1, 1, 2, 1, 1]
    name = report[paths[1]]["copy"]
    assert name.endswith("-flipped")
    # nor is another vocabulary's, or a copy that is gone
    assert known.are_made(paths)
    assert not CleanRecords(FEATURES, 500, folder).are_made(paths)
    (tmp_path / "out" / name).rename(tmp_path / "moved")
    assert not known.are_made(paths)
    known.make(paths)
    assert (tmp_path / "out" / name).exists()
    # of the same size, and something else
    Path(paths[0]).write_bytes(bytes(len(frame(RECORDS))))
    known.make(paths)
    assert paths[0] not in known.files(paths)
    Path(paths[1]).write_bytes(frame(RECORDS) * 2)  # another one by now
    assert not known.are_made(paths)
    known.make(paths)
    assert known.files(paths[1:2]) == paths[1:2]
    (tmp_path / "out" / "left_out.json").write_text("{")
    with pytest.raises(InputError, match="left_out.json, .* damaged itself"):
        known.files(paths)


def test_where_nothing_can_be_used(tmp_path: Path) -> None:
    foreign = write(tmp_path / "foreign", b"no records at all")
    late = write(tmp_path / "late", frame([b"\xff", RECORDS[0]]))
    assert "masked_lm_ids" in first_known([foreign, late])
    with pytest.raises(InputError, match="no record of pre-training"):
        first_known([foreign])
    sound = CleanRecords(FEATURES, TINY.vocab_size, str(tmp_path / "out"))
    sound.make([foreign])
    with pytest.raises(InputError, match="no record in them can be used"):
        sound.files([foreign])
