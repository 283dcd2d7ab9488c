"""Tests of --dry_run: the commands in forks, as it runs no step."""

import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from bert_keras.tasks.run_context import RunConfig, find_tokenizer
from tests.conftest import (
    GOLDEN,
    NUM_PREDICTIONS,
    SEQ_LENGTH,
    TINY,
    fails_with,
    files_in,
    forked,
    well_ended,
)

VOCABULARY = GOLDEN / "tiny_vocab.txt"
NAMES = ["parameters", "data", "steps", "memory", "operations"]


def table(output: str) -> dict[str, str]:
    """The table of a dry run's output, by name."""
    _, text = output.split("dry run: ")
    return dict(
        re.split(" {2,}", line.strip()) for line in text.splitlines()[1:]
    )


def pretraining(config_file: str, records: str, folder: Path) -> list[str]:
    return [
        "run_pretraining.py",
        "--do_train",
        f"--input_file={records}",
        f"--bert_config_file={config_file}",
        f"--output_dir={folder}/out",
        f"--max_seq_length={SEQ_LENGTH}",
        f"--max_predictions_per_seq={NUM_PREDICTIONS}",
        "--train_batch_size=6",
        "--num_train_steps=47",
        "--num_warmup_steps=1",
        "--dry_run",
    ]


def test_pretraining_from_nothing(
    config_file: str, tiny_records: str, tmp_path: Path
) -> None:
    args = pretraining(config_file, tiny_records, tmp_path)
    entries = table(forked(*args, "--num_accumulation_steps=2"))
    assert list(entries) == [*NAMES[:3], "tokens", *NAMES[3:]]
    # embeddings (101 + 2 + 61) * 40 + 80; its layer 11,053; pooler 1,640;
    # masked language model 1,821; next sentence 82
    assert entries["parameters"].startswith("21,236, of which 21,236 ")
    assert entries["data"] == "141 records in 3 files"
    assert entries["steps"] == "47 of 6 examples, 2.00 epochs; 0 are done"
    # 47 x 6 x 29, of 21,236 parameters
    assert entries["tokens"] == (
        "8,178 in all, padding included; 0.39 for each parameter"
    )
    assert "activations of 3 x 29" in entries["memory"]
    assert files_in(tmp_path) == {}
    ended = well_ended(*args, "--num_warmup_steps=47", "--bias_correction")
    assert "rises for 47 steps and the run has only 47" in ended.errors


def test_a_teacher_is_not_counted(tiny_records: str, tmp_path: Path) -> None:
    teacher = GOLDEN / "tiny_bert"
    config = str(teacher / "bert_config.json")
    args = pretraining(config, tiny_records, tmp_path)
    del args[3]  # the student has the teacher's
    entries = table(forked(*args, f"--teacher_model_dir={teacher}"))
    assert " a device, without the teacher: " in entries["memory"]
    assert entries["operations"].endswith(" in all, without the teacher")


def test_what_does_not_fit_is_said(
    config_file: str, tiny_records: str, tmp_path: Path
) -> None:
    narrow = tmp_path / "narrow.json"
    narrow.write_text(TINY.to_json().replace('n_size": 40', 'n_size": 45'))
    heads = tmp_path / "heads.json"
    heads.write_text(TINY.to_json().replace('heads": 5', 'heads": 4'))
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[CLS]\n[PAD]\n[UNK]\n[SEP]\n[MASK]\n")
    (tmp_path / "file").write_text("")
    start = f"--init_checkpoint={GOLDEN}/tiny_bert"
    before = files_in(tmp_path)
    for extra, named in (
        (
            [start, f"--bert_config_file={narrow}"],
            "hidden_size asks for 45 instead of 40",
        ),
        ([start, f"--bert_config_file={heads}"], "num_attention_heads = 4 but"),
        ([f"--vocab_file={vocabulary}"], "with another vocabulary"),
        ([f"--output_dir={tmp_path}/file/x"], "that you may write to"),
    ):
        args = pretraining(config_file, tiny_records, tmp_path)
        assert named in fails_with(*args, *extra)
    assert files_in(tmp_path) == before


@pytest.fixture
def model(tmp_path: Path) -> tuple[str, ...]:
    """Flags of a folder with weights, vocabulary and config."""
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "tiny_bert", folder)
    shutil.copy(VOCABULARY, folder / "vocab.txt")
    return f"--init_checkpoint={folder}", f"--output_dir={tmp_path}/out"


def test_classification(model: tuple[str, ...], tmp_path: Path) -> None:
    rows = [f"the captain saw {i}\t{i % 2}\n" for i in range(7)]
    table_file = tmp_path / "table.tsv"
    table_file.write_text("text\tlabel\n" + "".join(rows))
    held_out = tmp_path / "held_out.tsv"
    held_out.write_text("text\tlabel\nthe sea\t1\nthe sea\t2\n")
    before = files_in(tmp_path)
    args = [
        "run_classifier.py",
        "--do_train",
        "--do_eval",
        f"--train_file={table_file}",
        f"--eval_file={table_file}",
        "--max_seq_length=16",
        "--train_batch_size=2",
        "--num_train_epochs=2",
        "--num_frozen_layers=1",
        "--num_seeds=2",
        "--dry_run",
        *model,
    ]
    ended = well_ended(*args)
    output = ended.output
    # [CLS] the captain saw 0 [SEP]
    assert (
        "the longest of 7 examples has 6 of --max_seq_length=16" in ended.errors
    )
    assert "55 variables loaded; new, at random: classifier head" in output
    entries = table(output)
    assert list(entries) == NAMES
    # two layers, the pooler and the head are left: 22,106 + 1,640 + 82
    assert entries["parameters"].endswith("of which 23,828 can be trained")
    assert entries["steps"] == "7 of 2 examples, 2.00 epochs; 0 are done"
    assert "label" in fails_with(*args, f"--eval_file={held_out}")
    assert files_in(tmp_path) == before | {
        "held_out.tsv": files_in(tmp_path)["held_out.tsv"]
    }


def test_questions(model: tuple[str, ...], tmp_path: Path) -> None:
    before = files_in(tmp_path)
    args = [
        "run_squad.py",
        f"--train_file={GOLDEN}/squad/v1.json",
        f"--predict_file={GOLDEN}/squad/v1.json",
        "--max_seq_length=48",
        "--max_query_length=16",
        "--doc_stride=16",
        "--train_batch_size=2",
        "--dry_run",
        *model,
    ]
    entries = table(forked(*args, "--do_train", "--do_predict"))
    assert list(entries) == NAMES
    assert "activations of 2 x 48" in entries["memory"]
    # an encoder alone cannot answer
    assert "cls/squad" in fails_with(*args, "--do_predict")
    assert files_in(tmp_path) == before


def test_a_vocabulary_other_than_the_weights_own(
    model: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = VOCABULARY.read_text("utf-8").splitlines()
    config = dataclasses.replace(TINY, vocab_size=len(pieces) + 1)
    own = tmp_path / "own.txt"
    run = RunConfig("out", None, str(own), f"{tmp_path}/model", "float32")

    def warning(own_pieces: list[str]) -> str:
        own.write_text("\n".join(own_pieces), encoding="utf-8")
        find_tokenizer(run, config)
        lines = capsys.readouterr().err.splitlines()
        return "".join(x for x in lines if x.startswith("WARNING"))

    assert warning(pieces) == ""
    assert warning([*pieces, "anchor"]) == ""  # a row that was not used
    swapped = [*pieces[:-2], pieces[-1], pieces[-2]]
    assert "has 2 tokens other than" in warning(swapped)
    (tmp_path / "model" / "vocab.txt").write_text(
        "\n".join([*pieces[:-1], "[unused7]"]), encoding="utf-8"
    )
    assert warning(pieces) == ""  # a user's own piece in a place kept for it
    (tmp_path / "model" / "vocab.txt").write_text("broken")
    assert warning(pieces) == ""
