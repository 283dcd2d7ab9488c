"""Tests of tasks/squad/model.py."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.batching import InMemoryBatches
from bert_keras.data.input_features import InputFeatures, bucket_by_length, pad
from bert_keras.modeling.checkpoint import load_checkpoint
from bert_keras.tasks.squad.model import QuestionAnsweringModel
from bert_keras.training.inference import Predictor, predict
from tests.conftest import GOLDEN, TINY, tiny_batch
from tests.tasks.learning import as_tensors, assert_packing_changes_nothing

pytestmark = pytest.mark.usefixtures("uncompiled_chains")


@pytest.fixture(scope="module")
def model() -> QuestionAnsweringModel:
    return make()


def make(padding_in_loss: bool = True) -> QuestionAnsweringModel:
    model = QuestionAnsweringModel(TINY, padding_in_loss)
    report = load_checkpoint(model.mappings(), str(GOLDEN / "tiny_bert"))
    assert report.missing == ("cls/squad/output_weights",
                              "cls/squad/output_bias")  # fmt: skip
    rng = np.random.default_rng(1)
    for variable in model.head.weights:
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


def test_loss_is_the_mean_of_both_ends_over_all_positions(
    model: QuestionAnsweringModel,
) -> None:
    batch = batch_of(5)
    loss, sums = model.loss_fn(batch, model.totals(batch), None)
    outputs = model.outputs_by_name(batch)
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


ROWS = [
    InputFeatures(
        [2 + i, *[7] * i, 3 + i], [0] * (1 + i // 2) + [1] * (1 + i - i // 2)
    )
    for i in range(14)
]


@pytest.mark.parametrize("num_micro_batches", [1, 3])
def test_packed_rows_learn_what_padded_rows_do(num_micro_batches: int) -> None:
    """Twelve rows of 2 to 15 pieces, also as three micro-batches."""
    model = make(padding_in_loss=False)
    ends = np.arange(len(ROWS), dtype=np.int32)[:, None]
    labels = {"start_positions": (ends + 1) // 2, "end_positions": ends}
    padded, packed = (
        as_tensors(
            InMemoryBatches(ROWS, labels, 12, 29, 3, num_micro_batches=n).batch(
                1
            )
        )
        for n in (0, num_micro_batches)
    )
    assert padded["input_ids"].shape == (12, 29)
    assert packed["input_ids"].shape == ({1: 8, 3: 12}[num_micro_batches], 16)
    totals = model.totals(padded)
    assert float(totals["rows"]) == 12 == float(model.totals(packed)["rows"])
    assert_packing_changes_nothing(model, padded, packed, num_micro_batches)


def test_padding_may_be_left_out_of_the_loss() -> None:
    model = make(padding_in_loss=False)
    batch = batch_of(5)
    loss, _ = model.loss_fn(batch, model.totals(batch), None)
    losses = []
    for end in ("start", "end"):
        outputs = model.outputs_by_name(batch)[f"{end}_logits"].numpy()
        for logits, mask, place in zip(
            outputs, batch["input_mask"].numpy(),
            batch[f"{end}_positions"].numpy(), strict=True,
        ):  # fmt: skip
            own = logits[mask == 1].astype(np.float64)
            losses.append(np.log(np.exp(own).sum()) - own[place[0]])
    assert float(loss) == pytest.approx(np.mean(losses), rel=1e-5)


def test_logits_are_a_linear_map_of_the_last_layer(
    model: QuestionAnsweringModel,
) -> None:
    batch = batch_of(2)
    sequence = model.encoder(
        batch["input_ids"], batch["input_mask"], batch["segment_ids"]
    ).sequence
    weights, bias = (v.numpy() for v in model.head.weights)
    expected = sequence.numpy() @ weights.T + bias
    outputs = model.outputs_by_name(batch)
    assert np.allclose(outputs["start_logits"], expected[..., 0], atol=1e-5)
    assert np.allclose(outputs["end_logits"], expected[..., 1], atol=1e-5)


def test_logits_do_not_depend_on_how_rows_are_batched(
    model: QuestionAnsweringModel,
) -> None:
    rows = [ROWS[i % 14] for i in range(0, 47 * 5, 5)]
    batches = bucket_by_length(
        rows, 2, 61, fine_buckets=True, chunk_positions=400
    )
    padded = model.outputs_by_name(as_tensors(pad(rows, 61, 47)))
    found = predict(Predictor(model.outputs_by_name), batches)
    for i, (row, outputs) in enumerate(zip(rows, found, strict=True)):
        own = slice(len(row.input_ids))
        for name, values in outputs.items():
            np.testing.assert_allclose(
                values[own], padded[name][i, own], atol=1e-5
            )


def test_rows_of_padding_count_for_nothing(
    model: QuestionAnsweringModel,
) -> None:
    batch = batch_of(3)
    padded = {
        name: tf.concat([value, tf.zeros_like(value[:2])], axis=0)
        for name, value in batch.items()
    }
    loss, sums = model.loss_fn(batch, model.totals(batch), None)
    same, padded_sums = model.loss_fn(padded, model.totals(padded), None)
    assert float(model.totals(padded)["rows"]) == 3.0
    assert float(loss) == pytest.approx(float(same), rel=1e-6)
    for name, (total, weight) in sums.items():
        assert float(padded_sums[name][0]) == pytest.approx(float(total))
        assert float(padded_sums[name][1]) == float(weight) == 3.0


def test_pieces_of_a_batch_add_up(model: QuestionAnsweringModel) -> None:
    batch = batch_of(7)
    totals = model.totals(batch)
    whole, _ = model.loss_fn(batch, totals, None)
    parts = [
        model.loss_fn({k: v[rows] for k, v in batch.items()}, totals, None)[0]
        for rows in (slice(0, 2), slice(2, 7))
    ]
    assert float(sum(parts)) == pytest.approx(float(whole), rel=1e-6)


def test_everything_but_the_pooler_is_trained(
    model: QuestionAnsweringModel,
) -> None:
    batch = batch_of(2)
    trained = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss, _ = model.loss_fn(batch, model.totals(batch), None)
    gradients = tape.gradient(loss, trained)
    assert not [g for g in gradients if g is None]
    assert len(model.weights) - len(trained) == 2  # kernel and bias
    names = {mapping.name for mapping in model.mappings()}
    assert {"bert/pooler/dense/kernel", "cls/squad/output_weights"} <= names
