"""What is to be predicted of unmasked records, drawn while they are read.

Masks, others in each epoch and none on disk: Liu et al. 2019 (RoBERTa), section
4.1. The rules are those of data/masking.py and data/vectorized_masking.py, as
TensorFlow ops; a change to them belongs in all three
(tests/data/test_masking_agrees.py). A batch's masks depend on the seed and the
batch's number alone, so that a resumed run draws the same ones.

Or, of a model of one direction, each token's neighbour: Devlin et al. 2018,
section 5.1.

Shapes: B rows of this host, S positions, P predictions.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from bert_keras.data.input_features import segment_masks
from bert_keras.data.masking import MaskConfig, MaskingVocabulary
from bert_keras.data.record_schema import NEXT_SENTENCE, HostShard

# Kinds of random numbers of one batch
CHOICE, REPLACEMENT, PIECE = range(3)


def lay_out(
    batch: dict[str, tf.Tensor], vocab: MaskingVocabulary
) -> dict[str, tf.Tensor]:
    """Rows with nothing masked: what a model reads of unmasked records, and
    labels of next sentences where the batch has them."""
    ids = batch["input_ids"]
    is_real, is_second = segment_masks(batch["segment_lengths"], ids.shape[1])
    labelled = {k: v for k, v in batch.items() if k == NEXT_SENTENCE}
    return labelled | {
        "input_ids": tf.where(is_real, ids, vocab.padding),
        "input_mask": tf.cast(is_real, tf.int32),
        "segment_ids": tf.cast(is_second, tf.int32)
        * vocab.special_tokens.second_segment,
    }


@dataclasses.dataclass(eq=False)
class BatchMasker:
    """Makes of unmasked records what a model is trained on."""

    vocab: MaskingVocabulary
    config: MaskConfig
    seed: int
    share: HostShard = HostShard()  # of a global batch, what is masked here

    def __post_init__(self) -> None:
        self.config.check_shares()
        self.all_ids = tf.constant(np.sort(self.vocab.replacements), tf.int32)
        self.continues = tf.constant(self.vocab.continues)

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
        whole = lay_out(batch, self.vocab)
        ids = whole["input_ids"]
        is_real = whole["input_mask"] > 0
        is_mark = (ids == self.vocab.start) | (ids == self.vocab.end)
        may_choose = is_real & ~is_mark
        num_pieces = tf.reduce_sum(batch["segment_lengths"], axis=1)
        wanted = tf.cast(num_pieces, tf.float64) * self.config.masked_lm_prob
        num_wanted = tf.cast(tf.math.rint(wanted), tf.int32)
        width = self.config.max_predictions_per_seq
        num_wanted = tf.clip_by_value(num_wanted, 1, width)
        is_chosen = self._choose(number, ids, may_choose, num_wanted)

        # Their places [B, P], lowest first, then zeros
        length = ids.shape[1]
        places = tf.where(is_chosen, tf.range(length), length)
        places = tf.sort(places, axis=1)[:, :width]
        is_chosen = places < length
        positions = tf.where(is_chosen, places, 0)
        labels = tf.gather(ids, positions, batch_dims=1)

        # Some become [MASK], some stay, some become any token.
        draw = self._uniform(number, REPLACEMENT, labels)
        num_ids = tf.size(self.all_ids)
        index = self._uniform(number, PIECE, labels)
        index = tf.cast(index * tf.cast(num_ids, tf.float32), tf.int32)
        other = tf.gather(self.all_ids, tf.minimum(index, num_ids - 1))
        shown = tf.where(draw < self.config.keep_below, labels, other)
        shown = tf.where(draw < self.config.mask_share, self.vocab.mask, shown)
        rows = tf.where(is_chosen)[:, 0]
        columns = tf.cast(positions[is_chosen], tf.int64)
        return whole | {
            "input_ids": tf.tensor_scatter_nd_update(
                ids, tf.stack([rows, columns], 1), shown[is_chosen]
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
        may_choose: tf.Tensor,
        num_wanted: tf.Tensor,
    ) -> tf.Tensor:
        """bool [B, S]: which to choose. Words come in random order, and each is
        taken that still fits; unless whole words are chosen, each token
        is a word."""
        is_begin = may_choose
        if self.config.do_whole_word_mask:
            is_first = tf.cumsum(tf.cast(may_choose, tf.int32), 1) == 1
            continues = tf.gather(self.continues, ids)
            if not self.vocab.joins_over_special_tokens:
                continues &= tf.pad(may_choose[:, :-1], [[0, 0], [1, 0]])
            is_begin = may_choose & (is_first | ~continues)
        word = tf.cumsum(tf.cast(is_begin, tf.int32), 1)  # [B, S], from 1
        width = ids.shape[1] + 1
        sizes = tf.math.bincount(
            tf.where(may_choose, word, 0),
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
        return may_choose & tf.gather(is_taken, word, batch_dims=1)


@dataclasses.dataclass(eq=False)
class CausalLmLabels:
    """Makes of unmasked records what a model of one direction is trained on:
    nothing is masked, and every position predicts its neighbour. In the form of
    masks, so that model and loss are those of masks."""

    vocab: MaskingVocabulary
    direction: str  # left_to_right or right_to_left, as in BertConfig

    def mask(
        self, number: tf.Tensor, batch: dict[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """As BatchMasker.mask, with S - 1 predictions, whatever the number.

        Of [CLS] 5 6 [SEP] and a place of padding, where [CLS] is 2 and [SEP] 3:

            input_ids                          2 5 6 3 0
            left to right  masked_lm_positions 0 1 2 3
                           masked_lm_ids       5 6 3 0
            right to left  masked_lm_positions 1 2 3 4
                           masked_lm_ids       2 5 6 0
            masked_lm_weights                  1 1 1 0
        """
        rows = lay_out(batch, self.vocab)
        ids = rows["input_ids"]
        is_real = rows["input_mask"][:, 1:]  # the position and its neighbour
        place = tf.zeros_like(is_real) + tf.range(is_real.shape[1])
        goes_right = self.direction == "left_to_right"
        labels = ids[:, 1:] if goes_right else ids[:, :-1]
        return rows | {
            "masked_lm_positions": place if goes_right else place + 1,
            "masked_lm_ids": labels * is_real,
            "masked_lm_weights": tf.cast(is_real, tf.float32),
        }
