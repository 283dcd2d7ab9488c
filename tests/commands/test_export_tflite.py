"""Tests of export_tflite.py: LiteRT answers as the model does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.modeling import fused_ops
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.classification.model import TextClassifier
from bert_keras.tasks.export import device_signatures, make_model
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.training.export import to_tflite
from tests.conftest import GOLDEN, ONE_LAYER, fails_with, forked
from tests.exported_model import (
    LABELS,
    SETTINGS,
    make_folder,
    probabilities,
    read,
)

TEXTS = ["The old captain sailed.", "an ÜBER-unaffable naïve café"]
PAIRS = ["a ship", None]


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, TextClassifier]:
    path = tmp_path_factory.mktemp("model")
    return path, make_folder(path)


def ask(path: Path) -> list[dict[str, Any]]:
    """The answers to both texts."""
    model = Interpreter(str(path)).get_signature_runner("serving_default")
    rows = read(TEXTS, PAIRS)
    return [model(**pad([row], SETTINGS.max_seq_length, 1)) for row in rows]


def test_files_answer_as_the_model_does(
    folder: tuple[Path, TextClassifier], tmp_path: Path
) -> None:
    path, model = folder
    expected = probabilities(model, read(TEXTS, PAIRS))
    sizes = {}
    for weights, tolerance in (("float32", 1e-5), ("int8", 0.05)):
        file = tmp_path / f"{weights}.tflite"
        output = forked(
            "export_tflite.py",
            f"--model_dir={path}",
            f"--output_file={file}",
            f"--weights={weights}",
        )
        sizes[weights] = file.stat().st_size
        assert f"{sizes[weights]:,} bytes, {weights}" in output
        for answer, row in zip(ask(file), expected, strict=True):
            np.testing.assert_allclose(
                answer["probabilities"][0], row, atol=tolerance
            )
            best = LABELS[int(answer["probabilities"][0].argmax())]
            assert answer["label"][0].decode() == best
    # such small matrices stay as they are, but for the larger ones
    assert sizes["int8"] < 0.6 * sizes["float32"]


def random_model(config: BertConfig, task: TaskConfig, spread: float) -> Any:
    model = make_model(config, task)
    rng = np.random.default_rng(3)
    for mapping in model.mappings():
        mapping.write(rng.normal(0, spread, mapping.shape).astype(np.float32))
    return model


def converted(
    model: Any, task: TaskConfig, weights: str, config: BertConfig = ONE_LAYER
) -> Any:
    """What asks the .tflite file of the model."""
    variables = [mapping.variable.value for mapping in model.mappings()]
    with fused_ops.uncompiled():
        asked = device_signatures(model, config, task, task.max_seq_length)
        content = to_tflite(asked, [variables], weights, False)
    file = Interpreter(model_content=content)
    return file.get_signature_runner("serving_default")


def test_several_labels() -> None:
    """Of an untrained model, whose answers lie on both sides of a half."""
    labels = ("red", "green", "blue", "grey", "pink")
    task = TaskConfig("multi_label", 16, True, labels=labels)
    model = random_model(ONE_LAYER, task, 0.5)
    row = pad(read(TEXTS[:1], [None]), 16, 1)
    found = converted(model, task, "float32")(**row)
    expected = 1 / (1 + np.exp(-np.array(model.outputs_by_name(row)["logits"])))
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
    chosen = [
        name if share > 0.5 else ""
        for name, share in zip(labels, expected[0], strict=True)
    ]
    assert "" in chosen and any(chosen)
    assert [x.decode() for x in found["labels"][0]] == chosen


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_wrong_ids_are_refused(weights: str) -> None:
    task = TaskConfig("regression", 11, True)
    ask = converted(random_model(ONE_LAYER, task, 0.5), task, weights)
    row = pad([InputFeatures([3, 5, 8, 2], [0] * 4)], 11, 1)
    ask(**row)
    for name, value in (
        ("input_ids", -1),
        ("input_ids", ONE_LAYER.vocab_size),
        ("segment_ids", -1),
        ("segment_ids", 2),
    ):
        wrong = {key: array.copy() for key, array in row.items()}
        wrong[name][0, 1] = value
        with pytest.raises(RuntimeError, match="out of bounds"):
            ask(**wrong)


@pytest.mark.parametrize(
    ("family", "weights", "task"),
    [
        ("bert", "float16", {"target": "span", "doc_stride": 4}),
        ("bert", "float32", {"target": "tags", "labels": ("O", "B-A", "I-A")}),
        ("bert", "float32", {"target": "choice"}),
        ("bert", "float32", {"target": "regression", "bilstm": True}),
        ("roberta", "float32", {"target": "regression"}),
        ("distilbert", "float32", {"target": "regression"}),
    ],
)
def test_other_models(family: str, weights: str, task: dict[str, Any]) -> None:
    config, length = ONE_LAYER, 11
    if family != "bert":
        folder = GOLDEN / "hugging_face" / f"{family}_bare"
        config = BertConfig.from_json_file(str(folder / "config.json"))
    settings = TaskConfig(max_seq_length=length, do_lower_case=True, **task)
    model = random_model(config, settings, 0.3)
    row = pad([InputFeatures([3, 5, 8, 13, 21, 34, 2], [0] * 7)], length, 1)
    with fused_ops.uncompiled():
        asked = device_signatures(model, config, settings, length)[
            "serving_default"
        ]
        expected = asked.function({k: tf.constant(x) for k, x in row.items()})
    found = converted(model, settings, weights, config)(**row)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if value.dtype.is_floating:
            np.testing.assert_allclose(
                found[name], value, atol=1e-5 if weights == "float32" else 1e-2
            )


def test_texts_need_a_vocabulary(tmp_path: Path) -> None:
    sentence = fails_with(
        "export_tflite.py",
        f"--model_dir={GOLDEN}/tiny_bert",
        f"--output_file={tmp_path}/x.tflite",
        "--max_seq_length=16",
        "--string_input",
    )
    assert "--string_input is for models of whole texts" in sentence
    assert not (tmp_path / "x.tflite").exists()
