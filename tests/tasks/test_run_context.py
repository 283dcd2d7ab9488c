"""Tests of tasks/run_context.py."""

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bert_keras.errors import InputError
from bert_keras.modeling.config import SIZES, BertConfig
from bert_keras.tasks.keyword_settings import CHOICES
from bert_keras.tasks.run_context import (
    RECORDS,
    RunConfig,
    check_not_overwritten,
    claim_folder,
    read_config,
)
from bert_keras.training.distribution import Host
from tests.conftest import GOLDEN


@pytest.mark.parametrize(
    "name",
    ["", "bert_model.ckpt", "bert_model.ckpt.index", "model.safetensors"],
)
def test_weights_that_are_read_are_not_overwritten(
    tmp_path: Path, name: str
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (tmp_path / "link").symlink_to(model)
    for output_dir in (model, f"{model}/", tmp_path / "link"):
        with pytest.raises(InputError, match=r"output_dir=.*init_checkpoint="):
            check_not_overwritten(
                str(output_dir), init_checkpoint=str(model / name)
            )


def test_other_weights_may_lie_in_the_folder_or_below_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "best").mkdir()
    for start in ("model.ckpt-1000", "best", "best/bert_model.ckpt"):
        check_not_overwritten(
            str(tmp_path),
            init_checkpoint=str(tmp_path / start),
            second_init_checkpoint=None,
        )


def test_a_size_takes_its_tokens_from_the_vocabulary(tmp_path: Path) -> None:
    vocab_file = str(GOLDEN / "tiny_vocab.txt")
    number = len(Path(vocab_file).read_text().split())
    run = RunConfig(str(tmp_path), model_size="mini", vocab_file=vocab_file)
    assert read_config(run, 128) == BertConfig.of_size("mini", number)
    with pytest.raises(InputError, match="mini` needs `vocab_file`"):
        read_config(dataclasses.replace(run, vocab_file=None), 128)
    both = dataclasses.replace(run, bert_config_file="bert_config.json")
    with pytest.raises(InputError, match="are given; drop one"):
        read_config(both, 128)


def test_the_flag_knows_every_size() -> None:
    assert tuple(SIZES) == CHOICES["model_size"]


def test_the_best_model_of_a_run_does_not_begin_it_anew(
    tmp_path: Path,
) -> None:
    best = tmp_path / "best" / "step-7"
    best.mkdir(parents=True)
    for start in (best, best / "bert_model.ckpt"):
        with pytest.raises(InputError, match="would overwrite the weights"):
            check_not_overwritten(str(tmp_path), init_checkpoint=str(start))


def test_a_run_within_what_another_run_empties(tmp_path: Path) -> None:
    (tmp_path / "run" / "training_state").mkdir(parents=True)
    for name in ("training_state", "best/step-7", "training_state/a/b"):
        run = RunConfig(str(tmp_path / "run" / name), do_train=True)
        with pytest.raises(InputError, match=r"which the run in .*/run change"):
            claim_folder(run, Host(0, 1))
        assert not (tmp_path / "run" / "best").exists()
    for name in ("run", "run/second"):
        claim_folder(RunConfig(str(tmp_path / name), do_train=True), Host(0, 1))


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    out, there = str(tmp_path / "out"), tmp_path / "model"
    with pytest.raises(InputError, match="`init_checkpoint=bert` does not ex"):
        read_config(RunConfig(out, init_checkpoint="bert", do_train=True), 8)
    there.mkdir()
    run = RunConfig(out, init_checkpoint=str(there), do_train=True)
    with pytest.raises(InputError, match="/model` has no bert_config.json or"):
        read_config(run, 8)


def test_a_run_of_google_s_code_is_another_run(tmp_path: Path) -> None:
    for name in ("model.ckpt-9.index", "model.ckpt-343.index", "checkpoint"):
        (tmp_path / name).touch()
    for trains in (True, False):
        run = RunConfig(str(tmp_path), do_train=trains)
        with pytest.raises(InputError, match="checkpoints of google-res"):
            claim_folder(run, Host(0, 1))
    (tmp_path / "bert_model.ckpt.index").touch()
    claim_folder(RunConfig(str(tmp_path)), Host(0, 1))


@pytest.mark.parametrize(
    "name",
    [
        "bert_model.ckpt.index",
        "model.safetensors",
        "model-00001-of-00002.safetensors",
        "pytorch_model.bin",
    ],
)
def test_a_model_that_no_training_goes_on_with_is_not_overwritten(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).touch()
    claim_folder(RunConfig(str(tmp_path)), Host(0, 1))
    run = RunConfig(str(tmp_path), do_train=True)
    with pytest.raises(InputError, match=f"a model .{name}. and no training"):
        claim_folder(run, Host(0, 1))
    (tmp_path / "results.json").touch()  # it was evaluated
    with pytest.raises(InputError, match="no training of it"):
        claim_folder(run, Host(0, 1))
    (tmp_path / "train_log.jsonl").write_text('{"step": 1}\n')  # it was trained
    with pytest.raises(InputError, match="no training of it"):
        claim_folder(run, Host(0, 1))
    for place in ("seed-3", "."):
        begun = tmp_path / place / "training_state"
        begun.mkdir(parents=True, exist_ok=True)
        (begun / "settings.json").touch()
        with pytest.raises(InputError, match="no training of it"):
            claim_folder(run, Host(0, 1))
    claim_folder(run, Host(0, 1), has_seeds=True)


def test_somebody_s_examples_are_moved(tmp_path: Path) -> None:
    path = tmp_path / "eval.tf_record"
    path.write_text("mine")
    run = RunConfig(str(tmp_path), do_train=True)
    dry_run = dataclasses.replace(run, dry_run=True)
    claim_folder(dry_run, Host(0, 1), RECORDS)
    assert path.is_file()
    claim_folder(run, Host(0, 1), RECORDS)
    moved = tmp_path / "earlier_results" / path.name
    assert moved.read_text() == "mine"
    path.touch()  # of this run
    claim_folder(run, Host(0, 1), RECORDS)
    assert path.is_file()


def test_somebody_s_examples_are_moved_by_a_first_evaluation(
    tmp_path: Path,
) -> None:
    path = tmp_path / "eval.tf_record"
    path.write_text("mine")
    claim_folder(RunConfig(str(tmp_path)), Host(0, 1), RECORDS)
    moved = tmp_path / "earlier_results" / path.name
    assert moved.read_text() == "mine"
    path.touch()
    (tmp_path / "results.json").touch()  # of the first
    claim_folder(RunConfig(str(tmp_path)), Host(0, 1), RECORDS)
    assert path.is_file()


@pytest.mark.parametrize("name", ["training_state", "best"])
def test_states_of_another_run_are_not_written_into(
    tmp_path: Path, name: str
) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    out.mkdir()
    (out / name).symlink_to(other / name)
    run = RunConfig(str(out), do_train=True)
    claim_folder(dataclasses.replace(run, dry_run=True), Host(0, 1))
    (other / name).mkdir(parents=True)  # on a larger disk
    claim_folder(run, Host(0, 1))
    (other / "train_log.jsonl").touch()
    with pytest.raises(InputError, match=f"has {name}, a link to that of"):
        claim_folder(run, Host(0, 1))
    claim_folder(RunConfig(str(out)), Host(0, 1))  # to evaluate


def test_weights_that_cannot_be_replaced(tmp_path: Path) -> None:
    path, outside = tmp_path / "model.safetensors", tmp_path / "outside"
    path.touch()
    outside.touch()
    mount = ["mount", "--bind", str(outside), str(path)]
    if shutil.which("mount") is None or subprocess.run(mount).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        claim_folder(RunConfig(str(tmp_path)), Host(0, 1))
        run = RunConfig(str(tmp_path), do_train=True)
        with pytest.raises(InputError, match="are mounted by themselves"):
            claim_folder(run, Host(0, 1))
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.mark.parametrize("name", ["best", "earlier_results", "tensorboard"])
def test_a_file_in_the_place_of_a_folder_is_refused(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=f"has {name}, a file; remove it"):
        claim_folder(RunConfig(str(tmp_path)), Host(0, 1))


def test_a_pipe_in_output_dir_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train_log.jsonl")
    with pytest.raises(InputError, match="train_log.jsonl, a device or a pipe"):
        claim_folder(RunConfig(str(tmp_path)), Host(0, 1))


@pytest.mark.parametrize("name", ["task.json", "train_log.jsonl", "RTE.tsv"])
def test_a_folder_in_the_place_of_a_file_is_refused(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=f"has {name}, a folder; remove it"):
        claim_folder(RunConfig(str(tmp_path)), Host(0, 1))


@pytest.mark.parametrize("name", ["test_results.tsv", "predictions.json"])
def test_data_under_the_name_of_a_result_is_refused(
    tmp_path: Path, name: str
) -> None:
    run = RunConfig(
        str(tmp_path), data_files={"predict_file": str(tmp_path / name)}
    )
    with pytest.raises(InputError, match="output_dir=.*predict_file=.*" + name):
        claim_folder(run, Host(0, 1))


def test_a_folder_of_data_may_be_output_dir(tmp_path: Path) -> None:
    """But for AX.tsv, which GLUE calls both its data and their labels."""
    run = RunConfig(str(tmp_path), data_files={"data_dir": str(tmp_path)})
    (tmp_path / "MRPC.tsv").touch()
    claim_folder(run, Host(0, 1))
    (tmp_path / "AX.tsv").touch()
    with pytest.raises(InputError, match="output_dir=.*data_dir=.*AX.tsv"):
        claim_folder(run, Host(0, 1))
