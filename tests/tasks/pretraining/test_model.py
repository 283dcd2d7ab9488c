"""Tests of tasks/pretraining/model.py."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.packing import PackingConfig, fill_rows, plan_rows
from bert_keras.data.record_schema import packed_features
from bert_keras.modeling.attention import same_sequence
from bert_keras.modeling.checkpoint import load_checkpoint
from bert_keras.modeling.encoder import EncoderOutputs
from bert_keras.tasks.pretraining.model import MaskedLm, Pretraining
from tests.conftest import GOLDEN, ROOT, TINY, tiny_batch

PACKED_LENGTH = TINY.max_position_embeddings  # 61: two or three records
NUM_PACKED_PREDICTIONS = 13


def golden_model() -> Pretraining:
    model = Pretraining(TINY)
    load_checkpoint(model.mappings(), str(GOLDEN / "tiny_bert"))
    return model


@pytest.fixture(scope="module")
def model() -> Pretraining:
    return golden_model()


def as_tensors(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {
        name: keras.ops.convert_to_tensor(value)
        for name, value in batch.items()
    }


def packed(
    batch: dict[str, np.ndarray],
) -> tuple[list[list[int]], dict[str, np.ndarray]]:
    """The rows' records, and the packed batch."""
    config = PackingConfig(PACKED_LENGTH, NUM_PACKED_PREDICTIONS, 3)
    rows = plan_rows(batch, config)
    assert {len(row) for row in rows} == {1, 2, 3}
    return rows, fill_rows(
        batch, rows, packed_features(PACKED_LENGTH, NUM_PACKED_PREDICTIONS, 3)
    )


def test_losses_are_googles(model: Pretraining) -> None:
    golden = np.load(GOLDEN / "tiny_bert" / "forward.npz")
    batch = {
        name.removeprefix("in_"): tf.constant(golden[name])
        for name in golden
        if name.startswith("in_")
    }
    loss, sums = model.loss_fn(batch, model.totals(batch), None)
    masked, pair = golden["out_mlm_loss"], golden["out_nsp_loss"]
    assert float(loss) == pytest.approx(float(masked + pair), abs=1e-5)
    total, weight = sums["masked_lm_loss"]
    assert float(total / weight) == pytest.approx(float(masked), abs=1e-5)
    total, weight = sums["next_sentence_loss"]
    assert float(total / weight) == pytest.approx(float(pair), abs=1e-5)


def test_pieces_of_a_batch_add_up(model: Pretraining) -> None:
    batch = tiny_batch(7)
    totals = model.totals(as_tensors(batch))
    whole, _ = model.loss_fn(as_tensors(batch), totals, None)
    parts = [
        model.loss_fn(
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
        figures.append(model.loss_fn(tensors, model.totals(tensors), None))
    (loss, sums), (padded_loss, padded_sums) = figures
    assert float(loss) == pytest.approx(float(padded_loss), rel=1e-6)
    for name, (_, weight) in sums.items():
        assert float(padded_sums[name][1]) == float(weight)


def test_masked_lm_alone_is_the_loss_without_the_pairs(
    model: Pretraining,
) -> None:
    alone = MaskedLm(TINY)
    load_checkpoint(alone.mappings(), str(GOLDEN / "tiny_bert"))
    assert not any("seq_relationship" in b.name for b in alone.mappings())
    trained = {v.path for v in alone.trainable_variables}
    assert len(alone.weights) - len(trained) == 2  # the pooler's
    batch = tiny_batch(9)
    _, sums = model.loss_fn(
        as_tensors(batch), model.totals(as_tensors(batch)), None
    )
    total, weight = sums["masked_lm_loss"]
    for rows in (batch, packed(batch)[1]):
        del rows["next_sentence_labels"]
        tensors = as_tensors(rows)
        loss, found = alone.loss_fn(tensors, alone.totals(tensors), None)
        assert float(loss) == pytest.approx(float(total / weight), rel=1e-5)
        assert found.keys() == {"masked_lm_loss", "masked_lm_accuracy"}
        batch = tiny_batch(9)


def encode(model: Pretraining, batch: dict[str, np.ndarray]) -> EncoderOutputs:
    """A packed batch, as the loss has it encoded."""
    rows = as_tensors(batch)
    return model.encoder(
        rows["input_ids"],
        same_sequence(rows["sequence_numbers"]),
        rows["segment_ids"],
        position_ids=rows["position_ids"],
        pooled_positions=rows["next_sentence_positions"],
    )


def test_packed_sequences_have_the_outputs_of_each_alone(
    model: Pretraining,
) -> None:
    batch = tiny_batch(9)
    tensors = as_tensors(batch)
    names = ("input_ids", "input_mask", "segment_ids")
    alone = model.encoder(*(tensors[name] for name in names))
    rows, packed_batch = packed(batch)
    outputs = encode(model, packed_batch)
    for row, numbers in enumerate(rows):
        for place, number in enumerate(numbers):
            here = packed_batch["sequence_numbers"][row] == place + 1
            np.testing.assert_allclose(
                outputs.sequence[row].numpy()[here],
                alone.sequence[number, : here.sum()],
                atol=1e-5,
            )
            np.testing.assert_allclose(
                outputs.pooled[row, place], alone.pooled[number], atol=1e-5
            )


def test_a_change_stays_within_its_sequence(model: Pretraining) -> None:
    rows, batch = packed(tiny_batch(9))
    changed = {name: value.copy() for name, value in batch.items()}
    second = batch["sequence_numbers"] == 2
    changed["input_ids"][second] = (batch["input_ids"][second] + 1) % 101
    before, after = encode(model, batch), encode(model, changed)
    difference = np.abs(after.sequence - before.sequence).max(-1)
    assert difference[~second].max() <= 1e-6
    assert difference[second].min() > 1e-2
    assert np.abs(after.pooled - before.pooled)[:, [0, 2]].max() <= 1e-6


def loss_and_gradients(
    model: Pretraining, batch: dict[str, np.ndarray]
) -> tuple[float, dict[str, tuple[float, float]], list[np.ndarray]]:
    tensors = as_tensors(batch)
    with tf.GradientTape() as tape:
        loss, sums = model.loss_fn(tensors, model.totals(tensors), None)
    gradients = tape.gradient(loss, [v.value for v in model.weights])
    return (
        float(loss),
        {name: (float(x), float(w)) for name, (x, w) in sums.items()},
        [tf.convert_to_tensor(g).numpy() for g in gradients],
    )


@pytest.mark.slow
def test_packed_rows_have_the_loss_and_gradients_of_their_sequences(
    model: Pretraining,
) -> None:
    batch = tiny_batch(9)
    loss, sums, gradients = loss_and_gradients(model, batch)
    _, rows = packed(batch)
    packed_loss, packed_sums, packed_gradients = loss_and_gradients(model, rows)
    assert packed_loss == pytest.approx(loss, abs=1e-5)
    assert packed_sums.keys() == sums.keys()
    for name, pair in sums.items():
        assert packed_sums[name] == pytest.approx(pair, rel=1e-5)
    assert sums["next_sentence_loss"][1] == 9
    for one, other in zip(gradients, packed_gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.slow
def test_packed_rows_of_padding_count_for_nothing(model: Pretraining) -> None:
    _, rows = packed(tiny_batch(9))
    padded = {
        name: np.concatenate([value, np.zeros_like(value[:2])])
        for name, value in rows.items()
    }
    loss, sums, _ = loss_and_gradients(model, rows)
    padded_loss, padded_sums, gradients = loss_and_gradients(model, padded)
    assert padded_loss == pytest.approx(loss, rel=1e-6)
    assert padded_sums["next_sentence_loss"][1] == 9
    assert all(np.isfinite(gradient).all() for gradient in gradients)


ON_JAX = """
import json, sys
sys.path.insert(0, ".")
import jax
import keras
import tests.tasks.pretraining.test_model as tests
jax.config.update("jax_disable_most_optimizations", True)
assert keras.config.backend() == "jax"
model, batch = tests.golden_model(), tests.tiny_batch(9)
for rows in batch, tests.packed(batch)[1]:
    rows = tests.as_tensors(rows)
    loss = jax.jit(lambda: model.loss_fn(rows, model.totals(rows), None)[0])
    print(json.dumps(float(loss())))
"""


@pytest.mark.slow
def test_jax_gives_packed_rows_the_same_loss(model: Pretraining) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ON_JAX],
        check=True,
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    losses = [json.loads(line) for line in done.stdout.splitlines()[-2:]]
    loss, _, _ = loss_and_gradients(model, tiny_batch(9))
    assert losses == pytest.approx([loss, loss], abs=1e-5)
