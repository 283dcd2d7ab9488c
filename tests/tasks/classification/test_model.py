"""Tests of the classifier, and of frozen layers and their depths."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.batching import InMemoryBatches
from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.modeling.checkpoint import load_checkpoint
from bert_keras.tasks.classification.label_types import (
    LABELS,
    LabelType,
    MultiLabel,
    Regression,
    SingleLabel,
)
from bert_keras.tasks.classification.model import TextClassifier, pool_windows
from tests.conftest import GOLDEN, TINY

TARGETS: dict[str, LabelType] = {
    "single label": SingleLabel(("a", "b", "c"), (0.5, 3.0, 2.0)),
    "multi-label": MultiLabel(("a", "b")),
    "regression": Regression(),
}
ROWS = [
    InputFeatures(
        [2 + i, *[7] * i, 3 + i], [0] * (1 + i // 2) + [1] * (1 + i - i // 2)
    )
    for i in range(14)
]


def make(target: LabelType) -> TextClassifier:
    """A classifier whose encoder is the golden one."""
    model = TextClassifier(TINY, target)
    report = load_checkpoint(model.mappings(), str(GOLDEN / "tiny_bert"))
    assert set(report.missing) == {"output_weights", "output_bias"}
    rng = np.random.default_rng(1)
    for variable in model.head.variables:
        variable.assign(rng.normal(size=variable.shape))
    return model


def labels_of(target: LabelType, count: int) -> np.ndarray:
    rng = np.random.default_rng(2)
    names = [*(target.labels or "01")]
    labels = [target.encode(name) for name in rng.choice(names, count)]
    whole = target.feature.dtype == "int64"
    return np.array(labels, np.int32 if whole else np.float32)


def batch_of(target: LabelType, length: int, num_rows: int = 7) -> dict:
    features = pad(ROWS[:7], length, num_rows)
    labels = np.zeros((num_rows, target.feature.length), np.float32)
    labels[:7] = labels_of(target, 7)
    if target.feature.dtype == "int64":
        labels = labels.astype(np.int32)
    return tensors({**features, LABELS: labels})


def tensors(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in batch.items()}


def loss_of(
    model: TextClassifier, batch: dict, seed: tf.Tensor | None = None
) -> float:
    return float(model.loss(batch, model.totals(batch), seed)[0])


@pytest.fixture(scope="module", params=TARGETS)
def model(request: pytest.FixtureRequest) -> TextClassifier:
    return make(TARGETS[request.param])


def test_loss_is_the_mean_of_the_examples_losses(model: TextClassifier) -> None:
    batch, target = batch_of(model.target, 29), model.target
    logits = model.forward(batch)["logits"].numpy()
    assert logits.shape == (7, target.num_outputs)
    losses = target.losses(logits, batch[LABELS].numpy())
    weights = np.ones(7)
    if isinstance(target, SingleLabel):  # a mean with the classes' weights
        weights = np.array(target.class_weights)[batch[LABELS].numpy()[:, 0]]
        assert len(set(weights)) > 1
    expected = np.average(losses, weights=weights)
    assert loss_of(model, batch) == pytest.approx(expected, rel=1e-5)


def test_logits_are_a_linear_map_of_the_pooled_output(
    model: TextClassifier,
) -> None:
    batch = batch_of(model.target, 29)
    pooled = model.encoder(
        batch["input_ids"], batch["input_mask"], batch["segment_ids"]
    ).pooled
    weights, bias = (v.numpy() for v in model.head.variables)
    expected = pooled.numpy() @ weights.T + bias
    np.testing.assert_allclose(
        model.forward(batch)["logits"], expected, atol=1e-5
    )


def test_gradients_reach_every_variable(model: TextClassifier) -> None:
    batch = batch_of(model.target, 16)
    trained = [v.value for v in model.trainable_variables]
    assert len(trained) == len(model.variables)
    with tf.GradientTape() as tape:
        loss, _ = model.loss(batch, model.totals(batch), None)
    for variable, gradient in zip(
        model.variables, tape.gradient(loss, trained), strict=True
    ):
        assert gradient is not None, variable.path
        values = tf.convert_to_tensor(gradient)
        assert float(tf.reduce_max(tf.abs(values))) > 1e-6, variable.path


def test_rows_of_padding_count_for_nothing(model: TextClassifier) -> None:
    batch = batch_of(model.target, 16)
    padded = batch_of(model.target, 16, num_rows=11)
    _, sums = model.loss(batch, model.totals(batch), None)
    _, padded_sums = model.loss(padded, model.totals(padded), None)
    assert loss_of(model, batch) == pytest.approx(
        loss_of(model, padded), rel=1e-6
    )
    for name, parts in sums.items():
        assert [float(p) for p in padded_sums[name]] == pytest.approx(
            [float(p) for p in parts], rel=1e-6
        )


def test_pieces_of_a_batch_add_up(model: TextClassifier) -> None:
    batch = batch_of(model.target, 16)
    totals = model.totals(batch)
    parts = [
        model.loss({k: v[rows] for k, v in batch.items()}, totals, None)[0]
        for rows in (slice(0, 2), slice(2, 7))
    ]
    assert float(sum(parts)) == pytest.approx(loss_of(model, batch), rel=1e-6)


def gradients_of(model: TextClassifier, batch: dict, totals: dict) -> tuple:
    """Loss, metric sums and gradients."""
    with tf.GradientTape() as tape:
        loss, sums = model.loss(batch, totals, None)
    trained = [v.value for v in model.trainable_variables]
    gradients = tape.gradient(loss, trained)
    return loss, sums, [tf.convert_to_tensor(g) for g in gradients]


@pytest.mark.parametrize("num_pieces", [1, 3])
def test_packed_rows_learn_what_padded_rows_do(
    model: TextClassifier, num_pieces: int
) -> None:
    """Twelve rows of 2 to 15 pieces, also as three micro-batches."""
    labels = {LABELS: labels_of(model.target, len(ROWS))}
    padded, packed = (
        tensors(InMemoryBatches(ROWS, labels, 12, 29, 3, num_pieces=n).batch(1))
        for n in (0, num_pieces)
    )
    assert padded["input_ids"].shape == (12, 29)
    assert packed["input_ids"].shape == ({1: 8, 3: 12}[num_pieces], 16)
    totals = model.totals(padded)
    assert float(totals["rows"]) == pytest.approx(
        float(model.totals(packed)["rows"])
    )
    expected = gradients_of(model, padded, totals)
    parts = [
        gradients_of(model, dict(zip(packed, values, strict=True)), totals)
        for values in zip(
            *(tf.split(value, num_pieces) for value in packed.values()),
            strict=True,
        )
    ]
    found = tf.nest.map_structure(lambda *x: sum(x), *parts)
    for one, other in zip(
        tf.nest.flatten(expected), tf.nest.flatten(found), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_weightless_batches_cost_nothing() -> None:
    model = make(SingleLabel(("a", "b", "c"), (0.0, 0.0, 0.0)))
    assert loss_of(model, batch_of(model.target, 16)) == 0.0


def test_the_head_drops_what_its_seed_says() -> None:
    model = make(Regression())  # TINY's encoder has no dropout of its own
    batch = batch_of(model.target, 16)
    plain, first, again, other = (
        loss_of(model, batch, seed and tf.constant(seed))
        for seed in (None, [1, 0], [1, 0], [2, 0])
    )
    assert first == again
    assert len({plain, first, other}) == 3
    assert plain == loss_of(model, batch)
    pooled = model.encoder(
        batch["input_ids"], batch["input_mask"], batch["segment_ids"]
    ).pooled
    # Places 0 to 9 of the key are those of the encoder's dropouts.
    values = model.head(pooled, tf.constant([1, 10]))
    errors = tf.square(values - batch[LABELS])
    assert first == pytest.approx(float(tf.reduce_mean(errors)), rel=1e-5)


def test_frozen_layers_are_not_trained() -> None:
    model = make(Regression())
    all_variables = {id(v) for v in model.variables}
    model.encoder.freeze(2)
    trained = model.trainable_variables
    frozen = all_variables - {id(v) for v in trained}
    # Three tables and a LayerNorm; in each layer kernel and bias of query, key
    # and value together and of three dense layers, and two LayerNorms.
    assert len(frozen) == 5 + 2 * 12
    kept: list[keras.layers.Layer] = [
        model.encoder.layers[2],
        model.encoder.pooler,
        model.head,
    ]
    assert {id(v) for v in trained} == {
        id(v) for part in kept for v in part.variables
    }
    assert {id(v) for v in model.variables} == all_variables


def test_freezing_no_layer_freezes_the_embeddings() -> None:
    model = make(Regression())
    model.encoder.freeze(0)
    assert len(model.variables) - len(model.trainable_variables) == 5


def test_depth_counts_from_the_embeddings() -> None:
    model = make(Regression())
    encoder = model.encoder
    parts: list[keras.layers.Layer] = [encoder.embeddings, *encoder.layers]
    parts += [encoder.pooler, model.head]
    for part, depth in zip(parts, (0, 1, 2, 3, 4, 4), strict=True):
        assert {encoder.depth(v) for v in part.variables} == {depth}


def test_windows_of_a_document_become_one() -> None:
    logits = np.array([[1.0, 5.0], [0, 2], [4, 4], [2, 9]])
    row = InputFeatures([2, 3], [0, 0])
    documents = [[row], [row, row, row]]
    mean = list(pool_windows(iter(logits), documents, "mean"))
    np.testing.assert_array_equal(mean, [[1, 5], [2, 5]])
    highest = list(pool_windows(iter(logits), documents, "max"))
    np.testing.assert_array_equal(highest, [[1, 5], [4, 9]])
