"""BERT's tokenizer as TensorFlow ops, for graphs that must do without Python.

Each character is replaced by what `FullTokenizer` makes of it between two
letters; the text is then split at white space, and word pieces are found for
all words at once, longest match first. That equals `FullTokenizer` wherever a
character is treated the same whatever its neighbours are. A text with one of
the others gets an error of its own: a capital sigma where case goes (its lower
case depends on the word's end) and, where accents go, some forty rare signs
that change their order with others; and so does a text that is not UTF-8.

Added tokens are first replaced by single characters that no text has: Unicode
has assigned nothing in its fourth plane.

Shapes: B texts, N words of all texts, L lengths of a token.
"""

import dataclasses
import functools
import re
import sys
import unicodedata
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from bert_keras.data.tokenization import (
    UNKNOWN,
    BasicTokenizer,
    FullTokenizer,
    is_ideograph,
)
from bert_keras.data.vocabulary import SEPARATOR, START
from bert_keras.errors import InputError

# What `rewrites` never gives, as BERT drops both characters.
UNCHANGED = "\0"
REFUSED = "\ufffd"
NOT_UTF8 = "the text is not UTF-8"
NOT_TOKENIZED = (
    "the text has a character whose treatment depends on its neighbours (such "
    "as a capital sigma in an uncased model); send ids instead"
)
TOO_LONG = (
    "the text is longer than the model's windows, and this graph does not join "
    "windows; send the ids of each window instead"
)
ADDED_TOKEN_MARK = chr(0x40000)  # before and after an added token
FIRST_ADDED_TOKEN = 0x40001  # the characters that stand for added tokens


class NoGraphError(InputError):
    """A tokenizer has no form in a graph."""


@functools.cache
def rewrites(**settings: bool) -> dict[str, str]:
    """Character -> its text after basic tokenization; unchanged ones are out.

    An uncased model has E -> e, "," -> " , ", and "" for a combining accent.
    The settings are `BasicTokenizer`'s arguments.
    """
    basic = BasicTokenizer(**settings)
    table = {}
    for char in map(chr, range(sys.maxunicode + 1)):
        # Unassigned characters stay as they are, unless they count as CJK.
        is_unassigned = unicodedata.category(char) in ("Cn", "Co", "Cs")
        if is_unassigned and not is_ideograph(char):
            continue
        text = " ".join(basic.tokenize(f"a{char}a"))[1:-1]
        reordered = any(map(unicodedata.combining, text))
        if (char == "Σ" and basic.do_lower_case) or (
            reordered and basic.strip_accents
        ):
            text = REFUSED
        if text != char:
            table[char] = text
    return table


class GraphTokenizer(tf.Module):
    """`tokenizer` and `data.input_features` in a graph.

    Args:
        max_length: of a row, in tokens.
        cuts: longer texts are cut to it; otherwise they are an error.

    Raises:
        NoGraphError: an added token cannot be found as the tokenizer does.
    """

    def __init__(
        self, tokenizer: FullTokenizer, max_length: int, cuts: bool = True
    ):
        super().__init__()
        self.max_length = max_length
        self.cuts = cuts
        basic = tokenizer.basic_tokenizer
        word_pieces = tokenizer.wordpiece_tokenizer
        table = rewrites(**dataclasses.asdict(basic))
        self.rewrites = _table(table, list(table.values()), UNCHANGED)
        self.drops_private_use = not basic.tokenize("\ue000")
        self.max_word_chars = word_pieces.max_input_chars_per_word
        self.unknown = tokenizer.vocab[UNKNOWN]
        self.start = tokenizer.vocab[START]
        self.separator = tokenizer.vocab[SEPARATOR]
        vocab = dict(word_pieces.vocab)
        self.max_piece_chars = max(map(len, vocab))
        exact: dict[str, str] = {}
        normalized: dict[str, str] = {}
        for i, token in enumerate(tokenizer.added_tokens.tokens):
            if token.single_word or token.content.strip() != token.content:
                raise NoGraphError(
                    f"the added token {token.content!r} has single_word or "
                    "white space at an end, for which a graph has no form"
                )
            char = chr(FIRST_ADDED_TOKEN + i)
            vocab[char] = token.id
            if token.normalized:
                text = "".join(table.get(c, c) for c in token.content)
                if text.strip():  # else it is found nowhere
                    normalized[text] = char
            else:
                exact[token.content] = char
        self.exact = _AddedTokens(exact) if exact else None
        self.normalized = _AddedTokens(normalized) if normalized else None
        self.ids = _table(vocab, tf.constant(list(vocab.values())), -1)

    def rows(
        self, first: tf.Tensor, second: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Texts [B] to input_ids, input_mask, segment_ids, int32 [B, S].

        S is the longest row's length. As upstream, a second text without
        tokens is none. With them come error, string [B]: why the row is not
        what `data.input_features` makes, "" where it is; and is_cut, bool
        [B]: whether tokens were cut off.
        """
        if second is None:
            second = tf.fill(tf.shape(first), "")
        (pieces, error), (others, error_2) = map(self.pieces, (first, second))
        error = tf.where(error == "", error_2, error)
        num_ends = tf.minimum(others.row_lengths(), 1)
        room = self.max_length - 2 - num_ends
        is_cut = pieces.row_lengths() + others.row_lengths() > room
        if not self.cuts:
            error = tf.where((error == "") & is_cut, TOO_LONG, error)
        start = tf.fill([pieces.nrows(), 1], self.start)
        end = tf.fill([pieces.nrows(), 1], self.separator)
        ends = tf.fill([tf.reduce_sum(num_ends)], self.separator)
        last = tf.RaggedTensor.from_row_lengths(ends, num_ends)
        # The first text keeps what the second leaves, but at least half.
        num_others = others.row_lengths()
        pieces = _first(pieces, tf.maximum(room - num_others, (room + 1) // 2))
        others = _first(others, room - pieces.row_lengths())
        before = tf.concat([start, pieces, end], axis=1)
        after = tf.concat([others, last], axis=1)
        segments = [tf.zeros_like(before), tf.ones_like(after)]
        ids = tf.concat([before, after], axis=1)
        return {
            "input_ids": ids.to_tensor(),
            "input_mask": tf.ones_like(ids).to_tensor(),
            "segment_ids": tf.concat(segments, axis=1).to_tensor(),
            "error": error,
            "is_cut": is_cut & (error == ""),
        }

    def pieces(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Texts [B] to ids [B, (tokens)], at least max_length where so many;
        and why a text has none, "" [B] where it is tokenized."""
        is_utf8 = texts == tf.strings.unicode_transcode(
            texts, "UTF-8", "UTF-8", errors="replace"
        )
        is_refused = tf.zeros_like(is_utf8)
        if self.exact or self.normalized:
            last = chr(FIRST_ADDED_TOKEN + 0xFFFF)
            reserved = f"(?s).*[{ADDED_TOKEN_MARK}-{last}].*"
            is_refused = tf.strings.regex_full_match(texts, reserved)
        if self.exact:
            texts = self.exact.replace(texts)
        if self.drops_private_use:
            texts = tf.strings.regex_replace(texts, r"\p{Co}", "")
        chars = tf.strings.unicode_split(texts, "UTF-8", errors="replace")
        flat = self.rewrites.lookup(chars.flat_values)
        is_refused |= tf.reduce_any(
            chars.with_flat_values(flat == REFUSED), axis=1
        )
        flat = tf.where(flat == UNCHANGED, chars.flat_values, flat)
        basic = tf.strings.reduce_join(chars.with_flat_values(flat), axis=-1)
        if self.normalized:
            basic = self.normalized.replace(basic)
        error = tf.where(is_refused, NOT_TOKENIZED, "")
        error = tf.where(is_utf8, error, NOT_UTF8)
        basic = tf.where(error == "", basic, "")
        # A word has at least one token, so no later word can matter.
        words = tf.strings.split(basic)[:, : self.max_length]
        pieces = words.with_values(self._split(words.values))
        return pieces.merge_dims(1, 2), error

    def _split(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Words [N] to ids [N, (tokens)]: a step finds one token of each."""
        # LiteRT divides by the number of words whose token a step finds: with
        # one more, whose tokens are dropped, the first step has at least one.
        words = tf.concat([words, ["a"]], axis=0)
        lengths = tf.strings.length(words, "UTF8_CHAR")
        failed = lengths > self.max_word_chars
        ids = tf.TensorArray(tf.int32, 0, dynamic_size=True)
        step = (tf.constant(0), tf.zeros_like(lengths), failed, ids)

        def open_words(start: tf.Tensor, failed: tf.Tensor) -> tf.Tensor:
            return (start < lengths) & ~failed

        def goes_on(
            i: tf.Tensor, start: tf.Tensor, failed: tf.Tensor, ids: Any
        ) -> tf.Tensor:
            return (i == 0) | tf.reduce_any(open_words(start, failed))

        def advance(
            i: tf.Tensor, start: tf.Tensor, failed: tf.Tensor, ids: Any
        ) -> tuple[Any, ...]:
            places = tf.where(open_words(start, failed))
            begin = tf.gather_nd(start, places)
            piece, size = self._longest_pieces(
                tf.gather_nd(words, places), begin
            )
            found = tf.tensor_scatter_nd_update(
                tf.fill(tf.shape(start), -1), places, piece
            )
            start = tf.tensor_scatter_nd_add(start, places, size)
            failed = tf.tensor_scatter_nd_update(failed, places, size == 0)
            return i + 1, start, failed, ids.write(i, found)

        _, _, failed, ids = tf.while_loop(goes_on, advance, step)
        found = tf.transpose(ids.stack())  # [N, steps], -1 where there is none
        none = tf.fill(tf.shape(found[:, 1:]), -1)
        unknown = tf.pad(none, [[0, 0], [1, 0]], constant_values=self.unknown)
        found = tf.where(failed[:, None], unknown, found)
        found = found[:-1]
        is_piece = found >= 0
        return tf.RaggedTensor.from_row_lengths(
            tf.gather_nd(found, tf.where(is_piece)),
            tf.reduce_sum(tf.cast(is_piece, tf.int64), axis=1),
        )

    def _longest_pieces(
        self, words: tf.Tensor, start: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Longest tokens of words [N] from their characters start [N] on.

        Ids [N] and lengths [N], -1 and 0 where none is known. The length of a
        word's last token may reach beyond the word; its text does not.
        """
        sizes = tf.broadcast_to(
            tf.range(1, self.max_piece_chars + 1),
            [tf.size(words), self.max_piece_chars],
        )  # [N, L]
        texts = tf.strings.substr(
            words[:, None],
            tf.broadcast_to(start[:, None], tf.shape(sizes)),
            sizes,
            unit="UTF8_CHAR",
        )
        prefix = tf.where(start > 0, "##", "")[:, None]
        ids = self.ids.lookup(prefix + texts)
        size = tf.reduce_max(tf.where(ids >= 0, sizes, 0), axis=1)
        return tf.gather(ids, tf.maximum(size - 1, 0), batch_dims=1), size


class _AddedTokens(tf.Module):
    """Replaces added tokens by the characters that stand for them."""

    def __init__(self, tokens: dict[str, str]):
        super().__init__()
        longest_first = sorted(tokens, key=len, reverse=True)
        self.pattern = f"({'|'.join(map(re.escape, longest_first))})"
        chars = [f" {char} " for char in tokens.values()]
        self.chars = _table(tokens, chars, UNCHANGED)

    def replace(self, texts: tf.Tensor) -> tf.Tensor:
        """The leftmost token counts, and of several there the longest."""
        marked = tf.strings.regex_replace(
            texts, self.pattern, rf"{ADDED_TOKEN_MARK}\1{ADDED_TOKEN_MARK}"
        )
        parts = tf.strings.split(marked, ADDED_TOKEN_MARK)
        flat = self.chars.lookup(parts.values)
        flat = tf.where(flat == UNCHANGED, parts.values, flat)
        return tf.strings.reduce_join(parts.with_values(flat), axis=-1)


def _first(pieces: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Each row's first tokens: as many as `lengths` [B] says, or all."""
    kept = tf.minimum(pieces.row_lengths(), lengths)
    places = tf.ragged.range(kept) + pieces.row_starts()[:, None]
    return places.with_values(tf.gather(pieces.values, places.values))


def _table(
    keys: Iterable[str], values: object, default: object
) -> tf.lookup.StaticHashTable:
    table = tf.lookup.KeyValueTensorInitializer(list(keys), values)
    return tf.lookup.StaticHashTable(table, default)
