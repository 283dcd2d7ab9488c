"""Tests of modeling/hugging_face.py and hugging_face_names.py.

Expected numbers are transformers' own (golden/hugging_face).
"""

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import (
    AnyModel,
    LoadReport,
    largest_difference,
    load_checkpoint,
    open_weights,
    save_model_folder,
)
from bert_keras.modeling.config import BertConfig, model_config_file
from bert_keras.modeling.hugging_face import (
    INDEX,
    WEIGHTS,
    Safetensors,
    is_hugging_face,
    save_hugging_face_folder,
)
from bert_keras.modeling.hugging_face_names import (
    CHOICE,
    CLASSIFIER,
    TAGGER,
    architecture_of,
    google_name,
    hugging_face_name,
)
from tests.conftest import GOLDEN

TINY_BERT = GOLDEN / "tiny_bert"
THEIRS = GOLDEN / "hugging_face"
ROBERTA = tuple(
    f"roberta_{kind}"
    for kind in ("masked_lm", "classifier", "bare", "choice", "tagger")
)
DISTILBERT = tuple(
    f"distilbert_{kind}"
    for kind in ("masked_lm", "classifier", "span", "bare", "choice", "tagger")
)
MODERNBERT = tuple(
    f"modernbert_{kind}"
    for kind in ("bare", "masked_lm", "classifier", "choice", "tagger", "span")
)
NAMES = (
    "pretraining", "classifier", "span", "choice", "tagger",
    *ROBERTA, *DISTILBERT, *MODERNBERT,
)  # fmt: skip
Tensors = dict[str, np.ndarray]


def kind_of(name: str) -> str:
    kinds = {"choice": CHOICE, "tagger": TAGGER}
    return kinds.get(name.rpartition("_")[2], CLASSIFIER)


def load(folder: Path) -> tuple[AnyModel, LoadReport]:
    config_file = model_config_file(str(folder))
    assert config_file is not None
    config = BertConfig.from_json_file(config_file)
    model = AnyModel(config, open_weights(str(folder)).shapes)
    return model, load_checkpoint(model.mappings(), str(folder))


def changed(
    tmp_path: Path, name: str, change: Callable[[Tensors], Tensors]
) -> Path:
    """A copy of a golden folder with other tensors."""
    folder = tmp_path / "changed"
    shutil.copytree(THEIRS / name, folder)
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_transformers(name: str) -> None:
    model, report = load(THEIRS / name)
    pooler = ["bert/pooler/dense/kernel", "bert/pooler/dense/bias"]
    if name in MODERNBERT:
        pooler[1] = "bert/pooler/LayerNorm/gamma"
    is_tagger = name.endswith("tagger")
    has_none = (
        name == "modernbert_bare"
        or name not in MODERNBERT
        and (
            is_tagger
            or name in ("span", "roberta_masked_lm")
            or (
                name in DISTILBERT
                and not name.endswith(("classifier", "choice"))
            )
        )
    )
    assert list(report.missing) == (pooler if has_none else [])
    assert report.unused == ()
    theirs = dict(np.load(THEIRS / name / "outputs.npz"))
    if name in DISTILBERT + MODERNBERT:  # whose segments are nothing to look at
        theirs["in_token_type_ids"] = np.ones_like(theirs["in_input_ids"])
    ids, mask, segments = (
        theirs[f"in_{key}"].astype(np.int32)
        for key in ("input_ids", "attention_mask", "token_type_ids")
    )
    outputs = model.outputs(ids, mask, segments, pools=not is_tagger)
    expected = {"layers": theirs["hidden_states"]}
    if name == "pretraining":
        expected["cls/predictions"] = theirs["prediction_logits"]
        expected["cls/seq_relationship/"] = theirs["seq_relationship_logits"]
    elif name.endswith("masked_lm"):
        expected["cls/predictions"] = theirs["logits"]
    elif name.endswith(("classifier", "tagger")):
        expected[""] = theirs["logits"]
    elif name.endswith("choice"):  # of one question, whose rows they are
        expected[""] = theirs["logits"].T
    elif name == "roberta_bare":
        expected["pooled"] = theirs["pooler_output"]
    elif name.endswith("span"):
        ends = theirs["start_logits"], theirs["end_logits"]
        expected["cls/squad/"] = np.stack(ends, axis=-1)
    real = theirs["in_attention_mask"] == 1  # what else is there is undefined
    for key, value in expected.items():
        ours = outputs[key]
        by_piece = (
            "layers", "cls/predictions", "cls/squad/", *[""] * is_tagger,
        )  # fmt: skip
        if name in ROBERTA + MODERNBERT and key in by_piece:
            ours, value = ours[..., real, :], value[..., real, :]
        np.testing.assert_allclose(ours, value, atol=5e-6, err_msg=key)


@pytest.mark.parametrize("name", NAMES)
def test_to_google_and_back_every_bit_is_the_same(
    tmp_path: Path, name: str
) -> None:
    model, report = load(THEIRS / name)
    mappings = [b for b in model.mappings() if b.name in report.loaded]
    save_model_folder(str(tmp_path / "there"), model.config, mappings, None)
    model, report = load(tmp_path / "there")
    mappings = [b for b in model.mappings() if b.name in report.loaded]
    save_hugging_face_folder(
        str(tmp_path / "back"),
        model.config,
        mappings,
        None,
        classifier=kind_of(name),
    )
    original = load_file(THEIRS / name / "model.safetensors")
    copy = load_file(tmp_path / "back" / "model.safetensors")
    assert copy.keys() == original.keys()
    for key, value in original.items():
        assert copy[key].tobytes() == value.tobytes(), key
    config = json.loads((THEIRS / name / "config.json").read_text())
    written = json.loads((tmp_path / "back" / "config.json").read_text())
    assert written["architectures"] == config["architectures"]
    for key in written.keys() & config.keys() - {"id2label", "label2id"}:
        if config[key] == "gelu_new":
            assert written[key] == "gelu_pytorch_tanh", "another name of it"
        elif key != "problem_type":  # what is given, see below
            assert written[key] == config[key], key


@pytest.mark.parametrize("name", ["tagger", "distilbert_tagger"])
def test_a_tagger_that_was_trained_here(tmp_path: Path, name: str) -> None:
    """It has a pooler, for which DistilBERT's class has no place."""
    model, _ = load(THEIRS / name)
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    save_model_folder(here, model.config, model.mappings(), None)
    trained, _ = load(tmp_path / "here")
    assert trained.has_pooler
    save_hugging_face_folder(
        there, model.config, trained.mappings(), None, classifier=TAGGER
    )
    back, _ = load(tmp_path / "there")
    assert back.has_pooler == (name == "tagger")
    assert largest_difference(trained, back) == 0.0


def test_a_bare_encoder_has_no_prefix(tmp_path: Path) -> None:
    model, _ = load(THEIRS / "pretraining")
    encoder = AnyModel(model.config, {}).mappings()
    save_hugging_face_folder(str(tmp_path), model.config, encoder, None)
    with safe_open(tmp_path / "model.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt"}
        assert all(
            key.startswith(("embeddings.", "encoder.", "pooler."))
            for key in file.keys()  # noqa: SIM118 (it is no dictionary)
        )
    assert "BertModel" in (tmp_path / "config.json").read_text()
    _, report = load(tmp_path)
    assert len(report.loaded) == len(encoder)


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ((), "BertModel"),
        (("cls/predictions/output_bias",), "BertForMaskedLM"),
        (("cls/seq_relationship/output_weights",),
         "BertForNextSentencePrediction"),
        (("cls/predictions/output_bias", "cls/seq_relationship/output_weights"),
         "BertForPreTraining"),
        (("output_weights",), "BertForSequenceClassification"),
        (("cls/squad/output_weights",), "BertForQuestionAnswering"),
    ],
)  # fmt: skip
def test_the_heads_say_which_class(
    tmp_path: Path, heads: Sequence[str], expected: str
) -> None:
    config, _ = load(THEIRS / "span")
    model = AnyModel(config.config, dict.fromkeys(heads, (3, 12)))
    save_hugging_face_folder(
        str(tmp_path), model.config, model.mappings(), None
    )
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["architectures"] == [expected]
    if heads == ("output_weights",):
        assert written["id2label"]["2"] == "LABEL_2"


def test_labels_and_tokenizer_are_written(tmp_path: Path) -> None:
    model, _ = load(THEIRS / "classifier")
    vocabulary = tmp_path / "pieces.txt"
    vocabulary.write_text("[PAD]\n")
    folder = tmp_path / "model"
    save_hugging_face_folder(
        str(folder),
        model.config,
        model.mappings(),
        str(vocabulary),
        ["no", "yes", "perhaps"],
        "single_label_classification",
        tokenizer_files={"tokenizer_config.json": "{}"},
    )
    config = json.loads((folder / "config.json").read_text())
    original = json.loads((THEIRS / "classifier/config.json").read_text())
    assert config["id2label"] == original["id2label"]
    assert config["label2id"] == {"no": 0, "yes": 1, "perhaps": 2}
    assert config["problem_type"] == original["problem_type"]
    assert (folder / "tokenizer_config.json").read_bytes() == b"{}"
    assert (folder / "vocab.txt").read_text() == "[PAD]\n"
    with pytest.raises(InputError, match="3 outputs and 2 labels, no, yes"):
        save_hugging_face_folder(
            str(folder), model.config, model.mappings(), None, ["no", "yes"]
        )


def test_a_byte_level_vocabulary_goes_along(tmp_path: Path) -> None:
    model, _ = load(THEIRS / "roberta_bare")
    byte_level = GOLDEN / "byte_level"
    for save in (save_hugging_face_folder, save_model_folder):
        folder = tmp_path / save.__name__
        save(
            str(folder),
            model.config,
            model.mappings(),
            str(byte_level / "vocab.json"),
        )
        for name in ("vocab.json", "merges.txt"):
            content = (byte_level / name).read_bytes()
            assert (folder / name).read_bytes() == content
        assert load(folder)[0].config == model.config


@pytest.mark.parametrize("name", ["classifier", "roberta_bare"])
def test_a_head_of_ones_own_is_not_read(tmp_path: Path, name: str) -> None:
    """By names that mean something in a ModernBERT."""
    own = np.ones((3, 12), np.float32)
    names = ("head.weight", "head.dense.weight", "decoder.bias",
             "layers.0.weight", "model.extra")  # fmt: skip
    folder = changed(
        tmp_path, name, lambda tensors: tensors | dict.fromkeys(names, own)
    )
    model, report = load(folder)
    assert {*report.unused} == {*names}
    assert model.config.family == ("roberta" if "rob" in name else "bert")


def test_roberta_has_names_of_its_own() -> None:
    def name(google: str, architecture: str) -> str:
        theirs = hugging_face_name(google, "roberta", architecture)
        assert google_name(theirs) == google
        return theirs

    pooler = "bert/pooler/dense/kernel"
    classifier = "RobertaForSequenceClassification"
    assert name(pooler, classifier) == "classifier.dense.weight"
    assert name(pooler, "RobertaModel") == "pooler.dense.weight"
    spans = name("cls/squad/output_bias", "RobertaForQuestionAnswering")
    assert spans == "qa_outputs.bias"
    assert architecture_of(["output_weights"], "roberta") == classifier
    with pytest.raises(InputError, match="seq_relationship.*roberta has no pl"):
        architecture_of(["cls/seq_relationship/output_bias"], "roberta")


@pytest.mark.parametrize("in_two_files", [False, True])
def test_two_tensors_for_one_variable_are_refused(
    tmp_path: Path, in_two_files: bool
) -> None:
    name = "bert.encoder.layer.0.output.dense.weight"

    def repeated(tensors: Tensors) -> Tensors:
        copies = {
            key.removeprefix("bert."): value for key, value in tensors.items()
        }
        return {**tensors, **copies}

    folder = changed(tmp_path, "classifier", repeated)
    if in_two_files:
        shard(folder)
    load(folder)  # they are equal
    path = next(
        path
        for path in folder.glob("*.safetensors")
        if name.removeprefix("bert.") in (tensors := load_file(path))
    )
    tensors[name.removeprefix("bert.")] += 1
    save_file(tensors, path)
    sentence = (
        "layer_0/output/dense/kernel twice, as (bert.)?enc.* and (bert.)?"
    )
    with pytest.raises(InputError, match=sentence):
        load(folder)


def test_a_tensor_that_is_in_two_files_is_refused(tmp_path: Path) -> None:
    folder = changed(tmp_path, "pretraining", lambda tensors: tensors)
    shard(folder)
    one, other = sorted(folder.glob("*.safetensors"))
    name, value = next(iter(load_file(one).items()))
    save_file({**load_file(other), name: value}, other)
    load(folder)
    save_file({**load_file(other), name: value + 1}, other)
    with pytest.raises(InputError, match=f"twice, as {name} and {name}, with"):
        load(folder)


def test_a_roberta_classifier_may_have_a_pooler_that_it_does_not_read(
    tmp_path: Path,
) -> None:
    folder = changed(
        tmp_path,
        "roberta_classifier",
        lambda tensors: {
            **tensors,
            "roberta.pooler.dense.weight": np.zeros((12, 12), np.float32),
            "roberta.pooler.dense.bias": np.zeros(12, np.float32),
        },
    )
    model, _ = load(folder)
    same, _ = load(THEIRS / "roberta_classifier")
    for ours, theirs in zip(model.mappings(), same.mappings(), strict=True):
        np.testing.assert_array_equal(ours.read(), theirs.read())


def test_tensors_of_two_kinds_of_models_are_refused(tmp_path: Path) -> None:
    folder = changed(
        tmp_path,
        "roberta_masked_lm",
        lambda tensors: {
            **tensors,
            "cls.predictions.bias": np.zeros(37, np.float32),
        },
    )
    with pytest.raises(InputError, match="names of several kinds of models"):
        load(folder)


def test_an_output_layer_of_robertas_own_is_refused(tmp_path: Path) -> None:
    folder = changed(
        tmp_path,
        "roberta_masked_lm",
        lambda tensors: {
            **tensors,
            "lm_head.decoder.weight": np.zeros((37, 12), np.float32),
        },
    )
    with pytest.raises(InputError, match="another lm_head.decoder.weight"):
        load(folder)


def test_positions_that_are_given_are_counted_as_those_that_are_not() -> None:
    model, _ = load(THEIRS / "roberta_bare")
    assert model.config.max_position_embeddings == 21  # 23 rows, two before it
    ids = np.arange(2, 23, dtype=np.int32)[None]  # as long as may be
    arrays = ids, np.ones_like(ids), np.zeros_like(ids)
    expected = model.encoder(*arrays).sequence
    positions = np.arange(21, dtype=np.int32)[None]
    given = model.encoder(*arrays, position_ids=positions).sequence
    np.testing.assert_array_equal(given, expected)


@pytest.mark.slow
def test_a_pooler_goes_only_where_there_is_a_place_for_it(
    tmp_path: Path,
) -> None:
    """To DistilBERT with its classifiers, to others without a masked LM."""
    for name in (*DISTILBERT, "roberta_masked_lm", "roberta_bare"):
        model, _ = load(THEIRS / name)  # a pooler of chance, if there was none
        folder = tmp_path / name
        save_hugging_face_folder(
            str(folder),
            model.config,
            model.mappings(),
            None,
            classifier=kind_of(name),
        )
        original = load_file(THEIRS / name / "model.safetensors")
        assert load_file(folder / "model.safetensors").keys() == original.keys()
        assert largest_difference(model, load(folder)[0]) == 0.0
    with pytest.raises(InputError, match="distilbert has no place"):
        architecture_of(["cls/seq_relationship/output_bias"], "distilbert")


def test_every_name_goes_there_and_back() -> None:
    config = BertConfig.from_json_file(str(THEIRS / "span" / "config.json"))
    model = AnyModel(
        config,
        {
            "cls/predictions/output_bias": (37,),
            **{
                f"{root}output_weights": (2, 12)
                for root in ("", "cls/squad/", "cls/seq_relationship/")
            },
        },
    )
    for name in (mapping.name for mapping in model.mappings()):
        theirs = hugging_face_name(name, "bert", "BertForPreTraining")
        assert google_name(theirs) == name
    name = "bert/encoder/layer_17/output/dense/kernel"
    assert (
        hugging_face_name(name, "bert", "BertForMaskedLM")
        == "bert.encoder.layer.17.output.dense.weight"
    )
    assert google_name("encoder.layer.17.output.dense.weight") == name
    assert google_name("encoder.layer.0.adapter.weight") is None


def test_old_names_buffers_and_second_names(tmp_path: Path) -> None:
    """As files were that transformers wrote years ago."""

    def older(tensors: Tensors) -> Tensors:
        renamed = {
            key.replace("Norm.weight", "Norm.gamma").replace(
                "Norm.bias", "Norm.beta"
            ): value
            for key, value in tensors.items()
        }
        words = tensors["bert.embeddings.word_embeddings.weight"]
        bias = renamed.pop("cls.predictions.bias")
        return {
            **renamed,
            "bert.embeddings.position_ids": np.arange(23)[None],
            "cls.predictions.decoder.weight": words,
            "cls.predictions.decoder.bias": bias,
        }

    folder = changed(tmp_path, "pretraining", older)
    model, report = load(folder)
    assert (report.missing, report.unused) == ((), ())
    same, _ = load(THEIRS / "pretraining")
    for ours, theirs in zip(model.mappings(), same.mappings(), strict=True):
        np.testing.assert_array_equal(ours.read(), theirs.read())


def test_an_output_layer_of_its_own_is_refused(tmp_path: Path) -> None:
    folder = changed(
        tmp_path,
        "pretraining",
        lambda tensors: {
            **tensors,
            "cls.predictions.decoder.weight": np.zeros((37, 12), np.float32),
        },
    )
    with pytest.raises(InputError, match="another cls.predictions.decoder"):
        load(folder)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_floats_are_read(tmp_path: Path, dtype: type) -> None:
    folder = changed(
        tmp_path,
        "classifier",
        lambda tensors: {k: v.astype(dtype) for k, v in tensors.items()},
    )
    model, _ = load(folder)
    original = load_file(THEIRS / "classifier" / "model.safetensors")
    weight = original["classifier.weight"]
    read = next(b for b in model.mappings() if b.name == "output_weights")
    expected = weight.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(read.read(), expected)


def test_whole_numbers_are_refused(tmp_path: Path) -> None:
    folder = changed(
        tmp_path,
        "classifier",
        lambda tensors: {k: v.astype(np.int8) for k, v in tensors.items()},
    )
    with pytest.raises(InputError, match="as I8; expected F32, F16 or BF16"):
        load(folder)


def shard(folder: Path) -> None:
    """Splits model.safetensors in two, as transformers does with large ones."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    weight_map: dict[str, str] = {}
    for i in (0, 1):
        name = f"model-{i + 1:05}-of-00002.safetensors"
        part = dict(list(tensors.items())[i::2])
        save_file(part, folder / name)
        weight_map |= dict.fromkeys(part, name)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_several_files(tmp_path: Path) -> None:
    folder = changed(tmp_path, "pretraining", lambda tensors: tensors)
    shard(folder)
    _, report = load(folder)
    assert (report.missing, report.unused) == ((), ())
    for path in folder.glob("*-00002-of-*"):
        path.unlink()
    with pytest.raises(InputError, match="00002-of-00002.*cannot be read"):
        load(folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": 7}')
    with pytest.raises(InputError, match="index.json cannot be read"):
        load(folder)


@pytest.mark.parametrize(
    "name", [WEIGHTS, INDEX, "model-00002-of-00002.safetensors"]
)
def test_a_pipe_in_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    """It would be waited for."""
    folder = changed(tmp_path, "span", lambda tensors: tensors)
    if name != WEIGHTS:
        shard(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    sentence = f"{folder / name} is a device or a pipe; expected a file"
    with pytest.raises(InputError, match=sentence):
        Safetensors(str(folder))


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:5000],
        lambda content: content[:5],
        lambda content: b"",
        lambda content: b"\xff" * 8 + content[8:],
        lambda content: content[:8] + b"]" + content[9:],
    ],
)
def test_damaged_safetensors(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    shutil.copytree(THEIRS / "span", tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match="safetensors cannot be read"):
        load(tmp_path)


TELLING = ("model_type", "architectures", "transformers_version")


def edited(tmp_path: Path, name: str, *absent: str, **values: object) -> Path:
    """A copy of a golden folder with another config.json."""
    folder = changed(tmp_path, name, lambda tensors: tensors)
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **values}
    for key in absent:
        del config[key]
    path.write_text(json.dumps(config))
    return folder


def last_layer(folder: Path, name: str, **inputs: np.ndarray) -> np.ndarray:
    """Outputs at the real positions of a golden folder's inputs."""
    theirs = dict(np.load(THEIRS / name / "outputs.npz"))
    mask = theirs["in_attention_mask"].astype(np.int32)
    batch = {
        "input_ids": theirs["in_input_ids"].astype(np.int32),
        "input_mask": mask,
        "segment_ids": np.zeros_like(mask),
    }
    model, _ = load(folder)
    outputs = model.outputs(**batch | inputs, pools=False)
    return outputs["layers"][-1][mask == 1]


def theirs_of(name: str) -> np.ndarray:
    theirs = dict(np.load(THEIRS / name / "outputs.npz"))
    return theirs["hidden_states"][-1][theirs["in_attention_mask"] == 1]


@pytest.mark.parametrize("absent", [TELLING[:1], TELLING])
@pytest.mark.parametrize("name", ["roberta_masked_lm", "distilbert_masked_lm"])
def test_without_model_type_classes_and_tensors_say_it(
    tmp_path: Path, name: str, absent: tuple[str, ...]
) -> None:
    folder = edited(tmp_path, name, *absent)
    np.testing.assert_allclose(
        last_layer(folder, name), theirs_of(name), atol=5e-6
    )


def test_a_config_that_lies_beside_safetensors_is_theirs(
    tmp_path: Path,
) -> None:
    """As that of a well-known small BERT: sizes alone, and an exact gelu."""
    folder = edited(tmp_path, "span", *TELLING, hidden_act="gelu")
    model, _ = load(folder)
    assert model.config.hidden_act == "gelu_erf"


def test_a_folder_that_does_not_say_its_family_is_refused(
    tmp_path: Path,
) -> None:
    folder = edited(tmp_path, "roberta_bare", *TELLING)
    with pytest.raises(
        InputError, match="no model_type, and several have weights"
    ):
        load(folder)
    folder = edited(
        tmp_path / "other",
        "roberta_bare",
        "model_type",
        architectures=["XLMRobertaModel"],
    )
    with pytest.raises(InputError, match="are 'XLMRobertaModel'; add"):
        load(folder)


def test_weights_of_another_family_are_refused(tmp_path: Path) -> None:
    folder = edited(tmp_path, "roberta_masked_lm", model_type="bert")
    with pytest.raises(
        InputError, match="holds a roberta but the config describes a bert"
    ):
        load(folder)


def test_a_roberta_that_pads_with_another_token(tmp_path: Path) -> None:
    """Positions and their vectors begin four rows further down."""
    table = "embeddings.position_embeddings.weight"
    folder = edited(
        tmp_path, "roberta_bare", pad_token_id=5, max_position_embeddings=27
    )
    tensors = load_file(folder / "model.safetensors")
    shift = np.full((4, 12), 7, np.float32)
    tensors[table] = np.concatenate([shift, tensors[table]])
    save_file(tensors, folder / "model.safetensors")
    expected = theirs_of("roberta_bare")
    ours = last_layer(folder, "roberta_bare")
    np.testing.assert_allclose(ours, expected, atol=5e-6)
    model, _ = load(folder)
    for save, there in (
        (save_model_folder, tmp_path / "google"),
        (save_hugging_face_folder, tmp_path / "back"),
    ):
        save(str(there), model.config, model.mappings(), None)
        ours = last_layer(there, "roberta_bare")
        np.testing.assert_allclose(ours, expected, atol=5e-6)
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    assert config["pad_token_id"] == 5
    assert config["max_position_embeddings"] == 27


def test_sines_are_read_as_they_are_stored(tmp_path: Path) -> None:
    name = "distilbert_bare"
    folder = edited(tmp_path, name, sinusoidal_pos_embds=True)
    np.testing.assert_allclose(
        last_layer(folder, name), theirs_of(name), atol=5e-6
    )


def test_with_one_token_type_a_pair_is_read_as_one_text(
    tmp_path: Path,
) -> None:
    """transformers reads it so if it is handed no token_type_ids, and else
    fails."""
    table = "bert.embeddings.token_type_embeddings.weight"
    folder = edited(tmp_path, "pretraining", type_vocab_size=1)
    tensors = load_file(folder / "model.safetensors")
    tensors[table] = tensors[table][:1]
    save_file(tensors, folder / "model.safetensors")
    expected = last_layer(THEIRS / "pretraining", "pretraining")
    ones = np.load(THEIRS / "pretraining" / "outputs.npz")["in_input_ids"]
    pair = np.ones_like(ones, dtype=np.int32)
    for segment_ids in (pair, np.zeros_like(pair)):
        np.testing.assert_array_equal(
            last_layer(folder, "pretraining", segment_ids=segment_ids),
            expected,
        )


def test_two_configs_that_disagree_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for act, said in (
        ("gelu_erf", ""),
        ("relu", "not bert_config.json; .* in hidden_act .gelu_erf, not relu"),
    ):
        folder = edited(tmp_path / act, "span", hidden_act="gelu")
        config = BertConfig.from_json_file(str(folder / "config.json"))
        google = dataclasses.replace(config, hidden_act=act)
        (folder / "bert_config.json").write_text(google.to_json())
        for _ in range(2):
            assert load(folder)[0].config.hidden_act == "gelu_erf"
        found = capsys.readouterr().err
        assert found.count("\n") == (1 if said else 0)
        assert re.search(said, found)


@pytest.mark.parametrize("name", ["", "/pytorch_model.bin"])
def test_a_pickle_is_never_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(
        InputError, match="is a pickle.*save the model as safet"
    ):
        load_checkpoint([], str(tmp_path) + name)


def test_another_shape_is_an_error_that_names_it(tmp_path: Path) -> None:
    config = BertConfig.from_json_file(str(THEIRS / "span" / "config.json"))
    wider = AnyModel(
        BertConfig(**{**vars(config), "intermediate_size": 18}), {}
    )
    with pytest.raises(
        InputError, match=r"layer_0/output/dense/kernel.*\[19, 12\]"
    ):
        load_checkpoint(wider.mappings(), str(THEIRS / "span"))


def test_no_bert_at_all(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"electra.pooler": np.zeros(3, np.float32)}, path)
    config = BertConfig.from_json_file(str(THEIRS / "span" / "config.json"))
    model = AnyModel(config, {})
    with pytest.raises(InputError, match="first is 'electra.pooler'"):
        load_checkpoint(model.mappings(), str(path))
    with pytest.raises(InputError, match="local"):
        load_checkpoint(model.mappings(), "ram://bucket/model.safetensors")


@pytest.mark.parametrize("path", ["", "/bert_model.ckpt"])
def test_what_lies_beside_googles_checkpoint(tmp_path: Path, path: str) -> None:
    shutil.copytree(TINY_BERT, tmp_path, dirs_exist_ok=True)
    named = str(tmp_path) + path
    assert not is_hugging_face(named)
    assert model_config_file(named) == str(tmp_path / "bert_config.json")
    (tmp_path / "config.json").touch()  # the hubs' folders have it too
    (tmp_path / "model.safetensors").touch()
    assert model_config_file(named) == str(tmp_path / "bert_config.json")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "model.safetensors.index.json"]
)
def test_what_lies_beside_safetensors(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert model_config_file(str(tmp_path)) is None
    (tmp_path / "config.json").touch()
    (tmp_path / "bert_config.json").touch()  # says what Google's gelu is
    for named in (tmp_path, tmp_path / name):
        assert is_hugging_face(str(named))
        assert model_config_file(str(named)) == str(tmp_path / "config.json")


def test_a_name_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bert_config.json").touch()
    assert model_config_file("bert_model.ckpt") == "bert_config.json"
