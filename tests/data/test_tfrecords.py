"""Records: encoded, parsed, written to files and read from them."""

import os
import pathlib
import re
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data import (
    record_schema,
    text_files,
    tfrecords,
    validate_records,
)
from bert_keras.errors import InputError

FEATURES = record_schema.pretraining_features(7, 3)
VALUES: dict[str, Sequence[float]] = {
    "input_ids": [2, 4, 3, 11, 3, 0, 0],
    "input_mask": [1, 1, 1, 1, 1, 0, 0],
    "segment_ids": [0, 0, 0, 1, 1, 0, 0],
    "masked_lm_positions": [1, 0, 0],
    "masked_lm_ids": [12, 0, 0],
    "masked_lm_weights": [1.0, 0.0, 0.0],
    "next_sentence_labels": [1],
}
RECORD = tfrecords.encode(FEATURES, VALUES)


def write(path: pathlib.Path, written: list[bytes]) -> str:
    with tfrecords.RecordWriter([str(path)]) as writer:
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
    check_batch(tfrecords.parse_batch(FEATURES, tf.constant([RECORD] * 5)), 5)


def test_parse_in_a_dataset() -> None:
    dataset = (
        tf.data.Dataset.from_tensors(RECORD)
        .repeat(5)
        .batch(5)
        .map(lambda batch: tfrecords.parse_batch(FEATURES, batch))
    )
    check_batch(next(iter(dataset)), 5)


def test_round_robin_and_gzip(tmp_path: pathlib.Path) -> None:
    paths = [str(tmp_path / "new" / name) for name in ("a", "b.gz", "c")]
    with tfrecords.RecordWriter(paths) as writer:
        for i in range(7):
            writer.write(b"record %d" % i)
    assert [list(tfrecords.read_records(path)) for path in paths] == [
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
        tfrecords.RecordWriter([str(path)]) as writer,
    ):
        writer.write(b"new")
        raise ZeroDivisionError
    assert list(tfrecords.read_records(str(path))) == [b"old"]
    assert os.listdir(tmp_path) == ["a"]


def test_nothing_appears_before_the_end(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a"
    with tfrecords.RecordWriter([str(path)]) as writer:
        writer.write(b"new")
        assert not path.exists()
        with pytest.raises(InputError):
            text_files.expand_patterns(str(tmp_path / "*"))
    assert path.exists()


@pytest.mark.parametrize(
    ("argument", "kept"), [("output_dir", [b"old"]), ("output_file", [b"new"])]
)
def test_a_link_in_output_dir_is_replaced(
    tmp_path: pathlib.Path, argument: str, kept: list[bytes]
) -> None:
    write(tmp_path / "mine", [b"old"])
    path = tmp_path / "train.tf_record"
    path.symlink_to(tmp_path / "mine")
    with tfrecords.RecordWriter([str(path)], argument) as writer:
        writer.write(b"new")
    assert list(tfrecords.read_records(str(path))) == [b"new"]
    assert list(tfrecords.read_records(str(tmp_path / "mine"))) == kept


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", ""], "not '' among them"),
        (["a", "a"], "a' twice"),
        (["a", "folder"], "folder`: it is a folder"),
        (["a", "file/b"], "cannot write `output_file=.*file/b"),
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
        tfrecords.RecordWriter(paths),
    ):
        pass
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


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
        read.extend(tfrecords.read_records(path))
    assert read == [RECORD] * (number - 1)
    assert validate_records.find_damage([path], FEATURES, 13) is not None
    if kind == "foreign":
        with pytest.raises(InputError, match=message):
            validate_records.check_files([path], FEATURES, 13)


def test_truncated_gzip(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.gz"
    write(path, [os.urandom(3000) for _ in range(5)])
    path.write_bytes(path.read_bytes()[:8000])
    with pytest.raises(InputError, match=r"a\.gz, record 3 cannot be read"):
        list(tfrecords.read_records(str(path)))


def test_missing_records(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match="cannot read .*nothing"):
        list(tfrecords.read_records(str(tmp_path / "nothing")))
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="empty holds no record"):
        validate_records.check_files([str(tmp_path / "empty")], FEATURES)


# Records in NumPy against protocol buffers' own library.

KINDS = (
    record_schema.Feature("input_ids", 7),
    record_schema.Feature("flags", 3, limit=2),
    record_schema.Feature("weights", 5, "float32"),
    record_schema.Feature("a_name_that_is_longer", 61),
)


def draw(num_rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        # from one byte each to five
        "input_ids": 2 ** rng.integers(0, 31, (num_rows, 7)) - 1,
        "flags": rng.integers(0, 2, (num_rows, 3)),
        "weights": rng.random((num_rows, 5), np.float32),
        # so long that sizes have two bytes, or one
        "a_name_that_is_longer": rng.integers(0, 300, (num_rows, 61)),
    }


def test_records_are_those_of_protocol_buffers() -> None:
    values = draw(13)
    records = tfrecords.encode_batch(KINDS, values)
    for row, record in enumerate(records):
        numbers = {name: own[row].tolist() for name, own in values.items()}
        expected = tf.train.Example.FromString(tfrecords.encode(KINDS, numbers))
        found = tf.train.Example.FromString(record)
        assert found == expected
        assert len(record) == found.ByteSize()
    assert len(records) == 13


def test_zeros_at_the_end_are_left_out() -> None:
    feature = record_schema.Feature("x", 4, is_trimmed=True)
    values = {"x": np.array([[1, 0, 0, 0], [5, 0, 300, 0], [0, 0, 0, 7]])}
    for row, record in enumerate(tfrecords.encode_batch([feature], values)):
        numbers = {"x": values["x"][row].tolist()}
        assert tf.train.Example.FromString(
            record
        ) == tf.train.Example.FromString(tfrecords.encode([feature], numbers))
        parsed = tfrecords.parse_batch([feature], tf.constant([record]))
        assert parsed["x"].numpy().tolist() == [numbers["x"]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="x <= y"):
        tfrecords.parse_batch(
            [record_schema.Feature("x", 2, is_trimmed=True)],
            tf.constant([record]),
        )


def test_a_varint_by_hand() -> None:
    feature = (record_schema.Feature("x", 2),)
    (record,) = tfrecords.encode_batch(feature, {"x": np.array([[300, 1]])})
    numbers = bytes([0b10101100, 0b00000010, 0b00000001])
    assert record.endswith(b"\n\x03" + numbers)


def test_no_rows() -> None:
    assert tfrecords.encode_batch(KINDS, draw(0)) == []


def test_frames_are_those_of_tensorflow(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "records")
    records = [b"", b"a", b"b" * 300, bytes(range(256))]
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    assert tfrecords.frame(records) == pathlib.Path(path).read_bytes()
    assert tfrecords.frame([]) == b""


def test_two_names_of_one_file_are_refused(tmp_path: pathlib.Path) -> None:
    path = f"{tmp_path}/a.tfrecord"
    (tmp_path / "link").symlink_to(path)
    for other in (path, f"{tmp_path}/./a.tfrecord", f"{tmp_path}/link"):
        with pytest.raises(InputError, match="must list different files"):
            tfrecords.check_different(
                [path, f"{tmp_path}/b", other], "output_file"
            )
    tfrecords.check_different([path, f"{tmp_path}/b"], "output_file")
