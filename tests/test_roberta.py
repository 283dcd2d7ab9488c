"""A RoBERTa in Hugging Face's form, through the commands."""

import dataclasses
import json
import random
from pathlib import Path

import numpy as np
import pytest
from conftest import GOLDEN, fails_with, forked

from data.any_tokenizer import load_tokenizer
from modeling.any_model import AnyModel
from modeling.config import BertConfig
from modeling.hugging_face import save_hugging_face_folder

VOCABULARY = str(GOLDEN / "byte_level" / "vocab.json")
CONFIG = BertConfig(
    vocab_size=421,
    hidden_size=40,
    num_hidden_layers=2,
    num_attention_heads=5,
    intermediate_size=53,
    hidden_act="gelu_erf",
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=61,
    type_vocab_size=1,
    layer_norm_eps=1e-5,
    family="roberta",
)
WORDS = {"yes": ["sailed", "old ship"], "no": ["storm", "windy north"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Random weights, with the masked-LM head."""
    model = AnyModel(CONFIG, {"cls/predictions/output_bias": (421,)})
    path = str(tmp_path_factory.mktemp("roberta"))
    save_hugging_face_folder(path, CONFIG, model.bindings(), VOCABULARY)
    return path


def write_pairs(path: Path) -> None:
    rng = random.Random(3)
    lines = ["text\tother\tlabel"]
    for label in rng.choices(["yes", "no"], k=96):
        first, second = rng.choices(WORDS[label], k=2)
        lines.append(f"It's the {first}.\tA {second}!\t{label}")
    path.write_text("\n".join(lines) + "\n")


def test_it_is_fine_tuned_and_answers(tmp_path: Path, folder: str) -> None:
    table, output_dir = tmp_path / "pairs.tsv", tmp_path / "out"
    write_pairs(table)
    forked(
        "run_classifier.py",
        f"--train_file={table}",
        "--text_pair_column=other",
        f"--init_checkpoint={folder}",
        f"--output_dir={output_dir}",
        "--do_train",
        "--learning_rate=3e-3",
        "--train_batch_size=16",
        "--num_train_epochs=4",
        "--max_seq_length=29",
    )
    for name in ("vocab.json", "merges.txt"):
        assert (output_dir / name).is_file()
    answers = forked(
        "predict.py",
        f"--model_dir={output_dir}",
        "the storm\tThe windy north",
        "It's the old ship.\tsailed",
    )
    assert [line.split("\t")[0] for line in answers.splitlines()] == [
        "no",
        "yes",
    ]


def test_blanks_and_features(tmp_path: Path, folder: str) -> None:
    text = "The old <mask> saw the sea."
    answer = json.loads(
        forked(
            "predict.py", f"--model_dir={folder}", "--output_format=jsonl", text
        )
    )
    (blank,) = answer["blanks"]
    assert len(blank) == 5
    filled = load_tokenizer(VOCABULARY).to_text([blank[0]["piece"]])
    before = "The old" if filled.startswith(" ") else "The old "
    assert answer["text"] == f"{before}{filled} saw the sea."

    (tmp_path / "lines.txt").write_text("the sea ||| the ship\n")
    forked(
        "extract_features.py",
        f"--input_file={tmp_path / 'lines.txt'}",
        f"--init_checkpoint={folder}",
        f"--output_file={tmp_path / 'out.jsonl'}",
        "--layers=-1",
        "--max_seq_length=31",
    )
    line = json.loads((tmp_path / "out.jsonl").read_text())
    tokens = [feature["token"] for feature in line["features"]]
    expected = ["<s>", "the", " sea", "</s>", "</s>", "the", " ship", "</s>"]
    assert [token.replace("\u0120", " ") for token in tokens] == expected
    values = line["features"][0]["layers"][0]["values"]
    assert np.std(values) == pytest.approx(1.0, abs=1e-3)  # it is normed


def test_what_does_not_fit_is_said(tmp_path: Path, folder: str) -> None:
    write_pairs(tmp_path / "pairs.tsv")
    command = [
        f"--train_file={tmp_path / 'pairs.tsv'}",
        f"--init_checkpoint={folder}",
        f"--output_dir={tmp_path / 'out'}",
        "--do_train",
    ]
    sentence = fails_with("run_classifier.py", *command, "--max_seq_length=62")
    assert "max_position_embeddings is 61" in sentence
    sentence = fails_with("run_classifier.py", *command, "--max_seq_length=4")
    assert "expected at least 5" in sentence
    other = dataclasses.replace(CONFIG, family="bert")
    (tmp_path / "bert_config.json").write_text(other.to_json())
    sentence = fails_with(
        "run_classifier.py",
        *command,
        "--max_seq_length=29",
        f"--bert_config_file={tmp_path / 'bert_config.json'}",
    )
    assert "family = bert but the weights were trained with roberta" in sentence
    (tmp_path / "vocab.json").write_text(Path(VOCABULARY).read_text())
    sentence = fails_with(
        "run_classifier.py",
        *command,
        "--max_seq_length=29",
        f"--vocab_file={tmp_path / 'vocab.json'}",
    )
    assert "merges.txt" in sentence and "beside it" in sentence
