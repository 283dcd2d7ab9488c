"""Masks drawn while records are read: others in each epoch, none on disk.

Liu et al. 2019 (RoBERTa), section 4.1. The rules are those of data/masking.py
and data/vectorized_masking.py, as TensorFlow ops; a change to them belongs in
all three (tests/data/test_masking_agrees.py). A batch's masks depend on the
seed and the batch's number alone, so that a resumed run draws the same ones.

Shapes: B rows of this host, S positions, P masked predictions.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_keras.data.batching import HostShard
from bert_keras.data.masking import MaskingShares, MaskingVocabulary
from bert_keras.data.record_schema import NEXT_SENTENCE

# Kinds of random numbers of one batch
CHOICE, REPLACEMENT, PIECE = range(3)


@dataclasses.dataclass(frozen=True)
class MaskConfig:
    """How rows are masked."""

    max_predictions_per_seq: int = 20  # masked pieces at most
    masked_lm_prob: float = 0.15  # share of pieces hidden
    do_whole_word_mask: bool = False  # hide all pieces of a word or none
    mask_share: float = MaskingShares.mask_share
    random_share: float = MaskingShares.random_share

    @property
    def shares(self) -> MaskingShares:
        return MaskingShares(self.mask_share, self.random_share)


def lay_out(
    batch: dict[str, tf.Tensor], pieces: MaskingVocabulary
) -> dict[str, tf.Tensor]:
    """Rows with nothing hidden: what a model reads of unmasked records, and
    labels of next sentences where the batch has them."""
    ids, lengths = batch["input_ids"], batch["segment_lengths"]
    end_a = lengths[:, :1]
    place = tf.range(ids.shape[1])
    is_real = place < end_a + lengths[:, 1:]
    is_second = is_real & (place >= end_a)
    labelled = {k: v for k, v in batch.items() if k == NEXT_SENTENCE}
    return labelled | {
        "input_ids": tf.where(is_real, ids, pieces.padding),
        "input_mask": tf.cast(is_real, tf.int32),
        "segment_ids": tf.cast(is_second, tf.int32)
        * pieces.special_tokens.second_segment,
    }


class BatchMasker:
    """Makes of unmasked records what a model is trained on."""

    def __init__(
        self,
        pieces: MaskingVocabulary,
        config: MaskConfig,
        seed: int,
        share: HostShard = HostShard(),
    ):
        """`share`: the rows of the global batch that are to be masked here."""
        config.shares.check()
        self.config = config
        self.seed = seed
        self.share = share
        self.pieces = pieces
        self.all_ids = tf.constant(np.sort(pieces.replacements), tf.int32)
        self.continues = tf.constant(pieces.continues)

    def mask(
        self, number: tf.Tensor, batch: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """The features of `pretraining_features`, each [B, length]; labels of
        next sentences where the batch has them.

        Args:
            number: int64, the batch's since the beginning of the training.
            batch: the features of `unmasked_features`, this host's rows
                of them.
        """
        whole = lay_out(batch, self.pieces)
        ids = whole["input_ids"]
        is_real = whole["input_mask"] > 0
        is_mark = (ids == self.pieces.start) | (ids == self.pieces.end)
        may_hide = is_real & ~is_mark
        num_pieces = tf.reduce_sum(batch["segment_lengths"], axis=1)
        wanted = tf.cast(num_pieces, tf.float64) * self.config.masked_lm_prob
        num_wanted = tf.cast(tf.math.rint(wanted), tf.int32)
        width = self.config.max_predictions_per_seq
        num_wanted = tf.clip_by_value(num_wanted, 1, width)
        is_hidden = self._choose(number, ids, may_hide, num_wanted)
        positions, is_chosen = _rising(is_hidden, width)
        labels = tf.gather(ids, positions, batch_dims=1)
        shown = self._replace(number, labels)
        rows = tf.where(is_chosen)[:, 0]
        places = tf.cast(positions[is_chosen], tf.int64)
        return whole | {
            "input_ids": tf.tensor_scatter_nd_update(
                ids, tf.stack([rows, places], 1), shown[is_chosen]
            ),
            "masked_lm_positions": positions,
            "masked_lm_ids": tf.where(is_chosen, labels, 0),
            "masked_lm_weights": tf.cast(is_chosen, tf.float32),
        }

    def _uniform(
        self, number: tf.Tensor, kind: int, like: tf.Tensor
    ) -> tf.Tensor:
        """Random numbers from 0 to 1 in the shape of `like`: this host's rows
        of what all hosts draw."""
        seed = tf.random.fold_in([self.seed, kind], number)
        num_rows, width = tf.unstack(tf.shape(like))
        index, count = self.share.index, self.share.count
        drawn = tf.random.stateless_uniform([num_rows * count, width], seed)
        return drawn[index::count]

    def _choose(
        self,
        number: tf.Tensor,
        ids: tf.Tensor,
        may_hide: tf.Tensor,
        num_wanted: tf.Tensor,
    ) -> tf.Tensor:
        """bool [B, S]: which to hide. Words come in random order, and each is
        taken that still fits; unless whole words are to be hidden, each piece
        is a word."""
        is_begin = may_hide
        if self.config.do_whole_word_mask:
            is_first = tf.cumsum(tf.cast(may_hide, tf.int32), 1) == 1
            continues = tf.gather(self.continues, ids)
            if not self.pieces.joins_over_special_tokens:
                continues &= tf.pad(may_hide[:, :-1], [[0, 0], [1, 0]])
            is_begin = may_hide & (is_first | ~continues)
        word = tf.cumsum(tf.cast(is_begin, tf.int32), 1)  # [B, S], from 1
        width = ids.shape[1] + 1
        sizes = tf.math.bincount(
            tf.where(may_hide, word, 0),
            minlength=width,
            maxlength=width,
            axis=-1,
        )
        sizes *= tf.cast(tf.range(width) > 0, tf.int32)  # [B, words]
        keys = self._uniform(number, CHOICE, sizes)
        order = tf.argsort(keys)
        in_order = tf.gather(sizes, order, batch_dims=1)

        def take(count: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
            fits = count + size <= num_wanted
            return count + tf.where(fits, size, 0)

        counts = tf.scan(
            take, tf.transpose(in_order), tf.zeros_like(num_wanted)
        )
        counts = tf.transpose(counts)
        is_taken = tf.pad(counts[:, :-1], [[0, 0], [1, 0]]) < counts
        is_taken = tf.gather(is_taken, tf.argsort(order), batch_dims=1)
        return may_hide & tf.gather(is_taken, word, batch_dims=1)

    def _replace(self, number: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Some [MASK], some as they are, some any piece."""
        shares = self.config.shares
        draw = self._uniform(number, REPLACEMENT, labels)
        num_pieces = tf.size(self.all_ids)
        index = self._uniform(number, PIECE, labels) * tf.cast(
            num_pieces, tf.float32
        )
        index = tf.minimum(tf.cast(index, tf.int32), num_pieces - 1)
        other = tf.gather(self.all_ids, index)
        shown = tf.where(draw < shares.keep_below, labels, other)
        return tf.where(draw < shares.mask_share, self.pieces.mask, shown)


def _rising(is_hidden: tf.Tensor, width: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Their places [B, P], lowest first, then zeros; and which are places."""
    length = is_hidden.shape[1]
    places = tf.where(is_hidden, tf.range(length), length)
    places = tf.sort(places, axis=1)[:, :width]
    is_place = places < length
    return tf.where(is_place, places, 0), is_place
