"""Tests of modeling/cost.py by numbers worked out by hand."""

import dataclasses

import pytest

from bert_keras.errors import InputError
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.cost import Rows, step_flop, training_memory
from bert_keras.modeling.encoder import Encoder

SMALL = BertConfig(
    vocab_size=11,
    hidden_size=6,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=7,
)


@pytest.mark.parametrize(
    "size",
    [
        "vocab_size",
        "intermediate_size",
        "max_position_embeddings",
        "type_vocab_size",
    ],
)
def test_more_weights_than_memory_are_not_built(size: str) -> None:
    huge = dataclasses.replace(
        SMALL,
        hidden_size=9999,
        **{size: 2**31 - 1},  # type: ignore[arg-type]
    )
    with pytest.raises(InputError, match=f"GiB of memory; .*{size} 2147483647"):
        Encoder(huge)


def test_operations_of_a_small_step() -> None:
    # a layer, a row of 5: 5 * (8 * 36 + 4 * 6 * 7 + 4 * 5 * 6) = 2880;
    # pooler 2 * 36 = 72; two predictions 2 * 2 * 6 * (6 + 11) = 408
    forward = 13 * (2 * 2880 + 72 + 408)
    rows = Rows(13, 5, num_predictions=2)
    assert step_flop(SMALL, rows, -1) == 3 * forward
    assert step_flop(SMALL, rows, 0) == 3 * forward
    assert step_flop(SMALL, rows, 1) == 3 * forward - 2 * 13 * 2880


def test_recomputation_is_one_more_forward_pass_of_the_trained_layers() -> None:
    rows = Rows(13, 5, num_predictions=2)
    plain, frozen = (step_flop(SMALL, rows, n) for n in (-1, 1))
    assert step_flop(SMALL, rows, -1, True) == plain + 13 * 2 * 2880
    assert step_flop(SMALL, rows, 1, True) == frozen + 13 * 2880


def test_operations_of_a_published_size() -> None:
    """180 GFLOP forward and 562 a step is what the speeds of BERT-base were
    reckoned with before there was this module."""
    base = BertConfig.of_size("base", 30522)
    forward = step_flop(base, Rows(8, 128), -1) / 3
    assert forward == pytest.approx(180e9, rel=0.01)
    step = step_flop(base, Rows(8, 128, num_predictions=20), -1)
    assert step == pytest.approx(562e9, rel=0.01)


def test_memory_of_a_small_step() -> None:
    # a position of a layer: 6 * 32 + 7 * 8 + 3 * 5 * 8 = 368 bytes;
    # of the embeddings 6 * 8 = 48; logits of two predictions 12 * 2 * 11
    activations = 13 * (2 * 5 * 368 + 5 * 48 + 264)
    rows = Rows(13, 5, num_predictions=2)
    memory = training_memory(SMALL, rows, 1000, 900)
    assert [*memory.values()] == [4000, 3600, 7200, activations]


def test_memory_of_bfloat16_accumulation_and_frozen_layers() -> None:
    rows = Rows(13, 5)
    memory = training_memory(SMALL, rows, 1000, 100, 1, True, True)
    # a position of a layer: 6 * 16 + 7 * 4 + 15 * 4 = 184 bytes; one layer
    assert [*memory.values()] == [6000, 800, 800, 13 * 5 * 184]


def test_recomputed_layers_keep_their_input_and_one_is_whole() -> None:
    # of a position: two inputs of 6 * 4 bytes and one layer, 368; the rest as
    # in test_memory_of_a_small_step
    activations = 13 * (5 * (2 * 24 + 368) + 5 * 48 + 264)
    rows = Rows(13, 5, num_predictions=2)
    memory = training_memory(SMALL, rows, 1000, 900, recompute=True)
    assert [*memory.values()] == [4000, 3600, 7200, activations]


def test_activations_grow_with_the_rows_alone() -> None:
    one = training_memory(SMALL, Rows(1, 5), 1000, 1000)
    seven = training_memory(SMALL, Rows(7, 5), 1000, 1000)
    *fixed, activations = one.values()
    assert [*seven.values()] == [*fixed, 7 * activations]


def test_memory_of_a_published_size_grows_as_was_reckoned() -> None:
    """What the module's docstring says beside the measurement."""
    base = BertConfig.of_size("base", 30522)
    few, many = (
        sum(training_memory(base, Rows(n, 128, 20), 1, 1).values())
        for n in (7, 8)
    )
    assert round((many - few) / 2**20) == 98
