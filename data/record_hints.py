"""Hints on flags of create_pretraining_data.py that do not suit the text.

The records can be trained on, but teach less than they could: nearly all
pairs are random, lines are half sentences, words are single ideographs, or the
vocabulary does not fit.
"""

import itertools
from collections.abc import Iterable, Iterator

from bert_keras.data.instances import InstanceConfig, Summary

MOST_RANDOM = 0.6  # of pairs; half of them are meant to be
LINES_LOOKED_AT = 2000
MOST_BROKEN = 0.5  # of lines with another below
MOST_UNKNOWN = 0.01  # of tokens
MOST_TOKENS_PER_WORD = 2.0
NOT_GOOGLES = " (and leave out `sampler=google`, which does not have it)"


def broken_lines_hint(lines: Iterable[str]) -> str | None:
    """Says if most lines, as in many books, end in the middle of a sentence:
    with a letter or a comma before one that begins with a small letter. A text
    without capitals does not tell."""
    first = [x.strip() for x in itertools.islice(lines, LINES_LOOKED_AT)]
    pairs = [(x, y) for x, y in itertools.pairwise(first) if x and y]
    has_capitals = any(line[:1].isupper() for line in first)
    broken = sum(
        line[0].islower() and (before[-1].isalnum() or before[-1] == ",")
        for before, line in pairs
    )
    if not pairs or not has_capitals or broken < MOST_BROKEN * len(pairs):
        return None
    return (
        f"{broken / len(pairs):.0%} of the lines end in the middle of a "
        "sentence, so that its halves are taken for two; join the lines of "
        "each paragraph, with a blank line between documents only, and give "
        "`input_format=paragraphs`"
    )


def vocabulary_hints(
    unknown: float, tokens_per_word: float = 1.0
) -> Iterator[str]:
    """Hints that the vocabulary does not fit the text.

    Args:
        unknown: share of the tokens that are [UNK].
    """
    found = ""
    if unknown > MOST_UNKNOWN:
        found = f"{unknown:.1%} of the tokens are [UNK]"
    elif tokens_per_word > MOST_TOKENS_PER_WORD:
        found = f"a word is {tokens_per_word:.1f} tokens on average"
    if found:
        yield (
            f"{found}: the vocabulary does not fit the text; learn one from it "
            "with build_vocab, or add its words to that of a trained model "
            "with extend_vocab"
        )


def summary_hints(
    summary: Summary,
    config: InstanceConfig,
    has_sentences: bool,
    words_are_spaced: bool,
    is_googles: bool,
) -> Iterator[str]:
    """Hints that follow from the records.

    Args:
        has_sentences: whether each line was read as a sentence.
        is_googles: whether `sampler=google` made them.
    """
    also = NOT_GOOGLES if is_googles else ""
    words = summary.num_pieces - summary.num_continued
    yield from vocabulary_hints(
        summary.num_unknown / max(1, summary.num_pieces),
        summary.num_pieces / max(1, words),
    )
    ideographs = summary.num_ideographs / max(1, summary.num_pieces)
    if config.do_whole_word_mask and not words_are_spaced and ideographs > 0.5:
        yield (
            f"`do_whole_word_mask` changes little: {ideographs:.0%} of the "
            "tokens are single ideographs, each a word by itself; cut the text "
            "into words with spaces between them and give `words_are_spaced`"
            f"{also}"
        )
    if not config.is_pair or not summary.num_records:
        return
    length = summary.num_pieces / summary.num_sentences
    cut = summary.num_truncated / summary.num_records
    random = summary.num_random_next / summary.num_records
    if has_sentences and length > config.max_seq_length / 2 and cut > 0.5:
        yield (
            f"{cut:.0%} of the pairs are cut and {random:.0%} are random: "
            f"lines of {length:.0f} tokens on average, for "
            f"`max_seq_length={config.max_seq_length}`, look like paragraphs; "
            "`input_format=paragraphs` cuts them into sentences"
            f"{also}"
        )
    elif random > MOST_RANDOM and summary.num_sentences < (
        2 * summary.num_documents
    ):
        yield (
            f"{random:.0%} of the pairs are random: {summary.num_documents:,} "
            f"documents have {summary.num_sentences:,} sentences, and a "
            "document of one sentence has no second one; put blank lines "
            "between documents only, or give "
            f"`sequence_format=full_sentences`, without pairs{also}"
        )
