"""The tokenizer against the original's recorded results, and its offsets."""

import json
import pathlib
import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data import tokenization
from bert_keras.errors import InputError
from tests.conftest import GOLDEN, ROOT
from tests.limits import time_limit

SHARED = ROOT.parent / "shared"
VOCABULARIES = (
    "bert-base-uncased",
    "bert-base-cased",
    "bert-base-multilingual-cased",
    "bert-base-chinese",
)


def make_tokenizer(
    do_lower_case: bool = True, strip_accents: bool | None = None
) -> tokenization.FullTokenizer:
    return tokenization.FullTokenizer(
        str(GOLDEN / "tiny_vocab.txt"), do_lower_case, strip_accents
    )


def sources(text: str, do_lower_case: bool = True) -> list[tuple[str, str]]:
    return [
        (piece, text[start:end])
        for piece, start, end in make_tokenizer(
            do_lower_case
        ).tokenize_with_offsets(text)
    ]


def test_tiny_golden() -> None:
    cases = json.loads((GOLDEN / "tiny_tokens.json").read_text("utf-8"))
    assert len(cases) == 56
    for text, do_lower_case, pieces in cases:
        assert make_tokenizer(do_lower_case).tokenize(text) == pieces, text


@pytest.mark.parametrize("name", VOCABULARIES)
def test_golden_lines(name: str) -> None:
    path = SHARED / "golden" / "tokenization" / "golden.json"
    if not path.exists():
        pytest.skip("the recorded lines are not here")
    golden = json.loads(path.read_text("utf-8"))
    expected = golden["expected"][name]
    tokenizer = tokenization.FullTokenizer(
        str(SHARED / "data" / "vocab" / name / "vocab.txt"),
        expected["do_lower_case"],
    )
    assert len(golden["lines"]) == 524
    for line, ids in zip(golden["lines"], expected["ids"], strict=True):
        pieces = tokenizer.tokenize(line)
        assert tokenizer.convert_tokens_to_ids(pieces) == ids
        spans = tokenizer.tokenize_with_offsets(line)
        assert [span.token for span in spans] == pieces


def test_case_and_accents_apart() -> None:
    text = "CAFÉ Über"
    assert make_tokenizer(True).tokenize(text) == ["cafe", "uber"]
    assert make_tokenizer(True, False).tokenize(text) == ["café", "über"]
    assert make_tokenizer(False, True).tokenize("café The") == ["cafe", "The"]
    assert make_tokenizer(False).tokenize("café The") == ["café", "The"]


def test_final_sigma_is_the_words() -> None:
    assert make_tokenizer().tokenize("ΟΔΥΣ") == ["ο", "##δ", "##υ", "##ς"]


def test_marks_of_a_long_word_are_ordered() -> None:
    pool = [
        chr(i)
        for i in range(0x30000)
        if unicodedata.normalize("NFD", chr(i)) != chr(i)
        or unicodedata.combining(chr(i))
    ]
    rng = random.Random(3)
    for _ in range(20):
        word = "".join(rng.choices([*pool, *"aeo"], k=2000))
        expected = unicodedata.normalize("NFD", word)
        assert tokenization._decompose(word) == expected


@pytest.mark.parametrize(
    "marks", ["\u0301\u0327" * 100_000, "\u0301" * 100_000 + "\u0327" * 100_000]
)
def test_marks_take_time_in_proportion(marks: str) -> None:
    with time_limit(60):
        [span] = make_tokenizer().tokenize_with_offsets(f"e{marks}")
    assert span.start == 0


@settings(deadline=None)
@given(text=st.text(st.sampled_from("aEΣσİß,.。、\n\u3000\x0b\u0301海 ")))
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_a_long_text_is_tokenized_in_stretches(
    do_lower_case: bool, text: str
) -> None:
    tokenizer = make_tokenizer(do_lower_case)
    expected = tokenizer.tokenize_with_offsets(text)
    words = tokenizer.split_like_pieces(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenization, "STRETCH", 3)
        assert tokenizer.tokenize_with_offsets(text) == expected
        assert tokenizer.split_like_pieces(text) == words
        pieces = tokenizer.tokenize(text)
        assert pieces == [span.token for span in expected]
        some = tokenizer.tokenize(text, enough=4)
        assert some == pieces[: len(some)]
        assert len(some) >= min(4, len(pieces))


def test_little_is_read_of_a_text_that_is_cut() -> None:
    with time_limit(20):
        pieces = make_tokenizer().tokenize("." * 60_000_000, enough=10)
    assert 10 <= len(pieces) < 100_000


def test_words() -> None:
    words = tokenization.BasicTokenizer().tokenize(
        '"Sea!!" ship-s\u0301 \u0301'
    )
    assert words == ['"', "sea", "!", "!", '"', "ship", "-", "s"]


def test_longest_word() -> None:
    pieces = make_tokenizer().tokenize("s" * 200 + " " + "s" * 201)
    assert pieces == ["s"] + ["##s"] * 199 + ["[UNK]"]


def test_offsets_of_pieces() -> None:
    assert sources("Sails,  unaffable") == [
        ("sail", "Sail"),
        ("##s", "s"),
        (",", ","),
        ("un", "un"),
        ("##aff", "aff"),
        ("##able", "able"),
    ]


def test_offsets_where_lengths_change() -> None:
    # U+0130 lower-cases to two characters, one of which is then stripped;
    # a hangul syllable becomes three pieces; a soft hyphen vanishes.
    assert sources("İi sea") == [("i", "İ"), ("##i", "i"), ("sea", "sea")]
    assert sources("한zoo") == [("[UNK]", "한zoo")]
    assert sources("한") == [("ᄒ", "한"), ("##ᅡ", "한"), ("##ᆫ", "한")]
    assert sources("\u00adcafe\u0301 s\u00adea") == [
        ("cafe", "cafe"),
        ("sea", "s\u00adea"),
    ]
    assert sources("海sea") == [("海", "海"), ("sea", "sea")]


def test_unknown_covers_its_word() -> None:
    assert sources("the zyx!") == [
        ("the", "the"),
        ("[UNK]", "zyx"),
        ("!", "!"),
    ]


HOSTILE = st.text(
    st.one_of(
        st.sampled_from(
            "the seaSAILÉéΣσİ한海\u0301\u0327\u302e\u00ad\u2028#.$'"
        ),
        st.characters(),
    )
)


@settings(max_examples=300, deadline=None)
@given(HOSTILE, st.booleans(), st.sampled_from([None, True, False]))
def test_offsets_agree_with_tokenize(
    text: str, do_lower_case: bool, strip_accents: bool | None
) -> None:
    tokenizer = make_tokenizer(do_lower_case, strip_accents)
    spans = tokenizer.tokenize_with_offsets(text)
    assert [span.token for span in spans] == tokenizer.tokenize(text)
    assert all(0 <= start < end <= len(text) for _, start, end in spans)
    for before, after in zip(spans, spans[1:], strict=False):
        assert before.start <= after.start
        assert before.end <= after.end


@settings(max_examples=300, deadline=None)
@given(HOSTILE, st.booleans(), st.sampled_from([None, True, False]))
def test_two_steps_agree_with_one(
    text: str, do_lower_case: bool, strip_accents: bool | None
) -> None:
    tokenizer = make_tokenizer(do_lower_case, strip_accents)
    words = tokenizer.basic_tokenizer.tokenize(text)
    assert tokenizer.tokenize(text) == (
        tokenizer.wordpiece_tokenizer.tokenize(" ".join(words))
    )


def test_cache_may_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenization, "MAX_CACHED_WORDS", 2)
    text = "the old ship saw the old sea"
    tokenizer = make_tokenizer()
    assert tokenizer.tokenize(text) == text.split()
    assert len(tokenizer._cache) <= 2


def test_ids_there_and_back() -> None:
    tokenizer = make_tokenizer()
    ids = tokenizer.convert_tokens_to_ids(["[CLS]", "sea", "##s"])
    assert ids == [2, 11, 13]
    assert tokenizer.convert_ids_to_tokens(ids) == ["[CLS]", "sea", "##s"]
    with pytest.raises(KeyError):
        tokenizer.convert_tokens_to_ids(["zyx"])


def test_lines_of_a_vocabulary(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(" a \r\nb\rc\n\u2028\na\nd".encode())
    assert tokenization.load_vocab(str(path)) == {
        "a": 3,
        "b\rc": 1,
        "": 2,
        "d": 4,
    }


def test_bytes_are_text() -> None:
    assert make_tokenizer().tokenize(b"the \xffsea") == ["the", "sea"]
    assert tokenization.convert_to_unicode("é".encode()) == "é"
    assert tokenization.printable_text("é") == "é"
    assert tokenization.whitespace_tokenize("  a \u3000b ") == ["a", "b"]


def test_case_of_a_released_model() -> None:
    check = tokenization.validate_case_matches_checkpoint
    check(True, None)
    check(True, "gs://x/uncased_L-12_H-768_A-12/bert_model.ckpt")
    check(False, "my_model/bert_model.ckpt")
    with pytest.raises(InputError, match="pass `do_lower_case=True"):
        check(False, "gs://x/uncased_L-12_H-768_A-12/bert_model.ckpt")
    with pytest.raises(InputError, match="pass `do_lower_case=False"):
        check(True, "cased_L-24_H-1024_A-16/bert_model.ckpt")
