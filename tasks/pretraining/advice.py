"""Says early on whether a masked language model can learn, and whether it does.

A model learns first how frequent each token is; its loss is then the entropy of
the frequencies (Shannon 1948, section 6, in nats). It may stay for thousands of
steps where it knows little more. Bounds are from runs of this project.

Shapes: R records, S positions, P predictions, N tokens.
"""

import collections
import contextlib
import itertools
import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_keras.data.record_schema import NEXT_SENTENCE, Feature
from bert_keras.data.tfrecords import parse_batch, read_records
from bert_keras.errors import InputError

NUM_MEASURED = 5000  # records
FILLED = "input_mask", "sequence_numbers", "input_ids"  # the first that is here
MEASURED = {
    *FILLED, "masked_lm_ids", "masked_lm_weights", NEXT_SENTENCE,
    "next_sentence_weights",
}  # fmt: skip
WINDOW = 1000  # steps, of which two in a row are compared
STEPS_BETWEEN_LOOKS = 500
FLAT = 0.01  # change of the mean loss from window to window
LOW_ACCURACY = 0.2  # of masked tokens; models that learn are soon above it
LEAST_AT_END = 100  # steps, of which the last are compared with a guess
LITTLE = 0.02  # accuracy above that of a guess
RATES = "a longer warm-up (`num_warmup_steps`), a higher `learning_rate`"
FROM_NOTHING = (
    "a larger initializer_range in bert_config.json where the model is narrow "
    "(0.06 at a hidden_size of 128), no dropout there (hidden_dropout_prob 0) "
    "where each text is seen once, or a smaller vocabulary"
)


def first_records(
    features: Sequence[Feature], paths: Sequence[str]
) -> dict[str, np.ndarray]:
    """What is measured of the first records, [R, S] or [R, P] each; nothing
    where they are damaged, which is named where it is met."""
    records = itertools.chain.from_iterable(map(read_records, paths))
    first = []
    with contextlib.suppress(InputError):
        for record in itertools.islice(records, NUM_MEASURED):
            first.append(record)
    table = [feature for feature in features if feature.name in MEASURED]
    try:
        parsed = parse_batch(table, first)
    except tf.errors.InvalidArgumentError:
        return {}
    return {name: values.numpy() for name, values in parsed.items()}


def length_hint(
    found: Mapping[str, np.ndarray], max_seq_length: int
) -> list[str]:
    """A sentence if no record fills its positions: the last ones are then not
    trained.

    Args:
        found: as `first_records` gives it.
    """
    if not found:
        return []
    filled = next(found[name] for name in FILLED if name in found)
    longest = int(np.flatnonzero(filled.any(0))[-1]) + 1
    if longest == max_seq_length:
        return []
    return [
        f"the longest of the first {len(filled):,} records has {longest} of "
        f"`max_seq_length={max_seq_length}` positions: if no other is longer, "
        "the positions beyond are not trained; make records that fill them, or "
        f"with `max_seq_length={longest}`"
    ]


def answers(
    found: Mapping[str, np.ndarray], never_masked: Collection[int]
) -> np.ndarray:
    """The ids of what is masked or, in records without masks, may be, [N].

    Args:
        found: as `first_records` gives it.
        never_masked: ids of special tokens and padding.
    """
    if "masked_lm_ids" in found:
        return found["masked_lm_ids"][found["masked_lm_weights"] > 0]
    ids = found.get("input_ids", np.array([], int))
    return ids[~np.isin(ids, [*never_masked])]


def labels(found: Mapping[str, np.ndarray]) -> np.ndarray:
    """The labels of next sentences, [N], without those of padding.

    Args:
        found: as `first_records` gives it.
    """
    values = found[NEXT_SENTENCE]
    weights = found.get("next_sentence_weights", np.ones(values.shape))
    return values[weights > 0]


def guessing(
    ids: np.ndarray, seen: np.ndarray | None = None
) -> tuple[float, float]:
    """What is reached without looking at the text: the loss in nats of
    answering each token as often as it was seen, and the accuracy of always
    answering the most frequent one.

    Args:
        ids: what is masked, [N], at least one.
        seen: ids of the training text; None: the same ones, whose loss is
            their entropy. Others count as if they had been seen once.
    """
    known = seen if seen is not None and seen.size else ids
    every = np.concatenate([known, ids])
    values, places = np.unique(every, return_inverse=True)
    counts = np.bincount(places[: known.size], minlength=len(values))
    own = places[known.size :]
    losses = -np.log(np.maximum(counts[own], 1) / known.size)
    return float(losses.mean()), float((own == counts.argmax()).mean())


class PlateauWatch:
    """Warns once of a run whose masked language model does not learn.

    It stays on a plateau if from one `WINDOW` to the next its loss changes by
    `FLAT` at most, and its accuracy is still below `LOW_ACCURACY`. A run that
    is too short to show that is told at its end if it is no better than a
    guess.

    Keeps nothing beyond a run: a resumed one is watched anew.

    Args:
        guess: what `guessing` gives, a loss and an accuracy; None: it is not
            known.
        corrects_bias: whether `bias_correction` is given already.
        begins_at_random: whether the config and the vocabulary may change.
    """

    def __init__(
        self,
        guess: tuple[float, float] | None,
        corrects_bias: bool = False,
        begins_at_random: bool = True,
    ) -> None:
        self._guess = guess
        first = "" if corrects_bias else "`bias_correction` first; then "
        others = f"{RATES}, {FROM_NOTHING}" if begins_at_random else RATES
        self._advice = f"try {first}{others} (in another `output_dir`)"
        self._rate = math.inf
        # loss and accuracy of a step
        self._seen = collections.deque[tuple[float, float]](maxlen=2 * WINDOW)
        self._has_warned = False

    def __call__(
        self, step: int, figures: Mapping[str, float], is_last: bool
    ) -> str | None:
        """Notes a finished step; returns the warning when it is due."""
        if self._has_warned:
            return None
        if figures["learning_rate"] > self._rate:  # the warm-up is overlooked
            self._seen.clear()
        self._rate = figures["learning_rate"]
        self._seen.append(
            (figures["masked_lm_loss"], figures["masked_lm_accuracy"])
        )
        has_end = is_last and len(self._seen) >= LEAST_AT_END
        if has_end and self._guess is not None:
            last = np.array(self._seen)[-LEAST_AT_END:]
            loss, accuracy = last.mean(axis=0).tolist()
            _, guess = self._guess
            little = min(guess + LITTLE, 1.0 - LITTLE)
            if math.isfinite(loss) and accuracy < little:
                return (
                    f"the model has learned little: in the last {LEAST_AT_END} "
                    f"steps {accuracy:.1%} of masked tokens were right, and "
                    "always answering the most frequent one gives "
                    f"{guess:.1%}; train for longer, or {self._advice}"
                )
        if len(self._seen) < 2 * WINDOW or step % STEPS_BETWEEN_LOOKS:
            return None
        windows = np.reshape(self._seen, [2, WINDOW, 2])
        (before, _), (loss, accuracy) = windows.mean(axis=1).tolist()
        # False of a loss that was not finite
        is_flat = abs(loss - before) <= FLAT * before
        self._has_warned = is_flat and accuracy < LOW_ACCURACY
        if not self._has_warned:
            return None
        simplest = ""
        if self._guess is not None:
            simplest = " (guessing by frequency alone: {:.2f} and {:.1%})"
            simplest = simplest.format(*self._guess)
        return (
            f"step {step:,}: the loss of masked tokens is on a plateau, "
            f"{loss:.2f} after {before:.2f} in means of {WINDOW:,} steps, and "
            f"{accuracy:.1%} of them are right{simplest}; {self._advice}"
        )
