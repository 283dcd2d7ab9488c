"""Tests of data/batching.py."""

import numpy as np
import pytest

from bert_keras.data.batching import InMemoryBatches, pack
from bert_keras.data.input_features import InputFeatures
from bert_keras.data.record_schema import HostShard

ROWS = [
    InputFeatures([i] * (1 + i % 23), [0] * (1 + i % 23)) for i in range(53)
]
LABELS = {"label_ids": np.arange(53, dtype=np.int32)[:, None]}


def batches(**settings: object) -> InMemoryBatches:
    arguments = {"batch_size": 8, "max_seq_length": 29, "seed": 3, **settings}
    return InMemoryBatches(ROWS, LABELS, **arguments)  # type: ignore[arg-type]


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


def test_hosts_share_one_batch() -> None:
    whole = batches().batch(6)
    for index in (0, 1):
        share = batches(share=HostShard(index, 2)).batch(6)
        for name, value in share.items():
            np.testing.assert_array_equal(value, whole[name][index::2])


def test_pack_is_the_worked_example() -> None:
    rows = [
        InputFeatures([5, 6], [0, 1]),
        InputFeatures([7, 8, 9], [0, 0, 1]),
        InputFeatures([4], [1]),
    ]
    features = pack(rows, [[0, 2], [1]], 3, 4, 2)
    assert {name: value.tolist() for name, value in features.items()} == {
        "input_ids": [[5, 6, 4, 0], [7, 8, 9, 0], [0] * 4],
        "segment_ids": [[0, 1, 1, 0], [0, 0, 1, 0], [0] * 4],
        "position_ids": [[0, 1, 0, 0], [0, 1, 2, 0], [0] * 4],
        "sequence_numbers": [[1, 1, 2, 0], [1, 1, 1, 0], [0] * 4],
        "row_positions": [[0, 2], [0, 0], [0, 0]],
        "first_positions": [0, 4, 2],
        "slots": [0, 2, 1],
    }


def test_rows_without_tokens_lie_nowhere() -> None:
    rows = [
        InputFeatures([5, 6], [0, 1]),
        *6 * [InputFeatures([], [])],
        InputFeatures([7, 8], [0, 0]),
    ]
    labels = {"label_ids": np.zeros((1, 1), np.int32)}
    source = InMemoryBatches(
        rows, labels, 1, 2, 3, num_micro_batches=1, group_size=8
    )
    features = source.batch(0)
    assert features["first_positions"].tolist() == [0, *6 * [0], 2]
    assert features["slots"].tolist() == [0, *6 * [0], 4]
    assert features["row_positions"].tolist() == [[0] * 4] * 2


def unpacked(features: dict[str, np.ndarray]) -> list[list[int]]:
    """The ids of each row of one micro-batch."""
    ids, numbers = features["input_ids"], features["sequence_numbers"]
    places = (divmod(i, ids.shape[1]) for i in features["first_positions"])
    return [
        ids[row][numbers[row] == numbers[row, column]].tolist()
        for row, column in places
    ]


@pytest.mark.parametrize(
    ("count", "num_micro_batches"), [(1, 1), (1, 4), (2, 2)]
)
def test_packed_batches_have_the_rows_of_padded_ones(
    count: int, num_micro_batches: int
) -> None:
    shapes = set()
    for index in range(count):
        share = HostShard(index, count)
        plain = batches(batch_size=24, share=share)
        source = batches(
            batch_size=24, share=share, num_micro_batches=num_micro_batches
        )
        for step in (0, 5):
            padded, packed = plain.batch(step), source.batch(step)
            np.testing.assert_array_equal(
                packed["label_ids"], padded["label_ids"]
            )
            parts = {
                name: np.split(value, num_micro_batches)
                for name, value in packed.items()
            }
            found = [
                ids
                for i in range(num_micro_batches)
                for ids in unpacked({name: x[i] for name, x in parts.items()})
            ]
            assert found == [
                ids[mask == 1].tolist()
                for ids, mask in zip(
                    padded["input_ids"], padded["input_mask"], strict=True
                )
            ]
            for part in (
                {k: x[i] for k, x in parts.items()}
                for i in range(num_micro_batches)
            ):
                width = part["input_ids"].shape[1]
                slots = part["row_positions"].reshape(-1)[part["slots"]]
                rows = part["slots"] // part["row_positions"].shape[1]
                first = rows * width + slots
                assert first.tolist() == part["first_positions"].tolist()
            shapes.add(
                (
                    step,
                    *(packed[n].shape for n in ("input_ids", "row_positions")),
                )
            )
    assert len(shapes) == 2, "the same for all hosts"


def test_packed_rows_are_as_wide_as_needed_and_of_few_numbers() -> None:
    """The mean of 1 to 23 is 12: 24 positions, so 32 or what the model has."""
    for most, width in ((29, 29), (61, 32)):
        source = batches(
            batch_size=40, max_seq_length=most, num_micro_batches=1
        )
        shapes = {source.batch(i)["input_ids"].shape for i in range(50)}
        assert {shape[1] for shape in shapes} == {width}
        assert all(shape[0] % 3 == 0 for shape in shapes)  # 40 / 16, rounded up
        assert max(shape[0] for shape in shapes) <= 24
    outlier = [*ROWS, InputFeatures([1] * 50, [0] * 50)]
    labels = {"label_ids": np.zeros((54, 1), np.int32)}
    source = InMemoryBatches(outlier, labels, 54, 61, 3, num_micro_batches=1)
    assert source.batch(0)["input_ids"].shape[1] == 61


def test_examples_of_packed_rows_are_the_padded_ones() -> None:
    share = HostShard(1, 2)
    packed, padded = (
        batches(share=share, num_micro_batches=2),
        batches(share=share),
    )
    batch = packed.batch(5)
    assert "first_positions" in batch
    examples = packed.examples(5, batch)
    assert examples.pop("is_real_example").tolist() == [[1]] * 4
    for name, values in padded.batch(5).items():
        np.testing.assert_array_equal(examples.pop(name), values)
    assert not examples


@pytest.mark.parametrize("num_micro_batches", [0, 2])
def test_rows_of_a_group_stay_together(num_micro_batches: int) -> None:
    """17 groups of 3, whose number each of their ids is; some are shorter."""
    lengths = [(1 + i % 5, 4, (i % 3) * 2) for i in range(17)]
    rows = [
        InputFeatures([i + 1] * length, [0] * length)
        for i, group in enumerate(lengths)
        for length in group
    ]
    labels = {"label_ids": np.arange(17, dtype=np.int32)[:, None]}
    source = InMemoryBatches(
        rows,
        labels,
        8,
        29,
        3,
        num_micro_batches=num_micro_batches,
        group_size=3,
    )
    seen = []
    for step in range(3):
        batch = source.batch(step)
        found = batch["label_ids"][:, 0].tolist()
        seen += found
        expected = [n * [i + 1] for i in found for n in lengths[i]]
        if num_micro_batches:
            parts = {
                k: np.split(v, num_micro_batches) for k, v in batch.items()
            }
            assert batch["first_positions"].shape == (24,)
            ids = [
                row
                for i in range(num_micro_batches)
                for row in unpacked({k: v[i] for k, v in parts.items()})
            ]
            # one without tokens has the first place for its own
            kept = zip(ids, expected, strict=True)
            ids = [own if own == wanted else [] for own, wanted in kept]
        else:
            ids = [
                row[mask == 1].tolist()
                for row, mask in zip(
                    batch["input_ids"], batch["input_mask"], strict=True
                )
            ]
            examples = source.examples(step, batch)
            assert examples["input_ids"].shape == (8, 3 * 29)
        assert ids == expected
    assert sorted(seen[:17]) == list(range(17))


@pytest.mark.parametrize("count", [2, 3])
def test_hosts_together_see_each_row_once_an_epoch(count: int) -> None:
    hosts = [
        batches(batch_size=6, share=HostShard(index, count))
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
