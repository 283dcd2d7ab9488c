"""The endless order in which records are trained on, and places in it.

Each epoch takes the files in an order of its own. NUM_FILES_AT_ONCE of them are
read in turns, a record each; the next epoch's files follow on without a gap.
BLOCK_RECORDS records at a time are then put into an order of their own. All of
it is a function of the paths and the seed. Upstream file: run_pretraining.py,
input_fn_builder, whose shuffle buffer holds 100 records.

A place is a few numbers: where the files of the current block were, and how
many of its records are used. TensorFlow 2.21 has such places too (an iterator's
symbolic state), but what it saves after it was itself restored leaves out the
buffer of `shuffle` and confuses `zip` and `enumerate`.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterator, Sequence

import numpy as np

from bert_keras.data.tfrecords import RecordReader

NUM_FILES_AT_ONCE = 4  # as upstream's num_cpu_threads
BLOCK_RECORDS = 1000
FILES, RECORDS = range(2)  # what is shuffled: kinds of random numbers


@dataclasses.dataclass(frozen=True)
class OpenFile:
    """A file that is being read."""

    number: int  # in the endless row of all epochs' files
    offset: int = 0  # bytes, unpacked if the file is packed
    num_read: int = 0  # records


@dataclasses.dataclass(frozen=True)
class ReaderPosition:
    """Between two records."""

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
    """Gives the records one after the other, from any place on.

    Args:
        paths: record files, each with a record at least.
    """

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
                self._read_block()
            if self._num_used == BLOCK_RECORDS:
                self._begin, self._num_used = self._behind_block(), 0
                self._block = []
                continue
            end = self._num_used + count - len(taken)
            part = self._block[self._num_used : end]
            self._num_used += len(part)
            taken += part
        return taken

    def _behind_block(self) -> ReaderPosition:
        files = tuple(
            OpenFile(number, reader.offset, reader.num_read)
            for number, reader in zip(self._numbers, self._readers, strict=True)
        )
        return ReaderPosition(self._begin.block + 1, files, 0)

    def _read_block(self) -> None:
        records = list(itertools.islice(self._in_turns(), BLOCK_RECORDS))
        order = _order(self.seed, RECORDS, self._begin.block, BLOCK_RECORDS)
        self._block = [records[i] for i in order]

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
