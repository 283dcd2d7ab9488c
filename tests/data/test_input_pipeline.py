"""Tests of data/input_pipeline.py."""

import collections
import itertools
import os
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data import input_pipeline
from bert_keras.data.dynamic_masking import BatchMasker
from bert_keras.data.input_pipeline import (
    BLOCK_RECORDS,
    ReaderPosition,
    RecordBatches,
    ShuffledRecords,
    count_records,
    evaluation_batches,
)
from bert_keras.data.masking import MaskConfig, read_masking_vocabulary
from bert_keras.data.record_schema import (
    HostShard,
    pretraining_features,
    unmasked_features,
)
from bert_keras.data.special_tokens import BERT
from bert_keras.data.text_files import expand_patterns
from bert_keras.data.tfrecords import RecordWriter, encode, read_records
from bert_keras.data.validate_records import find_damage
from bert_keras.errors import InputError
from tests.conftest import NUM_PREDICTIONS, SEQ_LENGTH, TINY, tiny_record

FEATURES = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
NUM_RECORDS = 141


def train(pattern: str, share: HostShard = HostShard()) -> RecordBatches:
    paths = expand_patterns(pattern)
    return RecordBatches(paths, FEATURES, 6, 7, TINY.vocab_size, share)


def rows(batches: RecordBatches, count: int) -> list[bytes]:
    """Each row of the first `count` batches, as comparable bytes."""
    return [
        row.tobytes()
        for step in range(count)
        for row in batches.batch(step)["input_ids"].numpy()
    ]


def test_every_record_comes_once_an_epoch(tiny_records: str) -> None:
    on_disk = [
        record
        for path in expand_patterns(tiny_records)
        for record in read_records(path)
    ]
    assert len(on_disk) == NUM_RECORDS
    num_batches = 3 * BLOCK_RECORDS // 6  # 21.3 epochs
    counts = collections.Counter(rows(train(tiny_records), num_batches))
    assert len(counts) == NUM_RECORDS
    assert set(counts.values()) <= {21, 22}


def test_the_order_is_a_function_of_the_seed(tiny_records: str) -> None:
    assert rows(train(tiny_records), 9) == rows(train(tiny_records), 9)
    paths = expand_patterns(tiny_records)
    other = RecordBatches(paths, FEATURES, 6, 8, TINY.vocab_size)
    assert rows(other, 9) != rows(train(tiny_records), 9)


@pytest.mark.parametrize("count", [2, 3])
def test_hosts_share_each_batch_without_overlap(
    tiny_records: str, count: int
) -> None:
    whole = rows(train(tiny_records), 4)
    hosts = [
        rows(train(tiny_records, HostShard(index, count)), 4)
        for index in range(count)
    ]
    for index, host in enumerate(hosts):  # rows index, index + count, ...
        assert host == whole[index::count]


def test_any_host_goes_on_from_what_one_has_saved(
    tiny_records: str, tmp_path: Path
) -> None:
    share = HostShard(1, 3)
    chief = train(tiny_records, HostShard(0, 3))
    other = train(tiny_records, share)
    for step in range(50):  # beyond the first epoch
        chief.batch(step)
        other.batch(step)
    saved = tf.train.Checkpoint(data=chief).write(str(tmp_path / "state"))
    restored = train(tiny_records, share)
    tf.train.Checkpoint(data=restored).read(saved)
    for step in range(50, 100):
        np.testing.assert_array_equal(
            restored.batch(step)["input_ids"], other.batch(step)["input_ids"]
        )


def test_evaluation_reads_each_record_once_and_fills_up(
    tiny_records: str,
) -> None:
    paths = expand_patterns(tiny_records)
    batches = list(evaluation_batches(paths, FEATURES, 20, 99, TINY.vocab_size))
    assert [b["input_mask"].shape[0] for b in batches] == [20] * 8
    seen = [
        row.tobytes()
        for batch in batches
        for row, mask in zip(
            batch["input_ids"].numpy(), batch["input_mask"].numpy(), strict=True
        )
        if mask[0]
    ]
    assert len(seen) == NUM_RECORDS  # the last 19 rows are zeros
    in_training = rows(train(tiny_records), 3 * BLOCK_RECORDS // 6)
    assert set(seen) == set(in_training)
    short = evaluation_batches(paths, FEATURES, 20, 2, TINY.vocab_size)
    assert len(list(short)) == 2


def test_an_id_outside_the_vocabulary_stops_the_data(tiny_records: str) -> None:
    paths = expand_patterns(tiny_records)
    batches = RecordBatches(paths, FEATURES, 6, 7, vocab_size=50)
    with pytest.raises(tf.errors.InvalidArgumentError, match="input_ids"):
        batches.batch(0)


def test_a_number_out_of_its_range_stops_the_data(tmp_path: Path) -> None:
    """The same batches read the file anew after `deserialize`."""
    features = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS, 2)
    good = tiny_record(np.random.default_rng(3))
    path = str(tmp_path / "one.tfrecord")

    def write(record: dict[str, list[float]]) -> None:
        with RecordWriter([path]) as writer:
            writer.write(encode(features, record))

    write(good)
    batches = RecordBatches([path], features, 1, 7, TINY.vocab_size)
    start = batches.serialize()
    batches.batch(0)
    for name, value in (
        ("input_ids", -3),
        ("segment_ids", 2),
        ("masked_lm_positions", SEQ_LENGTH),
        ("masked_lm_ids", TINY.vocab_size),
        ("next_sentence_labels", 2),
        ("masked_lm_weights", float("nan")),
        ("masked_lm_weights", -1.0),
        ("masked_lm_weights", 2.0),
    ):
        write({**good, name: [value, *good[name][1:]]})
        batches.deserialize(start)
        with pytest.raises(tf.errors.InvalidArgumentError, match=name):
            batches.batch(0)
        damage = find_damage([path], features, TINY.vocab_size)
        assert damage is not None
        assert f"record 1: {name} holds {value}" in damage


def test_a_row_without_text_stops_the_data(tmp_path: Path) -> None:
    record = tiny_record(np.random.default_rng(3))
    path = str(tmp_path / "one.tfrecord")
    record["input_mask"] = [0] * SEQ_LENGTH
    with RecordWriter([path]) as writer:
        writer.write(encode(FEATURES, record))
    batches = RecordBatches([path], FEATURES, 1, 7, TINY.vocab_size)
    with pytest.raises(tf.errors.InvalidArgumentError, match="input_mask"):
        batches.batch(0)
    damage = find_damage([path], FEATURES, TINY.vocab_size)
    assert damage is not None
    assert "record 1: input_mask begins with 0: the row is empty" in damage


def test_masks_go_on_with_the_position(tmp_path: Path) -> None:
    """Those of a third epoch are others than the first's, and a restored
    iterator draws the ones that the saved one would have drawn."""
    features = unmasked_features(SEQ_LENGTH)
    rng = np.random.default_rng(3)
    pattern = str(tmp_path / "records")
    with RecordWriter([pattern]) as writer:
        for number in range(12):
            ids = np.zeros(SEQ_LENGTH, int)
            lengths = rng.integers(5, SEQ_LENGTH // 2, 2)
            ids[: lengths.sum()] = rng.integers(
                5, TINY.vocab_size, lengths.sum()
            )
            ids[1] = 5 + number  # tells the records apart
            writer.write(
                encode(
                    features,
                    {
                        "input_ids": ids.tolist(),
                        "segment_lengths": lengths.tolist(),
                        "next_sentence_labels": [number % 2],
                    },
                )
            )
    inner = {f"##{i}": i for i in range(TINY.vocab_size)}
    special_tokens = {mark: i for i, mark in enumerate(BERT.tokens)}
    pieces = read_masking_vocabulary(inner | special_tokens, BERT)
    config = MaskConfig(NUM_PREDICTIONS, 0.3)

    def make() -> RecordBatches:
        masker = BatchMasker(pieces, config, 7)
        return RecordBatches(
            [pattern], features, 6, 7, TINY.vocab_size, masker=masker
        )

    with pytest.raises(InputError, match="share.*count=2.*; expected the same"):
        RecordBatches(
            [pattern], features, 6, 7, TINY.vocab_size,
            masker=BatchMasker(pieces, config, 7, HostShard(1, 2)),
        )  # fmt: skip
    batches = make()
    seen = [batches.batch(step) for step in range(5)]
    expected = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
    assert {n: v.shape.as_list() for n, v in seen[0].items()} == {
        feature.name: [6, feature.length] for feature in expected
    }
    places = {row.tobytes() for b in seen for row in places_of(b)}
    assert len(places) > 20  # of 30 rows; each record has been seen twice
    again = make()
    again.deserialize(batches.serialize())
    for step in range(5, 8):
        restored = again.batch(step)
        for name, values in batches.batch(step).items():
            np.testing.assert_array_equal(values, restored[name])
    held_out = evaluation_batches(
        [pattern], features, 5, 9, TINY.vocab_size,
        masker=BatchMasker(pieces, config, 0),
    )  # fmt: skip
    weights = [b["masked_lm_weights"].numpy() for b in held_out]
    assert [w.shape for w in weights] == [(5, NUM_PREDICTIONS)] * 3
    assert (weights[2].sum(-1) > 0).tolist() == [
        True,
        True,
        False,
        False,
        False,
    ]


def places_of(batch: dict[str, tf.Tensor]) -> np.ndarray:
    return batch["masked_lm_positions"].numpy()


SIZES = 7, 1, 23, 5, 2, 11  # records of each file: more files than are open
TOTAL = sum(SIZES)


@pytest.fixture(params=["", ".gz"])
def paths(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Records are their file's number and their own, b"4-1"."""
    paths = [str(tmp_path / f"{i}{request.param}") for i in range(len(SIZES))]
    for number, (path, size) in enumerate(zip(paths, SIZES, strict=True)):
        with RecordWriter([path]) as writer:
            for i in range(size):
                writer.write(f"{number}-{i}".encode())
    return paths


def test_every_place_can_be_gone_on_from(paths: list[str]) -> None:
    """The records are those of a walk without a stop; each walk begins where
    the one before it, which itself began somewhere, was."""
    stops = [0, 3, 4, 990, 999, 1000, 1001, 1500, 1501, 2000, 2010]
    assert BLOCK_RECORDS in stops
    whole = ShuffledRecords(paths, 7).take(stops[-1])
    walk = ShuffledRecords(paths, 7)
    for begin, end in itertools.pairwise(stops):
        text = walk.place.to_json()
        walk = ShuffledRecords(paths, 7)
        walk.go_to(ReaderPosition.from_json(text))
        assert walk.take(end - begin) == whole[begin:end], begin


def test_blocks_hold_whole_epochs_in_another_order(paths: list[str]) -> None:
    """Up to the files that are open where a block ends, which are as many
    records at most as four files have."""
    walk = ShuffledRecords(paths, 7)
    first, second = walk.take(BLOCK_RECORDS), walk.take(BLOCK_RECORDS)
    counts = collections.Counter(first)
    assert len(counts) == TOTAL
    assert max(counts.values()) - min(counts.values()) <= 5
    own = [
        [place for place, record in enumerate(block) if record == b"1-0"]
        for block in (first, second)
    ]
    assert own[0] != own[1]
    in_file = [int(r[2:]) for r in first if r.startswith(b"2-")][: SIZES[2]]
    assert in_file != sorted(in_file)


def test_seeds_give_other_orders(paths: list[str]) -> None:
    first = ShuffledRecords(paths, 7).take(40)
    assert ShuffledRecords(paths, 7).take(40) == first
    assert ShuffledRecords(paths, 8).take(40) != first


def test_a_cut_file_is_named_with_its_record(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a walk that resumes in the middle."""
    monkeypatch.setattr(input_pipeline, "BLOCK_RECORDS", 6)
    path = paths[2]
    walk = ShuffledRecords([path], 7)
    walk.take(13)
    place = walk.place
    assert place.files[0].num_read == 12
    os.truncate(path, os.path.getsize(path) - 9)
    for start in (None, place):
        walk = ShuffledRecords([path], 7)
        if start is not None:
            walk.go_to(start)
        with pytest.raises(InputError) as refused:
            walk.take(SIZES[2])
        [number] = re.findall(r", record (\d+) cannot be", str(refused.value))
        # of a packed file, the end is missing that follows its last record
        assert int(number) == SIZES[2] + path.endswith(".gz")


def test_records_are_counted_or_estimated_by_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        with RecordWriter([path]) as writer:
            for _ in range(5):
                writer.write(b"a record")
    assert count_records(paths) == (15, True)
    monkeypatch.setattr(input_pipeline, "MAX_COUNTED", 5)
    assert count_records(paths) == (15, False)
    monkeypatch.setattr(input_pipeline, "MAX_COUNTED", 11)
    assert count_records(paths) == (15, True)
