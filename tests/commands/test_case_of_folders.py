"""What a folder says of its tokenizer reaches every command without flags."""

import json
from pathlib import Path

import pytest
import tensorflow as tf

from bert_keras.data.added_tokens import AddedToken
from bert_keras.data.tfrecords import read_records
from bert_keras.data.tokenizer_folder import (
    TOKENIZER_CONFIG,
    OpenedTokenizer,
    open_tokenizer,
    settings_json,
)
from bert_keras.data.tokenizers import TokenizerSettings
from bert_keras.tasks.task_config import TaskConfig
from tests.command_world import copy_tiny_bert
from tests.conftest import GOLDEN, forked

TEXT = "The Sea [E1]"
TOKENS = ["[CLS]", "The", "Sea", "[E1]", "[SEP]"]  # lower-cased: sea alone


@pytest.fixture(scope="module")
def cased(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny weights whose last tokens are Sea and one of the user's."""
    folder = tmp_path_factory.mktemp("models") / "cased"
    copy_tiny_bert(folder)
    words = (GOLDEN / "tiny_vocab.txt").read_text("utf-8").split("\n")
    words[-2:] = ["Sea", "[E1]"]
    (folder / "vocab.txt").write_text("\n".join(words), "utf-8")
    settings = TokenizerSettings(
        do_lower_case=False, added_tokens=(AddedToken("[E1]", len(words) - 1),)
    )
    opened = OpenedTokenizer(str(folder / "vocab.txt"), settings, True, {})
    (folder / TOKENIZER_CONFIG).write_text(settings_json(opened))
    return folder


def tokens_of(folder: Path) -> list[str]:
    opened = open_tokenizer(str(folder))
    assert opened is not None
    return ["[CLS]", *opened.load().tokenize(TEXT), "[SEP]"]


def test_features(cased: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text(TEXT)
    forked(
        "extract_features.py",
        f"--input_file={tmp_path}/lines.txt",
        f"--output_file={tmp_path}/out.jsonl",
        f"--init_checkpoint={cased}",
        "--layers=-1",
        "--max_seq_length=16",
    )
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    features = json.loads(line)["features"]
    assert [feature["token"] for feature in features] == TOKENS


@pytest.mark.slow
def test_fine_tuning_prediction_export_and_conversion(
    cased: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.tsv").write_text(
        "text\tlabel\n" + "The Sea\tgood\nthe sea [E1]\tbad\n" * 4
    )
    out = tmp_path / "out"
    forked(
        "run_classifier.py",
        "--do_train",
        f"--train_file={tmp_path}/train.tsv",
        f"--init_checkpoint={cased}",
        f"--output_dir={out}",
        "--max_seq_length=16",
        "--train_batch_size=4",
        "--num_train_epochs=1",
    )
    task = TaskConfig.from_folder(str(out))
    assert task is not None and task.do_lower_case is False
    assert tokens_of(out) == TOKENS
    google, hugging_face = tmp_path / "google", tmp_path / "hugging_face"
    forked(
        "convert_checkpoint.py",
        f"--init_checkpoint={out}",
        f"--output_dir={hugging_face}",
    )
    forked(
        "convert_checkpoint.py",
        f"--init_checkpoint={hugging_face}",
        f"--output_dir={google}",
    )
    assert tokens_of(hugging_face) == tokens_of(google) == TOKENS
    answers = [
        forked("predict.py", f"--model_dir={folder}", "--", TEXT)
        for folder in (out, google)
    ]
    assert answers[0] == answers[1] != ""


@pytest.mark.parametrize("sampler", ["google", "vectorized"])
def test_records(cased: Path, tmp_path: Path, sampler: str) -> None:
    corpus, path = tmp_path / "corpus.txt", tmp_path / "records"
    corpus.write_text(f"{TEXT}\n{TEXT}\n\n{TEXT}\n{TEXT}\n")
    forked(
        "create_pretraining_data.py",
        f"--input_file={corpus}",
        f"--vocab_file={cased}/vocab.txt",
        f"--output_file={path}",
        f"--sampler={sampler}",
        "--max_seq_length=16",
        "--max_predictions_per_seq=1",
        *(["--num_workers=1"] if sampler == "vectorized" else []),
    )
    vocab = (cased / "vocab.txt").read_text("utf-8").split("\n")
    ids = set()
    for record in read_records(str(path)):
        features = tf.train.Example.FromString(record).features.feature
        ids |= {*features["input_ids"].int64_list.value}
    assert {vocab.index(token) for token in TOKENS[1:-1]} <= ids
