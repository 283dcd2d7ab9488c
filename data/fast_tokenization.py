"""Whole blocks of lines to ids: BERT's tokenizer at a native library's speed.

tensorflow-text's FastBertTokenizer (Song et al. 2021, "Fast WordPiece
Tokenization") is many times as fast as data/tokenization.py and not quite
BERT's: it normalizes some characters otherwise, and breaks words where BERT
joins them. So a line goes to it only if every character in it is trusted: one
of which both made the same, alone and beside others, when it was first met. The
other lines, and all of them where tensorflow-text is missing, go the exact way.

Shapes: L lines of a block, N tokens of all of them, C code points of the block.
"""

import contextlib
import itertools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.data.bpe import ByteLevelBpe
from bert_keras.data.tokenization import FullTokenizer

NUM_CODE_POINTS = 0x110000
UNSEEN, DISTRUSTED, TRUSTED, TRUSTED_BREAK = range(4)  # the last ends words
CONTEXTS = ("{0}", "a{0}", "{0}a", "a{0}a", "a {0} a", "{0}{0}", ".{0}.")
SIGMA = "Σ"  # in lower case it is one of two letters, by its neighbours
# The library counts a word's bytes. A character becomes nine at the most: a
# hangul syllable, taken apart.
MAX_BYTES_PER_CHAR = 9
PART_CHARS = 1 << 20  # of a block that are encoded at once: they take 20 times
# that of memory


class Lines(NamedTuple):
    ids: np.ndarray  # int32 [N], line after line
    lengths: np.ndarray  # int64 [L], in tokens
    is_blank: np.ndarray  # bool [L], nothing but white space


class LineTokenizer:
    """Gives exactly the ids that `FullTokenizer` gives for each line."""

    def __init__(self, tokenizer: FullTokenizer):
        self.tokenizer = tokenizer
        # The library keeps no added tokens whole. A token that stands twice in
        # a vocabulary has the later number, as in load_vocab; not so there.
        numbers = [*tokenizer.vocab.values()]
        self._library = None
        if not tokenizer.added_tokens.tokens and numbers == [
            *range(len(numbers))
        ]:
            # It may not be installed, or refuse the vocabulary.
            with contextlib.suppress(
                ImportError, ValueError, tf.errors.OpError
            ):
                self._library = _Library(tokenizer)
        longest = tokenizer.wordpiece_tokenizer.max_input_chars_per_word
        self._longest_safe_word = longest // MAX_BYTES_PER_CHAR
        self._trust = np.full(NUM_CODE_POINTS, UNSEEN, np.uint8)
        self._trust[ord("\n")] = TRUSTED_BREAK

    def encode(self, block: bytes) -> Lines:
        lines = _read_lines(block)
        if self._library is None or len(block) <= PART_CHARS:
            return self._encode(lines)
        # A long document, or a long line in it
        cut = self.tokenizer.basic_tokenizer.stretches
        stretches: list[str] = []
        first = []
        for line in lines:
            first.append(len(stretches))
            stretches += [stretch for _, stretch in cut(line)]
        ends = np.cumsum([*map(len, stretches)])
        parts = [
            self._encode([text for text, _ in part])
            for _, part in itertools.groupby(
                zip(stretches, (ends // PART_CHARS).tolist(), strict=True),
                key=lambda pair: pair[1],
            )
        ]
        ids, lengths, is_blank = map(np.concatenate, zip(*parts, strict=True))
        return Lines(
            ids,
            np.add.reduceat(lengths, first),
            np.logical_and.reduceat(is_blank, first),
        )

    def _encode(self, lines: list[str]) -> Lines:
        is_exact = self._needs_exact("\n".join(lines), len(lines))
        exact = self.tokenizer
        slow = [
            exact.convert_tokens_to_ids(exact.tokenize(lines[i].strip()))
            for i in is_exact.nonzero()[0]
        ]
        if self._library is None:
            return _join(slow, [not line.strip() for line in lines])
        easy = [
            "" if is_slow else line
            for line, is_slow in zip(lines, is_exact.tolist(), strict=True)
        ]
        fast_ids, lengths = self._library.encode(easy)
        lengths[is_exact] = [len(ids) for ids in slow]
        ids = np.empty(lengths.sum(), np.int32)
        is_slow = np.repeat(is_exact, lengths)
        ids[~is_slow] = fast_ids
        ids[is_slow] = [number for line in slow for number in line]
        is_blank = lengths == 0
        for i in is_blank.nonzero()[0]:
            is_blank[i] = not lines[i].strip()
        return Lines(ids, lengths, is_blank)

    def _needs_exact(self, text: str, num_lines: int) -> np.ndarray:
        """bool [L]: lines with a distrusted character, or a very long word."""
        if self._library is None:
            return np.ones(num_lines, bool)
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)  # [C]
        trust = self._trust[points]
        unseen = np.unique(points[trust == UNSEEN])
        if len(unseen):
            self._trust[unseen] = self._library.examine(unseen.tolist())
            trust = self._trust[points]
        breaks = np.flatnonzero(trust == TRUSTED_BREAK)
        ends = np.append(breaks, len(points))
        is_long = np.diff(ends, prepend=-1) > self._longest_safe_word + 1
        faults = np.append(
            np.flatnonzero(trust == DISTRUSTED), ends[is_long] - 1
        )
        newlines = np.flatnonzero(points == ord("\n"))
        needs_exact = np.zeros(num_lines, bool)
        needs_exact[np.searchsorted(newlines, faults)] = True
        return needs_exact


class SpacedWordTokenizer:
    """Gives the ids that `FullTokenizer` gives, and marks what is one word.

    Words are what stands between spaces, as in Chinese text that a segmenter
    has cut, of which BERT's tokenizer makes a token of each sign. A token that
    continues such a word has its id plus the vocabulary's size.
    """

    def __init__(self, tokenizer: FullTokenizer):
        self.tokenizer = tokenizer
        self.offset = max(tokenizer.vocab.values()) + 1

    def encode(self, block: bytes) -> Lines:
        vocab, found, is_blank = self.tokenizer.vocab, [], []
        for line in _read_lines(block):
            ids: list[int] = []
            for word in line.split():
                pieces = self.tokenizer.tokenize(word)
                ids += [vocab[piece] for piece in pieces[:1]]
                ids += [vocab[piece] + self.offset for piece in pieces[1:]]
            found.append(ids)
            is_blank.append(not line.strip())
        return _join(found, is_blank)


class ByteLevelLines:
    """Gives the ids that `ByteLevelBpe` gives for each line.

    Sentences of a document are running text, as byte-level tokens were learned
    from: each but the first is read with a space before it, so that its first
    word is the token that it would be after the sentence before.
    """

    def __init__(self, tokenizer: ByteLevelBpe):
        self.tokenizer = tokenizer

    def encode(self, block: bytes) -> Lines:
        lines = [line.strip() for line in _read_lines(block)]
        ids = self.tokenizer.encode_batch(
            f" {line}" if before and line else line
            for before, line in itertools.pairwise(["", *lines])
        )
        return _join(ids, [not line for line in lines])


def _read_lines(block: bytes) -> list[str]:
    """Lines end at "\\n" alone; "\\r" is dropped, as in Google's code.

    Raises:
        UnicodeDecodeError: the block is not UTF-8.
    """
    text = block.replace(b"\r", b"").removesuffix(b"\n").decode()
    return text.split("\n")


def _join(ids: Sequence[list[int]], is_blank: Sequence[bool]) -> Lines:
    return Lines(
        np.fromiter(itertools.chain.from_iterable(ids), np.int32),
        np.array([len(line) for line in ids], np.int64),
        np.array(is_blank),
    )


BlockTokenizer = LineTokenizer | SpacedWordTokenizer | ByteLevelLines


class _Library:
    """FastBertTokenizer, watched."""

    def __init__(self, tokenizer: FullTokenizer):
        import tensorflow_text

        self.tokenizer = tokenizer
        lower_case = tokenizer.basic_tokenizer.do_lower_case
        self._fast = tensorflow_text.FastBertTokenizer(
            list(tokenizer.vocab),
            lower_case_nfd_strip_accents=lower_case,
            max_bytes_per_word=(
                tokenizer.wordpiece_tokenizer.max_input_chars_per_word
            ),
            token_out_type=tf.int32,
        )
        self._normalizer = tensorflow_text.FastBertNormalizer(lower_case)

    def encode(self, lines: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids, and how many of them each line has."""
        ragged = self._fast.tokenize(tf.constant(lines, tf.string))
        return ragged.values.numpy(), ragged.row_lengths().numpy()

    def examine(self, code_points: list[int]) -> list[int]:
        """Whether each is to be trusted."""
        chars = [chr(point) for point in code_points]
        normalized = self._normalizer.normalize(chars).numpy().tolist()
        texts = [context.format(char) for char in chars for context in CONTEXTS]
        ids, lengths = self.encode(texts)
        found = zip(texts, np.split(ids, lengths.cumsum()[:-1]), strict=True)
        exact, basic = self.tokenizer, self.tokenizer.basic_tokenizer
        trust = []
        for char, theirs in zip(chars, normalized, strict=True):
            agrees = [
                exact.convert_tokens_to_ids(exact.tokenize(text))
                == ids.tolist()
                for text, ids in itertools.islice(found, len(CONTEXTS))
            ]
            # What ids cannot tell: both may be [UNK], of different characters.
            normal = "".join(basic.tokenize(char))
            depends_on_neighbours = char == SIGMA or any(
                map(unicodedata.combining, char + normal)
            )
            if (
                not all(agrees)
                or depends_on_neighbours
                or "".join(theirs.decode().split()) != normal
            ):
                trust.append(DISTRUSTED)
            elif len(basic.tokenize(f"a{char}a")) > 1:
                trust.append(TRUSTED_BREAK)
            else:
                trust.append(TRUSTED)
        return trust
