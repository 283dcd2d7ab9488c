"""Tests of modeling/hugging_face.py."""

import shutil
from pathlib import Path

import pytest
from conftest import GOLDEN

from modeling.hugging_face import (
    is_hugging_face,
    model_config_file,
    vocabulary_file,
)

TINY_BERT = GOLDEN / "tiny_bert"


@pytest.mark.parametrize("path", ["", "/bert_model.ckpt"])
def test_what_lies_beside_googles_checkpoint(tmp_path: Path, path: str) -> None:
    shutil.copytree(TINY_BERT, tmp_path, dirs_exist_ok=True)
    named = str(tmp_path) + path
    assert not is_hugging_face(named)
    assert model_config_file(named) == str(tmp_path / "bert_config.json")
    (tmp_path / "config.json").touch()  # the hubs' folders have it too
    (tmp_path / "model.safetensors").touch()
    assert model_config_file(named) == str(tmp_path / "bert_config.json")
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.unlink(missing_ok=True)
    assert vocabulary_file(named) is None
    vocabulary.touch()
    assert vocabulary_file(named) == str(vocabulary)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "model.safetensors.index.json"]
)
def test_what_lies_beside_safetensors(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert model_config_file(str(tmp_path)) is None
    (tmp_path / "config.json").touch()
    for named in (tmp_path, tmp_path / name):
        assert is_hugging_face(str(named))
        assert model_config_file(str(named)) == str(tmp_path / "config.json")


def test_a_name_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bert_config.json").touch()
    assert model_config_file("bert_model.ckpt") == "bert_config.json"
