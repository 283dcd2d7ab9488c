"""Tests of data/record_hints.py, with records counted by hand."""

import dataclasses

from bert_keras.data.instances import InstanceConfig, Summary
from bert_keras.data.record_hints import (
    broken_lines_hint,
    summary_hints,
    vocabulary_hints,
)

# A text of 100 lines in 20 documents, of 20 tokens each.
GOOD = Summary(
    num_documents=20,
    num_sentences=100,
    num_pieces=2000,
    num_unknown=0,
    num_records=50,
    num_random_next=27,
    num_truncated=40,
    num_tokens=6000,
    num_masked=900,
)
CONFIG = InstanceConfig()


def hints(
    config: InstanceConfig = CONFIG,
    words_are_spaced: bool = False,
    is_googles: bool = False,
    **changes: int,
) -> list[str]:
    summary = dataclasses.replace(GOOD, **changes)
    return list(
        summary_hints(summary, config, True, words_are_spaced, is_googles)
    )


def test_a_good_text_asks_for_nothing() -> None:
    assert hints() == []
    assert hints(num_records=0, num_truncated=0) == []


def test_lines_that_end_in_the_middle_of_a_sentence() -> None:
    book = ["The keeper counted,", "one by one,  ", "all", "the ships."]
    book += [
        "It rained.",
        "",
        "",
        "He was right. What",
        "he saw was the sea",
        "",
    ]
    hint = broken_lines_hint(book * 2)
    assert hint
    # 4 of the 5 pairs in each half
    assert hint.startswith("80% of the lines end in the middle of a sentence")
    for text in (
        ["The keeper saw.", "He counted.", "but one", "was lost", "", "To sea"],
        ["the sea", "a ship", "and more"],  # without capitals
        ["The sea", "", "a ship", "", "and more"],
        [],
    ):
        assert broken_lines_hint(text) is None


def test_a_vocabulary_that_does_not_fit() -> None:
    """20 of 2000 tokens may be unknown."""
    assert hints(num_unknown=20) == []
    (hint,) = hints(num_unknown=21)
    assert hint.startswith("1.1% of the tokens are [UNK]: the vocabulary does")
    assert hints(num_continued=1000) == []
    (hint,) = hints(num_continued=1200)  # of 2000
    assert hint.startswith("a word is 2.5 tokens on average: the vocabulary")
    assert list(vocabulary_hints(0.0, 2.0)) == []
    (hint,) = vocabulary_hints(0.0, 2.25)
    assert hint.startswith("a word is 2.2 tokens on average: the vocabulary")


def test_paragraphs_read_as_sentences() -> None:
    """6500 tokens in 100 lines are more than half of 128."""
    (hint,) = hints(num_pieces=6500, num_truncated=46, num_random_next=34)
    assert hint == (
        "92% of the pairs are cut and 68% are random: lines of 65 tokens on "
        "average, for `max_seq_length=128`, look like paragraphs; "
        "`input_format=paragraphs` cuts them into sentences"
    )
    assert hints(num_pieces=6400, num_truncated=46) == []
    alone = dataclasses.replace(CONFIG, sequence_format="full_sentences")
    assert hints(alone, num_pieces=6500, num_truncated=46) == []


def test_documents_of_a_line() -> None:
    (hint,) = hints(num_documents=80, num_random_next=45)
    assert hint.startswith("90% of the pairs are random")
    assert "80 documents have 100 sentences" in hint
    assert "`sequence_format=full_sentences`" in hint


def test_whole_words_of_ideographs() -> None:
    whole = dataclasses.replace(CONFIG, do_whole_word_mask=True)
    (hint,) = hints(whole, num_ideographs=1860)
    assert "93% of the tokens are single ideographs" in hint
    assert hint.endswith("and give `words_are_spaced`")
    assert hints(whole, words_are_spaced=True, num_ideographs=1860) == []
    assert hints(whole, num_ideographs=1000) == hints(num_ideographs=2000) == []
    (hint,) = hints(whole, is_googles=True, num_ideographs=1860)
    assert "leave out `sampler=google`" in hint
