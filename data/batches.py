"""Labelled rows in memory to training batches, each a function of its step.

So a run that goes on from a step needs nothing else to go on in its data. Each
epoch takes every row once, in an order of its own; upstream repeats the record
file and shuffles it by a buffer of 100, which leaves sorted files nearly
sorted. Upstream file: run_classifier.py, file_based_input_fn_builder.

Shapes: B rows of the global batch, S positions.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from data.rows import Row, pad, padded_length


@dataclasses.dataclass(frozen=True)
class RowShare:
    """Rows index, index + count, ... of every global batch: one host's."""

    index: int = 0
    count: int = 1


class RowBatches:
    """Shuffled batches without end.

    Args:
      labels: of each name, one list of numbers a row, all of one type.
      max_seq_length: to which rows are padded ...
      fits_length: ... or else to a length that just fits the batch. Where the
        loss does not look at padding, that changes nothing but the time.
    """

    tracked: Mapping[str, Any] = {}  # there is no state to be saved

    def __init__(
        self,
        rows: Sequence[Row],
        labels: Mapping[str, np.ndarray],
        batch_size: int,
        max_seq_length: int,
        seed: int,
        share: RowShare = RowShare(),
        fits_length: bool = False,
    ):
        self.rows = rows
        self.labels = labels
        self.batch_size = batch_size
        self.max_seq_length = max_seq_length
        self.seed = seed
        self.share = share
        self.fits_length = fits_length

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """This host's rows of the batch that follows `step` finished ones.

        Returns:
          input_ids, input_mask, segment_ids, each int32 [B / count, S], and
          the labels [B / count, length]. S is the same for all hosts.
        """
        begin = step * self.batch_size
        places = range(begin, begin + self.batch_size)
        numbers = [self._row_at(place) for place in places]
        length = self.max_seq_length
        if self.fits_length:
            longest = max(len(self.rows[i].input_ids) for i in numbers)
            length = min(length, padded_length(longest))
        mine = numbers[self.share.index :: self.share.count]
        return {
            **pad([self.rows[i] for i in mine], length, len(mine)),
            **{name: values[mine] for name, values in self.labels.items()},
        }

    def num_tokens(self, batch: Mapping[str, Any]) -> int:
        return int(batch["input_ids"].size) * self.share.count

    def _row_at(self, place: int) -> int:
        epoch, within = divmod(place, len(self.rows))
        return int(_order(self.seed, epoch, len(self.rows))[within])


@functools.lru_cache(maxsize=2)  # a batch may reach into the next epoch
def _order(seed: int, epoch: int, num_rows: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(num_rows)
