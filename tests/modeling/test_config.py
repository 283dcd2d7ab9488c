"""Tests of modeling/config.py."""

import json
from pathlib import Path

import pytest

from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.config import (
    ACTIVATIONS,
    BertConfig,
)
from bert_keras.modeling.hugging_face import (
    FROM_HUGGING_FACE,
    TO_HUGGING_FACE,
    to_hugging_face,
)

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


HUGGING_FACE = {  # keys and values of a config.json that transformers wrote
    "architectures": ["BertForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "classifier_dropout": None,
    "directionality": "bidi",
    "hidden_act": "gelu",
    "hidden_size": 40,
    "layer_norm_eps": 1e-12,
    "model_type": "bert",
    "num_attention_heads": 5,
    "pad_token_id": 0,
    "transformers_version": "4.57.1",
    "vocab_size": 31,
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
    path = Path(write(tmp_path, {"vocab_size": 7}))
    config = BertConfig.from_json_file(path)
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


def test_a_size_that_was_not_released_is_named() -> None:
    with pytest.raises(InputError, match="`size` is 'huge'; .* of tiny, mini,"):
        BertConfig.of_size("huge", 30522)


def test_every_activation_that_a_config_may_name_is_there() -> None:
    assert set(ACTIVATIONS) == set(fused_ops.ACTIVATIONS)


def test_a_hugging_face_file_is_translated(tmp_path: Path) -> None:
    config = BertConfig.from_json_file(write(tmp_path, HUGGING_FACE))
    assert config.hidden_act == "gelu_erf"
    assert (config.type_vocab_size, config.vocab_size) == (2, 31)
    assert config.other == {"directionality": "bidi"}
    # what is written as Google's is read as Google's
    (tmp_path / "bert_config.json").write_text(config.to_json())
    again = BertConfig.from_json_file(str(tmp_path / "bert_config.json"))
    assert again == config


ROBERTA = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "max_position_embeddings": 514,
    "model_type": "roberta",
    "type_vocab_size": 1,
}


def test_a_roberta_there_and_back(tmp_path: Path) -> None:
    config = BertConfig.from_json_file(write(tmp_path, ROBERTA))
    assert (config.family, config.layer_norm_eps) == ("roberta", 1e-5)
    assert (config.max_position_embeddings, config.position_offset) == (512, 2)
    assert (config.vocab_size, config.type_vocab_size) == (50265, 1)
    back = to_hugging_face(config)
    assert ROBERTA.items() <= back.items()
    ids = [back[f"{name}_token_id"] for name in ("bos", "pad", "eos")]
    assert ids == [0, 1, 2]
    assert BertConfig.from_json_file(write(tmp_path, back)) == config
    (tmp_path / "bert_config.json").write_text(config.to_json())
    again = BertConfig.from_json_file(str(tmp_path / "bert_config.json"))
    assert again == config


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"pad_token_id": None}, "pad_token_id = None; expected the id"),
        ({"hidden_act": "gelu_new"}, "hidden_act = 'gelu_new'"),
        ({"max_position_embeddings": 2}, "max_position_embeddings = 0"),
        ({"max_position_embeddings": None}, "max_position_embeddings = None"),
    ],
)
def test_another_roberta_is_refused(
    tmp_path: Path, change: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        BertConfig.from_json_file(write(tmp_path, ROBERTA | change))


def test_a_roberta_that_has_no_form_there() -> None:
    tanh = BertConfig(vocab_size=7, hidden_act="gelu", family="roberta")
    with pytest.raises(InputError, match="hidden_act = 'gelu_pytorch_tanh'"):
        to_hugging_face(tanh)
    with pytest.raises(InputError, match="family = 'albert'; .* bert, roberta"):
        BertConfig(vocab_size=7, family="albert")


DISTILBERT = {
    "activation": "gelu",
    "attention_dropout": 0.2,
    "dim": 40,
    "dropout": 0.3,
    "hidden_dim": 53,
    "max_position_embeddings": 61,
    "model_type": "distilbert",
    "n_heads": 5,
    "n_layers": 3,
    "sinusoidal_pos_embds": False,
    "vocab_size": 31,
}


def test_a_distilbert_there_and_back(tmp_path: Path) -> None:
    values = DISTILBERT | {"qa_dropout": 0.1, "tie_weights_": True}
    config = BertConfig.from_json_file(write(tmp_path, values))
    assert config == BertConfig(
        vocab_size=31,
        hidden_size=40,
        num_hidden_layers=3,
        num_attention_heads=5,
        intermediate_size=53,
        hidden_act="gelu_erf",
        hidden_dropout_prob=0.3,
        attention_probs_dropout_prob=0.2,
        max_position_embeddings=61,
        type_vocab_size=0,
        family="distilbert",
        other={"qa_dropout": 0.1},
    )
    assert config.traits.pooler_act == "relu"
    back = to_hugging_face(config)
    assert DISTILBERT.items() <= back.items()
    assert not {"hidden_size", "type_vocab_size", "family"} & back.keys()
    assert BertConfig.from_json_file(write(tmp_path, back)) == config
    (tmp_path / "bert_config.json").write_text(config.to_json())
    again = BertConfig.from_json_file(str(tmp_path / "bert_config.json"))
    assert again == config


def test_another_distilbert_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="= 2; expected 0 in a distilbert"):
        BertConfig(vocab_size=7, type_vocab_size=2, family="distilbert")
    with pytest.raises(InputError, match="= 0; expected a positive .* a bert"):
        BertConfig(vocab_size=7, type_vocab_size=0)
    other = BertConfig(
        vocab_size=7,
        type_vocab_size=0,
        layer_norm_eps=1e-5,
        family="distilbert",
    )
    with pytest.raises(InputError, match="layer_norm_eps = 1e-05; the one"):
        to_hugging_face(other)


def test_a_table_of_sines_is_one_that_is_stored(tmp_path: Path) -> None:
    sinusoidal = DISTILBERT | {"sinusoidal_pos_embds": True}
    config = BertConfig.from_json_file(write(tmp_path, sinusoidal))
    assert config == BertConfig.from_json_file(write(tmp_path, DISTILBERT))
    assert to_hugging_face(config)["sinusoidal_pos_embds"] is False


def test_names_that_a_distilbert_does_not_know_are_not_read(
    tmp_path: Path,
) -> None:
    """transformers' attribute_map has three of them; a hidden_act is ignored,
    and activation has its default."""
    values = DISTILBERT | {"hidden_act": "relu", "intermediate_size": 7}
    del values["activation"], values["dim"]
    values |= {"hidden_size": 50}
    config = BertConfig.from_json_file(write(tmp_path, values))
    assert (config.hidden_act, config.intermediate_size) == ("gelu_erf", 53)
    assert config.hidden_size == 50


@pytest.mark.parametrize(
    ("family", "ids", "rows", "offset"),
    [
        ("bert", {"pad_token_id": 3, "bos_token_id": 4}, 60, 0),
        ("roberta", {"pad_token_id": 0, "eos_token_id": 5}, 61, 1),
        ("roberta", {"pad_token_id": 5, "bos_token_id": 6}, 66, 6),
        ("distilbert", {"pad_token_id": 3, "eos_token_id": 4}, 60, 0),
    ],
)
def test_ids_of_tokens_there_and_back(
    tmp_path: Path,
    family: str,
    ids: dict[str, int],
    rows: int,
    offset: int,
) -> None:
    """A RoBERTa's first position is at pad_token_id + 1 (transformers'
    create_position_ids_from_input_ids)."""
    training = {"classifier_dropout": 0.3}
    values = {
        "model_type": family,
        "max_position_embeddings": rows,
        **ids,
        **training,
    }
    config = BertConfig.from_json_file(write(tmp_path, values))
    assert config.position_offset == offset
    assert config.max_position_embeddings == 60
    google = json.loads(config.to_json())
    assert google["pad_token_id"] == ids["pad_token_id"]
    again = BertConfig.from_json_file(write(tmp_path, google))
    assert again == config
    assert to_hugging_face(again).items() >= values.items()


def test_a_roberta_must_pad_as_its_vocabulary_does() -> None:
    config = BertConfig(vocab_size=7, family="roberta", type_vocab_size=1)
    config.check_padding(1, "vocab.json")
    with pytest.raises(
        InputError, match="vocab.json .* at 0 but the config has .* = 1"
    ):
        config.check_padding(0, "vocab.json")
    BertConfig(vocab_size=7).check_padding(3, "vocab.txt")  # is never looked at


@pytest.mark.parametrize(
    "key", ["model_type", "architectures", "transformers_version"]
)
def test_any_of_its_keys_tells_a_hugging_face_file(
    tmp_path: Path, key: str
) -> None:
    values = {"vocab_size": 31, "hidden_act": "gelu", key: HUGGING_FACE[key]}
    config = BertConfig.from_json_file(write(tmp_path, values))
    assert config.hidden_act == "gelu_erf"
    del values[key]
    config = BertConfig.from_json_file(write(tmp_path, values))
    assert config.hidden_act == "gelu"


@pytest.mark.parametrize(
    ("theirs", "ours", "written"),
    [
        ("gelu", "gelu_erf", "gelu"),
        ("gelu_new", "gelu", "gelu_pytorch_tanh"),
        ("gelu_pytorch_tanh", "gelu", "gelu_pytorch_tanh"),
        ("gelu_fast", "gelu", "gelu_pytorch_tanh"),
        ("relu", "relu", "relu"),
    ],
)
def test_activations_there_and_back(
    tmp_path: Path, theirs: str, ours: str, written: str
) -> None:
    values = {**HUGGING_FACE, "hidden_act": theirs}
    config = BertConfig.from_json_file(write(tmp_path, values))
    assert config.hidden_act == ours
    back = to_hugging_face(config)
    assert back["hidden_act"] == written
    assert BertConfig.from_json_file(write(tmp_path, back)) == config


def test_googles_two_names_for_one_activation_go_over_alike() -> None:
    for name in ("gelu", "gelu_tanh"):
        config = BertConfig(vocab_size=7, hidden_act=name)
        assert to_hugging_face(config)["hidden_act"] == "gelu_pytorch_tanh"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model_type": "albert"}, "model_type = 'albert'.*bert, roberta"),
        ({"model_type": ["bert"]}, r"model_type = \['bert'\]"),
        ({"layer_norm_eps": 1}, "layer_norm_eps = 1; expected a number"),
        ({"position_embedding_type": "relative_key"}, "'relative_key'"),
        ({"is_decoder": True}, "is_decoder = True"),
        ({"add_cross_attention": True}, "add_cross_attention = True"),
        ({"hidden_act": "silu"}, "hidden_act = 'silu'"),
        ({"hidden_act": ["gelu"]}, r"hidden_act = \['gelu'\]"),
        ({"quantization_config": {"bits": 4}}, "quantization_config = {'bits'"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads = {'0': "),
        ({"per_layer_config": {"0": {"hidden_act": "relu"}}}, "per_layer_"),
        ({"auto_map": {"AutoModel": "a.B"}}, "auto_map = {'AutoModel'"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder = True"),
        ({"pad_token_id": -1}, "pad_token_id = -1; expected the id of a token"),
        ({"pad_token_id": 31}, "pad_token_id = 31; expected the id of a token"),
    ],
)
def test_another_hugging_face_model_is_refused(
    tmp_path: Path, change: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InputError, match=f"bert_config.json: .*{sentence}"):
        BertConfig.from_json_file(write(tmp_path, HUGGING_FACE | change))


def test_keys_that_change_nothing_are_read_over(tmp_path: Path) -> None:
    harmless = {
        "chunk_size_feed_forward": 2,
        "dtype": "float16",
        "output_hidden_states": True,
        "pruned_heads": {},
        "quantization_config": None,
        "tie_word_embeddings": False,  # the weights are compared
        "torch_dtype": "bfloat16",
        "use_cache": False,
    }
    config = BertConfig.from_json_file(write(tmp_path, HUGGING_FACE | harmless))
    assert config == BertConfig.from_json_file(write(tmp_path, HUGGING_FACE))


def test_every_activation_has_a_name_there() -> None:
    assert set(TO_HUGGING_FACE) == set(ACTIVATIONS)
    assert set(FROM_HUGGING_FACE.values()) <= set(ACTIVATIONS)
