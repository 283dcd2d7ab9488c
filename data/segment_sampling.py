"""Which stretches of a text a record holds: four formats.

Liu et al. 2019 (RoBERTa), section 4.2; the first is Devlin et al.'s. A pair is
A and what follows it, or A and something from another document:

- segment_pair: stretches of any number of sentences, as long as fits together;
- sentence_pair: a sentence each.

The others are A alone, without a label, and as many sentences as fit:

- full_sentences: of one document after the other, with a mark between them;
- doc_sentences: of one document.

Sentences of these two are whole, but for one that is longer than a record: it
is cut into stretches that fill records of their own, and a rest.

Each step is done for all walks through all documents together. What comes out
depends on the seed alone.

Shapes: N pieces of a text, T sentences, D documents, W walks through a
document, R records.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from bert_keras.data.instances import (
    FULL_SENTENCES,
    SENTENCE_PAIR,
    InstanceConfig,
)


@dataclasses.dataclass(frozen=True)
class Text:
    """Documents of sentences of pieces, each lying end to end."""

    ids: np.ndarray  # [N]
    sentence_ends: np.ndarray  # int64 [T + 1], where in ids; the first is 0
    document_ends: np.ndarray  # int64 [D + 1], which sentence; the same

    @property
    def num_documents(self) -> int:
        return len(self.document_ends) - 1


class Pairs(NamedTuple):
    """Stretches of Text.ids: A and B of each record; where there are no pairs,
    B is empty."""

    a_start: np.ndarray  # int64 [R]
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    is_random_next: np.ndarray  # bool [R]
    is_truncated: np.ndarray  # bool [R], pieces were cut off to fit

    def take(self, rows: np.ndarray | slice) -> "Pairs":
        return Pairs(*(column[rows] for column in self))


class Chunks(NamedTuple):
    """Whole sentences of a document, one after the other, to make pairs of."""

    document: np.ndarray  # int64 [R]
    target: np.ndarray  # int64 [R], the pieces that A and B should have
    first: np.ndarray  # int64 [R], a sentence of Text
    middle: np.ndarray  # int64 [R], the one after A
    last: np.ndarray  # int64 [R], the one after the chunk
    is_random: np.ndarray  # bool [R], B comes from another document


def sample_segments(
    text: Text,
    config: InstanceConfig,
    num_special_tokens: int,
    separator: int,
    rng: np.random.Generator,
) -> tuple[Text, Pairs]:
    """Goes through every document dupe_factor times; shuffled at the end.

    Args:
      num_special_tokens: of a record, without those between documents.
      separator: the id of the token between documents.

    Returns:
      The text that the stretches are of, which may have separators in it.
    """
    longest = config.max_seq_length - num_special_tokens
    if config.is_pair:
        pairs = _choose_b(text, _walk(text, longest, config, rng), rng)
        pairs = truncate(pairs, longest, rng)
        return text, pairs.take(rng.permutation(len(pairs.a_start)))
    text, is_cut = split_sentences(text, longest)
    if config.sequence_format == FULL_SENTENCES:
        text, once = fill_across(text, longest, separator)
    else:
        once = fill(text, longest)
    num_once = len(once.a_start)
    once = once._replace(is_truncated=_hold_any(text, once, is_cut))
    order = rng.permutation(num_once * config.dupe_factor)
    return text, once.take(order % num_once)


def _choose_b(text: Text, chunks: Chunks, rng: np.random.Generator) -> Pairs:
    ends = text.sentence_ends
    a_start = ends[chunks.first]
    a_length = ends[chunks.middle] - a_start
    other = rng.integers(0, text.num_documents - 1, len(a_start))
    other += other >= chunks.document
    other_first = rng.integers(
        text.document_ends[other], text.document_ends[other + 1]
    )
    room = chunks.target - a_length
    other_last = _chunk_end(text, other, other_first, room)
    b_start = ends[np.where(chunks.is_random, other_first, chunks.middle)]
    b_stop = ends[np.where(chunks.is_random, other_last, chunks.last)]
    return Pairs(
        a_start,
        a_length,
        b_start,
        b_stop - b_start,
        chunks.is_random,
        np.zeros(len(a_start), bool),
    )


def _walk(
    text: Text, longest: int, config: InstanceConfig, rng: np.random.Generator
) -> Chunks:
    """All walks [W] take their steps together; those at an end drop out."""
    document = np.tile(np.arange(text.num_documents), config.dupe_factor)
    if config.sequence_format == SENTENCE_PAIR:
        target, chunk_end = np.ones_like(document), _two_sentences
    else:
        count = len(document)
        is_short = rng.random(count) < config.short_seq_prob
        short = rng.integers(2, longest + 1, count)
        target = np.where(is_short, short, longest)
        chunk_end = _chunk_end
    first = text.document_ends[document]
    steps = []
    while len(document):
        last = chunk_end(text, document, first, target)
        # of one sentence all is A
        middle = first + rng.integers(1, np.maximum(last - first, 2))
        is_random = (last - first == 1) | (rng.random(len(first)) < 0.5)
        steps.append(Chunks(document, target, first, middle, last, is_random))
        first = np.where(is_random, middle, last)
        goes_on = first < text.document_ends[document + 1]
        document, target = document[goes_on], target[goes_on]
        first = first[goes_on]
    return Chunks(*map(np.concatenate, zip(*steps, strict=True)))


def _chunk_end(
    text: Text, document: np.ndarray, first: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """The sentence after the one that fills `target`, or the document's end."""
    wanted = text.sentence_ends[first] + np.maximum(target, 1)
    filled = np.searchsorted(text.sentence_ends, wanted)
    return np.minimum(filled, text.document_ends[document + 1])


def _two_sentences(
    text: Text, document: np.ndarray, first: np.ndarray, target: np.ndarray
) -> np.ndarray:
    return np.minimum(first + 2, text.document_ends[document + 1])


def truncate(pairs: Pairs, longest: int, rng: np.random.Generator) -> Pairs:
    """Cuts the longer one, from its ends at random, until both fit.

    A of 9 and B of 4 pieces, 8 allowed: A loses 5; the next would be B's turn.
    A of 6 and B of 6, 9 allowed: B loses 2 and A one.
    """
    a, b = pairs.a_length, pairs.b_length
    excess = np.maximum(a + b - longest, 0)
    # The longer one goes down to the other, then B and A take turns.
    from_longer = np.minimum(excess, np.abs(a - b))
    from_both = excess - from_longer
    from_a = np.where(a > b, from_longer, 0) + from_both // 2
    from_b = np.where(a > b, 0, from_longer) + (from_both + 1) // 2
    return pairs._replace(
        a_start=pairs.a_start + rng.binomial(from_a, 0.5),
        a_length=a - from_a,
        b_start=pairs.b_start + rng.binomial(from_b, 0.5),
        b_length=b - from_b,
        is_truncated=excess > 0,
    )


def split_sentences(text: Text, longest: int) -> tuple[Text, np.ndarray]:
    """Cuts sentences into stretches of at most `longest` pieces.

    A sentence of 9 becomes 4, 4 and 1 where 4 are allowed.

    Returns:
      The text, and of its sentences, bool [T], which are part of one.
    """
    lengths = np.diff(text.sentence_ends)
    counts = -(-lengths // longest)
    places = np.concatenate([[0], np.cumsum(counts)])
    number = np.arange(places[-1]) - np.repeat(places[:-1], counts)
    begins = np.repeat(text.sentence_ends[:-1], counts)
    stops = np.repeat(text.sentence_ends[1:], counts)
    ends = np.minimum(begins + (number + 1) * longest, stops)
    return (
        Text(text.ids, np.concatenate([[0], ends]), places[text.document_ends]),
        np.repeat(counts > 1, counts),
    )


def fill(text: Text, longest: int) -> Pairs:
    """Of each document as many sentences as fit, one row after another.

    Sentences of 3 and 2, then in another document of 1 and 6 pieces, 8 allowed:
    rows of 5 and of 7.
    """
    num_sentences = np.diff(text.document_ends)
    bounds = np.repeat(text.document_ends[1:], num_sentences)
    return _fill(text, text.sentence_ends[1:], bounds, longest)


def fill_across(text: Text, longest: int, separator: int) -> tuple[Text, Pairs]:
    """As `fill`, but rows go on with the next document, after a separator.

    Sentences of 3 and 2, then in another document of 1 and 6 pieces, 8 allowed:
    rows of 3 + 2 + separator + 1, and of 6. No row begins or ends with one.
    """
    last = text.document_ends[1:]
    ids = np.insert(text.ids, text.sentence_ends[last], separator)
    place = np.arange(len(text.sentence_ends))
    num_before = np.searchsorted(last, place, "right")
    marked = Text(ids, text.sentence_ends + num_before, text.document_ends)
    ends_document = np.diff(num_before, prepend=0)[1:]
    stops = marked.sentence_ends[1:] - ends_document
    return marked, _fill(
        marked, stops, np.full(len(stops), len(stops)), longest
    )


def _fill(
    text: Text, stops: np.ndarray, bounds: np.ndarray, longest: int
) -> Pairs:
    """Rows of whole sentences, each as many as fit.

    Args:
      stops: int [T], where in ids each sentence ends.
      bounds: int [T], the sentence before which a row that begins with this one
        has to end.
    """
    begins = text.sentence_ends[:-1]
    fitting = np.searchsorted(stops, begins + longest, "right")
    following = np.minimum(fitting, bounds).tolist()
    first = [0]
    while (here := following[first[-1]]) < len(following):
        first.append(here)
    last = np.array([*first[1:], len(following)]) - 1
    a_start = begins[first]
    nothing = np.zeros(len(first), np.int64)
    return Pairs(
        a_start,
        stops[last] - a_start,
        nothing,
        nothing,
        nothing > 0,
        nothing > 0,
    )


def _hold_any(text: Text, rows: Pairs, is_marked: np.ndarray) -> np.ndarray:
    """bool [R]: whether any of a row's sentences is, of these bool [T]."""
    first, stop = (
        np.searchsorted(text.sentence_ends, place)
        for place in (rows.a_start, rows.a_start + rows.a_length)
    )
    before = np.concatenate([[0], np.cumsum(is_marked)])
    return before[stop] > before[first]
