"""Each piece as what is to be predicted from those on one side of it.

Devlin et al. 2018, section 5.1, the left-to-right language model: nothing is
hidden, and every position predicts its neighbour. In the form of masks
(data/dynamic_masking.py), so that model and loss are those of masks.

Shapes: B rows of this host, S positions.
"""

import dataclasses

import tensorflow as tf

from bert_keras.data.dynamic_masking import lay_out
from bert_keras.data.masking import MaskingVocabulary

LEFT_TO_RIGHT = "left_to_right"  # as in modeling/config.py


@dataclasses.dataclass(frozen=True)
class NextPieceConfig:
    direction: str  # left_to_right or right_to_left


class NextPieces:
    """Makes of unmasked records what a model of one direction is trained on."""

    def __init__(self, pieces: MaskingVocabulary, config: NextPieceConfig):
        self.pieces = pieces
        self.config = config

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
        rows = lay_out(batch, self.pieces)
        ids = rows["input_ids"]
        is_real = rows["input_mask"][:, 1:]  # the position and its neighbour
        place = tf.zeros_like(is_real) + tf.range(is_real.shape[1])
        goes_right = self.config.direction == LEFT_TO_RIGHT
        labels = ids[:, 1:] if goes_right else ids[:, :-1]
        return rows | {
            "masked_lm_positions": place if goes_right else place + 1,
            "masked_lm_ids": labels * is_real,
            "masked_lm_weights": tf.cast(is_real, tf.float32),
        }
