"""Tests of tasks/distillation/pretraining.py."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import load_checkpoint
from bert_keras.tasks.distillation.config import DistilBertLoss, evenly_spaced
from bert_keras.tasks.distillation.pretraining import (
    Distillation,
    student_config,
)
from tests.conftest import GOLDEN, TINY, tiny_batch
from tests.tasks.pretraining.test_model import as_tensors, packed

Batch = dict[str, np.ndarray]


def distillation(
    layers: tuple[int, ...] = (0, 2), at_masks: bool = False
) -> Distillation:
    """From google-research/bert's tiny model, with these of its layers."""
    settings = DistilBertLoss(soft_targets_at_masks=at_masks)
    config = student_config(TINY, len(layers))
    model = Distillation(config, TINY, settings)
    load_checkpoint(model.teacher.mappings(), str(GOLDEN / "tiny_bert"))
    model.copy_layers(layers)
    return model


def one_segment(batch: Batch) -> Batch:
    return {**batch, "segment_ids": np.zeros_like(batch["segment_ids"])}


def test_divergence_of_two_classes() -> None:
    # softened targets (ln 3, 0): (3/4, 1/4) against (1/2, 1/2)
    logits, targets = tf.constant([[0.0, 0.0]]), tf.math.log([[9.0, 1.0]])
    with tf.GradientTape() as tape:
        tape.watch([logits, targets])
        distance = fused_ops.kl_divergence(logits, targets, 2.0)
    expected = 0.75 * np.log(1.5) + 0.25 * np.log(0.5)
    np.testing.assert_allclose(distance, [expected], rtol=1e-6)
    to_logits, to_targets = tape.gradient(distance, [logits, targets])
    np.testing.assert_allclose(to_logits, [[-0.125, 0.125]], rtol=1e-6)
    assert to_targets is None


def test_cosine_of_two_vectors() -> None:
    x, y = tf.constant([[3.0, 4.0], [1.0, 0.0]]), tf.constant([[4.0, 3.0]] * 2)
    # 24 / 25 and 4 / 5
    np.testing.assert_allclose(
        fused_ops.cosine_distance(x, y), [0.04, 0.2], atol=1e-6
    )


def test_layers_are_evenly_spaced() -> None:
    assert evenly_spaced(6, 12) == (0, 2, 4, 7, 9, 11)
    assert evenly_spaced(3, 6) == (0, 2, 5)
    assert evenly_spaced(4, 4) == (0, 1, 2, 3)
    assert evenly_spaced(1, 6) == (0,)


def test_a_student_is_like_its_teacher_but_for_depth_and_token_types() -> None:
    config = student_config(TINY, 2)
    assert (config.family, config.type_vocab_size) == ("distilbert", 0)
    assert (
        dataclasses.replace(
            config, family="bert", type_vocab_size=2, num_hidden_layers=3
        )
        == TINY
    )
    roberta = dataclasses.replace(TINY, family="roberta", type_vocab_size=1)
    assert student_config(roberta, 3) == roberta
    modern = dataclasses.replace(
        TINY, family="modernbert", type_vocab_size=0, num_attention_heads=1
    )
    with pytest.raises(InputError, match="has a modernbert"):
        student_config(modern, 1)


def test_a_student_has_the_layers_that_were_chosen() -> None:
    model = distillation((0, 2))
    batch = as_tensors(one_segment(tiny_batch(5)))
    ids, mask = batch["input_ids"], batch["input_mask"]
    student = model.student.encoder(ids, mask, batch["segment_ids"])
    teacher = model.teacher.encoder(ids, mask, batch["segment_ids"])
    # token types of 0 are in the student's positions
    np.testing.assert_allclose(
        student.embeddings, teacher.embeddings, atol=1e-5
    )
    adder = (1.0 - tf.cast(mask, tf.float32))[:, None, None] * -10000.0
    np.testing.assert_allclose(student.layers[0], teacher.layers[0], atol=1e-5)
    top = model.teacher.encoder.layers[2](teacher.layers[0], adder, None)
    np.testing.assert_allclose(student.layers[1], top, atol=1e-5)
    # and looks at no other
    other = model.student.encoder(ids, mask, 1 - batch["segment_ids"])
    np.testing.assert_array_equal(other.sequence, student.sequence)


def softmax(x: np.ndarray) -> np.ndarray:
    x = np.exp(x.astype(np.float64))
    return x / x.sum(-1, keepdims=True)


@pytest.mark.parametrize("at_masks", [False, True])
def test_the_three_losses_are_what_numpy_makes_of_the_outputs(
    at_masks: bool,
) -> None:
    model, batch = distillation((2, 0), at_masks), tiny_batch(5)
    tensors = as_tensors(batch)
    hidden, scores = [], []
    for part in (model.student, model.teacher):
        sequence = part.encoder(
            tensors["input_ids"], tensors["input_mask"], tensors["segment_ids"]
        ).sequence
        table = part.encoder.embeddings.word_embeddings
        hidden.append(sequence.numpy())
        scores.append(part.masked_lm(sequence, table).numpy())
    student, teacher = (softmax(x / 2.0) for x in scores)
    soft = 4 * np.sum(teacher * np.log(teacher / student), axis=-1)  # [B, S]
    rows = np.arange(5)[:, None]
    places, weights = batch["masked_lm_positions"], batch["masked_lm_weights"]
    own = softmax(scores[0])[rows, places, batch["masked_lm_ids"]]
    masked = (weights * -np.log(own)).sum() / weights.sum()
    x, y = hidden
    norms = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    is_piece = batch["input_mask"]
    cosine = ((1 - (x * y).sum(-1) / norms) * is_piece).sum() / is_piece.sum()
    if at_masks:
        soft = (soft[rows, places] * weights).sum() / weights.sum()
    else:
        soft = (soft * is_piece).sum() / is_piece.sum()
    loss, sums = model.loss_fn(tensors, model.totals(tensors), None)
    means = {name: float(a / b) for name, (a, b) in sums.items()}
    assert means["soft_target_loss"] == pytest.approx(soft, rel=1e-4)
    assert means["masked_lm_loss"] == pytest.approx(masked, rel=1e-5)
    assert means["cosine_loss"] == pytest.approx(cosine, rel=1e-4)
    expected = 5 * soft + 2 * masked + 1 * cosine
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert min(soft, masked, cosine) > 0.01


def test_a_student_that_is_its_teacher_has_nothing_to_learn_from_it() -> None:
    model = distillation((0, 1, 2))
    tensors = as_tensors(one_segment(tiny_batch(5)))
    _, sums = model.loss_fn(tensors, model.totals(tensors), None)
    for name in ("soft_target_loss", "cosine_loss"):
        total, weight = sums[name]
        assert float(total / weight) == pytest.approx(0.0, abs=1e-5)
    _, teachers = model.teacher.loss_fn(
        tensors, model.teacher.totals(tensors), None
    )
    for name in ("masked_lm_loss", "masked_lm_accuracy"):
        assert float(sums[name][0]) == pytest.approx(float(teachers[name][0]))


@pytest.mark.parametrize("has_teacher_dropout", [False, True])
def test_the_teacher_has_no_dropout(has_teacher_dropout: bool) -> None:
    noisy = dataclasses.replace(
        TINY, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )
    own, theirs = (TINY, noisy) if has_teacher_dropout else (noisy, TINY)
    model = Distillation(student_config(own, 2), theirs, DistilBertLoss())
    tensors = as_tensors(tiny_batch(5))
    totals = model.totals(tensors)
    plain, dropped = (
        float(model.loss_fn(tensors, totals, seed)[0])
        for seed in (None, tf.constant([1, 2]))
    )
    is_same = plain == pytest.approx(dropped, rel=1e-6)
    assert is_same == has_teacher_dropout


def loss_and_gradients(
    model: Distillation, batch: Batch, totals: dict[str, tf.Tensor]
) -> tuple[float, list[np.ndarray]]:
    variables = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape, fused_ops.uncompiled():
        loss, _ = model.loss_fn(as_tensors(batch), totals, None)
    gradients = tape.gradient(loss, variables)
    return float(loss), [tf.convert_to_tensor(g).numpy() for g in gradients]


def test_pieces_add_up_packed_or_not_and_padding_is_nothing() -> None:
    model, batch = distillation(), one_segment(tiny_batch(9))
    totals = model.totals(as_tensors(batch))
    loss, gradients = loss_and_gradients(model, batch, totals)
    padded = {
        name: np.concatenate([value, np.zeros_like(value[:2])])
        for name, value in batch.items()
    }
    parts = [
        loss_and_gradients(
            model, {k: v[rows] for k, v in padded.items()}, totals
        )
        for rows in (slice(0, 2), slice(2, 11))
    ]
    assert sum(part for part, _ in parts) == pytest.approx(loss, rel=1e-5)
    _, rows = packed(batch)
    whole = model.totals(as_tensors(rows))
    assert {k: float(v) for k, v in whole.items()} == {
        k: float(v) for k, v in totals.items()
    }
    in_rows, others = loss_and_gradients(model, rows, whole)
    assert in_rows == pytest.approx(loss, rel=1e-5)
    for own, *two, packs in zip(
        gradients, *(part for _, part in parts), others, strict=True
    ):
        np.testing.assert_allclose(sum(two), own, atol=2e-5)
        np.testing.assert_allclose(packs, own, atol=2e-5)


def test_the_student_alone_is_trained_and_kept() -> None:
    model = distillation()
    own = {id(v) for v in model.student.weights}
    assert {id(v) for v in model.weights} == own
    assert {id(b.variable) for b in model.mappings()} == own
    assert not {id(v) for v in model.teacher.variables} & own
    pooler = {id(v) for v in model.encoder.pooler.variables}
    assert {id(v) for v in model.trainable_variables} == own - pooler
