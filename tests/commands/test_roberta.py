"""A RoBERTa in Hugging Face's form, through the commands."""

import dataclasses
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.tokenizers import load_tokenizer
from bert_keras.modeling.checkpoint import AnyModel
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.hugging_face import save_hugging_face_folder
from tests.conftest import GOLDEN, fails_with, forked

VOCABULARY = str(GOLDEN / "byte_level" / "vocab.json")
CONFIG = BertConfig(
    vocab_size=421,
    hidden_size=40,
    num_hidden_layers=1,
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
    save_hugging_face_folder(path, CONFIG, model.mappings(), VOCABULARY)
    return path


def write_pairs(path: Path) -> None:
    rng = random.Random(3)
    lines = ["text\tother\tlabel"]
    for label in rng.choices(["yes", "no"], k=96):
        first, second = rng.choices(WORDS[label], k=2)
        lines.append(f"It's the {first}.\tA {second}!\t{label}")
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.slow
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
        "--learning_rate=1e-3",
        "--train_batch_size=16",
        "--num_train_epochs=6",
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


def write_text(path: Path) -> None:
    """29 documents of sentences as they are."""
    rng = random.Random(5)
    words = [word for phrases in WORDS.values() for word in phrases]
    documents = [
        "\n".join(
            f"It's the {' and the '.join(rng.choices(words, k=2))}!"
            for _ in range(rng.randint(1, 9))
        )
        for _ in range(29)
    ]
    path.write_text("\n\n".join(documents) + "\n")


@pytest.mark.slow
def test_it_is_pre_trained_on_full_sentences(tmp_path: Path) -> None:
    write_text(tmp_path / "text.txt")
    (tmp_path / "bert_config.json").write_text(CONFIG.to_json())
    vocabulary = tmp_path / "my.json"  # by any name
    shutil.copy(VOCABULARY, vocabulary)
    shutil.copy(Path(VOCABULARY).with_name("merges.txt"), tmp_path)
    lengths = ("--max_seq_length=59", "--max_predictions_per_seq=9")
    summary = forked(
        "create_pretraining_data.py",
        f"--input_file={tmp_path}/text.txt",
        f"--vocab_file={vocabulary}",
        f"--output_file={tmp_path}/records",
        "--sequence_format=full_sentences",
        "--dynamic_masking",
        "--dupe_factor=1",
        "--num_workers=1",
        "--nodo_lower_case",  # changes nothing, bytes keep their case
        *lengths,
    )
    assert "label" not in summary
    assert "sentence cut" in summary
    shown = forked(
        "inspect_records.py",
        f"--input_file={tmp_path}/records",
        f"--vocab_file={vocabulary}",
        "--num_records=99",
    )
    rows = [line for line in shown.splitlines() if line.startswith("  A: ")]
    assert all(row.startswith("  A: <s>") for row in rows)
    assert all(row.endswith("!</s>") for row in rows)
    assert any("!</s>It's the " in row for row in rows)  # the next document
    assert any("! It's the " in row for row in rows)  # the next sentence
    assert "no masks: they are drawn when it is read" in shown
    args = [
        "run_pretraining.py",
        "--do_train",
        "--do_eval",
        f"--input_file={tmp_path}/records",
        f"--bert_config_file={tmp_path}/bert_config.json",
        f"--vocab_file={vocabulary}",
        f"--output_dir={tmp_path}/out",
        "--train_batch_size=7",
        "--adam_beta_2=0.98",
        *lengths,
    ]
    output = forked(*args, "--num_train_steps=2")
    assert "masked_lm_loss = " in output
    assert "next_sentence_loss" not in output
    longer = forked(*args, "--num_train_steps=3")
    assert "global_step = 3" in longer
    for name in ("vocab.json", "merges.txt", "bert_model.ckpt.index"):
        assert (tmp_path / "out" / name).is_file()


def test_what_cannot_be_made_is_said(tmp_path: Path) -> None:
    write_text(tmp_path / "text.txt")
    cases = [
        (
            ["--sampler=google"],
            "--sampler=google takes a vocab.txt, and --vocab_file=",
        ),
        (
            ["--words_are_spaced", "--do_whole_word_mask"],
            "--words_are_spaced is for a vocab.txt",
        ),
        (
            ["--sequence_format=doc_sentences", "--short_seq_prob=0.1"],
            "--short_seq_prob is for --sequence_format=segment_pair",
        ),
        (
            ["--max_seq_length=5"],
            "4 special tokens such as <s> and a token of each",
        ),
        (
            ["--sequence_format=full_sentences", "--max_seq_length=2"],
            "2 special tokens such as <s> and a token of a sentence need 3",
        ),
    ]
    for extra, expected in cases:
        sentence = fails_with(
            "create_pretraining_data.py",
            f"--input_file={tmp_path}/text.txt",
            f"--vocab_file={VOCABULARY}",
            f"--output_file={tmp_path}/records",
            "--max_predictions_per_seq=1",
            *extra,
        )
        assert expected in sentence
    (tmp_path / "vocab.json").write_text(Path(VOCABULARY).read_text())
    sentence = fails_with(
        "create_pretraining_data.py",
        f"--input_file={tmp_path}/text.txt",
        f"--vocab_file={tmp_path}/vocab.json",
        f"--output_file={tmp_path}/records",
    )
    assert "merges.txt" in sentence and "beside it" in sentence
    sentence = fails_with(
        "create_pretraining_data.py",
        f"--input_file={tmp_path}/text.txt",
        f"--vocab_file={GOLDEN}/tiny_vocab.txt",
        f"--output_file={tmp_path}/records",
        "--sampler=google",
        "--sequence_format=sentence_pair",
    )
    assert "--sampler=google has no --sequence_format" in sentence
