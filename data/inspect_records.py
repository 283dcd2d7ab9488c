"""Reading records of any kind to look at them: what inspect_records.py does.

The kind and the lengths are taken from the first record of each file; records
without masks do not say how long they may be. Packed rows come as the sequences
in them, and all pre-training records with input_mask and segment_ids.

Shapes: B records of a batch, R sequences in them: R = B unless rows are packed.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_keras.data import packing, record_schema, tfrecords, validate_records
from bert_keras.data.input_features import segment_masks
from bert_keras.data.instances import InstanceConfig
from bert_keras.data.record_schema import Feature
from bert_keras.data.validate_records import Found, Kind
from bert_keras.errors import InputError

BATCH_RECORDS = 1000  # parsed at a time
NUM_SEGMENTS = 2  # A and B


@dataclasses.dataclass(frozen=True)
class RecordBatch:
    """Records of one file that come one after another."""

    path: str
    first: int  # the first one's number in its file, from 1
    values: Mapping[str, np.ndarray]  # a feature's name -> [R, length]
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
    tables = {path: _table_of(path, max_seq_length) for path in paths}
    for path, table in tables.items():
        if table != tables[paths[0]]:
            found = validate_records.name_kinds([paths[0], path]) or (
                f"{path} has records of {_in_words(table)}, but {paths[0]} of "
                f"{_in_words(tables[paths[0]])}"
            )
            raise InputError(f"{found}: inspect them apart")
    return tables[paths[0]]


def _in_words(table: Sequence[Feature]) -> str:
    return ", ".join(f"{f.name} [{f.length}]" for f in table)


def _table_of(path: str, max_seq_length: int) -> tuple[Feature, ...]:
    found = validate_records.read_first(path)
    table = _fitting_table(found, max_seq_length)
    if table is None or not all(feature.length for feature in table):
        raise InputError(
            f"{path}, record 1 is of no kind that is known here: it holds "
            f"{', '.join(sorted(found)) or 'nothing'}, but "
            "create_pretraining_data.py writes masked_lm_positions, "
            "run_classifier.py label_ids and run_squad.py unique_ids, each "
            "beside input_ids"
        )
    # The flags that set lengths are of other commands, but for this one.
    return tuple(
        f if f.is_trimmed else dataclasses.replace(f, length_argument="")
        for f in table
    )


def _numbers(feature: tf.train.Feature) -> tuple[int, str]:
    """How many numbers a feature holds, and their type."""
    if feature.HasField("float_list"):
        return len(feature.float_list.value), "float32"
    return len(feature.int64_list.value), "int64"


def _fitting_table(
    found: Found, max_seq_length: int
) -> tuple[Feature, ...] | None:
    """The table of records like this one; None: of no known kind."""
    sizes = {name: _numbers(found[name]) for name in found}
    length, _ = sizes.get("input_ids", (0, ""))
    if not length:
        return None
    kind = validate_records.kind_of(found)
    if kind is not None:
        num_predictions, _ = sizes.get("masked_lm_positions", (0, ""))
        width = max_seq_length if kind is Kind.UNMASKED else length
        return validate_records.table_of(
            found, width, num_predictions, NUM_SEGMENTS
        )
    if "label_ids" in found:
        label = Feature("label_ids", *sizes["label_ids"])
        return record_schema.classifier_features(length, label, NUM_SEGMENTS)
    if "unique_ids" in found:
        has_answers = "start_positions" in found
        return record_schema.span_features(length, has_answers, NUM_SEGMENTS)
    return None


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
    left = max_records
    for path in paths:
        serialized = tfrecords.read_records(path)
        first = 1
        while left != 0:
            number = BATCH_RECORDS if left is None else min(BATCH_RECORDS, left)
            chunk = list(itertools.islice(serialized, number))
            if not chunk:
                break
            values = validate_records.parse_records(table, chunk, [path])
            batch = RecordBatch(path, first, values)
            _check(batch, table, vocab_size)
            yield _in_sequences(batch)
            first += len(chunk)
            left = None if left is None else left - len(chunk)


def _in_sequences(batch: RecordBatch) -> RecordBatch:
    """The same as records with masks would have it, if they are to have any."""
    values, sizes = batch.values, batch.sizes
    if "next_sentence_weights" in values:
        sizes = (values["next_sentence_weights"] > 0).sum(1)
        values = packing.unpack_rows(values)
    if "segment_lengths" in values:
        is_real, is_second = segment_masks(
            values["segment_lengths"], values["input_ids"].shape[1]
        )
        values = {
            "input_ids": values["input_ids"],
            "input_mask": is_real.astype("int32"),
            "segment_ids": is_second.astype("int32"),
            **{k: v for k, v in values.items() if k != "input_ids"},
        }
    return RecordBatch(batch.path, batch.first, values, sizes)


def _check(
    batch: RecordBatch, table: Sequence[Feature], vocab_size: int
) -> None:
    """Refuses numbers out of their range."""
    for feature in table:
        if feature.dtype != "int64":
            continue
        values = batch.values[feature.name]
        limit = feature.upper_limit(vocab_size)
        is_large = False if limit is None else values >= limit
        wrong = np.argwhere((values < 0) | is_large)
        if len(wrong):
            row, column = wrong[0]
            raise InputError(
                f"{batch.path}, record {batch.first + row}: {feature.name} "
                f"holds {values[row, column]}, expected 0 to "
                + ("any" if limit is None else f"{limit - 1:,}")
                + (", the last of `vocab_file`" * feature.is_piece_id)
            )
