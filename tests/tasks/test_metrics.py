"""Scores against values worked out by hand."""

import math

import numpy as np
import pytest

from bert_keras.tasks.metrics import (
    class_report,
    classification_metrics,
    confusion_matrix,
    diagnose_classes,
    diagnose_labels,
    diagnose_values,
    multi_label_metrics,
    regression_metrics,
    summarize,
)

# Of class 1: 3 found, 1 missed, 2 wrong; of class 0: 4 found.
LABELS = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
PREDICTED = np.array([1, 1, 1, 0, 1, 1, 0, 0, 0, 0])


def test_two_classes() -> None:
    assert classification_metrics(PREDICTED, LABELS) == pytest.approx(
        {
            "accuracy": 7 / 10,
            "f1": 2 * 3 / (2 * 3 + 1 + 2),
            "macro_f1": (6 / 9 + 8 / 11) / 2,
            "matthews": (3 * 4 - 2 * 1) / math.sqrt(5 * 4 * 6 * 5),
        }
    )


def test_three_classes() -> None:
    labels = np.array([0, 0, 1, 1, 2, 2])
    predicted = np.array([0, 1, 1, 1, 2, 0])
    # Found, missed, wrong: 1 1 1; 2 0 1; 1 1 0. Gorodkin 2004 for the last:
    # (c s - t.p) / sqrt((s^2 - p.p)(s^2 - t.t)), c=4 s=6 t=2,2,2 p=2,3,1.
    assert classification_metrics(predicted, labels) == pytest.approx(
        {
            "accuracy": 4 / 6,
            "f1": 4 / 5,
            "macro_f1": (2 / 4 + 4 / 5 + 2 / 3) / 3,
            "matthews": (4 * 6 - 12) / math.sqrt((36 - 14) * (36 - 12)),
        }
    )


def test_a_report_of_classes() -> None:
    labels = np.array([0, 0, 1, 1, 2, 2])
    predicted = np.array([0, 1, 1, 1, 2, 0])
    classes = np.arange(4)  # the last one never occurs
    names = ["red", "a\tb", "x", "none"]
    text = class_report(
        predicted[:, None] == classes, labels[:, None] == classes, names
    )
    assert text.splitlines() == [
        "label  precision  recall      F1  examples",
        "red       0.5000  0.5000  0.5000         2",
        r"a\tb      0.6667  1.0000  0.8000         2",
        "x         1.0000  0.5000  0.6667         2",
        "none      0.0000  0.0000  0.0000         0",
    ]
    assert confusion_matrix(predicted, labels, names).splitlines() == [
        r"label  red  a\tb  x  none",
        "red      1     1  0     0",
        r"a\tb     0     2  0     0",
        "x        1     0  1     0",
        "none     0     0  0     0",
    ]


@pytest.mark.parametrize(
    ("predicted", "labels", "expected"),
    [
        ([0, 0, 0, 0], [0, 1, 0, 1], (0.5, 0.0, (4 / 6 + 0) / 2, 0.0)),
        ([0, 1, 0, 1], [0, 0, 0, 0], (0.5, 0.0, (4 / 6 + 0) / 2, 0.0)),
        ([0, 0], [0, 0], (1.0, 0.0, 1.0, 0.0)),
        ([1, 1], [1, 1], (1.0, 1.0, 1.0, 0.0)),
    ],
)
def test_one_class_only(
    predicted: list[int], labels: list[int], expected: tuple[float, ...]
) -> None:
    found = classification_metrics(np.array(predicted), np.array(labels))
    assert tuple(found.values()) == pytest.approx(expected)


def test_regression() -> None:
    found = regression_metrics(
        np.array([1.0, 2.0, 4.0, 9.0], np.float32), np.array([1, 3, 2, 4])
    )
    # Means 4 and 2.5; ranks 1 2 3 4 and 1 3 2 4 differ by 0 1 1 0.
    assert found == pytest.approx(
        {
            "mean_squared_error": (0 + 1 + 4 + 25) / 4,
            "pearson": 11 / math.sqrt(38 * 5),
            "spearman": 1 - 6 * 2 / (4 * 15),
        }
    )


def test_equal_values_share_their_ranks() -> None:
    found = regression_metrics(
        np.array([1.0, 2.0, 2.0, 7.0]), np.array([1.0, 3.0, 2.0, 4.0])
    )
    # Ranks 1 2.5 2.5 4 and 1 3 2 4; means 3 and 2.5.
    assert found["spearman"] == pytest.approx(4.5 / math.sqrt(4.5 * 5), 1e-12)
    assert found["pearson"] == pytest.approx(9 / math.sqrt(22 * 5), 1e-12)


@pytest.mark.parametrize(
    "predicted", [[0.1] * 4, [1 + 1e-14, 1, 1, 1]], ids=["equal", "nearly"]
)
def test_constant_predictions_are_scored_without_a_warning(
    predicted: list[float],
) -> None:
    found = regression_metrics(np.array(predicted), np.array([1, 3, 2, 4.0]))
    assert -1 <= found["pearson"] <= 0
    assert -1 <= found["spearman"] <= 0
    if len(set(predicted)) == 1:
        assert (found["pearson"], found["spearman"]) == (0, 0)


def test_a_single_value() -> None:
    one = np.array([3.0])
    assert regression_metrics(one, one + 2) == {
        "mean_squared_error": 4.0,
        "pearson": 0.0,
        "spearman": 0.0,
    }


def test_several_labels() -> None:
    labels = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0]], np.float32)
    predicted = np.array([[1, 0, 0], [1, 0, 1], [0, 0, 0]], bool)
    # Found, missed, wrong by label: 2 0 0; 0 1 0; 0 0 1.
    assert multi_label_metrics(predicted, labels) == pytest.approx(
        {
            "accuracy": 2 / 3,
            "micro_f1": 2 * 2 / (2 * 2 + 1 + 1),
            "macro_f1": (1 + 0 + 0) / 3,
        }
    )


def test_a_choice_of_one_label() -> None:
    labels = np.array([[1], [1], [0], [0]], np.float32)
    predicted = np.array([[1], [0], [0], [0]], bool)
    assert multi_label_metrics(predicted, labels) == pytest.approx(
        {
            "accuracy": 3 / 4,
            "micro_f1": 2 / 3,
            "macro_f1": 2 / 3,
        }
    )


def test_summary_of_runs() -> None:
    assert summarize([0.5, 0.8, 0.8]) == pytest.approx(
        {
            "median": 0.8,
            "highest": 0.8,
            "lowest": 0.5,
            "spread": math.sqrt((0.04 + 0.01 + 0.01) / (3 - 1)),
        }
    )
    assert summarize([0.25])["spread"] == 0.0


NAMES = ("good", "fair", "poor")


def test_one_class_predicted_is_named() -> None:
    labels = np.array([0, 2, 0, 1])
    sentence = diagnose_classes(np.full(4, 2), labels, [0.1] * 10, NAMES)
    assert sentence is not None
    assert "'poor' is predicted for all 4 examples" in sentence
    assert "25.0%" in sentence
    assert diagnose_classes(np.full(4, 2), np.full(4, 1), [], NAMES) is None, (
        "one label"
    )
    assert diagnose_classes(np.array([2, 2, 2, 1]), labels, [], NAMES) is None


def test_class_weights_move_the_prior() -> None:
    labels = np.array([0, 0, 0, 2])
    predicted = np.array([0, 0, 2, 0])
    losses = [0.6]  # above the prior of 3:1, below that of 1:1, log 2 = 0.69
    weights = (4 / 6, 5.0, 4 / 2)
    assert diagnose_classes(predicted, labels, losses, NAMES) is not None
    assert diagnose_classes(predicted, labels, losses, NAMES, weights) is None
    sentence = diagnose_classes(predicted, labels, [0.68], NAMES, weights)
    assert sentence is not None
    assert "0.693" in sentence
    one_counts = (1.0, 5.0, 0.0)
    assert (
        diagnose_classes(predicted, labels, losses, NAMES, one_counts) is None
    )


def test_no_label_predicted_is_named() -> None:
    labels = np.array([[1.0, 0], [1, 1], [0, 0]])
    nothing = np.zeros((3, 2), bool)
    sentence = diagnose_labels(nothing, labels)
    assert sentence is not None
    assert "none of the 3 labels of 3 examples" in sentence
    assert diagnose_labels(nothing, np.zeros((3, 2))) is None
    one = nothing.copy()
    one[2, 1] = True
    assert diagnose_labels(one, labels) is None


def test_values_no_better_than_the_mean_are_named() -> None:
    """The targets' variance is 2/3: (1 + 0 + 1) / 3."""
    targets = np.array([1.0, 2.0, 3.0])
    for values, error in (([2.0, 2.0, 2.0], "0.6667"), ([3, 2, 1], "2.667")):
        sentence = diagnose_values(np.array(values), targets)
        assert sentence is not None
        assert f"error is {error}, where" in sentence
        assert "costs 0.6667" in sentence
    assert diagnose_values(np.array([1.9, 2, 2.1]), targets) is None
    assert diagnose_values(np.ones(3), np.full(3, 2.0)) is None


def test_a_loss_that_stays_at_the_prior_is_named() -> None:
    labels = np.array([0, 0, 0, 1])
    predicted = np.array([0, 0, 1, 0])
    prior = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    # Only the last tenth counts: 2 of 20 losses.
    learnt = [2.0] * 18 + [0.98 * prior, 0.94 * prior]
    stuck = [0.1] * 18 + [0.98 * prior, 0.98 * prior]
    assert diagnose_classes(predicted, labels, learnt, NAMES) is None
    sentence = diagnose_classes(predicted, labels, stuck, NAMES)
    assert sentence is not None
    assert f"{prior:.3f}" in sentence
