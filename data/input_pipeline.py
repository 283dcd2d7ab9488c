"""Record files to batches.

Every host walks the same order of records and keeps its own rows of each global
batch, so any number of hosts sees the same batches; what one host saved any
other can restore. Upstream file: run_pretraining.py, input_fn_builder.

Shapes: B rows of the global batch.
"""

import collections
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import tensorflow as tf

from bert_keras.data.batching import HostShard
from bert_keras.data.dynamic_masking import BatchMasker, NextPieces
from bert_keras.data.record_schema import Feature
from bert_keras.data.resumable_shuffle import ReaderPosition, ShuffledRecords
from bert_keras.data.tfrecords import parse_batch, read_records
from bert_keras.data.validate_records import BEGINS_ROW

Batch = dict[str, tf.Tensor]
Masker = BatchMasker | NextPieces  # gives unmasked records their predictions

MAX_COUNTED = 1_000_000  # records, of which there may be a thousand times more


def count_records(paths: Sequence[str]) -> tuple[int, bool]:
    """How many records there are, and whether that is exact.

    Files are read to their ends until MAX_COUNTED records are counted; the
    others are taken to hold as many for their size.

    Raises:
        InputError: a record is damaged.
    """
    sizes = [tf.io.gfile.stat(path).length for path in paths]
    count, num_read = 0, 0
    while num_read < len(paths) and count < MAX_COUNTED:
        count += sum(1 for _ in read_records(paths[num_read]))
        num_read += 1
    if num_read == len(paths):
        return count, True
    return round(count * sum(sizes) / sum(sizes[:num_read])), False


class RecordBatches(tf.train.experimental.PythonState):
    """Shuffled batches without end, made ahead of the step.

    Args:
        masker: for unmasked records; its share is `share`.
        num_ahead: batches that are made before they are asked for.
    """

    def __init__(
        self,
        paths: Sequence[str],
        features: Sequence[Feature],
        batch_size: int,
        seed: int,
        vocab_size: int,
        share: HostShard = HostShard(),
        masker: Masker | None = None,
        num_ahead: int = 4,
    ):
        self.tracked = {"data": self}
        self.batch_size = batch_size
        self.share = share
        self.num_ahead = num_ahead
        self._records = ShuffledRecords(paths, seed)
        self._place = self._records.place
        self._make = _batch_maker(features, vocab_size, masker)
        self._reading = ThreadPoolExecutor(1)  # so that it is done in order
        self._making = ThreadPoolExecutor()
        self._ahead: collections.deque[
            Future[tuple[ReaderPosition, Future[Batch]]]
        ]
        self._ahead = collections.deque()
        self._number = 0  # of the batch to be begun next

    def batch(self, step: int) -> Batch:
        """This host's rows of the batch that follows `step` finished ones,
        each tensor [B / share.count, length].

        Raises:
            InputError: a record cannot be read.
            tf.errors.InvalidArgumentError: a record is of another kind, has an
                id of vocab_size or more, or no text.
        """
        if not self._ahead:
            self._number = step
        while len(self._ahead) <= self.num_ahead:
            self._ahead.append(self._reading.submit(self._begin, self._number))
            self._number += 1
        self._place, batch = self._ahead.popleft().result()
        return batch.result()

    def examples(self, step: int, batch: Batch) -> Batch:
        """What `batch` gave, as it is."""
        return batch

    def num_tokens(self, batch: Mapping[str, tf.Tensor]) -> int:
        return int(tf.size(batch["input_ids"])) * self.share.count

    def serialize(self) -> str:
        """The place behind the last batch given."""
        return self._place.to_json()

    def deserialize(self, text: str) -> None:
        """Goes to a place that was saved."""
        self._place = ReaderPosition.from_json(text)
        self._reading.submit(self._records.go_to, self._place).result()
        self._ahead.clear()

    def _begin(self, number: int) -> tuple[ReaderPosition, Future[Batch]]:
        """Starts to make a batch; and the place behind it."""
        records = self._records.take(self.batch_size)
        mine = records[self.share.index :: self.share.count]
        batch = self._making.submit(
            self._make, tf.constant(number, tf.int64), tf.constant(mine)
        )
        return self._records.place, batch


def evaluation_batches(
    paths: Sequence[str],
    features: Sequence[Feature],
    batch_size: int,
    max_batches: int,
    vocab_size: int,
    share: HostShard = HostShard(),
    masker: Masker | None = None,
) -> Iterator[Batch]:
    """At most `max_batches` batches in the order of the files.

    Upstream repeats the files until the batches are full; here no record
    counts twice, and the last batch is filled with rows of zeros.

    Args:
        masker: for unmasked records; its share is all rows, since the last
            batch may have too few for each host.

    Raises: as RecordBatches.batch.
    """
    make = _batch_maker(features, vocab_size, masker)
    records = itertools.chain.from_iterable(map(read_records, paths))
    for number in range(max_batches):
        serialized = list(itertools.islice(records, batch_size))
        if not serialized:
            return
        batch = make(tf.constant(number, tf.int64), tf.constant(serialized))
        yield {
            name: _fill_rows(value, batch_size)[share.index :: share.count]
            for name, value in batch.items()
        }


def _batch_maker(
    features: Sequence[Feature], vocab_size: int, masker: Masker | None
) -> Callable[[tf.Tensor, tf.Tensor], Batch]:
    """From a batch's number, int64, and its serialized records [B] to
    tensors [B, length]."""

    @tf.function(
        autograph=False,
        input_signature=[
            tf.TensorSpec([], tf.int64),
            tf.TensorSpec([None], tf.string),
        ],
    )
    def make(number: tf.Tensor, serialized: tf.Tensor) -> Batch:
        with tf.device("CPU"):
            batch = _parse(features, serialized, vocab_size)
            return masker.mask(number, batch) if masker else batch

    return make.get_concrete_function()  # once, not by every thread


def _parse(
    features: Sequence[Feature], serialized: tf.Tensor, vocab_size: int
) -> Batch:
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
