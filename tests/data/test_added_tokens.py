"""Tests of data/added_tokens.py: what is kept whole, and how fast."""

import random

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from bert_keras.data.added_tokens import AddedToken, AddedTokens
from bert_keras.data.tokenization import FullTokenizer
from tests.conftest import GOLDEN
from tests.limits import time_limit

CONTENTS = "[E1]", "[E", "ab", "1]"
PIECES = *CONTENTS, "a", "b", " ", "  ", "\n", "\t", "\u3000", "é", "."


def test_texts_are_cut_as_by_hugging_face() -> None:
    rng = random.Random(3)
    for _ in range(3000):
        tokens = [
            AddedToken(content, i, *rng.choices((True, False), k=3))
            for i, content in enumerate(rng.sample(CONTENTS, 3))
        ]
        library = tokenizers.Tokenizer(models.WordLevel({"?": 0}, "?"))
        library.normalizer = normalizers.Sequence([])
        library.add_tokens(
            [
                tokenizers.AddedToken(
                    t.content,
                    single_word=t.single_word,
                    lstrip=t.lstrip,
                    rstrip=t.rstrip,
                    normalized=False,
                )
                for t in tokens
            ]
        )
        text = "".join(rng.choices(PIECES, k=rng.randint(0, 14)))
        found = library.encode(text)
        theirs = [
            (library.id_to_token(number) if number else None, *place)
            for number, place in zip(found.ids, found.offsets, strict=True)
        ]
        added = AddedTokens(tokens, lambda text: (text, range(len(text))))
        ours = [
            (part.token and part.token.content, part.start, part.end)
            for part in added.split(text)
        ]
        assert ours == theirs, (text, tokens)


CONTENTS_OF_WORDS = "Fóo", "\n", "  ", " 中", "文 a", "<user>"
PIECES_OF_WORDS = *CONTENTS_OF_WORDS, "中", "文", " ", "\u0301", "\x01", "a"


def test_normalized_tokens_are_found_as_by_hugging_face() -> None:
    """Also between ideographs, where no space is in the text."""
    rng = random.Random(3)
    vocab_file = str(GOLDEN / "tiny_vocab.txt")
    vocab = FullTokenizer(vocab_file).vocab
    for _ in range(1000):
        tokens = [
            AddedToken(
                content,
                len(vocab) + i,
                normalized=True,
                special=rng.random() < 0.5,
            )
            for i, content in enumerate(rng.sample(CONTENTS_OF_WORDS, 3))
        ]
        library = tokenizers.Tokenizer(
            models.WordPiece(vocab, unk_token="[UNK]")
        )
        library.normalizer = normalizers.BertNormalizer()
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        library.add_tokens(
            [
                tokenizers.AddedToken(
                    t.content, normalized=True, special=t.special
                )
                for t in tokens
            ]
        )
        ours = FullTokenizer(vocab_file, added_tokens=tokens)
        text = "".join(rng.choices(PIECES_OF_WORDS, k=rng.randint(0, 9)))
        found = ours.tokenize(text)
        theirs = library.encode(text, add_special_tokens=False).ids
        assert ours.convert_tokens_to_ids(found) == theirs, (text, tokens)
        spans = ours.tokenize_with_offsets(text)
        assert [span.token for span in spans] == found
        assert all(0 <= s.start <= s.end <= len(text) for s in spans)


@pytest.mark.parametrize("content", ["\u0301", "\x01"])
def test_a_token_that_becomes_no_text_is_found_nowhere(content: str) -> None:
    """Hugging Face's library panics."""
    tokenizer = FullTokenizer(
        str(GOLDEN / "tiny_vocab.txt"),
        added_tokens=[AddedToken(content, 9000, normalized=True)],
    )
    expected = FullTokenizer(str(GOLDEN / "tiny_vocab.txt"))
    text = f"the sea{content} saw"
    assert tokenizer.tokenize(text) == expected.tokenize(text)


@pytest.mark.parametrize("normalized", [False, True])
def test_time_is_in_proportion_to_the_text(normalized: bool) -> None:
    token = AddedToken(
        "[E1]", 9000, lstrip=True, rstrip=True, normalized=normalized
    )
    tokenizer = FullTokenizer(
        str(GOLDEN / "tiny_vocab.txt"), added_tokens=[token]
    )
    with time_limit(60):
        assert len(tokenizer.tokenize("[E1]" * 100_000)) == 100_000
        assert len(tokenizer.tokenize("[E1]  a " * 50_000)) == 100_000
