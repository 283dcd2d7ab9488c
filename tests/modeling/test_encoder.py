"""Tests of modeling/encoder.py against the original's recorded values."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import encoder_mappings, load_checkpoint
from bert_keras.modeling.config import SIZES, BertConfig
from bert_keras.modeling.encoder import Encoder, EncoderOutputs, attention_maps
from tests.conftest import GOLDEN, ROOT, TINY, tiny_batch

TINY_BERT = GOLDEN / "tiny_bert"
NUM_PARAMETERS = {  # encoder and pooler, 30,522 pieces
    "tiny": 4_385_920,
    "mini": 11_170_560,
    "small": 28_763_648,
    "medium": 41_373_184,
    "base": 109_482_240,
    "large": 335_141_888,
}

TABLE_6 = {  # of the paper: layers, hidden size, heads
    (3, 768, 12): 45_691_392,
    (6, 768, 3): 66_955_008,
    (6, 768, 12): 66_955_008,
    (12, 768, 12): NUM_PARAMETERS["base"],
    (12, 1024, 16): 183_987_200,
    (24, 1024, 16): NUM_PARAMETERS["large"],
}


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(TINY_BERT / "forward.npz"))


def golden_encoder() -> Encoder:
    config = BertConfig.from_json_file(str(TINY_BERT / "bert_config.json"))
    encoder = Encoder(config)
    encoder.build()
    load_checkpoint(encoder_mappings(encoder), str(TINY_BERT))
    return encoder


def encode(
    encoder: Encoder, batch: dict[str, np.ndarray], seed: object = None
) -> EncoderOutputs:
    inputs = (batch[n] for n in ("input_ids", "input_mask", "segment_ids"))
    return encoder(*map(tf.constant, inputs), seed=seed)


def close(ours: object, theirs: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(ours), theirs, atol=1e-5, rtol=0)


def test_every_layer_is_googles(golden: dict[str, np.ndarray]) -> None:
    batch = {k.removeprefix("in_"): v for k, v in golden.items()}
    outputs = encode(golden_encoder(), batch)
    close(outputs.embeddings, golden["out_embedding_output"])
    assert len(outputs.layers) == 3
    for ours, theirs in zip(outputs.layers, golden["out_layers"], strict=True):
        close(ours, theirs)
    close(outputs.sequence, golden["out_sequence_output"])
    close(outputs.pooled, golden["out_pooled_output"])


ON_JAX = """
import sys
import jax
import keras
import numpy as np
sys.path.insert(0, ".")
from tests.modeling import test_encoder
jax.config.update("jax_disable_most_optimizations", True)
golden = dict(np.load(test_encoder.TINY_BERT / "forward.npz"))
encoder = test_encoder.golden_encoder()
outputs = encoder(*(golden[f"in_{name}"] for name in
                    ("input_ids", "input_mask", "segment_ids")))
assert keras.config.backend() == "jax"
np.savez(sys.argv[1], np.stack([np.asarray(x) for x in outputs.layers]),
         np.asarray(outputs.pooled))

encoder = test_encoder.dropping_encoder()
batch = test_encoder.tiny_batch(7)
inputs = [batch[n] for n in ("input_ids", "input_mask", "segment_ids")]
variables = encoder.trainable_variables

def loss(values):
    mapping = list(zip(variables, values))
    with keras.StatelessScope(state_mapping=mapping):
        return encoder(*inputs, np.array([3, 5], "int32")).pooled.sum()

values = [v.value for v in variables]
kept = jax.jit(jax.grad(loss))(values)
encoder.recompute()
recomputed = jax.jit(lambda values: jax.grad(loss)(values))
assert str(recomputed.trace(values).jaxpr).count("remat") >= 1
for one, other in zip(kept, recomputed(values)):
    np.testing.assert_allclose(one, other, atol=1e-6)
"""


@pytest.mark.slow
def test_jax_gives_what_tensorflow_gives(
    tmp_path: Path, golden: dict[str, np.ndarray]
) -> None:
    path = tmp_path / "jax.npz"
    subprocess.run(
        [sys.executable, "-c", ON_JAX, str(path)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax"},
    )
    layers, pooled = np.load(path).values()
    batch = {k.removeprefix("in_"): v for k, v in golden.items()}
    ours = encode(golden_encoder(), batch)
    np.testing.assert_allclose(layers, np.stack(ours.layers), atol=1e-5)
    np.testing.assert_allclose(pooled, ours.pooled, atol=1e-5)


@pytest.mark.parametrize("size", SIZES)
def test_parameter_counts(size: str) -> None:
    config = BertConfig.of_size(size, 30522)
    encoder = Encoder(dataclasses.replace(config, num_hidden_layers=1))
    encoder.build()
    first = encoder.count_params()
    layer = encoder.layers[0].count_params()  # whatever its heads
    more_layers = config.num_hidden_layers - 1
    assert first + more_layers * layer == NUM_PARAMETERS[size]
    page = (ROOT / "docs" / "how_to" / "paper.md").read_text()
    for (layers, hidden, heads), count in TABLE_6.items():
        if hidden == config.hidden_size:
            assert first + (layers - 1) * layer == count
            assert f"| {layers} | {hidden} | {heads} | {count:,} |" in page


def test_initial_weights_are_googles_distribution() -> None:
    keras.utils.set_random_seed(1)
    encoder = Encoder(dataclasses.replace(TINY, vocab_size=10007))
    encoder.build()
    words = encoder.embeddings.word_embeddings.numpy()
    assert np.abs(words).max() <= 0.04  # cut at two standard deviations
    # the standard deviation of a normal cut so is 0.8796 of the normal's
    assert words.std() == pytest.approx(0.02 * 0.8796, rel=0.01)
    layer = encoder.layers[0]
    assert not layer.attention.qkv_bias.numpy().any()
    assert (layer.attention_output.layer_norm.gamma.numpy() == 1).all()


def test_dropout_follows_the_seed() -> None:
    config = dataclasses.replace(
        TINY, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
    )
    encoder, batch = Encoder(config), tiny_batch(7)
    one = encode(encoder, batch, tf.constant([3, 5])).sequence.numpy()
    again = encode(encoder, batch, tf.constant([3, 5])).sequence.numpy()
    other = encode(encoder, batch, tf.constant([3, 6])).sequence.numpy()
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0.1


def dropping_encoder() -> Encoder:
    config = dataclasses.replace(
        TINY,
        num_hidden_layers=1,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    )
    encoder = Encoder(config)
    encoder.build()
    return encoder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "use_xla"), [("mixed_bfloat16", False), ("float32", True)]
)
def test_recomputed_layers_have_the_same_gradients(
    precision: str, use_xla: bool
) -> None:
    keras.config.set_dtype_policy(precision)
    try:
        encoder = dropping_encoder()
    finally:
        keras.config.set_dtype_policy("float32")
    batch = tiny_batch(7)
    variables = [v.value for v in encoder.trainable_variables]

    def gradients() -> list[np.ndarray]:
        @tf.function(jit_compile=use_xla, autograph=False)
        def compute(key: tf.Tensor) -> list[tf.Tensor]:
            with tf.GradientTape() as tape:
                pooled = encode(encoder, batch, key).pooled
                loss = tf.reduce_sum(tf.cast(pooled, tf.float32))
            found = tape.gradient(loss, variables)
            return [tf.convert_to_tensor(g) for g in found]

        return [g.numpy() for g in compute(tf.constant([3, 5]))]

    kept = gradients()
    encoder.recompute()
    for one, other in zip(kept, gradients(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, rtol=1e-6)


PEAKS = """
import re, sys
sys.path.insert(0, ".")
from tests.modeling import test_encoder
import tensorflow as tf

def peak():
    status = open("/proc/self/status").read()
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1])

encoder = test_encoder.wide_encoder()
words = encoder.embeddings.word_embeddings.value
ones = tf.ones([29, 256], tf.int32)
before = peak()
for encoder.is_recomputed in (True, False):

    @tf.function(autograph=False)
    def compute(key):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(encoder(ones, ones, ones, key).pooled)
        return tf.convert_to_tensor(tape.gradient(loss, words))

    compute(tf.constant([3, 5]))
    print(peak() - before)
"""


def wide_encoder() -> Encoder:
    """Of 29 rows of 256, its probabilities, before and after dropout, are 76
    MB a layer."""
    config = dataclasses.replace(
        TINY,
        num_hidden_layers=8,
        attention_probs_dropout_prob=0.1,
        max_position_embeddings=256,
    )
    encoder = Encoder(config)
    encoder.build()
    return encoder


@pytest.mark.slow
def test_recomputed_layers_are_not_kept() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PEAKS],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    recomputed, kept = map(int, done.stdout.split())
    assert kept > 2 * recomputed


@pytest.mark.parametrize(
    "name",
    ["pretraining", "roberta_bare", "distilbert_bare", "modernbert_bare"],
)
def test_attention_maps_are_those_of_transformers(name: str) -> None:
    folder = GOLDEN / "hugging_face" / name
    theirs = dict(np.load(folder / "outputs.npz"))
    expected = np.load(folder / "attentions.npz")["attentions"]
    encoder = Encoder(BertConfig.from_json_file(str(folder / "config.json")))
    encoder.build()
    load_checkpoint(encoder_mappings(encoder), str(folder))
    ids, mask = (
        theirs[f"in_{key}"].astype(np.int32)
        for key in ("input_ids", "attention_mask")
    )
    segments = theirs.get("in_token_type_ids", np.zeros_like(ids))
    with fused_ops.uncompiled():
        maps = attention_maps(encoder, ids, mask, segments.astype(np.int32))
    maps = maps.numpy()
    assert maps.shape == expected.shape
    assert maps.shape[1:] == (3, 3, 11, 11)
    np.testing.assert_allclose(maps.sum(-1), 1.0, atol=1e-5)
    rows = np.moveaxis(maps - expected, 3, 2)[:, mask == 1]  # not of padding
    assert np.abs(rows).max() < 1e-5
    assert np.abs(expected[:, 0] - expected[:, 1]).max() > 0.2


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
def test_attention_maps_keep_to_the_direction(direction: str) -> None:
    encoder = Encoder(dataclasses.replace(TINY, direction=direction))
    encoder.build()
    batch = tiny_batch(2)
    names = ("input_ids", "input_mask", "segment_ids")
    with fused_ops.uncompiled():
        maps = attention_maps(encoder, *(batch[name] for name in names)).numpy()
    ahead = (
        np.triu(maps, 1) if direction == "left_to_right" else np.tril(maps, -1)
    )
    assert not ahead.any()
    np.testing.assert_allclose(maps.sum(-1), 1.0, atol=1e-5)


def test_bfloat16_stays_near_float32(golden: dict[str, np.ndarray]) -> None:
    batch = {k.removeprefix("in_"): v for k, v in golden.items()}
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        encoder = golden_encoder()
        outputs = encode(encoder, batch)
    finally:
        keras.config.set_dtype_policy("float32")
    assert outputs.sequence.dtype == tf.bfloat16
    assert encoder.layers[0].attention.qkv_kernel.dtype == "float32"
    difference = (
        tf.cast(outputs.pooled, tf.float32) - golden["out_pooled_output"]
    )
    assert np.abs(difference).mean() < 0.02


def test_config_of_the_golden_model_is_the_tiny_one() -> None:
    text = (TINY_BERT / "bert_config.json").read_text()
    assert json.loads(TINY.to_json()) == json.loads(text)
