"""RoBERTa's tokenizer: byte-level byte pair encoding, with character offsets.

A text is cut into words, each with the space before it; the bytes of a word
are its first pieces, each written as one printable character; then, of all
pairs of neighbours, the one that merges.txt lists first is joined, until none
is listed. Nothing is lost: pieces give the text back, and nothing is unknown.
Radford et al. 2019, section 2.2; Liu et al. 2019, section 4.4. Upstream file:
openai/gpt-2 src/encoder.py. Pieces and offsets are those of Hugging Face
`tokenizers`, as far as this Python's Unicode tables are its own.
"""

import heapq
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_keras.data.added_tokens import AddedToken, AddedTokens
from bert_keras.data.special_tokens import ROBERTA
from bert_keras.data.tokenization import MAX_CACHED_WORDS, Span
from bert_keras.errors import InputError

MERGES = "merges.txt"  # beside a vocab.json
VERSION = "#version"  # begins the first line of a merges.txt

Pair = tuple[str, str]


def _make_alphabet() -> tuple[str, ...]:
    """The character for each byte: itself where it shows, in Latin 1; the
    others are 256, 257 ... in their order, so that a space is U+0120."""
    shown = {*range(33, 127), *range(161, 256)} - {173}  # a soft hyphen
    hidden = [byte for byte in range(256) if byte not in shown]
    codes = dict(zip(hidden, range(256, 512), strict=False))
    return tuple(chr(codes.get(byte, byte)) for byte in range(256))


ALPHABET = _make_alphabet()
SPACE = ALPHABET[ord(" ")]
_BYTES = {char: byte for byte, char in enumerate(ALPHABET)}


class _Kinds(dict[int, str]):
    """Code point -> an ASCII character of its kind; itself if it is one.

    So the words of any text are found by `_WORDS`, which knows ASCII alone:
    Python's `re` has no classes of Unicode's letters and numbers.
    """

    def __missing__(self, code_point: int) -> str:
        char = chr(code_point)
        kind = char if char.isascii() else _kind(char)
        self[code_point] = kind
        return kind


def _kind(char: str) -> str:
    category = unicodedata.category(char)
    if category.startswith("L"):
        return "a"
    if category.startswith("N"):
        return "0"
    is_space = category.startswith("Z") or char == "\x85"
    return "\t" if is_space else "!"


_KINDS = _Kinds()
_WORDS = re.compile(  # upstream's, for ASCII
    r"'(?:s|t|re|ve|m|ll|d)"
    r"| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+"
    r"|\s+(?!\S)|\s+",  # of several spaces the last is the next word's
    re.ASCII,
)


class ByteLevelBpe:
    """Text to pieces, and pieces to ids and back; a `Tokenizer`.

    Args:
      vocab: piece -> id.
      merges: pairs of pieces, the first to be joined first.
      added_tokens: kept whole wherever a text has them.
      add_prefix_space: a text is read as if it began with a space.
    """

    special_tokens = ROBERTA

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Iterable[Pair],
        added_tokens: Sequence[AddedToken] = (),
        add_prefix_space: bool = False,
    ):
        added = {token.content: token.id for token in added_tokens}
        self.vocab = {**vocab, **added}
        self.inv_vocab = {i: piece for piece, i in self.vocab.items()}
        self.added_tokens = AddedTokens(
            added_tokens, lambda text: (text, range(len(text)))
        )
        self.add_prefix_space = add_prefix_space
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._cache: dict[str, list[Span]] = {}

    def tokenize(self, text: str) -> list[str]:
        """The text's pieces: "the sea." gives the, U+0120 sea, and a dot.

        What looks like a mark ("</s>") is text like any other.
        """
        return [span.piece for span in self.tokenize_with_offsets(text)]

    def split_words(self, text: str) -> list[str]:
        """What pieces are made of one by one: "the sea." is the, a space and
        sea, and a dot."""
        return [word for word, _ in self._locate_words(text)]

    def tokenize_with_offsets(self, text: str) -> list[Span]:
        """`tokenize`'s pieces, each with the characters it comes from.

        Without the space before them. Pieces of one character share it.
        """
        spans = []
        parts = self.added_tokens.split(text) if self.added_tokens else None
        for added, first, last in parts or [(None, 0, len(text))]:
            if added is not None:
                spans.append(Span(added.content, first, last))
                continue
            for word, place in self._locate_words(text[first:last]):
                for piece, start, end in self.split_word(word):
                    begin = first + place
                    spans.append(Span(piece, begin + start, begin + end))
        return spans

    def _locate_words(self, text: str) -> Iterable[tuple[str, int]]:
        """Words, and the places in `text` where they begin."""
        start = 0
        if self.add_prefix_space and text and not text.startswith(" "):
            text, start = f" {text}", -1
        kinds = text if text.isascii() else text.translate(_KINDS)
        return (
            (text[slice(*word.span())], start + word.start())
            for word in _WORDS.finditer(kinds)
        )

    def tokenize_words(self, words: Sequence[str]) -> list[list[str]]:
        """Each word's pieces in " ".join(words)."""
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

    def split_word(self, word: str) -> list[Span]:
        """A word's pieces, as `split_words` gives it, with their places in it,
        remembered."""
        if word not in self._cache:
            if len(self._cache) >= MAX_CACHED_WORDS:
                self._cache.clear()
            chars = [char.encode(errors="surrogatepass") for char in word]
            pieces = self._join([ALPHABET[b] for char in chars for b in char])
            self._cache[word] = _place(pieces, list(map(len, chars)))
        return self._cache[word]

    def _join(self, pieces: list[str]) -> list[str]:
        """Joins the listed pair of the lowest rank, of equals the first, again
        and again. Each piece grows where it begins and is "" elsewhere."""
        end = len(pieces)
        pieces.append("")  # in no listed pair, so that the last has a neighbour
        after, before = list(range(1, end + 2)), list(range(-1, end))
        waiting: list[tuple[int, int]] = []  # rank, where the pair begins

        def consider(place: int) -> None:
            pair = pieces[place], pieces[after[place]]
            if pair in self._ranks:
                heapq.heappush(waiting, (self._ranks[pair], place))

        for place in range(end):
            consider(place)
        while waiting:
            rank, place = heapq.heappop(waiting)
            other = after[place]
            if self._ranks.get((pieces[place], pieces[other])) != rank:
                continue  # one of the two has been joined to another
            pieces[place] += pieces[other]
            pieces[other] = ""
            after[place] = after[other]
            before[after[place]] = place
            consider(place)
            if before[place] >= 0:
                consider(before[place])
        return [piece for piece in pieces if piece]


def read_bytes(text: str) -> str:
    """The text that these characters of `ALPHABET` write; others are left out,
    and U+FFFD stands for bytes that are no character."""
    known = map(_BYTES.get, text)
    content = bytes(byte for byte in known if byte is not None)
    return content.decode(errors="replace")


def _place(pieces: Sequence[str], num_bytes: Sequence[int]) -> list[Span]:
    """The characters of each piece, of a word whose characters have so many
    bytes."""
    owners = [i for i, number in enumerate(num_bytes) for _ in range(number)]
    spans, begin = [], 0
    for piece in pieces:
        end = begin + len(piece)
        num_before = len(piece) - len(piece.lstrip(SPACE))
        num_after = len(piece) - len(piece.rstrip(SPACE))
        first = owners[begin] + num_before
        last = owners[end - 1] + 1 - num_after
        spans.append(Span(piece, first, max(first, last)))
        begin = end
    return spans


def load_byte_level(
    vocab_file: str,
    added_tokens: Sequence[AddedToken] = (),
    add_prefix_space: bool = False,
) -> ByteLevelBpe:
    """The tokenizer of a vocab.json, with the merges.txt beside it.

    Raises:
      InputError: as `check_byte_level`, or merges.txt is absent or damaged.
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
        if line and not line.startswith(VERSION):
            merges.append(_read_pair(line, vocab, f"line {number} of {path}"))
    return ByteLevelBpe(vocab, merges, added_tokens, add_prefix_space)


def _read_pair(line: str, vocab: Mapping[str, int], place: str) -> Pair:
    first, _, second = line.partition(" ")
    if not first or not second or " " in second:
        raise InputError(
            f"{place} is {line!r}; expected two pieces with a space between"
        )
    if first + second not in vocab:
        raise InputError(
            f"{place} joins {first!r} and {second!r}, which is no piece of the "
            "vocabulary; they do not belong together"
        )
    return first, second


def check_byte_level(
    vocab_file: str, vocab_size: int | None = None
) -> dict[str, int]:
    """Loads a vocab.json, or says in an InputError what is wrong with it.

    Args:
      vocab_size: the config's; every id must lie below it. None: not checked.
    """
    vocab = _read_vocab(vocab_file)
    needed = (*ROBERTA.pieces, *ALPHABET)
    missing = [piece for piece in needed if piece not in vocab]
    if missing:
        raise InputError(
            f"{vocab_file} is no byte-level vocabulary as RoBERTa's: it lacks "
            f"{len(missing)} of the pieces that each has, such as "
            f"{missing[0]!r}"
        )
    if vocab_size is not None and max(vocab.values()) >= vocab_size:
        raise InputError(
            f"{vocab_file} holds ids up to {max(vocab.values())} but "
            f"vocab_size in the config is {vocab_size}; change `vocab_file` or "
            "`bert_config_file`"
        )
    return vocab


def _read_vocab(vocab_file: str) -> dict[str, int]:
    try:
        with open(vocab_file, encoding="utf-8") as file:
            vocab: Any = json.load(file)
    except OSError as error:
        raise InputError(
            f"cannot read `vocab_file={vocab_file}`: {error.strerror}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"the vocabulary {vocab_file} is no JSON file ({error})"
        ) from error
    if not isinstance(vocab, dict) or not all(
        type(number) is int and number >= 0 for number in vocab.values()
    ):
        raise InputError(
            f"{vocab_file} is no vocabulary: expected an object with a whole "
            "number for each piece"
        )
    if len(set(vocab.values())) < len(vocab):
        raise InputError(f"{vocab_file} gives one id to several pieces")
    return vocab
