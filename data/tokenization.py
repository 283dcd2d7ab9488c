"""BERT's tokenizer: text -> words -> word pieces, with character offsets.

The rules and the public names are those of google-research/bert's
tokenization.py, so that its users' imports go on working; the text's
characters behind every token (`tokenize_with_offsets`) and `strip_accents`
apart from lower case are ours. Plain Python; exact for all of Unicode as the
running Python's tables know it.
"""

import dataclasses
import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from bert_keras.data.added_tokens import AddedToken, AddedTokens
from bert_keras.data.special_tokens import BERT
from bert_keras.errors import InputError

UNKNOWN = BERT.unknown
MAX_CHARS_PER_WORD = 200  # longer words are [UNK]; Hugging Face has 100
MAX_DECOMPOSED_AT_ONCE = 1000  # characters of a word
MAX_CACHED_CHARS = 1000  # of a word
STRETCH = 1 << 16  # characters of a text that are tokenized at once
# Before these a text can be cut; where it has Σ, whose lower case depends on
# the letters around, before white space alone.
SPACES = re.compile(r"[ \t\n\r\u3000]")
_SIGNS = r" \t\n\r\u3000!-/:-@\[-`{-~\u3001\u3002\uff01\uff0c\uff1f"
BREAKS = re.compile(f"[{_SIGNS}]")
IDEOGRAPHS = re.compile(rf"[{_SIGNS}\u4e00-\u9fff]")  # where each is a word
MAX_CACHED_WORDS = 300_000  # distinct words; some 200 MB at the most

LOWER_CASE_MODELS = frozenset({
    "uncased_L-24_H-1024_A-16", "uncased_L-12_H-768_A-12",
    "multilingual_L-12_H-768_A-12", "chinese_L-12_H-768_A-12",
})  # fmt: skip
CASED_MODELS = frozenset({
    "cased_L-12_H-768_A-12", "cased_L-24_H-1024_A-16",
    "multi_cased_L-12_H-768_A-12",
})  # fmt: skip
CJK_RANGES = (  # the ideographs only: no kana, no hangul
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip

Key = TypeVar("Key")
Value = TypeVar("Value")


class Span(NamedTuple):
    """A token and the characters text[start:end] it was made from."""

    token: str
    start: int
    end: int


class FullTokenizer:
    """Text to word pieces, and word pieces to ids and back.

    Args:
      vocab_file: one token a line; the line's number from 0 is the token's id.
      do_lower_case: must be what the model was pre-trained with.
      strip_accents: None means "as do_lower_case", which is Google's rule.
      tokenize_chinese_chars: whether each ideograph is a word.
      remove_private_use: as in Hugging Face's tokenizers; Google's keep them.
      max_input_chars_per_word: longer words are [UNK].
      added_tokens: kept whole wherever a text has them. (Google's keep none.)
    """

    special_tokens = BERT

    def __init__(
        self,
        vocab_file: str,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        remove_private_use: bool = False,
        max_input_chars_per_word: int = MAX_CHARS_PER_WORD,
        added_tokens: Sequence[AddedToken] = (),
    ) -> None:
        self.vocab = load_vocab(vocab_file)
        self.vocab.update({token.content: token.id for token in added_tokens})
        whole = {t.content for t in added_tokens if not t.is_word_piece}
        word_pieces = {k: v for k, v in self.vocab.items() if k not in whole}
        self.inv_vocab = {number: piece for piece, number in self.vocab.items()}
        self.basic_tokenizer = BasicTokenizer(
            do_lower_case,
            strip_accents,
            tokenize_chinese_chars,
            remove_private_use,
        )
        self.wordpiece_tokenizer = WordpieceTokenizer(
            word_pieces, UNKNOWN, max_input_chars_per_word
        )
        self.added_tokens = AddedTokens(
            added_tokens, self.basic_tokenizer.normalize
        )
        self._cache: dict[str, tuple[list[str], list[Span]]] = {}

    def tokenize(
        self, text: str | bytes, enough: int | None = None
    ) -> list[str]:
        """The text's tokens: "unaffable" gives un, ##aff, ##able.

        Args:
          enough: with so many of a long text, the rest may be left out.
        """
        text = convert_to_unicode(text)
        pieces: list[str] = []
        for added, start, end in self.added_tokens.split(text):
            if added is not None:
                pieces.append(added.content)
                continue
            for _, part in self.basic_tokenizer.stretches(text[start:end]):
                for word in self.basic_tokenizer.clean(part).split():
                    pieces += self._split(word)[0]
                if enough is not None and len(pieces) >= enough:
                    return pieces
        return pieces

    def tokenize_with_offsets(self, text: str) -> list[Span]:
        """`tokenize`'s tokens, each with the characters it comes from.

        Starts and ends never decrease. [UNK] covers its whole word. Tokens
        made from one character (a decomposed hangul syllable) share it, and
        characters that BERT drops belong to no token unless they lie inside.
        """
        spans = []
        for added, first, last in self.added_tokens.split(text):
            if added is not None:
                spans.append(Span(added.content, first, last))
                continue
            for place, part in self.basic_tokenizer.stretches(text[first:last]):
                shift = first + place
                words = self.basic_tokenizer.locate_words(part)
                for word, positions in words:
                    for piece, start, end in self._split(word)[1]:
                        begin = shift + positions[start]
                        spans.append(
                            Span(piece, begin, shift + positions[end - 1] + 1)
                        )
        return spans

    def tokenize_words(self, words: Sequence[str]) -> list[list[str]]:
        """Each word's tokens in " ".join(words)."""
        return [self.tokenize(word) for word in words]

    def to_text(self, pieces: Iterable[str]) -> str:
        """ "un ##aff ##able sea" is "unaffable sea", as in Google's code."""
        return " ".join(pieces).replace(" ##", "").replace("##", "")

    def split_like_pieces(self, text: str) -> list[str]:
        """The words that tokens are cut from, in their case and accents."""
        words: list[str] = []
        for added, start, end in self.added_tokens.split(text):
            if added is not None:
                words.append(added.content)
            else:
                words += self.basic_tokenizer.tokenize(text[start:end])
        return words

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        return convert_by_vocab(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        return convert_by_vocab(self.inv_vocab, ids)

    def _split(self, word: str) -> tuple[list[str], list[Span]]:
        """A cleaned word's tokens and their places in it, remembered."""
        if word in self._cache:
            return self._cache[word]
        spans = [
            Span(piece, sources[start], sources[end - 1] + 1)
            for part, sources in self.basic_tokenizer.split_word(word)
            for piece, start, end in self.wordpiece_tokenizer.split(part)
        ]
        # A token is in memory once, however often a text has it.
        found = [sys.intern(span.token) for span in spans], spans
        if len(self._cache) >= MAX_CACHED_WORDS:
            self._cache.clear()
        if len(word) <= MAX_CACHED_CHARS:
            self._cache[word] = found
        return found


@dataclasses.dataclass(eq=False)
class BasicTokenizer:
    """Splits text at white space, punctuation and CJK ideographs.

    Google's "basic tokenization": control characters vanish, white space
    becomes one kind, words are lower-cased and stripped of their accents.
    """

    do_lower_case: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    remove_private_use: bool = False

    def __post_init__(self) -> None:
        self._cleaned = _CleanedCharacters(
            self.tokenize_chinese_chars, self.remove_private_use
        )
        # Theirs: accents go exactly when case goes. Ours: the same unless
        # told apart, because for many languages "ä" is a letter of its own.
        if self.strip_accents is None:
            self.strip_accents = self.do_lower_case

    def tokenize(self, text: str | bytes) -> list[str]:
        return [
            part
            for _, stretch in self.stretches(convert_to_unicode(text))
            for word in self.clean(stretch).split()
            for part, _ in self.split_word(word)
        ]

    def stretches(self, text: str) -> Iterable[tuple[int, str]]:
        """`cut` of a text. The tokens of its parts are those of the text: words
        end there, or parts of words at a sign that is a part of its own, and in
        lower case and NFD nothing before such a sign depends on it or on what
        follows."""
        if len(text) <= STRETCH:
            return [(0, text)]
        breaks = IDEOGRAPHS if self.tokenize_chinese_chars else BREAKS
        return cut(text, SPACES if "Σ" in text else breaks)

    def clean(self, text: str) -> str:
        """Drops control characters, spaces out ideographs, unifies space."""
        return text.translate(self._cleaned)

    def locate_words(self, text: str) -> Iterable[tuple[str, list[int]]]:
        """The cleaned words, with the places of their characters in text."""
        cleaned = self.clean(text)
        positions = self._positions(text)
        for match in re.finditer(r"\S+", cleaned):
            yield match.group(), positions[match.start() : match.end()]

    def normalize(self, text: str) -> tuple[str, list[int]]:
        """The text cleaned, in its case and accents, with the place in `text`
        that each of its characters was made from."""
        positions = self._positions(text)
        chars, sources = self._normalize(self.clean(text))
        return chars, [positions[source] for source in sources]

    def _positions(self, text: str) -> list[int]:
        cleaned = self._cleaned
        return [i for i, char in enumerate(text) for _ in cleaned[ord(char)]]

    def split_word(self, word: str) -> list[tuple[str, Sequence[int]]]:
        """The parts of a cleaned word without white space.

        Returns:
          (part, sources) pairs, where part's character i was made from
          word[sources[i]]; sources never decrease.
        """
        chars, sources = self._normalize(word)
        parts: list[tuple[str, Sequence[int]]] = []
        start = 0
        for i, char in enumerate(chars):
            if _is_punctuation(char):
                if start < i:
                    parts.append((chars[start:i], sources[start:i]))
                parts.append((char, sources[i : i + 1]))
                start = i + 1
        if start < len(chars):
            parts.append((chars[start:], sources[start:]))
        return parts

    def _normalize(self, word: str) -> tuple[str, Sequence[int]]:
        """Lower-cases and strips accents; says where each character is from.

        Whole words go through lower() and NFD, as in Google's code: a final
        sigma depends on its neighbours, and so does the order of combining
        marks. Their lengths do not, which is what places the characters.
        """
        chars = word
        sources: Sequence[int] = range(len(word))
        if word.isascii():
            return (word.lower() if self.do_lower_case else word), sources
        if self.do_lower_case:
            sources = [
                i
                for i, char in zip(sources, chars, strict=True)
                for _ in char.lower()
            ]
            chars = chars.lower()
        if self.strip_accents and not chars.isascii():
            sources = [
                i
                for i, char in zip(sources, chars, strict=True)
                for _ in unicodedata.normalize("NFD", char)
            ]
            chars = _decompose(chars)
            kept = [
                i
                for i, char in enumerate(chars)
                if unicodedata.category(char) != "Mn"
            ]
            sources = [sources[i] for i in kept]
            chars = "".join(chars[i] for i in kept)
        return chars, sources


def cut(text: str, breaks: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Cuts a long text before some of these, so that tokenizing it takes little
    memory; yields each part with its place."""
    begin = 0
    while found := breaks.search(text, begin + STRETCH):
        yield begin, text[begin : found.start()]
        begin = found.start()
    yield begin, text[begin:]


@dataclasses.dataclass(eq=False)
class WordpieceTokenizer:
    """Greedy longest-match-first: "unaffable" gives un, ##aff, ##able."""

    vocab: Mapping[str, int]
    unk_token: str = UNKNOWN
    max_input_chars_per_word: int = MAX_CHARS_PER_WORD

    def __post_init__(self) -> None:
        self._max_piece_chars = max(map(len, self.vocab), default=0)

    def tokenize(self, text: str | bytes) -> list[str]:
        """The tokens of words that `BasicTokenizer` has already split."""
        return [
            span.token
            for word in whitespace_tokenize(convert_to_unicode(text))
            for span in self.split(word)
        ]

    def split(self, word: str) -> list[Span]:
        """One word's tokens with their places in it; [UNK] if none fit."""
        unknown = [Span(self.unk_token, 0, len(word))]
        if len(word) > self.max_input_chars_per_word:
            return unknown
        spans: list[Span] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            longest = min(len(word), start + self._max_piece_chars)
            for end in range(longest, start, -1):
                piece = prefix + word[start:end]
                if piece in self.vocab:
                    spans.append(Span(piece, start, end))
                    start = end
                    break
            else:
                return unknown
        return spans


def load_vocab(vocab_file: str) -> dict[str, int]:
    """Token -> id. Lines end at "\\n" only, are stripped; the later one wins.

    `vocabulary.check_vocabulary` reads the same and says what is wrong.
    """
    with open(vocab_file, encoding="utf-8", newline="\n") as lines:
        return {line.strip(): number for number, line in enumerate(lines)}


@functools.cache
class _CleanedCharacters(dict[int, str]):
    """Code point -> what cleaning makes of it, worked out when met."""

    def __init__(self, tokenize_chinese_chars: bool, remove_private_use: bool):
        super().__init__()
        self.tokenize_chinese_chars = tokenize_chinese_chars
        self.removed = ("Cc", "Cf", "Co")[: 2 + remove_private_use]

    def __missing__(self, code_point: int) -> str:
        char = chr(code_point)
        category = unicodedata.category(char)
        cleaned = char
        if char in " \t\n\r" or category == "Zs":
            cleaned = " "
        elif char in "\0\ufffd" or category in self.removed:
            cleaned = ""
        elif self.tokenize_chinese_chars and is_ideograph(char):
            cleaned = f" {char} "
        self[code_point] = cleaned
        return cleaned


# Scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer,
# kana and Chinese characters.
UNSPACED = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0002fa1f]"
)


def is_ideograph(piece: str) -> bool:
    """Whether it is a single ideograph, which BERT reads as a word."""
    return len(piece) == 1 and any(
        first <= ord(piece) <= last for first, last in CJK_RANGES
    )


def whitespace_tokenize(text: str) -> list[str]:
    return text.split()


def convert_by_vocab(
    vocab: Mapping[Key, Value], items: Iterable[Key]
) -> list[Value]:
    """Looks every item up; an unknown one is a KeyError, as in Google's."""
    return [vocab[item] for item in items]


def convert_tokens_to_ids(
    vocab: Mapping[str, int], tokens: Iterable[str]
) -> list[int]:
    return convert_by_vocab(vocab, tokens)


def convert_ids_to_tokens(
    inv_vocab: Mapping[int, str], ids: Iterable[int]
) -> list[str]:
    return convert_by_vocab(inv_vocab, ids)


def convert_to_unicode(text: str | bytes) -> str:
    """Bytes are read as UTF-8, without those that are not."""
    return text if isinstance(text, str) else text.decode("utf-8", "ignore")


printable_text = convert_to_unicode


def released_case(path: str) -> bool | None:
    """do_lower_case of the model that Google released under this folder's
    name; None where `path` has no such folder in it.

    Upstream file: tokenization.py, which looks for bert_model.ckpt alone.
    """
    for name in reversed(re.split(r"[/\\]", path)):
        if name in CASED_MODELS or name in LOWER_CASE_MODELS:
            return name in LOWER_CASE_MODELS
    return None


def validate_case_matches_checkpoint(
    do_lower_case: bool, init_checkpoint: str | None
) -> None:
    """Raises an InputError where a released model's folder says otherwise."""
    released = released_case(init_checkpoint or "")
    if released not in (None, do_lower_case):
        raise InputError(
            f"`init_checkpoint={init_checkpoint}` is "
            f"{'an uncased' if released else 'a cased'} model but "
            f"`do_lower_case` is {do_lower_case}; "
            f"pass `do_lower_case={released}`"
        )


def _decompose(text: str) -> str:
    """NFD. Python's takes time in proportion to the square of the number of
    combining marks on one letter; of many such marks each is decomposed alone,
    and they are put in order here (Unicode 15, section 3.11)."""
    if len(text) <= MAX_DECOMPOSED_AT_ONCE:
        return unicodedata.normalize("NFD", text)
    chars = [c for char in text for c in unicodedata.normalize("NFD", char)]
    classes = [*map(unicodedata.combining, chars)]
    letters = itertools.accumulate(x == 0 for x in classes)
    order = [*zip(letters, classes, strict=True)]
    return "".join(
        chars[i] for i in sorted(range(len(chars)), key=order.__getitem__)
    )


def _is_punctuation(char: str) -> bool:
    """Unicode's punctuation, and ASCII's signs ($, +, ^, ...) besides."""
    if char.isascii():
        return char.isprintable() and not char.isalnum() and char != " "
    return unicodedata.category(char).startswith("P")
