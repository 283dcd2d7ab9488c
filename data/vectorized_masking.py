"""Many records at once, masked or not, on arrays of ids.

The same distribution of records as data/instances.py and data/masking.py,
which take google-research/bert's steps one by one; here each step is done for
all rows of a block together (before them data/segment_sampling.py's, which say
what goes into a row). Which records come out depends on the seed alone.
The rules of masking stand in data/dynamic_masking.py, too; a change to them
belongs in all three (tests/data/test_masking_agrees.py).

Shapes: R records, S positions of a record, P masked predictions, V tokens in
the vocabulary.
"""

import numpy as np

from bert_keras.data.input_features import segment_masks
from bert_keras.data.instances import InstanceConfig
from bert_keras.data.masking import MaskingVocabulary
from bert_keras.data.record_schema import NEXT_SENTENCE
from bert_keras.data.segment_sampling import Pairs, Text


def make_features(
    text: Text,
    pairs: Pairs,
    vocab: MaskingVocabulary,
    config: InstanceConfig,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """The features of data/record_schema.py, [R, length] each: of masked
    records, or if the config says so of unmasked ones."""
    special_tokens = vocab.special_tokens
    num_after_a = 1 + len(special_tokens.between) * config.is_pair
    lengths = np.stack([pairs.a_length + 1, pairs.b_length], 1)
    lengths += [num_after_a, config.is_pair]
    is_real, is_second = segment_masks(lengths, config.max_seq_length)
    ids, may_choose = _lay_out(text, pairs, lengths, is_real, vocab)
    labels = {}
    if config.is_pair:
        labels[NEXT_SENTENCE] = pairs.is_random_next[:, None].astype(np.int32)
    if config.dynamic_masking:
        ids = np.where(is_real, ids, 0)
        return {"input_ids": ids, "segment_lengths": lengths, **labels}
    width = config.max_predictions_per_seq
    num_wanted = np.rint(lengths.sum(1) * config.masked_lm_prob)
    num_wanted = np.clip(num_wanted, 1, width).astype(np.int64)
    if config.do_whole_word_mask:
        positions, count = _choose_words(
            ids, may_choose, num_wanted, width, vocab, rng
        )
    else:
        positions, count = _choose(may_choose, num_wanted, width, rng)
    ids %= len(vocab.continues)  # MaskingVocabulary's marks, taken off
    is_chosen = np.arange(width) < count[:, None]
    # rising, then zeros
    positions = np.where(is_chosen, positions, config.max_seq_length)
    positions = np.where(is_chosen, np.sort(positions, axis=1), 0)
    original = np.where(is_chosen, np.take_along_axis(ids, positions, 1), 0)

    # Some become [MASK], some stay, some become any token.
    row, column = np.nonzero(is_chosen)
    draw = rng.random(len(row), dtype=np.float32)
    candidates = vocab.replacements
    other = candidates[rng.integers(0, len(candidates), len(row))]
    shown = np.where(draw < config.keep_below, original[row, column], other)
    shown = np.where(draw < config.mask_share, vocab.mask, shown)
    ids[row, positions[row, column]] = shown
    return {
        "input_ids": ids,
        "input_mask": is_real.astype(np.int32),
        "segment_ids": is_second * np.int32(special_tokens.second_segment),
        "masked_lm_positions": positions,
        "masked_lm_ids": original,
        "masked_lm_weights": is_chosen.astype(np.float32),
        **labels,
    }


def _lay_out(
    text: Text,
    pairs: Pairs,
    lengths: np.ndarray,
    is_real: np.ndarray,
    vocab: MaskingVocabulary,
) -> tuple[np.ndarray, np.ndarray]:
    """[CLS] A [SEP] B [SEP] or [CLS] A [SEP], and padding: int32 [R, S].

    Args:
      lengths: int64 [R, 2], of A and of B, with special tokens.
      is_real: bool [R, S], no padding.

    Returns:
      The ids, and which of them may be chosen.
    """
    place = np.arange(is_real.shape[1])
    first_b = lengths[:, :1]
    is_a = (place > 0) & (place <= pairs.a_length[:, None])
    is_b = (place >= first_b) & (place < first_b + pairs.b_length[:, None])
    # a place in the row less a place in the text
    shift = np.where(
        place < first_b,
        (pairs.a_start - 1)[:, None],
        pairs.b_start[:, None] - first_b,
    )
    found = text.ids.take(shift + place, mode="clip")
    rest = np.where(is_real, vocab.end, vocab.padding)
    ids = np.where(is_a | is_b, found, rest).astype(np.int32)
    ids[:, 0] = vocab.start
    # Between documents, too, there is a mark.
    return ids, (is_a | is_b) & (ids != vocab.end)


def _choose(
    may_choose: np.ndarray,
    num_wanted: np.ndarray,
    width: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """`num_wanted` of a row's places that may be chosen, each set as likely.

    Places are sorted by a random number in the bits above their own.

    Returns:
      Positions, int32 [R, P], and how many of these count, [R].
    """
    count = np.minimum(num_wanted, may_choose.sum(-1))
    keys, low = _random_keys(may_choose, rng)
    keys.partition(width - 1, axis=1)
    keys = np.sort(keys[:, :width], axis=1)
    return (keys & low).astype(np.int32), count


def _random_keys(
    may_choose: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.uint32]:
    """uint32 [R, S]: a place in the lowest bits, random ones above; the highest
    is set for what may not be chosen, so that it comes last. And the lowest
    bits."""
    length = may_choose.shape[1]
    low = np.uint32((1 << (length - 1).bit_length()) - 1)
    # several times as fast as rng.integers
    raw = rng.bit_generator.random_raw(-(-may_choose.size // 2)).view(np.uint32)
    keys = raw[: may_choose.size].reshape(may_choose.shape) >> np.uint32(1)
    keys = (keys & ~low) | np.arange(length, dtype=np.uint32)
    return keys | np.where(may_choose, np.uint32(0), np.uint32(1 << 31)), low


def _choose_words(
    ids: np.ndarray,
    may_choose: np.ndarray,
    num_wanted: np.ndarray,
    width: int,
    vocab: MaskingVocabulary,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """As `_choose`, whole words: in random order, those that still fit.

    A segment cut inside a word begins with "##"; see
    `MaskingVocabulary.joins_over_special_tokens`.
    """
    num_rows, length = ids.shape
    rows = np.arange(num_rows)
    vocab_size = len(vocab.continues)
    continues = (ids >= vocab_size) | vocab.continues[ids % vocab_size]
    if not vocab.joins_over_special_tokens:
        continues[:, 1:] &= may_choose[:, :-1]
    # the first token that may be chosen begins a word whatever it is
    is_begin = may_choose & ~(continues & (may_choose.cumsum(-1) > 1))
    word = is_begin.cumsum(-1) - 1  # [R, S]
    cells = (rows[:, None] * length + word)[may_choose]
    sizes = np.bincount(cells, minlength=num_rows * length)
    sizes = sizes.reshape(num_rows, length)
    keys, low = _random_keys(sizes > 0, rng)
    order = (np.sort(keys, axis=1) & low).astype(np.int64)
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
    is_chosen = may_choose & np.take_along_axis(is_taken, word, 1)
    places = np.where(is_chosen, np.arange(length), length)
    positions = np.sort(places, axis=1)[:, :width]
    return positions.astype(np.int32), count
