"""What a Hugging Face config.json says of a fine-tuned model, as task.json's.

Names: transformers configuration_utils.py (id2label, problem_type).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from input_error import InputError
from modeling.config import BertConfig
from modeling.hugging_face_names import CHOICE, CLASSIFIER, TAGGER
from tasks.entities import TAG
from tasks.task import TaskSettings

PROBLEM_TYPES = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}

# By target, how transformers' classes end that have a classifier of their own.
CLASSES = {"choice": CHOICE, "tags": TAGGER}

# What a span model is given, whose config.json says nothing: run_squad.py's.
SPAN_LENGTH, SPAN_STRIDE = 384, 128  # pieces


def problem_type(task: TaskSettings | None) -> str | None:
    """transformers' word for the target; None where it has no use for one."""
    if task is None or task.target in ("span", *CLASSES):
        return None
    if task.target not in PROBLEM_TYPES:
        raise InputError(
            f"the model is fine-tuned for {task.target}, which has no form in "
            "a Hugging Face folder; expected one of span, "
            f"{', '.join([*CLASSES, *PROBLEM_TYPES])}"
        )
    return PROBLEM_TYPES[task.target]


def classifier_class(task: TaskSettings | None) -> str:
    """How transformers' class of such a model ends, if it has a classifier."""
    return CLASSES.get(task.target, CLASSIFIER) if task else CLASSIFIER


def task_of(
    values: Mapping[str, Any],
    shapes: Mapping[str, Sequence[int]],
    config: BertConfig,
    do_lower_case: bool,
    strip_accents: bool | None,
) -> TaskSettings | None:
    """The settings of a model as transformers saved it; None without a task.

    Args:
        values: of config.json.
        shapes: of the checkpoint's variables, by Google's names.
    """
    longest = config.max_position_embeddings
    if "output_bias" in shapes and is_a(CHOICE, values):
        return TaskSettings("choice", longest, do_lower_case, strip_accents)
    if "output_bias" in shapes:
        labels = _labels(values, shapes["output_bias"][0])
        is_tagger = is_a(TAGGER, values)
        return TaskSettings(
            "tags" if is_tagger else _target(values, len(labels)),
            longest,
            do_lower_case,
            strip_accents,
            labels,
            doc_stride=longest // 2 if is_tagger else None,
        )
    if "cls/squad/output_bias" in shapes:
        return TaskSettings(
            "span",
            min(longest, SPAN_LENGTH),
            do_lower_case,
            strip_accents,
            doc_stride=SPAN_STRIDE,
        )
    return None


def is_a(ending: str, values: Mapping[str, Any]) -> bool:
    """Whether the name of the class in a config.json ends so."""
    names = values.get("architectures")
    return isinstance(names, list) and any(
        str(name).endswith(ending) for name in names[:1]
    )


def has_tags(values: Mapping[str, Any]) -> bool:
    """Whether a tagger's labels are of entities, as run_ner.py has them, and
    not parts of speech or the like."""
    names = values.get("id2label")
    return isinstance(names, dict) and all(
        TAG.fullmatch(str(name)) for name in names.values()
    )


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
