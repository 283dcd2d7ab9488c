"""Tests of data/resumable_shuffle.py."""

import collections
import itertools
import os
from pathlib import Path

import pytest

from bert_keras.data.resumable_shuffle import (
    BLOCK_RECORDS,
    ReaderPosition,
    ShuffledRecords,
)
from bert_keras.data.tfrecords import RecordWriter
from bert_keras.errors import InputError

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
    assert first != second
    in_order = sorted(first)
    assert first != in_order
    assert [r for r in first if r == b"1-0"] == [b"1-0"] * counts[b"1-0"]


def test_seeds_give_other_orders(paths: list[str]) -> None:
    first = ShuffledRecords(paths, 7).take(40)
    assert ShuffledRecords(paths, 7).take(40) == first
    assert ShuffledRecords(paths, 8).take(40) != first


def test_a_cut_file_is_named_with_its_record(paths: list[str]) -> None:
    """Also when it was gone on with in the middle."""
    path = paths[2]
    walk = ShuffledRecords([path], 7)
    os.truncate(path, os.path.getsize(path) - 9)
    with pytest.raises(InputError, match=f"{path}, record 2[0-9]* cannot be"):
        walk.take(1)
