"""Tests of modeling/config.py."""

import json
from pathlib import Path

import pytest

from input_error import InputError
from modeling import fused
from modeling.config import ACTIVATIONS, BertConfig

RELEASED = {  # keys and values as in a released multilingual bert_config.json
    "attention_probs_dropout_prob": 0.1,
    "directionality": "bidi",
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pooler_fc_size": 768,
    "type_vocab_size": 2,
    "vocab_size": 119547,
}


def write(folder: Path, values: object) -> str:
    path = folder / "bert_config.json"
    path.write_text(json.dumps(values))
    return str(path)


def test_a_released_file_survives_reading_and_writing(tmp_path: Path) -> None:
    config = BertConfig.from_json_file(write(tmp_path, RELEASED))
    assert config.vocab_size == 119547
    assert config.other == {"directionality": "bidi", "pooler_fc_size": 768}
    assert json.loads(config.to_json()) == RELEASED


def test_absent_keys_take_googles_defaults(tmp_path: Path) -> None:
    config = BertConfig.from_json_file(write(tmp_path, {"vocab_size": 7}))
    assert (config.type_vocab_size, config.hidden_size) == (16, 768)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "has no vocab_size"),
        ([1], "has no vocab_size"),
        ({"vocab_size": 0}, "vocab_size = 0"),
        ({"vocab_size": "7"}, "vocab_size = '7'"),
        ({"vocab_size": 7, "num_attention_heads": 5}, "hidden_size = 768"),
        ({"vocab_size": 7, "hidden_act": "swish"}, "hidden_act = 'swish'"),
        ({"vocab_size": 7, "hidden_dropout_prob": 1.5}, "= 1.5"),
        ({"vocab_size": 7, "initializer_range": None}, "= None"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, values: object, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        BertConfig.from_json_file(write(tmp_path, values))


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bert_config.json"
    path.write_text("{")
    with pytest.raises(InputError, match="is not a JSON file"):
        BertConfig.from_json_file(str(path))
    with pytest.raises(InputError, match="cannot read .*absent"):
        BertConfig.from_json_file(str(tmp_path / "absent"))


def test_every_activation_that_a_config_may_name_is_there() -> None:
    assert set(ACTIVATIONS) == set(fused.ACTIVATIONS)
