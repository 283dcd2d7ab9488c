"""Labelled texts and pairs, and the rows that a model reads of them.

Upstream file: run_classifier.py, InputExample and convert_single_example.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from tqdm import tqdm

from data.rows import Row, join
from data.tokenization import FullTokenizer

SECONDS_WITHOUT_PROGRESS = 5.0


class Example(NamedTuple):
    guid: str  # where it comes from, for people
    text_a: str
    text_b: str | None
    label: str | None  # None: not known


def encode_examples(
    examples: Sequence[Example],
    tokenizer: FullTokenizer,
    max_seq_length: int,
    doc_stride: int | None = None,
) -> list[list[Row]]:
    """The rows of each example: one, or the windows of a long text.

    Without a stride, what is too long is cut, and how often is said on
    standard error.

    Args:
        doc_stride: pieces between the beginnings of two windows; of a pair the
            second text is cut into windows.
    """
    encoded, num_cut = [], 0
    for example in tqdm(
        examples, "tokens", unit=" texts", delay=SECONDS_WITHOUT_PROGRESS
    ):
        rows, is_cut = encode_example(
            example, tokenizer, max_seq_length, doc_stride
        )
        encoded.append(rows)
        num_cut += is_cut
    if num_cut:
        print(
            f"{num_cut} of {len(examples)} texts are longer than "
            f"--max_seq_length={max_seq_length} pieces and were cut",
            file=sys.stderr,
        )
    return encoded


def encode_example(
    example: Example,
    tokenizer: FullTokenizer,
    max_seq_length: int,
    doc_stride: int | None = None,
) -> tuple[list[Row], bool]:
    """Its rows, and whether it was cut."""
    first = tokenizer.tokenize(example.text_a)
    second = None
    if example.text_b is not None:
        second = tokenizer.tokenize(example.text_b)
    room = max_seq_length - (2 if second is None else 3)  # [CLS], [SEP]s
    is_cut = doc_stride is None and len(first) + len(second or ()) > room
    if doc_stride is not None:
        pairs = _windows(first, second, room, doc_stride)
    else:
        pairs = [(first, second)]
    rows = [join(*pair, max_seq_length) for pair in pairs]
    return [Row(tokenizer.convert_tokens_to_ids(t), s) for t, s in rows], is_cut


def _windows(
    first: list[str], second: list[str] | None, room: int, stride: int
) -> list[tuple[list[str], list[str] | None]]:
    """Pairs that together show all of the last text.

    Of 7 pieces with room for 4 and a stride of 2: 0-3, 2-5 and 4-6.
    """
    long = first if second is None else second
    if second is not None:
        first = first[: room // 2]
        room -= len(first)
    last = max(len(long) - room, 0)
    starts = range(0, last + stride, stride)
    parts = [long[start : start + room] for start in starts]
    if second is None:
        return [(part, None) for part in parts]
    return [(first, part) for part in parts]
