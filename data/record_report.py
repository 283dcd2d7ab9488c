"""What many records hold: lengths, fill, unknown words, masks, repeats.

Shapes: B records of a batch, or as many packed rows with more of them; S
positions, P masked predictions.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator

import numpy as np

from bert_keras.data import format_records, streaming_stats
from bert_keras.data.record_schema import Batch

NUM_EXAMPLES = 10  # of what is commonest
NUM_LABELS = 20  # that are shown


@dataclasses.dataclass(frozen=True)
class MaskSummary:
    """How pre-training records hide pieces; counts are of pieces."""

    max_predictions_per_seq: int
    num_full: int  # records with as many predictions as fit
    num_masked: int  # shown as [MASK]
    num_kept: int  # shown as they were
    num_random: int  # shown as another piece

    @property
    def num_predictions(self) -> int:
        return self.num_masked + self.num_kept + self.num_random


@dataclasses.dataclass(frozen=True)
class RecordSummary:
    """What a report says, in numbers."""

    max_seq_length: int
    num_records: int
    num_pieces: int  # without padding
    length_counts: list[int]  # [i]: records of i pieces
    num_full: int  # records without padding: their text may have been cut
    num_unknown: int  # pieces that are [UNK], before masking
    unknown_neighbours: list[tuple[str, int]]  # the commonest
    labels: list[tuple[str, int]]  # the commonest
    num_repeats: int  # records whose unmasked text came in one before
    num_exact_repeats: int  # whose every number came in one before
    repeated: list[tuple[str, int]]  # first record of a text, its occurrences
    masks: MaskSummary | None  # None: there are none
    row_counts: list[int] | None = None  # [i]: packed rows of i; None: unpacked

    @property
    def num_rows(self) -> int:
        return sum(self.row_counts) if self.row_counts else self.num_records


class RecordCounter:
    """Adds up batches of records of one kind.

    Memory: 16 bytes a record, and some 60 more in the end.

    Args:
      script: of the vocabulary that they were made with.
    """

    def __init__(
        self, script: format_records.PieceFormatter, max_seq_length: int
    ) -> None:
        self._pieces, special_tokens = script.pieces, script.special_tokens
        self._unknown = self._pieces.index(special_tokens.unknown)
        self._mask = self._pieces.index(special_tokens.mask)
        self._length_counts = np.zeros(max_seq_length + 1, np.int64)
        self._masks = Counter[str]()
        self._max_predictions_per_seq: int | None = None
        self._num_unknown = 0
        self._labels = streaming_stats.HeavyHitters[str]()
        self._neighbours = streaming_stats.HeavyHitters[str]()
        self._texts = streaming_stats.DuplicateFinder()
        self._records = streaming_stats.DuplicateFinder()
        self._starts: list[tuple[int, str]] = []  # each file's first index
        self._sizes: list[np.ndarray] = []  # of all packed rows
        self._num_records = 0

    def add(
        self, path: str, batch: Batch, sizes: np.ndarray | None = None
    ) -> None:
        """Adds records of a file, all of which come one after another.

        Args:
          sizes: of packed rows, how many of the records are in each.
        """
        if sizes is not None:
            self._sizes.append(sizes)
        if not self._starts or self._starts[-1][1] != path:
            self._starts.append((self._num_records, path))
        real = batch["input_mask"] == 1  # [B, S]
        ids = format_records.original_ids(batch)
        self._num_records += len(real)
        self._length_counts += np.bincount(
            real.sum(1), minlength=len(self._length_counts)
        )
        self._labels.update(
            filter(None, map(format_records.label, rows(batch)))
        )
        self._add_unknown(ids, real)
        if "masked_lm_positions" in batch:
            self._add_masks(batch)
        for row, text in zip(rows(batch), ids * real, strict=True):
            self._texts.add(text.tobytes() + row["segment_ids"].tobytes())
            self._records.add(b"".join(row[x].tobytes() for x in sorted(row)))

    def _add_unknown(self, ids: np.ndarray, real: np.ndarray) -> None:
        places = np.argwhere((ids == self._unknown) & real)
        self._num_unknown += len(places)
        self._neighbours.update(
            " ".join(
                self._pieces[i]
                for i in ids[row, max(column - 1, 0) : column + 2]
            )
            for row, column in places
        )

    def _add_masks(self, batch: Batch) -> None:
        asked = batch["masked_lm_weights"] > 0  # [B, P]
        seen = np.take_along_axis(
            batch["input_ids"], batch["masked_lm_positions"], 1
        )
        kept = asked & (seen == batch["masked_lm_ids"])
        masked = asked & ~kept & (seen == self._mask)
        self._max_predictions_per_seq = asked.shape[1]
        self._masks.update(
            num_full=int(asked.all(1).sum()),
            num_masked=int(masked.sum()),
            num_kept=int(kept.sum()),
            num_random=int((asked & ~kept & ~masked).sum()),
        )

    def summary(self) -> RecordSummary:
        num_repeats, repeated = self._texts.repeats(NUM_EXAMPLES)
        counts = self._length_counts
        masks = None
        if self._max_predictions_per_seq is not None:
            masks = MaskSummary(self._max_predictions_per_seq, **self._masks)
        return RecordSummary(
            max_seq_length=len(counts) - 1,
            num_records=self._num_records,
            num_pieces=int(counts @ np.arange(len(counts))),
            length_counts=counts.tolist(),
            num_full=int(counts[-1]),
            num_unknown=self._num_unknown,
            unknown_neighbours=self._neighbours.top(NUM_EXAMPLES),
            labels=self._labels.top(NUM_LABELS),
            num_repeats=num_repeats,
            num_exact_repeats=self._records.repeats(0)[0],
            repeated=[(self._place(r.first), r.times) for r in repeated],
            masks=masks,
            row_counts=(
                np.bincount(np.concatenate(self._sizes)).tolist()
                if self._sizes
                else None
            ),
        )

    def _place(self, index: int) -> str:
        """The file and number, from 1, of the record that came as `index`."""
        start, path = max(x for x in self._starts if x[0] <= index)
        if self._sizes:
            ends = np.concatenate(self._sizes).cumsum()
            start, index = np.searchsorted(ends, [start, index], "right")
        return f"{path}, record {index - start + 1}"


def rows(batch: Batch) -> Iterator[format_records.Record]:
    """The records of a batch, one by one."""
    for i in range(len(batch["input_ids"])):
        yield {name: values[i] for name, values in batch.items()}


def format_report(summary: RecordSummary) -> str:
    """The summary as people read it."""
    whole, pieces = summary.num_records, summary.num_pieces
    share = streaming_stats.format_share
    name = "records" if summary.row_counts is None else "sequences"
    table = {
        **_row_rows(summary),
        name: f"{whole:,}",
        **{f"  {name}": share(count, whole) for name, count in summary.labels},
        "  text of an earlier one": share(summary.num_repeats, whole),
        "  equal in every number": share(summary.num_exact_repeats, whole),
        "  full, perhaps cut": share(summary.num_full, whole),
        "positions each": f"{summary.max_seq_length:,}",
        "  filled": share(pieces, summary.num_rows * summary.max_seq_length),
        "pieces": f"{pieces:,}",
        "  [UNK]": f"{summary.num_unknown:,}",
        "  [UNK], share": share(summary.num_unknown, pieces),
        **_mask_rows(summary, name),
    }
    return "\n".join([
        streaming_stats.format_table(table),
        f"pieces in a {name[:-1]}",
        streaming_stats.format_lengths(summary.length_counts),
        *streaming_stats.format_top("around [UNK]", summary.unknown_neighbours),
        *streaming_stats.format_top("texts that come again", summary.repeated),
    ])  # fmt: skip


def _row_rows(summary: RecordSummary) -> dict[str, str]:
    """How many sequences are in packed rows."""
    if summary.row_counts is None:
        return {}
    number = summary.num_rows
    counts = enumerate(summary.row_counts[1:], 1)
    return {
        "packed rows": f"{number:,}",
        **{
            f"  of {size}": streaming_stats.format_share(count, number)
            for size, count in counts
        },
        "  sequences in a row": f"{summary.num_records / number:.3f}",
    }


def _mask_rows(summary: RecordSummary, name: str) -> dict[str, str]:
    masks, share = summary.masks, streaming_stats.format_share
    if masks is None:
        return {}
    number = masks.num_predictions
    most = masks.max_predictions_per_seq
    return {
        "  to be predicted": share(number, summary.num_pieces),
        "predictions": f"{number:,}",
        "  shown as [MASK]": share(masks.num_masked, number),
        "  kept": share(masks.num_kept, number),
        "  another piece": share(masks.num_random, number),
        f"{name} with all {most}": share(masks.num_full, summary.num_records),
    }
