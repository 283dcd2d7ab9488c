"""Tests of tasks/multiple_choice/model.py."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.batching import HostShard, InMemoryBatches
from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.data.tokenizers import load_tokenizer
from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import load_checkpoint
from bert_keras.tasks.classification.label_types import LABELS
from bert_keras.tasks.multiple_choice.model import (
    NUM_CHOICES,
    MultipleChoice,
    MultipleChoiceExample,
    encode_question,
    encode_questions,
    log_shares,
    pad_choices,
)
from tests.conftest import GOLDEN, TINY

NUMBERS = (2, 3, 5, 2, 4, 3, 3)  # of choices
QUESTIONS = [
    [
        InputFeatures(
            [2 + q, *[7 + c] * (1 + 3 * q + c), 3], [0] * 3 + [1] * (3 * q + c)
        )
        for c in range(count)
    ]
    for q, count in enumerate(NUMBERS)
]
LABEL_OF = [1, 0, 4, 0, 3, 2, 1]


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Nothing to be compiled, for shapes that are seen once."""
    with fused_ops.uncompiled():
        yield


@pytest.fixture(scope="module")
def model() -> MultipleChoice:
    """With the golden encoder and a head of its own."""
    model = MultipleChoice(TINY)
    report = load_checkpoint(model.mappings(), str(GOLDEN / "tiny_bert"))
    assert set(report.missing) == {"output_weights", "output_bias"}
    rng = np.random.default_rng(1)
    for variable in model.head.variables:
        variable.assign(rng.normal(size=variable.shape))
    return model


def batches(batch_size: int, **settings: int | HostShard) -> InMemoryBatches:
    rows, most = pad_choices(QUESTIONS)
    labels = {
        LABELS: np.array(LABEL_OF, np.int32)[:, None],
        NUM_CHOICES: np.array(NUMBERS, np.int32)[:, None],
    }
    return InMemoryBatches(
        rows,
        labels,
        batch_size,
        29,
        3,
        **settings,  # type: ignore[arg-type]
        group_size=most,
    )


def loss_of(
    model: MultipleChoice, batch: dict, totals: dict | None = None
) -> float:
    tensors = {name: tf.constant(value) for name, value in batch.items()}
    totals = totals or model.totals(tensors)
    return float(model.loss(tensors, totals, None)[0])


def own_losses(model: MultipleChoice) -> list[float]:
    """Cross entropies by hand, from the scores of a question's rows."""
    losses = []
    for rows, label in zip(QUESTIONS, LABEL_OF, strict=True):
        scores = model.forward(pad(rows, 29, len(rows)))["logits"].numpy()[:, 0]
        total = math.log(sum(math.exp(score) for score in scores))
        losses.append(total - scores[label])
    return losses


def test_loss_is_the_mean_cross_entropy_of_whole_questions(
    model: MultipleChoice,
) -> None:
    expected = np.mean(own_losses(model))
    for num_pieces in (0, 1):
        batch = batches(7, num_pieces=num_pieces).batch(0)
        assert ("first_positions" in batch) == bool(num_pieces)
        assert loss_of(model, batch) == pytest.approx(expected, rel=1e-5)


def test_accuracy_counts_questions(model: MultipleChoice) -> None:
    batch = {k: tf.constant(v) for k, v in batches(7).batch(0).items()}
    _, sums = model.loss(batch, model.totals(batch), None)
    hits = sum(
        int(np.argmax(model.forward(pad(rows, 29, len(rows)))["logits"]))
        == label
        for rows, label in zip(QUESTIONS, LABEL_OF, strict=True)
    )
    assert 0 < hits < 7
    assert [float(x) for x in sums["accuracy"]] == [hits, 7.0]


@pytest.mark.parametrize("is_packed", [False, True])
def test_pieces_and_hosts_of_a_batch_add_up(
    model: MultipleChoice, is_packed: bool
) -> None:
    expected = np.mean([own_losses(model)[i] for i in order(6)])
    totals = {"questions": tf.constant(6.0)}
    total = 0.0
    for index in (0, 1):
        batch = batches(
            6, share=HostShard(index, 2), num_pieces=3 * is_packed
        ).batch(0)
        for i in range(3):
            piece = {k: np.split(v, 3)[i] for k, v in batch.items()}
            assert len(piece[LABELS]) == 1
            total += loss_of(model, piece, totals)
    assert total == pytest.approx(expected, rel=1e-5)


def order(count: int) -> list[int]:
    """Numbers of the first questions of an epoch."""
    labels = batches(7).batch(0)
    keys = list(zip(LABEL_OF, NUMBERS, strict=True))
    assert len(set(keys)) == len(keys)
    found = zip(labels[LABELS][:, 0], labels[NUM_CHOICES][:, 0], strict=True)
    return [keys.index((int(a), int(b))) for a, b in found][:count]


def test_gradients_reach_all_but_the_bias(model: MultipleChoice) -> None:
    batch = {k: tf.constant(v) for k, v in batches(7).batch(0).items()}
    trained = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss, _ = model.loss(batch, model.totals(batch), None)
    for variable, gradient in zip(
        model.trainable_variables, tape.gradient(loss, trained), strict=True
    ):
        largest = float(tf.reduce_max(tf.abs(tf.convert_to_tensor(gradient))))
        assert (largest > 1e-6) == (variable is not model.head.output_bias)


def test_padding_counts_for_nothing(model: MultipleChoice) -> None:
    batch = batches(7).batch(0)
    padded = {
        name: np.pad(value, [(0, len(value) // 7), (0, 0)])
        for name, value in batch.items()
    }
    assert len(padded[LABELS]) == 8
    assert loss_of(model, padded) == pytest.approx(
        loss_of(model, batch), rel=1e-6
    )


def test_log_shares() -> None:
    scores = [np.array([math.log(x)], np.float32) for x in (1, 2, 5)]
    np.testing.assert_allclose(np.exp(log_shares(scores)), [0.125, 0.25, 0.625])


def test_the_context_gives_way(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """The worked example of encode_question."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    tokenizer = load_tokenizer(str(tmp_path / "vocab.txt"))
    question = MultipleChoiceExample("here", "a b c d", ("e", "f g"), None)
    for length, expected, what in (
        (
            7,
            ["[CLS] a b c [SEP] e [SEP]", "[CLS] a b [SEP] f g [SEP]"],
            "contexts",
        ),
        (
            9,
            ["[CLS] a b c d [SEP] e [SEP]", "[CLS] a b c d [SEP] f g [SEP]"],
            "",
        ),
        (
            4,
            ["[CLS] [SEP] e [SEP]", "[CLS] [SEP] g [SEP]"],
            "contexts and choices",
        ),
    ):
        rows, cut = encode_question(question, tokenizer, length)
        texts = [
            " ".join(tokenizer.convert_ids_to_tokens(row.input_ids))
            for row in rows
        ]
        assert texts == expected
        assert cut == what
        for row in rows:
            end = row.input_ids.index(tokenizer.vocab["[SEP]"]) + 1
            rest = len(row.input_ids) - end
            assert row.segment_ids == [0] * end + [1] * rest
    encode_questions([question, question], tokenizer, 7)
    encode_questions([question], tokenizer, 4)
    assert capsys.readouterr().err.splitlines() == [
        "2 of 2 questions are longer than `max_seq_length=7` pieces; their "
        "contexts were cut",
        "1 of 1 questions are longer than `max_seq_length=4` pieces; their "
        "contexts and choices were cut",
    ]
