"""Tests of tasks/export.py: what each kind of model answers, and refuses."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.graph_tokenization import GraphTokenizer
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.tasks.base import Model
from bert_keras.tasks.export import (
    INPUTS,
    device_signatures,
    make_model,
    signatures,
)
from bert_keras.tasks.pipeline import EMPTY
from bert_keras.tasks.task_config import TaskConfig
from tests.conftest import GOLDEN, ONE_LAYER

BATCH = {
    "input_ids": np.array([[2, 7, 11, 3], [2, 13, 3, 0]], np.int32),
    "input_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int32),
    "segment_ids": np.array([[0, 0, 0, 0], [0, 0, 0, 0]], np.int32),
}


def settings(target: str, *labels: str) -> TaskConfig:
    return TaskConfig(target, 16, True, labels=labels)


def make(task: TaskConfig | None) -> Model:
    """A model with weights from a seed."""
    model, rng = make_model(ONE_LAYER, task), np.random.default_rng(3)
    for mapping in model.mappings():
        mapping.write(rng.normal(0, 0.5, mapping.shape).astype(np.float32))
    return model


def answers(task: TaskConfig | None, model: Model) -> dict[str, np.ndarray]:
    """To BATCH."""
    asked = signatures(model, ONE_LAYER, task, None)["serving_default"]
    batch = {name: tf.constant(value) for name, value in BATCH.items()}
    return {n: np.array(x) for n, x in asked.function(batch).items()}


def logits(model: Model) -> np.ndarray:
    return np.array(model.outputs_by_name(BATCH)["logits"], np.float64)


def test_one_label() -> None:
    task = settings("single_label", "no", "yes", "perhaps")
    model = make(task)
    found = answers(task, model)
    odds = np.exp(logits(model))
    expected = odds / odds.sum(1, keepdims=True)
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6)
    names = [task.labels[i] for i in expected.argmax(1)]
    assert [x.decode() for x in found["label"]] == names


def test_tags_of_all_pieces() -> None:
    task = settings("tags", "O", "B-PER", "I-PER")
    model = make(task)
    found = answers(task, model)
    assert found["probabilities"].shape == (2, 4, 3)
    best = logits(model).argmax(-1)
    names = [[task.labels[i] for i in row] for row in best]
    assert [[x.decode() for x in row] for row in found["label"]] == names


def test_several_labels() -> None:
    task = settings("multi_label", "red", "green", "blue", "grey", "pink")
    model = make(task)
    found = answers(task, model)
    expected = 1 / (1 + np.exp(-logits(model)))
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6)
    chosen = [
        [
            name if share > 0.5 else ""
            for name, share in zip(task.labels, row, strict=True)
        ]
        for row in expected
    ]
    assert any("" in row for row in chosen) and any(map(any, chosen))
    assert [[x.decode() for x in row] for row in found["labels"]] == chosen


def test_a_number() -> None:
    task = settings("regression")
    model = make(task)
    expected = logits(model)[:, 0]
    np.testing.assert_allclose(answers(task, model)["value"], expected, 1e-5)


def test_a_choice_is_scored_row_by_row() -> None:
    task = settings("choice")
    model = make(task)
    expected = logits(model)[:, 0]
    np.testing.assert_allclose(answers(task, model)["score"], expected, 1e-5)


@pytest.fixture(scope="module")
def graph() -> GraphTokenizer:
    return GraphTokenizer(FullTokenizer(str(GOLDEN / "tiny_vocab.txt")), 16)


@pytest.mark.parametrize(
    ("target", "labels"),
    [
        ("single_label", ("no", "yes", "perhaps")),
        ("multi_label", ("red", "green")),
        ("regression", ()),
        ("choice", ()),
    ],
)
def test_a_refused_text_leaves_its_neighbours_alone(
    target: str, labels: tuple[str, ...], graph: GraphTokenizer
) -> None:
    task = settings(target, *labels)
    asked = signatures(make(task), ONE_LAYER, task, graph)["text_pair"].function

    def ask(texts: list[str | bytes], pairs: list[str | bytes]) -> Any:
        batch = {"text": tf.constant(texts), "text_pair": tf.constant(pairs)}
        return {name: x.numpy() for name, x in asked(batch).items()}

    long = "the " * 30
    mixed = ask(
        ["a cat", "ΟΔΟΣ", "", "a dog", long], ["", "a", "no", b"\xff", "a"]
    )
    fine = [0, 2, 4]
    alone = ask(["a cat", "", long], ["", "no", "a"])
    blank = ask(["", " \u3000"], ["\t\n", "\x85"])
    assert set(blank["error"]) == {EMPTY.encode()}
    assert [bool(x) for x in mixed.pop("error")] == [False, True] * 2 + [False]
    assert mixed.pop("is_cut").tolist() == [False] * 4 + [True]
    assert not any(alone.pop("error"))
    assert alone.pop("is_cut").tolist() == [False, False, True]
    assert mixed.keys() == alone.keys()
    for name, values in mixed.items():
        refused = values[[1, 3]]
        if values.dtype == object:
            assert {*refused.flat} == {b""}
            np.testing.assert_array_equal(values[fine], alone[name])
        else:
            assert np.isnan(refused).all()
            np.testing.assert_allclose(values[fine], alone[name], atol=1e-5)


@pytest.mark.parametrize(
    ("target", "takes_pairs", "expected"),
    [
        ("regression", None, ["text", "text_pair"]),
        ("regression", False, ["text"]),
        ("regression", True, ["text_pair"]),
        ("choice", None, ["text_pair"]),
    ],
)
def test_one_text_or_two_are_asked_as_in_training(
    target: str,
    takes_pairs: bool | None,
    expected: list[str],
    graph: GraphTokenizer,
) -> None:
    task = dataclasses.replace(settings(target), takes_pairs=takes_pairs)
    asked = signatures(make_model(ONE_LAYER, task), ONE_LAYER, task, graph)
    assert list(asked) == ["serving_default", *expected]
    (on_device,) = device_signatures(
        make_model(ONE_LAYER, task), ONE_LAYER, task, 16, graph
    ).values()
    singly = expected == ["text"]
    assert [*on_device.inputs] == ["text", "text_pair"][: 1 if singly else 2]


def test_a_span_has_ids_alone(graph: GraphTokenizer) -> None:
    task = dataclasses.replace(settings("tags"), target="span", doc_stride=4)
    model = make(task)
    assert list(signatures(model, ONE_LAYER, task, graph)) == [
        "serving_default"
    ]
    found, expected = answers(task, model), model.outputs_by_name(BATCH)
    for name in ("start_logits", "end_logits"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)


def test_an_encoder_says_which_pieces_a_text_has(
    graph: GraphTokenizer,
) -> None:
    model: Any = make(None)
    found = answers(None, model)
    expected = model.encoder(*(BATCH[name] for name in INPUTS))
    for name, value in (
        ("sequence_output", expected.sequence),
        ("pooled_output", expected.pooled),
    ):
        np.testing.assert_allclose(found[name], value, atol=1e-5)
    tokenizer = FullTokenizer(str(GOLDEN / "tiny_vocab.txt"))
    asked = signatures(model, ONE_LAYER, None, graph)["text"]
    told = asked.function({"text": tf.constant(["The cat", "", "Σ"])})
    assert told["input_mask"].numpy().tolist()[:2] == [[1] * 4, [1, 1, 0, 0]]
    assert told["sequence_output"].shape == (3, 4, ONE_LAYER.hidden_size)
    for name in ("sequence_output", "pooled_output"):
        is_nan = np.isnan(told[name]).reshape(3, -1)
        assert is_nan.all(1).tolist() == [False, False, True]
        assert is_nan.any(1).tolist() == [False, False, True]
    pieces = tokenizer.convert_ids_to_tokens(told["input_ids"].numpy()[0])
    assert pieces == ["[CLS]", *tokenizer.tokenize("The cat"), "[SEP]"]


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("input_ids", np.full((2, 4), 101), "input_ids from 0 to 100"),
        ("input_ids", np.full((2, 4), -1), "input_ids from 0 to 100"),
        ("input_ids", np.ones((2, 62)), "at most 61 ids per example"),
        ("input_ids", np.ones((2, 0)), "at least one id per example"),
        ("segment_ids", np.full((2, 4), 2), "segment_ids from 0 to 1"),
        ("segment_ids", np.zeros((2, 1)), "of one shape"),
        ("input_mask", np.ones((1, 4)), "of one shape"),
    ],
)
def test_wrong_ids_are_refused(
    name: str, value: np.ndarray, sentence: str
) -> None:
    asked = signatures(make_model(ONE_LAYER, None), ONE_LAYER, None, None)
    batch = {**BATCH, name: value.astype(np.int32)}
    if value.shape[1] in (0, 62):
        batch = dict.fromkeys(INPUTS, value.astype(np.int32))
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        asked["serving_default"].function(
            {name: tf.constant(x) for name, x in batch.items()}
        )


def test_a_distilbert_alone_has_no_pooled_output() -> None:
    config = dataclasses.replace(
        ONE_LAYER, family="distilbert", type_vocab_size=0
    )
    model = make_model(config, None)
    asked = signatures(model, config, None, None)["serving_default"]
    segments = {"segment_ids": np.ones((2, 4), np.int32)}  # a pair's: unused
    batch = {n: tf.constant(x) for n, x in (BATCH | segments).items()}
    found = asked.function(batch)
    assert {n: x.shape for n, x in found.items()} == {
        "sequence_output": (2, 4, 40)
    }
