"""Tests of ner/model.py and lstm_tagger.py: losses by hand, packed rows as
padded ones, and what a sentence's words are read with."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.batching import InMemoryBatches
from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.errors import InputError
from bert_keras.tasks.ner.feature_based.lstm_tagger import (
    CHOICES,
    FeatureTagger,
    ScalarMix,
    WordFeatures,
    WordLstm,
)
from bert_keras.tasks.ner.model import TokenClassifier
from bert_keras.tasks.task_config import FEATURE_LAYERS
from tests.conftest import TINY
from tests.tasks.learning import as_tensors, assert_packing_changes_nothing

pytestmark = pytest.mark.usefixtures("uncompiled_chains")

NUM_TAGS, LSTM_SIZE = 7, 11
ROWS = [InputFeatures(list(range(2, 4 + i)), [0] * (2 + i)) for i in range(14)]
SEED = tf.constant([3, 5])


def filled(model: Any) -> Any:
    """The model with weights from a seed."""
    rng = np.random.default_rng(1)
    for mapping in model.mappings():
        value = rng.normal(0, 0.2, mapping.shape).astype(np.float32)
        mapping.write(value)
    return model


def labels_of(rows: list[InputFeatures]) -> dict[str, np.ndarray]:
    """Every second piece begins a word; the last of them has no label."""
    arrays = {
        name: np.zeros((len(rows), 7), np.int32)
        for name in ("label_ids", "label_positions")
    }
    for i, row in enumerate(rows):
        places = np.arange(1, len(row.input_ids), 2)[:7]
        arrays["label_positions"][i, : len(places)] = places
        arrays["label_ids"][i, : len(places) - 1] = 1 + (i + places[:-1]) % 7
    return arrays


def test_the_loss_is_a_mean_over_labelled_words() -> None:
    model = filled(TokenClassifier(TINY, NUM_TAGS))
    labels = labels_of(ROWS)
    batch = as_tensors(pad(ROWS, 19, 14) | labels)
    totals = model.totals(batch)
    loss, sums = model.loss_fn(batch, totals, None)
    logits = model.outputs_by_name(batch)["logits"].numpy().astype(np.float64)
    losses, hits = [], []
    for i, (own, places) in enumerate(zip(*labels.values(), strict=True)):
        for label, place in zip(own[own > 0], places, strict=False):
            x = logits[i, place]
            losses.append(np.log(np.exp(x).sum()) - x[label - 1])
            hits.append(x.argmax() == label - 1)
    assert float(totals["words"]) == len(losses) == 42
    assert float(loss) == pytest.approx(np.mean(losses), rel=1e-5)
    assert float(sums["accuracy"][0]) == sum(hits)
    assert float(sums["accuracy"][1]) == 42


@pytest.mark.slow
def test_packed_rows_learn_what_padded_rows_do() -> None:
    """Twelve rows, as three micro-batches."""
    num_micro_batches = 3
    model = filled(TokenClassifier(TINY, NUM_TAGS))
    padded, packed = (
        as_tensors(
            InMemoryBatches(
                ROWS, labels_of(ROWS), 12, 29, 3, num_micro_batches=n
            ).batch(1)
        )
        for n in (0, num_micro_batches)
    )
    assert "first_positions" in packed and "first_positions" not in padded
    assert_packing_changes_nothing(model, padded, packed, num_micro_batches)


def test_words_are_asked_for_by_positions() -> None:
    model = filled(TokenClassifier(TINY, NUM_TAGS))
    rows = [row._replace(positions=[1, 2]) for row in ROWS[1:4]]
    batch = as_tensors(pad(rows, 7, 4))
    found = model.outputs_by_name(batch)["logits"]
    del batch["positions"]
    whole = model.outputs_by_name(batch)["logits"]
    assert whole.shape == (4, 7, NUM_TAGS) and found.shape == (4, 2, NUM_TAGS)
    np.testing.assert_allclose(found[:3], whole[:3, 1:3], atol=1e-6)


def test_the_head_has_dropout_of_its_own() -> None:
    """The config has none."""
    model = filled(TokenClassifier(TINY, NUM_TAGS))
    batch = as_tensors(pad(ROWS, 19, 14) | labels_of(ROWS))
    totals = model.totals(batch)
    losses = [
        float(model.loss_fn(batch, totals, seed)[0])
        for seed in (None, SEED, SEED, SEED + 1)
    ]
    assert losses[1] == losses[2]
    assert len(set(losses)) == 3


def test_layers_are_those_of_their_names() -> None:
    assert tuple(CHOICES) == FEATURE_LAYERS
    config = TINY.__class__(**{**vars(TINY), "num_hidden_layers": 5})
    rows = [row._replace(positions=[1, 2, 3]) for row in ROWS[2:6]]
    batch = as_tensors(pad(rows, 9, 4))
    model = filled(WordFeatures(config, "last"))
    outputs = model.encoder(
        batch["input_ids"], batch["input_mask"], batch["segment_ids"]
    )
    layers = [outputs.embeddings, *outputs.layers]
    hidden = np.stack([x.numpy()[:, 1:4] for x in layers], axis=2)
    expected = {
        "embeddings": hidden[:, :, :1],
        "second_to_last": hidden[:, :, 4:5],
        "last": hidden[:, :, 5:],
        "sum_last_four": hidden[:, :, 2:].sum(2, keepdims=True),
        "sum_all": hidden[:, :, 1:].sum(2, keepdims=True),
        "weighted_sum_last_four": hidden[:, :, 2:],
        "weighted_sum_all": hidden[:, :, 1:],
        "concat_last_four": hidden[:, :, 2:],
    }
    for name in FEATURE_LAYERS:
        features = WordFeatures(config, name)
        features.encoder = model.encoder
        found = features.outputs_by_name(batch)["vectors"]
        assert found.shape[2:] == features.shape
        np.testing.assert_allclose(
            found[:, :3], expected[name], atol=1e-5, err_msg=name
        )
    with pytest.raises(InputError, match="no layer -4; expected 0 to 2"):
        WordFeatures(TINY, "concat_last_four")


def test_layers_are_mixed_by_learnt_shares() -> None:
    """Odds of 1 : 3, of a scale of 2: a half and one and a half."""
    mix = ScalarMix(2)
    mix.build()
    x = tf.constant([[[[1.0, 10.0], [2.0, 20.0]]]])
    np.testing.assert_allclose(mix(x), [[[1.5, 15.0]]])  # at first their mean
    mix.layer_weights.assign(np.log([1.0, 3.0]))
    mix.scale.assign([2.0])
    np.testing.assert_allclose(mix(x), [[[3.5, 35.0]]], rtol=1e-6)


def test_the_lstm_reads_a_sentence_alone_and_from_both_ends() -> None:
    """What is behind its end changes nothing; a word's outputs follow from all
    words of the sentence, and turned round they are those of the sentence
    turned round by the other direction's weights."""
    lstm = WordLstm(LSTM_SIZE)
    lstm.build((None, None, 5))
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3, 7, 5)).astype(np.float32)
    lengths = np.array([4, 7, 1], np.int32)
    found = lstm(x, lengths).numpy()
    assert found.shape == (3, 7, 2 * LSTM_SIZE)
    for i, length in enumerate(lengths):
        alone = lstm(x[i : i + 1, :length], lengths[i : i + 1])
        np.testing.assert_allclose(alone[0], found[i, :length], atol=1e-6)
    for place in (0, 3):  # a word's change reaches all of the sentence
        changed = x.copy()
        changed[0, place] += 1.0
        difference = np.abs(lstm(changed, lengths).numpy() - found)
        assert (difference[0, :4].max(axis=-1) > 1e-5).all()
        assert difference[1:].max() == 0.0


def test_vectors_kept_and_rows_give_the_same_tags() -> None:
    model = filled(FeatureTagger(TINY, NUM_TAGS, "weighted_sum_all", LSTM_SIZE))
    rows = [
        row._replace(positions=list(range(1, 1 + n)))
        for n, row in zip((1, 3, 2), ROWS[2:5], strict=True)
    ]
    batch = as_tensors(pad(rows, 9, 3))
    vectors = model.features.outputs_by_name(batch)["vectors"]
    lengths = np.array([[1], [3], [2]], np.int32)
    kept = model.outputs_by_name({"vectors": vectors, "lengths": lengths})[
        "logits"
    ]
    found = model.outputs_by_name(batch)["logits"]
    for i, length in enumerate(lengths[:, 0]):
        np.testing.assert_allclose(
            kept[i, :length], found[i, :length], atol=1e-5
        )
    trained = {id(v) for v in model.trainable_variables}
    assert not trained & {id(v) for v in model.encoder.weights}
    bound = {id(b.variable) for b in model.mappings()}
    assert {id(v) for v in model.weights} <= bound
