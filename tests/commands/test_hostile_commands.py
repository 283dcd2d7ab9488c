"""Pickles and archives given to every command: nothing in them ever runs."""

import pickle
import re
import sys
from pathlib import Path

import pytest

from bert_keras.data import tfrecords
from tests.command_world import (
    FILES,
    GOOD,
    arguments,
    make_malicious,
    make_world,
)
from tests.conftest import ROOT, forking
from tests.forked_commands import Commands

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork")


@pytest.fixture(scope="module")
def commands() -> Commands:
    return forking()


def test_every_command_is_tried() -> None:
    text = (ROOT / "setup.py").read_text()
    found = re.search(r"COMMANDS = \((.*?)\)", text, re.DOTALL)
    assert found
    named = set(re.findall(r'"(\w+)"', found[1]))
    assert set(GOOD) == set(FILES) == named


def test_the_payload_works(tmp_path: Path) -> None:
    """Or else the tests below would say nothing."""
    make_malicious(tmp_path, tmp_path / "marker")
    pickle.loads((tmp_path / "model.pkl").read_bytes())
    assert (tmp_path / "marker").is_dir()


def test_an_empty_output_dir_is_not_the_folder_one_is_in(
    tmp_path: Path, commands: Commands
) -> None:
    for command in ("run_classifier", "run_pretraining", "run_squad"):
        args = [*arguments(command), "--output_dir="]
        ended = commands.run(f"{command}.py", *args, cwd=str(tmp_path))
        assert ended.is_refusal, ended
        assert "--output_dir=: it is empty" in ended.errors


def test_a_record_that_tensorflow_cannot_quote(
    tmp_path: Path, commands: Commands
) -> None:
    """Its error is then a UnicodeDecodeError, in the middle of training."""
    make_world(tmp_path)
    making = "create_pretraining_data"
    commands.run(f"{making}.py", *arguments(making), cwd=str(tmp_path))
    good = (tmp_path / "out" / "made.tfrecord").read_bytes()
    bad = tfrecords.frame([b"\xf5"])
    (tmp_path / "some.tfrecord").write_bytes(good + bad)
    args = arguments("run_pretraining", num_train_steps="99")
    ended = commands.run("run_pretraining.py", *args, cwd=str(tmp_path))
    assert ended.is_refusal, ended
    assert "record 95: this is not a tf.train.Example" in ended.errors


@pytest.mark.parametrize("command", GOOD)
def test_no_payload_ever_runs(
    tmp_path: Path, commands: Commands, command: str
) -> None:
    make_world(tmp_path)
    malicious = tmp_path / "malicious"
    malicious.mkdir()
    marker = tmp_path / "marker"
    names = make_malicious(malicious, marker)
    for flag, kind in FILES[command].items():
        if kind == "lines":  # bytes that are no text are left out of it
            continue
        tried = names[:3] + names[-1:] if kind == "model" else names[1::5]
        for name in names if command == "convert_checkpoint" else tried:
            changed = {flag: f"malicious/{name}"}
            if kind == "text":
                changed[flag] += ",nothing"
            ended = commands.run(
                f"{command}.py",
                *arguments(command, **changed),
                cwd=str(tmp_path),
            )
            assert ended.is_refusal, (flag, name, ended)
            assert not marker.exists(), (flag, name)
