"""Tests of data/record_dataset.py: the batches of our own training, as a
tf.data.Dataset."""

import itertools
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.dynamic_masking import BatchMasker
from bert_keras.data.input_pipeline import RecordBatches
from bert_keras.data.masking import MaskConfig, read_masking_vocabulary
from bert_keras.data.record_dataset import record_dataset
from bert_keras.data.record_schema import (
    Feature,
    pretraining_features,
    unmasked_features,
)
from bert_keras.data.special_tokens import BERT
from bert_keras.data.tfrecords import RecordWriter, encode
from bert_keras.data.tokenization import load_vocab
from bert_keras.errors import InputError
from tests.conftest import GOLDEN, NUM_PREDICTIONS, SEQ_LENGTH, TINY

VOCAB = str(GOLDEN / "tiny_vocab.txt")


def assert_same(one: dict[str, tf.Tensor], other: dict[str, tf.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name])


def test_batches_are_those_of_training(tiny_records: str) -> None:
    features = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
    source = RecordBatches(
        sorted(glob(tiny_records)), features, 6, 7, TINY.vocab_size
    )
    data = record_dataset(tiny_records, 6, seed=7)
    assert data.element_spec["input_ids"].shape == (6, SEQ_LENGTH)
    for step, batch in enumerate(data.take(5)):
        assert_same(batch, source.batch(step))
    again = list(data.take(2))  # from the beginning
    for batch, expected in zip(data.take(2), again, strict=True):
        assert_same(batch, expected)


def test_once_in_order_and_shared_out(tiny_records: str) -> None:
    whole = list(record_dataset(tiny_records, 6, shuffle=False))
    count = sum(1 for _ in tf.data.TFRecordDataset(glob(tiny_records)))
    assert len(whole) == -(-count // 6)
    filled = [int(np.sum(batch["input_mask"][:, 0])) for batch in whole]
    assert sum(filled) == count
    shares = [
        record_dataset(tiny_records, 6, shuffle=False, shard=(index, 2))
        for index in range(2)
    ]
    for batch, one, two in zip(whole, *shares, strict=True):
        assert_same(one, {name: x[::2] for name, x in batch.items()})
        assert_same(two, {name: x[1::2] for name, x in batch.items()})


@pytest.mark.slow
def test_records_without_masks_are_masked(tmp_path: Path) -> None:
    path, features = str(tmp_path / "records"), unmasked_features(16)
    vocab = load_vocab(VOCAB)
    rng = np.random.default_rng(0)
    start, end = vocab["[CLS]"], vocab["[SEP]"]
    with RecordWriter([path]) as writer:
        for length in range(7, 14):
            ids = [start, *rng.integers(5, 90, length - 2).tolist(), end]
            values: dict[str, list[float]] = {
                "input_ids": ids + [0] * (16 - length),
                "segment_lengths": [length, 0],
                "next_sentence_labels": [0],
            }
            writer.write(encode(features, values))
    with pytest.raises(InputError, match="give `max_seq_length`"):
        record_dataset(path, 3, VOCAB)
    with pytest.raises(InputError, match="give `vocab_file`"):
        record_dataset(path, 3, max_seq_length=16)
    masks = MaskConfig(4, 0.3)
    data = record_dataset(path, 3, Path(VOCAB), True, 7, masks, 16)
    pieces = read_masking_vocabulary(vocab, BERT)
    source = RecordBatches(
        *([path], features, 3, 7, len(vocab)),
        masker=BatchMasker(pieces, masks, 7),
    )
    for step, batch in enumerate(data.take(4)):
        assert batch["masked_lm_positions"].shape == (3, 4)
        assert_same(batch, source.batch(step))


def test_records_of_a_task_are_read_as_they_are(tmp_path: Path) -> None:
    path = str(tmp_path / "records")
    features = (Feature("input_ids", 5), Feature("label_ids", 1, "float32"))
    rows: list[dict[str, list[float]]] = [
        {"input_ids": [i] * 5, "label_ids": [i / 2]} for i in range(4)
    ]
    with RecordWriter([path]) as writer:
        for row in rows:
            writer.write(encode(features, row))
    with pytest.raises(InputError, match="`seed` is -1; expected a whole"):
        record_dataset(path, 4, seed=-1)
    (batch,) = record_dataset(path, 4, shuffle=False)
    assert batch["label_ids"].numpy()[:, 0].tolist() == [0.0, 0.5, 1.0, 1.5]
    assert batch["input_ids"].dtype == tf.int32
    shuffled = record_dataset(path, 3, seed=1)
    seen = [b["input_ids"].numpy()[:, 0] for b in itertools.islice(shuffled, 4)]
    assert set(np.concatenate(seen)) == {0, 1, 2, 3}


def test_files_are_names_or_paths(tiny_records: str) -> None:
    expected = next(iter(record_dataset(tiny_records, 2, shuffle=False)))
    paths = [Path(name) for name in sorted(glob(tiny_records))]
    for files in (paths, paths[0], [str(path) for path in paths]):
        (batch,) = record_dataset(files, 2, shuffle=False).take(1)
        assert_same(batch, expected)


@pytest.mark.parametrize("batch_size", [0, -1, "4", None])
def test_a_batch_has_rows(tiny_records: str, batch_size: Any) -> None:
    with pytest.raises(InputError, match="`batch_size` is .* whole number"):
        record_dataset(tiny_records, batch_size)


@pytest.mark.parametrize("shard", [(2, 2), (-1, 2), (0, 0), (0, 7)])
def test_a_host_is_one_of_them(
    tiny_records: str, shard: tuple[int, int]
) -> None:
    with pytest.raises(InputError, match="`shard` is .* number of a host"):
        record_dataset(tiny_records, 6, shard=shard)
