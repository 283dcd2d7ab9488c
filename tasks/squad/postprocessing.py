"""Spans of text from the logits of their ends, in google-research/bert's files.

Upstream file: run_squad.py, write_predictions and get_final_text.

Theirs: the tokens' words are aligned with the words around the answer, and
where that fails all of these are the answer. In Chinese, Japanese or Thai they
may be the whole paragraph, and one character that the tokenizer drops or does
not know is enough. Ours: the characters of the first to the last token, which
is the same wherever the alignment is right. `answer_offsets=google` has theirs.

Shapes: S positions of a window, K candidates.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bert_keras.data.tokenizers import Tokenizer
from bert_keras.files import to_json
from bert_keras.tasks.base import Outputs
from bert_keras.tasks.squad.data import SquadExample
from bert_keras.tasks.squad.features import SquadFeatures, word_offsets
from bert_keras.tasks.task_config import TaskConfig

PREDICTIONS = "predictions.json"
NBEST = "nbest_predictions.json"
NULL_ODDS = "null_odds.json"

# Of a question without any candidate: theirs is a crash, ours a number above
# every threshold. (JSON has no infinity.)
NO_CANDIDATE = 1000000.0

# The string that 1.1 answers when there is no candidate at all.
NOTHING = "empty"


class Logits(NamedTuple):
    """Of one window."""

    start: np.ndarray  # [S]
    end: np.ndarray  # [S]


def logits_of(
    windows: Sequence[SquadFeatures], outputs: Sequence[Outputs]
) -> list[Logits]:
    """The logits of a question's windows."""
    # Theirs: logits of all max_seq_length positions, and those of padding
    # compete with others for the n best. Ours: of the row's positions alone,
    # so that answers do not depend on how rows are batched.
    lengths = [len(window.row.input_ids) for window in windows]
    return [
        Logits(x["start_logits"][:length], x["end_logits"][:length])
        for x, length in zip(outputs, lengths, strict=True)
    ]


class NbestPrediction(NamedTuple):
    """One of the n best answers."""

    text: str  # "": there is no answer
    start_logit: float
    end_logit: float
    place: tuple[int, int] | None = None  # its characters in the paragraph

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


class Prediction(NamedTuple):
    """What is predicted for one question."""

    nbest: list[NbestPrediction]  # the best first; with 2.0 "" is among them
    probabilities: list[float]  # theirs, adding up to 1
    best_text: str  # the best that is not ""; "" if there is none
    null_odds: float | None  # score of "" less that of best_text; 2.0 only

    def text(self, threshold: float) -> str:
        """ "" if the null odds are above the threshold, else the answer."""
        if self.null_odds is None:
            return self.nbest[0].text
        return "" if self.null_odds > threshold else self.best_text


class Answerer:
    """Turns logits into texts, as the tokenizer's case and accents ask for."""

    def __init__(self, tokenizer: Tokenizer, settings: TaskConfig):
        self.tokenizer = tokenizer
        self.settings = settings
        self._offsets = functools.lru_cache(maxsize=10_000)(
            functools.partial(word_offsets, tokenizer)
        )
        self._cut_word = functools.lru_cache(maxsize=100_000)(
            lambda word: " ".join(tokenizer.split_like_pieces(word))
        )

    def answer(
        self,
        example: SquadExample,
        windows: Sequence[SquadFeatures],
        logits: Sequence[Logits],
    ) -> Prediction:
        has_null = self.settings.version_2_with_negative
        # "No answer", as the window that believes it least scores it.
        nulls = [
            NbestPrediction("", float(s[0]), float(e[0])) for s, e in logits
        ]
        null = min(
            nulls, key=lambda n: n.score, default=NbestPrediction("", 0.0, 0.0)
        )
        candidates = _candidates(windows, logits, self.settings)
        if has_null:
            row = [0, 0, 0, null.start_logit, null.end_logit]
            candidates = np.append(candidates, [row], axis=0)
        # Of equal scores the first one counts as the better.
        order = np.argsort(-candidates[:, 3:].sum(axis=1), kind="stable")
        found: dict[str, NbestPrediction] = {}  # the n best of different texts
        for number, start, end, *scores in candidates[order].tolist():
            if len(found) >= self.settings.n_best_size:
                break
            text, place = "", None
            if start:
                window = windows[int(number)]
                text, place = self._span(example, window, int(start), int(end))
            if text not in found:
                found[text] = NbestPrediction(text, scores[0], scores[1], place)
        if has_null:
            found.setdefault("", null)
        nbest = list(found.values()) or [NbestPrediction(NOTHING, 0.0, 0.0)]
        best = next((entry for entry in nbest if entry.text), None)
        odds = None
        if has_null:
            # In this order, since the last digits are written to the file.
            odds = (
                null.score - best.start_logit - best.end_logit
                if best
                else NO_CANDIDATE
            )
        highest = max(entry.score for entry in nbest)
        exponentials = [math.exp(entry.score - highest) for entry in nbest]
        total = sum(exponentials)
        probabilities = [x / total for x in exponentials]
        return Prediction(nbest, probabilities, best.text if best else "", odds)

    def _span(
        self, example: SquadExample, window: SquadFeatures, start: int, end: int
    ) -> tuple[str, tuple[int, int]]:
        """The paragraph's text for the tokens at these places of the row, and
        where its characters begin and end: those of whole words with
        `answer_offsets=google`, which aligns texts alone."""
        tokens, word_of, first_token = window.paragraph
        start, end = start - window.shift, end - window.shift
        first, last = word_of[start], word_of[end]
        words, starts = example.paragraph.words, example.paragraph.starts
        around = " ".join(words[first : last + 1])
        whole = starts[first], starts[last] + len(words[last])
        if self.settings.answer_offsets == "google":
            joined = self.tokenizer.to_text(tokens[start : end + 1])
            found = final_text(" ".join(joined.split()), around, self._cut)
            return found, whole
        if start == first_token[first] and end + 1 == first_token[last + 1]:
            return around, whole  # with what the tokenizer drops
        begins = self._offsets(words[first], first == 0)
        ends = self._offsets(words[last], last == 0)
        begin = begins[start - first_token[first]].start
        num_after = len(words[last]) - ends[end - first_token[last]].end
        text = around[begin : len(around) - num_after]
        if not text:  # a byte-level token may be the space before a word alone
            return around, whole
        return text, (whole[0] + begin, whole[1] - num_after)

    def _cut(self, text: str) -> str:
        return " ".join(filter(None, map(self._cut_word, text.split(" "))))


def _candidates(
    windows: Sequence[SquadFeatures],
    logits: Sequence[Logits],
    settings: TaskConfig,
) -> np.ndarray:
    """Pairs of likely starts and ends, in order of window, start and end.

    Of the n likeliest starts and ends of each window those pairs that are
    spans: that lie in the paragraph, are not too long, and begin where no
    other window shows more of the context.

    Returns:
        float64 [K, 5]: the window's number, start and last place in its row,
        and the logits of both.
    """
    found = [np.zeros((0, 5))]
    for number, (window, scores) in enumerate(
        zip(windows, logits, strict=True)
    ):
        first = window.part.start + window.shift
        past = window.part.stop + window.shift
        start_logits, end_logits = (x.astype(np.float64) for x in scores)
        starts, ends = (
            np.argsort(-x, kind="stable")[: settings.n_best_size]
            for x in (start_logits, end_logits)
        )
        starts = starts[(starts >= first) & (starts < past)]
        starts = starts[window.max_context[starts - first]]
        ends = ends[(ends >= first) & (ends < past)]
        length = ends[None, :] - starts[:, None] + 1
        at_start, at_end = np.nonzero(
            (length > 0) & (length <= settings.max_answer_length)
        )
        starts, ends = starts[at_start], ends[at_end]
        numbers = np.full(len(starts), number)
        columns = numbers, starts, ends, start_logits[starts], end_logits[ends]
        found.append(np.stack(columns, axis=1))
    return np.concatenate(found)


def final_text(predicted: str, original: str, cut: Callable[[str], str]) -> str:
    """The part of the original words that the predicted tokens stand for.

    "steve smith" of "Steve Smith's" is "Steve Smith": the tokenizer's words
    are aligned with the original ones, character by character but for spaces.
    Where that fails all of the original is returned.

    Args:
        predicted: joined tokens.
        original: words from which the tokens come, with single spaces.
        cut: basic tokenization, its tokens joined by single spaces.
    """
    tokens = cut(original)
    begin = tokens.find(predicted)
    last = begin + len(predicted) - 1
    if begin < 0 or last < begin or " " in (tokens[begin], tokens[last]):
        return original
    places = [i for i, char in enumerate(original) if char != " "]
    if len(places) != len(tokens.replace(" ", "")):
        return original
    first_place = places[len(tokens[:begin].replace(" ", ""))]
    last_place = places[len(tokens[:last].replace(" ", ""))]
    return original[first_place : last_place + 1]


def to_files(
    examples: Sequence[SquadExample],
    predictions: Sequence[Prediction],
    settings: TaskConfig,
) -> dict[str, str]:
    """The JSON files, by name; NULL_ODDS only where there are any."""
    ids = [example.id for example in examples]
    threshold = settings.null_score_diff_threshold
    nbest = [
        [
            {
                "text": entry.text,
                "probability": probability,
                "start_logit": entry.start_logit,
                "end_logit": entry.end_logit,
            }
            for entry, probability in zip(
                prediction.nbest, prediction.probabilities, strict=True
            )
        ]
        for prediction in predictions
    ]
    files = {PREDICTIONS: [p.text(threshold) for p in predictions]}
    contents: dict[str, list] = {**files, NBEST: nbest}
    if settings.version_2_with_negative:
        contents[NULL_ODDS] = [p.null_odds for p in predictions]
    return {
        name: to_json(dict(zip(ids, values, strict=True)), indent=4) + "\n"
        for name, values in contents.items()
    }
