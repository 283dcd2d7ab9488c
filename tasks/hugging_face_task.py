"""What a model folder was trained for, from its task.json or from a Hugging
Face config.json.

Names: transformers configuration_utils.py (id2label, problem_type).
"""

import dataclasses
import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bert_keras.data.tokenizer_folder import (
    CASE,
    TOKENIZER_CONFIG,
    OpenedTokenizer,
    TokenizerOptions,
    open_tokenizer,
)
from bert_keras.errors import InputError, one_line
from bert_keras.files import beside, json_beside
from bert_keras.modeling.checkpoint import open_weights
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.hugging_face import (
    HUGGING_FACE_CONFIG,
    class_of,
    is_hugging_face,
)
from bert_keras.modeling.hugging_face_names import CHOICE, CLASSIFIER, TAGGER
from bert_keras.tasks.label_names import shown
from bert_keras.tasks.task_config import TASK, TaskConfig

PROBLEM_TYPES = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}

# By target, how transformers' classes end that have a classifier of their own.
CLASSES = {"choice": CHOICE, "tags": TAGGER}

# Tokens that a model is given at most, as a config.json does not say how many
# it was trained on; for spans run_squad.py's.
LENGTH, SPAN_LENGTH, SPAN_STRIDE = 512, 384, 128
SHORTEST = 8  # tokens; a smaller model_max_length is ignored


def problem_type(task: TaskConfig | None) -> str | None:
    """transformers' word for the target; None where it has no use for one."""
    return PROBLEM_TYPES.get(task.target) if task else None


def classifier_class(task: TaskConfig | None) -> str:
    """How transformers' class of such a model ends, if it has a classifier."""
    return CLASSES.get(task.target, CLASSIFIER) if task else CLASSIFIER


def folder_task(
    path: str,
    options: TokenizerOptions | None = None,
    quietly: bool = False,
    opened: OpenedTokenizer | None = None,
) -> TaskConfig | None:
    """What the model that `path` names was trained for.

    Prints on standard error what it reads from a config.json.

    Args:
        path: a model folder, or weights in one.
        options: override the folder's settings of its tokenizer.
        opened: the tokenizer, if it has been opened with these options.

    Returns:
        None if no task is known.
    """
    task = beside(path, [TASK])
    config_file = beside(path, [HUGGING_FACE_CONFIG])
    if task is None and (config_file is None or not is_hugging_face(path)):
        return None
    opened = opened or open_tokenizer(path, options=options)
    known = opened.settings if opened else options or TokenizerOptions()
    case: dict[str, Any] = {name: getattr(known, name) for name in CASE}
    if not opened:  # no vocabulary: the folder decides what was not given
        case = {k: value for k, value in case.items() if value is not None}
    if task is not None:
        settings = TaskConfig.from_folder(os.path.dirname(task))
        if settings and config_file and is_hugging_face(path):
            _check_same_task(settings, path)
        return settings and dataclasses.replace(settings, **case)
    assert config_file is not None, "it was looked for above"
    shapes = open_weights(path).shapes
    values = json_beside(path, HUGGING_FACE_CONFIG)
    tokenizer = json_beside(path, TOKENIZER_CONFIG)
    case = {name: tokenizer.get(name) for name in CASE} | case
    settings = task_of(
        values,
        shapes,
        BertConfig.from_json_file(config_file),
        case["do_lower_case"] is not False,
        case["strip_accents"],
        tokenizer.get("model_max_length"),
    )
    if settings is not None and not quietly:
        labels = f"{len(settings.labels)} labels ({shown(settings.labels)})"
        what = {
            "choice": "which chooses among texts",
            "regression": "which gives a number",
            "span": "which finds an answer in every paragraph",
        }.get(settings.target, f"{settings.target} with {labels}")
        found = (
            f"{path}: Hugging Face {class_of(values) or 'model'}, {what}; "
            f"max_seq_length {settings.max_seq_length}"
        )
        print(one_line(found), file=sys.stderr)
    return settings


def _check_same_task(settings: TaskConfig, path: str) -> None:
    """Raises an InputError where a config.json says another task, or another
    name of an output, than task.json beside it: one is of another model, or was
    edited."""
    values = json_beside(path, HUGGING_FACE_CONFIG)
    said: dict[str, tuple[Any, Any]] = {
        "problem type": (problem_type(settings), values.get("problem_type"))
    }
    if settings.labels and values.get("id2label"):
        labels = _labels(values, len(settings.labels))
        pairs = zip(settings.labels, labels, strict=True)
        said |= {f"name of output {i}": pair for i, pair in enumerate(pairs)}
    for what, (own, other) in said.items():
        if None not in (own, other) and own != other:
            raise InputError(
                f"{path} has two statements of the {what}: {own!r} in "
                f"task.json and {other!r} in config.json; remove task.json, or "
                "have both files say the same"
            )


def task_of(
    values: Mapping[str, Any],
    shapes: Mapping[str, Sequence[int]],
    config: BertConfig,
    do_lower_case: bool,
    strip_accents: bool | None,
    model_max_length: object = None,
) -> TaskConfig | None:
    """The settings of a model as transformers saved it; None without a task,
    or with a classifier of a class that transformers does not have.

    Args:
        values: of config.json.
        shapes: of the checkpoint's variables, by Google's names.
        model_max_length: of tokenizer_config.json; ignored if not an int.
    """
    longest = min(config.max_position_embeddings, LENGTH)
    if type(model_max_length) is int and model_max_length >= SHORTEST:
        longest = min(longest, model_max_length)
    case = do_lower_case, strip_accents
    if "output_bias" in shapes:
        name = class_of(values)
        if name.endswith(CHOICE):
            return TaskConfig("choice", longest, *case)
        if not name.endswith((TAGGER, CLASSIFIER)):
            return None
        labels = _labels(values, math.prod(shapes["output_bias"]))
        if name.endswith(TAGGER):
            stride = longest // 2
            return TaskConfig("tags", longest, *case, labels, stride)
        return TaskConfig(_target(values, len(labels)), longest, *case, labels)
    if "cls/squad/output_bias" in shapes:
        longest = min(longest, SPAN_LENGTH)
        third = longest // 3  # for a question, and between two windows
        return TaskConfig(
            "span",
            longest,
            *case,
            doc_stride=min(SPAN_STRIDE, third),
            max_query_length=min(TaskConfig.max_query_length, third),
        )
    return None


def _labels(values: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """In the order of the outputs; LABEL_0 and so on where there are none."""
    numbers = [str(i) for i in range(count)]
    names = values.get("id2label")
    if not names:
        return tuple(f"LABEL_{number}" for number in numbers)
    if not isinstance(names, dict) or sorted(names) != sorted(numbers):
        raise InputError(
            f"the classifier has {count} outputs but id2label in config.json "
            f"is {names!r}; expected a label for each of {', '.join(numbers)}"
        )
    return tuple(str(names[number]) for number in numbers)


def _target(values: Mapping[str, Any], num_outputs: int) -> str:
    """As transformers takes it, where the file does not say."""
    problem = values.get("problem_type")
    if problem is None:
        return "regression" if num_outputs == 1 else "single_label"
    targets = {name: target for target, name in PROBLEM_TYPES.items()}
    if problem not in list(targets):  # a list: it may be anything
        raise InputError(
            f"config.json has the problem_type {problem!r}; expected one of "
            f"{', '.join(targets)}"
        )
    return targets[problem]
