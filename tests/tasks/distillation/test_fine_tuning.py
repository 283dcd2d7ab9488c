"""Tests of tasks/distillation/fine_tuning.py."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.batching import InMemoryBatches
from bert_keras.modeling import fused_ops
from bert_keras.tasks.classification.model import LABELS, SingleLabel
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.tasks.distillation.fine_tuning import DistilledModel
from tests.tasks.classification.test_model import ROWS, batch_of, labels_of
from tests.tasks.classification.test_model import make as make_classifier
from tests.tasks.learning import as_tensors
from tests.tasks.squad.test_model import batch_of as span_batch_of
from tests.tasks.squad.test_model import make as make_span_model

TARGET = SingleLabel(("a", "b", "c"), (0.5, 3.0, 2.0))
TASK = TaskDistillation(
    "folder", distillation_temperature=3.0
)  # a half of each


def moved(model: Any) -> Any:
    """As a student: with a head of its own."""
    for variable in model.head.weights:
        variable.assign(variable[::-1] * 0.7)
    return model


def probabilities(logits: Any) -> np.ndarray:
    x = np.exp(np.asarray(logits, np.float64) / 3.0)
    return x / x.sum(-1, keepdims=True)


def distances(student: Any, teacher: Any) -> np.ndarray:
    """9 KL(teacher || student), the temperature being 3."""
    theirs = probabilities(teacher)
    return 9 * (theirs * np.log(theirs / probabilities(student))).sum(-1)


def figures(
    model: Any, batch: Any, totals: Any = None, seed: Any = None
) -> tuple[float, Any]:
    with fused_ops.uncompiled():
        loss, sums = model.loss_fn(batch, totals or model.totals(batch), seed)
    return float(loss), {k: float(a / b) for k, (a, b) in sums.items()}


@pytest.mark.parametrize("key", [None, (1, 2)])
def test_half_is_the_labels_and_half_the_teachers(
    key: tuple[int, int] | None,
) -> None:
    """With the student's dropout too; the teacher has none."""
    seed = key and tf.constant(key)
    student, teacher = moved(make_classifier(TARGET)), make_classifier(TARGET)
    batch = batch_of(TARGET, 29, num_rows=9)  # two of them padding
    model = DistilledModel(student, teacher, TASK)
    loss, means = figures(model, batch, seed=seed)
    labels = batch[LABELS].numpy()[:7, 0]
    soft = np.average(
        distances(
            student.logits(batch, seed)[:7], teacher.logits(batch, None)[:7]
        ),
        weights=np.array(TARGET.class_weights)[labels],
    )
    own, _ = figures(student, batch, seed=seed)
    assert soft > 0.1
    assert means["task_loss"] == pytest.approx(own, rel=1e-5)
    assert means["soft_target_loss"] == pytest.approx(soft, rel=1e-4)
    assert loss == pytest.approx((own + soft) / 2, rel=1e-5)
    assert "accuracy" in means
    kept = [id(v) for v in student.weights]
    assert [id(v) for v in model.weights] == kept
    assert {id(b.variable) for b in model.mappings()} == set(kept)


def test_packed_rows_are_taught_as_padded_ones_are() -> None:
    labels = {LABELS: labels_of(TARGET, len(ROWS))}
    model = DistilledModel(
        moved(make_classifier(TARGET)), make_classifier(TARGET), TASK
    )
    padded, packed = (
        figures(
            model,
            as_tensors(
                InMemoryBatches(
                    ROWS, labels, 12, 29, 3, num_micro_batches=n
                ).batch(1)
            ),
        )
        for n in (0, 1)
    )
    assert packed[0] == pytest.approx(padded[0], rel=1e-5)
    assert packed[1] == pytest.approx(padded[1], rel=1e-5)


@pytest.mark.parametrize("padding_in_loss", [True, False])
def test_both_ends_of_a_span_are_taught(padding_in_loss: bool) -> None:
    student, teacher = (make_span_model(padding_in_loss) for _ in range(2))
    moved(student)
    batch = span_batch_of(5)
    loss, means = figures(DistilledModel(student, teacher, TASK), batch)
    mask = batch["input_mask"].numpy() > 0
    both = []
    for end in ("start", "end"):
        logits = [
            np.asarray(m.outputs_by_name(batch)[f"{end}_logits"], np.float64)
            for m in (student, teacher)
        ]
        if not padding_in_loss:
            logits = [np.where(mask, x, -200.0) for x in logits]
        both.append(distances(*logits))
    soft = np.mean(both)
    own, _ = figures(student, batch)
    assert soft > 0.01
    assert means["soft_target_loss"] == pytest.approx(soft, rel=1e-4)
    assert loss == pytest.approx((own + soft) / 2, rel=1e-5)


def test_pieces_add_up_and_only_the_student_has_gradients() -> None:
    student, teacher = moved(make_classifier(TARGET)), make_classifier(TARGET)
    model, batch = DistilledModel(student, teacher, TASK), batch_of(TARGET, 29)
    totals = model.totals(batch)
    parts = [
        figures(model, {k: v[rows] for k, v in batch.items()}, totals)[0]
        for rows in (slice(0, 3), slice(3, 7))
    ]
    variables = [v.value for v in (*model.weights, *teacher.weights)]
    with tf.GradientTape() as tape, fused_ops.uncompiled():
        loss, _ = model.loss_fn(batch, totals, None)
    assert sum(parts) == pytest.approx(float(loss), rel=1e-5)
    found = [x is not None for x in tape.gradient(loss, variables)]
    half = len(variables) // 2
    assert found == [True] * half + [False] * half
