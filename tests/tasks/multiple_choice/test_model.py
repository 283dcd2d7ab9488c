"""Tests of tasks/multiple_choice/model.py."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.batching import InMemoryBatches
from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.data.record_schema import HostShard
from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import load_checkpoint
from bert_keras.tasks.classification.model import LABELS
from bert_keras.tasks.multiple_choice.data import pad_choices
from bert_keras.tasks.multiple_choice.model import (
    NUM_CHOICES,
    MultipleChoice,
    log_shares,
)
from tests.conftest import GOLDEN, TINY

NUMBERS = (2, 3, 5, 2, 4, 3, 3)  # of choices
QUESTIONS = [
    [
        InputFeatures(
            [2 + q, *[7 + c] * (1 + 3 * q + c), 3], [0] * 3 + [1] * (3 * q + c)
        )
        for c in range(count)
    ]
    for q, count in enumerate(NUMBERS)
]
LABEL_OF = [1, 0, 4, 0, 3, 2, 1]


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Nothing to be compiled, for shapes that are seen once."""
    with fused_ops.uncompiled():
        yield


@pytest.fixture(scope="module")
def model() -> MultipleChoice:
    """With the golden encoder and a head of its own."""
    model = MultipleChoice(TINY)
    report = load_checkpoint(model.mappings(), str(GOLDEN / "tiny_bert"))
    assert set(report.missing) == {"output_weights", "output_bias"}
    rng = np.random.default_rng(1)
    for variable in model.head.weights:
        variable.assign(rng.normal(size=variable.shape))
    return model


def batches(batch_size: int, **settings: int | HostShard) -> InMemoryBatches:
    rows, most = pad_choices(QUESTIONS)
    labels = {
        LABELS: np.array(LABEL_OF, np.int32)[:, None],
        NUM_CHOICES: np.array(NUMBERS, np.int32)[:, None],
    }
    return InMemoryBatches(
        rows,
        labels,
        batch_size,
        29,
        3,
        **settings,  # type: ignore[arg-type]
        group_size=most,
    )


def loss_of(
    model: MultipleChoice, batch: dict, totals: dict | None = None
) -> float:
    tensors = {name: tf.constant(value) for name, value in batch.items()}
    totals = totals or model.totals(tensors)
    return float(model.loss_fn(tensors, totals, None)[0])


def own_losses(model: MultipleChoice) -> list[float]:
    """Cross entropies by hand, from the scores of a question's rows."""
    losses = []
    for rows, label in zip(QUESTIONS, LABEL_OF, strict=True):
        scores = model.outputs_by_name(pad(rows, 29, len(rows)))[
            "logits"
        ].numpy()[:, 0]
        total = math.log(sum(math.exp(score) for score in scores))
        losses.append(total - scores[label])
    return losses


def test_loss_is_the_mean_cross_entropy_of_whole_questions(
    model: MultipleChoice,
) -> None:
    expected = np.mean(own_losses(model))
    for num_micro_batches in (0, 1):
        batch = batches(7, num_micro_batches=num_micro_batches).batch(0)
        assert ("first_positions" in batch) == bool(num_micro_batches)
        assert loss_of(model, batch) == pytest.approx(expected, rel=1e-5)


def test_accuracy_counts_questions(model: MultipleChoice) -> None:
    batch = {k: tf.constant(v) for k, v in batches(7).batch(0).items()}
    _, sums = model.loss_fn(batch, model.totals(batch), None)
    hits = sum(
        int(
            np.argmax(model.outputs_by_name(pad(rows, 29, len(rows)))["logits"])
        )
        == label
        for rows, label in zip(QUESTIONS, LABEL_OF, strict=True)
    )
    assert 0 < hits < 7
    assert [float(x) for x in sums["accuracy"]] == [hits, 7.0]


@pytest.mark.slow
@pytest.mark.parametrize("is_packed", [False, True])
def test_pieces_and_hosts_of_a_batch_add_up(
    model: MultipleChoice, is_packed: bool
) -> None:
    expected = np.mean([own_losses(model)[i] for i in order(6)])
    totals = {"questions": tf.constant(6.0)}
    total = 0.0
    for index in (0, 1):
        batch = batches(
            6, share=HostShard(index, 2), num_micro_batches=3 * is_packed
        ).batch(0)
        for i in range(3):
            piece = {k: np.split(v, 3)[i] for k, v in batch.items()}
            assert len(piece[LABELS]) == 1
            total += loss_of(model, piece, totals)
    assert total == pytest.approx(expected, rel=1e-5)


def order(count: int) -> list[int]:
    """Numbers of the first questions of an epoch."""
    labels = batches(7).batch(0)
    keys = list(zip(LABEL_OF, NUMBERS, strict=True))
    assert len(set(keys)) == len(keys)
    found = zip(labels[LABELS][:, 0], labels[NUM_CHOICES][:, 0], strict=True)
    return [keys.index((int(a), int(b))) for a, b in found][:count]


def test_gradients_reach_all_but_the_bias(model: MultipleChoice) -> None:
    batch = {k: tf.constant(v) for k, v in batches(7).batch(0).items()}
    trained = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss, _ = model.loss_fn(batch, model.totals(batch), None)
    for variable, gradient in zip(
        model.trainable_variables, tape.gradient(loss, trained), strict=True
    ):
        largest = float(tf.reduce_max(tf.abs(tf.convert_to_tensor(gradient))))
        assert (largest > 1e-6) == (variable is not model.head.output_bias)


def test_padding_counts_for_nothing(model: MultipleChoice) -> None:
    batch = batches(7).batch(0)
    padded = {
        name: np.pad(value, [(0, len(value) // 7), (0, 0)])
        for name, value in batch.items()
    }
    assert len(padded[LABELS]) == 8
    assert loss_of(model, padded) == pytest.approx(
        loss_of(model, batch), rel=1e-6
    )


def test_log_shares() -> None:
    outputs = [
        {"logits": np.array([math.log(x)], np.float32)} for x in (1, 2, 5)
    ]
    np.testing.assert_allclose(
        np.exp(log_shares(outputs)), [0.125, 0.25, 0.625]
    )
