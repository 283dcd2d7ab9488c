"""Pickles and archives given to every command: nothing in them ever runs."""

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto

from bert_keras import checkpoint_index
from bert_keras.data import tfrecords
from tests.command_world import (
    FILES,
    GOOD,
    NUMBERS,
    REQUIRED,
    arguments,
    make_malicious,
    make_world,
)
from tests.conftest import ROOT, forking
from tests.crafted_index import checksum, index
from tests.forked_commands import Commands

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork")


@pytest.fixture(scope="module")
def commands() -> Commands:
    return forking()


def test_every_command_is_tried() -> None:
    commands = (ROOT / "bert_keras" / "commands").glob("[!_]*.py")
    named = {path.stem for path in commands}
    for tried in (GOOD, FILES, REQUIRED, NUMBERS):
        assert set(tried) == named
    for command, flags in FILES.items():
        given = {x.partition("=")[0] for x in arguments(command)}
        assert {f"--{flag}" for flag in flags} <= given, command


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
        assert "--output_dir is empty; name a folder" in ended.errors


def test_an_empty_name_of_a_vocabulary(
    tmp_path: Path, commands: Commands
) -> None:
    (tmp_path / "corpus.txt").write_text("the sea\n")
    (tmp_path / "some.tfrecord").write_text("")
    for command in ("create_pretraining_data", "inspect_records"):
        args = arguments(command, vocab_file=None)
        ended = commands.run(
            f"{command}.py", *args, "--vocab_file=", cwd=str(tmp_path)
        )
        assert ended.is_refusal, ended
        assert "--vocab_file= is empty" in ended.errors


@pytest.mark.slow
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


@pytest.mark.parametrize(
    "command",
    [name for name, kinds in FILES.items() if "model" in kinds.values()],
)
def test_weights_that_lie_are_refused(
    tmp_path: Path, commands: Commands, command: str
) -> None:
    """TensorFlow ends the process at the first."""
    make_world(tmp_path)
    if command == "run_pretraining":
        making = "create_pretraining_data"
        args = arguments(making, output_file="some.tfrecord")
        commands.run(f"{making}.py", *args, cwd=str(tmp_path))
    model = tmp_path / "model"
    index_file = model / "bert_model.ckpt.index"
    data_file = model / "bert_model.ckpt.data-00000-of-00001"
    whole = index_file.read_bytes(), data_file.read_bytes()
    name = b"bert/embeddings/LayerNorm/beta"
    items = dict(checkpoint_index._table(whole[0]))

    def refused() -> str:
        args = arguments(command)
        ended = commands.run(f"{command}.py", *args, cwd=str(tmp_path))
        assert ended.is_refusal, ended
        return ended.errors

    entry = BundleEntryProto.FromString(items[name])
    entry.shape.dim[0].size = -1
    lying = {**items, name: entry.SerializeToString()}
    index_file.write_bytes(index(sorted(lying.items())))
    assert "LayerNorm/beta has an impossible shape" in refused()

    entry = BundleEntryProto.FromString(items[name])
    data = bytearray(whole[1])
    values = np.full(40, np.nan, np.float32).tobytes()
    data[entry.offset : entry.offset + entry.size] = values
    data_file.write_bytes(data)
    entry.crc32c = checksum(values)
    lying = {**items, name: entry.SerializeToString()}
    index_file.write_bytes(index(sorted(lying.items())))
    assert "LayerNorm/beta with 40 of 40 numbers infinite or" in refused()

    index_file.write_bytes(whole[0])
    data_file.write_bytes(whole[1])
    config_file = model / "bert_config.json"
    config = json.loads(config_file.read_text()) | {"vocab_size": 10**6}
    config_file.write_text(json.dumps(config))
    assert "vocab_size asks for 1000000 instead of 101" in refused()
