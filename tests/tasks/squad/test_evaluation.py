"""Tests of tasks/squad/evaluation.py: figures worked out by hand."""

import pytest

from bert_keras.tasks.squad.evaluation import (
    best_thresholds,
    evaluate_v1,
    evaluate_v2,
    normalize,
    score_v1,
    score_v2,
)


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The  U.S. of a Man!", "us of man"),
        ("an\tapple; THE\npear", "apple pear"),
        ("Theatre, another", "theatre another"),  # no articles
        ("the-end", "theend"),  # punctuation goes before articles
        ("“a”", "“ ”"),  # other punctuation than ASCII's stays
        ("A.", ""),
    ],
)
def test_normalize(text: str, normalized: str) -> None:
    assert normalize(text) == normalized


@pytest.mark.parametrize(
    ("text", "golds", "exact", "f1"),
    [
        ("Denver Broncos", ["Denver Broncos"], 1, 1),
        ("the Denver, Broncos!", ["Denver Broncos"], 1, 1),
        ("Broncos", ["Denver Broncos"], 0, 2 / 3),  # 1 of 1 and 1 of 2
        ("Broncos Denver", ["Denver Broncos"], 0, 1),  # words, not order
        ("New England Patriots", ["Denver Broncos"], 0, 0),
        ("", ["Denver Broncos"], 0, 0),
        ("Broncos", ["Denver", "The Broncos", "x Broncos"], 1, 1),
        ("x y", ["x", "x y z", "q"], 0, 0.8),  # 2/3 and 4/5
        ("no no no", ["no no yes"], 0, 2 / 3),  # 2 of 3 both ways
    ],
)
def test_scores(text: str, golds: list[str], exact: float, f1: float) -> None:
    for score in (score_v1, score_v2):
        assert score(text, golds) == pytest.approx({"exact": exact, "f1": f1})


def test_texts_of_which_nothing_is_left() -> None:
    right, wrong = {"exact": 1, "f1": 1}, {"exact": 0, "f1": 0}
    # as evaluate-v1.1.py has it
    assert score_v1("a", ["the"]) == {"exact": 1, "f1": 0}
    assert score_v2("a", ["the"]) == right
    assert score_v2("", []) == right
    assert score_v2("x", []) == wrong
    assert score_v2("", ["x"]) == wrong
    assert score_v2("", ["the", "x"]) == wrong  # "the" does not count
    assert score_v2("the", ["x"]) == wrong


def test_means_of_1_1_are_in_percent() -> None:
    golds = [["Denver Broncos"], ["1895", "in 1895"], ["a roof"], ["gas"]]
    texts = ["Broncos", "in 1895.", "roof", "oil"]
    assert evaluate_v1(texts, golds) == pytest.approx(
        {"exact_match": 50.0, "f1": 100 * (2 / 3 + 1 + 1 + 0) / 4}
    )


def test_means_of_2_0_are_also_given_by_kind() -> None:
    golds = [["Denver Broncos"], ["oil"], ["roof"], [], []]
    texts = ["Broncos", "oil", "", "", "gas"]
    assert evaluate_v2(texts, golds) == pytest.approx(
        {
            "exact": 40.0,
            "f1": 100 * (2 / 3 + 1 + 1) / 5,
            "total": 5,
            "HasAns_exact": 100 / 3,
            "HasAns_f1": 100 * (2 / 3 + 1) / 3,
            "HasAns_total": 3,
            "NoAns_exact": 50.0,
            "NoAns_f1": 50.0,
            "NoAns_total": 2,
        }
    )
    only_answers = evaluate_v2(["oil"], [["oil"]])
    assert not [name for name in only_answers if name.startswith("NoAns")]


def test_best_thresholds() -> None:
    # By rising odds, with the questions that are right so far: at first the
    # two that have no answer.
    #   -5 "oil", right:               3 of 5
    #   -2 "x", but there is no answer: 2
    #    1 "Broncos", partly right:     2, by F1 2 2/3
    #    3 "roof", right:               3, by F1 3 2/3
    #    4 "y", but there is no answer: 2
    golds = [["roof"], ["oil"], [], ["Denver Broncos"], []]
    texts = ["roof", "oil", "x", "Broncos", "y"]
    odds = [3.0, -5.0, -2.0, 1.0, 4.0]
    assert best_thresholds(texts, odds, golds) == pytest.approx(
        {
            "best_exact": 60.0,
            "best_exact_thresh": -5.0,
            "best_f1": 100 * (3 + 2 / 3) / 5,
            "best_f1_thresh": 3.0,
        }
    )


def test_an_empty_answer_to_an_impossible_question_stays_right() -> None:
    best = best_thresholds(["", "oil"], [-3.0, -1.0], [[], ["oil"]])
    assert best["best_exact"] == 100.0
    assert best["best_exact_thresh"] == -1.0


def test_where_no_answer_helps_the_threshold_is_below_all_odds() -> None:
    best = best_thresholds(["x", ""], [-1.0, 2.0], [[], []])
    assert best["best_exact"] == 100.0
    assert best["best_exact_thresh"] < -1.0


def test_questions_of_equal_odds_are_answered_together() -> None:
    # Of the two at -1 one is right and one should not be answered: the third
    # of three, at 2, makes it worth while.
    texts, golds = ["oil", "x", "gas"], [["oil"], [], ["gas"]]
    best = best_thresholds(texts, [-1.0, -1.0, 2.0], golds)
    assert best["best_exact"] == pytest.approx(200 / 3)
    assert best["best_exact_thresh"] == 2.0
