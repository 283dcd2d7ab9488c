"""A BiLSTM on an encoder, and two encoders side by side."""

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import (
    encoder_mappings,
    load_checkpoint,
    save_model_folder,
)
from bert_keras.modeling.encoder import Encoder
from bert_keras.modeling.encoder_variants import (
    BiLstmEncoder,
    ConcatenatedEncoders,
    load_encoders,
    make_encoder,
)
from bert_keras.tasks.checkpoint_compatibility import check_second
from bert_keras.tasks.classification.model import (
    LABELS,
    Regression,
    TextClassifier,
)
from bert_keras.tasks.load import load
from bert_keras.tasks.squad.model import QuestionAnsweringModel
from bert_keras.tasks.task_config import TASK, TaskConfig
from tests.conftest import TINY, fails_with, forked

LEFT, RIGHT = (
    dataclasses.replace(
        TINY,
        direction=direction,
        hidden_dropout_prob=0.1,
        num_hidden_layers=2,
    )
    for direction in ("left_to_right", "right_to_left")
)
ROWS = [
    InputFeatures([2, 5, 6, 7, 3], [0] * 5),
    InputFeatures([2, 8, 3], [0] * 3),
]
MAKERS: dict[str, Callable[[], Encoder]] = {
    "BiLSTM": lambda: BiLstmEncoder(LEFT),
    "twin": lambda: ConcatenatedEncoders(LEFT, RIGHT.direction),
}


@pytest.fixture(autouse=True)
def uncompiled() -> Iterator[None]:
    """To compile takes longer than so few rows do."""
    with fused_ops.uncompiled():
        yield


def batch_of(length: int) -> dict[str, tf.Tensor]:
    batch = pad(ROWS, length, 3)  # the last one is nothing but padding
    return {name: tf.constant(value) for name, value in batch.items()}


def inputs(length: int) -> list[tf.Tensor]:
    batch = batch_of(length)
    names = ("input_ids", "input_mask", "segment_ids")
    return [batch[name] for name in names]


@pytest.fixture(params=MAKERS)
def unbuilt(request: pytest.FixtureRequest) -> Encoder:
    keras.utils.set_random_seed(3)
    return MAKERS[request.param]()


@pytest.fixture
def encoder(unbuilt: Encoder) -> Encoder:
    unbuilt.build()
    return unbuilt


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm(cell: keras.layers.LSTMCell, x: np.ndarray) -> np.ndarray:
    """[S, H] -> [S, units], step by step: Hochreiter and Schmidhuber 1997,
    with a gate to forget."""
    kernel, recurrent, bias = (v.numpy() for v in cell.weights)
    h = c = np.zeros(cell.units)
    outputs = []
    for step in x:
        gates = np.split(step @ kernel + h @ recurrent + bias, 4)
        c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * np.tanh(gates[2])
        h = sigmoid(gates[3]) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs)


def test_a_bilstm_reads_a_text_both_ways() -> None:
    """Of five pieces, padded to seven: each half is an LSTM over the five."""
    keras.utils.set_random_seed(3)
    encoder = BiLstmEncoder(LEFT)
    encoder.build()
    below = Encoder.call(encoder, *inputs(7)).sequence.numpy()[0, :5]
    outputs = encoder(*inputs(7))
    forward = lstm(encoder.bilstm.forward_layer.cell, below)
    backward = lstm(encoder.bilstm.backward_layer.cell, below[::-1])[::-1]
    assert forward.shape == (5, 20)
    np.testing.assert_allclose(
        outputs.sequence[0, :5], np.hstack([forward, backward]), atol=1e-5
    )
    np.testing.assert_allclose(
        outputs.pooled[0], np.hstack([forward[4], backward[0]]), atol=1e-5
    )


def test_two_encoders_give_what_each_gives_alone() -> None:
    twin = ConcatenatedEncoders(LEFT, RIGHT.direction)
    twin.build()
    outputs = twin(*inputs(7))
    assert outputs.pooled.shape == (3, 80)
    for config, own, half in (
        (LEFT, encoder_mappings(twin.first), slice(0, 40)),
        (RIGHT, encoder_mappings(twin.second), slice(40, 80)),
    ):
        alone = Encoder(config)
        alone.build()
        for mapping, other in zip(encoder_mappings(alone), own, strict=True):
            assert mapping.name == other.name
            mapping.write(other.read())
        expected = alone(*inputs(7))
        for found, wanted in (
            (outputs.sequence, expected.sequence),
            (outputs.pooled, expected.pooled),
            (outputs.layers[0], expected.layers[0]),
        ):
            np.testing.assert_array_equal(found[..., half], wanted)


def test_padding_changes_nothing(encoder: Encoder) -> None:
    short, long = encoder(*inputs(5)), encoder(*inputs(11))
    np.testing.assert_allclose(short.pooled[:2], long.pooled[:2], atol=1e-6)
    for row, length in ((0, 5), (1, 3)):
        np.testing.assert_allclose(
            short.sequence[row, :length], long.sequence[row, :length], atol=1e-6
        )


def test_weights_come_back(encoder: Encoder, tmp_path: Path) -> None:
    save_model_folder(str(tmp_path), TINY, encoder_mappings(encoder), None)
    before = encoder(*inputs(7)).pooled.numpy()
    names = [mapping.name for mapping in encoder_mappings(encoder)]
    assert len(set(names)) == len(names)
    bound = {id(mapping.variable) for mapping in encoder_mappings(encoder)}
    assert bound == {id(variable) for variable in encoder.weights}
    for variable in encoder.weights:
        variable.assign(variable * 0.5)
    report = load_checkpoint(encoder_mappings(encoder), str(tmp_path))
    assert not report.missing and not report.unused
    np.testing.assert_array_equal(encoder(*inputs(7)).pooled, before)


def test_every_weight_learns(unbuilt: Encoder) -> None:
    model = TextClassifier(TINY, Regression(), unbuilt)
    batch = batch_of(7) | {LABELS: tf.constant([[0.5], [2.0], [0.0]])}
    trained = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss, _ = model.loss_fn(batch, model.totals(batch), None)
    for gradient in tape.gradient(loss, trained):
        assert np.abs(tf.convert_to_tensor(gradient)).max() > 0


def test_xla_compiles_the_bilstm() -> None:
    """And finds the same gradients."""
    encoder = BiLstmEncoder(LEFT)
    encoder.build()
    x = tf.random.stateless_normal([3, 7, 40], [1, 2])
    mask = batch_of(7)["input_mask"] > 0

    def gradients() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            outputs = encoder.bilstm(x, mask=mask)
            total = tf.reduce_sum(outputs * x)
        return tape.gradient(total, [v.value for v in encoder.bilstm.weights])

    compiled = tf.function(gradients, jit_compile=True, autograph=False)()
    for one, other in zip(gradients(), compiled, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_each_dropout_of_two_encoders_has_a_seed_of_its_own() -> None:
    twin = ConcatenatedEncoders(LEFT, RIGHT.direction)
    twin.build()
    one = twin(*inputs(7), tf.constant([1, 0]))
    half = twin.first.num_noise_sites
    assert twin.num_noise_sites == 2 * half
    other = twin.second(*inputs(7), tf.constant([1, half]))
    np.testing.assert_array_equal(one.sequence[..., 40:], other.sequence)


def test_lower_layers_of_both_are_frozen(encoder: Encoder) -> None:
    num_encoders = len(encoder.poolers)
    depths = [encoder.depth(v) for v in encoder.weights]
    assert depths.count(0) == 5 * num_encoders  # three tables and a LayerNorm
    assert depths.count(2) == 12 * num_encoders
    encoder.freeze(1)
    trained = encoder.trainable_variables
    assert {encoder.depth(v) for v in trained} == {2, 3}


def test_spans_leave_out_every_pooler(unbuilt: Encoder) -> None:
    model = QuestionAnsweringModel(TINY, encoder=unbuilt)
    trained = {id(v) for v in model.trainable_variables}
    for pooler in unbuilt.poolers:
        assert not trained & {id(v) for v in pooler.weights}
    assert model.outputs_by_name(batch_of(7))["start_logits"].shape == (3, 7)


def test_what_cannot_be() -> None:
    odd = dataclasses.replace(TINY, hidden_size=45)
    with pytest.raises(InputError, match="hidden_size = 45; a BiLSTM has half"):
        BiLstmEncoder(odd)
    with pytest.raises(InputError, match="a BiLSTM stands on one encoder"):
        TaskConfig(
            *("single_label", 29, True),
            bilstm=True,
            second_direction="left_to_right",
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders left and right with models, and a table to learn."""
    folder = tmp_path_factory.mktemp("models")
    special_tokens = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "good",
        "bad",
    ]
    (folder / "vocab.txt").write_text("\n".join(special_tokens) + "\n")
    for seed, config in enumerate((LEFT, RIGHT)):
        keras.utils.set_random_seed(seed)
        encoder = Encoder(config)
        encoder.build()
        path = folder / config.direction
        path.mkdir()
        vocab_file = str(folder / "vocab.txt")
        save_model_folder(
            str(path), config, encoder_mappings(encoder), vocab_file
        )
    lines = [f"{word}\t{word}" for word in ("good", "bad")] * 4
    (folder / "table.tsv").write_text("\n".join(["text\tlabel", *lines]))
    return folder


@pytest.mark.slow
def test_two_models_become_one_that_predicts(
    world: Path, tmp_path: Path
) -> None:
    output = forked(
        "run_classifier.py",
        *("--do_train", f"--train_file={world}/table.tsv"),
        f"--init_checkpoint={world}/left_to_right",
        f"--second_init_checkpoint={world}/right_to_left",
        # so that the weights are those of the two
        *("--learning_rate=0", "--num_frozen_layers=2"),
        *("--max_seq_length=7", "--train_batch_size=8", "--num_train_epochs=1"),
        f"--output_dir={tmp_path}",
    )
    assert "right_to_left/bert_model.ckpt: 39 variables loaded" in output
    model = load(str(tmp_path)).model
    assert isinstance(model, TextClassifier)
    twin = model.encoder
    assert isinstance(twin, ConcatenatedEncoders)
    pooled = twin(*inputs(7)).pooled.numpy()
    other = ConcatenatedEncoders(LEFT, RIGHT.direction)
    other.build()
    folders = [str(world / config.direction) for config in (LEFT, RIGHT)]
    load_encoders(other, encoder_mappings(other), *folders)
    np.testing.assert_array_equal(pooled, other(*inputs(7)).pooled)


def test_a_bilstm_comes_back_with_its_folder(
    world: Path, tmp_path: Path
) -> None:
    settings = TaskConfig("span", 29, True, doc_stride=7, bilstm=True)
    model = QuestionAnsweringModel(
        LEFT,
        encoder=make_encoder(LEFT, settings.bilstm, settings.second_direction),
    )
    vocab_file = str(world / "vocab.txt")
    save_model_folder(str(tmp_path), LEFT, model.mappings(), vocab_file)
    (tmp_path / TASK).write_text(settings.to_json())
    found = load(str(tmp_path)).model.outputs_by_name(batch_of(7))[
        "start_logits"
    ]
    expected = model.outputs_by_name(batch_of(7))["start_logits"]
    np.testing.assert_array_equal(found, expected)


def test_only_the_commands_here_read_it(world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "left_to_right", tmp_path / "model")
    settings = TaskConfig("span", 29, True, doc_stride=7, bilstm=True)
    (tmp_path / "model" / TASK).write_text(settings.to_json())
    sentence = fails_with(
        "convert_checkpoint.py",
        f"--init_checkpoint={tmp_path}/model",
        f"--output_dir={tmp_path}/converted",
    )
    assert "a BiLSTM on its encoder, for which there is no other" in sentence


def test_two_models_are_equally_deep(world: Path) -> None:
    second = str(world / "right_to_left")
    check_second(LEFT, "first", second)
    deeper = dataclasses.replace(LEFT, num_hidden_layers=3)
    with pytest.raises(InputError, match="num_hidden_layers = 3 but the wei"):
        check_second(deeper, "first", second)


def test_a_second_model_is_not_alone(world: Path, tmp_path: Path) -> None:
    sentence = fails_with(
        "run_squad.py",
        *("--do_train", "--train_file=none.json"),
        f"--bert_config_file={world}/left_to_right/bert_config.json",
        f"--second_init_checkpoint={world}/right_to_left",
        f"--output_dir={tmp_path}",
    )
    assert "is loaded beside --init_checkpoint, which is missing" in sentence
