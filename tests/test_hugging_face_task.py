"""Tests of tasks/hugging_face_task.py."""

from typing import Any

import pytest
from conftest import TINY

from input_error import InputError
from tasks.hugging_face_task import (
    classifier_class,
    has_tags,
    problem_type,
    task_of,
)
from tasks.task import TaskSettings

Shapes = dict[str, tuple[int, ...]]
CLASSIFIER: Shapes = {"output_bias": (3,)}
LABELS = {"id2label": {"0": "no", "1": "yes", "2": "perhaps"}}


def settings(values: dict[str, Any], shapes: Shapes) -> TaskSettings | None:
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
    task = settings({"problem_type": None}, CLASSIFIER)
    assert task is not None
    assert task.target == "single_label"
    assert task.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    task = settings({}, {"output_bias": (1,)})
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


def test_a_tagger_there_and_back() -> None:
    values = {
        "architectures": ["RobertaForTokenClassification"],
        "id2label": {"0": "O", "1": "B-PER", "2": "I-PER"},
    }
    assert has_tags(values) and not has_tags(LABELS) and not has_tags({})
    task = settings(values, CLASSIFIER)
    assert task is not None
    assert (task.target, task.doc_stride) == ("tags", 30)
    assert task.labels == ("O", "B-PER", "I-PER")
    assert problem_type(task) is None
    assert classifier_class(task) == "ForTokenClassification"


def test_a_span_and_no_task() -> None:
    task = settings({}, {"cls/squad/output_bias": (2,)})
    assert task is not None
    assert (task.target, task.max_seq_length) == ("span", 61)
    assert problem_type(task) is None
    assert settings({}, {"cls/predictions/output_bias": (101,)}) is None
    assert problem_type(None) is None


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"id2label": {"0": "no"}}, "3 outputs but .*'no'.* for each of 0, 1"),
        ({"problem_type": "ranking"}, "the problem_type 'ranking'"),
        ({"problem_type": ["ranking"]}, "expected one of single_label_class"),
        ({"id2label": [1]}, r"id2label in config.json is \[1\]"),
    ],
)
def test_what_cannot_be_is_named(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        settings(values, CLASSIFIER)
