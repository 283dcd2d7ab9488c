"""Which tokens are to be predicted, and what stands in their place: the masked
language model's 15 % / 80 / 10 / 10.

BERT paper, section 3.1; google-research/bert, create_pretraining_data.py,
create_masked_lm_predictions. The calls of the random generator come in that
function's order, so that an equal generator gives equal records.

The same rules stand three times, each for a use of its own: `mask_tokens` here
is Google's step by step (data/instances.py), data/vectorized_masking.py masks
many records at once with NumPy, and data/dynamic_masking.py masks batches in
the input pipeline with TensorFlow. Which tokens may be chosen, how many, by
words or not, and what is shown instead must stay the same in all of them:
tests/data/test_masking_agrees.py puts each through the same rules. The shares
themselves stand once, in `MaskConfig`.

Shapes: V tokens in the vocabulary.
"""

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_keras.data.bpe import SPACE
from bert_keras.data.special_tokens import SpecialTokens
from bert_keras.data.vocabulary import MASK, SEPARATOR, START
from bert_keras.errors import InputError


@dataclasses.dataclass(frozen=True)
class MaskConfig:
    """How many tokens are chosen to be predicted, and what becomes of them; the
    defaults are Google's (appendix C.2 has other shares)."""

    max_predictions_per_seq: int = 20  # chosen tokens at most
    masked_lm_prob: float = 0.15  # share of tokens that are chosen
    do_whole_word_mask: bool = False  # choose all tokens of a word or none
    mask_share: float = 0.8  # of the chosen, that becomes [MASK]
    random_share: float = 0.1  # that becomes any token; the rest stays

    def check_shares(self, *others: str) -> None:
        """Raises an InputError for a share, or one of these other arguments,
        that is out of its range."""
        for name in ("mask_share", "random_share", *others):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(
                    f"`{name}={getattr(self, name)}` must lie between 0 and 1"
                )
        if self.mask_share + self.random_share > 1 + 1e-9:
            raise InputError(
                f"`mask_share={self.mask_share}` and `random_share="
                f"{self.random_share}` are more than 1 together"
            )

    @property
    def keep_below(self) -> float:
        """A uniform draw below `mask_share` means [MASK]; else, below this, the
        token stays; else it becomes a random one."""
        return 1 - self.random_share

    @property
    def keep_of_rest(self) -> float:
        """The share that stays of what is not masked."""
        rest = 1 - self.mask_share
        # Rounded, so that it is Google's 0.5 where nothing is said.
        return round(1 - self.random_share / rest, 9) if rest else 0.0


def mask_hint(
    length: int, config: MaskConfig, argument: str = "masked_lm_prob"
) -> str | None:
    """Says by how much `max_predictions_per_seq` cuts the masks, if it does.

    Args:
        length: max_seq_length.
        argument: that has set `config.masked_lm_prob`.
    """
    most = config.max_predictions_per_seq
    wanted = round(config.masked_lm_prob * length)
    if most > 0.9 * wanted:
        return None
    return (
        f"`{argument}={config.masked_lm_prob:g}` asks for {wanted} masked "
        f"tokens in a record of `max_seq_length={length}`, and "
        f"`max_predictions_per_seq={most}` leaves {most}, which is "
        f"{most / length:.1%} of it; `max_predictions_per_seq={wanted}` keeps "
        "all of them"
    )


class Masked(NamedTuple):
    """A sequence as the model sees it, and what it has to predict."""

    tokens: list[str]
    positions: list[int]  # of the chosen, rising
    labels: list[str]  # the tokens that stood there


def mask_tokens(
    tokens: Sequence[str],
    config: MaskConfig,
    vocab_words: Sequence[str],
    rng: random.Random,
) -> Masked:
    """Chooses round(len(tokens) * masked_lm_prob) tokens, at least one.

    Of 100 tokens with [CLS] and [SEP], 15 are chosen at 0.15: on average 12
    become [MASK], 1.5 stay, 1.5 become one drawn from vocab_words (any token:
    special and unused ones too, as in Google's code).
    """
    groups = candidate_groups(tokens, config.do_whole_word_mask)
    rng.shuffle(groups)
    num_to_predict = min(
        config.max_predictions_per_seq,
        max(1, round(len(tokens) * config.masked_lm_prob)),
    )
    masked = list(tokens)
    chosen: list[int] = []
    for group in groups:
        if len(chosen) >= num_to_predict:
            break
        # A word too long for what is left is passed over for a shorter one.
        if len(chosen) + len(group) > num_to_predict:
            continue
        for position in group:
            if rng.random() < config.mask_share:
                masked[position] = MASK
            elif rng.random() >= config.keep_of_rest:
                number = rng.randint(0, len(vocab_words) - 1)
                masked[position] = vocab_words[number]
        chosen += group
    chosen.sort()
    return Masked(masked, chosen, [tokens[position] for position in chosen])


def candidate_groups(
    tokens: Sequence[str], do_whole_word_mask: bool
) -> list[list[int]]:
    """Positions that are chosen together: of one token, or of one word.

    Whole words: [CLS] un ##aff ##able man [SEP] gives [1, 2, 3] and [4].
    A segment cut inside a word begins with "##": that token joins the word
    before the [SEP], as in Google's code.
    """
    groups: list[list[int]] = []
    for position, token in enumerate(tokens):
        if token in (START, SEPARATOR):
            continue
        if do_whole_word_mask and groups and token.startswith("##"):
            groups[-1].append(position)
        else:
            groups.append([position])
    return groups


@dataclasses.dataclass(frozen=True)
class MaskingVocabulary:
    """Ids of tokens.

    Samplers write id + V for a token that continues a word though it does not
    begin with "##". Records have the id.
    """

    special_tokens: SpecialTokens
    padding: int
    start: int
    end: int
    mask: int
    replacements: np.ndarray  # int32, what random ones are drawn from
    continues: np.ndarray  # bool [V], which do not begin a word
    # Whether such a token belongs to the word before a special token, as in
    # Google's code. That is rare: the text was cut inside a word there.
    joins_over_special_tokens: bool


def read_masking_vocabulary(
    vocab: Mapping[str, int], special_tokens: SpecialTokens
) -> MaskingVocabulary:
    """Word pieces begin a word unless they begin with "##", and any replaces
    another, special tokens too, as in Google's code. Bytes begin one where they
    begin with a space, and special tokens replace nothing, as in fairseq's
    data/mask_tokens_dataset.py."""
    is_bytes = special_tokens.is_byte_level
    continues = np.zeros(max(vocab.values()) + 1, bool)
    for piece, number in vocab.items():
        continues[number] = (
            not piece.startswith(SPACE) if is_bytes else piece.startswith("##")
        )
    replacements = [
        number
        for piece, number in vocab.items()
        if not is_bytes or piece not in special_tokens.tokens
    ]
    return MaskingVocabulary(
        special_tokens,
        vocab[special_tokens.padding],
        vocab[special_tokens.start],
        vocab[special_tokens.end],
        vocab[special_tokens.mask],
        np.array(replacements, np.int32),
        continues,
        joins_over_special_tokens=not is_bytes,
    )
