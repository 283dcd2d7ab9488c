"""Filling in blanks: what a pre-trained model puts in place of [MASK].

The masked language model of Devlin et al. 2018, section 3.1, put to use. Ours;
google-research/bert has nothing like it.

Shapes: S positions, P masked positions, V vocabulary.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from data.tokenization import FullTokenizer
from data.vocabulary import MASK, SEPARATOR, START
from input_error import InputError
from modeling.config import BertConfig
from modeling.conversion import (
    Binding,
    encoder_bindings,
    masked_lm_bindings,
)
from modeling.encoder import Encoder
from modeling.heads import MaskedLmHead

MIN_LENGTH = 16  # arrays are padded to this, or to a power of two above it


class Blanks(NamedTuple):
    """A line as the model reads it."""

    ids: list[int]  # [S]
    positions: list[int]  # [P], of the [MASK]s


def encode(line: str, tokenizer: FullTokenizer, max_length: int) -> Blanks:
    """The ids of [CLS], the line's pieces and [SEP]; and where [MASK] stands.

    "A [MASK]." becomes [CLS] a [MASK] . [SEP] with the one position 2.

    Args:
        max_length: positions the model has.
    """
    tokens = [START]
    positions = []
    for i, text in enumerate(line.split(MASK)):
        if i:
            positions.append(len(tokens))
            tokens.append(MASK)
        tokens += tokenizer.tokenize(text)
    tokens.append(SEPARATOR)
    if not positions:
        raise InputError(f"there is no {MASK} in it: {line.strip()!r}")
    if len(tokens) > max_length:
        raise InputError(
            f"it has {len(tokens)} pieces, {START} and {SEPARATOR} among them, "
            f"but the model reads at most {max_length}; shorten it"
        )
    return Blanks(tokenizer.convert_tokens_to_ids(tokens), positions)


class BlankFiller:
    """An encoder with its masked-LM head; load weights through `bindings`."""

    def __init__(self, config: BertConfig):
        self.config = config
        self.encoder = Encoder(config)
        self.masked_lm = MaskedLmHead(config)
        self.encoder.build()
        self.masked_lm.build()

    def bindings(self) -> list[Binding]:
        return [
            *encoder_bindings(self.encoder),
            *masked_lm_bindings(self.masked_lm),
        ]

    def probabilities(self, blanks: Blanks) -> np.ndarray:
        """[P, V]: for each [MASK], the probability of each piece.

        A batch of one, padded to few different shapes: each new one compiles.
        """
        length = padded_length(
            len(blanks.ids), self.config.max_position_embeddings
        )
        ids = _padded(blanks.ids, length)
        outputs = self.encoder(
            ids,
            _padded([1] * len(blanks.ids), length),
            np.zeros_like(ids),
        )
        count = padded_length(len(blanks.positions), length)
        logits = self.masked_lm(
            outputs.sequence,
            _padded(blanks.positions, count),
            self.encoder.embeddings.word_embeddings.value,
        )
        probabilities = ops.softmax(ops.cast(logits, "float32"))
        return ops.convert_to_numpy(probabilities)[0, : len(blanks.positions)]


def padded_length(length: int, limit: int) -> int:
    """The power of two that holds `length`, 17 gives 32; within the limit."""
    return min(limit, max(MIN_LENGTH, 1 << (length - 1).bit_length()))


def _padded(numbers: list[int], length: int) -> np.ndarray:
    return np.array([numbers + [0] * (length - len(numbers))], np.int32)


def likeliest(
    probabilities: np.ndarray, pieces: dict[int, str], count: int
) -> list[tuple[str, float]]:
    """The `count` likeliest pieces of [V] probabilities, the best first.

    Args:
        pieces: by id; a model may have ids that its vocabulary has not.
    """
    ranked = (-probabilities).argsort(kind="stable").tolist()
    known = [number for number in ranked if number in pieces]
    return [(pieces[i], float(probabilities[i])) for i in known[:count]]
