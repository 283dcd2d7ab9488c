"""Matches the labels of a checkpoint with those in use, by their names.

Names that differ in case, or by a space, hyphen or underscore between letters,
are the same. transformers calls labels without names LABEL_0, LABEL_1, ...:
they match the labels in use in order.
"""

import re
from collections.abc import Callable, Sequence

SEPARATORS = re.compile(r"(?<=\w)[\s_-]+(?=\w)")
WHOLE_NUMBER = re.compile(r"([+-]?\d+)\.0*")
MAX_SHOWN = 10


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
            if (
                len(names) == len(theirs)
                and len(places) == len(theirs)
                and places.keys() == set(names)
            ):
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
        spelt = {spelling(label): label for label in own}
        names = [spelling(label) for label in stored]
        if (
            len(spelt) == len(own)
            and len(set(names)) == len(names)
            and spelt.keys() <= set(names)
        ):
            pairs = zip(names, stored, strict=True)
            return tuple(spelt.get(name, label) for name, label in pairs)
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
    found = WHOLE_NUMBER.fullmatch(label)
    return found[1] if found else label


def _plain(label: str) -> str:
    return SEPARATORS.sub("_", label.casefold())


_SPELLINGS: tuple[Callable[[str], str], ...] = (str, class_key, _plain)
