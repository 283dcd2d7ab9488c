"""Entities as tags write them, and what taggings of them score.

An entity counts as found when its type and both its ends are right: Tjong Kim
Sang and De Meulder 2003 (CoNLL-2003), section 2. Where one begins and ends is
read as their conlleval reads it, and seqeval when it is not told to be strict;
these rules fit IOB1, IOB2, IOBES (or BIOES), BILUO and BMES alike, so that no
reader has to be told which it is. Tags without a type, plain B and I, stand for
entities of the kind "". (seqeval itself has had no release since 2020, and
pip has to build it from source.)
"""

import collections
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bert_keras.tasks.metrics import f1_score

OUTSIDE = "O"
IOB1, IOB2, IOBES, BILUO, BMES = ("IOB1", "IOB2", "IOBES", "BILUO", "BMES")
# The letters of an entity's first word, those inside, its last word, and of an
# entity of one word. (IOB1 has B only where two of a kind are side by side.)
LETTERS = {
    IOB1: "BIIB", IOB2: "BIIB", IOBES: "BIES", BILUO: "BILU", BMES: "BMES",
}  # fmt: skip
TAG = re.compile(r"O|[BIMELSU](-.+)?")


class Entity(NamedTuple):
    kind: str  # PER, LOC, ...
    begin: int  # its first word
    end: int  # one past its last


def entities(tags: Sequence[str]) -> list[Entity]:
    """O B-PER I-PER I-LOC B-LOC are PER of words 1-2, LOC of 3, LOC of 4."""
    found = []
    begin, last_prefix, last_kind = 0, OUTSIDE, ""
    for i, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, kind = tag.partition("-")
        is_inside = (
            last_prefix in {"B", "I", "M"}
            and prefix in {"I", "M", "E", "L"}
            and kind == last_kind
        )
        if not is_inside:
            if last_prefix != OUTSIDE:
                found.append(Entity(last_kind, begin, i))
            begin = i
        last_prefix, last_kind = prefix, kind
    return found


def to_tags(
    found: Sequence[Entity], num_words: int, scheme: str = IOB2
) -> list[str]:
    """The way back; entities are in order. Two of a kind side by side are
    B I B in IOB2, I I B in IOB1, B E S in IOBES and B L U in BILUO."""
    begin, inside, end, single = tuple(LETTERS[scheme])
    tags = [OUTSIDE] * num_words
    last = Entity("", -1, -1)  # beside no word
    for entity in found:
        length = entity.end - entity.begin
        letters = [begin, *[inside] * (length - 2), end]
        if length == 1:
            letters = [single]
        is_beside = last.end == entity.begin and last.kind == entity.kind
        if scheme == IOB1 and not is_beside:
            letters[0] = "I"
        tags[entity.begin : entity.end] = [
            _tag(letter, entity.kind) for letter in letters
        ]
        last = entity
    return tags


def _tag(letter: str, kind: str) -> str:
    return f"{letter}-{kind}" if kind else letter


def scheme_of(taggings: Iterable[Sequence[str]]) -> str:
    """Which scheme these are in, by how most of their entities begin and end;
    IOB2 where nothing tells."""
    begins, ends, letters = (collections.Counter[str]() for _ in range(3))
    for tags in taggings:
        letters.update(tag[0] for tag in tags)
        for entity in entities(tags):
            begins[tags[entity.begin][0]] += 1
            ends[tags[entity.end - 1][0]] += 1
    if sum(ends[x] for x in "ESLU") > sum(ends[x] for x in "BIM"):
        if letters["L"] + letters["U"] > letters["E"] + letters["S"]:
            return BILUO
        return BMES if letters["M"] > letters["I"] else IOBES
    return IOB1 if begins["I"] > begins["B"] else IOB2


def tags_of(kinds: Iterable[str]) -> tuple[str, ...]:
    """All tags of IOB2 for entities of these kinds."""
    inside = [_tag(x, kind) for kind in sorted(set(kinds)) for x in "BI"]
    return (OUTSIDE, *inside)


def kinds_of(labels: Iterable[str]) -> set[str]:
    """The kinds of entities that these tags can write; "" for plain B and I."""
    return {
        label.partition("-")[2]
        for label in labels
        if label != OUTSIDE and TAG.fullmatch(label)
    }


def are_tags(labels: Iterable[str]) -> bool:
    """Whether all write entities, and are not parts of speech or the like."""
    return all(TAG.fullmatch(label) for label in labels)


def entity_scores(
    golds: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Precision, recall and F1 of all entities, and of each kind with its name
    at the end, f1_PER, if it has one. 0 where there is nothing to divide by."""
    right, meant, said = (collections.Counter[str]() for _ in range(3))
    for pair in zip(golds, predicted, strict=True):
        gold, found = (set(entities(tags)) for tags in pair)
        right.update(entity.kind for entity in gold & found)
        meant.update(entity.kind for entity in gold)
        said.update(entity.kind for entity in found)
    scores = _scores(right.total(), meant.total(), said.total())
    for kind in sorted((meant | said).keys() - {""}):
        for name, value in _scores(
            right[kind], meant[kind], said[kind]
        ).items():
            scores[f"{name}_{kind}"] = value
    return scores


def _scores(right: int, meant: int, said: int) -> dict[str, float]:
    return {
        "precision": right / said if said else 0.0,
        "recall": right / meant if meant else 0.0,
        "f1": f1_score(right, meant, said),
    }
