"""Tests of tasks/ner/iob_tags.py: examples worked out by hand, and seqeval's
scores of random taggings (golden/tagging)."""

import json

import pytest

from bert_keras.tasks.ner.iob_tags import (
    Entity,
    entities,
    entity_scores,
    kinds_of,
    scheme_of,
    tags_of,
    to_tags,
)
from tests.conftest import GOLDEN

# LOC of two words, PER, PER of three words, one word outside.
FOUND = [Entity("LOC", 0, 2), Entity("PER", 2, 3), Entity("PER", 3, 6)]
WRITTEN = {
    "IOB1": "I-LOC I-LOC I-PER B-PER I-PER I-PER O",
    "IOB2": "B-LOC I-LOC B-PER B-PER I-PER I-PER O",
    "IOBES": "B-LOC E-LOC S-PER B-PER I-PER E-PER O",
    "BILUO": "B-LOC L-LOC U-PER B-PER I-PER L-PER O",
    "BMES": "B-LOC E-LOC S-PER B-PER M-PER E-PER O",
}


@pytest.mark.parametrize("scheme", WRITTEN)
def test_schemes(scheme: str) -> None:
    tags = WRITTEN[scheme].split()
    assert to_tags(FOUND, 7, scheme) == tags
    assert entities(tags) == FOUND
    assert scheme_of([["O"], tags]) == scheme


def test_tags_without_a_type() -> None:
    found = [Entity("", 0, 2), Entity("", 2, 3)]
    assert entities("B I B O".split()) == found
    assert entities("B L U O".split()) == found
    assert to_tags(found, 4) == "B I B O".split()
    assert tags_of({""}) == ("O", "B", "I")
    assert kinds_of(["O", "B", "I"]) == {""}
    assert kinds_of(["O"]) == set()
    # Two are meant and three found, of which one is right.
    scores = entity_scores(["B I O B".split()], ["B O B B".split()])
    assert scores == pytest.approx(
        {"precision": 1 / 3, "recall": 1 / 2, "f1": 2 / 5}
    )


def test_entities_of_biluo_count_by_their_ends() -> None:
    """PER (words 1-3) is found one word too short, LOC (word 5) whole."""
    golds = ["B-PER I-PER L-PER O U-LOC".split()]
    predicted = ["B-PER L-PER O O U-LOC".split()]
    scores = entity_scores(golds, predicted)
    assert scores["precision"] == scores["recall"] == scores["f1"] == 1 / 2
    assert (scores["f1_PER"], scores["f1_LOC"]) == (0, 1)


def test_a_scheme_that_nothing_tells() -> None:
    assert scheme_of([["O", "O"], []]) == "IOB2"


def test_one_wrong_tag_does_not_make_another_scheme() -> None:
    assert scheme_of([["B-LOC"], ["O", "I-PER"], ["B-PER"]]) == "IOB2"
    assert scheme_of([["B-LOC"], ["O", "S-PER"], ["B-PER"]]) == "IOB2"


def test_what_is_against_all_rules_is_read_as_conlleval_reads_it() -> None:
    found = entities("I-A E-A I-A I-B O E-B".split())
    assert found == [
        Entity("A", 0, 2), Entity("A", 2, 3), Entity("B", 3, 4),
        Entity("B", 5, 6),
    ]  # fmt: skip


def test_labels() -> None:
    labels = tags_of(["PER", "LOC", "PER"])
    assert labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert kinds_of(labels) == {"LOC", "PER"}


def test_scores() -> None:
    """Of three entities two are found, one of them too short; one that is
    there for no one."""
    golds = ["B-A I-A O B-B".split(), "B-B O".split(), ["O"]]
    predicted = ["B-A O O B-B".split(), "O O".split(), ["B-C"]]
    scores = entity_scores(golds, predicted)
    assert scores == pytest.approx(
        {
            **{"precision": 1 / 3, "recall": 1 / 3, "f1": 1 / 3},
            **{"precision_A": 0, "recall_A": 0, "f1_A": 0},
            **{"precision_B": 1, "recall_B": 1 / 2, "f1_B": 2 / 3},
            **{"precision_C": 0, "recall_C": 0, "f1_C": 0},
        }
    )


def test_a_thousand_taggings_score_as_with_seqeval() -> None:
    text = (GOLDEN / "tagging" / "seqeval.json").read_text()
    recorded = json.loads(text)
    assert len(recorded["taggings"]) == 1000
    for *texts, precision, recall, f1 in recorded["taggings"]:
        golds, predicted = (
            [[recorded["tags"][c] for c in part] for part in text.split()]
            for text in texts
        )
        scores = entity_scores(golds, predicted)
        found = [scores[name] for name in ("precision", "recall", "f1")]
        assert found == pytest.approx([precision, recall, f1], abs=1e-12)
