"""RoBERTa's tokenizer against Hugging Face `tokenizers`."""

import itertools
import json
import pathlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import ByteLevelBPETokenizer, processors

from bert_keras.data.bpe import (
    ByteLevelBpe,
    load_byte_level,
)
from bert_keras.data.fast_tokenization import ByteLevelLines
from bert_keras.data.tokenizers import check_any_vocabulary, check_ids
from bert_keras.errors import InputError
from tests.conftest import GOLDEN

SHARED = pathlib.Path(__file__).parents[3] / "shared"
FOLDER = GOLDEN / "byte_level"
OURS = load_byte_level(str(FOLDER / "vocab.json"))
LINES = (
    "the sea, an old ship.\n  It's the\tship\r\n\n \t\nÉté: 12 cafés  \u3000 \n"
    "\u6d77 and\n\n\nold\n"
)


def make_peer(folder: pathlib.Path) -> ByteLevelBPETokenizer:
    """With the offsets that RoBERTa's tokenizer has in transformers."""
    files = (str(folder / name) for name in ("vocab.json", "merges.txt"))
    peer = ByteLevelBPETokenizer(*files)
    peer.post_processor = processors.ByteLevel(
        add_prefix_space=False, trim_offsets=True
    )
    return peer


PEER = make_peer(FOLDER)


def encode(tokenizer: ByteLevelBpe, text: str) -> list[int]:
    return tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))


def test_recorded_lines() -> None:
    cases = json.loads((FOLDER / "expected.json").read_text("utf-8"))
    assert len(cases) == 19
    for text, ids, offsets in (case.values() for case in cases):
        assert encode(OURS, text) == ids, text
        spans = OURS.tokenize_with_offsets(text)
        assert [span.token for span in spans] == OURS.tokenize(text)
        assert [[start, end] for _, start, end in spans] == offsets, text


@given(st.text(st.characters(exclude_categories=("Cs", "Cn")), max_size=40))
@settings(deadline=None, max_examples=300)
@example("a \x85b \x1cc")
def test_any_text_comes_back(text: str) -> None:
    expected = PEER.encode(text)
    assert encode(OURS, text) == expected.ids
    spans = OURS.tokenize_with_offsets(text)
    assert [(start, end) for _, start, end in spans] == expected.offsets
    assert OURS.to_text(OURS.tokenize(text)) == text


def test_golden_lines_with_the_released_vocabulary() -> None:
    path = SHARED / "golden" / "tokenization" / "golden.json"
    folder = SHARED / "data" / "vocab" / "roberta-base"
    if not path.exists() or not folder.exists():
        pytest.skip("the released vocabulary is not here")
    lines = json.loads(path.read_text("utf-8"))["lines"]
    assert len(lines) == 524
    tokenizer, peer = (
        load_byte_level(str(folder / "vocab.json")),
        make_peer(folder),
    )
    assert len(tokenizer.vocab) == 50265
    for line in lines:
        expected = peer.encode(line)
        assert encode(tokenizer, line) == expected.ids
        spans = tokenizer.tokenize_with_offsets(line)
        assert [(start, end) for _, start, end in spans] == expected.offsets


def tiny(*merges: str) -> ByteLevelBpe:
    pairs = [(first, second) for first, second in map(str.split, merges)]
    pieces = dict.fromkeys(["a", "b", "c", *(a + b for a, b in pairs)])
    vocab = {piece: number for number, piece in enumerate(pieces)}
    return ByteLevelBpe(vocab, pairs)


@pytest.mark.parametrize(
    ("merges", "pieces"),
    [
        ((), "a b a b c"),
        (("a b",), "ab ab c"),
        (("b a", "a b"), "a ba b c"),  # the first of the list goes first
        (("a b", "ab ab"), "abab c"),
        (("a b", "b c", "ab c"), "ab abc"),  # b is gone when b c's turn comes
    ],
)
def test_pairs_are_joined_in_the_order_of_the_list(
    merges: tuple[str, ...], pieces: str
) -> None:
    assert tiny(*merges).tokenize("ababc") == pieces.split()


def test_of_equal_pairs_the_first_is_joined() -> None:
    assert tiny("a a").tokenize("aaaaa") == ["aa", "aa", "a"]


def test_words_have_the_space_before_them() -> None:
    words = ["It's", "7pm,", "Anna."]
    pieces = OURS.tokenize_words(words)
    assert [OURS.to_text(own) for own in pieces] == ["It's", " 7pm,", " Anna."]
    assert sum(pieces, []) == OURS.tokenize(" ".join(words))


def test_a_character_cut_in_two_is_shared_and_has_no_text_of_its_own() -> None:
    spans = OURS.tokenize_with_offsets("x \u6d77")
    assert [span[1:] for span in spans] == [(0, 1), (2, 2), *[(2, 3)] * 3]
    assert OURS.to_text([spans[-1].token]) == "\ufffd"


def test_a_very_long_word_takes_no_very_long_time() -> None:
    assert len(OURS.tokenize("the" * 100_000)) < 300_000


def test_lone_surrogates_are_no_error() -> None:
    assert len(OURS.tokenize("a\ud800b")) == 5


@pytest.mark.parametrize(
    ("vocab", "merges", "sentence"),
    [
        ("[", None, "not a JSON file"),
        ("[1]", None, "object with a whole number for each token"),
        ('{"a": "1"}', None, "object with a whole number for each token"),
        ('{"a": 1, "b": 1}', None, "one id to several tokens"),
        ('{"a": 1}', None, "lacks 247 .* such as '<pad>'"),
        (None, None, "cannot read .*merges.txt.*beside it"),
        (None, b"\xff", "merges.txt is not UTF-8"),
        (None, b"#version: 0.2\na b c\n", "line 2 of .*merges.txt is 'a b c'"),
        (None, b"ab\n", "two tokens with a space between"),
        (
            None,
            b"q q\n",
            "joins 'q' and 'q', which the vocabulary does not have",
        ),
    ],
)
def test_what_is_wrong_with_the_files_is_said(
    tmp_path: pathlib.Path,
    vocab: str | None,
    merges: bytes | None,
    sentence: str,
) -> None:
    path = tmp_path / "vocab.json"
    path.write_text(vocab or (FOLDER / "vocab.json").read_text("utf-8"))
    if merges is not None:
        (tmp_path / "merges.txt").write_bytes(merges)
    with pytest.raises(InputError, match=sentence):
        load_byte_level(str(path))


def test_ids_that_the_config_has_no_room_for() -> None:
    path = str(FOLDER / "vocab.json")
    vocab = check_any_vocabulary(path)
    assert vocab["<mask>"] == 419
    check_ids(vocab, 420, path)
    with pytest.raises(InputError, match="ids up to 419 .* config is 419"):
        check_ids(vocab, 419, path)
    with pytest.raises(InputError, match="cannot read `vocab_file=absent"):
        check_any_vocabulary("absent.json")


def test_sentences_of_a_document_are_running_text() -> None:
    lines = ByteLevelLines(OURS).encode(LINES.encode())
    found = iter(OURS.convert_ids_to_tokens(lines.ids.tolist()))
    texts = [
        OURS.to_text(itertools.islice(found, length))
        for length in lines.lengths
    ]
    assert texts == [
        "the sea, an old ship.",
        " It's the\tship",
        "",
        "",
        "Été: 12 cafés",
        " \u6d77 and",
        "",
        "",
        "old",
    ]
    assert lines.is_blank.tolist() == [not text for text in texts]


def test_ids_of_lines_are_the_tokenizers() -> None:
    text = " ".join(LINES.split())
    for line in (text, text.encode("ascii", "ignore").decode()):
        lines = ByteLevelLines(OURS).encode(f"{line}\n{line}".encode())
        expected = OURS.tokenize(line) + OURS.tokenize(f" {line}")
        assert OURS.convert_ids_to_tokens(lines.ids.tolist()) == expected


def test_what_is_not_utf8_is_left_to_the_caller() -> None:
    with pytest.raises(UnicodeDecodeError):
        ByteLevelLines(OURS).encode(b"sea\xff")
