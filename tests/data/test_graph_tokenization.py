"""Tests of data/graph_tokenization.py, beside the tokenizer it stands for."""

import json
import random
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.added_tokens import AddedToken
from bert_keras.data.graph_tokenization import GraphTokenizer, NoGraphError
from bert_keras.data.input_features import InputFeatures, build_inputs, pad
from bert_keras.data.tokenization import FullTokenizer
from tests.conftest import GOLDEN

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
    pieces, errors = run(tf.constant(texts))
    assert set(errors.numpy()) == {b""}
    for text, ids in zip(texts, pieces.to_list(), strict=True):
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
        assert graph.pieces(tf.constant(texts))[0].to_list() == list(expected)


def test_refused_texts(pair: tuple[FullTokenizer, GraphTokenizer]) -> None:
    tokenizer, graph = pair
    not_utf8: list[str | bytes] = [b"\xff", b"the \xe2\x82", b"\xed\xa0\x80"]
    reordered: list[str | bytes] = []
    if tokenizer.basic_tokenizer.do_lower_case:
        reordered += ["ΟΔΟΣ", "\u302e"]
    for texts, expected in (
        (not_utf8, "the text is not UTF-8"),
        (reordered, "treatment depends on its neighbours"),
    ):
        for text in texts:
            pieces, errors = graph.pieces(tf.constant(["the", text, "un"]))
            alone = [ids_of(tokenizer, "the"), [], ids_of(tokenizer, "un")]
            assert pieces.to_list() == alone
            fine, error, fine_too = errors.numpy().tolist()
            assert expected in error.decode() and fine == fine_too == b""


def written(folder: Path, *pieces: str) -> str:
    """A vocab.txt; ids 0, 1, 2 are [UNK], [CLS] and [SEP]."""
    path = folder / "vocab.txt"
    pieces = ("[UNK]", "[CLS]", "[SEP]", *pieces)
    path.write_text("\n".join(pieces), encoding="utf-8")
    return str(path)


def test_texts_of_several_scripts(tmp_path: Path) -> None:
    """Worked by hand: the marks over and under Thai letters are accents."""
    scripts = "ส ##ว ##ส ##ด 中 文 😀 👨 ##👩 cat".split()  # ids 3 to 12
    tokenizer = FullTokenizer(written(tmp_path, *scripts), UNCASED)
    expected = {
        "สวัสดี": [3, 4, 5, 6],
        "中文cat": [7, 8, 12],
        "Cat😀 😀": [0, 9],  # a word continues after a letter
        "👨\u200d👩": [10, 11],  # what joins them is dropped
        "c\0at\0": [12],
        "\0": [],
        "": [],
    }
    pieces, errors = GraphTokenizer(tokenizer, EXACT_LENGTH).pieces(
        tf.constant([*expected])
    )
    assert pieces.to_list() == [*expected.values()]
    assert set(errors.numpy()) == {b""}


@pytest.mark.slow
def test_settings_of_other_folders(tmp_path: Path) -> None:
    """Worked by hand: shorter words, unsplit ideographs, private characters."""
    path = written(tmp_path, "un", "##able", "中", "##文", "##\ue000")
    texts = tf.constant(["unable", "unables", "中文", "un\ue000"])
    for settings, expected in (
        ({}, [[3, 4], [0], [5, 0], [3, 7]]),
        ({"max_input_chars_per_word": 5}, [[0], [0], [5, 0], [3, 7]]),
        ({"tokenize_chinese_chars": False}, [[3, 4], [0], [5, 6], [3, 7]]),
        ({"remove_private_use": True}, [[3, 4], [0], [5, 0], [3]]),
    ):
        tokenizer = FullTokenizer(path, CASED, **settings)
        pieces, _ = GraphTokenizer(tokenizer, 16).pieces(texts)
        assert pieces.to_list() == expected, settings


def test_added_tokens_are_kept_whole(tmp_path: Path) -> None:
    tokens = [
        AddedToken("[SEP]", 2),
        AddedToken("[E1]", 90),
        AddedToken("[E1][E", 91, rstrip=True),
        AddedToken("<É,>", 92, lstrip=True, rstrip=True, normalized=True),
        AddedToken("\u0301", 93, normalized=True),  # becomes nothing
    ]
    path = written(tmp_path, "e", "##1", "[", "]", "1", "cat", "中")
    tokenizer = FullTokenizer(path, UNCASED, added_tokens=tokens)
    expected = {
        "cat[E1]cat [E1]": [8, 90, 8, 90],
        "[e1]": [5, 3, 4, 6],  # of another case
        "[E1][E1]": [91, 7, 6],  # the longest of the leftmost
        "[SEP]\0[E\x001]": [2, 5, 3, 4, 6],
        "cat<é,>cat": [8, 92, 8],
        "<E\u0301,><e,>": [92, 92],
        "< e, >": [0, 3, 0, 0],
        # as Hugging Face's tokenizers: the ideographs stay
        "中  <É,>\n中cat": [9, 92, 9, 8],
    }
    graph = GraphTokenizer(tokenizer, EXACT_LENGTH)
    pieces, errors = graph.pieces(tf.constant([*expected, "cat\U00040001"]))
    assert pieces.to_list() == [*expected.values(), []]
    assert [bool(error) for error in errors.numpy()] == [False] * 8 + [True]
    parts = [token.content for token in tokens]
    parts += [*"[E1e,É<>]中 \n\0", "e\u0301", " , ", "cat"]
    rng = random.Random(5)
    texts = ["".join(rng.choices(parts, k=8)) for _ in range(3000)]
    assert_equal((tokenizer, graph), [*expected, *texts])


@pytest.mark.parametrize(
    "token", [AddedToken("[E1]", 9, single_word=True), AddedToken(" cat", 9)]
)
def test_added_tokens_without_a_form_in_a_graph(
    tmp_path: Path, token: AddedToken
) -> None:
    tokenizer = FullTokenizer(written(tmp_path), added_tokens=[token])
    with pytest.raises(NoGraphError, match=re.escape(repr(token.content))):
        GraphTokenizer(tokenizer, 16)


def test_no_step_is_without_words(
    pair: tuple[FullTokenizer, GraphTokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteRT, which these tests cannot ask by texts, would end the process."""
    graph, counts = pair[1], []
    longest_pieces = graph._longest_pieces

    def counted(words: tf.Tensor, start: tf.Tensor) -> Any:
        counts.append(len(words))
        return longest_pieces(words, start)

    monkeypatch.setattr(graph, "_longest_pieces", counted)
    for text in ("", "a" * 201, "un", b"\xff"):
        graph.pieces(tf.constant([text]))
    assert min(counts) > 0


@pytest.fixture(scope="module")
def tokenizer() -> FullTokenizer:
    return FullTokenizer(str(VOCABULARY), UNCASED)


def rows(
    tokenizer: FullTokenizer, texts: Sequence[Sequence[str]], max_length: int
) -> dict[str, np.ndarray]:
    """What bert_keras.data.input_features makes of texts or pairs."""
    made = []
    for first, *second in texts:
        others = tokenizer.tokenize(second[0]) or None if second else None
        tokens, segments = build_inputs(
            tokenizer.tokenize(first),
            others,
            max_length,
            tokenizer.special_tokens,
        )
        made.append(
            InputFeatures(tokenizer.convert_tokens_to_ids(tokens), segments)
        )
    return pad(made, max(len(row.input_ids) for row in made), len(made))


def test_rows_are_cut_as_rows_are(tokenizer: FullTokenizer) -> None:
    """Every pair of lengths from 0 to 9, odd and even limits."""
    texts = [" ".join("a ? b the , c . d x".split()[:n]) for n in range(10)]
    pairs = [(first, second) for first in texts for second in texts]
    first, second = map(tf.constant, zip(*pairs, strict=True))
    for max_length in (3, 4, 8, 9, 30):
        graph = GraphTokenizer(tokenizer, max_length)
        for made, asked in (
            (graph.rows(tf.constant(texts)), [(text,) for text in texts]),
            (graph.rows(first, second), pairs),
        ):
            expected = rows(tokenizer, asked, max_length)
            for name, values in expected.items():
                np.testing.assert_array_equal(made[name], values)
            whole = rows(tokenizer, asked, EXACT_LENGTH)["input_mask"].sum(1)
            np.testing.assert_array_equal(made["is_cut"], whole > max_length)
            assert set(made["error"].numpy()) == {b""}


@pytest.mark.slow
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
    made = graph.rows(tf.constant(["a b c d e f", "a b c d e f g", b"\xff"]))
    assert made["input_ids"].shape == (3, 8)
    fine, too_long, not_utf8 = made["error"].numpy().tolist()
    assert fine == b"" and b"not UTF-8" in not_utf8
    assert b"send the ids of each window" in too_long
    made = graph.rows(tf.constant(["a b c", "a b"]), tf.constant(["d e f"] * 2))
    assert [bool(x) for x in made["error"].numpy()] == [True, False]
    assert not made["is_cut"].numpy().any()
