"""Tests of pretrain_domain.py: text in, a model and a report out."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import bert_keras
from bert_keras import files
from bert_keras.errors import InputError
from bert_keras.tasks.pretraining.config import DomainConfig
from bert_keras.tasks.pretraining.domain import WORK, pretrain_domain
from tests.conftest import GOLDEN, fails_with, forked

MODEL = GOLDEN / "tiny_bert"
VOCAB = f"--vocab_file={GOLDEN / 'tiny_vocab.txt'}"
WORDS = (GOLDEN / "tiny_corpus.txt").read_text()


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Path]:
    """Four documents that say one thing, and the golden text."""
    found = {name: tmp_path / f"{name}.txt" for name in ("domain", "general")}
    line = WORDS.strip().splitlines()[0]
    found["domain"].write_text("\n\n".join(["\n".join([line] * 30)] * 4))
    found["general"].write_text(WORDS)
    return found


@pytest.mark.slow
def test_a_model_learns_a_domain_and_says_so(
    texts: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    args = [
        f"--input_file={texts['domain']}",
        f"--general_file={texts['general']}",
        f"--init_checkpoint={MODEL}",
        VOCAB,
        f"--output_dir={out}",
        "--num_train_steps=30",
        "--train_batch_size=8",
        "--learning_rate=1e-2",
        "--max_seq_length=32",
        "--eval_steps=10",
    ]
    own = "report.md", "domain_data/train.txt", "domain_data/vocab.txt"
    (out / "domain_data").mkdir(parents=True)
    for name in own:
        (out / name).write_text("mine")
    texts["domain"].chmod(0o600)
    shown = forked("pretrain_domain.py", *args)
    assert (out / "domain_data").stat().st_mode & 0o777 == 0o700
    for path in map(out.joinpath, own):
        moved = path.parent / "earlier_results" / path.name
        assert moved.read_text() == "mine"
    report = (out / "report.md").read_text()
    assert report in shown
    rows = re.findall(r"\| ([-\w ]+) \| (\w+) \| ([\d.]+) \| ([\d.]+)", report)
    losses = {(text, when): float(loss) for text, when, _, loss in rows}
    domain, general = "held-out domain text", "general text"
    assert losses.keys() == {
        (text, when)
        for text in (domain, general)
        for when in ("before", "after")
    }
    assert losses[domain, "after"] < losses[domain, "before"] - 0.5
    # the first row is what run_pretraining finds with the same records
    evaluated = forked(
        "run_pretraining.py",
        "--do_eval",
        f"--input_file={out / 'domain_data' / 'held_out.tfrecord'}",
        f"--init_checkpoint={MODEL}",
        VOCAB,
        f"--output_dir={tmp_path / 'evaluation'}",
        *("--max_seq_length=32", "--max_predictions_per_seq=10"),
        *("--masked_lm_prob=0.15", "--eval_batch_size=64"),
    )
    expected = re.search(r"masked_lm_loss = ([\d.]+)", evaluated)
    assert expected
    np.testing.assert_allclose(
        losses[domain, "before"], float(expected[1]), atol=6e-4
    )
    # the last row is that of the model which is left in the folder
    lines = (out / "eval_log.jsonl").read_text().splitlines()
    on_the_way = [json.loads(line) for line in lines]
    best = min(on_the_way, key=lambda line: line["loss"])
    names = {domain: "masked_lm_loss", general: "general_masked_lm_loss"}
    for text, name in names.items():
        np.testing.assert_allclose(losses[text, "after"], best[name], atol=6e-4)
    assert (out / "bert_model.ckpt.index").exists()
    again = forked("pretrain_domain.py", *args)
    assert "has all of its 30 training steps already" in again
    assert (out / "report.md").read_text() == report
    kept = (out / "domain_data" / "train.txt").read_bytes()
    args[0] = f"--input_file={texts['general']}"
    sentence = fails_with("pretrain_domain.py", *args)
    assert "has a run on other text than --input_file;" in sentence
    assert (out / "domain_data" / "train.txt").read_bytes() == kept


@pytest.mark.slow
def test_records_have_the_case_of_the_model(
    texts: dict[str, Path], tmp_path: Path
) -> None:
    """Which stands in the folder of `init_checkpoint`."""
    found = {}
    for lowers in (True, False):
        folder, out = tmp_path / f"{lowers}", tmp_path / f"out-{lowers}"
        shutil.copytree(MODEL, folder)
        shutil.copy(GOLDEN / "tiny_vocab.txt", folder / "vocab.txt")
        config = json.dumps({"do_lower_case": lowers})
        (folder / "tokenizer_config.json").write_text(config)
        (out / WORK).mkdir(parents=True)
        (tmp_path / "mine").write_text("mine")
        (out / WORK / "train.tfrecord").symlink_to(tmp_path / "mine")
        forked(
            "pretrain_domain.py",
            f"--input_file={texts['domain']}",
            f"--init_checkpoint={folder}",
            f"--output_dir={out}",
            "--num_train_steps=1",
            "--train_batch_size=2",
            "--max_seq_length=32",
        )
        expected = tmp_path / f"{lowers}.tfrecord"
        bert_keras.make_records(
            out / "domain_data" / "train.txt",
            expected,
            GOLDEN / "tiny_vocab.txt",
            do_lower_case=lowers,
            input_format="paragraphs",
            dynamic_masking=True,
            dupe_factor=1,
            sequence_format="full_sentences",
            max_seq_length=32,
            max_predictions_per_seq=10,
        )
        assert (tmp_path / "mine").read_text() == "mine"
        made = out / "domain_data" / "train.tfrecord"
        assert made.read_bytes() == expected.read_bytes()
        found[lowers] = made.read_bytes()
    assert found[True] != found[False]


@pytest.mark.parametrize("argument", ["input_file", "general_file"])
def test_a_text_that_would_be_overwritten_is_refused(
    texts: dict[str, Path], tmp_path: Path, argument: str
) -> None:
    out = tmp_path / "out"
    (out / WORK).mkdir(parents=True)
    (out / WORK / "train.txt").symlink_to(texts["domain"])
    given = {
        "input_file": str(texts["general"]),
        argument: str(out / WORK / "*.txt"),
    }
    general = given.get("general_file")
    with pytest.raises(InputError, match=rf"output_dir=.* `{argument}=.*train"):
        pretrain_domain(
            given["input_file"],
            str(out),
            str(MODEL),
            DomainConfig(max_seq_length=32, general_file=general),
            num_train_steps=1,
            vocab_file=str(GOLDEN / "tiny_vocab.txt"),
        )
    assert texts["domain"].read_text().count("\n") == 122
    assert [path.name for path in (out / WORK).iterdir()] == ["train.txt"]


def test_nothing_is_written_where_another_run_works(
    texts: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with (
        files.lock(str(out / "training_state"), "output_dir"),
        pytest.raises(InputError, match="another process is working"),
    ):
        pretrain_domain(
            str(texts["domain"]),
            str(out),
            str(MODEL),
            DomainConfig(max_seq_length=32),
            num_train_steps=1,
            vocab_file=str(GOLDEN / "tiny_vocab.txt"),
        )
    assert not (out / WORK).exists()


def test_what_cannot_be_done(texts: dict[str, Path], tmp_path: Path) -> None:
    out = f"--output_dir={tmp_path / 'out'}"
    args = [f"--init_checkpoint={MODEL}", VOCAB, out]
    whole = f"--input_file={texts['domain']}"
    lengths = "--max_seq_length=32"
    sentence = fails_with("pretrain_domain.py", *args, whole, lengths)
    assert "give --train_hours, --train_tokens or --num_train_steps" in sentence
    one = tmp_path / "one.txt"
    one.write_text("all of it\nin one document\n")
    sentence = fails_with(
        "pretrain_domain.py",
        *args,
        f"--input_file={one}",
        "--num_train_steps=2",
        lengths,
    )
    assert "has 1 of at least two documents" in sentence
