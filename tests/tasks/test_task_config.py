"""Tests of tasks/task_config.py."""

import json
from pathlib import Path

import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.tasks.task_config import TASK, TaskConfig

SETTINGS = TaskConfig(
    "single_label",
    max_seq_length=29,
    do_lower_case=False,
    strip_accents=True,
    labels=("süß", "2", "10"),
    doc_stride=5,
    window_pooling="max",
    max_query_length=7,
    max_answer_length=11,
    n_best_size=13,
    version_2_with_negative=True,
    null_score_diff_threshold=-1.5,
)


def test_settings_come_back_as_they_were(tmp_path: Path) -> None:
    (tmp_path / TASK).write_text(SETTINGS.to_json())
    assert TaskConfig.from_folder(str(tmp_path)) == SETTINGS


def test_a_header_shows_the_separator() -> None:
    assert TaskConfig("tags", 9, True, separator=";").separator is None
    settings = TaskConfig("tags", 9, True, separator=";", has_header=False)
    assert settings.separator == ";"


def test_settings_on_a_remote_file_system() -> None:
    assert TaskConfig.from_folder("ram://absent") is None
    with tf.io.gfile.GFile(f"ram://there/{TASK}", "w") as file:
        file.write(SETTINGS.to_json())
    assert TaskConfig.from_folder("ram://there") == SETTINGS


def test_what_is_not_named_has_its_default(tmp_path: Path) -> None:
    (tmp_path / TASK).write_text(
        '{"target": "regression", "max_seq_length": 29, "do_lower_case": true,'
        ' "labels": []}'
    )
    expected = TaskConfig("regression", 29, True)
    assert TaskConfig.from_folder(str(tmp_path)) == expected


def test_there_may_be_none(tmp_path: Path) -> None:
    assert TaskConfig.from_folder(str(tmp_path)) is None
    assert TaskConfig.from_folder(str(tmp_path / "bert_model.ckpt")) is None
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"")
    assert TaskConfig.from_folder(str(weights)) is None


def changed(**values: object) -> str:
    return json.dumps({**json.loads(SETTINGS.to_json()), **values})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "list"),
        ('"labels"', "str"),
        ("{}", "labels"),
        ('{"labels": []}', "missing 3 required"),
        (changed(colour="red"), "unexpected keyword argument 'colour'"),
        (changed(labels=None), "expected a list of texts"),
        (changed(target="cluster"), "'cluster'; expected one of single_label"),
        (changed(window_pooling="sum"), "'sum'; expected one of mean, max"),
    ],
)
def test_errors_name_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / TASK
    path.write_text(text)
    with pytest.raises(InputError) as error:
        TaskConfig.from_folder(str(tmp_path))
    assert str(error.value).startswith(f"{path} cannot be used (")
    assert message in str(error.value)
