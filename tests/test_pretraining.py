"""Tests of tasks/pretraining.py."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import GOLDEN, TINY, tiny_batch

from modeling.conversion import load_checkpoint
from tasks.pretraining import Pretraining


@pytest.fixture(scope="module")
def model() -> Pretraining:
    model = Pretraining(TINY)
    load_checkpoint(model.bindings(), str(GOLDEN / "tiny_bert"))
    return model


def as_tensors(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in batch.items()}


def test_losses_are_googles(model: Pretraining) -> None:
    golden = np.load(GOLDEN / "tiny_bert" / "forward.npz")
    batch = {
        name.removeprefix("in_"): tf.constant(golden[name])
        for name in golden
        if name.startswith("in_")
    }
    loss, sums = model.loss(batch, model.totals(batch), None)
    masked, pair = golden["out_mlm_loss"], golden["out_nsp_loss"]
    assert float(loss) == pytest.approx(float(masked + pair), abs=1e-5)
    total, weight = sums["masked_lm_loss"]
    assert float(total / weight) == pytest.approx(float(masked), abs=1e-5)
    total, weight = sums["next_sentence_loss"]
    assert float(total / weight) == pytest.approx(float(pair), abs=1e-5)


def test_pieces_of_a_batch_add_up(model: Pretraining) -> None:
    batch = tiny_batch(7)
    totals = model.totals(as_tensors(batch))
    whole, _ = model.loss(as_tensors(batch), totals, None)
    parts = [
        model.loss(
            as_tensors({k: v[rows] for k, v in batch.items()}), totals, None
        )
        for rows in (slice(0, 2), slice(2, 7))
    ]
    assert sum(float(loss) for loss, _ in parts) == pytest.approx(
        float(whole), rel=1e-6
    )
    weights = [float(sums["masked_lm_loss"][1]) for _, sums in parts]
    assert sum(weights) == batch["masked_lm_weights"].sum()


def test_rows_of_padding_count_for_nothing(model: Pretraining) -> None:
    batch = tiny_batch(3)
    padded = {
        name: np.concatenate([value, np.zeros_like(value[:2])])
        for name, value in batch.items()
    }
    figures = []
    for rows in (batch, padded):
        tensors = as_tensors(rows)
        figures.append(model.loss(tensors, model.totals(tensors), None))
    (loss, sums), (padded_loss, padded_sums) = figures
    assert float(loss) == pytest.approx(float(padded_loss), rel=1e-6)
    for name, (_, weight) in sums.items():
        assert float(padded_sums[name][1]) == float(weight)
