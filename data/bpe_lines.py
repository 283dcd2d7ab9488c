"""Whole blocks of lines to the ids of byte-level pieces, as corpora need them.

Sentences of a document are running text, as byte-level pieces were learned
from: each but the first is read with a space before it, so that its first word
is the piece that it would be after the sentence before.
"""

import itertools

import numpy as np

from bert_keras.data.bpe import ByteLevelBpe
from bert_keras.data.fast_tokenization import Lines
from bert_keras.data.tokenization import MAX_CACHED_WORDS


class ByteLevelLines:
    """Gives the ids that `ByteLevelBpe` gives for each line."""

    def __init__(self, tokenizer: ByteLevelBpe):
        self.tokenizer = tokenizer
        self._words = _WordIds(tokenizer)

    def encode(self, block: bytes) -> Lines:
        """Lines end at "\\n" alone; white space around them is dropped, and
        each "\\r".

        Raises:
            UnicodeDecodeError: the block is not UTF-8.
        """
        text = block.replace(b"\r", b"").removesuffix(b"\n").decode()
        lines = [line.strip() for line in text.split("\n")]
        found = [
            self._encode(f" {line}" if before and line else line)
            for before, line in itertools.pairwise(["", *lines])
        ]
        return Lines(
            np.fromiter(itertools.chain.from_iterable(found), np.int32),
            np.array([len(ids) for ids in found]),
            np.array([not line for line in lines]),
        )

    def _encode(self, line: str) -> list[int]:
        if self.tokenizer.added_tokens:
            pieces = self.tokenizer.tokenize(line)
            return self.tokenizer.convert_tokens_to_ids(pieces)
        words = map(self._words.__getitem__, self.tokenizer.split_words(line))
        return list(itertools.chain.from_iterable(words))


class _WordIds(dict[str, list[int]]):
    """Word -> ids; what has been asked for is remembered."""

    def __init__(self, tokenizer: ByteLevelBpe):
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, word: str) -> list[int]:
        if len(self) >= MAX_CACHED_WORDS:
            self.clear()
        pieces = [span.piece for span in self._tokenizer.split_word(word)]
        ids = self._tokenizer.convert_tokens_to_ids(pieces)
        self[word] = ids
        return ids
