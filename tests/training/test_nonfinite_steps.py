"""Tests of training/nonfinite_steps.py."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.training.distribution import Host
from bert_keras.training.nonfinite_steps import (
    MAX_IN_A_ROW,
    NonFiniteStepHandler,
)

BATCH = {
    "input_ids": np.array([[2, 3, 5], [7, 11, 13]]),
    "weights": tf.constant([[0.5], [0.25]]),
}
GOOD = {"loss": 1.0, "gradient_norm": 2.0, "learning_rate": 0.5}
BAD = {**GOOD, "gradient_norm": float("inf")}


def look(
    bad_steps: NonFiniteStepHandler, first: int, *figures: dict[str, float]
) -> None:
    steps = range(first, first + len(figures))
    bad_steps.look(steps, figures, lambda i: BATCH)


def test_a_bad_step_stops_and_leaves_its_batch(tmp_path: Path) -> None:
    bad_steps = NonFiniteStepHandler(str(tmp_path), Host(0, 1), 0, False)
    with pytest.raises(InputError) as caught:
        look(bad_steps, 16, {**GOOD}, {**BAD}, {**GOOD})
    path = tmp_path / "nonfinite-step-17-host-0.tfrecord"
    for part in ("norm inf at step 17", "rate of 0.5", str(path)):
        assert part in str(caught.value)
    rows = [
        tf.train.Example.FromString(record).features.feature
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]
    assert [list(r["input_ids"].int64_list.value) for r in rows] == [
        [2, 3, 5],
        [7, 11, 13],
    ]
    assert [list(r["weights"].float_list.value) for r in rows] == [
        [0.5],
        [0.25],
    ]
    line = json.loads((tmp_path / "nonfinite_steps.jsonl").read_text())
    assert (line["step"], line["gradient_norm"]) == (17, "inf")


def test_skipped_steps_are_counted_also_after_a_stop(tmp_path: Path) -> None:
    bad_steps = NonFiniteStepHandler(str(tmp_path), Host(0, 1), 0, True)
    figures = [{**GOOD}, {**BAD}, {**GOOD}, {**BAD}]
    look(bad_steps, 1, *figures)
    assert [f["skipped_steps"] for f in figures] == [0, 1, 1, 2]
    again = NonFiniteStepHandler(
        str(tmp_path), Host(0, 1), 3, True
    )  # step 4 is lost
    figures = [{**BAD}]
    look(again, 4, *figures)
    assert figures[0]["skipped_steps"] == 2


def test_a_row_goes_on_after_a_stop(tmp_path: Path) -> None:
    first = NonFiniteStepHandler(str(tmp_path), Host(0, 1), 0, True)
    look(first, 1, {**BAD}, {**GOOD}, *({**BAD} for _ in range(7)))
    again = NonFiniteStepHandler(
        str(tmp_path), Host(0, 1), 8, True
    )  # 3 to 8 are bad
    look(again, 9, *({**BAD} for _ in range(MAX_IN_A_ROW - 7)))
    with pytest.raises(InputError, match="in a row"):
        look(again, MAX_IN_A_ROW + 2, {**BAD})


def test_too_many_in_a_row_stop_the_run(tmp_path: Path) -> None:
    bad_steps = NonFiniteStepHandler(str(tmp_path), Host(1, 2), 0, True)
    look(bad_steps, 1, *({**BAD} for _ in range(MAX_IN_A_ROW - 1)))
    with pytest.raises(InputError, match="in a row"):
        look(bad_steps, MAX_IN_A_ROW, {**BAD})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 10, "the other host's log is not its own"
    assert "nonfinite-step-10-host-1.tfrecord" in names
