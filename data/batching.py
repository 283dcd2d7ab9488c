"""Labelled examples to training batches, each a function of its step.

So a run that goes on from a step needs nothing else to go on in its data. Each
epoch takes every row once, in an order of its own; upstream repeats the record
file and shuffles it by a buffer of 100, which leaves sorted files nearly
sorted. Upstream file: run_classifier.py, file_based_input_fn_builder.

A batch is padded, or its rows are put side by side into fewer, longer ones
(data/packing.py): 32 rows of MRPC, 1,704 pieces, are 4,096 positions padded to
128, some 3,100 padded to the longest of them, and some 1,910 packed.

Shapes: B rows of the global batch, S positions, R packed rows.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data.input_features import InputFeatures, pad, padded_length
from bert_keras.data.packing import best_fit

# Different numbers of packed rows, at most: another one costs as much time to
# compile as some three steps, and ten where it is traced as well.
ROW_COUNTS = 16
BATCHES_SORTED = 10  # are taken at a time to have sentences of like length


@dataclasses.dataclass(frozen=True)
class HostShard:
    """Rows index, index + count, ... of every global batch: one host's."""

    index: int = 0
    count: int = 1


class InMemoryBatches:
    """Shuffled batches without end.

    Args:
      labels: of each name, one list of numbers a row, or a group of rows, all
        of one type.
      max_seq_length: to which rows are padded; packed rows are not longer.
      num_pieces: parts of a host's rows, each packed into a number of rows that
        is the same for all; 0: rows are padded, to one shape. Where the loss
        does not look at padding, that changes nothing but the time.
      group_size: how many rows, one after the other, share a label and stay
        together, in their order; a batch has batch_size such groups. A row
        without pieces fills a group up.
    """

    tracked: Mapping[str, Any] = {}  # a batch follows from its step alone

    def __init__(
        self,
        rows: Sequence[InputFeatures],
        labels: Mapping[str, np.ndarray],
        batch_size: int,
        max_seq_length: int,
        seed: int,
        share: HostShard = HostShard(),
        num_pieces: int = 0,
        group_size: int = 1,
    ):
        self.rows = rows
        self.labels = labels
        self.batch_size = batch_size
        self.max_seq_length = max_seq_length
        self.seed = seed
        self.share = share
        self.num_pieces = num_pieces
        self.group_size = group_size

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """This host's rows of the batch that follows `step` finished ones.

        Returns:
          The labels [B / count, length], and of padded rows what `pad` gives,
          of packed ones what `pack` does, group after group. Shapes are the
          same for all hosts.
        """
        hosts = self._numbers(step)
        mine = hosts[self.share.index]
        features = (
            self._packed(hosts) if self.num_pieces else self._padded(mine)
        )
        return features | self._labels(mine)

    def examples(
        self, step: int, batch: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """The same rows, padded in any case; those of a group side by side."""
        mine = self._numbers(step)[self.share.index]
        is_real = {"is_real_example": np.ones((len(mine), 1), np.int32)}
        features = {
            name: values.reshape(len(mine), -1)
            for name, values in self._padded(mine).items()
        }
        return features | self._labels(mine) | is_real

    def _numbers(self, step: int) -> list[list[int]]:
        """Those of each host's groups."""
        begin = step * self.batch_size
        places = range(begin, begin + self.batch_size)
        numbers = [self._group_at(place) for place in places]
        count = self.share.count
        return [numbers[i::count] for i in range(count)]

    def _padded(self, numbers: list[int]) -> dict[str, np.ndarray]:
        rows = self._rows(numbers)
        return pad(rows, self.max_seq_length, len(rows))

    def _rows(self, numbers: list[int]) -> list[InputFeatures]:
        size = self.group_size
        return [self.rows[i * size + j] for i in numbers for j in range(size)]

    def _labels(self, numbers: list[int]) -> dict[str, np.ndarray]:
        return {name: values[numbers] for name, values in self.labels.items()}

    def _packed(self, hosts: list[list[int]]) -> dict[str, np.ndarray]:
        """This host's rows, packed as wide and as many as all hosts' need."""
        size = len(hosts[0]) // self.num_pieces
        pieces = [
            self._rows(numbers[begin : begin + size])
            for numbers in hosts
            for begin in range(0, len(numbers), size)
        ]
        width = _width([row for piece in pieces for row in piece])
        width = min(width, self.max_seq_length)
        plans = [_plan(piece, width) for piece in pieces]
        step = max(2, -(-len(pieces[0]) // ROW_COUNTS))
        num_rows = -(-max(map(len, plans)) // step) * step
        own = slice(
            self.share.index * self.num_pieces,
            (self.share.index + 1) * self.num_pieces,
        )
        most = max(len(members) for plan in plans for members in plan)
        num_slots = max(4, 1 << (most - 1).bit_length())  # few shapes
        packed = [
            pack(piece, plan, num_rows, width, num_slots)
            for piece, plan in zip(pieces[own], plans[own], strict=True)
        ]
        return {
            name: np.concatenate([features[name] for features in packed])
            for name in packed[0]
        }

    def num_tokens(self, batch: Mapping[str, Any]) -> int:
        return int(batch["input_ids"].size) * self.share.count

    def _group_at(self, place: int) -> int:
        count = len(self.rows) // self.group_size
        epoch, within = divmod(place, count)
        return int(_order(self.seed, epoch, count)[within])


def _width(rows: Sequence[InputFeatures]) -> int:
    """Room for the longest, and for two as long as the mean: in narrower rows
    more would be left empty, in wider ones attention would cost more."""
    lengths = [len(row.input_ids) for row in rows]
    return padded_length(max(*lengths, 2 * sum(lengths) // len(lengths)))


def _plan(rows: Sequence[InputFeatures], width: int) -> list[list[int]]:
    """Which of them lie in each packed row, but for those without pieces."""
    lengths = np.array([[len(row.input_ids) for row in rows]])
    plan = best_fit(lengths, (width,))
    return [[i for i in members if rows[i].input_ids] for members in plan]


def pack(
    rows: Sequence[InputFeatures],
    plan: list[list[int]],
    num_rows: int,
    width: int,
    num_slots: int,
) -> dict[str, np.ndarray]:
    """Rows side by side. 5 6, 7 8 9 and 4, the second of them by itself, in
    three rows of four, each with two slots:

        input_ids         5 6 4 0  7 8 9 0  0 0 0 0
        position_ids      0 1 0 0  0 1 2 0  0 0 0 0
        sequence_numbers  1 1 2 0  1 1 1 0  0 0 0 0
        row_positions     0 2      0 0      0 0
        first_positions   0 4 2
        slots             0 2 1

    Returns:
      input_ids, segment_ids, position_ids and sequence_numbers, int32
      [num_rows, width]; row_positions, int32 [num_rows, num_slots]: where in
      its row each begins; and first_positions and slots, int32 [len(rows)]:
      the same of each of `rows`, counted through all of the packed ones, and
      where in row_positions, so counted, it is; 0 for one without pieces.
    """
    names = ("input_ids", "segment_ids", "position_ids", "sequence_numbers")
    features = {n: np.zeros((num_rows, width), np.int32) for n in names}
    features["row_positions"] = np.zeros((num_rows, num_slots), np.int32)
    first_positions = np.zeros(len(rows), np.int32)
    slots = np.zeros(len(rows), np.int32)
    for i, members in enumerate(plan):
        begin = 0
        for number, member in enumerate(members, 1):
            length = len(rows[member].input_ids)
            here = i, slice(begin, begin + length)
            features["input_ids"][here] = rows[member].input_ids
            features["segment_ids"][here] = rows[member].segment_ids
            features["position_ids"][here] = np.arange(length)
            features["sequence_numbers"][here] = number
            features["row_positions"][i, number - 1] = begin
            first_positions[member] = i * width + begin
            slots[member] = i * num_slots + number - 1
            begin += length
    return features | {"first_positions": first_positions, "slots": slots}


@functools.lru_cache(maxsize=2)  # a batch may reach into the next epoch
def _order(seed: int, epoch: int, count: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(count)


class FeatureBatches:
    """Shuffled batches without end, of sentences of like length.

    Each epoch takes every sentence once, in an order of its own, and some of
    them twice where the last batch is to be filled.

    Shapes: P words of the longest sentence, W words of all sentences, K vectors
    of a word, H hidden size.

    Args:
      vectors: float32 [W, K, H], in memory or mapped into it.
      labels: of each sentence, a number above 0 for each of its words.
    """

    tracked: Mapping[str, Any] = {}  # a batch follows from its step alone

    def __init__(
        self,
        vectors: np.ndarray,
        labels: Sequence[Sequence[int]],
        batch_size: int,
        seed: int,
        share: HostShard,
    ):
        self.vectors = vectors
        self.labels = labels
        self.lengths = np.array([len(own) for own in labels])
        self.begins = np.cumsum(self.lengths) - self.lengths
        self.batch_size = batch_size
        self.share = share
        self.order = functools.lru_cache(maxsize=1)(
            functools.partial(length_order, self.lengths, batch_size, seed)
        )

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """vectors [B / count, P, K, H], lengths [B / count, 1] and label_ids
        [B / count, P], 0 behind the end; P is the same for all hosts."""
        epoch, number = divmod(step, -(-len(self.labels) // self.batch_size))
        chosen = self.order(epoch)[number]
        width = padded_length(int(self.lengths[chosen].max()))
        mine = chosen[self.share.index :: self.share.count]
        size = len(mine), width
        x = np.zeros((*size, *self.vectors.shape[1:]), np.float32)
        label_ids = np.zeros(size, np.int32)
        for i, sentence in enumerate(mine):
            length, begin = self.lengths[sentence], self.begins[sentence]
            x[i, :length] = self.vectors[begin : begin + length]
            label_ids[i, :length] = self.labels[sentence]
        lengths = self.lengths[mine, None].astype(np.int32)
        return {"vectors": x, "lengths": lengths, "label_ids": label_ids}

    def examples(
        self, step: int, batch: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """The same without the vectors, which are on the disk already."""
        return {name: batch[name] for name in ("lengths", "label_ids")}

    def num_tokens(self, batch: Mapping[str, Any]) -> int:
        return int(batch["label_ids"].size) * self.share.count


def length_order(
    lengths: np.ndarray, batch_size: int, seed: int, epoch: int
) -> np.ndarray:
    """int [batches, batch_size], numbers of sentences."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    num_batches = -(-len(order) // batch_size)
    order = np.resize(order, num_batches * batch_size)  # from its start again
    for begin in range(0, len(order), BATCHES_SORTED * batch_size):
        part = order[begin : begin + BATCHES_SORTED * batch_size]
        part[:] = part[np.argsort(lengths[part], kind="stable")]
    return rng.permutation(order.reshape(num_batches, batch_size))
