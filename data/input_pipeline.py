"""Record files to batches, in an endless order that can be gone on from.

Each epoch takes the files in an order of its own. NUM_FILES_AT_ONCE of them are
read in turns, a record each; the next epoch's files follow on without a gap.
BLOCK_RECORDS records at a time are then put into an order of their own. All of
it is a function of the paths and the seed. Upstream file: run_pretraining.py,
input_fn_builder, whose shuffle buffer holds 100 records.

Every host walks the same order of records and keeps its own rows of each global
batch, so any number of hosts sees the same batches; what one host saved any
other can restore.

Shapes: B rows of the global batch.
"""

import collections
import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.data.dynamic_masking import BatchMasker, CausalLmLabels
from bert_keras.data.record_schema import Feature, HostShard
from bert_keras.data.tfrecords import RecordReader, parse_batch, read_records
from bert_keras.data.validate_records import BEGINS_ROW
from bert_keras.errors import InputError

Batch = dict[str, tf.Tensor]
# Gives unmasked records their predictions
Masker = BatchMasker | CausalLmLabels

MAX_COUNTED = 1_000_000  # records, of which there may be a thousand times more
NUM_FILES_AT_ONCE = 4  # as upstream's num_cpu_threads
BLOCK_RECORDS = 1000
FILES, BLOCKS = range(2)  # what is shuffled: kinds of random numbers
RECORDS = tf.TensorSpec([None], tf.string)  # serialized


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


@dataclasses.dataclass(frozen=True)
class OpenFile:
    """A file that is being read."""

    number: int  # in the endless row of all epochs' files
    offset: int = 0  # bytes, unpacked if the file is packed
    num_read: int = 0  # records


@dataclasses.dataclass(frozen=True)
class ReaderPosition:
    """A place between two records: where the files of the current block were,
    and how many of its records are used.

    TensorFlow 2.21 has such places too (an iterator's symbolic state), but what
    it saves after it was itself restored leaves out the buffer of `shuffle` and
    confuses `zip` and `enumerate`.
    """

    block: int  # its number
    files: tuple[OpenFile, ...]  # as they were when the block began
    num_used: int  # of its records

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ReaderPosition":
        fields = json.loads(text)
        files = tuple(OpenFile(**file) for file in fields.pop("files"))
        return cls(files=files, **fields)


class ShuffledRecords:
    """Gives the records of files, each of which has one at least, one after the
    other, from any place on."""

    def __init__(self, paths: Sequence[str], seed: int):
        self.paths = paths
        self.seed = seed
        at_once = range(min(NUM_FILES_AT_ONCE, len(paths)))
        self.go_to(ReaderPosition(0, tuple(map(OpenFile, at_once)), 0))

    @property
    def place(self) -> ReaderPosition:
        return dataclasses.replace(self._begin, num_used=self._num_used)

    def go_to(self, place: ReaderPosition) -> None:
        """In time that does not grow with the place (but with the place in a
        .gz file, which is unpacked from its beginning)."""
        self._begin = place
        self._numbers = [file.number for file in place.files]
        self._readers = [
            RecordReader(self._path(file.number), file.offset, file.num_read)
            for file in place.files
        ]
        self._block: list[bytes] = []  # read when it is asked for
        self._num_used = place.num_used

    def take(self, count: int) -> list[bytes]:
        """The next `count` records.

        Raises:
            InputError: one cannot be read.
        """
        taken: list[bytes] = []
        while len(taken) < count:
            if not self._block:
                # Also if all of it is used: the readers move to the next one.
                block = list(itertools.islice(self._in_turns(), BLOCK_RECORDS))
                number = self._begin.block
                order = _order(self.seed, BLOCKS, number, BLOCK_RECORDS)
                self._block = [block[i] for i in order]
            if self._num_used == BLOCK_RECORDS:
                readers = zip(self._numbers, self._readers, strict=True)
                files = [OpenFile(n, r.offset, r.num_read) for n, r in readers]
                number = self._begin.block + 1
                self._begin = ReaderPosition(number, tuple(files), 0)
                self._block, self._num_used = [], 0
                continue
            end = self._num_used + count - len(taken)
            part = self._block[self._num_used : end]
            self._num_used += len(part)
            taken += part
        return taken

    def _in_turns(self) -> Iterator[bytes]:
        for turn in itertools.cycle(range(len(self._readers))):
            while (record := next(self._readers[turn], None)) is None:
                self._numbers[turn] = max(self._numbers) + 1
                path = self._path(self._numbers[turn])
                self._readers[turn] = RecordReader(path)
            yield record

    def _path(self, number: int) -> str:
        epoch, within = divmod(number, len(self.paths))
        return self.paths[
            _order(self.seed, FILES, epoch, len(self.paths))[within]
        ]


def _order(seed: int, kind: int, number: int, size: int) -> np.ndarray:
    return np.random.default_rng([seed, kind, number]).permutation(size)


class RecordBatches(tf.train.experimental.PythonState):
    """Shuffled batches without end, made ahead of the step.

    Args:
        batch_size: of the batch that follows so many finished steps.
        masker: for unmasked records; its share is `share`.
        num_ahead: batches that are made before they are asked for.
    """

    def __init__(
        self,
        paths: Sequence[str],
        features: Sequence[Feature],
        batch_size: int | Callable[[int], int],
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
        self._make = batch_maker(features, vocab_size, masker, share)
        self._reading = ThreadPoolExecutor(1)  # so that it is done in order
        self._making = ThreadPoolExecutor()
        self._ahead: collections.deque[
            Future[tuple[ReaderPosition, Future[Batch]]]
        ] = collections.deque()
        self._number = 0  # of the batch to be begun next

    def batch(self, step: int) -> Batch:
        """This host's rows of the batch that follows `step` finished ones,
        each tensor [B / share.count, length]. Steps come in order.

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
        size = self.batch_size
        records = self._records.take(size(number) if callable(size) else size)
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
    make = batch_maker(features, vocab_size, masker)
    records = itertools.chain.from_iterable(map(read_records, paths))
    for number in range(max_batches):
        serialized = list(itertools.islice(records, batch_size))
        if not serialized:
            return
        batch = make(tf.constant(number, tf.int64), tf.constant(serialized))
        missing = [[0, batch_size - len(serialized)], [0, 0]]
        yield {
            name: tf.pad(value, missing)[share.index :: share.count]
            for name, value in batch.items()
        }


def batch_maker(
    features: Sequence[Feature],
    vocab_size: int,
    masker: Masker | None,
    share: HostShard = HostShard(),
    spec: Any = RECORDS,
) -> Callable[[tf.Tensor, Any], Batch]:
    """From a batch's number, int64, and its records to tensors [B, length].

    A number outside its range is an error, since some devices would train on it
    without a word.

    Args:
        share: the rows that are given of the global batch.
        spec: of serialized records [B], or of what has been parsed of them.
    """

    if isinstance(masker, BatchMasker) and masker.share != share:
        raise InputError(
            f"the masker's `share` is {masker.share} and the batches' {share}; "
            "expected the same"
        )

    @tf.function(autograph=False)
    def make(number: tf.Tensor, records: Any) -> Batch:
        with tf.device("CPU"):
            batch = (
                parse_batch(features, records) if spec is RECORDS else records
            )
            with tf.control_dependencies(_checks(features, vocab_size, batch)):
                batch = {name: tf.identity(x) for name, x in batch.items()}
            return masker.mask(number, batch) if masker else batch

    # once, not by every thread
    return make.get_concrete_function(tf.TensorSpec([], tf.int64), spec)


def _checks(
    features: Sequence[Feature], vocab_size: int, batch: Batch
) -> list[tf.Operation]:
    checks = []
    for feature in features:
        name, values = feature.name, batch[feature.name]
        least, most = feature.bounds(vocab_size)
        checks += [
            tf.debugging.assert_greater_equal(values, least, name),
            tf.debugging.assert_less_equal(values, most, name),
        ]
    for name in BEGINS_ROW & batch.keys():
        first = batch[name][:, 0]
        checks.append(tf.debugging.assert_positive(first, name))
    return checks
