"""Tests of tasks/sentence_pooling.py on folders written for them."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.sentence_pooling import (
    SentencePooling,
    pooling_file,
    read_sentence_pooling,
)

OLD = "sentence_transformers.models"
X = np.array([[3.0, 4.0], [1.0, 8.0]])


def write_modules(
    folder: Path,
    pooling: dict[str, Any],
    kinds: tuple[str, ...] = ("Transformer", "Pooling", "Normalize"),
) -> str:
    folders = [
        "" if k == "Transformer" else f"{i}_{k}" for i, k in enumerate(kinds)
    ]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"{OLD}.{kind}"}
        for i, (path, kind) in enumerate(zip(folders, kinds, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return str(folder / "modules.json")


@pytest.mark.parametrize(
    ("values", "vector"),
    [
        ({"pooling_mode_mean_tokens": True}, [2, 6]),
        ({"pooling_mode_cls_token": True}, [3, 4]),
        ({"pooling_mode_max_tokens": True}, [3, 8]),
        ({"pooling_mode": "cls"}, [3, 4]),
        ({"pooling_mode": ["max"], "pooling_mode_cls_token": True}, [3, 8]),
        ({"word_embedding_dimension": 2}, [2, 6]),
    ],
)
def test_poolings(
    tmp_path: Path, values: dict[str, Any], vector: list[float]
) -> None:
    path = write_modules(tmp_path, values, ("Transformer", "Pooling"))
    pooling = read_sentence_pooling(path)
    assert pooling.vector(X).tolist() == vector
    path = write_modules(tmp_path, values)
    length = np.linalg.norm(vector)
    np.testing.assert_allclose(
        read_sentence_pooling(path).vector(X), np.array(vector) / length
    )


def test_pooling() -> None:
    x = np.array([[1.0, 5.0], [3.0, 1.0]])
    assert SentencePooling("cls").vector(x).tolist() == [1, 5]
    assert SentencePooling("mean").vector(x).tolist() == [2, 3]
    assert SentencePooling("max").vector(x).tolist() == [3, 5]


def test_a_vector_of_zeros_stays_one() -> None:
    zeros = SentencePooling("mean", normalizes=True).vector(0 * X)
    assert zeros.tolist() == [0, 0]


def test_where_the_file_is(tmp_path: Path) -> None:
    weights = str(tmp_path / "model.safetensors")
    assert pooling_file(weights) is None
    path = Path(write_modules(tmp_path, {"pooling_mode": "max"}))
    assert pooling_file(weights) == pooling_file(str(tmp_path)) == str(path)
    path.unlink()  # the folder of the model alone, and how it is pooled
    alone = pooling_file(weights)
    assert alone and read_sentence_pooling(alone) == SentencePooling("max")


@pytest.mark.parametrize(
    ("values", "kinds", "sentence"),
    [
        (
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            ("Transformer", "Pooling"),
            "the pooling cls and mean, which is not supported",
        ),
        (
            {"pooling_mode_lasttoken": True},
            ("Transformer", "Pooling"),
            "the pooling lasttoken, which is not supported",
        ),
        ([], ("Transformer", "Pooling"), "config.json is not a JSON object"),
        ({}, ("Transformer", "Pooling", "Dense"), "the module 'Dense'"),
        ({}, ("Transformer", "Normalize"), "the module 'Normalize'"),
        ({}, ("WordEmbeddings", "Pooling"), "the module 'WordEmbeddings'"),
        ({}, ("Transformer",), "lists no Pooling; give `pooling`"),
    ],
)
def test_what_is_not_supported(
    tmp_path: Path, values: Any, kinds: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        read_sentence_pooling(write_modules(tmp_path, values, kinds))


@pytest.mark.parametrize("text", ["", "[3]", "{}", '[{"type": 1}]'])
def test_damaged_lists(tmp_path: Path, text: str) -> None:
    path = tmp_path / "modules.json"
    path.write_text(text)
    with pytest.raises(InputError, match="modules.json"):
        read_sentence_pooling(str(path))


def test_half_a_surrogate_pair_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "modules.json"
    path.write_text('[{"type": "Pooling", "path": "\\ud800"}]')
    with pytest.raises(InputError, match=r"cannot read .*\\ud800/config.json"):
        read_sentence_pooling(str(path))


def test_a_pipe_that_says_how_to_pool_is_refused(tmp_path: Path) -> None:
    path = write_modules(tmp_path, {})
    (tmp_path / "1_Pooling" / "config.json").unlink()
    os.mkfifo(tmp_path / "1_Pooling" / "config.json")
    with pytest.raises(InputError, match="config.json is a device or a pipe"):
        read_sentence_pooling(path)


def test_a_list_names_nothing_outside_its_folder(tmp_path: Path) -> None:
    for place in ("../other", "/etc"):
        modules = [{"path": place, "type": "Pooling"}]
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        with pytest.raises(InputError, match="is not in its folder"):
            read_sentence_pooling(str(tmp_path / "modules.json"))


def test_what_is_not_done_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_modules(tmp_path, {"pooling_mode": "cls"})
    config: dict[str, Any] = {"prompts": {"ask": "query: "}}
    names = "config_sentence_transformers.json", "sentence_bert_config.json"
    for name, values in zip(
        names, (config, {"max_seq_length": 8}), strict=True
    ):
        (tmp_path / name).write_text(json.dumps(values))
    read_sentence_pooling(path)
    assert capsys.readouterr().err == ""
    config["default_prompt_name"] = "ask"
    for name, values in zip(
        names, (config, {"do_lower_case": True}), strict=True
    ):
        (tmp_path / name).write_text(json.dumps(values))
    read_sentence_pooling(path)
    said = capsys.readouterr().err
    assert "puts 'query: ' before each text" in said
    assert "lowercases each text" in said
