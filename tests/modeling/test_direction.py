"""Models that read in one direction: what they see, in rows of any kind."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.batching import pack
from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.attention import additive_mask, vectors_at
from bert_keras.modeling.checkpoint import save_model_folder
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder, last_positions
from bert_keras.modeling.hugging_face import to_hugging_face
from bert_keras.tasks.classification.model import Regression, TextClassifier
from bert_keras.tasks.fill_mask import BlankFiller
from bert_keras.tasks.load import load
from bert_keras.tasks.packed_inputs import encode
from tests.conftest import GOLDEN, TINY

ONE_WAY = ("left_to_right", "right_to_left")


@pytest.fixture(autouse=True)
def uncompiled() -> Iterator[None]:
    """To compile takes longer than so few rows do."""
    with fused_ops.uncompiled():
        yield


def config_of(direction: str) -> BertConfig:
    return dataclasses.replace(TINY, direction=direction)


def tensors(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in batch.items()}


def test_a_mask_in_one_direction() -> None:
    """Three real positions and one of padding."""
    mask = tf.constant([[1, 1, 1, 0]])
    np.testing.assert_array_equal(
        additive_mask(mask, "left_to_right") == 0.0,
        [[[[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]]],
    )
    np.testing.assert_array_equal(
        additive_mask(mask, "right_to_left") == 0.0,
        [[[[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]]],
    )


def test_the_last_position() -> None:
    mask = tf.constant([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(last_positions(mask), [2, 0, 0])


def sensitivity(direction: str, batch: dict[str, tf.Tensor]) -> np.ndarray:
    """[S, S]: how much output i moves with the word vector at j, where the
    pieces of the one row are all different."""
    keras.utils.set_random_seed(7)
    encoder = Encoder(config_of(direction))
    encoder.build()
    ids = batch["input_ids"].numpy()[0]
    words = encoder.embeddings.word_embeddings.value
    with tf.GradientTape(persistent=True) as tape:
        outputs = encode(encoder, batch, None).sequence[0]
        # A sum over H would not move: its last step is a LayerNorm.
        chosen = [tf.reduce_sum(x * tf.range(40.0)) for x in outputs]
    gradients = [tf.convert_to_tensor(tape.gradient(x, words)) for x in chosen]
    return np.array([np.abs(g.numpy()[ids]).max(-1) for g in gradients])


@pytest.mark.slow
def test_no_position_sees_what_it_must_not() -> None:
    row = InputFeatures(list(range(20, 31)), [0] * 4 + [1] * 7)
    batch = tensors(pad([row], 11, 1))
    below = np.tri(11, dtype=bool)
    for direction, sees in zip(ONE_WAY, (below, below.T), strict=True):
        np.testing.assert_array_equal(sensitivity(direction, batch) > 0, sees)
    assert (sensitivity("bidirectional", batch) > 0).all()


def test_nor_in_a_packed_row() -> None:
    rows = [
        InputFeatures([20, 21, 22, 23], [0] * 4),
        InputFeatures([30, 31, 32], [0] * 3),
    ]
    batch = tensors(pack(rows, [[0, 1]], 1, 7, 2))
    own = np.zeros((7, 7), bool)
    own[:4, :4] = own[4:, 4:] = True
    for direction, sees in zip(
        ONE_WAY, (np.tri(7, dtype=bool), np.tri(7, dtype=bool).T), strict=True
    ):
        found = sensitivity(direction, batch) > 0
        np.testing.assert_array_equal(found, sees & own)


@pytest.mark.parametrize("direction", ONE_WAY)
def test_pooled_where_all_is_seen(direction: str) -> None:
    """Packed or padded, to whatever length: the same; and each of a text's
    pieces counts."""
    keras.utils.set_random_seed(7)
    model = TextClassifier(config_of(direction), Regression())
    rows = [
        InputFeatures([2, 5, 6, 7, 3], [0] * 5),
        InputFeatures([2, 8, 3], [0] * 3),
    ]
    padded = model.outputs_by_name(tensors(pad(rows, 11, 2)))["logits"]
    for batch in (pad(rows, 5, 2), pack(rows, [[1, 0]], 2, 8, 4)):
        logits = model.outputs_by_name(tensors(batch))["logits"]
        np.testing.assert_allclose(logits, padded, atol=1e-6)
    for place in range(5):
        ids = [2, 5, 6, 7, 3]
        ids[place] = 50
        changed = model.outputs_by_name(
            tensors(pad([InputFeatures(ids, [0] * 5)], 11, 1))
        )
        assert np.abs(changed["logits"] - padded[:1]).max() > 1e-5


@pytest.mark.parametrize("direction", ["bidirectional", *ONE_WAY])
@pytest.mark.parametrize("is_recomputed", [False, True])
def test_the_last_layer_where_it_is_read_is_the_same_there(
    direction: str, is_recomputed: bool
) -> None:
    """Vectors and gradients, of rows padded and packed."""
    keras.utils.set_random_seed(7)
    encoder = Encoder(config_of(direction))
    encoder.build()
    encoder.is_recomputed = is_recomputed
    rows = [
        InputFeatures([2, 5, 6, 7, 3], [0] * 5),
        InputFeatures([2, 8, 3], [0] * 3),
    ]
    padded = tensors(pad(rows, 7, 2))
    packed = tensors(pack(rows, [[1, 0]], 2, 8, 4))
    first = packed["row_positions"]
    places = tf.constant([[4, 1, 1], [2, 0, 3]])
    variables = [v.value for v in encoder.trainable_variables]
    for batch, pooled_positions in ((padded, None), (packed, first)):
        found = []
        for positions in (None, places):
            with tf.GradientTape() as tape:
                outputs = encode(
                    encoder, batch, None, pooled_positions, positions
                )
                sequence = outputs.sequence
                if positions is None:
                    sequence = vectors_at(sequence, places)
                loss = tf.reduce_sum(tf.sin(sequence))
                loss += tf.reduce_sum(tf.cos(outputs.pooled))
            gradients = tape.gradient(loss, variables)
            found.append(
                [sequence, outputs.pooled]
                + [tf.convert_to_tensor(x) for x in gradients]
            )
        for every, read in zip(*found, strict=True):
            np.testing.assert_allclose(every, read, atol=1e-5, rtol=1e-5)


def test_a_config_says_it_where_it_is_not_both(tmp_path: Path) -> None:
    path = tmp_path / "bert_config.json"
    path.write_text(config_of("left_to_right").to_json())
    assert BertConfig.from_json_file(str(path)).direction == "left_to_right"
    assert "direction" not in TINY.to_json()
    assert "direction" not in to_hugging_face(TINY)


def test_what_reads_in_one_direction_is_refused_elsewhere() -> None:
    with pytest.raises(InputError, match="direction = 'up'; expected one of"):
        config_of("up")
    with pytest.raises(InputError, match="Hugging Face's encoders have no"):
        to_hugging_face(config_of("left_to_right"))


def test_a_model_of_one_direction_encodes_and_fills_no_blanks(
    tmp_path: Path,
) -> None:
    config = config_of("right_to_left")
    mappings = BlankFiller(config, [5]).mappings()
    vocab = str(GOLDEN / "tiny_vocab.txt")
    save_model_folder(str(tmp_path), config, mappings, vocab)
    model: Any = load(str(tmp_path))
    assert model.encode("the sea").shape == (config.hidden_size,)
    with pytest.raises(InputError, match="not trained to fill in blanks"):
        model.fill("the [MASK]")
