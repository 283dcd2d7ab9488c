"""Tests of tasks/label_names.py."""

import pytest

from bert_keras.tasks.label_names import (
    in_stored_order,
    order_of,
    shown,
    to_number,
)

GLUE = ("contradiction", "entailment", "neutral")
GENERIC = ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (("contradiction", "neutral", "entailment"), [0, 2, 1]),
        (("entailment", "neutral", "contradiction"), [2, 0, 1]),
        (("ENTAILMENT", "Neutral", "CONTRADICTION"), [2, 0, 1]),
        (GENERIC, [0, 1, 2]),
        (("LABEL_2", "LABEL_1", "LABEL_0"), None),
        (("contradiction", "entailment"), None),
        (("contradiction", "entailment", "neutral", "other"), None),
        (("contradiction", "entailment", "Entailment"), None),
        (("a", "b", "c"), None),
        ((), None),
    ],
)
def test_which_of_their_labels_each_of_glues_is(
    theirs: tuple[str, ...], expected: list[int] | None
) -> None:
    assert order_of(theirs, GLUE) == expected


def test_spellings_that_are_one_and_that_are_not() -> None:
    assert order_of(("Not-Entailment", "b per"), ("B_PER", "not_entailment"))
    assert order_of(("-1", "1"), ("1", "-1")) == [1, 0]
    assert order_of(("1", "2"), ("-1", "2")) is None
    assert order_of(("C", "Java"), ("C++", "Java")) is None
    # where two would become one, only the names as they are count
    assert order_of(("b", "B"), ("B", "b")) == [1, 0]
    assert order_of(("b", "B"), ("B", "c")) is None


def test_other_names_of_the_same_labels() -> None:
    theirs, mrpc = ("equivalent", "not_equivalent"), ("0", "1")
    assert order_of(theirs, mrpc) is None
    assert order_of(theirs, mrpc, ("not_equivalent", "equivalent")) == [1, 0]
    assert order_of(mrpc, mrpc, ("not_equivalent", "equivalent")) == [0, 1]


def test_the_labels_of_data_in_the_order_of_a_model() -> None:
    stored = ("POSITIVE", "NEGATIVE", "MIXED")
    assert in_stored_order(stored, ()) == stored
    assert in_stored_order(stored, ("MIXED", "POSITIVE")) == stored
    found = in_stored_order(stored, ("negative", "positive"))
    assert found == ("positive", "negative", "MIXED")
    assert in_stored_order(stored, ("a", "b", "c")) is None
    assert in_stored_order(stored, ("a", "b", "c"), True) == ("a", "b", "c")
    assert in_stored_order(stored, ("a", "b"), by_number=True) is None
    assert in_stored_order(GENERIC, ("a", "b", "c")) == ("a", "b", "c")
    assert in_stored_order(GENERIC, ("a", "b")) is None
    assert in_stored_order((), ("a", "b")) is None


def test_long_lists_are_cut() -> None:
    assert shown(("a", "b")) == "a, b"
    assert shown([str(i) for i in range(13)]).endswith("8, 9 and 3 more")


def test_what_people_write_as_a_number() -> None:
    for text, number in (("1000", 1e3), ("-.5", -0.5), ("1e3", 1e3)):
        assert to_number(text) == number
    for text in ("1_000", "1e1_0", "1,000", "0x10", "nan", "-inf", "1e999"):
        assert to_number(text) is None
