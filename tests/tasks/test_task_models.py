"""Tests of the models of tasks as Keras's: saved, loaded, trained by fit. On
TensorFlow, and some once more on JAX and, where it is installed, torch."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
from keras.src.testing import TestCase

from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import save_model_folder
from bert_keras.modeling.encoder_variants import (
    BiLstmEncoder,
    ConcatenatedEncoders,
)
from bert_keras.modeling.fused_ops import uncompiled
from bert_keras.tasks.classification.model import (
    LABELS,
    MultiLabel,
    Regression,
    SingleLabel,
    TextClassifier,
)
from bert_keras.tasks.load import load
from bert_keras.tasks.multiple_choice.model import MultipleChoice
from bert_keras.tasks.ner.model import TokenClassifier
from bert_keras.tasks.pretraining.model import MaskedLm, Pretraining
from bert_keras.tasks.squad.model import QuestionAnsweringModel
from bert_keras.tasks.task_model import TaskModel
from tests.conftest import GOLDEN, ONE_LAYER, SEQ_LENGTH, tiny_batch
from tests.modeling.test_keras_layers import compile_for_fit, on_backend

# Of Keras's own conversions to NumPy
pytestmark = pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")

NAMES = ("input_ids", "input_mask", "segment_ids")
DROPS = dataclasses.replace(
    ONE_LAYER, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2
)
ROWS, CHOICES = 8, 3
CROSS_ENTROPY = functools.partial(
    keras.losses.SparseCategoricalCrossentropy, from_logits=True
)


def inputs(rows: int = ROWS) -> dict[str, np.ndarray]:
    return {name: tiny_batch(rows)[name] for name in NAMES}


def rows_of_choices() -> dict[str, np.ndarray]:
    shape = ROWS, CHOICES, SEQ_LENGTH
    return {n: x.reshape(shape) for n, x in inputs(ROWS * CHOICES).items()}


class Case(NamedTuple):
    make: Callable[..., TaskModel]
    inputs: Callable[[], dict[str, np.ndarray]]
    shapes: Any  # of the outputs
    # what the features say in the outputs' place
    labels: Callable[[dict[str, np.ndarray]], Any]
    loss: Callable[[], Any] = CROSS_ENTROPY


def is_high(x: dict[str, np.ndarray]) -> np.ndarray:
    """int32 [B]: whether the first token after [CLS] is."""
    return (x["input_ids"][..., 1] > 50).astype("int32")


CASES = {
    "masked_lm": Case(
        functools.partial(MaskedLm, DROPS),
        inputs,
        (ROWS, SEQ_LENGTH, DROPS.vocab_size),
        lambda x: x["input_ids"],
    ),
    "pretraining": Case(
        functools.partial(Pretraining, DROPS),
        inputs,
        {
            "masked_lm": (ROWS, SEQ_LENGTH, DROPS.vocab_size),
            "next_sentence": (ROWS, 2),
        },
        lambda x: {"masked_lm": x["input_ids"], "next_sentence": is_high(x)},
        lambda: {
            "masked_lm": CROSS_ENTROPY(),
            "next_sentence": CROSS_ENTROPY(),
        },
    ),
    "single_label": Case(
        functools.partial(TextClassifier, DROPS, SingleLabel(("no", "yes"))),
        inputs,
        (ROWS, 2),
        is_high,
    ),
    "multi_label": Case(
        functools.partial(TextClassifier, DROPS, MultiLabel(("a", "b", "c"))),
        inputs,
        (ROWS, 3),
        lambda x: np.stack([is_high(x)] * 3, axis=1),
        lambda: keras.losses.BinaryCrossentropy(from_logits=True),
    ),
    "regression": Case(
        functools.partial(TextClassifier, DROPS, Regression()),
        inputs,
        (ROWS, 1),
        is_high,
        keras.losses.MeanSquaredError,
    ),
    "tags": Case(
        functools.partial(TokenClassifier, DROPS, 5),
        inputs,
        (ROWS, SEQ_LENGTH, 5),
        lambda x: x["input_ids"] % 5,
    ),
    "span": Case(
        functools.partial(QuestionAnsweringModel, DROPS),
        inputs,
        {"start": (ROWS, SEQ_LENGTH), "end": (ROWS, SEQ_LENGTH)},
        lambda x: {"start": 1 + is_high(x), "end": 3 + is_high(x)},
        lambda: {"start": CROSS_ENTROPY(), "end": CROSS_ENTROPY()},
    ),
    "choice": Case(
        functools.partial(MultipleChoice, DROPS),
        rows_of_choices,
        (ROWS, CHOICES),
        lambda x: x["input_ids"][:, :, 1].argmax(1),
    ),
}


@pytest.fixture(autouse=True)
def chains_are_compiled_for_one_case(
    request: pytest.FixtureRequest,
) -> Iterator[None]:
    """Which takes XLA seconds, and all cases have the same chains."""
    with uncompiled("single_label" not in request.node.name):
        yield


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def numbers(x: Any) -> Any:
    return keras.tree.map_structure(
        lambda x: np.asarray(keras.ops.convert_to_numpy(x)), x
    )


def assert_equal(one: Any, other: Any) -> None:
    keras.tree.map_structure(np.testing.assert_array_equal, one, other)


def test_keras_checks_of_a_model(case: Case) -> None:
    keras.utils.clear_session()
    model = TestCase().run_class_serialization_test(case.make(name="own"))
    assert model.name == "own" and model.count_params() > 0
    model.summary(print_fn=lambda *_, **__: None)
    assert len({v.path for v in model.weights}) == len(model.weights)


def test_saved_and_loaded_to_the_bit(case: Case, tmp_path: Path) -> None:
    model, x = case.make(), case.inputs()
    expected = numbers(model(x))
    path = tmp_path / "model.keras"
    model.save(path)
    assert_equal(numbers(keras.models.load_model(path)(x)), expected)
    model.save_weights(tmp_path / "model.weights.h5")
    other = case.make()
    other.load_weights(tmp_path / "model.weights.h5")
    assert_equal(numbers(other(x)), expected)


def test_a_functional_model_with_dropout_in_training(case: Case) -> None:
    x = case.inputs()
    symbols = {
        name: keras.Input(value.shape[1:], dtype="int32", name=name)
        for name, value in x.items()
    }
    outputs = case.make()(symbols)
    model = keras.Model(symbols, outputs)
    shapes = keras.tree.map_structure(lambda y: y.shape[1:], outputs)
    one, two = (numbers(model(x, training=True)) for _ in range(2))
    keras.tree.map_structure(
        lambda x, y: np.testing.assert_(np.abs(x - y).max() > 0), one, two
    )
    one, two = (numbers(model(x, training=False)) for _ in range(2))
    assert_equal(one, two)
    found = keras.tree.map_structure(lambda y: y.shape, one)
    assert found == case.shapes
    assert shapes == keras.tree.map_shape_structure(lambda s: s[1:], found)


@pytest.mark.slow
def test_fit_lowers_the_loss(case: Case) -> None:
    keras.utils.set_random_seed(3)
    model, x = case.make(), case.inputs()
    y = case.labels(x)
    compile_for_fit(model, 3e-3, case.loss())
    losses = model.fit(x, y, epochs=15, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]


def test_evaluate_and_predict() -> None:
    model, x = TextClassifier(DROPS, SingleLabel(("no", "yes"))), inputs()
    model.compile(loss=CROSS_ENTROPY(), metrics=["accuracy"])
    logits, y = model.predict(x, verbose=0), is_high(x)
    np.testing.assert_allclose(logits, numbers(model(x)), atol=1e-5)
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert accuracy == np.mean(logits.argmax(1) == y)
    odds = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    assert loss == pytest.approx(-odds[np.arange(ROWS), y].mean(), rel=1e-5)


def test_the_loss_is_the_models_own_if_labels_are_features() -> None:
    model, batch = Pretraining(ONE_LAYER), tiny_batch(ROWS)
    tensors = {k: keras.ops.convert_to_tensor(x) for k, x in batch.items()}
    loss, _ = model.loss_fn(tensors, model.totals(tensors), None)
    compile_for_fit(model, 3e-3)
    found = model.evaluate(batch, batch_size=ROWS, verbose=0)
    assert found == pytest.approx(float(numbers(loss)), rel=1e-5)
    history = model.fit(batch, batch_size=ROWS, epochs=4, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert set(history) == {"loss"}


def test_the_models_own_loss_refuses_weights_that_it_would_not_see() -> None:
    model, batch = MaskedLm(ONE_LAYER), tiny_batch(ROWS)
    compile_for_fit(model, 3e-3)
    for use in (model.fit, model.evaluate, model.test_on_batch):
        with pytest.raises(InputError, match="takes no `sample_weight`"):
            use(batch, sample_weight=np.ones(ROWS))
    with pytest.raises(InputError, match="takes no `class_weight`"):
        model.fit(batch, class_weight={0: 1.0, 1: 9.0})
    with pytest.raises(InputError, match="takes no `metrics`; `compile` with"):
        model.compile(metrics=["accuracy"])
    model.compile(loss=CROSS_ENTROPY())
    ids, none = inputs(), np.zeros([ROWS, SEQ_LENGTH])
    loss = model.test_on_batch(ids, ids["input_ids"], sample_weight=none)
    assert loss == 0


def test_the_models_own_loss_refuses_labels_of_another_shape() -> None:
    """Of a row of zeros and a one it would read the first as the class."""
    two = SingleLabel(("no", "yes")), np.eye(2, dtype="int32")[[0, 1] * 4]
    for target, labels in (
        two,
        (two[0], np.array([0, 1] * 4)),
        (MultiLabel(("no", "yes")), np.array([[0], [1]] * 4)),
        (Regression(), np.ones([8, 2], "float32")),
    ):
        model = TextClassifier(ONE_LAYER, target)
        model.compile()
        for use in (model.test_on_batch, model.fit):
            with pytest.raises(InputError, match="label_ids` has the shape .*"):
                use({**inputs(), LABELS: labels})


def labelled(name: str) -> tuple[TaskModel, dict[str, np.ndarray]]:
    """A model and a batch with sound labels, the last row being padding whose
    labels are not looked at."""
    x = inputs()
    x = {key: np.where(np.arange(ROWS)[:, None] < 7, x[key], 0) for key in x}
    ones = np.ones([ROWS, 1], "int32")
    if name == "masked_lm_ids":
        x = tiny_batch(ROWS)
        x["masked_lm_weights"][7] = 0
        return MaskedLm(ONE_LAYER), x
    if name == "next_sentence_labels":
        x = {k: np.where(np.arange(ROWS)[:, None] < 7, v, 0) for k, v in
             tiny_batch(ROWS).items()}  # fmt: skip
        return Pretraining(ONE_LAYER), x
    if name == "start_positions":
        ends = {"start_positions": ones, "end_positions": ones}
        return QuestionAnsweringModel(ONE_LAYER), x | ends
    return TextClassifier(ONE_LAYER, ["no", "yes"]), x | {name: ones}


@pytest.mark.parametrize(
    "name, most",
    [
        ("label_ids", 1),
        ("masked_lm_ids", ONE_LAYER.vocab_size - 1),
        ("next_sentence_labels", 1),
        ("start_positions", SEQ_LENGTH - 1),
    ],
)
def test_the_models_own_loss_refuses_labels_that_are_none(
    name: str, most: int
) -> None:
    model, batch = labelled(name)
    model.compile()
    for row, label, is_refused in (
        (0, most, False),
        (0, most + 1, True),
        (1, -100, True),
        (7, -100, False),
    ):
        labels = batch[name].copy()
        labels[row, 0] = label
        given = batch | {name: labels}
        assert np.isnan(model.test_on_batch(given)) == is_refused
        if is_refused:
            said = f"`{name}` has {label}; expected 0 to {most}$"
            for use in (model.fit, model.evaluate):
                with pytest.raises(InputError, match=said):
                    use(given, batch_size=ROWS, verbose=0)
            with pytest.raises(InputError, match=said):
                model.fit(batch, validation_data=(given,), verbose=0)
        else:
            model.evaluate(given, batch_size=ROWS, verbose=0)


def test_labels_of_words_and_choices_that_are_none() -> None:
    tagger = TokenClassifier(ONE_LAYER, 3)
    tagger.compile()
    labels = np.zeros([ROWS, SEQ_LENGTH], "int32")
    labels[0] = 3
    assert tagger.evaluate({**inputs(), LABELS: labels}, verbose=0) > 0
    choice = MultipleChoice(ONE_LAYER)
    several = TextClassifier(ONE_LAYER, MultiLabel(("a", "b", "c")))
    for model in (choice, several):
        model.compile()
    rows = rows_of_choices() | {
        "num_choices": np.full([ROWS, 1], 2, "int32"),
        LABELS: np.ones([ROWS, 1], "int32"),
    }
    assert choice.evaluate(rows, verbose=0) > 0
    for label, most, model, batch in (
        (-100, 3, tagger, {**inputs(), LABELS: labels - 100 * (labels == 0)}),
        (4, 3, tagger, {**inputs(), LABELS: labels + (labels == 3)}),
        (
            2,
            1,
            several,
            {**inputs(), LABELS: 2 * np.eye(3, dtype="int32")[[0, 1] * 4]},
        ),
        (2, 1, choice, rows | {LABELS: np.full([ROWS, 1], 2)}),
    ):
        said = f"`label_ids` has {label}; expected 0 to {most}$"
        with pytest.raises(InputError, match=said):
            model.fit(batch, verbose=0)
        assert np.isnan(model.test_on_batch(batch))


def test_classes_are_names_or_a_number() -> None:
    named, numbered = (
        TextClassifier(ONE_LAYER, ["no", "yes"]),
        TextClassifier(ONE_LAYER, 2),
    )
    assert named.target == SingleLabel(("no", "yes"))
    assert numbered.target == SingleLabel(("0", "1"))
    with pytest.raises(InputError, match="labels are 0; expected a list of"):
        TextClassifier(ONE_LAYER, 0)
    with pytest.raises(InputError, match="the labels are not known"):
        TextClassifier(ONE_LAYER, [])


def test_a_key_that_is_given_wins() -> None:
    model, key = MaskedLm(DROPS), np.array([3, 5], "int32")
    one = numbers(model(inputs(), seed=key, training=True))
    assert_equal(one, numbers(model(inputs(), seed=key)))
    assert_equal(one, numbers(model.logits(inputs(), key)))
    assert np.abs(one - numbers(model(inputs()))).max() > 1e-3


@pytest.mark.slow
def test_a_subclassed_model_trains() -> None:
    class Outer(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner = TextClassifier(DROPS, MultiLabel(("a", "b", "c")))
            self.top = keras.layers.Dense(2)

        def call(self, inputs: Any) -> Any:
            return self.top(self.inner(inputs))

    model, x = Outer(), inputs()
    model.compile(keras.optimizers.AdamW(3e-3), CROSS_ENTROPY())
    history = model.fit(x, is_high(x), epochs=12, verbose=0).history["loss"]
    assert history[-1] < 0.9 * history[0]


@pytest.mark.parametrize(
    "encoder",
    [BiLstmEncoder, lambda c: ConcatenatedEncoders(c, "right_to_left")],
)
@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="slow")
def test_other_encoders_are_saved_and_drop(
    encoder: Callable[..., Any], tmp_path: Path
) -> None:
    config = dataclasses.replace(DROPS, direction="left_to_right")
    model = QuestionAnsweringModel(config, encoder=encoder(config))
    expected = numbers(model(inputs()))
    assert (
        np.abs(
            numbers(model(inputs(), training=True))["end"] - expected["end"]
        ).max()
        > 1e-3
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_equal(numbers(loaded(inputs())), expected)


def test_a_type_by_argument() -> None:
    model = TextClassifier(DROPS, Regression(), dtype="mixed_bfloat16")
    assert model.encoder.compute_dtype == "bfloat16"
    assert {v.dtype for v in model.weights} == {"float32"}
    logits = model(inputs())
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"


def test_names_of_transformers_are_not_overlooked() -> None:
    model, x = MaskedLm(ONE_LAYER), inputs()
    x["attention_mask"] = x.pop("input_mask")
    for layer in (model, model.encoder):
        with pytest.raises(ValueError, match="expected the name 'input_mask'"):
            layer(x)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_on_another_backend(backend: str) -> None:
    on_backend(backend, __file__, "checks or saved or functional or fit or own")


VOCAB = str(GOLDEN / "tiny_vocab.txt")
TEXTS = ["the ship", ("the ship sailed", "the wind"), "blew"]


def make_folder(folder: Path) -> str:
    """Google's: an encoder with both heads of pre-training."""
    model = Pretraining(ONE_LAYER)
    save_model_folder(str(folder), ONE_LAYER, model.mappings(), VOCAB)
    return str(folder)


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="slow")
def test_from_a_folder_to_a_folder(tmp_path: Path) -> None:
    model = TextClassifier.from_folder(
        make_folder(tmp_path / "google"), labels=("no", "yes")
    )
    data = model.tokenize(TEXTS, max_length=9)
    assert {x.shape for x in data.values()} == {(3, 9)}
    assert {x.dtype for x in data.values()} == {np.dtype("int32")}
    assert data["segment_ids"][1].tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    logits = numbers(model(data))
    model.save_folder(str(tmp_path / "out"))
    loaded = load(str(tmp_path / "out"))
    answers = loaded.predict(TEXTS)
    assert [x.label for x in answers] == [
        ("no", "yes")[i] for i in logits.argmax(1)
    ]
    odds = np.exp(logits)[:, 1] / np.exp(logits).sum(1)
    found = [x.probabilities["yes"] for x in answers]
    np.testing.assert_allclose(found, odds, atol=1e-6)
    other = TextClassifier.from_folder(
        tmp_path / "out", labels=[], target="regression"
    )
    assert other.target == Regression()
    same = TextClassifier.from_folder(tmp_path / "out", labels=["no", "yes"])
    assert_equal(numbers(same(data)), logits)
    model.save(tmp_path / "model.keras")
    kept = keras.models.load_model(tmp_path / "model.keras")
    assert kept.settings == model.settings
    assert_equal(kept.tokenize(TEXTS, 9), data)
    kept.save_folder(str(tmp_path / "again"))
    assert TextClassifier.from_folder(str(tmp_path / "again")).settings


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="slow")
def test_heads_that_a_folder_has_and_has_not(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    expected = Pretraining.from_folder(folder)
    for one, other in zip(
        expected.mappings()[:-2],
        MaskedLm.from_folder(folder).mappings(),
        strict=True,
    ):
        np.testing.assert_array_equal(one.read(), other.read())
    keras.utils.set_random_seed(3)
    tagger = TokenClassifier.from_folder(folder, labels=["O", "B-PER"])
    assert tagger.settings and tagger.settings.target == "tags"
    keras.utils.set_random_seed(4)
    other = TokenClassifier.from_folder(folder, labels=("O", "B-PER"))
    changed = [
        one.name
        for one, two in zip(tagger.mappings(), other.mappings(), strict=True)
        if not np.array_equal(one.read(), two.read())
    ]
    assert changed == ["output_weights"]
    choice = MultipleChoice.from_folder(folder, max_seq_length=13)
    data = choice.tokenize([("the ship", ["sails", "an old captain"])] * 3)
    assert data["input_ids"].shape == (3, 2, 8)
    assert choice(data).shape == (3, 2)


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="slow")
def test_what_starts_at_random_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_folder(tmp_path / "whole")
    model = MaskedLm.from_folder(folder)
    assert model.tokenizer is not None
    for name, kept in (
        ("headless", lambda name: not name.startswith("cls/")),
        ("torn", lambda name: "layer_0/intermediate" not in name),
    ):
        save_model_folder(
            str(tmp_path / name),
            ONE_LAYER,
            [m for m in model.mappings() if kept(m.name)],
            model.tokenizer.vocab_file,
        )
    capsys.readouterr()
    MaskedLm.from_folder(str(tmp_path / "headless"))
    assert "new, at random: masked LM head" in capsys.readouterr().err
    with pytest.raises(
        InputError, match="no bert/encoder/layer_0/intermediate"
    ):
        MaskedLm.from_folder(str(tmp_path / "torn"))


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="slow")
def test_what_a_folder_cannot_be_is_said(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    with pytest.raises(InputError, match="give `labels`, or `num_labels`"):
        TextClassifier.from_folder(folder)
    with pytest.raises(InputError, match="`num_labels=3` .* 2 names.*; leave"):
        TextClassifier.from_folder(folder, num_labels=3, labels=("a", "b"))
    with pytest.raises(InputError, match="expected 4 to 61"):
        MultipleChoice.from_folder(folder, max_seq_length=62)
    with pytest.raises(TypeError, match="num_label .did you mean labels"):
        TextClassifier.from_folder(folder, num_label=2)
    for labels in ("ab", {"a", "b"}, [1, 2], 0, None):
        with pytest.raises(InputError, match="expected a list of their names"):
            TextClassifier.from_folder(folder, labels=labels)
    model = MaskedLm.from_folder(folder)
    others: list[Any] = [{"text": ["the sea"]}, {"the sea"}, None]
    for texts in others:
        with pytest.raises(InputError, match="expected a text or a list of"):
            model.tokenize(texts)
    with pytest.raises(InputError, match="expected a list of texts"):
        model.tokenize("the ship")
    for use in (
        lambda: MaskedLm(ONE_LAYER).tokenize(["the ship"]),
        lambda: MaskedLm(ONE_LAYER).save_folder(str(tmp_path / "out")),
    ):
        with pytest.raises(InputError, match="MaskedLm has no tokenizer"):
            use()
    with pytest.raises(InputError, match="export_tflite.py"):
        model.quantize("int8")


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="slow")
def test_texts_that_a_model_cannot_take_are_said(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    model: TaskModel = TextClassifier.from_folder(folder, num_labels=2)
    data: Any
    for data, found in (
        (("the ship", "the wind", "blew"), r"\('the ship', 'the wind', "),
        (("the ship", None), r"\('the ship', None\)"),
        (b"the ship", "b'the ship'"),
        (None, "None"),
        ((), r"\(\)"),
    ):
        sentence = f"number 1 of `texts` is {found}.*; expected .*, or a tuple"
        with pytest.raises(InputError, match=sentence):
            model.tokenize(["the ship", data])
    model = TokenClassifier.from_folder(folder, labels=("O", "B-PER"))
    for data in (["the", "ship"], ("the ship", "the wind")):
        with pytest.raises(InputError, match="expected a text$"):
            model.tokenize([data])


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="slow")
def test_choices_are_tokenized_as_in_training(tmp_path: Path) -> None:
    model = MultipleChoice.from_folder(make_folder(tmp_path), max_seq_length=8)
    assert model.tokenizer
    tokenizer = model.tokenizer.load()
    texts = [("the ship sailed", ["the wind", "the wind blew the old ship"])]
    ids = model.tokenize(texts)["input_ids"]
    shown = [" ".join(tokenizer.inv_vocab[i] for i in row) for row in ids[0]]
    assert shown == [
        "[CLS] the ship sail [SEP] the wind [SEP]",
        "[CLS] [SEP] wind blew the old ship [SEP]",
    ]
    arrays = [np.array([c, choices], object) for c, choices in texts]
    np.testing.assert_array_equal(model.tokenize(arrays)["input_ids"], ids)
    wrong: Any
    for wrong, sentence in (
        ([("a", ["b", "c"]), ("a", ["b"])], "example 1 has 1 choices"),
        ([("a", ["b", "c"]), ("a", ["b"] * 3)], "has 3 .* the first 2"),
        ([("a", "bc")], "example 0 has 'bc' for 'choices'; expected a list"),
        ([("a", ["b", None])], "example 0 has nothing for 'choices'"),
        ([("a", "b", "c")], "number 0 of .* tuple of a context and its choi"),
        ([], "`texts` holds no question"),
    ):
        with pytest.raises(InputError, match=sentence):
            model.tokenize(wrong)
