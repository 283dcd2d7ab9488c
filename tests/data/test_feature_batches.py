"""FeatureBatches of data/batching.py."""

import numpy as np
import pytest

from bert_keras.data import batching
from bert_keras.data.batching import FeatureBatches
from bert_keras.data.record_schema import HostShard

LENGTHS = [1 + 7 * i % 31 for i in range(47)]
LABELS = [[1 + i] * length for i, length in enumerate(LENGTHS)]
# A word's vectors say where it is in the file.
VECTORS = np.arange(sum(LENGTHS), dtype=np.float32)[:, None, None] * np.ones(
    (1, 2, 3), np.float32
)


def batches(share: HostShard = HostShard()) -> FeatureBatches:
    return FeatureBatches(VECTORS, LABELS, 8, 3, share)


def test_each_epoch_takes_every_sentence_in_an_order_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """47 sentences are six batches of eight, one sentence twice."""
    monkeypatch.setattr(batching, "BATCHES_SORTED", 2)
    source = batches()
    epochs = [
        np.concatenate(
            [source.batch(6 * e + i)["label_ids"][:, 0] for i in range(6)]
        )
        for e in (0, 1)
    ]
    for epoch in epochs:
        assert len(epoch) == 48 and set(epoch) == set(range(1, 48))
    one, two = (
        {frozenset(batch) for batch in epoch.reshape(6, 8)} for epoch in epochs
    )
    assert not one & two


def test_words_have_their_own_vectors_and_sentences_are_of_like_length() -> (
    None
):
    source = batches()
    begins = np.cumsum(LENGTHS) - LENGTHS
    for step in (11, 0):
        batch = source.batch(step)
        assert batch["vectors"].shape[2:] == (2, 3)
        lengths = batch["lengths"][:, 0]
        assert lengths.max() - lengths.min() <= 12
        assert batch["label_ids"].shape[1] in (16, 32)
        for x, length, labels in zip(
            batch["vectors"], lengths, batch["label_ids"], strict=True
        ):
            sentence = labels[0] - 1
            assert length == LENGTHS[sentence]
            places = begins[sentence] + np.arange(length)
            assert x[:length, 1, 2].tolist() == places.tolist()
            assert not x[length:].any() and not labels[length:].any()
    again = batches().batch(11)
    later = source.batch(11)
    assert all((again[n] == later[n]).all() for n in again)


def test_hosts_share_a_batch() -> None:
    whole = batches().batch(2)
    for index in (0, 1):
        share = batches(HostShard(index, 2)).batch(2)
        for name, value in share.items():
            np.testing.assert_array_equal(value, whole[name][index::2])
