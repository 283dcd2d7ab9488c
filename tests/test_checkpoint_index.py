"""What an index may say of a checkpoint, and what it may not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.tensor_bundle_pb2 import (
    BundleEntryProto,
    BundleHeaderProto,
)

from bert_keras import checkpoint_index
from bert_keras.checkpoint_index import read_index
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import open_weights
from bert_keras.training.checkpoints import TrainingState
from tests.crafted_index import block, checksum, index, table, varint

DATA = ".data-00000-of-00001"
NAME = b"bert/b"
VALUES = {
    "bert/a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "bert/b": np.arange(40, dtype=np.float32),
    "bert/c": np.array(5, np.float16),
    "step": np.array(7),
    "texts": np.array([b"text", b""]),
}
Items = list[tuple[bytes, bytes]]


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    path = str(tmp_path / "x")
    tf.raw_ops.SaveV2(
        prefix=path,
        tensor_names=list(VALUES),
        shape_and_slices=[""] * len(VALUES),
        tensors=[tf.constant(value) for value in VALUES.values()],
    )
    return path


def items_of(prefix: str) -> Items:
    content = Path(f"{prefix}.index").read_bytes()
    return list(checkpoint_index._table(content))


def entry_of(prefix: str, name: bytes = NAME) -> BundleEntryProto:
    return BundleEntryProto.FromString(dict(items_of(prefix))[name])


def write_items(prefix: str, **changed: bytes) -> None:
    items = dict(items_of(prefix))
    items |= {name.encode(): value for name, value in changed.items()}
    Path(f"{prefix}.index").write_bytes(index(sorted(items.items())))


def test_it_says_what_tensorflow_says(prefix: str) -> None:
    reader = tf.train.load_checkpoint(prefix)
    found = read_index(prefix)
    shapes = {name: list(variable.shape) for name, variable in found.items()}
    assert shapes == reader.get_variable_to_shape_map()
    assert {name: x.dtype for name, x in found.items()} == {
        name: dtype.name
        for name, dtype in reader.get_variable_to_dtype_map().items()
    }
    write_items(prefix)  # the writer of the tests is right
    assert read_index(prefix) == found
    np.testing.assert_array_equal(
        open_weights(prefix).read("bert/b"), VALUES["bert/b"]
    )


def test_an_index_of_many_blocks(tmp_path: Path) -> None:
    names = [f"bert/encoder/layer_{i}/{'x' * 200}" for i in range(3000)]
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "x"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.zeros([2])] * len(names),
    )
    assert read_index(str(tmp_path / "x")).keys() == set(names)


def shape_of(entry: BundleEntryProto, *sizes: int) -> None:
    del entry.shape.dim[:]
    for size in sizes:
        entry.shape.dim.add(size=size)


def in_slices(entry: BundleEntryProto) -> None:
    entry.slices.add().extent.add(start=0, length=40)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: shape_of(e, -1), "an impossible shape"),
        (lambda e: shape_of(e, 2**40, 2**40), "an impossible shape"),
        (lambda e: shape_of(e, 2**62, 2**62, 0), "an impossible shape"),
        (lambda e: shape_of(e, *[1] * 300), "an impossible shape"),
        (lambda e: setattr(e.shape, "unknown_rank", True), "impossible shape"),
        (lambda e: shape_of(e, 41), "is 41 numbers of float32 in 160 bytes"),
        (lambda e: setattr(e, "size", 0), "40 numbers of float32 in 0 bytes"),
        (lambda e: setattr(e, "size", -1), "lies outside of"),
        (lambda e: setattr(e, "offset", -1), "lies outside of"),
        (lambda e: setattr(e, "offset", 2**63 - 1), "lies outside of"),
        (lambda e: setattr(e, "offset", 9999), "lies outside of"),
        (
            lambda e: setattr(e, "shard_id", 5),
            "a data file that does not exist",
        ),
        (
            lambda e: setattr(e, "shard_id", -1),
            "a data file that does not exist",
        ),
        (lambda e: setattr(e, "dtype", 0), "of an unknown type, 0"),
        (lambda e: setattr(e, "dtype", 7), "strings of other lengths"),
        (lambda e: setattr(e, "dtype", 20), "of an unknown type, 20"),
        (lambda e: setattr(e, "dtype", 99), "of an unknown type, 99"),
        (lambda e: setattr(e, "dtype", 101), "of an unknown type, 101"),
        (in_slices, "is stored in slices"),
    ],
)
def test_an_entry_that_lies(
    prefix: str, change: Callable[[BundleEntryProto], Any], message: str
) -> None:
    """TensorFlow ends the process at several, and reads memory for others."""
    entry = entry_of(prefix)
    change(entry)
    write_items(prefix, evil=entry.SerializeToString())
    with pytest.raises(InputError, match=message):
        open_weights(prefix)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\xff" * 9, "Error parsing"),
        (BundleHeaderProto(num_shards=0).SerializeToString(), "does not exist"),
        (BundleHeaderProto(num_shards=7).SerializeToString(), "not exist"),
        (
            BundleHeaderProto(num_shards=-1).SerializeToString(),
            "does not exist",
        ),
    ],
)
def test_a_header_that_lies(prefix: str, value: bytes, message: str) -> None:
    write_items(prefix, **{"": value})
    with pytest.raises(InputError, match=message):
        open_weights(prefix)


def test_a_version_to_come_is_an_error(prefix: str) -> None:
    header = BundleHeaderProto(num_shards=1)
    header.version.min_consumer = 10_000
    write_items(prefix, **{"": header.SerializeToString()})
    with pytest.raises(InputError, match="min consumer version 10000"):
        open_weights(prefix)


def _twice(items: Items) -> bytes:
    return index([*items, items[-1]])


def _two_blocks(items: Items, *separators: bytes) -> bytes:
    return table([block(items[:3]), block(items[3:])], separators)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda items: b"", "does not end as an index"),
        (lambda items: index(items)[:-1], "does not end as an index"),
        (lambda items: index(items)[-48:], "lies outside of it"),
        (lambda items: index(items[1:]), "has no header"),
        (lambda items: index(items[::-1]), "has no header"),
        (_twice, "names are not in order"),
        (lambda items: _two_blocks(items, b"bert/a", b"z"), "not in order"),
        (lambda items: _two_blocks(items, b"z", b"z"), "not in order"),
        (lambda items: table([block(items)], [b"z"], 1), "is compressed"),
        (
            lambda items: table([block(items)], [b"z"], 0, (2**62, 2**62)),
            "lies outside of it",
        ),
        (lambda items: table([block(items, [])], [b"z"]), "too short"),
        (lambda items: table([block(items, [0, 5])], [b"z"]), "where it says"),
        (lambda items: table([block(items, [7])], [b"z"]), "where it says"),
        (lambda items: table([varint(2**40) * 9], [b"z"]), "too short"),
        (lambda items: table([b"\0"], [b"z"]), "not enough data"),
        (lambda items: index([*items, (b"z" * 5000, b"")]), "is longer than"),
        (
            lambda items: index(sorted([*items, (b"\0\1a", b"")])),
            "is stored in slices",
        ),
        (lambda items: index([*items, (b"\xff", items[-1][1])]), "utf-8"),
    ],
)
def test_a_table_that_lies(
    prefix: str, content: Callable[[Items], bytes], message: str
) -> None:
    Path(f"{prefix}.index").write_bytes(content(items_of(prefix)))
    with pytest.raises(InputError, match=message):
        read_index(prefix)


def test_good_blocks_are_read(prefix: str) -> None:
    items, found = items_of(prefix), read_index(prefix)
    content = _two_blocks(items, items[2][0], b"z")
    Path(f"{prefix}.index").write_bytes(content)
    assert read_index(prefix) == found


def test_a_string_of_any_length_is_not_believed(prefix: str) -> None:
    """TensorFlow would make room for it."""
    lengths = varint(2**40) + varint(0)
    entry = entry_of(prefix, b"texts")
    data = bytearray(Path(prefix + DATA).read_bytes())
    text = lengths + checksum(lengths).to_bytes(4, "little")
    data[entry.offset : entry.offset + len(text)] = text
    entry.size = len(text)
    Path(prefix + DATA).write_bytes(data)
    write_items(prefix, texts=entry.SerializeToString())
    with pytest.raises(InputError, match="strings of other lengths"):
        open_weights(prefix)


def test_a_state_that_lies_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = TrainingState(str(tmp_path), {"x": tf.Variable(3.0)}, 2, True)
    for step in (1, 2):
        state.save(step)
    prefix = str(tmp_path / "training_state" / "step-2")
    name = next(n for n, _ in items_of(prefix) if n.startswith(b"x/"))
    entry = entry_of(prefix, name)
    entry.shape.dim.add(size=-1)
    write_items(prefix, **{name.decode(): entry.SerializeToString()})
    assert state.restore() == 1
    assert "an impossible shape" in capsys.readouterr().err
