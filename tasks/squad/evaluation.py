"""Exact match and F1 of predicted answers, as SQuAD's own scripts define them.

evaluate-v1.1.py and evaluate-v2.0.py, published with the data. A question's
score is its best over the golds, which are the answers that people gave; all
figures are means over questions in percent.

Shapes: N questions.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

_PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII's alone
_ARTICLES = re.compile(r"\b(a|an|the)\b")

Golds = Sequence[Sequence[str]]  # of each question


class Score(NamedTuple):
    """Of one question, from 0 to 1."""

    exact: float
    f1: float


def evaluate_v1(texts: Sequence[str], golds: Golds) -> dict[str, float]:
    """SQuAD 1.1's exact_match and f1 of N answers."""
    pairs = zip(texts, golds, strict=True)
    return _means([score_v1(text, own) for text, own in pairs], "exact_match")


def evaluate_v2(texts: Sequence[str], golds: Golds) -> dict[str, float]:
    """SQuAD 2.0's exact and f1 of N answers, "" being none.

    Also for the questions that have an answer (HasAns_) or none (NoAns_) alone,
    if there are any, with their numbers ("total").
    """
    pairs = zip(texts, golds, strict=True)
    scores = [score_v2(text, own) for text, own in pairs]
    results = {**_means(scores), "total": float(len(scores))}
    for prefix, has_answer in (("HasAns_", True), ("NoAns_", False)):
        part = [
            score
            for score, own in zip(scores, golds, strict=True)
            if bool(own) == has_answer
        ]
        if part:
            for name, value in _means(part).items():
                results[prefix + name] = value
            results[prefix + "total"] = float(len(part))
    return results


def best_thresholds(
    texts: Sequence[str], null_odds: Sequence[float], golds: Golds
) -> dict[str, float]:
    """Above which null odds "no answer" is best said, for exact and for f1.

    Args:
        texts: what is answered where it is not. The published script is given
            predictions.json, in which some threshold has already put "" in
            place of answers: it cannot find a better one above that.

    Returns:
        best_exact, best_exact_thresh, best_f1 and best_f1_thresh.
    """
    scores = [
        score_v2(text, own) for text, own in zip(texts, golds, strict=True)
    ]
    results = {}
    for name in Score._fields:
        values = [getattr(score, name) for score in scores]
        best, threshold = _best_threshold(values, texts, null_odds, golds)
        results[f"best_{name}"] = best
        results[f"best_{name}_thresh"] = threshold
    return results


def _best_threshold(
    scores: Sequence[float],
    texts: Sequence[str],
    null_odds: Sequence[float],
    golds: Golds,
) -> tuple[float, float]:
    """The best mean in percent, and the threshold that gives it.

    From a threshold below all odds (every question unanswered) it rises, and
    one question after another gets its answer.
    """
    score = best = float(sum(not own for own in golds))
    # Theirs: 0, which is not the threshold of that score. Nor do they see that
    # questions of equal odds are answered together or not at all.
    threshold = min(null_odds) - 1.0
    order = np.argsort(null_odds, kind="stable").tolist()
    for i, following in zip(order, [*order[1:], None], strict=True):
        if golds[i]:
            score += scores[i]
        elif texts[i]:
            score -= 1.0
        is_last = following is None or null_odds[following] > null_odds[i]
        if score > best and is_last:
            best, threshold = score, null_odds[i]
    return 100.0 * best / len(scores), threshold


def score_v1(text: str, golds: Iterable[str]) -> Score:
    """Two texts of which nothing is left when normalized share no word: an
    exact match with an F1 of 0."""
    found = normalize(text)
    wanted = [normalize(gold) for gold in golds]
    return Score(
        max(float(found == gold) for gold in wanted),
        max(_f1(found.split(), gold.split()) for gold in wanted),
    )


def score_v2(text: str, golds: Iterable[str]) -> Score:
    """Golds of which nothing is left when normalized do not count; without
    any the one right answer is none."""
    found = normalize(text)
    wanted = [normalize(gold) for gold in golds if normalize(gold)]
    if not found or not wanted:
        right = float(not found and not wanted)
        return Score(right, right)
    return score_v1(text, wanted)


def normalize(text: str) -> str:
    """ "The  U.S. of a Man!" becomes "us of man"."""
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def _f1(found: Sequence[str], wanted: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of words, repeated ones counted."""
    num_common = sum((Counter(found) & Counter(wanted)).values())
    if not num_common:
        return 0.0
    precision, recall = num_common / len(found), num_common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def _means(
    scores: Sequence[Score], name_of_exact: str = "exact"
) -> dict[str, float]:
    """In percent."""
    exact = sum(score.exact for score in scores)
    f1 = sum(score.f1 for score in scores)
    return {
        name_of_exact: 100.0 * exact / len(scores),
        "f1": 100.0 * f1 / len(scores),
    }
