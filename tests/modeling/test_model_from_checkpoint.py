"""Tests of modeling/model_from_checkpoint.py."""

import dataclasses

import numpy as np

from bert_keras.modeling.model_from_checkpoint import (
    AnyModel,
    largest_difference,
)
from tests.conftest import TINY

ALL_HEADS = {
    "bert/pooler/dense/kernel": (40, 40),
    "cls/predictions/output_bias": (101,),
    "cls/seq_relationship/output_weights": (2, 40),
    "output_weights": (3, 40),
    "cls/squad/output_weights": (2, 40),
}


def test_what_a_checkpoint_lacks_is_the_same_in_each_model() -> None:
    one, two = AnyModel(TINY, ALL_HEADS), AnyModel(TINY, ALL_HEADS)
    assert largest_difference(one, two) == 0.0


def test_a_difference_in_any_variable_shows() -> None:
    """But for the biases of keys, which softmax takes out again."""
    config = dataclasses.replace(TINY, num_hidden_layers=2)
    one, two = AnyModel(config, ALL_HEADS), AnyModel(config, ALL_HEADS)
    rng = np.random.default_rng(0)
    for binding in two.mappings():
        if not binding.name.endswith("/key/bias"):
            value = binding.read()
            binding.write(value + rng.normal(size=value.shape))
            assert largest_difference(one, two) > 1e-3, binding.name
            binding.write(value)
    assert largest_difference(one, two) == 0.0
