"""Tests of tasks/hugging_face_task.py."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bert_keras.data.tokenizer_folder import TokenizerOptions
from bert_keras.errors import InputError
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.hugging_face_task import (
    classifier_class,
    folder_task,
    problem_type,
    task_of,
)
from bert_keras.tasks.task_config import TaskConfig
from tests.conftest import GOLDEN, TINY

Shapes = dict[str, tuple[int, ...]]
CLASSIFIER: Shapes = {"output_bias": (3,)}
TEXTS = {"architectures": ["BertForSequenceClassification"]}
LABELS = {**TEXTS, "id2label": {"0": "no", "1": "yes", "2": "perhaps"}}


def settings(values: dict[str, Any], shapes: Shapes) -> TaskConfig | None:
    return task_of(values, shapes, TINY, False, None)


@pytest.mark.parametrize(
    "problem", ["single_label_classification", "multi_label_classification"]
)
def test_a_classifier_there_and_back(problem: str) -> None:
    task = settings({**LABELS, "problem_type": problem}, CLASSIFIER)
    assert task is not None
    assert task.labels == ("no", "yes", "perhaps")
    assert task.target + "_classification" == problem == problem_type(task)
    assert (task.max_seq_length, task.do_lower_case) == (61, False)


def test_what_the_file_does_not_say_is_as_transformers_takes_it() -> None:
    task = settings({**TEXTS, "problem_type": None}, CLASSIFIER)
    assert task is not None
    assert task.target == "single_label"
    assert task.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    task = settings(TEXTS, {"output_bias": (1,)})
    assert task is not None
    assert task.target == "regression" == problem_type(task)


def test_a_choice_is_told_by_the_class() -> None:
    values = {"architectures": ["BertForMultipleChoice"]}
    task = settings(values, {"output_bias": (1,)})
    assert task is not None
    assert (task.target, task.labels) == ("choice", ())
    assert problem_type(task) is None
    assert classifier_class(task) == "ForMultipleChoice"
    assert classifier_class(None) == "ForSequenceClassification"


@pytest.mark.parametrize(
    "labels", [("O", "B-PER", "I-PER"), ("NOUN", "VERB", ".")]
)
def test_a_tagger_there_and_back(labels: tuple[str, ...]) -> None:
    values = {
        "architectures": ["RobertaForTokenClassification"],
        "id2label": {str(i): label for i, label in enumerate(labels)},
    }
    task = settings(values, CLASSIFIER)
    assert task is not None
    assert (task.target, task.doc_stride) == ("tags", 30)
    assert task.labels == labels
    assert problem_type(task) is None
    assert classifier_class(task) == "ForTokenClassification"


def test_a_classifier_of_an_unknown_class_is_taken_for_nothing() -> None:
    assert settings({}, CLASSIFIER) is None
    assert settings({"architectures": ["BertCrfForNer"]}, CLASSIFIER) is None


def test_a_span_and_no_task() -> None:
    """A third of 61 positions is 20."""
    task = settings({}, {"cls/squad/output_bias": (2,)})
    assert task is not None
    assert (task.target, task.max_seq_length) == ("span", 61)
    assert (task.doc_stride, task.max_query_length) == (20, 20)
    assert problem_type(task) is None
    assert settings({}, {"cls/predictions/output_bias": (101,)}) is None
    assert problem_type(None) is None


def test_a_head_of_no_size() -> None:
    """`2**40` labels are not made up for it."""
    for shape in ((), (2**40, 0)):
        values = {"architectures": ["BertForSequenceClassification"]}
        task = settings(values, {"output_bias": shape})
        assert task is not None
        assert len(task.labels) < 2


def test_lengths() -> None:
    """The model's positions, or what its tokenizer says, if it says any."""
    long = BertConfig(vocab_size=101, max_position_embeddings=4096)

    def length(config: BertConfig, told: object, span: bool = False) -> int:
        shapes = {"cls/squad/output_bias": (2,)} if span else CLASSIFIER
        task = task_of(LABELS, shapes, config, True, None, told)
        assert task is not None
        return task.max_seq_length

    assert length(long, None) == 512
    assert length(long, 10**30) == 512  # transformers' word for none
    assert length(long, 128) == 128
    assert length(long, "128") == length(long, -1) == length(long, True) == 512
    assert length(TINY, 128) == 61
    assert length(long, None, span=True) == 384
    task = task_of({}, {"cls/squad/output_bias": (2,)}, long, True, None)
    assert task is not None
    assert (task.doc_stride, task.max_query_length) == (128, 64)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"id2label": {"0": "no"}}, "3 outputs but .*'no'.* for each of 0, 1"),
        ({"problem_type": "ranking"}, "the problem_type 'ranking'"),
        ({"problem_type": ["ranking"]}, "expected one of single_label_class"),
        ({"id2label": [1]}, r"id2label in config.json is \[1\]"),
        ({"id2label": {"0": "a", "1": "b", "2": "a"}}, "not all different"),
    ],
)
def test_what_cannot_be_is_named(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        settings({**TEXTS, **values}, CLASSIFIER)


CASED = TokenizerOptions(do_lower_case=False)


def test_a_folder_says_it_by_task_json_or_by_config_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "hugging_face" / "classifier", folder)
    expected = TaskConfig(
        "single_label", 23, False, labels=("no", "yes", "perhaps")
    )
    for path in (folder, folder / "model.safetensors"):
        assert folder_task(str(path), CASED) == expected
        assert capsys.readouterr().err == (
            f"{path}: Hugging Face BertForSequenceClassification, single_label "
            "with 3 labels (no, yes, perhaps); max_seq_length 23\n"
        )
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 17}')
    found = folder_task(str(folder), CASED)
    assert found is not None and found.max_seq_length == 17
    labels = "no", "yes", "perhaps"
    stored = TaskConfig("single_label", 9, True, labels=labels)
    (folder / "task.json").write_text(stored.to_json())
    assert folder_task(str(folder)) == stored
    cased = dataclasses.replace(
        stored, do_lower_case=False, strip_accents=False
    )
    (folder / "task.json").write_text(cased.to_json())
    (folder / "vocab.txt").unlink(missing_ok=True)
    assert folder_task(str(folder)) == cased  # without a vocabulary, too
    other = TaskConfig("single_label", 9, False, labels=("no", "?", "perhaps"))
    (folder / "task.json").write_text(other.to_json())
    with pytest.raises(InputError, match=r"output 1: '\?' in task.* and 'yes'"):
        folder_task(str(folder))
    config = folder / "config.json"
    problem = {"problem_type": "multi_label_classification"}
    values = json.loads(config.read_text())
    config.write_text(json.dumps(values | problem))
    with pytest.raises(InputError, match="of the problem type: 'single_lab"):
        folder_task(str(folder))
    config.write_text(json.dumps(values))
    assert folder_task(str(GOLDEN / "hugging_face" / "pretraining")) is None
    assert folder_task(str(GOLDEN / "tiny_bert")) is None
    (folder / "task.json").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps([1]))
    with pytest.raises(
        InputError, match="tokenizer_config.json is not a JSON f"
    ):
        folder_task(str(folder))
