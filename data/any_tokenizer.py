"""A tokenizer of whichever kind a vocabulary is for.

vocab.txt: BERT's word pieces. vocab.json with merges.txt: RoBERTa's byte-level
pieces.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from data.byte_level_bpe import check_byte_level, load_byte_level
from data.marks import BERT, ROBERTA, Marks
from data.tokenization import FullTokenizer, Span
from data.vocabulary import check_vocabulary

BYTE_LEVEL = ".json"  # how the name of such a vocabulary ends


class Tokenizer(Protocol):
    """What is asked of one."""

    @property
    def marks(self) -> Marks: ...

    @property
    def vocab(self) -> Mapping[str, int]: ...

    @property
    def inv_vocab(self) -> Mapping[int, str]: ...

    def tokenize(self, text: str) -> list[str]: ...

    def tokenize_with_offsets(self, text: str) -> list[Span]: ...

    def tokenize_words(self, words: Sequence[str]) -> list[list[str]]:
        """Each word's pieces in " ".join(words)."""

    def to_text(self, pieces: Iterable[str]) -> str:
        """What they read as, but for a space before."""

    def split_like_pieces(self, text: str) -> list[str]:
        """Joined by spaces: the text as `to_text` would give it."""

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]: ...

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]: ...


def load_tokenizer(
    vocab_file: str,
    do_lower_case: bool = True,
    strip_accents: bool | None = None,
) -> Tokenizer:
    """Case and accents are of word pieces; of bytes each is what it is."""
    if vocab_file.endswith(BYTE_LEVEL):
        return load_byte_level(vocab_file)
    return FullTokenizer(vocab_file, do_lower_case, strip_accents)


def marks_of(vocab_file: str) -> Marks:
    return ROBERTA if vocab_file.endswith(BYTE_LEVEL) else BERT


def check_any_vocabulary(
    vocab_file: str, vocab_size: int | None = None
) -> dict[str, int]:
    """piece -> id, or an InputError that says what is wrong with the file.

    Args:
      vocab_size: the config's; every id must lie below it. None: not checked.
    """
    if vocab_file.endswith(BYTE_LEVEL):
        return check_byte_level(vocab_file, vocab_size)
    return check_vocabulary(vocab_file, vocab_size)


def vocabulary_digest(vocab_file: str) -> str:
    """Tells other pieces, or others in their places, from these."""
    vocab = check_any_vocabulary(vocab_file)
    checksum = zlib.crc32(json.dumps(vocab).encode())
    return f"{len(vocab)} pieces, checksum {checksum:08x}"
