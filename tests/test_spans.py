"""Tests of tasks/spans.py."""

import numpy as np
import pytest
import tensorflow as tf
from conftest import GOLDEN, TINY, tiny_batch

from modeling.conversion import load_checkpoint
from tasks.spans import SpanModel


@pytest.fixture(scope="module")
def model() -> SpanModel:
    model = SpanModel(TINY)
    report = load_checkpoint(model.bindings(), str(GOLDEN / "tiny_bert"))
    assert report.missing == ("cls/squad/output_weights",
                              "cls/squad/output_bias")  # fmt: skip
    rng = np.random.default_rng(1)
    for variable in model.head.variables:
        variable.assign(rng.normal(size=variable.shape))
    return model


def batch_of(num_rows: int) -> dict[str, tf.Tensor]:
    rng = np.random.default_rng(2)
    rows = tiny_batch(num_rows)
    names = ("input_ids", "input_mask", "segment_ids")
    positions = {
        name: rng.integers(0, 9, (num_rows, 1)).astype("int32")
        for name in ("start_positions", "end_positions")
    }
    return as_tensors({n: rows[n] for n in names} | positions)


def as_tensors(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in batch.items()}


def test_loss_is_the_mean_of_both_ends_over_all_positions(
    model: SpanModel,
) -> None:
    batch = batch_of(5)
    loss, sums = model.loss(batch, model.totals(batch), None)
    outputs = model.forward(batch)
    losses = []
    for end in ("start", "end"):
        logits = outputs[f"{end}_logits"].numpy().astype(np.float64)
        assert logits.shape == (5, 29)  # padding has its logits too
        log_sum = np.log(np.exp(logits).sum(axis=-1))
        chosen = np.take_along_axis(
            logits, batch[f"{end}_positions"].numpy(), axis=-1
        )[:, 0]
        losses.append((log_sum - chosen).mean())
        total, weight = sums[f"{end}_loss"]
        assert float(total / weight) == pytest.approx(losses[-1], rel=1e-5)
        hits = logits.argmax(-1) == batch[f"{end}_positions"].numpy()[:, 0]
        assert float(sums[f"{end}_accuracy"][0]) == hits.sum()
    assert abs(losses[0] - losses[1]) > 0.01
    assert float(loss) == pytest.approx(sum(losses) / 2, rel=1e-5)


def test_logits_are_a_linear_map_of_the_last_layer(model: SpanModel) -> None:
    batch = batch_of(2)
    sequence = model.encoder(
        batch["input_ids"], batch["input_mask"], batch["segment_ids"]
    ).sequence
    weights, bias = (v.numpy() for v in model.head.variables)
    expected = sequence.numpy() @ weights.T + bias
    outputs = model.forward(batch)
    assert np.allclose(outputs["start_logits"], expected[..., 0], atol=1e-5)
    assert np.allclose(outputs["end_logits"], expected[..., 1], atol=1e-5)


def test_rows_of_padding_count_for_nothing(model: SpanModel) -> None:
    batch = batch_of(3)
    padded = {
        name: tf.concat([value, tf.zeros_like(value[:2])], axis=0)
        for name, value in batch.items()
    }
    loss, sums = model.loss(batch, model.totals(batch), None)
    same, padded_sums = model.loss(padded, model.totals(padded), None)
    assert float(model.totals(padded)["rows"]) == 3.0
    assert float(loss) == pytest.approx(float(same), rel=1e-6)
    for name, (total, weight) in sums.items():
        assert float(padded_sums[name][0]) == pytest.approx(float(total))
        assert float(padded_sums[name][1]) == float(weight) == 3.0


def test_pieces_of_a_batch_add_up(model: SpanModel) -> None:
    batch = batch_of(7)
    totals = model.totals(batch)
    whole, _ = model.loss(batch, totals, None)
    parts = [
        model.loss({k: v[rows] for k, v in batch.items()}, totals, None)[0]
        for rows in (slice(0, 2), slice(2, 7))
    ]
    assert float(sum(parts)) == pytest.approx(float(whole), rel=1e-6)


def test_everything_but_the_pooler_is_trained(model: SpanModel) -> None:
    batch = batch_of(2)
    trained = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss, _ = model.loss(batch, model.totals(batch), None)
    gradients = tape.gradient(loss, trained)
    assert not [g for g in gradients if g is None]
    assert len(model.variables) - len(trained) == 2  # kernel and bias
    names = {binding.name for binding in model.bindings()}
    assert {"bert/pooler/dense/kernel", "cls/squad/output_weights"} <= names
