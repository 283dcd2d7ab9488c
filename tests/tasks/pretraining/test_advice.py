"""Tests of tasks/pretraining/advice.py, with numbers worked out by hand."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.record_schema import (
    NEXT_SENTENCE,
    pretraining_features,
    unmasked_features,
)
from bert_keras.data.tfrecords import RecordWriter, encode
from bert_keras.tasks.pretraining.advice import (
    PlateauWatch,
    answers,
    first_records,
    guessing,
    labels,
)
from bert_keras.training.monitor import Progress
from tests.conftest import NUM_PREDICTIONS, SEQ_LENGTH, tiny_record

NUM_STEPS = 4000


def test_guessing_by_hand() -> None:
    """Half 7, a quarter 8 and 9: ln(2) / 2 + 2 ln(4) / 4 = 1.5 ln(2)."""
    loss, accuracy = guessing(np.array([7, 8, 7, 9]))
    assert loss == pytest.approx(1.5 * math.log(2))
    assert accuracy == 0.5
    assert guessing(np.array([3])) == (0, 1)
    # of a training text with 1, 7, 7, 9; 8 counts as if it were there once
    loss, accuracy = guessing(np.array([7, 8]), np.array([1, 7, 7, 9]))
    assert (loss, accuracy) == (pytest.approx(1.5 * math.log(2)), 0.5)


def test_guessing_what_is_no_id() -> None:
    """A damaged record is named where training meets it."""
    loss, accuracy = guessing(np.array([7, 7, -1, 2**31 - 1]))
    assert loss == pytest.approx((2 * math.log(2) + 2 * math.log(4)) / 4)
    assert accuracy == 0.5


def test_answers_of_records_without_masks(tmp_path: Path) -> None:
    """[PAD] 0, [CLS] 2 and [SEP] 3 are never masked."""
    path, features = str(tmp_path / "records"), unmasked_features(7)
    with RecordWriter([path]) as writer:
        for ids in ([2, 7, 8, 3, 9, 3, 0], [2, 7, 3, 7, 3, 0, 0]):
            values = {
                "input_ids": ids,
                "segment_lengths": [3, 2],
                "next_sentence_labels": [1],
            }
            writer.write(encode(features, values))
    found = first_records(features, [path, path])
    assert found["input_ids"].shape == (4, 7)
    np.testing.assert_array_equal(
        answers(found, {0, 2, 3}), 2 * [7, 8, 9, 7, 7]
    )


def test_answers_of_records_with_masks(tmp_path: Path) -> None:
    path = str(tmp_path / "records")
    features = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
    record = tiny_record(np.random.default_rng(0)) | {
        "masked_lm_ids": [7, 0, 8, 0, 0],
        "masked_lm_weights": [1.0, 1.0, 1.0, 0.0, 0.0],
    }
    with RecordWriter([path]) as writer:
        writer.write(encode(features, record))
    found = first_records(features, [path])
    assert answers(found, {0}).tolist() == [7, 0, 8]


def test_damaged_records_and_a_dataset_have_no_answers(tmp_path: Path) -> None:
    path = str(tmp_path / "records")
    with RecordWriter([path]) as writer:
        writer.write(b"no example")
    assert first_records(unmasked_features(7), [path]) == {}
    assert answers({}, set()).size == 0


def test_labels_of_next_sentences_without_padding() -> None:
    found = {NEXT_SENTENCE: np.array([[1], [0]])}
    assert labels(found).tolist() == [1, 0]
    found = {
        NEXT_SENTENCE: np.array([[1, 0, 0], [1, 1, 0]]),
        "next_sentence_weights": np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]),
    }
    assert labels(found).tolist() == [1, 0, 1, 1]


def warnings(
    loss: Callable[[int], float], accuracy: float, num_warmup_steps: int = 0
) -> list[str]:
    watch = PlateauWatch((6.75, 0.05))
    said = []
    for step in range(1, NUM_STEPS + 1):
        noise = 0.5 * (-1) ** step
        figures = {
            "masked_lm_loss": loss(step) + noise,
            "masked_lm_accuracy": accuracy,
            "learning_rate": min(1.0, step / max(1, num_warmup_steps)),
        }
        said.append(watch(step, figures, step == NUM_STEPS))
    return [sentence for sentence in said if sentence]


def test_a_plateau_is_told_once() -> None:
    (sentence,) = warnings(lambda step: 6.0, 0.15)
    assert sentence.startswith("step 2,000: ")
    assert "6.00 after 6.00" in sentence
    assert "15.0%" in sentence
    assert "(guessing by frequency alone: 6.75 and 5.0%)" in sentence
    # 1,001 to 3,000 are compared, as a look every 500 steps allows.
    (sentence,) = warnings(lambda step: 6.0, 0.15, num_warmup_steps=700)
    assert sentence.startswith("step 3,000: ")


def test_a_model_that_learns_is_left_alone() -> None:
    assert warnings(lambda step: 7 - step / 4000, 0.1) == []
    assert warnings(lambda step: 2.0, 0.6) == []  # has learnt
    assert warnings(lambda step: math.nan, 0.0) == []  # are told elsewhere
    assert warnings(lambda step: 6.0, 0.15, num_warmup_steps=2500) == []


@pytest.mark.parametrize(
    ("steps", "accuracy", "guess", "is_told"),
    [
        (100, 0.06, 0.05, True),
        (100, 0.08, 0.05, False),
        (99, 0.06, 0.05, False),
        (100, 0.0, None, False),
        (100, 1.0, 1.0, False),
    ],
)
def test_a_short_run_that_learned_nothing_is_told_so(
    steps: int, accuracy: float, guess: float | None, is_told: bool
) -> None:
    guessing = None if guess is None else (6.75, guess)
    watch = PlateauWatch(guessing)
    figures = {
        "masked_lm_loss": 6.0,
        "masked_lm_accuracy": accuracy,
        "learning_rate": 0.1,
    }
    for step in range(1, steps):
        assert watch(step, figures, False) is None
    said = watch(steps, figures, True)
    assert bool(said) == is_told
    if said:
        assert "in the last 100 steps 6.0% of masked tokens" in said
        assert "most frequent one gives 5.0%; train for longer" in said
        assert "or try `bias_correction` first; then a longer warm-up" in said
        watch = PlateauWatch(guessing, corrects_bias=True)
        for step in range(1, steps + 1):
            said = watch(step, figures, step == steps)
        assert said and "or try a longer warm-up" in said


def test_progress_prints_what_its_watch_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress(
        str(tmp_path), 0, 9, lambda step, *_: "half-way" if step == 4 else None
    )
    for step in range(1, 10):
        progress.write([(step, {"loss": 1.0})], 7)
    progress.close()
    assert capsys.readouterr().err.count("WARNING: half-way\n") == 1
    Progress(None, 0, 9, lambda *_: "hosts that stay silent").write(
        [(1, {"loss": 1.0})], 7
    )
    assert "WARNING" not in capsys.readouterr().err
