"""Kinds and lengths found in the records; damage named."""

from pathlib import Path

import numpy as np
import pytest

from bert_keras.data import inspect_records, record_schema, tfrecords
from bert_keras.data.record_schema import Feature
from bert_keras.errors import InputError
from tests.conftest import NUM_PREDICTIONS, SEQ_LENGTH, tiny_record

LABEL = Feature("label_ids", 3, "float32")
KINDS = (
    record_schema.pretraining_features(11, 2),
    record_schema.classifier_features(13, LABEL),
    record_schema.span_features(7, has_answers=True),
    record_schema.span_features(7, has_answers=False),
)


def write(path: Path, *tables: tuple[Feature, ...]) -> str:
    """A record of zeros of each table, no position of which is padding."""
    with tfrecords.RecordWriter([str(path)]) as writer:
        for table in tables:
            values = {
                f.name: [int(f.name == "input_mask")] * f.length for f in table
            }
            writer.write(tfrecords.encode(table, values))
    return str(path)


@pytest.mark.parametrize("kind", KINDS)
def test_finds_kinds_and_lengths(
    kind: tuple[Feature, ...], tmp_path: Path
) -> None:
    path = write(tmp_path / "x", kind, kind)
    table = inspect_records.find_table([path])
    found = [(f.name, f.length, f.dtype) for f in table]
    assert found == [(f.name, f.length, f.dtype) for f in kind]
    [batch] = inspect_records.read_batches([path], table, 5)
    assert (batch.path, batch.first) == (path, 1)
    assert {x: y.shape for x, y in batch.values.items()} == {
        f.name: (2, f.length) for f in kind
    }


def test_counts_records_of_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_records, "BATCH_RECORDS", 2)
    kind = KINDS[2]
    paths = [
        write(tmp_path / "x", kind, kind, kind),
        write(tmp_path / "y", kind, kind),
    ]

    def seen(limit: int | None) -> list[tuple[str, int, int]]:
        return [
            (Path(batch.path).name, batch.first, len(batch.values["input_ids"]))
            for batch in inspect_records.read_batches(paths, kind, 5, limit)
        ]

    assert seen(None) == [("x", 1, 2), ("x", 3, 1), ("y", 1, 2)]
    assert seen(4) == [("x", 1, 2), ("x", 3, 1), ("y", 1, 1)]
    assert seen(2) == [("x", 1, 2)]
    assert seen(0) == []


def refusal(paths: list[str], vocab_size: int = 5) -> str:
    with pytest.raises(InputError) as error:
        table = inspect_records.find_table(paths)
        list(inspect_records.read_batches(paths, table, vocab_size))
    return str(error.value)


def test_files_that_differ(tmp_path: Path) -> None:
    one = write(tmp_path / "x", KINDS[0])
    two = write(tmp_path / "y", record_schema.pretraining_features(11, 3))
    sentence = refusal([one, two])
    assert sentence.startswith(f"{two} has records of input_ids [11], ")
    assert "masked_lm_ids [3]" in sentence
    assert sentence.endswith("inspect them apart")
    packed = write(tmp_path / "z", record_schema.packed_features(11, 2, 3))
    assert refusal([one, packed]) == (
        f"{one} holds records with masks and {packed} holds packed rows: "
        "inspect them apart"
    )


def test_other_kinds(tmp_path: Path) -> None:
    path = write(tmp_path / "x", (Feature("image", 3),))
    assert f"{path}, record 1 is of no kind" in refusal([path])
    path = write(tmp_path / "y", ())
    assert "it holds nothing" in refusal([path])
    with tfrecords.RecordWriter([str(tmp_path / "z")]) as writer:
        writer.write(b"\xff\xff")
    assert "not a tf.train.Example" in refusal([str(tmp_path / "z")])
    with tfrecords.RecordWriter([str(tmp_path / "w")]):
        pass
    assert "holds no record" in refusal([str(tmp_path / "w")])


def test_a_record_unlike_the_first(tmp_path: Path) -> None:
    """No flag is named: the length was found, not passed."""
    path = write(
        tmp_path / "x",
        KINDS[0],
        KINDS[0],
        record_schema.pretraining_features(17, 2),
    )
    assert refusal([path]) == (
        f"{path}, record 3: input_ids holds 17 numbers of type int64, not 11"
    )


def write_values(
    path: Path, table: tuple[Feature, ...], *rows: dict[str, list[int]]
) -> str:
    with tfrecords.RecordWriter([str(path)]) as writer:
        for values in rows:
            writer.write(tfrecords.encode(table, values))
    return str(path)


def test_records_without_masks(tmp_path: Path) -> None:
    features = record_schema.unmasked_features(7)
    values = {
        "input_ids": [2, 4, 3, 4, 3, 0, 0],
        "segment_lengths": [3, 2],
        "next_sentence_labels": [1],
    }
    path = write_values(tmp_path / "x", features, values)
    table = inspect_records.find_table([path], 11)
    [batch] = inspect_records.read_batches([path], table, 5)
    assert batch.sizes is None
    assert {name: x.tolist() for name, x in batch.values.items()} == {
        "input_ids": [[2, 4, 3, 4, 3, 0, 0, 0, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]],
        "segment_lengths": [[3, 2]],
        "next_sentence_labels": [[1]],
    }
    table = inspect_records.find_table([path], 3)
    with pytest.raises(InputError, match="pass `max_seq_length=5` or more$"):
        list(inspect_records.read_batches([path], table, 5))


def test_packed_rows_are_their_sequences(tmp_path: Path) -> None:
    features = record_schema.packed_features(7, 2, 3)
    one = {
        "input_ids": [2, 4, 3, 2, 3, 0, 0],
        "segment_ids": [0, 0, 0, 0, 1, 0, 0],
        "position_ids": [0, 1, 2, 0, 1, 0, 0],
        "sequence_numbers": [1, 1, 1, 2, 2, 0, 0],
        "masked_lm_positions": [1, 4],
        "masked_lm_ids": [1, 2],
        "masked_lm_weights": [1, 1],
        "next_sentence_positions": [0, 3, 0],
        "next_sentence_labels": [1, 0, 0],
        "next_sentence_weights": [1, 1, 0],
    }
    other = {**one, "next_sentence_weights": [1, 0, 0]}
    path = write_values(tmp_path / "x", features, one, other)
    table = inspect_records.find_table([path])
    [batch] = inspect_records.read_batches([path], table, 5)
    assert batch.sizes is not None
    assert batch.sizes.tolist() == [2, 1]
    first = [2, 4, 3, 0, 0, 0, 0]
    assert batch.values["input_ids"].tolist() == [
        first,
        [2, 3, 0, 0, 0, 0, 0],
        first,
    ]
    assert batch.values["masked_lm_ids"].tolist() == [[1, 0], [2, 0], [1, 0]]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("input_ids", -1, "expected 0 to 100, the last of `vocab_file`"),
        ("masked_lm_positions", 29, "expected 0 to 28"),
        ("segment_ids", 2, "expected 0 to 1"),
        ("next_sentence_labels", 2, "expected 0 to 1"),
    ],
)
def test_numbers_out_of_range(
    name: str, value: int, expected: str, tmp_path: Path
) -> None:
    table = record_schema.pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
    rng = np.random.default_rng(2)
    good, bad = tiny_record(rng), tiny_record(rng)
    bad[name][0] = value
    path = str(tmp_path / "x")
    with tfrecords.RecordWriter([path]) as writer:
        for values in (good, bad):
            writer.write(tfrecords.encode(table, values))
    sentence = refusal([path], 101)
    assert sentence == f"{path}, record 2: {name} holds {value}, {expected}"
