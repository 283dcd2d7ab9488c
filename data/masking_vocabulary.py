"""What rows and masks have to know of a vocabulary, by ids.

Shapes: V pieces.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from bert_keras.data.bpe import SPACE
from bert_keras.data.special_tokens import ROBERTA, SpecialTokens
from bert_keras.data.tokenization import CJK_RANGES


@dataclasses.dataclass(frozen=True)
class MaskingVocabulary:
    """Ids of pieces.

    One of V or more is that of piece id - V where it continues a word though it
    does not begin with "##"; records have it less V.
    """

    special_tokens: SpecialTokens
    padding: int
    start: int
    end: int
    mask: int
    replacements: np.ndarray  # int32, what random ones are drawn from
    continues: np.ndarray  # bool [V], which do not begin a word
    # Whether such a piece goes on with the word before a mark, as in Google's
    # code, where it is rare: there the text was cut inside a word.
    joins_over_marks: bool


def read_masking_vocabulary(
    vocab: Mapping[str, int], special_tokens: SpecialTokens
) -> MaskingVocabulary:
    """Word pieces begin a word unless they begin with "##", and any replaces
    another, marks too, as in Google's code. Bytes begin one where they begin
    with a space, and marks replace nothing, as in fairseq's
    data/mask_tokens_dataset.py."""
    is_bytes = special_tokens == ROBERTA
    continues = np.zeros(max(vocab.values()) + 1, bool)
    for piece, number in vocab.items():
        is_inner = piece.startswith("##")
        continues[number] = (
            not piece.startswith(SPACE) if is_bytes else is_inner
        )
    replacements = [
        number
        for piece, number in vocab.items()
        if not is_bytes or piece not in special_tokens.pieces
    ]
    return MaskingVocabulary(
        special_tokens,
        vocab[special_tokens.padding],
        vocab[special_tokens.start],
        vocab[special_tokens.end],
        vocab[special_tokens.mask],
        np.array(replacements, np.int32),
        continues,
        joins_over_marks=not is_bytes,
    )


def is_ideograph(piece: str) -> bool:
    """Whether it is a single ideograph, which BERT reads as a word."""
    return len(piece) == 1 and any(
        first <= ord(piece) <= last for first, last in CJK_RANGES
    )
