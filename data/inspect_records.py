"""Records of any kind, read to look at them: what inspect_records.py does.

The kind and the lengths are taken from the first record of each file; records
without masks do not say how long they may be. Packed rows come as the sequences
in them, and all pre-training records with input_mask and segment_ids.

Shapes: B records of a batch, R sequences in them (R = B unless rows are
packed), S positions, P masked predictions.
"""

import dataclasses
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bert_keras.data import packing, record_schema, tfrecords, validate_records
from bert_keras.data.bpe import SPACE, read_bytes
from bert_keras.data.input_features import segment_masks
from bert_keras.data.instances import InstanceConfig
from bert_keras.data.record_schema import Batch, Feature
from bert_keras.data.special_tokens import SpecialTokens
from bert_keras.data.streaming_stats import (
    DuplicateFinder,
    HeavyHitters,
    format_lengths,
    format_share,
    format_table,
    format_top,
)
from bert_keras.data.validate_records import Kind
from bert_keras.errors import InputError

BATCH_RECORDS = 1000  # parsed at a time
NUM_SEGMENTS = 2  # A and B
NUM_EXAMPLES = 10  # of what is commonest in a report
NUM_LABELS = 20  # that it shows

Record = Mapping[str, np.ndarray]  # a feature's name -> its numbers [length]


@dataclasses.dataclass(frozen=True)
class RecordBatch:
    """Records of one file that come one after another."""

    path: str
    first: int  # the first one's number in its file, from 1
    values: Batch
    sizes: np.ndarray | None = None  # [B]: packed rows' numbers of sequences


def find_table(
    paths: Sequence[str], max_seq_length: int = InstanceConfig.max_seq_length
) -> tuple[Feature, ...]:
    """The features that the files' records have, one table for all of them.

    Args:
      max_seq_length: of records without masks.

    Raises:
      InputError: a file has no record or one of no known kind, or two files
        differ in kind or length.
    """
    tables: list[tuple[Feature, ...]] = []
    for path in paths:
        found = validate_records.read_first(path)
        sizes = {
            name: max(len(x.int64_list.value), len(x.float_list.value))
            for name, x in found.items()
        }
        length = sizes.get("input_ids", 0)
        kind = validate_records.kind_of(found)
        table: tuple[Feature, ...] = ()
        if kind is not None:
            table = validate_records.table_of(
                found,
                max_seq_length if kind is Kind.UNMASKED else length,
                sizes.get("masked_lm_positions", 0),
                NUM_SEGMENTS,
            )
        elif "label_ids" in found:
            is_float = found["label_ids"].HasField("float_list")
            dtype = "float32" if is_float else "int64"
            label = Feature("label_ids", sizes["label_ids"], dtype)
            table = record_schema.classifier_features(
                length, label, NUM_SEGMENTS
            )
        elif "unique_ids" in found:
            has_answers = "start_positions" in found
            table = record_schema.span_features(
                length, has_answers, NUM_SEGMENTS
            )
        if not length or not table or not all(f.length for f in table):
            raise InputError(
                f"{path}, record 1 is of no kind that is known here: it holds "
                f"{', '.join(sorted(found)) or 'nothing'}, but "
                "create_pretraining_data.py writes masked_lm_positions, "
                "run_classifier.py label_ids and run_squad.py unique_ids, each "
                "beside input_ids"
            )
        # The flags that set lengths are of other commands, but for this one.
        tables.append(
            tuple(
                f
                if f.is_trimmed
                else dataclasses.replace(f, length_argument="")
                for f in table
            )
        )
        if tables[-1] != tables[0]:
            own, other = (
                ", ".join(f"{f.name} [{f.length}]" for f in tables[i])
                for i in (-1, 0)
            )
            difference = validate_records.name_kinds([paths[0], path]) or (
                f"{path} has records of {own}, but {paths[0]} of {other}"
            )
            raise InputError(f"{difference}: inspect them apart")
    return tables[0]


def read_batches(
    paths: Sequence[str],
    table: Sequence[Feature],
    vocab_size: int,
    max_records: int | None = None,
) -> Iterator[RecordBatch]:
    """All records, or the first `max_records` of them, in the files' order.

    Raises:
      InputError: names the file and the record that does not fit the table,
        or that holds a number out of its range.
    """
    left = sys.maxsize if max_records is None else max_records
    for path in paths:
        first = 1
        records = tfrecords.read_records(path)
        while some := list(itertools.islice(records, min(BATCH_RECORDS, left))):
            values = validate_records.parse_records(table, some, [path])
            for feature in table:
                if feature.dtype != "int64":
                    continue
                numbers = values[feature.name]
                limit = feature.upper_limit(vocab_size)
                least, most = feature.bounds(vocab_size)
                wrong = np.argwhere((numbers < least) | (numbers > most))
                if len(wrong):
                    row, column = wrong[0]
                    upper = "or more" if limit is None else f"to {limit - 1:,}"
                    raise InputError(
                        f"{path}, record {first + row}: {feature.name} "
                        f"holds {numbers[row, column]}, expected 0 {upper}"
                        + ", the last of `vocab_file`"
                        * feature.is_piece_id
                    )
            validate_records.check_numbers(table, values, [path])
            # From here on they are as records with masks would have it.
            sizes = None
            if "next_sentence_weights" in values:
                sizes = (values["next_sentence_weights"] > 0).sum(1)
                values = packing.unpack_rows(values)
            if "segment_lengths" in values:
                is_real, is_second = segment_masks(
                    values["segment_lengths"], values["input_ids"].shape[1]
                )
                values["input_mask"] = is_real.astype("int32")
                values["segment_ids"] = is_second.astype("int32")
            yield RecordBatch(path, first, values, sizes)
            first += len(some)
            left -= len(some)


def rows(batch: Batch) -> Iterator[Record]:
    """The records of a batch, one by one."""
    for i in range(len(batch["input_ids"])):
        yield {name: values[i] for name, values in batch.items()}


def original_ids(batch: Batch | Record) -> np.ndarray:
    """The ids [R, S], or [S] of one record, before anything was masked."""
    ids = batch["input_ids"].copy()
    if "masked_lm_positions" in batch:
        asked = batch["masked_lm_weights"] > 0
        *row, _ = np.nonzero(asked)
        places = batch["masked_lm_positions"][asked]
        ids[(*row, places)] = batch["masked_lm_ids"][asked]
    return ids


def _count_masks(batch: Batch | Record, mask: int) -> dict[str, int]:
    """How tokens are hidden, for `MaskSummary`."""
    asked = batch["masked_lm_weights"] > 0  # [R, P], or [P] of one record
    places = batch["masked_lm_positions"]
    seen = np.take_along_axis(batch["input_ids"], places, -1)
    kept = asked & (seen == batch["masked_lm_ids"])
    masked = asked & ~kept & (seen == mask)
    return {
        "num_masked": int(masked.sum()),
        "num_kept": int(kept.sum()),
        "num_random": int((asked & ~kept & ~masked).sum()),
    }


def label(record: Record) -> str:
    """What is to be predicted of the whole record, in a word; "": nothing."""
    if "is_real_example" in record and not record["is_real_example"][0]:
        return "padding"
    if "next_sentence_labels" in record:
        return ("is next", "random next")[record["next_sentence_labels"][0]]
    if "label_ids" in record:
        return "label " + " ".join(f"{n:g}" for n in record["label_ids"])
    if "is_impossible" in record:
        return ("answer", "no answer")[record["is_impossible"][0]]
    return ""


def format_record(
    record: Record, pieces: Sequence[str], special_tokens: SpecialTokens
) -> str:
    """A record in a few lines: its texts, its label, its lengths; `pieces` are
    the vocabulary's, by their ids."""
    is_bytes = special_tokens.is_byte_level
    texts = _texts(record, pieces, special_tokens)

    def join(places: np.ndarray) -> str:
        joined = "".join(texts[place] for place in places)
        return read_bytes(joined) if is_bytes else joined.strip()

    segments = record["segment_ids"][record["input_mask"] == 1]
    lines = [
        f"{name}: {join(np.flatnonzero(segments == number))}"
        for number, name in enumerate("AB")
        if number in segments
    ]
    is_trimmed = "segment_lengths" in record  # the length is not stored
    of_length = "" if is_trimmed else f" of {len(record['input_ids'])}"
    lines.append(
        f"{label(record) or 'no label'}; {len(texts)}{of_length} tokens: "
        f"{np.sum(segments == 0)} in A, {np.sum(segments == 1)} in B"
    )
    if "masked_lm_positions" in record:
        mask = special_tokens.mask
        counts = _count_masks(record, pieces.index(mask))
        lines.append(
            f"{sum(counts.values())} of {len(record['masked_lm_weights'])} "
            f"predictions: {counts['num_masked']} {mask}, "
            f"{counts['num_kept']} kept, {counts['num_random']} random"
        )
    elif "segment_lengths" in record:
        lines.append("no masks: they are drawn when it is read")
    if label(record) == "answer":
        start, end = record["start_positions"][0], record["end_positions"][0]
        answer = join(np.arange(start, end + 1))
        lines.append(f"answer at {start} to {end}: {answer}")
    return "".join(f"  {line}\n" for line in lines)


def _texts(
    record: Record, pieces: Sequence[str], special_tokens: SpecialTokens
) -> list[str]:
    """Each real position's text, with a space before it if it begins a word.

    un ##aff ##able sea, with a hole in ##aff and sea kept: " un",
    "[MASK->##aff]", "able", " [kept sea]". Google's random token instead of
    sea: " [ship->sea]". Bytes are as they stand, with U+0120 for a space.
    """
    is_bytes = special_tokens.is_byte_level
    positions = record.get("masked_lm_positions", np.zeros(0, int))
    asked = set(positions[record.get("masked_lm_weights", positions) > 0])
    original = original_ids(record)
    texts, previous = [], special_tokens.start
    for position in np.flatnonzero(record["input_mask"] == 1):
        seen = pieces[record["input_ids"][position]]
        text = piece = pieces[original[position]]
        # A text that was cut inside a word keeps its "##" to show that.
        # Bytes say themselves where a space is.
        is_inner = (
            len(piece) > 2
            and piece.startswith("##")
            and previous not in (special_tokens.start, special_tokens.end)
        )
        if position in asked:
            shown = "MASK" if seen == special_tokens.mask else seen
            gap = SPACE if is_bytes else " "
            text = (
                f"[kept{gap}{piece}]"
                if seen == piece
                else f"[{shown}->{piece}]"
            )
        elif is_inner and not is_bytes:
            text = piece[2:]
        texts.append(text if is_inner or is_bytes else f" {text}")
        previous = piece
    return texts


def format_fill(sequences: Sequence[Record]) -> str:
    """How much a packed row holds."""
    count = len(sequences)
    if not count:
        return "packed: nothing"
    real = sum(int(record["input_mask"].sum()) for record in sequences)
    asked = sum(int(record["masked_lm_weights"].sum()) for record in sequences)
    return (
        f"packed: {count} sequence{'s' * (count > 1)}, "
        f"{real} of {len(sequences[0]['input_mask'])} tokens, "
        f"{asked} of {len(sequences[0]['masked_lm_weights'])} predictions"
    )


@dataclasses.dataclass(frozen=True)
class MaskSummary:
    """How pre-training records hide tokens; counts are of tokens."""

    max_predictions_per_seq: int
    num_full: int  # records with as many predictions as fit
    num_masked: int  # shown as [MASK]
    num_kept: int  # shown as they were
    num_random: int  # shown as another token


@dataclasses.dataclass(frozen=True)
class RecordSummary:
    """What a report says, in numbers."""

    max_seq_length: int
    num_records: int
    num_pieces: int  # without padding
    length_counts: list[int]  # [i]: records of i tokens
    num_full: int  # records without padding: their text may have been cut
    num_unknown: int  # tokens that are [UNK], before masking
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
    """Adds up batches of records of one kind, which were made with these tokens
    by their ids.

    Memory: 16 bytes a record, and some 60 more in the end.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        special_tokens: SpecialTokens,
        max_seq_length: int,
    ) -> None:
        self._pieces = pieces
        self._unknown = pieces.index(special_tokens.unknown)
        self._mask = pieces.index(special_tokens.mask)
        self._length_counts = np.zeros(max_seq_length + 1, np.int64)
        self._masks = Counter[str]()  # by field of `MaskSummary`
        self._num_unknown = 0
        self._labels, self._neighbours = HeavyHitters(), HeavyHitters()
        self._texts, self._records = DuplicateFinder(), DuplicateFinder()
        self._starts: list[tuple[int, str]] = []  # each file's first index
        self._sizes: list[np.ndarray] = []  # of all packed rows

    def add(self, found: RecordBatch) -> None:
        """Adds records; those of a file come one after another."""
        batch = found.values
        if found.sizes is not None:
            self._sizes.append(found.sizes)
        if not self._starts or self._starts[-1][1] != found.path:
            self._starts.append((int(self._length_counts.sum()), found.path))
        real = batch["input_mask"] == 1  # [R, S]
        ids = original_ids(batch)
        self._length_counts += np.bincount(
            real.sum(1), minlength=len(self._length_counts)
        )
        self._labels.update(filter(None, map(label, rows(batch))))
        unknown = np.argwhere((ids == self._unknown) & real)
        self._num_unknown += len(unknown)
        for row, column in unknown:
            around = ids[row, max(column - 1, 0) : column + 2]
            self._neighbours.update([" ".join(self._pieces[i] for i in around)])
        if "masked_lm_positions" in batch:
            asked = batch["masked_lm_weights"] > 0  # [R, P]
            self._masks.update(_count_masks(batch, self._mask))
            self._masks.update(num_full=int(asked.all(1).sum()))
            self._masks["max_predictions_per_seq"] = asked.shape[1]
        for record, text in zip(rows(batch), ids * real, strict=True):
            self._texts.add(text.tobytes() + record["segment_ids"].tobytes())
            self._records.add(
                b"".join(record[name].tobytes() for name in sorted(record))
            )

    def summary(self) -> RecordSummary:
        counts = self._length_counts
        sizes = np.concatenate(self._sizes) if self._sizes else None
        num_repeats, repeated = self._texts.repeats(NUM_EXAMPLES)
        places = []
        for repeat in repeated:
            index = repeat.first
            start, path = max(x for x in self._starts if x[0] <= index)
            if sizes is not None:  # a row's number, not a sequence's
                ends = sizes.cumsum()
                start, index = np.searchsorted(ends, [start, index], "right")
            places.append((f"{path}, record {index - start + 1}", repeat.times))
        return RecordSummary(
            max_seq_length=len(counts) - 1,
            num_records=int(counts.sum()),
            num_pieces=int(counts @ np.arange(len(counts))),
            length_counts=counts.tolist(),
            num_full=int(counts[-1]),
            num_unknown=self._num_unknown,
            unknown_neighbours=self._neighbours.top(NUM_EXAMPLES),
            labels=self._labels.top(NUM_LABELS),
            num_repeats=num_repeats,
            num_exact_repeats=self._records.repeats(0)[0],
            repeated=places,
            masks=MaskSummary(**self._masks) if self._masks else None,
            row_counts=None if sizes is None else np.bincount(sizes).tolist(),
        )


def format_report(summary: RecordSummary) -> str:
    """The summary as people read it."""
    whole, pieces = summary.num_records, summary.num_pieces
    masks, num_rows = summary.masks, summary.num_rows
    name, share = "records", format_share
    table = {}
    if summary.row_counts is not None:
        name = "sequences"
        table["packed rows"] = f"{num_rows:,}"
        for size, count in enumerate(summary.row_counts[1:], 1):
            table[f"  of {size}"] = share(count, num_rows)
        table["  sequences in a row"] = f"{whole / num_rows:.3f}"
    table |= {
        name: f"{whole:,}",
        **{f"  {name}": share(count, whole) for name, count in summary.labels},
        "  text of an earlier one": share(summary.num_repeats, whole),
        "  equal in every number": share(summary.num_exact_repeats, whole),
        "  full, perhaps cut": share(summary.num_full, whole),
        "positions each": f"{summary.max_seq_length:,}",
        "  filled": share(pieces, num_rows * summary.max_seq_length),
        "tokens": f"{pieces:,}",
        "  [UNK]": f"{summary.num_unknown:,}",
        "  [UNK], share": share(summary.num_unknown, pieces),
    }
    if masks is not None:
        asked = masks.num_masked + masks.num_kept + masks.num_random
        most = masks.max_predictions_per_seq
        table |= {
            "  to be predicted": share(asked, pieces),
            "predictions": f"{asked:,}",
            "  shown as [MASK]": share(masks.num_masked, asked),
            "  kept": share(masks.num_kept, asked),
            "  another token": share(masks.num_random, asked),
            f"{name} with all {most}": share(masks.num_full, whole),
        }
    return "\n".join([
        format_table(table),
        f"tokens in a {name[:-1]}",
        format_lengths(summary.length_counts),
        *format_top("around [UNK]", summary.unknown_neighbours),
        *format_top("texts that come again", summary.repeated),
    ])  # fmt: skip
