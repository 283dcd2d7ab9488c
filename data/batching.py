"""Labelled examples to training batches, each a function of its step.

So a run that goes on from a step needs nothing else to go on in its data. Each
epoch takes every row once, in an order of its own; upstream repeats the record
file and shuffles it by a buffer of 100, which leaves sorted files nearly
sorted. Upstream file: run_classifier.py, file_based_input_fn_builder.

A batch is padded, or its rows are put side by side into fewer, longer ones
(data/packing.py): 32 rows of MRPC, 1,704 tokens, are 4,096 positions padded to
128, some 3,100 padded to the longest of them, and some 1,910 packed.

Shapes: B rows of the global batch, S positions, R packed rows.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_keras.data.input_features import InputFeatures, pad, padded_length
from bert_keras.data.packing import best_fit, pack_sequences
from bert_keras.data.record_schema import HostShard
from bert_keras.errors import InputError

# Different numbers of packed rows, at most: another one costs as much time to
# compile as some three steps, and ten where it is traced as well.
ROW_COUNTS = 16
BATCHES_SORTED = 10  # are taken at a time to have sentences of like length


def checked_batch_size(batch_size: Any) -> int:
    if not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise InputError(
            f"`batch_size` is {batch_size!r}; expected a whole number from 1"
        )
    return int(batch_size)  # NumPy's lack what Python's have


@dataclasses.dataclass
class InMemoryBatches:
    """Shuffled batches without end.

    Args:
      labels: of each name, one list of numbers a row, or a group of rows, all
        of one type.
      max_seq_length: to which rows are padded; packed rows are not longer.
      num_micro_batches: of a host's rows, each packed into a number of rows
        that is the same for all; 0: rows are padded, to one shape. Where the
        loss does not look at padding, that changes nothing but the time.
      group_size: how many rows, one after the other, share a label and stay
        together, in their order; a batch has batch_size such groups. A row
        without tokens fills a group up.
    """

    rows: Sequence[InputFeatures]
    labels: Mapping[str, np.ndarray]
    batch_size: int
    max_seq_length: int
    seed: int
    share: HostShard = HostShard()
    num_micro_batches: int = 0
    group_size: int = 1

    # a batch follows from its step alone
    tracked: ClassVar[Mapping[str, Any]] = {}

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """This host's rows of the batch that follows `step` finished ones.

        Returns:
          The labels [B / count, length], and of padded rows what `pad` gives,
          of packed ones what `pack` does, group after group. Shapes are the
          same for all hosts.
        """
        hosts = self._groups(step)
        mine = hosts[self.share.index]
        features = (
            self._packed(hosts)
            if self.num_micro_batches
            else self._padded(mine)
        )
        return features | {n: own[mine] for n, own in self.labels.items()}

    def examples(
        self, step: int, batch: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """The same rows, padded in any case; those of a group side by side."""
        mine = self._groups(step)[self.share.index]
        return {
            **{
                name: values.reshape(len(mine), -1)
                for name, values in self._padded(mine).items()
            },
            **{name: values[mine] for name, values in self.labels.items()},
            "is_real_example": np.ones((len(mine), 1), np.int32),
        }

    def num_tokens(self, batch: Mapping[str, Any]) -> int:
        return int(batch["input_ids"].size) * self.share.count

    def _groups(self, step: int) -> list[list[int]]:
        """The numbers of each host's groups."""
        num_groups = len(self.rows) // self.group_size
        begin = step * self.batch_size
        numbers = []
        for place in range(begin, begin + self.batch_size):
            epoch, within = divmod(place, num_groups)
            numbers.append(int(_order(self.seed, epoch, num_groups)[within]))
        return [numbers[i :: self.share.count] for i in range(self.share.count)]

    def _rows(self, groups: list[int]) -> list[InputFeatures]:
        size = self.group_size
        return [self.rows[i * size + j] for i in groups for j in range(size)]

    def _padded(self, groups: list[int]) -> dict[str, np.ndarray]:
        rows = self._rows(groups)
        return pad(rows, self.max_seq_length, len(rows))

    def _packed(self, hosts: list[list[int]]) -> dict[str, np.ndarray]:
        """This host's rows, packed as wide and as many as all hosts' need."""
        size = len(hosts[0]) // self.num_micro_batches
        micro_batches = [
            self._rows(groups[begin : begin + size])
            for groups in hosts
            for begin in range(0, len(groups), size)
        ]
        lengths = [
            [len(row.input_ids) for row in rows] for rows in micro_batches
        ]
        # Room for the longest, and for two as long as the mean: in narrower
        # rows more would be left empty, in wider ones attention costs more.
        flat = sum(lengths, [])
        width = padded_length(max(*flat, 2 * sum(flat) // len(flat)))
        width = min(width, self.max_seq_length)
        plans = []
        for row_lengths in lengths:
            plan = best_fit(np.array([row_lengths]), (width,))
            # Examples without tokens are left out.
            plans.append([[i for i in row if row_lengths[i]] for row in plan])
        step = max(2, -(-len(micro_batches[0]) // ROW_COUNTS))
        num_rows = -(-max(map(len, plans)) // step) * step
        most = max(len(members) for plan in plans for members in plan)
        num_slots = max(4, 1 << (most - 1).bit_length())  # few shapes
        first = self.share.index * self.num_micro_batches
        packed = [
            pack(micro_batches[i], plans[i], num_rows, width, num_slots)
            for i in range(first, first + self.num_micro_batches)
        ]
        return {
            name: np.concatenate([features[name] for features in packed])
            for name in packed[0]
        }


@functools.lru_cache(maxsize=2)  # a batch may reach into the next epoch
def _order(seed: int, epoch: int, count: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(count)


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
      where in row_positions, so counted, it is; 0 for one without tokens.
    """
    names = ("input_ids", "segment_ids", "position_ids", "sequence_numbers")
    features = {n: np.zeros((num_rows, width), np.int32) for n in names}
    begins = pack_sequences(rows, plan, features)
    row_positions = np.zeros((num_rows, num_slots), np.int32)
    first_positions, slots = np.zeros((2, len(rows)), np.int32)
    for i, members in enumerate(plan):
        for slot, member in enumerate(members):
            row_positions[i, slot] = begins[member]
            first_positions[member] = i * width + begins[member]
            slots[member] = i * num_slots + slot
    return features | {
        "row_positions": row_positions,
        "first_positions": first_positions,
        "slots": slots,
    }


@dataclasses.dataclass
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

    vectors: np.ndarray
    labels: Sequence[Sequence[int]]
    batch_size: int
    seed: int
    share: HostShard

    # a batch follows from its step alone
    tracked: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        self.lengths = np.array([len(own) for own in self.labels])
        self.begins = np.cumsum(self.lengths) - self.lengths
        self.order = functools.lru_cache(maxsize=1)(self._order)

    def _order(self, epoch: int) -> np.ndarray:
        """int [batches, batch_size], numbers of sentences."""
        rng = np.random.default_rng([self.seed, epoch])
        order = rng.permutation(len(self.lengths))
        num_batches = -(-len(order) // self.batch_size)
        # from its start again, to fill the last
        order = np.resize(order, num_batches * self.batch_size)
        size = BATCHES_SORTED * self.batch_size
        for begin in range(0, len(order), size):
            part = order[begin : begin + size]
            part[:] = part[np.argsort(self.lengths[part], kind="stable")]
        return rng.permutation(order.reshape(num_batches, self.batch_size))

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
