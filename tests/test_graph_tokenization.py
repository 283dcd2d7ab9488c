"""Tests of data/graph_tokenization.py, beside the tokenizer it stands for."""

import json
import random
import unicodedata
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf
from conftest import GOLDEN

from data.graph_tokenization import GraphTokenizer
from data.rows import Row, join, pad
from data.tokenization import FullTokenizer

VOCABULARY = GOLDEN / "tiny_vocab.txt"
CASED, UNCASED = False, True
EXACT_LENGTH = 100_000  # so that nothing is cut
# Where BERT's rules meet: accents in one or two characters, hangul (three
# when decomposed), ideographs, white space and control characters of all
# kinds, a dotted I, punctuation inside and outside ASCII, an emoji.
TRICKY = 'aé́̈ẛİß각한中文　\u200b\u2028\x85\x1c\t\n\r\0\ufeff\ufffd\xad"$,。؟😀'


@pytest.fixture(scope="module", params=[UNCASED, CASED])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[FullTokenizer, GraphTokenizer]:
    """Both tokenizers on a vocabulary of short pieces of many scripts."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = sorted({*map(chr, range(33, 0x250)), *TRICKY, *"中각가ᄀᄋ"})
    letters = [letter for letter in letters if letter.strip()]
    random.Random(3).shuffle(letters)
    pieces = [*letters, "the", "un", "aff", "ing", "##un", "##aff", "##able"]
    # not every letter may go on: words with the others are [UNK]
    pieces += [f"##{letter}" for letter in letters[: len(letters) * 3 // 4]]
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join(specials + pieces), encoding="utf-8")
    tokenizer = FullTokenizer(str(path), request.param)
    return tokenizer, GraphTokenizer(tokenizer, EXACT_LENGTH)


def ids_of(tokenizer: FullTokenizer, text: str | bytes) -> list[int]:
    return tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))


def refused_characters(text: str) -> bool:
    """Whether an uncased model's graph may refuse it."""
    plain = unicodedata.normalize("NFD", text)
    return "Σ" in text or any(
        unicodedata.combining(c) and unicodedata.category(c) != "Mn"
        for c in plain
    )


def assert_equal(
    pair: tuple[FullTokenizer, GraphTokenizer], texts: Sequence[str]
) -> None:
    """Compares all texts that the uncased graph does not refuse."""
    tokenizer, graph = pair
    if tokenizer.basic_tokenizer.do_lower_case:
        texts = [text for text in texts if not refused_characters(text)]
    run = tf.function(
        graph.pieces, [tf.TensorSpec([None], tf.string)], autograph=False
    )
    for text, ids in zip(texts, run(tf.constant(texts)).to_list(), strict=True):
        assert ids == ids_of(tokenizer, text), repr(text)


def test_fuzzed_texts(pair: tuple[FullTokenizer, GraphTokenizer]) -> None:
    rng = random.Random(7)
    everything = [chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000]
    pools: list[Sequence[str]] = [
        everything,
        everything[:0x3000],
        everything[:128],
        "unaffable UNAFFABLE the, ing",
        TRICKY + " abc",
    ]
    assert_equal(
        pair,
        [
            "".join(rng.choices(rng.choice(pools), k=rng.choice([0, 3, 40])))
            for _ in range(4000)
        ],
    )


def test_each_character_between_letters(
    pair: tuple[FullTokenizer, GraphTokenizer],
) -> None:
    """All below the ideographs and beyond, one in eleven of the rest."""
    points = [*range(0x3400), *range(0x3400, 0xD800, 11)]
    points += [*range(0xE000, 0xF900, 11), *range(0xF900, 0x10000)]
    points += [*range(0x10000, 0x20000, 11), *range(0xE0000, 0xE0200)]
    assert_equal(pair, [f"the{chr(i)}un {chr(i)}ing" for i in points])


def test_longest_words(pair: tuple[FullTokenizer, GraphTokenizer]) -> None:
    """200 characters are split, 201 are [UNK]; accents do not count."""
    words = [c * n for c in ("a", "é", "각", "中") for n in (66, 67, 200, 201)]
    words += ["a" * 100 + "e\u0301" * 100, "a" * 101 + "e\u0301" * 100]
    assert_equal(pair, [*words, " ".join(words)])


def test_what_the_original_recorded() -> None:
    recorded = json.loads((GOLDEN / "tiny_tokens.json").read_text())
    for case in (UNCASED, CASED):
        tokenizer = FullTokenizer(str(VOCABULARY), case)
        graph = GraphTokenizer(tokenizer, EXACT_LENGTH)
        known = [
            (text, tokenizer.convert_tokens_to_ids(tokens))
            for text, lower, tokens in recorded
            if lower == case and not (lower and refused_characters(text))
        ]
        assert len(known) > 10
        texts, expected = zip(*known, strict=True)
        assert graph.pieces(tf.constant(texts)).to_list() == list(expected)


def test_refused_texts(pair: tuple[FullTokenizer, GraphTokenizer]) -> None:
    tokenizer, graph = pair
    refused: list[str | bytes] = [b"\xff", b"the \xe2\x82", b"\xed\xa0\x80"]
    if tokenizer.basic_tokenizer.do_lower_case:
        refused += ["ΟΔΟΣ", "\u302e"]
    for text in refused:
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="send ids instead"
        ):
            graph.pieces(tf.constant(["the", text]))


@pytest.fixture(scope="module")
def tokenizer() -> FullTokenizer:
    return FullTokenizer(str(VOCABULARY), UNCASED)


def rows(
    tokenizer: FullTokenizer, texts: Sequence[Sequence[str]], max_length: int
) -> dict[str, np.ndarray]:
    """What data.rows makes of texts or pairs."""
    made = []
    for first, *second in texts:
        others = tokenizer.tokenize(second[0]) or None if second else None
        tokens, segments = join(
            tokenizer.tokenize(first), others, max_length, tokenizer.marks
        )
        made.append(Row(tokenizer.convert_tokens_to_ids(tokens), segments))
    return pad(made, max(len(row.input_ids) for row in made), len(made))


def test_rows_are_cut_as_rows_are(tokenizer: FullTokenizer) -> None:
    """Every pair of lengths from 0 to 9, odd and even limits."""
    texts = [" ".join("a ? b the , c . d x".split()[:n]) for n in range(10)]
    pairs = [(first, second) for first in texts for second in texts]
    first, second = map(tf.constant, zip(*pairs, strict=True))
    for max_length in (3, 4, 8, 9, 30):
        graph = GraphTokenizer(tokenizer, max_length)
        for made, expected in (
            (
                graph.rows(tf.constant(texts)),
                rows(tokenizer, [(text,) for text in texts], max_length),
            ),
            (graph.rows(first, second), rows(tokenizer, pairs, max_length)),
        ):
            for name, values in expected.items():
                np.testing.assert_array_equal(made[name], values)


def test_in_a_data_pipeline(tokenizer: FullTokenizer) -> None:
    graph = GraphTokenizer(tokenizer, 16)
    texts = ["The cat.", "Unaffable, the dog sat on a mat"]
    # Not converted: under Python 3.13 AutoGraph itself warns.
    as_it_reads = tf.autograph.experimental.do_not_convert(graph.rows)
    dataset = tf.data.Dataset.from_tensors(texts).map(as_it_reads)
    (made,) = dataset.as_numpy_iterator()
    expected = rows(tokenizer, [(text,) for text in texts], 16)
    for name, values in expected.items():
        np.testing.assert_array_equal(made[name], values)


def test_texts_that_windows_would_read_are_refused(
    tokenizer: FullTokenizer,
) -> None:
    graph = GraphTokenizer(tokenizer, 8, cuts=False)
    rows = tf.function(graph.rows, autograph=False)
    assert rows(tf.constant(["a b c d e f"]))["input_ids"].shape == (1, 8)
    for texts in (["a b c d e f g"],), (["a b c"], ["d e f"]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="each window"):
            rows(*map(tf.constant, texts))
