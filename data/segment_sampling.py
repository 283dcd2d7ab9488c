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

Shapes: N tokens of a text, T sentences, D documents, W walks through a
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
    """Documents of sentences of tokens, each lying end to end."""

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
    is_truncated: np.ndarray  # bool [R], tokens were cut off to fit

    def take(self, rows: np.ndarray | slice) -> "Pairs":
        return Pairs(*(column[rows] for column in self))


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
        pairs = truncate(_draw_pairs(text, longest, config, rng), longest, rng)
        return text, pairs.take(rng.permutation(len(pairs.a_start)))
    text, is_cut = split_sentences(text, longest)
    crosses = config.sequence_format == FULL_SENTENCES
    text, once = fill(text, longest, separator if crosses else None)
    # Whether any sentence of a row was cut
    first, stop = (
        np.searchsorted(text.sentence_ends, place)
        for place in (once.a_start, once.a_start + once.a_length)
    )
    num_cut = np.concatenate([[0], np.cumsum(is_cut)])
    once = once._replace(is_truncated=num_cut[stop] > num_cut[first])
    num_once = len(first)
    order = rng.permutation(num_once * config.dupe_factor)
    return text, once.take(order % num_once)


def _draw_pairs(
    text: Text, longest: int, config: InstanceConfig, rng: np.random.Generator
) -> Pairs:
    """A chunk of whole sentences, one after the other, is cut into A and B, or
    is A alone and B comes from another document. All walks [W] take their
    steps together; those at an end drop out."""
    document = np.tile(np.arange(text.num_documents), config.dupe_factor)
    # The tokens that A and B should have
    if config.sequence_format == SENTENCE_PAIR:
        target = np.ones_like(document)
    else:
        is_short = rng.random(len(document)) < config.short_seq_prob
        short = rng.integers(2, longest + 1, len(document))
        target = np.where(is_short, short, longest)
    first = text.document_ends[document]
    steps = []
    while len(document):
        if config.sequence_format == SENTENCE_PAIR:
            last = np.minimum(first + 2, text.document_ends[document + 1])
        else:
            last = _chunk_end(text, document, first, target)
        # of one sentence all is A
        middle = first + rng.integers(1, np.maximum(last - first, 2))
        is_random = (last - first == 1) | (rng.random(len(first)) < 0.5)
        steps.append((document, target, first, middle, last, is_random))
        first = np.where(is_random, middle, last)
        goes_on = first < text.document_ends[document + 1]
        document, target = document[goes_on], target[goes_on]
        first = first[goes_on]
    document, target, first, middle, last, is_random = map(
        np.concatenate, zip(*steps, strict=True)
    )
    del steps  # as large again
    ends = text.sentence_ends
    a_start = ends[first]
    a_length = ends[middle] - a_start
    other = rng.integers(0, text.num_documents - 1, len(a_start))
    other += other >= document
    other_first = rng.integers(
        text.document_ends[other], text.document_ends[other + 1]
    )
    other_last = _chunk_end(text, other, other_first, target - a_length)
    b_start = ends[np.where(is_random, other_first, middle)]
    b_length = ends[np.where(is_random, other_last, last)] - b_start
    nothing_cut = np.zeros(len(a_start), bool)
    return Pairs(a_start, a_length, b_start, b_length, is_random, nothing_cut)


def _chunk_end(
    text: Text, document: np.ndarray, first: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """The sentence after the one that fills `target`, or the document's end."""
    wanted = text.sentence_ends[first] + np.maximum(target, 1)
    filled = np.searchsorted(text.sentence_ends, wanted)
    return np.minimum(filled, text.document_ends[document + 1])


def truncate(pairs: Pairs, longest: int, rng: np.random.Generator) -> Pairs:
    """Cuts the longer one, from its ends at random, until both fit.

    A of 9 and B of 4 tokens, 8 allowed: A loses 5; the next would be B's turn.
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
    """Cuts sentences into stretches of at most `longest` tokens.

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


def fill(
    text: Text, longest: int, separator: int | None = None
) -> tuple[Text, Pairs]:
    """Rows of as many whole sentences as fit.

    Sentences of 3 and 2, then in another document of 1 and 6 tokens, 8 allowed:
    rows of 5 and of 7. With a separator rows go on with the next document
    behind one: they are 3 + 2 + separator + 1, and 6. No row begins or ends
    with one.

    Returns:
      The text that the rows are of, and the rows, one after another.
    """
    document_stops = text.document_ends[1:]
    stops = text.sentence_ends[1:]  # [T], where in ids each sentence ends
    # [T], the sentence before which a row that begins with this one has to end
    bounds = np.repeat(document_stops, np.diff(text.document_ends))
    if separator is not None:
        ids = np.insert(text.ids, text.sentence_ends[document_stops], separator)
        num_before = np.searchsorted(
            document_stops, np.arange(len(text.sentence_ends)), "right"
        )
        text = Text(ids, text.sentence_ends + num_before, text.document_ends)
        stops = text.sentence_ends[1:] - np.diff(num_before)
        bounds = np.full(len(stops), len(stops))
    begins = text.sentence_ends[:-1]
    fitting = np.searchsorted(stops, begins + longest, "right")
    following = np.minimum(fitting, bounds).tolist()
    first = [0]
    while (here := following[first[-1]]) < len(following):
        first.append(here)
    last = np.array([*first[1:], len(following)]) - 1
    a_start = begins[first]
    zeros = np.zeros(len(first), np.int64)
    false = zeros > 0
    return text, Pairs(
        a_start, stops[last] - a_start, zeros, zeros, false, false
    )
