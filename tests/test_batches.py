"""Tests of data/batches.py."""

import numpy as np
import pytest

from data.batches import RowBatches, RowShare
from data.rows import Row

ROWS = [Row([i] * (1 + i % 23), [0] * (1 + i % 23)) for i in range(53)]
LABELS = {"label_ids": np.arange(53, dtype=np.int32)[:, None]}


def batches(**settings: object) -> RowBatches:
    arguments = {"batch_size": 8, "max_seq_length": 29, "seed": 3, **settings}
    return RowBatches(ROWS, LABELS, **arguments)  # type: ignore[arg-type]


def test_each_epoch_takes_every_row_once_in_an_order_of_its_own() -> None:
    source = batches()
    labels = np.concatenate(
        [source.batch(step)["label_ids"][:, 0] for step in range(20)]
    )
    epochs = labels[: 3 * 53].reshape(3, 53)
    for epoch in epochs:
        assert sorted(epoch) == list(range(53))
    assert (epochs[0] != epochs[1]).any()
    assert (batches(seed=4).batch(0)["label_ids"][:, 0] != labels[:8]).any()


def test_a_batch_is_a_function_of_its_step() -> None:
    source = batches()
    later = source.batch(11)
    source.batch(0)
    for name, value in batches().batch(11).items():
        np.testing.assert_array_equal(value, later[name])


def test_labels_stay_with_their_rows() -> None:
    batch = batches().batch(2)
    assert batch["input_ids"].shape == (8, 29)
    for ids, mask, label in zip(
        batch["input_ids"], batch["input_mask"], batch["label_ids"], strict=True
    ):
        assert ids[mask == 1].tolist() == ROWS[label[0]].input_ids


def test_hosts_share_one_batch_and_its_length() -> None:
    whole = batches(fits_length=True).batch(6)
    assert whole["input_ids"].shape == (8, 29)  # 32 would be past the model
    assert batches(max_seq_length=61, fits_length=True).batch(6)[
        "input_ids"
    ].shape == (8, 32)
    for index in (0, 1):
        share = batches(fits_length=True, share=RowShare(index, 2)).batch(6)
        for name, value in share.items():
            np.testing.assert_array_equal(value, whole[name][index::2])


@pytest.mark.parametrize("count", [2, 3])
def test_hosts_together_see_each_row_once_an_epoch(count: int) -> None:
    hosts = [
        batches(batch_size=6, share=RowShare(index, count))
        for index in range(count)
    ]
    seen: list[int] = []
    for step in range(18):  # two epochs of 53 rows, and two rows
        for host in hosts:
            labels = host.batch(step)["label_ids"][:, 0]
            assert len(labels) == 6 // count
            seen += labels.tolist()
    times = np.bincount(seen, minlength=53)
    assert times.sum() == 108
    assert set(times) == {2, 3}
    assert (times == 3).sum() == 2
