"""What a model is fine-tuned on: rows with labels, or what has their form."""

import functools
import zlib
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from bert_keras.data.batching import HostShard, InMemoryBatches
from bert_keras.data.input_features import InputFeatures
from bert_keras.training.loop import Source


class Data(Protocol):
    """What is trained on."""

    num_examples: int  # of which an epoch consists
    num_rows: int
    longest: int  # pieces of a row
    packs: bool  # whether the model reads packed rows, with the same loss

    @property
    def digest(self) -> str:
        """Tells other data from these."""

    def batches(
        self,
        batch_size: int,
        max_seq_length: int,
        seed: int,
        share: HostShard,
        num_pieces: int,
    ) -> Source:
        """The last three as InMemoryBatches takes them."""


class TrainingData:
    """Rows with their labels."""

    def __init__(
        self,
        rows: list[InputFeatures],
        labels: Mapping[str, np.ndarray],
        num_examples: int,
        packs: bool,
        group_size: int = 1,
    ):
        """`num_examples`: windows make more rows; `packs`: as in Data.
        `group_size`: how many rows share a label (data/batching.py)."""
        self.rows = rows
        self.labels = labels
        self.num_examples = num_examples
        self.num_rows = len(rows)
        self.longest = max(len(row.input_ids) for row in rows)
        self.packs = packs
        self.group_size = group_size

    @functools.cached_property
    def digest(self) -> str:
        crc = 0
        for row in self.rows:
            crc = zlib.crc32(np.array(row.input_ids).tobytes(), crc)
        for name in sorted(self.labels):
            crc = zlib.crc32(self.labels[name].tobytes(), crc)
        return f"{len(self.rows)} rows, checksum {crc:08x}"

    def batches(
        self,
        batch_size: int,
        max_seq_length: int,
        seed: int,
        share: HostShard,
        num_pieces: int,
    ) -> InMemoryBatches:
        return InMemoryBatches(
            self.rows,
            self.labels,
            batch_size,
            max_seq_length,
            seed,
            share,
            num_pieces,
            self.group_size,
        )
