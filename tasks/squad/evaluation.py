"""Exact match and F1 of predicted answers, as SQuAD's own scripts define them.

evaluate-v1.1.py and evaluate-v2.0.py, published with the data. A question's
score is its best over the golds, which are the answers that people gave; scores
are means over questions in percent. Another score against the golds,
from 0 to 1, is a function and its name in METRICS: models can then be compared
by it. Any other figure belongs in SquadTask's `_evaluate`.

Shapes: N questions.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

_PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII's alone
_ARTICLES = re.compile(r"\b(a|an|the)\b")

Golds = Sequence[Sequence[str]]  # of each question
Score = dict[str, float]  # of one question, from 0 to 1, by METRICS' names


def normalize(text: str) -> str:
    """ "The  U.S. of a Man!" becomes "us of man"."""
    bare = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def exact(found: str, gold: str) -> float:
    return float(found == gold)


def f1(found: str, gold: str) -> float:
    """Harmonic mean of precision and recall of words, repeated ones counted."""
    words, wanted = found.split(), gold.split()
    num_common = sum((Counter(words) & Counter(wanted)).values())
    if not num_common:
        return 0.0
    precision, recall = num_common / len(words), num_common / len(wanted)
    return 2 * precision * recall / (precision + recall)


# Each of an answer and a gold, both normalized.
METRICS = {"exact": exact, "f1": f1}


def metric_names(version_2_with_negative: bool) -> tuple[str, ...]:
    """What models may be compared by; the first is the default."""
    names = ("f1", *(name for name in METRICS if name != "f1"))
    if version_2_with_negative:
        return (*names, *(f"best_{name}" for name in names))
    return tuple("exact_match" if name == "exact" else name for name in names)


def score_v1(text: str, golds: Iterable[str]) -> Score:
    """Two texts of which nothing is left when normalized share no word: an
    exact match with an F1 of 0."""
    found, wanted = normalize(text), [normalize(gold) for gold in golds]
    return {
        name: max(metric(found, gold) for gold in wanted)
        for name, metric in METRICS.items()
    }


def score_v2(text: str, golds: Iterable[str]) -> Score:
    """Golds of which nothing is left when normalized do not count; without
    any the one right answer is none."""
    wanted = [gold for gold in golds if normalize(gold)]
    if normalize(text) and wanted:
        return score_v1(text, wanted)
    return dict.fromkeys(METRICS, float(not normalize(text) and not wanted))


def evaluate_v1(texts: Sequence[str], golds: Golds) -> dict[str, float]:
    """SQuAD 1.1's exact_match and f1 of N answers."""
    means = _means([score_v1(*pair) for pair in zip(texts, golds, strict=True)])
    return {"exact_match": means.pop("exact"), **means}


def evaluate_v2(texts: Sequence[str], golds: Golds) -> dict[str, float]:
    """SQuAD 2.0's exact and f1 of N answers, "" being none.

    Also for the questions that have an answer (HasAns_) or none (NoAns_) alone,
    if there are any, with their numbers ("total").
    """
    scores = [score_v2(*pair) for pair in zip(texts, golds, strict=True)]
    parts = {
        "": scores,
        "HasAns_": [s for s, own in zip(scores, golds, strict=True) if own],
        "NoAns_": [s for s, own in zip(scores, golds, strict=True) if not own],
    }
    return {
        f"{prefix}{name}": value
        for prefix, part in parts.items()
        if part
        for name, value in {**_means(part), "total": float(len(part))}.items()
    }


def _means(scores: Sequence[Score]) -> dict[str, float]:
    """In percent."""
    return {
        name: 100.0 * sum(score[name] for score in scores) / len(scores)
        for name in METRICS
    }


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
    scores = [score_v2(*pair) for pair in zip(texts, golds, strict=True)]
    order = np.argsort(null_odds, kind="stable").tolist()
    results = {}
    for name in METRICS:
        # From a threshold below all odds (every question unanswered) it rises,
        # and one question after another gets its answer.
        score = best = float(sum(not own for own in golds))
        # Theirs: 0, which is not the threshold of that score. Nor do they see
        # that questions of equal odds are answered together or not at all.
        threshold = min(null_odds) - 1.0
        for i, following in zip(order, [*order[1:], None], strict=True):
            if golds[i]:
                score += scores[i][name]
            elif texts[i]:
                score -= 1.0
            is_last = following is None or null_odds[following] > null_odds[i]
            if score > best and is_last:
                best, threshold = score, null_odds[i]
        results[f"best_{name}"] = 100.0 * best / len(texts)
        results[f"best_{name}_thresh"] = threshold
    return results
