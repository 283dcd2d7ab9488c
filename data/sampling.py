"""Many masked sentence pairs at once, on arrays of ids.

The same distribution of records as data/instances.py and data/masking.py,
which take google-research/bert's steps one by one; here each step is done for
all walks through all documents, or for all rows of a block, together. Which
records come out depends on the seed alone.

Shapes: N pieces of a text, D documents, W walks through a document, R records,
S positions of a record, P masked predictions.
"""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from data.instances import NUM_SPECIAL, InstanceConfig
from data.masking import KEEP_SHARE, MASK_SHARE

ROWS_AT_ONCE = 2048  # few enough for a processor's cache
LAST = np.uint32(1 << 31)


@dataclasses.dataclass(frozen=True)
class Text:
    """Documents of sentences of pieces, each lying end to end."""

    ids: np.ndarray  # [N]
    sentence_ends: np.ndarray  # int64, where in ids; one more at the front: 0
    document_ends: np.ndarray  # int64 [D + 1], which sentence; the same

    @property
    def num_documents(self) -> int:
        return len(self.document_ends) - 1


class Pairs(NamedTuple):
    """Stretches of Text.ids: A and B of each record."""

    a_start: np.ndarray  # int64 [R]
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    is_random_next: np.ndarray  # bool [R]
    is_truncated: np.ndarray  # bool [R], pieces were cut off to fit

    def take(self, rows: np.ndarray | slice) -> "Pairs":
        return Pairs(*(column[rows] for column in self))


@dataclasses.dataclass(frozen=True)
class Pieces:
    """What masking has to know of a vocabulary of V pieces.

    An id of V or more is that of piece id - V where it continues a word though
    it does not begin with "##"; records have it less V.
    """

    start: int
    separator: int
    mask: int
    all: np.ndarray  # int32, ids that random replacements are drawn from
    continues: np.ndarray  # bool [V], which begin with "##"


class Chunks(NamedTuple):
    """Whole sentences of a document, one after the other, to make pairs of."""

    document: np.ndarray  # int64 [R]
    target: np.ndarray  # int64 [R], the pieces that A and B should have
    first: np.ndarray  # int64 [R], a sentence of Text
    middle: np.ndarray  # int64 [R], the one after A
    last: np.ndarray  # int64 [R], the one after the chunk
    is_random: np.ndarray  # bool [R], B comes from another document


def draw_pairs(
    text: Text, config: InstanceConfig, rng: np.random.Generator
) -> Pairs:
    """Walks through every document dupe_factor times; shuffled at the end.

    A chunk of whole sentences becomes A and B, or A and a stretch of another
    document.
    """
    longest = config.max_seq_length - NUM_SPECIAL
    pairs = _choose_b(text, _walk(text, longest, config, rng), rng)
    pairs = truncate(pairs, longest, rng)
    return pairs.take(rng.permutation(len(pairs.a_start)))


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
    is_short = rng.random(len(document)) < config.short_seq_prob
    target = np.where(
        is_short, rng.integers(2, longest + 1, len(document)), longest
    )
    first = text.document_ends[document]
    steps = []
    while len(document):
        last = _chunk_end(text, document, first, target)
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


def make_blocks(
    text: Text,
    pairs: Pairs,
    pieces: Pieces,
    config: InstanceConfig,
    rng: np.random.Generator,
) -> Iterator[dict[str, np.ndarray]]:
    """The features of data/record_features.py, [R, length] each, block by
    block: of masked records, or if the config says so of unmasked ones."""
    for start in range(0, len(pairs.a_start), ROWS_AT_ONCE):
        block = pairs.take(slice(start, start + ROWS_AT_ONCE))
        if config.dynamic_masking:
            yield lay_out_unmasked(text, block, pieces, config)
        else:
            yield make_features(text, block, pieces, config, rng)


def lay_out_unmasked(
    text: Text, pairs: Pairs, pieces: Pieces, config: InstanceConfig
) -> dict[str, np.ndarray]:
    ids = _lay_out(text, pairs, pieces, config.max_seq_length)
    lengths = pairs.a_length + 2, pairs.b_length + 1
    return {
        "input_ids": ids,
        "segment_lengths": np.stack(lengths, 1),
        "next_sentence_labels": pairs.is_random_next[:, None].astype(np.int32),
    }


def make_features(
    text: Text,
    pairs: Pairs,
    pieces: Pieces,
    config: InstanceConfig,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    ids = _lay_out(text, pairs, pieces, config.max_seq_length)
    place = np.arange(config.max_seq_length)
    end_a = pairs.a_length[:, None] + 1  # of the first [SEP]
    end_b = end_a + pairs.b_length[:, None] + 1
    is_real = place <= end_b
    may_hide = is_real & (place > 0) & (place != end_a) & (place != end_b)
    num_wanted = np.clip(
        np.rint((end_b[:, 0] + 1) * config.masked_lm_prob),
        1,
        config.max_predictions_per_seq,
    ).astype(np.int64)
    width = config.max_predictions_per_seq
    if config.do_whole_word_mask:
        positions, count = _choose_words(
            ids, may_hide, num_wanted, width, pieces, rng
        )
    else:
        positions, count = _choose(may_hide, num_wanted, width, rng)
    ids %= len(pieces.continues)
    is_chosen = np.arange(width) < count[:, None]
    labels = np.where(is_chosen, np.take_along_axis(ids, positions, 1), 0)
    _hide(ids, positions, is_chosen, pieces, rng)
    return {
        "input_ids": ids,
        "input_mask": is_real.astype(np.int32),
        "segment_ids": ((place > end_a) & is_real).astype(np.int32),
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": is_chosen.astype(np.float32),
        "next_sentence_labels": pairs.is_random_next[:, None].astype(np.int32),
    }


def _lay_out(
    text: Text, pairs: Pairs, pieces: Pieces, length: int
) -> np.ndarray:
    """[CLS] A [SEP] B [SEP] and zeros: int32 [R, S]."""
    rows = np.arange(len(pairs.a_start))
    place = np.arange(length)
    first_b = (pairs.a_length + 2)[:, None]
    is_a = (place > 0) & (place < first_b - 1)
    is_b = (place >= first_b) & (place < first_b + pairs.b_length[:, None])
    # a place in the row less a place in the text
    shift = np.where(
        place < first_b,
        (pairs.a_start - 1)[:, None],
        pairs.b_start[:, None] - first_b,
    )
    found = text.ids.take(shift + place, mode="clip")
    ids = np.where(is_a | is_b, found, 0).astype(np.int32)
    ids[:, 0] = pieces.start
    ids[rows, pairs.a_length + 1] = pieces.separator
    ids[rows, pairs.a_length + pairs.b_length + 2] = pieces.separator
    return ids


def _choose(
    may_hide: np.ndarray,
    num_wanted: np.ndarray,
    width: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """`num_wanted` of a row's places that may be hidden, each set as likely.

    Places are sorted by a random number in the bits above their own. Returns
    rising positions [R, P], filled with zeros, and their number [R].
    """
    count = np.minimum(num_wanted, may_hide.sum(-1))
    keys = _random_keys(may_hide, rng)
    keys.partition(min(width, keys.shape[1]) - 1, axis=1)
    keys = np.sort(keys[:, :width], axis=1)
    positions = keys & _place_bits(may_hide.shape[1])
    return _rising(positions.astype(np.int32), count), count


def _random_keys(may_hide: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """uint32 [R, S]: a place in the lowest bits, random ones above; the highest
    is set for what may not be hidden, so that it comes last."""
    length = may_hide.shape[1]
    low = np.uint32(_place_bits(length))
    # several times as fast as rng.integers(0, LAST, ...)
    raw = rng.bit_generator.random_raw(-(-may_hide.size // 2)).view(np.uint32)
    keys = raw[: may_hide.size].reshape(may_hide.shape) >> np.uint32(1)
    keys = (keys & ~low) | np.arange(length, dtype=np.uint32)
    return keys | np.where(may_hide, np.uint32(0), LAST)


def _place_bits(length: int) -> int:
    return (1 << (length - 1).bit_length()) - 1


def _rising(positions: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The first `count` [R] of each row, sorted; then zeros."""
    is_chosen = np.arange(positions.shape[1]) < count[:, None]
    after_all = np.iinfo(np.int32).max
    positions = np.sort(np.where(is_chosen, positions, after_all), axis=1)
    return np.where(is_chosen, positions, 0)


def _choose_words(
    ids: np.ndarray,
    may_hide: np.ndarray,
    num_wanted: np.ndarray,
    width: int,
    pieces: Pieces,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """As `_choose`, whole words: in random order, those that still fit.

    A segment cut inside a word begins with "##": that piece joins the word
    before the [SEP], as in Google's code.
    """
    num_rows, length = ids.shape
    rows = np.arange(num_rows)
    vocab_size = len(pieces.continues)
    continues = (ids >= vocab_size) | pieces.continues[ids % vocab_size]
    # the first piece that may be hidden begins a word whatever it is
    is_begin = may_hide & ~(continues & (may_hide.cumsum(-1) > 1))
    word = is_begin.cumsum(-1) - 1  # [R, S]
    cells = (rows[:, None] * length + word)[may_hide]
    sizes = np.bincount(cells, minlength=num_rows * length)
    sizes = sizes.reshape(num_rows, length)
    keys = np.sort(_random_keys(sizes > 0, rng), axis=1)
    order = (keys & _place_bits(length)).astype(np.int64)
    is_taken = np.zeros((num_rows, length), bool)
    count = np.zeros(num_rows, np.int64)
    for turn in range(length):
        chosen = order[:, turn]
        size = sizes[rows, chosen]
        fits = (size > 0) & (count + size <= num_wanted)
        is_taken[rows, chosen] |= fits
        count += np.where(fits, size, 0)
        if (count >= num_wanted).all():
            break
    is_hidden = may_hide & np.take_along_axis(is_taken, word, 1)
    places = np.where(is_hidden, np.arange(length), length)
    positions = np.sort(places, axis=1)[:, :width]
    return _rising(positions.astype(np.int32), count), count


def _hide(
    ids: np.ndarray,
    positions: np.ndarray,
    is_chosen: np.ndarray,
    pieces: Pieces,
    rng: np.random.Generator,
) -> None:
    """80 % become [MASK], 10 % stay, 10 % become any piece; in place."""
    row, column = np.nonzero(is_chosen)
    place = positions[row, column]
    draw = rng.random(len(row), dtype=np.float32)
    keep_below = MASK_SHARE + (1 - MASK_SHARE) * KEEP_SHARE
    other = pieces.all[rng.integers(0, len(pieces.all), len(row))]
    new = np.where(draw < keep_below, ids[row, place], other)
    ids[row, place] = np.where(draw < MASK_SHARE, pieces.mask, new)
