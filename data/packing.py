"""Several pre-training records in one row, so that little of it is padding.

Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination":
which records share a row is a bin-packing problem, met by best fit with the
longest first; attention stays within each sequence and positions begin anew in
each, so that a model computes of a packed record what it does of it alone.
Theirs packs the histogram of the whole corpus; ours a window of records, so
that memory does not grow with the corpus.

Shapes: R records, B rows, S positions, P masked predictions, K sequences of a
row.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_keras.data.input_features import InputFeatures
from bert_keras.data.record_schema import NEXT_SENTENCE, Batch, Feature


@dataclasses.dataclass(frozen=True)
class PackingConfig:
    """What fits into a row, and how many records are looked at for it."""

    max_seq_length: int = 128  # positions of a record, and of a row
    max_predictions_per_seq: int = 20  # masks of a record, and of a row
    max_sequences_per_pack: int = 3  # records in a row, as in the paper
    window_records: int = 4096  # among which those for a row are sought


def plan_rows(records: Batch, config: PackingConfig) -> list[list[int]]:
    """Which records share a row: best fit, the longest first.

    Seven records for rows of 10 positions, 5 predictions and 3 sequences:

        record       0  1  2  3  4  5  6
        length       4  9  6  3  3  2  1
        predictions  1  4  2  1  1  1  2

    From the longest on, each goes where it leaves the fewest positions empty:
    1 into a row of its own, 2 into another, which 0 fills. 3, 4 and 5 make a
    third row, which is full by its number of sequences. One position is left
    in the first row, but only one prediction: 6 begins a fourth.

        [[1], [2, 0], [3, 4, 5], [6]]

    Returns:
      Record numbers, row by row; rows in the order of their longest records,
      so that their lengths are as mixed as those of the records.
    """
    lengths = records["input_mask"].sum(-1)  # [R]
    num_predictions = _asked(records).sum(-1)
    return best_fit(
        np.stack([lengths, num_predictions, np.ones_like(lengths)]),
        (
            config.max_seq_length,
            config.max_predictions_per_seq,
            config.max_sequences_per_pack,
        ),
    )


def best_fit(sizes: np.ndarray, room: Sequence[int]) -> list[list[int]]:
    """As `plan_rows`, of any sizes.

    Args:
      sizes: int [kinds, R], what each record takes of each kind of room; the
        first is what is to be filled.
      room: of a row, by kind.
    """
    # As many rows as could be needed. An empty one has the most room, so it
    # is taken where no other will do.
    left = np.repeat(np.array(room)[:, None], sizes.shape[1], axis=1)
    rows: list[list[int]] = [[] for _ in sizes[0]]
    for number in np.argsort(-sizes[0], kind="stable").tolist():
        size = sizes[:, number]
        fits = (left >= size[:, None]).all(0)
        best = int(np.where(fits, left[0], room[0] + 1).argmin())
        rows[best].append(number)
        left[:, best] -= size
    return sorted(row for row in rows if row)


def fill_rows(
    records: Batch, rows: Sequence[Sequence[int]], features: Sequence[Feature]
) -> dict[str, np.ndarray]:
    """The features of `packed_features` in rows, each [B, length].

    Two records, [CLS] 5 [SEP] 6 [SEP] with the 6 hidden and [CLS] 8 [SEP] 9 9
    [SEP] with the 8 hidden, in a row of 13 positions, 4 predictions and 3
    sequences ([CLS] is 2, [SEP] 3, [MASK] 4):

        input_ids                2 5 3 4 3 2 4 3 9 9 3 0 0
        segment_ids              0 0 0 1 1 0 0 0 1 1 1 0 0
        position_ids             0 1 2 3 4 0 1 2 3 4 5 0 0
        sequence_numbers         1 1 1 1 1 2 2 2 2 2 2 0 0
        masked_lm_positions      3 6 0 0
        masked_lm_ids            6 8 0 0
        masked_lm_weights        1 1 0 0
        next_sentence_positions  0 5 0
        next_sentence_labels     0 1 0
        next_sentence_weights    1 1 0
    """
    filled = {
        feature.name: np.zeros(
            (len(rows), feature.length),
            "int32" if feature.dtype == "int64" else "float32",
        )
        for feature in features
    }
    lengths = records["input_mask"].sum(-1)
    columns = records["input_ids"], records["segment_ids"], lengths
    sequences = [
        InputFeatures(ids[:length], segment_ids[:length])
        for ids, segment_ids, length in zip(*columns, strict=True)
    ]
    begins = np.array(pack_sequences(sequences, rows, filled), np.int32)
    numbers = [number for own in rows for number in own]
    row = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    here = row, _columns(row)
    filled["next_sentence_positions"][here] = begins[numbers]
    if NEXT_SENTENCE in filled:
        filled[NEXT_SENTENCE][here] = records[NEXT_SENTENCE][numbers, 0]
    filled["next_sentence_weights"][here] = 1.0
    is_asked = _asked(records)[numbers]
    row = np.repeat(row, is_asked.sum(1))
    here = row, _columns(row)
    positions = records["masked_lm_positions"] + begins[:, None]
    filled["masked_lm_positions"][here] = positions[numbers][is_asked]
    for name in ("masked_lm_ids", "masked_lm_weights"):
        filled[name][here] = records[name][numbers][is_asked]
    return filled


def _columns(row: np.ndarray) -> np.ndarray:
    """Side by side: of rows 0 0 0 1 3 3, columns 0 1 2 0 0 1."""
    return np.arange(len(row)) - np.searchsorted(row, row)


def pack_sequences(
    sequences: Sequence[InputFeatures],
    rows: Sequence[Sequence[int]],
    filled: Batch,
) -> list[int]:
    """Writes sequences side by side into rows, all zeros so far.

    Args:
      rows: the numbers of those in each row.
      filled: input_ids, segment_ids, position_ids and sequence_numbers.

    Returns:
      Where in its row each sequence begins; 0 if it is in none.
    """
    begins = [0] * len(sequences)
    positions = np.arange(filled["input_ids"].shape[1])
    for row, numbers in enumerate(rows):
        begin = 0
        for place, number in enumerate(numbers, 1):
            length = len(sequences[number].input_ids)
            here = row, slice(begin, begin + length)
            filled["input_ids"][here] = sequences[number].input_ids
            filled["segment_ids"][here] = sequences[number].segment_ids
            filled["position_ids"][here] = positions[:length]
            filled["sequence_numbers"][here] = place
            begins[number] = begin
            begin += length
    return begins


def unpack_rows(rows: Batch) -> dict[str, np.ndarray]:
    """The records [R] of rows, one after another: `fill_rows` backwards.

    They have the features of `pretraining_features`, as wide as in the row.
    """
    row, sequence = np.nonzero(rows["next_sentence_weights"] > 0)  # [R]
    start = rows["next_sentence_positions"][row, sequence, None]
    is_own = rows["sequence_numbers"][row] == sequence[:, None] + 1  # [R, S]
    positions = rows["masked_lm_positions"][row]  # [R, P]
    is_asked = _asked(rows)[row] & np.take_along_axis(is_own, positions, 1)
    records = {
        "input_ids": _to_front(rows["input_ids"][row], is_own),
        "input_mask": _to_front(is_own.astype("int32"), is_own),
        "segment_ids": _to_front(rows["segment_ids"][row], is_own),
        "masked_lm_positions": _to_front(positions - start, is_asked),
    }
    for name in ("masked_lm_ids", "masked_lm_weights"):
        records[name] = _to_front(rows[name][row], is_asked)
    if NEXT_SENTENCE in rows:
        records[NEXT_SENTENCE] = rows[NEXT_SENTENCE][row, sequence, None]
    return records


def _to_front(values: np.ndarray, is_own: np.ndarray) -> np.ndarray:
    """[R, L]: of 5 6 7 8 with 0 1 0 1, 6 8 0 0."""
    order = np.argsort(~is_own, 1, kind="stable")
    return np.take_along_axis(np.where(is_own, values, 0), order, 1)


def _asked(records: Batch) -> np.ndarray:
    """bool [..., P]: a prediction, not padding."""
    return records["masked_lm_weights"] > 0
