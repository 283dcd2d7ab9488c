"""Rows: what a model reads, unpadded; and batches of rows of like length.

Padding to the longest text that may come would be most of the work (on MRPC
128 positions hold 54 tokens in the mean). Rows are sorted instead, some
thousand at a time, and padded to one of a few lengths, so that few shapes are
compiled; of short rows a batch has more. Upstream file: run_classifier.py,
convert_single_example, for how a row is put together.

Shapes: B rows of a batch, S positions, P of them asked for.
"""

import collections
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from bert_keras.data.special_tokens import SpecialTokens
from bert_keras.data.tokenizers import Tokenizer

CHUNK_POSITIONS = 1 << 18  # read before they are sorted by length
FINE_POSITIONS = 1 << 17  # from which on finer lengths are worth their shapes


class InputFeatures(NamedTuple):
    """One input; its first two lists have its length."""

    input_ids: list[int]
    segment_ids: list[int]  # 0 for the first text, 1 for the second
    positions: Sequence[int] = ()  # of the tokens that are asked for


def describe_lengths(lengths: Sequence[int]) -> str:
    """What to print of the numbers of tokens in texts.

    >>> describe_lengths([5, 9, 7])
    '5 to 9 tokens, median 7'
    """
    median = statistics.median_low(lengths)
    return f"{min(lengths):,} to {max(lengths):,} tokens, median {median:,}"


class Document(Protocol):
    """A text to be read through any number of windows."""

    @property
    def rows(self) -> Sequence[InputFeatures]: ...


SomeDocument = TypeVar("SomeDocument", bound=Document)


class IndexedBatch(NamedTuple):
    indices: list[int]  # of its rows among all, counted from 0
    features: dict[str, np.ndarray]  # int32 [B, S]; rows past indices: zeros


def split_at_masks(text: str, tokenizer: Tokenizer) -> list[str]:
    """The text's tokens, each [MASK] that is written in it being one."""
    mask = tokenizer.special_tokens.mask
    *before, last = text.split(mask)
    tokens: list[str] = []
    for part in before:
        # A token for the blank brings its space along, where tokens have any.
        tokens += [*tokenizer.tokenize(part.rstrip()), mask]
    return tokens + tokenizer.tokenize(last)


def build_inputs(
    first: Sequence[str],
    second: Sequence[str] | None,
    max_length: int,
    special_tokens: SpecialTokens,
) -> tuple[list[str], list[int]]:
    """[CLS] first [SEP] second [SEP], cut to max_length, with its segments.

    The longer text loses its last token until both fit, the second one when
    they are equally long. ("a b c", "d e", 7) gives [CLS] a b [SEP] d e [SEP]
    and 0 0 0 0 1 1 1, with BERT's special tokens.
    """
    room = max_length - special_tokens.count(second is not None)
    start, end = [special_tokens.start], [special_tokens.end]
    if second is None:
        tokens = [*start, *first[:room], *end]
        return tokens, [0] * len(tokens)
    num_second = min(len(second), max(room // 2, room - len(first)))
    num_first = min(len(first), room - num_second)
    a = [*start, *first[:num_first], *end, *special_tokens.between]
    b = [*second[:num_second], *end]
    segments = [0] * len(a) + [special_tokens.second_segment] * len(b)
    return a + b, segments


def make_features(
    first: Sequence[str],
    second: Sequence[str] | None,
    max_length: int,
    tokenizer: Tokenizer,
    positions: Sequence[int] = (),
) -> InputFeatures:
    """What a model reads of the tokens of a text or a pair."""
    tokens, segments = build_inputs(
        first, second, max_length, tokenizer.special_tokens
    )
    ids = tokenizer.convert_tokens_to_ids(tokens)
    return InputFeatures(ids, segments, positions)


def pad(
    rows: Sequence[InputFeatures], length: int, num_rows: int
) -> dict[str, np.ndarray]:
    """input_ids, input_mask and segment_ids, each int32 [num_rows, length].

    Where a row has positions: those, int32 [num_rows, P], too.
    """
    names = ("input_ids", "input_mask", "segment_ids")
    features = {n: np.zeros((num_rows, length), np.int32) for n in names}
    num_positions = max((len(row.positions) for row in rows), default=0)
    if num_positions:
        width = 1 << (num_positions - 1).bit_length()  # few different shapes
        features["positions"] = np.zeros((num_rows, width), np.int32)
    for i, row in enumerate(rows):
        end = len(row.input_ids)
        features["input_ids"][i, :end] = row.input_ids
        features["input_mask"][i, :end] = 1
        features["segment_ids"][i, :end] = row.segment_ids
        if num_positions:
            features["positions"][i, : len(row.positions)] = row.positions
    return features


def segment_masks(segment_lengths: Any, length: int) -> tuple[Any, Any]:
    """Which places of a row hold something, and which of these the second text.

    Args:
      segment_lengths: int [B, 2], an array or a tensor: those of both texts,
        special tokens included; of the second 0 where there is none.

    Returns:
      Two of bool [B, length].
    """
    place = np.arange(length, dtype=np.int32)
    first_end = segment_lengths[:, :1]
    is_real = first_end + segment_lengths[:, 1:] > place
    return is_real, is_real & (first_end <= place)


def padded_length(length: int, fine_buckets: bool = False) -> int:
    """The next of 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, ...

    Two lengths to each doubling from 32 on; with `fine_buckets` eight: 4, 8,
    12, ..., 64, 72, 80, ..., 128, 144, ...
    """
    doubled = 1 << (length - 1).bit_length()
    step = max(64, doubled) // (16 if fine_buckets else 4)
    return -(-length // step) * step


def bucket_by_length(
    rows: Iterable[InputFeatures],
    batch_size: int,
    max_length: int,
    fine_buckets: bool = False,
    chunk_positions: int = CHUNK_POSITIONS,
) -> Iterator[IndexedBatch]:
    """Batches of rows of like length, of few shapes; the longest rows first.

    Rows are read a chunk at a time, and no batch mixes chunks: an endless
    stream is answered as it comes. For each length there is one number of
    rows, a power of two; a chunk that is smaller makes a smaller batch.

    Args:
      batch_size: rows of `max_length` that are not too much at once; of
        shorter ones there are more.
      max_length: positions that the model has; no row is longer.
      fine_buckets: more lengths, and so less padding, for chunks that are
        large: in few rows another shape costs more than it saves.
      chunk_positions: what may have to wait for a row before it, padded.
    """
    enough = min(FINE_POSITIONS, chunk_positions)
    for chunk, num_positions in _chunks(rows, chunk_positions):
        chunk.sort(key=lambda item: -len(item[1].input_ids))
        is_fine = fine_buckets and num_positions >= enough
        most_rows = 1 << (len(chunk) - 1).bit_length()
        begin = 0
        while begin < len(chunk):
            longest = len(chunk[begin][1].input_ids)
            length = min(padded_length(longest, is_fine), max_length)
            num_rows = batch_size * max_length // length
            num_rows = min(1 << (num_rows.bit_length() - 1), most_rows)
            part = chunk[begin : begin + num_rows]
            indices, members = zip(*part, strict=True)
            yield IndexedBatch(list(indices), pad(members, length, num_rows))
            begin += num_rows


def _chunks(
    rows: Iterable[InputFeatures], num_positions: int
) -> Iterator[tuple[list[tuple[int, InputFeatures]], int]]:
    """Yields numbered rows that together, padded, have about so many positions,
    and how many they have."""
    chunk: list[tuple[int, InputFeatures]] = []
    size = 0
    for item in enumerate(rows):
        chunk.append(item)
        size += padded_length(len(item[1].input_ids))
        if size >= num_positions:
            yield chunk, size
            chunk, size = [], 0
    if chunk:
        yield chunk, size


def windows(num_tokens: int, width: int, stride: int) -> list[range]:
    """Overlapping stretches of at most `width` tokens that cover them all.

    (7, 4, 2) gives tokens 0 to 3, 2 to 5 and 4 to 6. Upstream file:
    run_squad.py, convert_examples_to_features.
    """
    stride = min(stride, width)  # without gaps
    starts = range(0, max(0, num_tokens - width) + stride, stride)
    return [range(i, min(i + width, num_tokens)) for i in starts]


def max_context_window(spans: Sequence[range], num_tokens: int) -> list[int]:
    """For each token the number of the window where it has most context.

    That is: most neighbours on the side where it has fewer, and a hundredth of
    the window's length; of equals the first. Windows 0-3 and 2-5: token 2 has
    one neighbour on its right in the first and none on its left in the second.
    Upstream file: run_squad.py, _check_is_max_context.
    """
    best = np.full(num_tokens, -np.inf)
    owner = np.zeros(num_tokens, int)
    for number, span in enumerate(spans):
        place = np.arange(len(span))
        score = np.minimum(place, place[::-1]) + 0.01 * len(span)
        better = score > best[span.start : span.stop]
        best[span.start : span.stop][better] = score[better]
        owner[span.start : span.stop][better] = number
    return owner.tolist()


def run_documents(
    documents: Iterable[SomeDocument],
    run: Callable[[Iterator[IndexedBatch]], Iterator[Any]],
    batch_size: int,
    max_length: int,
    fine_buckets: bool = False,
    chunk_positions: int = CHUNK_POSITIONS,
) -> Iterator[tuple[SomeDocument, list[Any]]]:
    """Yields each document with the outputs of its rows, in order.

    Args:
      run: batches in, an output for each row in the rows' order out. It may
        read ahead; documents wait until it has answered.
      batch_size, max_length, fine_buckets, chunk_positions: as in
        `bucket_by_length`.
    """
    waiting: collections.deque[SomeDocument] = collections.deque()

    def rows() -> Iterator[InputFeatures]:
        for document in documents:
            waiting.append(document)
            yield from document.rows

    batches = bucket_by_length(
        rows(), batch_size, max_length, fine_buckets, chunk_positions
    )
    members: list[Any] = []
    for output in run(batches):
        while not waiting[0].rows:
            yield waiting.popleft(), []
        members.append(output)
        if len(members) == len(waiting[0].rows):
            yield waiting.popleft(), members
            members = []
    yield from ((document, []) for document in waiting)
