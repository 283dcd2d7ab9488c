"""Reading records of any kind to look at them: what inspect_records.py does.

The kind and the lengths are taken from the first record of each file. B
records are in a batch.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from data import record_checks, record_features, records
from data.record_features import Feature
from input_error import InputError

BATCH_RECORDS = 1000  # parsed at a time
NUM_SEGMENTS = 2  # A and B


class RecordBatch(NamedTuple):
    """Records of one file that come one after another."""

    path: str
    first: int  # the first one's number in its file, from 1
    values: dict[str, np.ndarray]  # a feature's name -> [B, length]


def find_table(paths: Sequence[str]) -> tuple[Feature, ...]:
    """The features that the files' records have, one table for all of them.

    Raises:
      InputError: a file has no record or one of no known kind, or two files
        differ in kind or length.
    """
    tables = {path: _table_of(path) for path in paths}
    for path, table in tables.items():
        if table != tables[paths[0]]:
            raise InputError(
                f"{path} has records of {_in_words(table)}, but {paths[0]} of "
                f"{_in_words(tables[paths[0]])}: inspect them apart"
            )
    return tables[paths[0]]


def _in_words(table: Sequence[Feature]) -> str:
    return ", ".join(f"{f.name} [{f.length}]" for f in table)


def _table_of(path: str) -> tuple[Feature, ...]:
    first = next(records.read_records(path), None)
    if first is None:
        raise InputError(f"{path} holds no record")
    try:
        found = tf.train.Example.FromString(first).features.feature
    except DecodeError as error:
        raise InputError(
            f"{path}, record 1: this is no tf.train.Example"
        ) from error
    table = _fitting_table({name: _numbers(found[name]) for name in found})
    if table is None:
        raise InputError(
            f"{path}, record 1 is of no kind that is known here: it holds "
            f"{', '.join(sorted(found)) or 'nothing'}, but "
            "create_pretraining_data.py writes masked_lm_positions, "
            "run_classifier.py label_ids and run_squad.py unique_ids, each "
            "beside input_ids"
        )
    # The flags that record_checks.py would name are of other commands.
    return tuple(dataclasses.replace(f, length_flag="") for f in table)


def _numbers(feature: tf.train.Feature) -> tuple[int, str]:
    """How many numbers a feature holds, and their type."""
    if feature.HasField("float_list"):
        return len(feature.float_list.value), "float32"
    return len(feature.int64_list.value), "int64"


def _fitting_table(
    found: Mapping[str, tuple[int, str]],
) -> tuple[Feature, ...] | None:
    """The kind of record that has such features; None: none has.

    Args:
      found: by its name, a feature's length and type.
    """
    length, _ = found.get("input_ids", (0, ""))
    if not length:
        return None
    if "masked_lm_positions" in found:
        num_predictions, _ = found["masked_lm_positions"]
        return record_features.pretraining_features(
            length, num_predictions, NUM_SEGMENTS
        )
    if "label_ids" in found:
        label = Feature("label_ids", *found["label_ids"])
        return record_features.classifier_features(length, label, NUM_SEGMENTS)
    if "unique_ids" in found:
        has_answers = "start_positions" in found
        return record_features.span_features(length, has_answers, NUM_SEGMENTS)
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
        serialized = records.read_records(path)
        first = 1
        while left != 0:
            number = BATCH_RECORDS if left is None else min(BATCH_RECORDS, left)
            chunk = list(itertools.islice(serialized, number))
            if not chunk:
                break
            batch = RecordBatch(path, first, _parse(path, table, chunk))
            _check(batch, table, vocab_size)
            yield batch
            first += len(chunk)
            left = None if left is None else left - len(chunk)


def _parse(
    path: str, table: Sequence[Feature], chunk: list[bytes]
) -> dict[str, np.ndarray]:
    try:
        parsed = records.parse_batch(table, tf.constant(chunk))
    except tf.errors.OpError as error:
        damage = record_checks.find_damage([path], table)
        raise InputError(damage or f"{path}: {error.message}") from error
    return {name: values.numpy() for name, values in parsed.items()}


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
                + (", the last of --vocab_file" * feature.is_piece_id)
            )
