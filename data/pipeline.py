"""Record files to batches, by tf.data.

The order of records is a function of the files and the seed alone. Every host
walks the same order and keeps its own rows of each global batch, so any number
of hosts sees the same batches; and since the iterator saves its position
symbolically, what one host saved any other can restore, without reading the
data again (but for a .gz file, which is unpacked from its beginning).
Upstream file: run_pretraining.py, input_fn_builder.

Shapes: B rows of the global batch.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from data.batches import RowShare
from data.dynamic_masking import BatchMasker
from data.record_checks import BEGINS_ROW
from data.record_features import Feature
from data.records import parse_batch

NUM_FILES_AT_ONCE = 4  # interleaved, as upstream's num_cpu_threads
SHUFFLE_BUFFER_RECORDS = 100  # upstream's
MAX_COUNTED = 1_000_000  # records, of which there may be a thousand times more


def count_records(paths: Sequence[str]) -> tuple[int, bool]:
    """How many records there are, and whether that is exact.

    Files are read to their ends until MAX_COUNTED records are counted; the
    others are taken to hold as many for their size.

    Raises:
        tf.errors.DataLossError: a record is damaged.
    """
    sizes = [tf.io.gfile.stat(path).length for path in paths]
    count, num_read = 0, 0
    while num_read < len(paths) and count < MAX_COUNTED:
        records = _read(tf.constant(paths[num_read]))
        count += int(records.reduce(np.int64(0), lambda n, _: n + 1))
        num_read += 1
    if num_read == len(paths):
        return count, True
    return round(count * sum(sizes) / sum(sizes[:num_read])), False


class RecordBatches:
    """Batches of a dataset, one a step, with the position to be saved."""

    def __init__(self, dataset: tf.data.Dataset, share: RowShare = RowShare()):
        self.share = share
        self._iterator = iter(dataset)
        self.tracked = {"data": self._iterator}

    def batch(self, step: int) -> dict[str, tf.Tensor]:
        """The next one: `step` says nothing that the iterator does not know."""
        return next(self._iterator)

    def num_tokens(self, batch: Mapping[str, tf.Tensor]) -> int:
        return int(tf.size(batch["input_ids"])) * self.share.count


def training_batches(
    paths: Sequence[str],
    features: Sequence[Feature],
    batch_size: int,
    seed: int,
    vocab_size: int,
    share: RowShare = RowShare(),
    masker: BatchMasker | None = None,
) -> tf.data.Dataset:
    """Shuffled batches without end, each tensor [B / share.count, length].

    Args:
        masker: for unmasked records; its share is `share`.

    Raises, while iterating:
        tf.errors.DataLossError, InvalidArgumentError: a record is damaged,
            of another kind, has an id of vocab_size or more, or no text.
    """
    names = tf.data.Dataset.from_tensor_slices(list(paths))
    records = (
        names.shuffle(len(paths), seed=seed)
        # Before the records are shuffled (as upstream, so that neighbouring
        # epochs mix a little) and not read in parallel: an iterator with
        # symbolic state hung after its restoration in the other two ways.
        .repeat()
        .interleave(_read, cycle_length=min(NUM_FILES_AT_ONCE, len(paths)))
        .shuffle(SHUFFLE_BUFFER_RECORDS, seed=seed)
    )

    def parse_share(
        number: tf.Tensor, serialized: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        own = serialized[share.index :: share.count]
        batch = _parse(features, own, vocab_size)
        return masker.mask(number, batch) if masker else batch

    batches = (
        records.batch(batch_size, drop_remainder=True)
        .enumerate()
        .map(
            parse_share, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )
    )
    return _with_symbolic_state(batches.prefetch(tf.data.AUTOTUNE))


def evaluation_batches(
    paths: Sequence[str],
    features: Sequence[Feature],
    batch_size: int,
    max_batches: int,
    vocab_size: int,
    share: RowShare = RowShare(),
    masker: BatchMasker | None = None,
) -> tf.data.Dataset:
    """At most `max_batches` batches in the order of the files.

    Upstream repeats the files until the batches are full; here no record
    counts twice, and the last batch is filled with rows of zeros.

    Args:
        masker: for unmasked records; its share is all rows, since the last
            batch may have too few for each host.
    """

    def parse(number: tf.Tensor, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = _parse(features, serialized, vocab_size)
        return masker.mask(number, batch) if masker else batch

    def pad_and_share(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {
            name: _fill_rows(value, batch_size)[share.index :: share.count]
            for name, value in batch.items()
        }

    records = tf.data.Dataset.from_tensor_slices(list(paths)).flat_map(_read)
    return (
        records.batch(batch_size)
        .take(max_batches)
        .enumerate()
        .map(parse)
        .map(pad_and_share)
        .prefetch(tf.data.AUTOTUNE)
    )


def _read(path: tf.Tensor) -> tf.data.Dataset:
    is_gzip = tf.strings.regex_full_match(path, r".*\.gz")
    return tf.data.TFRecordDataset(path, tf.where(is_gzip, "GZIP", ""))


def _parse(
    features: Sequence[Feature], serialized: tf.Tensor, vocab_size: int
) -> dict[str, tf.Tensor]:
    """Parses a batch; a number outside its range is an error here, since some
    devices would train on it without a word."""
    batch = parse_batch(features, serialized)
    checks = []
    for feature in features:
        values, limit = batch[feature.name], feature.upper_limit(vocab_size)
        if feature.dtype != "int64":
            checks.append(tf.debugging.assert_all_finite(values, feature.name))
            continue
        checks.append(tf.debugging.assert_non_negative(values, feature.name))
        if limit is not None:
            checks.append(tf.debugging.assert_less(values, limit, feature.name))
    for name in BEGINS_ROW & batch.keys():
        checks.append(tf.debugging.assert_positive(batch[name][:, 0], name))
    with tf.control_dependencies(checks):
        return {name: tf.identity(value) for name, value in batch.items()}


def _fill_rows(value: tf.Tensor, num_rows: int) -> tf.Tensor:
    """Appends zero rows up to `num_rows`."""
    filled = tf.pad(value, [[0, num_rows - tf.shape(value)[0]], [0, 0]])
    return tf.ensure_shape(filled, [num_rows, value.shape[1]])


def _with_symbolic_state(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = True
    return dataset.with_options(options)
