"""Masks worked out by hand, and their shares."""

import random

import pytest

from bert_keras.data import masking
from bert_keras.data.instances import InstanceConfig
from bert_keras.data.masking import (
    MaskConfig,
    mask_hint,
    read_masking_vocabulary,
)
from bert_keras.data.special_tokens import BERT, ROBERTA
from bert_keras.errors import InputError

SPACE = "\u0120"
TOKENS = ["[CLS]", "un", "##aff", "##able", "man", "[SEP]", "sea", "[SEP]"]


class ScriptedRandom(random.Random):
    """Plays back given draws; shuffle reverses."""

    def __init__(self, draws: list[float], numbers: list[int]) -> None:
        super().__init__()
        self.draws, self.numbers = draws, numbers

    def shuffle(self, x: list) -> None:  # type: ignore[override]
        x.reverse()

    def random(self) -> float:
        return self.draws.pop(0)

    def randint(self, a: int, b: int) -> int:
        assert (a, b) == (0, 4)
        return self.numbers.pop(0)


VOCAB_WORDS = ["v0", "v1", "v2", "v3", "v4"]


def test_pieces_by_hand() -> None:
    # 8 * 0.4 = 3.2, so 3 of the reversed candidates 6, 4, 3, 2, 1:
    # 6 is masked (0.79 < 0.8), 4 kept (0.8, 0.49), 3 random (0.9, 0.5).
    rng = ScriptedRandom([0.79, 0.8, 0.49, 0.9, 0.5], [3])
    masked = masking.mask_tokens(TOKENS, MaskConfig(5, 0.4), VOCAB_WORDS, rng)
    assert masked.tokens == [
        "[CLS]", "un", "##aff", "v3", "man", "[SEP]", "[MASK]", "[SEP]",
    ]  # fmt: skip
    assert masked.positions == [3, 4, 6]
    assert masked.labels == ["##able", "man", "sea"]
    assert not rng.draws and not rng.numbers


def test_other_shares_by_hand() -> None:
    # None masked; of the rest 0.25 kept: 6 (0.24) is, 4 and 3 are random.
    rng = ScriptedRandom([0.0, 0.24, 0.0, 0.25, 0.0, 0.99], [1, 2])
    config = MaskConfig(5, 0.4, mask_share=0.0, random_share=0.75)
    masked = masking.mask_tokens(TOKENS, config, VOCAB_WORDS, rng)
    assert masked.tokens == [
        "[CLS]", "un", "##aff", "v2", "v1", "[SEP]", "sea", "[SEP]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("to_mask", "at_random", "sentence"),
    [
        (0.8, 0.3, "`mask_share=0.8` and `random_share=0.3` are more than 1"),
        (-0.1, 0.0, "`mask_share=-0.1` must lie between 0 and 1"),
    ],
)
def test_shares_of_one_whole(
    to_mask: float, at_random: float, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        InstanceConfig(mask_share=to_mask, random_share=at_random).check()
    with pytest.raises(InputError, match=sentence):
        MaskConfig(mask_share=to_mask, random_share=at_random).check_shares()


def test_shares_not_given_are_googles() -> None:
    assert MaskConfig().keep_of_rest == 0.5  # to the bit
    assert MaskConfig().keep_below == 0.9


def test_at_most_max_predictions() -> None:
    rng = ScriptedRandom([0.0, 0.0], [])
    masked = masking.mask_tokens(TOKENS, MaskConfig(2, 0.4), VOCAB_WORDS, rng)
    assert masked.positions == [4, 6]


def test_at_least_one() -> None:
    rng = ScriptedRandom([0.0], [])
    masked = masking.mask_tokens(TOKENS, MaskConfig(5, 0.01), VOCAB_WORDS, rng)
    assert masked.positions == [6]


def test_candidate_groups() -> None:
    assert masking.candidate_groups(TOKENS, False) == [[1], [2], [3], [4], [6]]
    assert masking.candidate_groups(TOKENS, True) == [[1, 2, 3], [4], [6]]


def test_group_across_a_separator() -> None:
    tokens = ["[CLS]", "##s", "sea", "[SEP]", "##s", "##y", "a", "[SEP]"]
    assert masking.candidate_groups(tokens, True) == [[1], [2, 4, 5], [6]]


def test_whole_words_by_hand() -> None:
    # 3 to predict; reversed groups [6], [4], [1, 2, 3]: the last would make 5.
    rng = ScriptedRandom([0.0, 0.0], [])
    masked = masking.mask_tokens(
        TOKENS, MaskConfig(5, 0.4, True), VOCAB_WORDS, rng
    )
    assert masked.positions == [4, 6]
    # 5 to predict: all of it fits.
    rng = ScriptedRandom([0.0] * 5, [])
    masked = masking.mask_tokens(
        TOKENS, MaskConfig(5, 0.6, True), VOCAB_WORDS, rng
    )
    assert masked.positions == [1, 2, 3, 4, 6]
    assert masked.labels == ["un", "##aff", "##able", "man", "sea"]


def test_too_long_word_is_passed_over_for_a_shorter_one() -> None:
    tokens = ["[CLS]", "sea", "un", "##aff", "##able", "[SEP]"]
    rng = ScriptedRandom([0.0], [])  # reversed: [2, 3, 4], then [1]
    masked = masking.mask_tokens(
        tokens, MaskConfig(5, 0.33, True), VOCAB_WORDS, rng
    )
    assert masked.positions == [1]


def test_word_pieces() -> None:
    vocab = "[PAD] [CLS] [SEP] [MASK] [UNK] sea ##s ##".split()
    pieces = read_masking_vocabulary({p: i for i, p in enumerate(vocab)}, BERT)
    assert (pieces.padding, pieces.start, pieces.end, pieces.mask) == (
        0, 1, 2, 3,
    )  # fmt: skip
    assert pieces.replacements.tolist() == list(range(8))
    assert pieces.continues.tolist() == [False] * 6 + [True] * 2
    assert pieces.joins_over_special_tokens


def test_bytes() -> None:
    names = ["<s>", "<pad>", "</s>", "<unk>", f"{SPACE}sea", "s", "<mask>"]
    pieces = read_masking_vocabulary(
        {p: i for i, p in enumerate(names)}, ROBERTA
    )
    assert (pieces.padding, pieces.start, pieces.end, pieces.mask) == (
        1, 0, 2, 6,
    )  # fmt: skip
    assert pieces.replacements.tolist() == [4, 5]  # no mark
    assert pieces.continues[[4, 5]].tolist() == [False, True]
    assert not pieces.joins_over_special_tokens


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        # 76.8 of 512 tokens are asked for, and 20 are 3.9 % of them
        ({"max_seq_length": 512}, "leaves 20, which is 3.9% of it"),
        ({"masked_lm_prob": 0.5}, "leaves 20, which is 15.6% of it"),
        ({"max_seq_length": 512, "max_predictions_per_seq": 76}, None),
        ({}, None),
    ],
)
def test_masks_that_are_cut(changes: dict[str, int], left: str | None) -> None:
    config = InstanceConfig(**changes)  # type: ignore[arg-type]
    hint = mask_hint(config.max_seq_length, config)
    assert hint is None if left is None else hint and left in hint


def test_masks_that_are_cut_are_those_of_an_argument() -> None:
    config = InstanceConfig(max_seq_length=512)
    hint = mask_hint(512, config, "eval_masked_lm_prob")
    assert hint and hint.startswith("`eval_masked_lm_prob=0.15` asks for 77")
