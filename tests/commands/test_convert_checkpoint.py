"""The real command, on models that transformers wrote (golden/hugging_face)."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from bert_keras.tasks.sentence_pooling import (
    SentencePooling,
    pooling_file,
    read_sentence_pooling,
)
from tests.conftest import GOLDEN, fails_with, forked, run, well_ended

THEIRS = GOLDEN / "hugging_face"
COMMAND = "convert_checkpoint.py"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKENIZER = {"do_lower_case": False, "strip_accents": True}


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    folder = tmp_path / "classifier"
    shutil.copytree(THEIRS / "classifier", folder)
    pieces = [*SPECIAL, *(f"piece{i}" for i in range(32))]
    (folder / "vocab.txt").write_text("\n".join(pieces))
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))
    return folder


def same_tensors(one: Path, two: Path) -> None:
    theirs, ours = (load_file(f / "model.safetensors") for f in (one, two))
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        assert ours[name].tobytes() == value.tobytes(), name


@pytest.mark.slow
def test_a_classifier_goes_to_google_and_back(
    tmp_path: Path, classifier: Path
) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    modules = {"": "Transformer", "1_Pooling": "Pooling", "2_": "Normalize"}
    listed = [{"path": path, "type": kind} for path, kind in modules.items()]
    (classifier / "modules.json").write_text(json.dumps(listed))
    (classifier / "1_Pooling").mkdir()
    (classifier / "1_Pooling" / "config.json").write_text(
        '{"pooling_mode_cls_token": true}'
    )
    output = run(
        COMMAND, f"--init_checkpoint={classifier}", f"--output_dir={there}"
    )
    assert " variables loaded\n" in output
    assert "for google; loaded again, its outputs" in output
    assert "at most 0.0e+00" in output
    reader = tf.train.load_checkpoint(str(there / "bert_model.ckpt"))
    tensors = load_file(classifier / "model.safetensors")
    np.testing.assert_array_equal(
        reader.get_tensor("bert/encoder/layer_1/intermediate/dense/kernel"),
        tensors["bert.encoder.layer.1.intermediate.dense.weight"].T,
    )
    np.testing.assert_array_equal(
        reader.get_tensor("output_weights"), tensors["classifier.weight"]
    )
    config = json.loads((there / "bert_config.json").read_text())
    assert config["hidden_act"] == "gelu"  # gelu_new in the original
    pooling = pooling_file(str(there))
    assert pooling is not None and read_sentence_pooling(
        pooling
    ) == SentencePooling("cls", normalizes=True)
    task = json.loads((there / "task.json").read_text())
    assert task["labels"] == ["no", "yes", "perhaps"]
    assert (task["do_lower_case"], task["strip_accents"]) == (False, True)
    task |= {"max_seq_length": 17}  # as if trained here
    (there / "task.json").write_text(json.dumps(task))

    forked(COMMAND, f"--init_checkpoint={there}", f"--output_dir={back}")
    same_tensors(classifier, back)
    written, read = (
        json.loads((folder / "config.json").read_text())
        for folder in (back, classifier)
    )
    for name in ("id2label", "problem_type", "architectures"):
        assert written[name] == read[name], name
    assert written["hidden_act"] == "gelu_pytorch_tanh"  # another name of it
    tokenizer = json.loads((back / "tokenizer_config.json").read_text())
    assert tokenizer.items() >= TOKENIZER.items()
    assert json.loads((back / "task.json").read_text()) == task
    for folder in (there, back):
        vocabulary = (folder / "vocab.txt").read_bytes()
        assert vocabulary == (classifier / "vocab.txt").read_bytes()


def test_the_case_of_a_vocabulary_that_lies_elsewhere(
    tmp_path: Path, classifier: Path
) -> None:
    there, own = tmp_path / "there", tmp_path / "own"
    own.mkdir()
    for name in ("vocab.txt", "tokenizer_config.json"):
        (classifier / name).rename(own / name)
    forked(
        COMMAND,
        f"--init_checkpoint={classifier}",
        f"--vocab_file={own / 'vocab.txt'}",
        f"--output_dir={there}",
    )
    for name in ("task.json", "tokenizer_config.json"):
        values = json.loads((there / name).read_text())
        assert values.items() >= TOKENIZER.items(), name


def test_heads_without_a_place_and_without_a_pooler(tmp_path: Path) -> None:
    """Two at once: a classifier of an unknown class is left out; what a span
    model lacks stays lacking, and its erf GELU is told apart."""
    tagger = tmp_path / "tagger"
    shutil.copytree(THEIRS / "pretraining", tagger)
    tensors = load_file(tagger / "model.safetensors")
    tensors |= {
        "classifier.weight": np.ones((5, 12), np.float32),
        "classifier.bias": np.ones(5, np.float32),
    }
    save_file(tensors, tagger / "model.safetensors")
    config = json.loads((tagger / "config.json").read_text())
    config["architectures"] = ["BertCrfForTagging"]
    (tagger / "config.json").write_text(json.dumps(config))
    one, two = (
        well_ended(
            COMMAND,
            f"--init_checkpoint={folder}",
            f"--output_dir={tmp_path / name}",
            "--to=google",
        )
        for folder, name in ((tagger, "one"), (THEIRS / "span", "two"))
    )
    assert "is left out: it is a BertCrfForTagging's" in one.output
    assert "not used: classifier head" in one.output
    names = dict(tf.train.list_variables(str(tmp_path / "one/bert_model.ckpt")))
    assert "output_weights" not in names
    assert names["cls/seq_relationship/output_weights"] == [2, 12]
    assert "new, at random: pooler" in two.output
    assert "at most 0.0e+00" in two.output
    names = dict(tf.train.list_variables(str(tmp_path / "two/bert_model.ckpt")))
    assert "bert/pooler/dense/kernel" not in names
    assert names["cls/squad/output_weights"] == [2, 12]
    config = json.loads((tmp_path / "two/bert_config.json").read_text())
    assert config["hidden_act"] == "gelu_erf"
    assert "google-research/bert does not know" in two.errors
    assert json.loads((tmp_path / "two/task.json").read_text())["target"] == (
        "span"
    )


def test_a_roberta_goes_to_google_and_back(tmp_path: Path) -> None:
    original = THEIRS / "roberta_classifier"
    for source, folder in ((original, "there"), (tmp_path / "there", "back")):
        output = forked(
            COMMAND,
            f"--init_checkpoint={source}",
            f"--output_dir={tmp_path / folder}",
        )
        assert " variables loaded\n" in output
        assert "at most 0.0e+00" in output
    same_tensors(original, tmp_path / "back")
    config = json.loads((tmp_path / "there/bert_config.json").read_text())
    assert (config["family"], config["max_position_embeddings"]) == (
        "roberta",
        21,
    )
    task = json.loads((tmp_path / "there/task.json").read_text())
    assert (task["labels"], task["max_seq_length"]) == (
        ["no", "yes", "perhaps"],
        21,
    )


def test_refusals_leave_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    config = json.loads((THEIRS / "span" / "config.json").read_text())
    config["num_hidden_layers"] = 1
    (tmp_path / "config.json").write_text(json.dumps(config))
    span = f"--init_checkpoint={THEIRS / 'span'}"
    for flags, sentence in (
        (
            [f"--output_dir={tmp_path / 'there'}"],
            "exists already; name a new folder",
        ),
        (
            [
                f"--output_dir={tmp_path / 'new'}",
                f"--bert_config_file={tmp_path / 'config.json'}",
            ],
            "has bert/encoder/layer_1/attention",
        ),
    ):
        assert sentence in fails_with(COMMAND, span, *flags)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"there", "config.json"}
