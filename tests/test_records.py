"""The record table: written, parsed, checked, and found damaged."""

import gzip
import os
import pathlib
import re
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf

from data import records
from input_error import InputError

FEATURES = records.pretraining_features(7, 3)
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


def test_table_is_googles() -> None:
    table = [(f.name, f.length, f.dtype) for f in FEATURES]
    assert table == [
        ("input_ids", 7, "int64"),
        ("input_mask", 7, "int64"),
        ("segment_ids", 7, "int64"),
        ("masked_lm_positions", 3, "int64"),
        ("masked_lm_ids", 3, "int64"),
        ("masked_lm_weights", 3, "float32"),
        ("next_sentence_labels", 1, "int64"),
    ]
    example = tf.train.Example.FromString(RECORD).features.feature
    assert set(example) == set(VALUES)
    assert example["input_ids"].int64_list.value == VALUES["input_ids"]
    assert example["masked_lm_weights"].float_list.value == [1, 0, 0]


def check_batch(batch: dict[str, tf.Tensor], size: int) -> None:
    for feature in FEATURES:
        values = batch[feature.name]
        assert values.shape == (size, feature.length)
        expected = "int32" if feature.dtype == "int64" else "float32"
        assert values.dtype == expected
        np.testing.assert_array_equal(values, [VALUES[feature.name]] * size)


def test_parse_eagerly() -> None:
    check_batch(records.parse_batch(FEATURES, tf.constant([RECORD] * 5)), 5)


def test_parse_in_a_dataset() -> None:
    dataset = (
        tf.data.Dataset.from_tensors(RECORD)
        .repeat(5)
        .batch(5)
        .map(lambda batch: records.parse_batch(FEATURES, batch))
    )
    check_batch(next(iter(dataset)), 5)


def test_round_robin_and_gzip(tmp_path: pathlib.Path) -> None:
    paths = [str(tmp_path / "new" / name) for name in ("a", "b.gz", "c")]
    with records.RecordWriter(paths) as writer:
        for i in range(7):
            writer.write(b"record %d" % i)
    assert [list(records.read_records(path)) for path in paths] == [
        [b"record 0", b"record 3", b"record 6"],
        [b"record 1", b"record 4"],
        [b"record 2", b"record 5"],
    ]
    assert pathlib.Path(paths[1]).read_bytes().startswith(b"\x1f\x8b")
    assert sorted(os.listdir(tmp_path / "new")) == ["a", "b.gz", "c"]


def test_failure_destroys_nothing(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a"
    write(path, [b"old"])
    with (
        pytest.raises(ZeroDivisionError),
        records.RecordWriter([str(path)]) as writer,
    ):
        writer.write(b"new")
        raise ZeroDivisionError
    assert list(records.read_records(str(path))) == [b"old"]
    assert os.listdir(tmp_path) == ["a"]


def test_nothing_appears_before_the_end(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a"
    with records.RecordWriter([str(path)]) as writer:
        writer.write(b"new")
        assert not path.exists()
        with pytest.raises(InputError):
            records.expand_patterns(str(tmp_path / "*"))
    assert path.exists()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", ""], "not '' among them"),
        (["a", "a"], "a' twice"),
        (["a", "folder"], "folder: it is a folder"),
        (["a", "file/b"], "cannot write --output_file=.*file/b"),
    ],
)
def test_writer_refuses(
    tmp_path: pathlib.Path, names: list[str], message: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    paths = [str(tmp_path / name) if name else "" for name in names]
    with (
        pytest.raises(InputError, match=message),
        records.RecordWriter(paths),
    ):
        pass
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_expand_patterns(tmp_path: pathlib.Path) -> None:
    for name in ("b2", "b1", "b3", "a", "c"):
        (tmp_path / name).touch()
    found = records.expand_patterns(f"{tmp_path}/c,{tmp_path}/b*,{tmp_path}/a")
    assert found == [
        f"{tmp_path}/{name}" for name in ("c", "b1", "b2", "b3", "a")
    ]
    with pytest.raises(InputError, match="no file matches --eval_file=.*/d"):
        records.expand_patterns(f"{tmp_path}/a,{tmp_path}/d*", "--eval_file")


def test_read_lines(tmp_path: pathlib.Path) -> None:
    text = "a\rb\r\n\u2028é\n\nend"
    lines = ["ab\n", "\u2028é\n", "\n", "end"]  # as GFile.readline has it
    (tmp_path / "a").write_bytes(text.encode())
    (tmp_path / "a.gz").write_bytes(gzip.compress(text.encode()))
    sizes: list[int] = []
    assert list(records.read_lines(f"{tmp_path}/a", sizes.append)) == lines
    assert sizes == [3, 6, 1, 3]
    assert list(records.read_lines(f"{tmp_path}/a.gz")) == lines


def test_read_lines_names_what_is_wrong(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes("é\nb".encode() + b"\xe9\n")
    with pytest.raises(InputError, match="a, line 2 is not UTF-8.*0xe9.* 2$"):
        list(records.read_lines(f"{tmp_path}/a"))
    packed = gzip.compress(os.urandom(9000))
    (tmp_path / "b.gz").write_bytes(packed[:5000])
    with pytest.raises(InputError, match=r"b\.gz"):
        list(records.read_lines(f"{tmp_path}/b.gz"))
    (tmp_path / "c.gz").write_bytes(b"plain\n")
    with pytest.raises(InputError, match=r"cannot read .*c\.gz"):
        list(records.read_lines(f"{tmp_path}/c.gz"))
    with pytest.raises(InputError, match="cannot read .*nothing"):
        list(records.read_lines(f"{tmp_path}/nothing"))


def damaged(tmp_path: pathlib.Path, kind: str) -> str:
    """A file of five records whose third cannot be read, or a foreign one."""
    path = tmp_path / f"{kind}.tfrecord"
    write(path, [RECORD] * 5)
    content = bytearray(path.read_bytes())
    size = len(content) // 5
    if kind == "truncated":
        content = content[: 2 * size + 40]
    elif kind == "flipped":
        content[2 * size + 40] ^= 1
    elif kind == "foreign":
        content = bytearray(b"This is text, and no record at all.\n" * 9)
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("kind", "number"), [("truncated", 3), ("flipped", 3), ("foreign", 1)]
)
def test_damaged_file(tmp_path: pathlib.Path, kind: str, number: int) -> None:
    path = damaged(tmp_path, kind)
    message = re.escape(f"{path}, record {number} cannot be read")
    read: list[bytes] = []
    with pytest.raises(InputError, match=message):
        read.extend(records.read_records(path))
    assert read == [RECORD] * (number - 1)
    assert records.find_damage([path], FEATURES, 13) is not None
    if kind == "foreign":
        with pytest.raises(InputError, match=message):
            records.check_files([path], FEATURES, 13)


def test_truncated_gzip(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.gz"
    write(path, [os.urandom(3000) for _ in range(5)])
    path.write_bytes(path.read_bytes()[:8000])
    with pytest.raises(InputError, match=r"a\.gz, record 3 cannot be read"):
        list(records.read_records(str(path)))


def test_missing_records(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match="cannot read .*nothing"):
        list(records.read_records(str(tmp_path / "nothing")))
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="empty holds no record"):
        records.check_files([str(tmp_path / "empty")], FEATURES)


def test_good_files_pass(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a", [RECORD] * 3)
    records.check_files([path], FEATURES, 13)
    assert records.find_damage([path], FEATURES, 13) is None


def changed(**changes: Sequence[float]) -> bytes:
    values: dict[str, Sequence[float]] = {**VALUES, **changes}
    features = [
        records.Feature(f.name, len(values[f.name]), f.dtype)
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
        records.check_files([path], FEATURES, 13)
    assert f"{path}, record 1: " in str(caught.value)
    assert message in str(caught.value)
    good = write(tmp_path / "b", [RECORD])
    late = write(tmp_path / "c.gz", [RECORD, RECORD, record, RECORD])
    records.check_files([good, late], FEATURES, 13)
    damage = records.find_damage([good, late], FEATURES, 13)
    assert damage is not None
    assert damage.startswith(f"{late}, record 3: ")
    assert message in damage


def test_packed_records_are_told_by_the_first(tmp_path: pathlib.Path) -> None:
    packed = records.packed_features(7, 3, 2, 2)
    values = {feature.name: [1] * feature.length for feature in packed}
    path = write(tmp_path / "packed", [records.encode(packed, values)])
    assert records.find_pretraining_features(path, 7, 3, 2) == packed
    records.check_files([path], packed, 13)
    others = records.pretraining_features(7, 3, 2)
    for record in (RECORD, b"no example"):
        path = write(tmp_path / "other", [record])
        assert records.find_pretraining_features(path, 7, 3, 2) == others


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
    packed = records.packed_features(7, 3, 2, 2)
    values = {f.name: [0] * f.length for f in packed}
    values[name][-1] = limit
    path = write(tmp_path / "packed", [records.encode(packed, values)])
    with pytest.raises(InputError, match=f"{name} holds {limit}, too large"):
        records.check_files([path], packed, 13)
