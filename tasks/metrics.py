"""Scores of classification and regression, as GLUE's tasks define them, and
the signs of a run that has learnt nothing.

Wang et al. 2018 (GLUE), table 1.

Shapes: N examples, C labels.
"""

import statistics
from collections.abc import Sequence

import numpy as np

from bert_keras.errors import printable

# A loss above this share of the prior's entropy has learnt nothing.
PRIOR_SHARE = 0.97


def f1_score(num_right: int, num_gold: int, num_predicted: int) -> float:
    """The harmonic mean of precision and recall; 0 of nothing at all."""
    total = num_gold + num_predicted
    return 2 * num_right / total if total else 0.0


def classification_metrics(
    predicted: np.ndarray, labels: np.ndarray
) -> dict[str, float]:
    """Scores of `predicted` against `labels`, int [N] each. "f1" is that of
    class 1, which says something of two classes alone; "macro_f1" is the mean
    over all classes that occur in either."""
    of_class = {
        c: _f1(labels == c, predicted == c)
        for c in np.union1d(labels, predicted).tolist()
    }
    return {
        "accuracy": float(np.mean(labels == predicted)),
        "f1": of_class.get(1, 0.0),
        "macro_f1": statistics.fmean(of_class.values()),
        "matthews": _matthews(labels, predicted),
    }


def _f1(gold: np.ndarray, found: np.ndarray) -> float:
    """Of bool [N] each."""
    return f1_score(
        int(np.sum(gold & found)), int(gold.sum()), int(found.sum())
    )


def _matthews(labels: np.ndarray, predicted: np.ndarray) -> float:
    """Gorodkin 2004, equation 8; 0 where either is all one class."""
    if min(np.ptp(labels), np.ptp(predicted)) == 0:
        return 0.0
    count = len(labels)
    length = int(max(labels.max(), predicted.max())) + 1
    gold = np.bincount(labels, minlength=length).astype(np.float64)
    found = np.bincount(predicted, minlength=length).astype(np.float64)
    covariance = np.sum(labels == predicted) * count - gold @ found
    variances = (count**2 - gold @ gold) * (count**2 - found @ found)
    return float(covariance / np.sqrt(variances))


def regression_metrics(
    predicted: np.ndarray, targets: np.ndarray
) -> dict[str, float]:
    """Of float [N] each."""
    return {
        "mean_squared_error": float(np.mean(np.square(predicted - targets))),
        "pearson": _pearson(predicted, targets),
        "spearman": _pearson(_ranks(predicted), _ranks(targets)),
    }


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Numbers that are all the same correlate with nothing: 0."""
    if not min(np.ptp(x), np.ptp(y)) > 0.0:
        return 0.0
    units = []
    for values in (x, y):
        centered = np.asarray(values, np.float64) - np.mean(values, dtype=float)
        centered /= np.abs(centered).max()  # squares stay in range
        units.append(centered / np.linalg.norm(centered))
    return float(np.clip(np.dot(*units), -1.0, 1.0))


def _ranks(values: np.ndarray) -> np.ndarray:
    """From 1; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(
        values, return_inverse=True, return_counts=True
    )
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def multi_label_metrics(
    predicted: np.ndarray, labels: np.ndarray
) -> dict[str, float]:
    """Of [N, C], true where a label is; accuracy: all C of them are right."""
    present = labels > 0.5
    return {
        "accuracy": float(np.mean(np.all(predicted == present, axis=-1))),
        "micro_f1": _f1(present.ravel(), predicted.ravel()),
        "macro_f1": statistics.fmean(map(_f1, present.T, predicted.T)),
    }


def class_report(
    predicted: np.ndarray, labels: np.ndarray, names: Sequence[str]
) -> str:
    """A table of each class: precision, recall, F1 and number of examples.

    Args:
        predicted, labels: bool [N, C], true where an example has the label.
        names: of the C labels.
    """
    shown = [printable(name) for name in names]
    width = max(map(len, [*shown, "label"]))
    lines = [f"{'label':<{width}}  precision  recall      F1  examples"]
    for name, found, gold in zip(shown, predicted.T, labels.T, strict=True):
        right = int(np.sum(found & gold))
        num_found, num_gold = int(found.sum()), int(gold.sum())
        lines.append(
            f"{name:<{width}}  {right / max(num_found, 1):9.4f}"
            f"  {right / max(num_gold, 1):6.4f}"
            f"  {f1_score(right, num_gold, num_found):6.4f}  {num_gold:8,}"
        )
    return "\n".join(lines)


def confusion_matrix(
    predicted: np.ndarray, labels: np.ndarray, names: Sequence[str]
) -> str:
    """A table: how many examples of the row's class are predicted to be of the
    column's.

    Args:
        predicted, labels: int [N], of the classes in `names`.
    """
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (labels, predicted), 1)
    shown = [printable(name) for name in names]
    first = max(map(len, ["label", *shown]))
    widths = [max(len(name), len(f"{counts.max():,}")) for name in shown]
    header = (f"{n:>{width}}" for n, width in zip(shown, widths, strict=True))
    lines = ["  ".join([f"{'label':<{first}}", *header])]
    for name, row in zip(shown, counts.tolist(), strict=True):
        cells = (f"{x:>{w},}" for x, w in zip(row, widths, strict=True))
        lines.append("  ".join([f"{name:<{first}}", *cells]))
    return "\n".join(lines)


def summarize(values: Sequence[float]) -> dict[str, float]:
    """Several runs in short; "spread" is the standard deviation."""
    return {
        "median": statistics.median(values),
        "highest": max(values),
        "lowest": min(values),
        "spread": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


def diagnose_classes(
    predicted: np.ndarray,
    labels: np.ndarray,
    train_losses: Sequence[float],
    names: Sequence[str],
    class_weights: Sequence[float] = (),
) -> str | None:
    """A sentence when a run has come to nothing, as small sets' do at times.

    Args:
        predicted, labels: int [N], of an evaluation.
        train_losses: of each step, in nats; may be empty.
        names: of the classes.
        class_weights: in those losses; none: all 1.
    """
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        return None
    if len(np.unique(predicted)) == 1:
        share = np.mean(labels == predicted[0])
        return (
            f"degenerate run: {names[predicted[0]]!r} is predicted for all "
            f"{len(labels)} examples, of which {share:.1%} are; more "
            "`num_train_epochs`, another `seed`, a lower `learning_rate`, "
            "`bias_correction` or an `init_checkpoint` that was trained longer "
            "may help"
        )
    if class_weights:
        counts = counts * np.take(class_weights, classes)
    shares = counts[counts > 0] / np.sum(counts)
    if len(shares) < 2:
        return None
    entropy = -float(np.sum(shares * np.log(shares)))
    return diagnose_losses(
        train_losses, entropy, "always giving the classes' shares"
    )


def diagnose_labels(predicted: np.ndarray, labels: np.ndarray) -> str | None:
    """A sentence if no label is predicted, though examples have some.

    Args:
        predicted, labels: [N, C], true or above 0.5 where a label is.
    """
    number = int(np.sum(labels > 0.5))
    if np.any(predicted) or not number:
        return None
    return (
        f"degenerate run: none of the {number} labels of {len(labels)} "
        "examples is predicted, nor any other; more `num_train_epochs` or a "
        "higher `learning_rate` may help"
    )


def diagnose_values(values: np.ndarray, targets: np.ndarray) -> str | None:
    """A warning if values, [N], miss the targets as far as their mean does."""
    error = float(np.mean(np.square(values - targets)))
    variance = float(np.var(targets))
    if error < variance or not variance:
        return None
    return (
        f"degenerate run: the mean squared error is {error:.4g}, where always "
        f"giving the mean of these examples costs {variance:.4g}; more "
        "`num_train_epochs`, another `seed` or `learning_rate` may help"
    )


def diagnose_losses(
    train_losses: Sequence[float], guess: float, guessing: str
) -> str | None:
    """A sentence when the losses never fell below a guess's.

    Args:
        train_losses: of each step, of which the last tenth counts.
        guess: what `guessing` costs, in the same unit.
    """
    last = train_losses[-max(1, len(train_losses) // 10) :]
    if not last or (loss := statistics.fmean(last)) < PRIOR_SHARE * guess:
        return None
    return (
        f"degenerate run: the training loss ended at {loss:.3f}, where "
        f"{guessing} costs {guess:.3f}; more `num_train_epochs`, another "
        "`seed` or `learning_rate` may help"
    )


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """[..., C] logits -> log-probabilities in float64."""
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
