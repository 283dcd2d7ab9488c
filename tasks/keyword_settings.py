"""Keyword arguments of Python's functions: flags of a command, by name.

`make` fills dataclasses, from a command's flags (cli/flags.py) as from the
keywords of the function that does the same. Names and defaults are the
command's. Bounds and choices stand here, for both.
"""

import contextlib
import dataclasses
import difflib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, get_args, get_origin

from bert_keras.errors import InputError
from bert_keras.tasks.task_config import (
    ANSWER_OFFSETS,
    FEATURE_LAYERS,
    POOLINGS,
    TEXT_TARGETS,
)
from bert_keras.training.config import OPTIMIZERS, SCHEDULES

Made = TypeVar("Made")
# The least and the largest value; None: no bound.
BOUNDS: Mapping[str, tuple[float, float | None]] = {
    "adam_beta_2": (0, 0.999999),
    "adam_epsilon": (0, None),
    "batch_ramp_steps": (1, None),
    "cosine_weight": (0, None),
    "distillation_temperature": (0.01, None),
    "distillation_weight": (0, 1),
    "doc_stride": (1, None),
    "eval_batch_size": (1, None),
    "eval_masked_lm_prob": (0, 1),
    "eval_steps": (0, None),
    "keep_checkpoint_max": (1, None),
    "layer_decay": (0, 1),
    "learning_rate": (0, None),
    "lstm_size": (1, None),
    "mask_share": (0, 1),
    "masked_lm_prob": (0, 1),
    "masked_lm_weight": (0, None),
    "max_answer_length": (1, None),
    "max_eval_steps": (1, None),
    "max_predictions_per_seq": (1, None),
    "max_query_length": (1, None),
    "min_frequency": (1, None),
    "n_best_size": (1, None),
    "num_accumulation_steps": (1, None),
    "num_decay_steps": (1, None),
    "num_frozen_layers": (-1, None),
    "num_seeds": (1, None),
    "num_student_layers": (1, None),
    "num_train_epochs": (0, None),
    "num_train_steps": (1, None),
    "num_unused": (0, None),
    "num_warmup_steps": (0, None),
    "num_workers": (1, None),
    "patience": (0, None),
    "predict_batch_size": (1, None),
    "random_share": (0, 1),
    "save_checkpoints_steps": (1, None),
    "seed": (0, 2**31 - 1),
    "soft_target_weight": (0, None),
    "train_batch_size": (1, None),
    "train_hours": (0, None),
    "train_tokens": (1, None),
    "vocab_size": (1, None),
    "warmup_proportion": (0, 1),
    "worker_memory_mb": (16, None),
}
CHOICES: Mapping[str, Sequence[str]] = {
    "answer_offsets": ANSWER_OFFSETS,
    "direction": ("bidirectional", "left_to_right", "right_to_left"),
    "feature_layers": FEATURE_LAYERS,
    "input_format": ("sentences", "paragraphs", "jsonl"),
    "learning_rate_schedule": SCHEDULES,
    "model_size": ("tiny", "mini", "small", "medium", "base", "large"),
    "optimizer_type": OPTIMIZERS,
    "precision": ("float32", "mixed_bfloat16"),
    "sampler": ("vectorized", "google"),
    "sequence_format": (
        "segment_pair", "sentence_pair", "full_sentences", "doc_sentences",
    ),
    "target": TEXT_TARGETS,
    "window_pooling": POOLINGS,
}  # fmt: skip
KINDS: Mapping[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): "None",
}


def types_of(kind: Any, *names: str) -> dict[str, Any]:
    """The types of a dataclass's fields; without `names`, of all, except of
    dataclasses in it, whose fields `make` fills."""
    found = {
        field.name: field.type
        for field in dataclasses.fields(kind)
        if not dataclasses.is_dataclass(field.type)
    }
    return {name: found[name] for name in names or found}


class Settings:
    """What a function takes by name, beside its own arguments."""

    def __init__(
        self,
        function: str,
        types: Mapping[str, Any],
        without: Iterable[str] = (),
        **defaults: Any,
    ):
        """
        Args:
            types: of the settings, by name, and of fields that are none: those
                of `without`.
            defaults: those that are not the dataclasses'.
        """
        self.function = function
        self.types = {k: x for k, x in types.items() if k not in {*without}}
        self.defaults = defaults

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The defaults with what is given, checked and as Python's own types.

        Raises:
            TypeError: a setting does not exist.
            InputError: a value is of another type, or out of bounds.
        """
        self.check_names(given)
        return self.defaults | {
            name: _checked(name, value, self.types[name])
            for name, value in given.items()
        }

    def check_names(self, given: Mapping[str, Any]) -> None:
        """Raises a TypeError if one does not exist."""
        if unknown := sorted(given.keys() - self.types.keys()):
            shown = []
            for name in unknown:
                near = [x for x in self.types if x.endswith(f"_{name}")]
                near = near or difflib.get_close_matches(name, self.types)
                shown += [f"{name} (did you mean {x}?)" for x in near[:1]] or [
                    name
                ]
            raise TypeError(
                f"{self.function} has no setting {', '.join(shown)}; expected "
                f"some of {', '.join(sorted(self.types))}"
            )


def make(kind: type[Made], values: Mapping[str, Any], **others: Any) -> Made:
    """A dataclass, and those in its fields, of what `values` has for their
    fields, and of `others`."""
    assert dataclasses.is_dataclass(kind)
    found = dict(others)
    for field in dataclasses.fields(kind):
        name, of = field.name, field.type
        if name in others:
            continue
        if isinstance(of, type) and dataclasses.is_dataclass(of):
            found[name] = make(of, values)
        elif name in values:
            found[name] = values[name]
    return kind(**found)


class Given(Protocol):
    """What a call was given by name: a command's Flags (cli/flags.py), or a
    function's Keywords."""

    def __contains__(self, name: str, /) -> bool:
        """Whether the command or function has such a setting."""

    def make(self, kind: type[Made], stored: Any = None, **others: Any) -> Made:
        """A dataclass of the settings and of `others`.

        Args:
            stored: whose fields stand in for settings that are not given.
        """


class Keywords:
    """What a function was given by name."""

    def __init__(self, settings: Settings, values: Mapping[str, Any]):
        self.settings = settings
        self.values = values

    def __contains__(self, name: str) -> bool:
        return name in self.settings.types

    def make(self, kind: type[Made], stored: Any = None, **others: Any) -> Made:
        assert stored is None, "functions train"
        return make(kind, self.values, **others)


def path_of(data: Any) -> Any:
    """The text of a pathlib.Path; anything else as it is."""
    return os.fspath(data) if isinstance(data, os.PathLike) else data


def records_of(data: Any) -> Any:
    """A pandas frame's rows, or other data, as JSON has them."""
    if hasattr(data, "to_dict"):
        data = data.to_dict("records")
    return plain(data)


def plain(data: Any) -> Any:
    """Lists for tuples, arrays and iterators, Python's numbers for NumPy's,
    however deep they lie."""
    if hasattr(data, "numpy"):  # a tensor
        data = data.numpy()
    if hasattr(data, "tolist"):
        data = data.tolist()
    if isinstance(data, Mapping):
        return {key: plain(value) for key, value in data.items()}
    if isinstance(data, tuple | list | Iterator):
        return [plain(value) for value in data]
    return data


def as_list(texts: Any, one: Any = str) -> list[Any]:
    """One text, or several, as a list.

    Args:
        one: the type of a single one.

    Raises:
        InputError: they are something else. A table, for one, would be read as
            the names of its columns.
    """
    if isinstance(texts, one):
        return [texts]
    is_table = isinstance(texts, Mapping) or hasattr(texts, "columns")
    several = None
    # A set's order is any, and so would be that of the answers.
    if not is_table and not isinstance(texts, bytes | set | frozenset):
        with contextlib.suppress(TypeError):  # of what is not a list
            several = iter(texts)
    if several is None:
        raise InputError(
            f"expected a text or a list of texts, found {type_of(texts)}"
            + ("; give one column of it as a list" if is_table else "")
        )
    return list(several)


def type_of(value: Any) -> str:
    """What a sentence says of a value that is not a text."""
    return "None" if value is None else f"one of type {type(value).__name__}"


def _checked(name: str, value: Any, kind: Any) -> Any:
    value = path_of(value)
    if hasattr(value, "item"):  # a number of NumPy
        value = value.item()
    kinds = [kind] if get_origin(kind) in (Sequence, list) else get_args(kind)
    kinds = kinds or [kind]
    if not any(_fits(value, each) for each in kinds):
        words = [KINDS.get(each, "a list of texts") for each in kinds]
        raise InputError(
            f"`{name}` is {value!r}; expected {' or '.join(words)}"
        )
    if name in CHOICES and value not in (None, *CHOICES[name]):
        raise InputError(
            f"`{name}={value}` is not one of {', '.join(CHOICES[name])}"
        )
    least, most = BOUNDS.get(name, (-math.inf, None))
    if not isinstance(value, int | float):
        return value
    if value < least or (most is not None and value > most):
        expected = f"at least {least}" if most is None else f"{least} to {most}"
        raise InputError(f"`{name}` is {value}; expected {expected}")
    return value


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) in (Sequence, list):
        return isinstance(value, list | tuple) and all(
            isinstance(each, str) for each in value
        )
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    return type(value) is kind
