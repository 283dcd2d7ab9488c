"""Labelled words with their vectors to training batches, each a function of its
step, so that a run that goes on needs nothing else to go on in its data.

Shapes: B sentences of the global batch, P words, W words of all sentences, K
vectors of a word, H hidden size.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data.batching import HostShard
from bert_keras.data.input_features import padded_length

BATCHES_SORTED = 10  # are taken at a time to have sentences of like length


class FeatureBatches:
    """Shuffled batches without end, of sentences of like length.

    Each epoch takes every sentence once, in an order of its own, and some of
    them twice where the last batch is to be filled.

    Args:
      vectors: float32 [W, K, H], in memory or mapped into it.
      labels: of each sentence, a number above 0 for each of its words.
    """

    tracked: Mapping[str, Any] = {}  # there is no state to be saved

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
