"""Tests of tasks/classification/label_types.py."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.tfrecords import encode
from bert_keras.errors import InputError
from bert_keras.tasks.classification.label_types import (
    LABELS,
    LabelType,
    MultiLabel,
    Regression,
    SingleLabel,
    make_target,
)

CLASSES = SingleLabel(("a", "b", "c"))
TAGS = MultiLabel(("red", "green", "blue"))
# By these numbers e^x / (1 + e^x) is 3/4, 1/4 and 1/2.
THREE_QUARTERS = np.log(3.0)
QUARTER = -THREE_QUARTERS


def numbers(target: LabelType, *labels: str | None) -> np.ndarray:
    whole = target.feature.dtype == "int64"
    encoded = [target.encode(label) for label in labels]
    return np.array(encoded, np.int32 if whole else np.float32)


def test_one_class_by_hand() -> None:
    # (1, 2, 5) / 8 and (1/3, 1/3, 1/3)
    logits = np.log(np.array([[1.0, 2, 5], [7, 7, 7]], np.float32))
    labels = numbers(CLASSES, "b", "c")
    assert labels.tolist() == [[1], [2]]
    np.testing.assert_allclose(
        CLASSES.scores(logits), [[1 / 8, 2 / 8, 5 / 8], [1 / 3] * 3], rtol=1e-6
    )
    losses = CLASSES.losses(logits, labels)
    np.testing.assert_allclose(losses, np.log([4.0, 3.0]), rtol=1e-6)


def test_large_logits_are_no_trouble() -> None:
    logits = np.array([[1000.0, -1000.0, 1000.0]], np.float32)
    np.testing.assert_array_equal(CLASSES.scores(logits), [[0.5, 0, 0.5]])
    assert CLASSES.losses(logits, np.array([[1]])) == pytest.approx(
        [2000 + np.log(2)]
    )
    np.testing.assert_array_equal(TAGS.scores(logits), [[1, 0, 1]])
    losses = TAGS.losses(logits, numbers(TAGS, "red,green"))
    np.testing.assert_allclose(losses, [2000 / 3])


def test_several_classes_by_hand() -> None:
    logits = np.array([[THREE_QUARTERS, QUARTER, 0]], np.float32)
    labels = numbers(TAGS, " blue, green , ")
    assert labels.tolist() == [[0, 1, 1]]
    np.testing.assert_allclose(
        TAGS.scores(logits), [[3 / 4, 1 / 4, 1 / 2]], rtol=1e-6
    )
    # 1/4, 1/4 and 1/2 were the probabilities of what is so
    np.testing.assert_allclose(
        TAGS.losses(logits, labels), [np.log(32) / 3], rtol=1e-6
    )


def test_a_number_by_hand() -> None:
    target = Regression()
    logits = np.array([[1.5], [-2.0]], np.float32)
    labels = numbers(target, "3", "-2e0")
    assert labels.tolist() == [[3.0], [-2.0]]
    np.testing.assert_array_equal(target.losses(logits, labels), [2.25, 0.0])
    np.testing.assert_array_equal(target.scores(logits), logits)


def test_class_weights() -> None:
    target = SingleLabel(("a", "b", "c"), (0.5, 4.0, 1.0))
    labels = tf.constant(numbers(target, "b", "a", "c", "b"))
    rows = tf.constant([1.0, 1.0, 1.0, 0.0])
    weights = target.weights(labels, rows)
    np.testing.assert_array_equal(weights, [4.0, 0.5, 1.0, 0.0])
    for other in (CLASSES, TAGS, Regression()):
        np.testing.assert_array_equal(other.weights(labels, rows), rows)


def test_accuracy_in_training_is_plain_under_class_weights() -> None:
    """The first of three rows is right: 1/3, not 1 / (1 + 4 + 4)."""
    target = SingleLabel(("a", "b"), (1.0, 4.0))
    odds = np.array([[3, 1], [1, 1], [3, 1], [1, 3]], np.float32)
    labels = tf.constant(numbers(target, "a", "b", "b", "b"))
    rows = tf.constant([1.0, 1.0, 1.0, 0.0])
    total, sums = target.loss(tf.constant(np.log(odds)), labels, rows)
    # probabilities 3/4, 1/2 and 1/4
    expected = np.log(4 / 3) + 4 * np.log(2) + 4 * np.log(4)
    assert float(total) == pytest.approx(expected, rel=1e-6)
    assert [float(x) for x in sums["accuracy"]] == [1.0, 3.0]


def test_what_labels_there_are_is_told() -> None:
    assert CLASSES.describe(numbers(CLASSES, "c", "a", "c")) == (
        "c: 2, a: 1, b: 0"
    )
    many = SingleLabel(tuple(map(str, range(15))))
    labels = numbers(many, *map(str, range(14)), "3", "3")
    assert many.describe(labels).startswith("3: 3, 0: 1, 1: 1, ")
    assert many.describe(labels).endswith(", 11: 1, 3 others: 0 to 1")
    assert TAGS.describe(numbers(TAGS, "red,blue", "", "red")) == (
        "red: 2, blue: 1, green: 0; 1 have no label"
    )
    assert Regression().describe(numbers(Regression(), "2", "-1", "5")) == (
        "-1 to 5, mean 2"
    )


@pytest.mark.parametrize(
    ("target", "labels", "metric"),
    [
        (CLASSES, ["c", "a", "c", "a", "b"], "accuracy"),
        (TAGS, ["red", "", "blue,green", "blue", "red"], "label_accuracy"),
        (Regression(), ["1", "0.25", "-3", "2", "0"], "squared_error"),
    ],
)
def test_training_and_evaluation_agree(
    target: LabelType, labels: list[str], metric: str
) -> None:
    rng = np.random.default_rng(4)
    logits = rng.normal(0, 3, (5, target.num_outputs)).astype(np.float32)
    weights = np.array([1.0, 2.0, 0.0, 0.5, 1.0], np.float32)
    encoded = numbers(target, *labels)
    total, sums = target.loss(
        tf.constant(logits), tf.constant(encoded), tf.constant(weights)
    )
    losses = target.losses(logits, encoded)
    assert losses.shape == (5,)
    assert float(total) == pytest.approx(float(losses @ weights), rel=1e-6)
    value, weight = sums[metric]
    assert float(weight) == 4.5
    right = {
        "accuracy": lambda: logits.argmax(-1) == encoded[:, 0],
        "label_accuracy": lambda: ((logits > 0) == encoded).mean(axis=-1),
        "squared_error": lambda: losses,
    }[metric]()
    assert float(right @ weights) > 0
    assert float(value) == pytest.approx(float(right @ weights), rel=1e-6)


def test_metrics_are_those_asked_for() -> None:
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    two = SingleLabel(("no", "yes"))
    labels = numbers(two, "yes", "no", "yes", "no")
    # one of two "no" is taken for a "yes": precision 2/3, recall 1
    assert two.evaluate(("accuracy", "f1"), scores, labels) == pytest.approx(
        {"accuracy": 0.75, "f1": 0.8}
    )
    several = MultiLabel(("no", "yes"))
    labels = numbers(several, "yes", "no", "no,yes", "yes")
    assert several.evaluate(("accuracy",), scores, labels) == {"accuracy": 0.75}
    target = Regression()
    values = np.array([[1.0], [2.0], [3.0]])
    labels = numbers(target, "2", "4", "6")
    assert target.evaluate(("mean_squared_error",), values, labels) == {
        "mean_squared_error": pytest.approx(14 / 3)
    }


@pytest.mark.parametrize("target", [CLASSES, TAGS, Regression()])
def test_a_record_takes_what_encode_gives(target: LabelType) -> None:
    for label in (None, *(target.labels or ("2.5",))):
        assert encode([target.feature], {LABELS: target.encode(label)})
    assert set(target.encode(None)) == {0}


@pytest.mark.parametrize(
    ("target", "label", "message"),
    [
        (CLASSES, "d", "'d' is not among a, b, c"),
        (CLASSES, "", "'' is not among a, b, c"),
        (TAGS, "red, pink", "'pink' is not among red, green, blue"),
        (Regression(), "much", "'much' is not a number"),
        (Regression(), "nan", "'nan' is not a number"),
        (Regression(), "inf", "'inf' is not a number"),
    ],
)
def test_unknown_labels(target: LabelType, label: str, message: str) -> None:
    with pytest.raises(InputError, match=f"the label {message}"):
        target.encode(label)


def test_separators_are_ones_own() -> None:
    target = MultiLabel(("a,b", "c"), separator=";")
    assert target.encode("c; a,b") == [1, 1]


def test_a_list_of_labels_is_not_cut_at_the_separator() -> None:
    assert MultiLabel(("a,b", "c", "d")).encode(("d", "a,b")) == [1, 0, 1]
    assert MultiLabel(("a,b", "c")).encode(()) == [0, 0]
    assert CLASSES.encode(("b",)) == [1]
    with pytest.raises(InputError, match=r"2 labels.*`target=multi_label"):
        CLASSES.encode(("a", "b"))
    assert Regression().encode(("2.5",)) == [2.5]
    with pytest.raises(InputError, match="0 labels.*a number"):
        Regression().encode(())


def test_spellings_of_a_whole_number_are_one_class() -> None:
    target = SingleLabel(("0", "1", "1.5", "07"))
    encoded = [target.encode(x) for x in ("0.0", "1.00", "1.", "1.5", "07")]
    assert encoded == [[0], [1], [1], [2], [3]]
    assert SingleLabel(("0.0", "1.0")).encode("1") == [1]
    for label in ("7", "1.50", "1e0", "10"):  # codes may begin with a zero
        with pytest.raises(InputError, match="is not among 0, 1, 1.5, 07"):
            target.encode(label)


@pytest.mark.parametrize("target", [CLASSES, TAGS, Regression()])
def test_targets_are_made_of_what_task_json_says(target: LabelType) -> None:
    assert make_target(target.kind, target.labels) == target
