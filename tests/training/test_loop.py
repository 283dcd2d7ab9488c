"""Tests of training/loop.py: one step in all the ways to divide it."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.modeling import fused_ops
from bert_keras.tasks.pretraining.model import Pretraining
from bert_keras.training import loop as loop_module
from bert_keras.training.checkpoints import saved_states, step_of
from bert_keras.training.config import LoopConfig, OptimizerConfig
from bert_keras.training.distribution import Host
from bert_keras.training.loop import (
    Evaluation,
    StepFunction,
    _as_computed,
    _fold,
)
from bert_keras.training.monitor import LOG
from bert_keras.training.optimization import AdamW
from tests.conftest import ONE_LAYER, tiny_batch

DROPOUT = dataclasses.replace(
    ONE_LAYER, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
)
ONE = tf.distribute.get_strategy()


def run_steps(
    model: Pretraining, batches: list[dict[str, np.ndarray]], **loop: Any
) -> list[dict[str, float]]:
    optimizer = AdamW(model.trainable_variables, OptimizerConfig(1e-3, 10, 2))
    run = StepFunction(model, optimizer, ONE, LoopConfig(**loop))
    stacked = {
        name: tf.stack([batch[name] for batch in batches])
        for name in batches[0]
    }
    return run(stacked, 0)


def fresh(model: Pretraining, start: list[np.ndarray]) -> Pretraining:
    for variable, value in zip(model.trainable_variables, start, strict=True):
        variable.assign(value)
    return model


@pytest.mark.slow
def test_many_steps_a_call_are_the_single_ones() -> None:
    model = Pretraining(DROPOUT)
    start = [v.numpy() for v in model.trainable_variables]
    batches = [tiny_batch(4, seed) for seed in range(3)]
    at_once = run_steps(model, batches)
    after = [v.numpy() for v in model.trainable_variables]
    fresh(model, start)
    optimizer = AdamW(model.trainable_variables, OptimizerConfig(1e-3, 10, 2))
    run = StepFunction(model, optimizer, ONE, LoopConfig())
    for step, batch in enumerate(batches):
        single = {name: value[None] for name, value in batch.items()}
        assert run(single, step) == at_once[step : step + 1]
    for variable, value in zip(model.trainable_variables, after, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


class Batches:
    """A source of tiny batches."""

    @property
    def tracked(self) -> Mapping[str, Any]:
        return {}

    def batch(self, step: int) -> Mapping[str, Any]:
        return tiny_batch(4, step)

    def examples(
        self, step: int, batch: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        return batch

    def num_tokens(self, batch: Mapping[str, Any]) -> int:
        return int(batch["input_ids"].size)


def trained(folder: Path, **loop: Any) -> tuple[list[Any], list[np.ndarray]]:
    """Ten steps: what is told of each, and the weights."""
    keras.utils.set_random_seed(3)
    model = Pretraining(ONE_LAYER)
    optimizer = AdamW(model.trainable_variables, OptimizerConfig(1e-3, 10, 2))
    run = StepFunction(model, optimizer, ONE, LoopConfig(**loop))
    told: list[Any] = []

    def tell(step: int, figures: dict[str, float]) -> None:
        del figures["tokens_per_second"]
        told.append((step, figures))

    end = loop_module.train(run, Batches(), str(folder), callback=tell)
    assert end == 10
    return told, [v.numpy() for v in model.trainable_variables]


@pytest.mark.slow
def test_several_steps_a_call_are_told_logged_and_saved_like_single_ones(
    tmp_path: Path,
) -> None:
    runs = {
        name: trained(
            tmp_path / name, save_checkpoints_steps=5, steps_per_call=count
        )
        for name, count in (("single", 1), ("four", 4))
    }
    single, four = runs["single"], runs["four"]
    assert [step for step, _ in single[0]] == list(range(1, 11))
    assert four[0] == single[0]
    for ours, theirs in zip(four[1], single[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for name in runs:
        states = saved_states(str(tmp_path / name))
        assert [step_of(state) for state in states] == [10, 5, 0]
        log = (tmp_path / name / LOG).read_text().splitlines()
        assert [json.loads(line)["step"] for line in log] == list(range(1, 11))


@pytest.mark.slow
def test_batches_of_other_shapes_share_one_graph() -> None:
    model = Pretraining(DROPOUT)
    start = [v.numpy() for v in model.trainable_variables]
    small, large = tiny_batch(4, 0), tiny_batch(6, 1)
    wide = ("input_ids", "input_mask", "segment_ids")
    large = {k: v[:, :23] if k in wide else v for k, v in large.items()}
    large["masked_lm_positions"] = large["masked_lm_positions"] % 23
    seen: list[list[dict[str, float]]] = []
    for takes_any_shape in (True, False):
        fresh(model, start)
        optimizer = AdamW(
            model.trainable_variables, OptimizerConfig(1e-3, 9, 0)
        )
        run = StepFunction(model, optimizer, ONE, LoopConfig())
        assert run.takes_any_shape
        run.takes_any_shape = takes_any_shape
        seen.append([])
        for step, batch in enumerate((small, large, small)):
            stacked = {name: value[None] for name, value in batch.items()}
            seen[-1] += run(stacked, step)
        count = run._steps.experimental_get_tracing_count()
        assert count == (1 if takes_any_shape else 2)
    for figures, expected in zip(*seen, strict=True):
        assert figures == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_xla_and_accumulation_change_nothing() -> None:
    model = Pretraining(ONE_LAYER)
    start = [v.numpy() for v in model.trainable_variables]
    batches = [tiny_batch(8, seed) for seed in range(3)]
    plain = run_steps(model, batches)
    after = [v.numpy() for v in model.trainable_variables]
    ways: list[dict[str, Any]] = [
        {"use_xla": True},
        {"num_accumulation_steps": 4},
    ]
    for way in ways:
        other = run_steps(fresh(model, start), batches, **way)
        for ours, theirs in zip(plain, other, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-5)
        pairs = zip(model.trainable_variables, after, strict=True)
        for variable, value in pairs:
            np.testing.assert_allclose(variable.numpy(), value, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loop", [{}, {"num_accumulation_steps": 2}, {"use_xla": True}]
)
def test_narrow_gradients_are_the_wide_ones(
    loop: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bfloat16 the weights' gradients stay as their products gave them."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = Pretraining(ONE_LAYER)
    finally:
        keras.config.set_dtype_policy("float32")
    start = [v.numpy() for v in model.trainable_variables]
    batches = [tiny_batch(4, seed) for seed in range(2)]
    found: list[tf.DType] = []

    def as_computed(gradient: tf.Tensor) -> tf.Tensor:
        found.append(_as_computed(gradient).dtype)
        return _as_computed(gradient)

    monkeypatch.setattr(loop_module, "_as_computed", as_computed)
    narrow = run_steps(model, batches, **loop)
    after = [v.numpy() for v in model.trainable_variables]
    kernels = [v for v in model.trainable_variables if "kernel" in v.path]
    assert found.count(tf.bfloat16) >= len(kernels) == 4 + 2
    monkeypatch.setattr(loop_module, "_as_computed", lambda x: x)
    wide = run_steps(fresh(model, start), batches, **loop)
    for ours, theirs in zip(narrow, wide, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6)
    for variable, value in zip(model.trainable_variables, after, strict=True):
        np.testing.assert_allclose(variable.numpy(), value, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loop",
    [{}, {"use_xla": True}, {"num_accumulation_steps": 4}],
    ids=["plain", "xla", "accumulated"],
)
def test_a_step_that_is_not_finite_changes_nothing(
    loop: dict[str, Any],
) -> None:
    """Three steps, the second bad: as the others without it."""
    model = Pretraining(ONE_LAYER)
    optimizer = AdamW(model.trainable_variables, OptimizerConfig(1e-3, 10, 0))
    state = [v.value for v in model.trainable_variables]
    state += optimizer.first_moments + optimizer.second_moments
    start = [v.numpy() for v in state]
    batches = [
        {k: tf.constant(v[None]) for k, v in tiny_batch(4, seed).items()}
        for seed in range(3)
    ]
    run = StepFunction(model, optimizer, ONE, LoopConfig(**loop))
    run(batches[0], 0)
    run(batches[2], 2)
    expected = [v.numpy() for v in state]
    for variable, value in zip(state, start, strict=True):
        variable.assign(value)
    weights = batches[1]["masked_lm_weights"].numpy()
    weights[0, 2, 0] = np.nan  # in one row, so in one micro-batch
    batches[1]["masked_lm_weights"] = tf.constant(weights)
    if loop:
        figures = [run(batch, i)[0] for i, batch in enumerate(batches)]
    else:  # in one call, which is traced by itself
        figures = run(
            {k: tf.concat([b[k] for b in batches], 0) for k in batches[0]}, 0
        )
    assert [np.isfinite(f["loss"]) for f in figures] == [True, False, True]
    for variable, value in zip(state, expected, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_no_two_dropouts_share_a_key() -> None:
    keys = {
        tuple(
            np.asarray(fused_ops.dropout_seed(_fold(_fold(run, step), i), site))
        )
        for run in (tf.constant([7, 0]), tf.constant([8, 0]))
        for step in range(3)
        for i in range(3)  # a replica, or a micro-batch
        for site in range(5)
    }
    assert len(keys) == 2 * 3 * 3 * 5


@pytest.mark.slow
def test_micro_batches_draw_different_masks() -> None:
    model = Pretraining(DROPOUT)
    step = StepFunction(
        model,
        AdamW(model.trainable_variables, OptimizerConfig()),
        ONE,
        LoopConfig(num_accumulation_steps=2),
    )
    one_row = tiny_batch(1)
    twice = {k: tf.constant(np.repeat(v, 2, 0)) for k, v in one_row.items()}
    row = {name: value[:1] for name, value in twice.items()}
    totals, key = model.totals(twice), tf.constant([3, 5])
    parts = [
        float(step.micro_step(row, totals, _fold(key, i))[1]) for i in (0, 1)
    ]
    assert parts[0] != parts[1]
    _, loss, _ = step._accumulate(twice, totals, key, tf.constant(0))
    assert float(loss) == pytest.approx(sum(parts), rel=1e-6)


@pytest.mark.slow
def test_a_batch_that_grows_is_all_read() -> None:
    """Steps of 1, 2 and 3 of 3 micro-batches are plain steps of those rows."""
    model = Pretraining(ONE_LAYER)
    start = [v.numpy() for v in model.trainable_variables]
    ramp = LoopConfig(num_accumulation_steps=3, batch_ramp_steps=3)
    sizes = [2 * ramp.num_micro_batches(step) for step in range(4)]
    assert sizes == [2, 4, 6, 6]
    seen: list[list[dict[str, float]]] = []
    for config in (ramp, LoopConfig()):
        fresh(model, start)
        optimizer = AdamW(
            model.trainable_variables, OptimizerConfig(1e-3, 9, 0)
        )
        run = StepFunction(model, optimizer, ONE, config)
        seen.append([])
        for step, size in enumerate(sizes):
            batch = tiny_batch(size, step)
            stacked = {name: value[None] for name, value in batch.items()}
            seen[-1] += run(stacked, step)
    for figures, expected in zip(*seen, strict=True):
        assert figures == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_evaluation_divides_once() -> None:
    model = Pretraining(ONE_LAYER)
    batches = [
        {
            name: tf.constant(value)
            for name, value in tiny_batch(4, seed).items()
        }
        for seed in range(3)
    ]
    results = Evaluation(model, ONE, Host(0, 1))(batches)
    assert set(results) == {"loss", *model.metric_names}
    together = {
        name: tf.concat([batch[name] for batch in batches], 0)
        for name in batches[0]
    }
    _, sums = model.loss_fn(together, model.totals(together), None)
    for name, (total, weight) in sums.items():
        assert results[name] == pytest.approx(float(total / weight), rel=1e-5)
    each = [float(model.loss_fn(b, model.totals(b), None)[0]) for b in batches]
    assert results["loss"] == pytest.approx(np.mean(each), rel=1e-5)
