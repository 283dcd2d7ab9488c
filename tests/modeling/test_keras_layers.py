"""Tests of the layers as Keras's: saved, loaded, trained by fit, with dropout
where training=True says so. On TensorFlow, and some once more on JAX and, where
it is installed, torch."""

import dataclasses
import importlib.util
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras.src.testing import TestCase

from bert_keras.errors import InputError
from bert_keras.modeling.attention import additive_mask
from bert_keras.modeling.checkpoint import encoder_mappings
from bert_keras.modeling.encoder import Encoder, TransformerLayer
from bert_keras.modeling.fused_ops import DropoutKeys
from bert_keras.modeling.heads import LinearHead, MaskedLmHead
from tests.conftest import ROOT, SEQ_LENGTH, TINY, tiny_batch

# Of Keras's own conversions to NumPy
pytestmark = pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")

NAMES = ("input_ids", "input_mask", "segment_ids")
DROPS = dataclasses.replace(
    TINY,
    num_hidden_layers=2,  # each takes a second to trace
    hidden_dropout_prob=0.2,
    attention_probs_dropout_prob=0.2,
)


def batch(rows: int = 6) -> dict[str, np.ndarray]:
    return {name: tiny_batch(rows)[name] for name in NAMES}


def functional(length: int | None = SEQ_LENGTH) -> keras.Model:
    inputs = {
        name: keras.Input((length,), dtype="int32", name=name) for name in NAMES
    }
    pooled = Encoder(DROPS)(inputs).pooled
    return keras.Model(inputs, LinearHead(DROPS, 2, 0.1)(pooled))


def compile_for_fit(model: keras.Model, rate: float, loss: Any = None) -> None:
    """So that tests take half the time: TensorFlow traces a step twice if the
    optimizer makes its variables in it. And where our chains are not compiled,
    Keras would have XLA compile the whole step."""
    optimizer = keras.optimizers.AdamW(rate)
    optimizer.build(model.trainable_variables)
    is_jax = keras.config.backend() == "jax"
    model.compile(optimizer, loss, jit_compile="auto" if is_jax else False)


def numbers(x: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(x))


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")
def test_keras_checks_of_a_layer() -> None:
    keras_test = TestCase()
    keras_test.run_layer_test(
        LinearHead,
        {"config": DROPS, "num_classes": 3, "dropout_prob": 0.3},
        input_shape=(2, 5, DROPS.hidden_size),
        expected_output_shape=(2, 5, 3),
        expected_num_trainable_weights=2,
        expected_num_seed_generators=1,
        run_mixed_precision_check=False,  # it is float32 whatever the policy
    )
    keras_test.run_layer_test(
        Encoder,
        {"config": DROPS},
        input_data=batch()["input_ids"],
        expected_num_seed_generators=1,
        run_training_check=False,  # it gives several outputs
    )
    for layer in (MaskedLmHead(TINY), TransformerLayer(TINY, name="own")):
        config = layer.get_config()
        assert type(layer).from_config(config).get_config() == config


def test_a_model_is_saved_and_loaded_to_the_bit(tmp_path: Path) -> None:
    model = functional()
    expected = numbers(model(batch()))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numbers(loaded(batch())), expected)
    assert loaded.layers[-2].config == DROPS
    model.save_weights(tmp_path / "model.weights.h5")
    other = functional()
    assert not np.allclose(numbers(other(batch())), expected)
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(numbers(other(batch())), expected)


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    """Has no `build`: Keras calls it with floating-point inputs to build it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder = Encoder(DROPS)
        self.top = keras.layers.Dense(2)

    def call(self, inputs: Any) -> Any:
        return self.top(self.encoder(inputs).pooled)


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="slow")
def test_a_subclassed_model_is_saved_and_loaded_to_the_bit(
    tmp_path: Path,
) -> None:
    model = Subclassed()
    expected = numbers(model(batch()))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numbers(loaded(batch())), expected)


def test_floating_point_ids_are_the_same_ids() -> None:
    config = dataclasses.replace(DROPS, vocab_size=1000)
    encoder = Encoder(config, dtype="mixed_bfloat16")
    ids = np.arange(500, 500 + SEQ_LENGTH, dtype="int32")[None]
    expected = numbers(encoder(ids).pooled)
    found = numbers(encoder(ids.astype("float32")).pooled)
    np.testing.assert_array_equal(found, expected)


def test_training_drops_and_inference_does_not() -> None:
    model, inputs = functional(), batch()
    one, two = (numbers(model(inputs, training=True)) for _ in range(2))
    assert np.abs(one - two).min() > 0
    one, two = (numbers(model(inputs, training=False)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, numbers(model(inputs)))


def test_a_key_that_is_given_wins() -> None:
    encoder, key = Encoder(DROPS), np.array([3, 5], "int32")
    one = encoder(batch(), seed=key, training=True).pooled
    two = encoder(batch(), seed=key).pooled
    np.testing.assert_array_equal(numbers(one), numbers(two))
    assert np.abs(numbers(encoder(batch()).pooled) - one).max() > 1e-3


def test_keys_differ_and_leave_what_initializers_draw() -> None:
    state = random.getstate()
    keys = DropoutKeys()
    assert random.getstate() == state
    drawn = [tuple(numbers(keys.draw()).tolist()) for _ in range(5)]
    assert len(set(drawn)) == 5
    assert {second for _, second in drawn} == {0}  # dropout_seed counts there
    one, two = Encoder(TINY), Encoder(TINY)
    one.build()
    two.build()
    own = [numbers(encoder.keys.draw()) for encoder in (one, two)]
    assert (own[0] != own[1]).any()


@pytest.mark.slow
def test_fit_learns_and_a_frozen_encoder_stays() -> None:
    model, inputs = functional(), batch(16)
    labels = (inputs["input_ids"][:, 1] > 50).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    compile_for_fit(model, 3e-3, loss)
    history = model.fit(inputs, labels, batch_size=8, epochs=12, verbose=0)
    assert history.history["loss"][-1] < 0.8 * history.history["loss"][0]
    encoder, head = model.layers[-2:]
    encoder.trainable = False
    compile_for_fit(model, 1e-2, loss)
    before = [numbers(v) for v in (*encoder.weights, *head.weights)]
    model.fit(inputs, labels, batch_size=8, epochs=1, verbose=0)
    after = [numbers(v) for v in (*encoder.weights, *head.weights)]
    changed = [
        not np.array_equal(*pair) for pair in zip(before, after, strict=True)
    ]
    assert changed == [False] * len(encoder.weights) + [True, True]


def test_two_encoders_in_one_model_of_any_length() -> None:
    ids = keras.Input((None,), dtype="int32")
    pooled = [Encoder(TINY)(ids).pooled for _ in range(2)]
    model = keras.Model(ids, keras.layers.Dot(1)(pooled))
    assert len({layer.name for layer in model.layers}) == len(model.layers)
    for length in (7, 11):
        x = np.full((3, length), 5, "int32")
        assert numbers(model(x)).shape == (3, 1)


def test_inputs_may_be_named_listed_or_left_out() -> None:
    encoder, inputs = Encoder(TINY), batch()
    expected = numbers(encoder(*inputs.values()).sequence)
    for given in (inputs, list(inputs.values())):
        np.testing.assert_array_equal(
            numbers(encoder(given).sequence), expected
        )
    ids = inputs["input_ids"]
    plain = encoder(ids, np.ones_like(ids), np.zeros_like(ids)).sequence
    np.testing.assert_array_equal(
        numbers(encoder(ids).sequence), numbers(plain)
    )


def test_a_type_by_argument() -> None:
    outputs = Encoder(TINY, dtype="bfloat16")(batch())
    assert keras.backend.standardize_dtype(outputs.pooled.dtype) == "bfloat16"
    exact = Encoder(TINY, dtype="mixed_bfloat16")
    assert {v.dtype for v in exact.weights} <= {"float32"}


@pytest.mark.slow
def test_lora_trains_little_and_is_added_to_what_is_saved(
    tmp_path: Path,
) -> None:
    keras.utils.set_random_seed(3)
    model, x = functional(), batch(16)
    encoder, head = model.layers[-2:]
    expected = numbers(model(x))
    kernels = {m.name: m.read() for m in encoder_mappings(encoder)}
    encoder.enable_lora(2, lora_alpha=4)
    np.testing.assert_array_equal(numbers(model(x)), expected)  # B is zeros
    sizes = [(40, 120), (40, 40), (40, 53), (53, 40)]
    trained = sum(int(np.prod(v.shape)) for v in encoder.trainable_variables)
    assert trained == DROPS.num_hidden_layers * sum(2 * sum(s) for s in sizes)
    assert len(encoder.trainable_variables) == 8 * DROPS.num_hidden_layers
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    compile_for_fit(model, 1e-2, loss)
    frozen = [v for v in encoder.weights if not v.trainable]
    before = [numbers(v) for v in frozen]
    labels = (x["input_ids"][:, 1] > 50).astype("int32")
    losses = model.fit(x, labels, epochs=30, verbose=0).history["loss"]
    assert min(losses) < 0.9 * losses[0]
    for variable, value in zip(frozen, before, strict=True):
        np.testing.assert_array_equal(numbers(variable), value)
    expected = numbers(model(x))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numbers(loaded(x)), expected)
    loaded_encoder = loaded.layers[-2]
    assert (
        len(loaded_encoder.trainable_variables) == 8 * DROPS.num_hidden_layers
    )
    # An encoder without LoRA, with the kernels that mappings have
    plain = Encoder(DROPS)
    plain.build()
    for one, other in zip(
        encoder_mappings(encoder), encoder_mappings(plain), strict=True
    ):
        value = one.read()
        is_kernel = one.name.endswith("kernel") and "pooler" not in one.name
        assert np.array_equal(value, kernels[one.name]) != is_kernel
        other.write(value)
    outputs = head(plain(x).pooled)
    np.testing.assert_allclose(numbers(outputs), expected, atol=1e-5)
    # What is loaded counts as it is, without what LoRA had learnt
    for mapping in encoder_mappings(encoder):
        mapping.write(kernels.get(mapping.name, mapping.read()))
    for mapping in encoder_mappings(encoder):
        np.testing.assert_allclose(
            mapping.read(), kernels[mapping.name], atol=1e-7
        )
    with pytest.raises(ValueError, match="enabled already, with rank 2"):
        encoder.enable_lora(3)


@pytest.mark.filterwarnings("ignore:Layer:UserWarning")  # of an InputLayer
def test_what_cannot_be_done_is_said() -> None:
    longer = TINY.max_position_embeddings + 1
    with pytest.raises(ValueError, match=f"has {longer} positions"):
        Encoder(TINY)(np.ones((2, longer), "int32"))
    layer = TransformerLayer(TINY)
    x = np.zeros((2, 3, TINY.hidden_size), "float32")
    mask = additive_mask(np.ones((2, 3), "int32"))
    with pytest.raises(InputError, match="export_tflite.py"):
        functional().quantize("int8")
    wrong: list[Any] = [0, "2", 1.5]
    for rank in wrong:
        with pytest.raises(ValueError, match="a whole number, at least 1"):
            Encoder(TINY).enable_lora(rank)
    with pytest.raises(ValueError, match="without `seed`"):
        layer(x, mask, training=True)


@pytest.mark.parametrize("name", ["input_mask", "segment_ids"])
def test_other_inputs_have_the_shape_of_the_ids(name: str) -> None:
    """Broadcasting would answer from a mask of one position."""
    encoder = Encoder(TINY)
    inputs = {each: np.ones((2, 5), "int32") for each in NAMES}
    for shape in ((2, 1), (1, 5), (2, 4), (5,)):
        with pytest.raises(
            ValueError, match=rf"{name} has the shape \({shape[0]}"
        ):
            encoder({**inputs, name: np.ones(shape, "int32")})
    if keras.config.backend() != "tensorflow":
        return
    import tensorflow as tf

    spec = tf.TensorSpec([None, None], tf.int32)
    call = tf.function(encoder, input_signature=[dict.fromkeys(NAMES, spec)])
    expected = numbers(encoder(inputs).pooled)
    np.testing.assert_allclose(
        numbers(call(inputs).pooled), expected, atol=1e-6
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="requested shape"):
        call({**inputs, name: np.ones((2, 1), "int32")})


def on_backend(backend: str, file: str, tests: str) -> None:
    """Runs a file's tests whose names have some of these words."""
    if keras.config.backend() != "tensorflow":
        pytest.skip("it starts another backend")
    if not importlib.util.find_spec(backend):
        pytest.skip(f"{backend} is not installed")
    # Keras 3.15 is older there than the NumPy that warns of it.
    options = (
        "-qx",
        "-p",
        "no:xdist",
        "-W",
        "ignore::DeprecationWarning",
        "-k",
        tests,
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, file],
        cwd=ROOT,
        env={
            **os.environ,
            "KERAS_BACKEND": backend,
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # compiling takes longer
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_on_another_backend(backend: str) -> None:
    tests = "checks or saved or training_drops or fit or lora or shape"
    on_backend(backend, __file__, tests)
