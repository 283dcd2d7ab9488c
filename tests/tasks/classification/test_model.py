"""Tests of targets, the classifier, and frozen layers and their depths."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.batching import InMemoryBatches
from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.data.tfrecords import encode
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import load_checkpoint
from bert_keras.tasks.classification.model import (
    LABELS,
    LabelType,
    MultiLabel,
    Regression,
    SingleLabel,
    TextClassifier,
    make_target,
    pool_windows,
)
from tests.conftest import GOLDEN, TINY
from tests.tasks.learning import assert_packing_changes_nothing

pytestmark = pytest.mark.usefixtures("uncompiled_chains")

TARGETS: dict[str, LabelType] = {
    "single label": SingleLabel(("a", "b", "c"), (0.5, 3.0, 2.0)),
    "multi-label": MultiLabel(("a", "b")),
    "regression": Regression(),
}
CLASSES = SingleLabel(("a", "b", "c"))
TAGS = MultiLabel(("red", "green", "blue"))
# By these numbers e^x / (1 + e^x) is 3/4, 1/4 and 1/2.
THREE_QUARTERS = np.log(3.0)
QUARTER = -THREE_QUARTERS
ROWS = [
    InputFeatures(
        [2 + i, *[7] * i, 3 + i], [0] * (1 + i // 2) + [1] * (1 + i - i // 2)
    )
    for i in range(14)
]


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


def test_metrics() -> None:
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    two = SingleLabel(("no", "yes"))
    labels = numbers(two, "yes", "no", "yes", "no")
    # one of two "no" is taken for a "yes": precision 2/3, recall 1
    found = two.metrics(scores, labels)
    assert (found["accuracy"], found["f1"]) == pytest.approx((0.75, 0.8))
    several = MultiLabel(("no", "yes"))
    labels = numbers(several, "yes", "no", "no,yes", "yes")
    assert several.metrics(scores, labels)["accuracy"] == 0.75
    target = Regression()
    values = np.array([[1.0], [2.0], [3.0]])
    labels = numbers(target, "2", "4", "6")
    found = target.metrics(values, labels)
    assert found["mean_squared_error"] == pytest.approx(14 / 3)


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
        (Regression(), "4_5", "'4_5' is not a number"),
    ],
)
def test_unknown_labels(target: LabelType, label: str, message: str) -> None:
    with pytest.raises(InputError, match=f"the label {message}"):
        target.encode(label)


def test_separators_are_ones_own() -> None:
    target = MultiLabel(("a,b", "c"), separator=";")
    assert target.encode("c; a,b") == [1, 1]
    assert target.encode("['a,b']") == [1, 0]


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


def make(target: LabelType) -> TextClassifier:
    """A classifier whose encoder is the golden one."""
    model = TextClassifier(TINY, target)
    report = load_checkpoint(model.mappings(), str(GOLDEN / "tiny_bert"))
    assert set(report.missing) == {"output_weights", "output_bias"}
    rng = np.random.default_rng(1)
    for variable in model.head.weights:
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
    return float(model.loss_fn(batch, model.totals(batch), seed)[0])


@pytest.fixture(scope="module", params=TARGETS)
def model(request: pytest.FixtureRequest) -> TextClassifier:
    return make(TARGETS[request.param])


def test_loss_is_the_mean_of_the_examples_losses(model: TextClassifier) -> None:
    batch, target = batch_of(model.target, 29), model.target
    logits = model.outputs_by_name(batch)["logits"].numpy()
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
    weights, bias = (v.numpy() for v in model.head.weights)
    expected = pooled.numpy() @ weights.T + bias
    np.testing.assert_allclose(
        model.outputs_by_name(batch)["logits"], expected, atol=1e-5
    )


def test_gradients_reach_every_variable(model: TextClassifier) -> None:
    batch = batch_of(model.target, 16)
    trained = [v.value for v in model.trainable_variables]
    assert len(trained) == len(model.weights)
    with tf.GradientTape() as tape:
        loss, _ = model.loss_fn(batch, model.totals(batch), None)
    for variable, gradient in zip(
        model.weights, tape.gradient(loss, trained), strict=True
    ):
        assert gradient is not None, variable.path
        values = tf.convert_to_tensor(gradient)
        assert float(tf.reduce_max(tf.abs(values))) > 1e-6, variable.path


def test_rows_of_padding_count_for_nothing(model: TextClassifier) -> None:
    batch = batch_of(model.target, 16)
    padded = batch_of(model.target, 16, num_rows=11)
    _, sums = model.loss_fn(batch, model.totals(batch), None)
    _, padded_sums = model.loss_fn(padded, model.totals(padded), None)
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
        model.loss_fn({k: v[rows] for k, v in batch.items()}, totals, None)[0]
        for rows in (slice(0, 2), slice(2, 7))
    ]
    assert float(sum(parts)) == pytest.approx(loss_of(model, batch), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("num_micro_batches", [1, 3])
def test_packed_rows_learn_what_padded_rows_do(
    model: TextClassifier, num_micro_batches: int
) -> None:
    """Twelve rows of 2 to 15 pieces, also as three micro-batches."""
    labels = {LABELS: labels_of(model.target, len(ROWS))}
    padded, packed = (
        tensors(
            InMemoryBatches(ROWS, labels, 12, 29, 3, num_micro_batches=n).batch(
                1
            )
        )
        for n in (0, num_micro_batches)
    )
    assert padded["input_ids"].shape == (12, 29)
    assert packed["input_ids"].shape == ({1: 8, 3: 12}[num_micro_batches], 16)
    totals = model.totals(padded)
    assert float(totals["rows"]) == pytest.approx(
        float(model.totals(packed)["rows"])
    )
    assert_packing_changes_nothing(model, padded, packed, num_micro_batches)


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
    all_variables = {id(v) for v in model.weights}
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
        id(v) for part in kept for v in part.weights
    }
    assert {id(v) for v in model.weights} == all_variables


def test_freezing_no_layer_freezes_the_embeddings() -> None:
    model = make(Regression())
    model.encoder.freeze(0)
    assert len(model.weights) - len(model.trainable_variables) == 5


def test_depth_counts_from_the_embeddings() -> None:
    model = make(Regression())
    encoder = model.encoder
    parts: list[keras.layers.Layer] = [encoder.embeddings, *encoder.layers]
    parts += [encoder.pooler, model.head]
    for part, depth in zip(parts, (0, 1, 2, 3, 4, 4), strict=True):
        assert {encoder.depth(v) for v in part.variables} == {depth}


def test_windows_of_a_document_become_one() -> None:
    logits = np.array([[1.0, 5.0], [0, 2], [4, 4], [2, 9]])
    outputs = [{"logits": own} for own in logits]
    for pooling, expected in {"mean": [2, 5], "max": [4, 9]}.items():
        one = pool_windows(outputs[:1], pooling)
        np.testing.assert_array_equal(one, [1, 5])
        three = pool_windows(outputs[1:], pooling)
        np.testing.assert_array_equal(three, expected)
