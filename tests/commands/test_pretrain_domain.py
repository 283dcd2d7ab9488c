"""Tests of pretrain_domain.py: text in, a model and a report out."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import bert_keras
from bert_keras import locks
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import AnyModel
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.hugging_face import save_hugging_face_folder
from bert_keras.tasks.pretraining.config import DomainConfig
from bert_keras.tasks.pretraining.domain import (
    PARTS,
    WORK,
    _evaluations,
    _report,
    _split,
    pretrain_domain,
)
from tests.conftest import GOLDEN, fails_with, forked, well_ended

MODEL = GOLDEN / "tiny_bert"
VOCAB = f"--vocab_file={GOLDEN / 'tiny_vocab.txt'}"
WORDS = (GOLDEN / "tiny_corpus.txt").read_text()


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Path]:
    """Four documents that say one thing, more or less often, and the golden
    text."""
    found = {name: tmp_path / f"{name}.txt" for name in ("domain", "general")}
    line = WORDS.strip().splitlines()[0]
    documents = ["\n".join([line] * number) for number in (28, 29, 31, 32)]
    found["domain"].write_text("\n\n".join(documents))
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
    best = min(on_the_way, key=lambda line: line["masked_lm_loss"])
    names = {domain: "masked_lm_loss", general: "general_masked_lm_loss"}
    for text, name in names.items():
        np.testing.assert_allclose(losses[text, "after"], best[name], atol=6e-4)
    assert (out / "bert_model.ckpt.index").exists()
    again = forked("pretrain_domain.py", *args)
    assert "has all of its 30 training steps already" in again
    assert (out / "report.md").read_text() == report
    # other general text, from the next step on
    made_of = out / "domain_data" / ".made_of.json"
    assert json.loads(made_of.read_text())["general_since"] == 0
    args[1] = f"--general_file={texts['domain']}"
    ended = well_ended("pretrain_domain.py", *args, "--num_train_steps=31")
    assert "of --input_file and of --general_file" in ended.errors
    assert json.loads(made_of.read_text())["general_since"] == 30
    shutil.rmtree(out / "domain_data")  # as the docs allow
    again = forked("pretrain_domain.py", *args, "--num_train_steps=31")
    assert "has all of its 31 training steps already" in again
    kept = (out / "domain_data" / "train.txt").read_bytes()
    args[0] = f"--input_file={texts['general']}"
    sentence = fails_with("pretrain_domain.py", *args)
    assert "has a run with other --input_file;" in sentence
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
        locks.lock(str(out / "training_state"), "output_dir"),
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
    assert "has 1 of at least two different documents" in sentence
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"text": "one"}\n\n{"text": "two"}\n')
    sentence = fails_with(
        "pretrain_domain.py",
        *args,
        f"--input_file={lines}",
        "--num_train_steps=2",
        lengths,
    )
    assert f"{lines}, line 1 looks like JSON" in sentence
    sentence = fails_with(
        "pretrain_domain.py",
        *args,
        whole,
        "--num_train_steps=2",
        "--max_seq_length=512",
    )
    assert "take a model with more positions" in sentence
    others = tmp_path / "others"
    (others / "training_state").mkdir(parents=True)
    (others / "training_state" / "step-3.index").write_text("")
    sentence = fails_with(
        "pretrain_domain.py",
        *args,
        f"--output_dir={others}",
        whole,
        "--num_train_steps=2",
        lengths,
    )
    assert f"--output_dir={others} has a run of another command" in sentence
    assert not (others / WORK).exists()


def test_a_report_by_hand() -> None:
    """Evaluated after steps 2, 4, ... 10; on this general text after 6 only."""

    def scores(loss: float) -> dict[str, float]:
        return {"masked_lm_loss": loss, "masked_lm_accuracy": loss / 10}

    history = [
        {"step": step, "masked_lm_loss": 9.0}
        | {f"eval_{k}": x for k, x in scores(step).items()}
        | {f"eval_general_{k}": x for k, x in scores(2 * step).items()}
        for step in range(2, 11, 2)
    ]
    history.append({"step": 11, "masked_lm_loss": 9.0})
    before = {"held_out": scores(1.0), "general": scores(1.5)}
    seen: Any = {0: before, **_evaluations(history, 6)}
    report = _report(seen, {"held_out": scores(0.5), "general": scores(0.0)})
    assert [line.split("|")[1:5] for line in report.splitlines()[2:]] == [
        [" held-out domain text ", f" {when} ", f" {10 * x:.1f} ", f" {x:.3f} "]
        for when, x in (
            ("before", 1.0),
            ("step 2", 2),
            ("step 4", 4),
            ("step 6", 6),
            ("step 10", 10),
            ("after", 0.5),
        )
    ] + [
        [" general text ", f" {when} ", f" {10 * x:.1f} ", f" {x:.3f} "]
        for when, x in (("before", 1.5), ("step 10", 20), ("after", 0.0))
    ]


def parts_of(
    text: str, folder: Path, **settings: Any
) -> tuple[list[str], list[str]]:
    """The documents to train on, and those held out."""
    path = folder / "text.txt"
    path.write_text(text)
    texts = {name: str(folder / f"{name}.txt") for name in PARTS}
    _split([str(path)], DomainConfig(**settings), texts)
    train, held_out = (Path(texts[name]).read_text() for name in PARTS)
    return train.split("\n\n")[:-1], held_out.split("\n\n")[:-1]


def test_no_document_is_both_trained_on_and_held_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [f"document {number}\nof two lines" for number in range(45)]
    train, held_out = parts_of(
        "\n\n".join([documents[0], *documents, documents[1]]), tmp_path
    )
    assert held_out == [documents[i] for i in (1, 21, 41, 1)]
    rest = [x for i, x in enumerate(documents) if i not in (1, 21, 41)]
    assert train == [documents[0], *rest]
    out, warned = capsys.readouterr()
    number = sum(map(len, held_out))
    assert f"3 of 45 different documents are held out, with {number} ch" in out
    assert f"{number} characters are held out: with fewer than" in warned
    assert "have one line" not in warned
    # of JSON the text counts
    lines = [json.dumps({"text": f"text {i % 3}", "id": i}) for i in range(4)]
    parts_of("\n".join(lines), tmp_path, input_format="jsonl")
    kept = (tmp_path / "train.txt").read_text().splitlines()
    assert kept == [lines[0], lines[2], lines[3]]
    assert (tmp_path / "held_out.txt").read_text() == f"{lines[1]}\n"
    # a document without text is none
    empty = json.dumps({"text": " \n"})
    parts_of("\n".join([empty, *lines]), tmp_path, input_format="jsonl")
    assert (tmp_path / "held_out.txt").read_text() == f"{lines[1]}\n"


def test_paragraphs_that_look_like_documents_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\n\n".join(f"paragraph {number}" for number in range(30))
    parts_of(text, tmp_path)
    assert "the 30 documents have one line. If blank lines" in (
        capsys.readouterr().err
    )
    parts_of(text, tmp_path, input_format="sentences")
    assert "have one line" not in capsys.readouterr().err


def test_a_return_in_a_paragraph_is_a_space(tmp_path: Path) -> None:
    text = "one\rparagraph\r\n\r\nand\ranother"
    assert parts_of(text, tmp_path) == (["one paragraph"], ["and another"])
    joined = parts_of(text, tmp_path, input_format="sentences")
    assert joined == (["oneparagraph"], ["andanother"])


def test_a_json_line_is_named_in_the_file_that_was_given(
    tmp_path: Path,
) -> None:
    lines = [json.dumps({"text": f"document {number}"}) for number in range(4)]
    with pytest.raises(InputError, match=r"text\.txt, line 4 is not JSON"):
        parts_of("\n".join([*lines[:3], "{"]), tmp_path, input_format="jsonl")
    with pytest.raises(InputError, match=r"line 1 has no text in the field"):
        parts_of(
            "\n".join(lines), tmp_path, input_format="jsonl", text_field="body"
        )
    with pytest.raises(InputError, match="give more of them, a JSON object"):
        parts_of(lines[0], tmp_path, input_format="jsonl")


@pytest.mark.slow
def test_a_model_without_a_masked_lm_head_is_given_one(
    texts: dict[str, Path], tmp_path: Path
) -> None:
    config = BertConfig.from_json_file(MODEL / "bert_config.json")
    folder = str(tmp_path / "headless")
    vocab_file = str(GOLDEN / "tiny_vocab.txt")
    save_hugging_face_folder(
        folder, config, AnyModel(config, {}).mappings(), vocab_file
    )
    shown = forked(
        "pretrain_domain.py",
        f"--input_file={texts['domain']}",
        f"--init_checkpoint={folder}",
        f"--output_dir={tmp_path / 'out'}",
        *("--max_seq_length=32", "--train_batch_size=8", "--eval_steps=2"),
        "--num_train_steps=4",
    )
    assert "new, at random: masked LM head" in shown
    assert "| held-out domain text | before |" in shown
    assert "| held-out domain text | step 2 |" in shown
    names = tf.train.load_checkpoint(
        str(tmp_path / "out" / "bert_model.ckpt")
    ).get_variable_to_shape_map()
    assert "cls/predictions/output_bias" in names
    # which is all of the output layer: its matrix is the embedding
    assert not any("predictions/output_weights" in name for name in names)


@pytest.mark.slow
def test_what_is_asked_may_change_until_there_is_a_state(
    texts: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    args = [
        f"--init_checkpoint={MODEL}",
        VOCAB,
        f"--output_dir={out}",
        *("--max_seq_length=32", "--train_batch_size=8", "--eval_steps=2"),
    ]
    domain, general = (f"--input_file={texts[x]}" for x in texts)
    # a budget for which no step can be taken, when all records are made
    fails_with("pretrain_domain.py", domain, *args, "--train_hours=1e-9")
    made = out / WORK / "train.tfrecord"
    first = made.stat().st_mtime_ns, (out / WORK / "train.txt").stat().st_mtime
    fails_with("pretrain_domain.py", domain, *args, "--train_hours=1e-9")
    assert first == (
        made.stat().st_mtime_ns,
        (out / WORK / "train.txt").stat().st_mtime,
    )
    changed = "--num_train_steps=4", "--masked_lm_prob=0.05"
    forked("pretrain_domain.py", general, *args, *changed)
    assert made.stat().st_mtime_ns != first[0]
    # as many as evaluation masks, 15 % of 32
    settings = out / WORK / ".train.tfrecord.making" / "settings.json"
    assert json.loads(settings.read_text())["max_predictions_per_seq"] == 5
