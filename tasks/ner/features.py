"""Words of a text, as a model reads them and answers about each of them.

A word is asked for at its first token (Devlin et al. 2018, section 5.3). A text
that is longer than a row is read through overlapping windows, and a word is
taken from the one where it has most context. A whole document may be a text:
then each of its words sees what the document has on both sides, and a row of
128 positions answers about some 58 words of CoNLL-2003, where a row for each
sentence, filled up with its neighbours, would answer about 14 or 15.

Shapes: N rows, P words of a row, T words of a text.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_keras.data.input_features import (
    InputFeatures,
    make_features,
    max_context_window,
    windows,
)
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.tasks.base import Outputs


@dataclasses.dataclass(frozen=True)
class WordText:
    """A text's windows, and where in them its words are answered."""

    rows: list[InputFeatures]  # `positions`: where words begin; [0]: nowhere
    places: list[tuple[int, int]]  # of each word: its window, and number in it
    num_tokens: int  # of the text, whatever the windows

    def join(self, outputs: Sequence[Outputs], name: str) -> np.ndarray:
        """The windows' [P, ...] to the words' [T, ...]."""
        return np.stack([outputs[w][name][i] for w, i in self.places])


def read_words(
    words: Sequence[str], tokenizer: Tokenizer, max_length: int, stride: int
) -> WordText:
    """Cuts words into tokens and these into windows.

    Of a b c d, a token each, in windows of three tokens, one apart: a b c
    answers about a and b, which lies in its middle, b c d about c and d. A word
    without tokens is the unknown token.

    Args:
        max_length: of a window, special tokens included.
        stride: tokens between the starts of two windows.
    """
    special_tokens = tokenizer.special_tokens
    cut = [
        own or [special_tokens.unknown]
        for own in tokenizer.tokenize_words(words)
    ]
    tokens = [token for own in cut for token in own]
    firsts = np.cumsum([0, *(len(own) for own in cut[:-1])])
    spans = windows(
        len(tokens), max_length - special_tokens.count(False), stride
    )
    # Of each window the first of the words that begin in it, and one past the
    # last.
    begins, ends = (
        np.searchsorted(firsts, [getattr(span, end) for span in spans])
        for end in ("start", "stop")
    )
    rows = []
    for span, begin, end in zip(spans, begins, ends, strict=True):
        shown = tokens[span.start : span.stop]
        # Where no word begins, the first mark: all rows ask for something.
        positions = (1 + firsts[begin:end] - span.start).tolist() or [0]
        rows.append(
            make_features(shown, None, max_length, tokenizer, positions)
        )
    owners = np.array(max_context_window(spans, len(tokens)))[firsts]
    places = [
        (int(owner), int(number - begins[owner]))
        for number, owner in enumerate(owners)
    ]
    return WordText(rows, places, len(tokens))


def label_arrays(
    texts: Sequence[WordText], numbers: Sequence[Sequence[int]]
) -> dict[str, np.ndarray]:
    """What tasks/ner/model.py learns from, of all rows of all texts.

    Args:
        numbers: of the labels of each text's words.

    Returns:
        label_ids: a word's number + 1 in the window that answers about it, 0
        in others; and label_positions: where in its row each lies; int32
        [N, P].
    """
    rows = [row for text in texts for row in text.rows]
    shape = len(rows), max(len(row.positions) for row in rows)
    label_ids, label_positions = np.zeros((2, *shape), np.int32)
    for i, row in enumerate(rows):
        label_positions[i, : len(row.positions)] = row.positions
    first_row = 0
    for text, its_numbers in zip(texts, numbers, strict=True):
        for (window, i), number in zip(text.places, its_numbers, strict=True):
            label_ids[first_row + window, i] = number + 1
        first_row += len(text.rows)
    return {"label_ids": label_ids, "label_positions": label_positions}
