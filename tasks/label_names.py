"""Matches the labels of a checkpoint with those in use, by their names.

Names that differ in case, or by a space, hyphen or underscore between letters,
are the same. transformers calls labels without names LABEL_0, LABEL_1, ...:
they match the labels in use in order.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bert_keras.errors import InputError

SEPARATORS = re.compile(r"(?<=\w)[\s_-]+(?=\w)")
WHOLE_NUMBER = re.compile(r"\A([+-]?\d+)\.0*\Z")
MAX_SHOWN = 10


def names_of(labels: Any) -> tuple[str, ...]:
    """The names of classes; for a number of them, "0", "1", ..."""
    if isinstance(labels, int | np.integer) and labels > 0:
        return tuple(map(str, range(labels)))
    is_list = isinstance(labels, Iterable) and not isinstance(
        labels, str | set | frozenset
    )
    names = tuple(labels) if is_list else ()
    if not is_list or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"the labels are {labels!r:.80}; expected a list of their names, "
            "in the order of the outputs, or how many there are"
        )
    return tuple(map(str, names))  # NumPy's are not JSON's


def are_generic(labels: Sequence[str]) -> bool:
    return all(label == f"LABEL_{i}" for i, label in enumerate(labels))


def order_of(
    theirs: Sequence[str], ours: Sequence[str], others: Sequence[str] = ()
) -> list[int] | None:
    """Which of their labels each of ours is; None if they have other labels.

    Args:
        others: other names of ours, in the same order.
    """
    for own in filter(None, (ours, others)):
        for spelling in _SPELLINGS:
            places = {spelling(label): i for i, label in enumerate(theirs)}
            names = [spelling(label) for label in own]
            if len(names) == len(theirs) == len({*names} & places.keys()):
                return [places[name] for name in names]
    if are_generic(theirs) and len(theirs) == len(ours):
        return list(range(len(ours)))
    return None


def in_stored_order(
    stored: tuple[str, ...], own: tuple[str, ...], by_number: bool = False
) -> tuple[str, ...] | None:
    """The labels of some data in the order of a model's, with those that the
    data does not have; None if the data has others.

    Args:
        by_number: whether labels of other names match in order, if there are
            as many.
    """
    for spelling in _SPELLINGS:
        named = {spelling(label): label for label in stored}
        spelt = {spelling(label): label for label in own}
        are_different = len(named) == len(stored) and len(spelt) == len(own)
        if are_different and spelt.keys() <= named.keys():
            return tuple((named | spelt).values())
    if len(own) == len(stored) and (by_number or are_generic(stored)):
        return own
    return None


def shown(labels: Sequence[str], most: int = MAX_SHOWN) -> str:
    """The first ones, for a sentence, and how many more there are."""
    if not labels:
        return "none"
    more = len(labels) - most
    listed = ", ".join(labels[:most])
    return f"{listed} and {more} more" if more > 0 else listed


def class_key(label: str) -> str:
    """A label, with 1 for "1.0": pandas writes whole numbers that way in a
    column with gaps."""
    return WHOLE_NUMBER.sub(r"\1", label)


def to_number(label: str) -> float | None:
    """The number that a label is; None for words, such as "nan", "inf" and
    "4_5", which Python would read as 45."""
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in label else None


def _plain(label: str) -> str:
    return SEPARATORS.sub("_", label.casefold())


_SPELLINGS: tuple[Callable[[str], str], ...] = (str, class_key, _plain)
