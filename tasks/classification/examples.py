"""Labelled texts and pairs, and the rows that a model reads of them.

Upstream file: run_classifier.py, InputExample and convert_single_example.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from bert_keras.data.input_features import (
    InputFeatures,
    describe_lengths,
    make_features,
    windows,
)
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import with_flags
from bert_keras.training.inference import with_progress

Label = str | tuple[str, ...] | None  # several, as a JSON list has them
Pair = tuple[list[str], list[str] | None]  # the pieces of a text or of two


class InputExample(NamedTuple):
    guid: str  # where it comes from, for people
    text_a: str
    text_b: str | None
    label: Label  # None: not known


def encode_examples(
    examples: Sequence[InputExample],
    tokenizer: Tokenizer,
    max_seq_length: int,
    doc_stride: int | None = None,
) -> list[list[InputFeatures]]:
    """The rows of each example: one, or the windows of a long text.

    Without a stride, what is too long is cut, and with one so is the first
    text of a pair where it leaves no room. Lengths in tokens, [CLS] and [SEP]
    included, and the number of texts that were cut go to standard error.

    Args:
        doc_stride: pieces between the beginnings of two windows; of a pair the
            second text is cut into windows.
    """
    encoded, num_cut, lengths = [], 0, []
    for example in with_progress(examples, len(examples), " texts", "tokens"):
        first, second = tokenize_example(example, tokenizer)
        rows, is_cut = encode_pair(
            (first, second), tokenizer, max_seq_length, doc_stride
        )
        encoded.append(rows)
        num_cut += is_cut
        lengths.append(
            len(first)
            + len(second or ())
            + tokenizer.special_tokens.count(second is not None)
        )
    if lengths:
        text = (
            f"{len(lengths):,} texts of {describe_lengths(lengths)}; {num_cut} "
            f"of {len(lengths)} were cut to `max_seq_length={max_seq_length}`"
        )
        print(with_flags(text), file=sys.stderr)
    return encoded


def encode_example(
    example: InputExample,
    tokenizer: Tokenizer,
    max_seq_length: int,
    doc_stride: int | None = None,
) -> tuple[list[InputFeatures], bool]:
    """Its rows, and whether it was cut."""
    pair = tokenize_example(example, tokenizer)
    return encode_pair(pair, tokenizer, max_seq_length, doc_stride)


def tokenize_example(example: InputExample, tokenizer: Tokenizer) -> Pair:
    first = tokenizer.tokenize(example.text_a)
    # As upstream, a second text without pieces is none.
    return first, tokenizer.tokenize(example.text_b or "") or None


def encode_pair(
    pair: Pair,
    tokenizer: Tokenizer,
    max_seq_length: int,
    doc_stride: int | None = None,
) -> tuple[list[InputFeatures], bool]:
    """The rows of a tokenized text or pair, and whether it was cut.

    Windows together show all of the last text: of 7 pieces with room for 4 and
    a stride of 2 they are 0-3, 2-5 and 4-6. The first text of a pair keeps
    half of the room, or what the second leaves of it.
    """
    first, second = pair
    room = max_seq_length - tokenizer.special_tokens.count(second is not None)
    pairs = [pair]
    is_cut = len(first) + len(second or ()) > room
    if is_cut and doc_stride is not None:
        if second is None:
            spans = windows(len(first), room, doc_stride)
            pairs = [(first[span.start : span.stop], None) for span in spans]
            is_cut = False
        else:
            shown = first[: max(room // 2, room - len(second))]
            spans = windows(len(second), room - len(shown), doc_stride)
            pairs = [(shown, second[span.start : span.stop]) for span in spans]
            is_cut = len(shown) < len(first)
    rows = [make_features(*pair, max_seq_length, tokenizer) for pair in pairs]
    return rows, is_cut
