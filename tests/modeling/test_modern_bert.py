"""Tests of modeling/modern_bert.py: what transformers' values, which are in
test_hugging_face.py and test_encoder.py, do not show."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from safetensors.numpy import load_file, save_file

from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.attention import same_sequence
from bert_keras.modeling.checkpoint import check_sizes, encoder_mappings
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.cost import Rows, step_flop, training_memory
from bert_keras.modeling.encoder import Encoder
from bert_keras.modeling.encoder_variants import make_encoder
from bert_keras.modeling.hugging_face import to_hugging_face
from bert_keras.tasks.ner.model import TokenClassifier
from tests.conftest import GOLDEN, ROOT
from tests.modeling.test_keras_layers import on_backend

MODERN = BertConfig(
    vocab_size=41,
    hidden_size=12,
    num_hidden_layers=3,
    num_attention_heads=3,
    intermediate_size=17,
    max_position_embeddings=29,
    type_vocab_size=0,
    hidden_dropout_prob=0.2,
    attention_probs_dropout_prob=0.2,
    layer_norm_eps=1e-5,
    initializer_range=0.5,
    family="modernbert",
    global_attn_every_n_layers=2,
    local_attention=4,
)
POOLED = ["cls", "mean"]
# Of Keras's own conversions to NumPy
pytestmark = pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")


def built(**changes: Any) -> Encoder:
    keras.utils.set_random_seed(7)
    encoder = Encoder(dataclasses.replace(MODERN, **changes))
    encoder.build()
    return encoder


def ids(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 41, shape, np.int32)


def test_pairs_of_numbers_turn_with_the_position() -> None:
    """Two positions, a head of four: pairs (1, 3) and (2, 4) turn by 1 and by
    100^-0.5 = 0.1 radians."""
    vector = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    x = np.broadcast_to(vector, (1, 2, 3, 1, 4))
    with fused_ops.uncompiled():
        turned = np.asarray(fused_ops.rotated(x, 100))[0, :, :, 0]
    (first, first_key, _), (second, second_key, value) = turned
    np.testing.assert_array_equal([first, first_key, value], [vector] * 3)
    np.testing.assert_array_equal(second, second_key)
    expected = [
        np.cos(1) - 3 * np.sin(1),
        2 * np.cos(0.1) - 4 * np.sin(0.1),
        3 * np.cos(1) + np.sin(1),
        4 * np.cos(0.1) + 2 * np.sin(0.1),
    ]
    np.testing.assert_allclose(second, expected, rtol=1e-6)


@pytest.mark.parametrize("pooling", POOLED)
def test_sequences_of_a_packed_row_are_as_if_alone(pooling: str) -> None:
    """Wherever they begin: rotations differ, and their differences do not."""
    encoder = built(classifier_pooling=pooling)
    row = ids(1, 12)
    numbers = np.array([[1] * 7 + [2] * 5], np.int32)
    packed = encoder(
        row,
        same_sequence(numbers),
        position_ids=np.array([[*range(7), *range(5)]], np.int32),
        pooled_positions=np.array([[0, 7]], np.int32),
    )
    for number, (start, end) in enumerate(((0, 7), (7, 12))):
        alone = encoder(row[:, start:end])
        np.testing.assert_allclose(
            packed.sequence[:, start:end], alone.sequence, atol=2e-5
        )
        np.testing.assert_allclose(
            packed.pooled[:, number], alone.pooled, atol=2e-5
        )


@pytest.mark.parametrize("pooling", POOLED)
def test_some_positions_alone_are_as_among_all(pooling: str) -> None:
    encoder = built(classifier_pooling=pooling)
    mask = np.array([[1] * 9 + [0] * 2, [1] * 11], np.int32)
    whole = encoder(ids(2, 11), mask)
    positions = np.array([[4, 8], [0, 10]], np.int32)
    some = encoder(ids(2, 11), mask, sequence_positions=positions)
    expected = np.take_along_axis(
        np.asarray(whole.sequence), positions[:, :, None], axis=1
    )
    np.testing.assert_allclose(some.sequence, expected, atol=1e-5)
    np.testing.assert_allclose(some.pooled, whole.pooled, atol=1e-5)


def test_a_local_layer_looks_two_positions_far() -> None:
    encoder = built(global_attn_every_n_layers=3, num_hidden_layers=2)
    one = ids(1, 11)
    other = one.copy()
    other[0, 5] += 1
    local = encoder.layers[1]
    mask = np.zeros((1, 1, 1, 11), np.float32)
    reads = [encoder.embeddings(x) for x in (one, other)]
    differences = np.abs(local(reads[0], mask) - local(reads[1], mask))
    seen = np.flatnonzero(np.asarray(differences).max(axis=(0, 2)))
    assert seen.tolist() == [3, 4, 5, 6, 7]


def test_a_model_of_keras_is_saved_and_loaded_to_the_bit(
    tmp_path: Path,
) -> None:
    inputs = keras.Input((None,), dtype="int32", name="input_ids")
    encoder = built()
    model = keras.Model(inputs, encoder({"input_ids": inputs}).pooled)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(ids(2, 11)), model(ids(2, 11)))


@pytest.mark.parametrize("recomputes", [False, True])
def test_dropout_follows_the_seed(recomputes: bool) -> None:
    encoder = built()
    if recomputes:
        encoder.recompute()
    batch = ids(2, 11)

    def gradients(key: int) -> list[np.ndarray]:
        with tf.GradientTape() as tape:
            pooled = encoder(batch, seed=tf.constant([key, 3])).pooled
            loss = tf.reduce_sum(pooled * ids(2, 12).astype(np.float32))
        variables = [v.value for v in encoder.trainable_variables]
        return [
            tf.convert_to_tensor(g).numpy()
            for g in tape.gradient(loss, variables)
        ]

    one, same, other = gradients(1), gradients(1), gradients(2)
    assert all(np.abs(gradient).max() > 0 for gradient in one)
    for first, second, third in zip(one, same, other, strict=True):
        np.testing.assert_array_equal(first, second)
        assert np.abs(first - third).max() > 0


def test_lora_trains_little_and_is_in_what_is_saved() -> None:
    encoder = built()
    before = [m.read() for m in encoder_mappings(encoder)]
    encoder.enable_lora(2)
    assert len(encoder.trainable_weights) == 3 * 4 * 2
    for layer in encoder.layers:
        _, b = layer.attention.lora.factors
        b.assign(ops.ones_like(b))
    after = [m.read() for m in encoder_mappings(encoder)]
    changed = [
        m.name
        for m, x, y in zip(
            encoder_mappings(encoder), before, after, strict=True
        )
        if np.abs(x - y).max() > 0
    ]
    assert changed == [
        f"bert/encoder/layer_{i}/attention/self/qkv/kernel" for i in range(3)
    ]


def test_bfloat16_stays_near_float32() -> None:
    exact = built(initializer_range=0.1)
    keras.utils.set_random_seed(7)
    half = Encoder(exact.config, dtype="mixed_bfloat16")
    half.build()
    half.set_weights(exact.get_weights())
    one, other = exact(ids(3, 11)), half(ids(3, 11))
    assert other.sequence.dtype == tf.bfloat16
    difference = np.asarray(one.sequence) - np.asarray(
        tf.cast(other.sequence, tf.float32)
    )
    assert 0 < np.abs(difference).mean() < 0.02


def test_the_published_size() -> None:
    """What transformers' ModernBertModel has at its defaults, 149,014,272, and
    the head's dense layer and norm."""
    config = BertConfig(
        vocab_size=50368,
        num_hidden_layers=22,
        intermediate_size=1152,
        max_position_embeddings=8192,
        type_vocab_size=0,
        family="modernbert",
    )
    encoder = Encoder(config)
    encoder.build()
    assert encoder.count_params() == 149_014_272 + 768 * 768 + 768


def test_a_gate_costs_a_third_product() -> None:
    plain = dataclasses.replace(
        MODERN,
        family="bert",
        type_vocab_size=2,
        global_attn_every_n_layers=3,
        local_attention=128,
    )
    rows = Rows(13, 5)
    more = step_flop(MODERN, rows, -1) - step_flop(plain, rows, -1)
    assert more == 3 * 13 * 3 * 5 * 2 * 12 * 17
    one, other = (
        sum(training_memory(x, rows, 1000, 900).values())
        for x in (MODERN, plain)
    )
    assert one - other == 13 * 3 * 5 * 17 * 4


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_attention_heads": 4}, "an even number for each attention head"),
        ({"type_vocab_size": 2}, "type_vocab_size = 2; expected 0 in a modern"),
        ({"local_attention": 0}, "local_attention = 0; expected a positive"),
        ({"global_rope_theta": 2.5}, "global_rope_theta = 2.5; expected a pos"),
        ({"classifier_pooling": "max"}, "= 'max'; expected one of cls, mean"),
        (
            {"family": "distilbert", "classifier_pooling": "mean"},
            "= 'mean'; expected one of cls",
        ),
    ],
)
def test_what_is_wrong_in_a_config_is_named(
    changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        dataclasses.replace(MODERN, **changes)


def test_what_it_cannot_be() -> None:
    for variant in ((True, None), (False, "right_to_left")):
        with pytest.raises(InputError, match="'modernbert'; expected another"):
            make_encoder(MODERN, *variant)


THEIRS = {
    "attention_dropout": 0.2,
    "global_attn_every_n_layers": 2,
    "global_rope_theta": 500,
    "hidden_activation": "gelu",
    "hidden_size": 12,
    "intermediate_size": 17,
    "local_attention": 4,
    "local_rope_theta": 70,
    "max_position_embeddings": 29,
    "mlp_dropout": 0.3,
    "model_type": "modernbert",
    "norm_eps": 1e-6,
    "num_attention_heads": 3,
    "num_hidden_layers": 3,
    "pad_token_id": 3,
    "vocab_size": 41,
}
FULL, NEAR = "full_attention", "sliding_attention"


def read(tmp_path: Path, values: dict[str, Any]) -> BertConfig:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values))
    return BertConfig.from_json_file(str(path))


def test_a_config_there_and_back(tmp_path: Path) -> None:
    config = read(tmp_path, THEIRS)
    assert config == dataclasses.replace(
        MODERN,
        hidden_act="gelu_erf",
        hidden_dropout_prob=0.3,
        layer_norm_eps=1e-6,
        initializer_range=0.02,
        pad_token_id=3,
        global_rope_theta=500,
        local_rope_theta=70,
    )
    back = to_hugging_face(config)
    assert THEIRS.items() <= back.items()
    assert not {"hidden_act", "layer_norm_eps", "family"} & back.keys()
    assert read(tmp_path, back) == config
    (tmp_path / "bert_config.json").write_text(config.to_json())
    again = BertConfig.from_json_file(str(tmp_path / "bert_config.json"))
    assert again == config
    assert "local_attention" not in to_hugging_face(BertConfig(7))
    assert "local_attention" not in BertConfig(7).to_json()


def test_a_window_may_be_said_twice(tmp_path: Path) -> None:
    assert read(tmp_path, THEIRS | {"sliding_window": 2}).local_attention == 4


def test_its_keys_say_nothing_of_a_bert(tmp_path: Path) -> None:
    others = {
        "model_type": "bert", "vocab_size": 7, "local_attention": [1, 2],
        "classifier_pooling": "mean", "global_rope_theta": 10000.0,
    }  # fmt: skip
    config = read(tmp_path, others)
    assert config.local_attention == 128
    assert config.classifier_pooling == "cls"


def test_a_head_without_what_it_reads_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "hugging_face" / "modernbert_masked_lm", folder)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    del tensors["head.dense.weight"]
    save_file(tensors, path)
    config = BertConfig.from_json_file(str(folder / "config.json"))
    with pytest.raises(InputError, match="output_bias and no bert/pooler"):
        check_sizes(config, str(folder))


def test_a_frozen_encoder_stays_frozen() -> None:
    encoder = built()
    encoder.trainable = False
    model = TokenClassifier(MODERN, 3, encoder=encoder)
    assert len(model.trainable_variables) == 2


@pytest.mark.slow
def test_on_jax() -> None:
    file = str(ROOT / "tests" / "modeling" / "test_hugging_face.py")
    on_backend("jax", file, "outputs_are and modernbert")


def test_defaults_are_those_of_the_released_model(tmp_path: Path) -> None:
    config = read(tmp_path, {"model_type": "modernbert"})
    assert (config.vocab_size, config.num_hidden_layers) == (50368, 22)
    assert config.global_rope_theta == 160_000
    assert config.local_rope_theta == 10_000
    assert (config.padding_id, config.hidden_dropout_prob) == (50283, 0.0)


def test_transformers_5_says_layers_and_rotations_otherwise(
    tmp_path: Path,
) -> None:
    old = ("global_attn_every_n_layers", "global_rope_theta",
           "local_rope_theta")  # fmt: skip
    new = {k: v for k, v in THEIRS.items() if k not in old} | {
        "layer_types": [FULL, NEAR, FULL],
        "rope_parameters": {
            FULL: {"rope_theta": 500.0, "rope_type": "default"},
            NEAR: {"rope_theta": 70.0, "rope_type": "default"},
        },
    }
    assert read(tmp_path, new) == read(tmp_path, THEIRS)
    local = read(tmp_path, new | {"layer_types": [FULL, NEAR, NEAR]})
    assert local.global_attn_every_n_layers == 3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"layer_types": [NEAR, FULL, NEAR]}, "layer_types = "),
        ({"layer_types": [FULL, FULL, NEAR]}, "layer_types = "),
        ({"layer_types": 3}, "layer_types = 3"),
        ({"layer_types": [FULL]}, "layer_types = "),
        (
            {"rope_parameters": {FULL: {"rope_type": "yarn"}}},
            "rope_parameters = .*'yarn'.*; expected a rope_theta alone",
        ),
        (
            {"rope_parameters": {NEAR: {"type": "linear", "factor": 2.0}}},
            "rope_parameters = .*'linear'",
        ),
        (
            {"rope_parameters": {"rope_theta": 5.0, "rope_type": "linear"}},
            "rope_parameters = .* expected those of full_attention and",
        ),
        ({"sliding_window": 4}, "sliding_window = 4; expected half of local"),
        ({"rope_parameters": 7}, "rope_parameters = 7"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling"),
        ({"norm_bias": True}, "norm_bias = True; the one supported"),
        ({"embedding_dropout": 0.1}, "embedding_dropout = 0.1; the one"),
        ({"global_attn_every_n_layers": 0}, "every_n_layers = 0; expected"),
        ({"global_attn_every_n_layers": "2"}, "every_n_layers = '2'"),
    ],
)
def test_another_modernbert_is_refused(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        read(tmp_path, THEIRS | changes)
