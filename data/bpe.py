"""RoBERTa's and ModernBERT's tokenizer: byte-level byte pair encoding, with
character offsets.

A text is cut into words, each with the space before it; the bytes of a word
are its first tokens, each written as one printable character; then, of all
pairs of neighbours, the one that merges.txt lists first is joined, until none
is listed. Nothing is lost: tokens give the text back, and nothing is unknown.
Radford et al. 2019, section 2.2; Liu et al. 2019, section 4.4. Upstream file:
openai/gpt-2 src/encoder.py. Hugging Face `tokenizers` does the work.
"""

import functools
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bert_keras.data.added_tokens import AddedToken, AddedTokens
from bert_keras.data.special_tokens import byte_level_tokens
from bert_keras.data.tokenization import MAX_CACHED_WORDS, Span, cut
from bert_keras.errors import InputError
from bert_keras.files import MERGES, parse_json

BREAK = re.compile("(?<=[A-Za-z]) (?=[A-Za-z])")  # where a word begins
MAX_ID = 2**31 - 1  # of an int32

# The character for each byte: itself where it shows, in Latin 1; the others are
# 256, 257 ... in their order, so that a space is U+0120.
_SHOWN = {*range(33, 127), *range(161, 256)} - {173}  # a soft hyphen
_HIDDEN = [byte for byte in range(256) if byte not in _SHOWN]
ALPHABET = tuple(
    chr(byte if byte in _SHOWN else 256 + _HIDDEN.index(byte))
    for byte in range(256)
)
SPACE = ALPHABET[ord(" ")]
# No character has these in UTF-8, and a vocabulary may do without them.
NEVER = {ALPHABET[byte] for byte in (0xC0, 0xC1, *range(0xF5, 0x100))}
_BYTES = {char: byte for byte, char in enumerate(ALPHABET)}


class ByteLevelBpe:
    """Text to tokens, and tokens to ids and back.

    Args:
      vocab: token -> id.
      merges: pairs of tokens, the first to be joined first.
      added_tokens: kept whole wherever a text has them.
      add_prefix_space: a text is read as if it began with a space.
    """

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Iterable[tuple[str, str]],
        added_tokens: Sequence[AddedToken] = (),
        add_prefix_space: bool = False,
    ):
        from tokenizers import Tokenizer, models, pre_tokenizers, processors

        self.special_tokens = byte_level_tokens(vocab)
        added = {token.content: token.id for token in added_tokens}
        self.vocab = {**vocab, **added}
        self.inv_vocab = {i: piece for piece, i in self.vocab.items()}
        self.added_tokens = AddedTokens(
            added_tokens, lambda text: (text, range(len(text)))
        )
        self.add_prefix_space = add_prefix_space
        # The library refuses pairs of what is not in the vocabulary, which
        # can never be joined.
        known = [(a, b) for a, b in merges if a in vocab and b in vocab]
        self.library = Tokenizer(
            models.BPE(dict(vocab), known, cache_capacity=MAX_CACHED_WORDS)
        )
        self.library.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=False
        )
        self.library.post_processor = processors.ByteLevel(
            add_prefix_space=False, trim_offsets=True
        )

    def tokenize(self, text: str, enough: int | None = None) -> list[str]:
        """The text's tokens: "the sea." gives the, U+0120 sea, and a dot.

        What looks like a special token ("</s>") is text like any other.
        """
        pieces = []
        text = self._normalized(text)
        for added, start, end in self.added_tokens.split(text):
            if added is not None:
                pieces.append(added.content)
            else:
                readable, _ = self._readable(text[start:end])
                for _, part in cut(readable, BREAK):
                    pieces += self.library.encode(part).tokens
                    if enough is not None and len(pieces) >= enough:
                        return pieces
        return pieces

    def tokenize_with_offsets(self, text: str) -> list[Span]:
        """`tokenize`'s tokens, each with the characters it comes from.

        Without the space before them. Tokens of one character share it.
        """
        form = self.special_tokens.unicode_form
        if form is None or unicodedata.is_normalized(form, text):
            return self._spans(text)
        normal, sources = "", []  # of each of its characters
        for own in clusters_of(text):
            chars = unicodedata.normalize(form, text[own.start : own.stop])
            normal += chars
            sources += [own] * len(chars)
        sources.append(range(len(text), len(text)))
        return [
            Span(
                span.token,
                sources[span.start].start,
                sources[max(span.start, span.end - 1)].stop,
            )
            for span in self._spans(normal)
        ]

    def _spans(self, text: str) -> list[Span]:
        spans = []
        for added, first, last in self.added_tokens.split(text):
            if added is not None:
                spans.append(Span(added.content, first, last))
                continue
            readable, shift = self._readable(text[first:last])
            for place, part in cut(readable, BREAK):
                found = self.library.encode(part)
                begin = first + place - shift
                spans += [
                    Span(piece, begin + start, begin + end)
                    for piece, (start, end) in zip(
                        found.tokens, found.offsets, strict=True
                    )
                ]
        return spans

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of many texts, faster than one by one."""
        normal = map(self._normalized, texts)
        parts = [(text, [*self.added_tokens.split(text)]) for text in normal]
        found = iter(
            self.library.encode_batch_fast(
                [
                    self._readable(text[start:end])[0]
                    for text, own in parts
                    for added, start, end in own
                    if added is None
                ]
            )
        )
        return [
            [
                number
                for added, _, _ in own
                for number in ([added.id] if added else next(found).ids)
            ]
            for _, own in parts
        ]

    def _normalized(self, text: str) -> str:
        form = self.special_tokens.unicode_form
        return unicodedata.normalize(form, text) if form else text

    def _readable(self, text: str) -> tuple[str, int]:
        """The text as the library can read it, and how many characters more
        it has at its beginning. Half a surrogate pair is U+FFFD."""
        if not text.isascii():
            text = re.sub("[\ud800-\udfff]", "\ufffd", text)
        if self.add_prefix_space and text and not text.startswith(" "):
            return f" {text}", 1
        return text, 0

    def tokenize_words(self, words: Sequence[str]) -> list[list[str]]:
        """Each word's tokens in " ".join(words)."""
        return [
            self.tokenize(f" {word}" if number else word)
            for number, word in enumerate(words)
        ]

    def to_text(self, pieces: Iterable[str]) -> str:
        """What they were made from, with the space before; a character that
        they hold in part only is U+FFFD."""
        added = {token.content for token in self.added_tokens.tokens}
        return read_bytes(
            "".join(
                "".join(ALPHABET[byte] for byte in piece.encode())
                if piece in added
                else piece
                for piece in pieces
            )
        )

    def split_like_pieces(self, text: str) -> list[str]:
        """The text, from which `to_text` does not differ."""
        return [text]

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        return [self.vocab[token] for token in tokens]

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.inv_vocab[number] for number in ids]


def clusters_of(text: str) -> Iterator[range]:
    """Yields the places of characters that go into a Unicode form together,
    such as a letter and its accents."""
    start = 0
    for end in range(1, len(text) + 1):
        before = text[max(start, end - 3) : end]  # all that can be composed
        if end == len(text) or not _joins(before, text[end]):
            yield range(start, end)
            start = end


def _joins(before: str, char: str) -> bool:
    """Whether it is an accent or, as a Korean letter, composed with others."""
    composed = functools.partial(unicodedata.normalize, "NFC")
    apart = composed(before) + composed(char)
    return bool(unicodedata.combining(char)) or composed(before + char) != apart


def read_bytes(text: str) -> str:
    """The text that these characters of `ALPHABET` write; others are left out,
    and U+FFFD stands for bytes that are not a character."""
    content = bytes(_BYTES[char] for char in text if char in _BYTES)
    return content.decode(errors="replace")


def load_byte_level(
    vocab_file: str,
    added_tokens: Sequence[AddedToken] = (),
    add_prefix_space: bool = False,
) -> ByteLevelBpe:
    """The tokenizer of a vocab.json, with the merges.txt beside it.

    Raises:
      InputError: one of the two is absent or damaged.
    """
    vocab = check_byte_level(vocab_file)
    path = os.path.join(os.path.dirname(vocab_file), MERGES)
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            lines = file.read().split("\n")
    except OSError as error:
        raise InputError(
            f"cannot read {path} ({error.strerror}); a byte-level vocabulary "
            f"is two files, {vocab_file} and {MERGES} beside it"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text") from error
    merges = []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#version"):  # the first line
            continue
        first, _, second = line.partition(" ")
        if not first or not second or " " in second:
            raise InputError(
                f"line {number} of {path} is {line!r}; expected two tokens "
                "with a space between"
            )
        if first + second not in vocab:
            raise InputError(
                f"line {number} of {path} joins {first!r} and {second!r}, "
                "which the vocabulary does not have; the two files do not "
                "belong together"
            )
        merges.append((first, second))
    return ByteLevelBpe(vocab, merges, added_tokens, add_prefix_space)


def check_byte_level(vocab_file: str) -> dict[str, int]:
    """Loads a vocab.json, or says in an InputError what is wrong with it."""
    try:
        with open(vocab_file, "rb") as file:
            vocab = parse_json(file.read())
    except OSError as error:
        raise InputError(
            f"cannot read `vocab_file={vocab_file}`: {error.strerror}"
        ) from error
    except ValueError as error:
        raise InputError(
            f"the vocabulary {vocab_file} is not a JSON file ({error})"
        ) from error
    if not isinstance(vocab, dict) or not all(
        type(number) is int and 0 <= number <= MAX_ID
        for number in vocab.values()
    ):
        raise InputError(
            f"{vocab_file} is not a vocabulary: expected an object with a "
            "whole number for each token"
        )
    if len(set(vocab.values())) < len(vocab):
        raise InputError(f"{vocab_file} gives one id to several tokens")
    pieces = byte_level_tokens(vocab).tokens
    wanted = *pieces, *(char for char in ALPHABET if char not in NEVER)
    missing = [x for x in wanted if x not in vocab]
    if missing:
        raise InputError(
            f"{vocab_file} is not a byte-level vocabulary like RoBERTa's: it "
            f"lacks {len(missing)} of the tokens that each has, such as "
            f"{missing[0]!r}"
        )
    return vocab
