"""Records in NumPy against protocol buffers' own library."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data import tfrecord_codec
from bert_keras.data.record_schema import Feature
from bert_keras.data.tfrecords import encode, parse_batch

FEATURES = (
    Feature("input_ids", 7),
    Feature("flags", 3, limit=2),
    Feature("weights", 5, "float32"),
    Feature("a_name_that_is_longer", 61),
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
    records = tfrecord_codec.encode_batch(FEATURES, values)
    for row, record in enumerate(records):
        numbers = {name: own[row].tolist() for name, own in values.items()}
        expected = tf.train.Example.FromString(encode(FEATURES, numbers))
        found = tf.train.Example.FromString(record)
        assert found == expected
        assert len(record) == found.ByteSize()
    assert len(records) == 13


def test_zeros_at_the_end_are_left_out() -> None:
    feature = Feature("x", 4, is_trimmed=True)
    values = {"x": np.array([[1, 0, 0, 0], [5, 0, 300, 0], [0, 0, 0, 7]])}
    for row, record in enumerate(
        tfrecord_codec.encode_batch([feature], values)
    ):
        numbers = {"x": values["x"][row].tolist()}
        assert tf.train.Example.FromString(
            record
        ) == tf.train.Example.FromString(encode([feature], numbers))
        parsed = parse_batch([feature], tf.constant([record]))
        assert parsed["x"].numpy().tolist() == [numbers["x"]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="x <= y"):
        parse_batch([Feature("x", 2, is_trimmed=True)], tf.constant([record]))


def test_a_varint_by_hand() -> None:
    feature = (Feature("x", 2),)
    (record,) = tfrecord_codec.encode_batch(
        feature, {"x": np.array([[300, 1]])}
    )
    numbers = bytes([0b10101100, 0b00000010, 0b00000001])
    assert record.endswith(b"\n\x03" + numbers)


def test_no_rows() -> None:
    assert tfrecord_codec.encode_batch(FEATURES, draw(0)) == []


def test_frames_are_those_of_tensorflow(tmp_path: Path) -> None:
    path = str(tmp_path / "records")
    records = [b"", b"a", b"b" * 300, bytes(range(256))]
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    assert tfrecord_codec.frame(records) == Path(path).read_bytes()
    assert tfrecord_codec.frame([]) == b""
