"""A tokenizer of whichever kind a vocabulary is for.

vocab.txt: BERT's word pieces. vocab.json with merges.txt: the byte-level pieces
of RoBERTa or ModernBERT. data/tokenizer_folder.py finds them, with their
settings, in a folder.
"""

import dataclasses
import json
import zlib
from collections.abc import Mapping
from typing import Any

from bert_keras.data.added_tokens import AddedToken
from bert_keras.data.bpe import ByteLevelBpe, check_byte_level, load_byte_level
from bert_keras.data.tokenization import MAX_CHARS_PER_WORD, FullTokenizer
from bert_keras.data.vocabulary import check_vocabulary
from bert_keras.errors import InputError
from bert_keras.files import is_byte_level

Tokenizer = FullTokenizer | ByteLevelBpe


@dataclasses.dataclass(frozen=True)
class TokenizerSettings:
    """What a tokenizer does beside its vocabulary; fields as in
    `FullTokenizer`, with Google's defaults."""

    do_lower_case: bool = True
    strip_accents: bool | None = None  # None: as do_lower_case
    tokenize_chinese_chars: bool = True
    remove_private_use: bool = False
    max_input_chars_per_word: int = MAX_CHARS_PER_WORD
    add_prefix_space: bool = False  # of byte-level tokens
    added_tokens: tuple[AddedToken, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """In JSON's types."""
        values = dataclasses.asdict(self)
        return values | {"added_tokens": list(values["added_tokens"])}


def load_tokenizer(
    vocab_file: str, settings: TokenizerSettings | None = None
) -> Tokenizer:
    """Byte-level tokens keep case and accents, whatever the settings say."""
    settings = settings or TokenizerSettings()
    if is_byte_level(vocab_file):
        return load_byte_level(
            vocab_file, settings.added_tokens, settings.add_prefix_space
        )
    values = vars(settings).copy()
    del values["add_prefix_space"]
    return FullTokenizer(vocab_file, **values)


def check_any_vocabulary(vocab_file: str) -> dict[str, int]:
    """token -> id, or an InputError that says what is wrong with the file."""
    check = check_byte_level if is_byte_level(vocab_file) else check_vocabulary
    return check(vocab_file)


def check_ids(
    vocab: Mapping[str, int], vocab_size: int, vocab_file: str
) -> None:
    """Raises an InputError if an id is not below a config's `vocab_size`."""
    if (largest := max(vocab.values())) >= vocab_size:
        raise InputError(
            f"{vocab_file} holds ids up to {largest} but vocab_size in the "
            f"config is {vocab_size}; change `vocab_file` or "
            "`bert_config_file`"
        )


def vocabulary_digest(vocab: Mapping[str, int]) -> str:
    """Tells other tokens, or others in their places, from these."""
    checksum = zlib.crc32(json.dumps(vocab).encode())
    return f"{len(vocab)} pieces, checksum {checksum:08x}"
