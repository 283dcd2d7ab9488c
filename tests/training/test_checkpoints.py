"""Tests of training/checkpoints.py: what was damaged on the disk."""

import itertools
import json
import os
import shutil
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.training import checkpoints
from bert_keras.training.checkpoints import (
    BestCheckpoint,
    TrainingState,
    branch,
    check_settings,
    read_settings,
    write_settings,
)

DATA, INDEX = ".data-00000-of-00001", ".index"


class Count(tf.train.experimental.PythonState):
    """A number that is saved as its digits."""

    number = 0

    def serialize(self) -> str:
        return str(self.number)

    def deserialize(self, text: str) -> None:
        self.number = int(text)


class Run:
    """Weights of 7 numbers that all are the step, and a count that is."""

    def __init__(self, folder: Path):
        self.count = Count()
        self.weights = tf.Variable(tf.zeros([7]))
        self.state = TrainingState(
            str(folder),
            {"weights": self.weights, "data": self.count},
            2,
            is_chief=True,
        )

    def save(self, step: int) -> None:
        self.count.number = step
        self.weights.assign(tf.fill([7], float(step)))
        self.state.save(step)

    def restored(self) -> int:
        """The step gone back to, which weights and data must be of."""
        step = self.state.restore()
        np.testing.assert_array_equal(self.weights.numpy(), [step] * 7)
        assert self.count.number == step
        return step


@pytest.fixture
def states(tmp_path: Path) -> Path:
    run = Run(tmp_path)
    run.save(5)
    run.save(10)
    return tmp_path / "training_state"


@pytest.mark.parametrize("suffix", [DATA, INDEX])
def test_a_flipped_byte_anywhere_is_seen(
    suffix: str, states: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = states / f"step-10{suffix}"
    whole = path.read_bytes()
    run = Run(states.parent)
    steps = []
    for place in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        steps.append(run.restored())
    # Some bytes of an index mean nothing; all those of the data count.
    assert set(steps) <= {5, 10} and steps.count(5) > len(steps) // 2
    if suffix == DATA:
        assert set(steps) == {5}
    assert "step-10 is damaged" in capfd.readouterr().err
    path.write_bytes(whole)
    assert run.restored() == 10


def test_cut_or_missing_files_are_seen(states: Path) -> None:
    run = Run(states.parent)
    for suffix in (DATA, INDEX):
        path = states / f"step-10{suffix}"
        whole = path.read_bytes()
        for size in (0, 1, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:size])
            assert run.restored() == 5, (suffix, size)
        path.unlink()
        assert run.restored() == 5
        path.write_bytes(whole)


def test_the_list_of_states_is_not_needed(states: Path) -> None:
    (states / "step-15_temp").mkdir()  # what a kill leaves
    (states / "step-15_temp" / "part").write_text("x")
    for content in (b"\xff\xfe\x00", b"", b"model_checkpoint_path: {"):
        (states / "checkpoint").write_bytes(content)
        run = Run(states.parent)
        assert run.restored() == 10
    assert not (states / "step-15_temp").exists()
    run.save(15)
    assert run.restored() == 15


def steps_in(states: Path) -> list[int]:
    paths = [p for p in states.iterdir() if p.name.startswith("step-")]
    assert len(paths) == 2 * len({p.stem for p in paths})
    return sorted({int(p.stem.removeprefix("step-")) for p in paths})


def test_the_newest_are_kept_and_what_is_not_theirs_is_let_be(
    states: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim.index"
    victim.write_text("somebody's")
    kept = "".join(
        f'all_model_checkpoint_paths: "{path}"\n'
        "all_model_checkpoint_timestamps: 1.0\n"
        for path in (tmp_path / "victim", "step-5", "step-10")
    )
    (states / "checkpoint").write_text(
        f'model_checkpoint_path: "step-10"\n{kept}'
    )
    (states / f"step-3{DATA}").write_text("a removal was cut off")
    run = Run(tmp_path)
    assert run.restored() == 10
    for step in (15, 20, 25):
        run.save(step)
    assert steps_in(states) == [20, 25]
    assert victim.read_text() == "somebody's"


def test_a_damaged_state_goes_when_the_run_goes_on(states: Path) -> None:
    (states / f"step-10{DATA}").write_bytes(b"")
    run = Run(states.parent)
    assert run.restored() == 5
    run.save(7)
    assert steps_in(states) == [5, 7]


def test_data_without_any_index_is_no_fresh_start(states: Path) -> None:
    for path in states.glob("*.index"):
        path.unlink()
    with pytest.raises(InputError, match="every checkpoint in .* is damaged"):
        Run(states.parent).restored()
    assert len(list(states.glob("*.data-*"))) == 2


def test_a_first_state_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = Run(folder)
    run.save(0)
    (folder / "training_state" / f"step-0{INDEX}").unlink()
    run = Run(folder)
    assert run.restored() == 0
    run.save(0)
    run.save(5)
    assert Run(folder).restored() == 5


def test_settings_tell_what_differs() -> None:
    began = {"input_file": ["a", "b"], "rate": 0.1, "steps": 10}

    def check(**settings: object) -> list[str]:
        return check_settings("out", began, settings, {"steps": "; so there"})

    for files, sentence in (
        (["a", "c"], "`input_file` is 'c' but was 'b'"),
        (["a"], "`input_file` is 'a list of 1' but was 'one of 2'"),
    ):
        with pytest.raises(InputError, match=sentence):
            check(input_file=files)
    # and how to train on with what is new
    with pytest.raises(InputError, match="was 0.1 .* `init_checkpoint=out"):
        check(rate=0.2)
    assert check(rate=0.1, input_file=("a", "b")) == []
    assert check(steps=12) == [
        "`steps` is 12 but was 10 when out was begun; so there"
    ]
    [notice] = check(rate=0.1, seed=3, case=False, direction=None)
    assert "did not store seed, case: these are taken" in notice


def test_a_copy_of_a_file_is_the_same() -> None:
    began = {"input_file": ["a"], "input_file's contents": ["7 bytes"]}
    copied = {"input_file": ["b"], "input_file's contents": ["7 bytes"]}
    assert check_settings("out", began, copied, {}) == []
    changed = {"input_file": ["a"], "input_file's contents": ["8 bytes"]}
    sentence = "`input_file` reads '8 bytes' but read '7"
    with pytest.raises(InputError, match=sentence):
        check_settings("out", began, changed, {})


def test_a_digest_is_compared_where_it_was_stored() -> None:
    name = "input_file's contents"
    old, new = "a, 7 bytes, checksum 1", "a, 7 bytes, checksum 1, digest 2"
    for began, now in ((old, new), (new, old), (new, new)):
        assert check_settings("out", {name: [began]}, {name: [now]}, {}) == []
        assert check_settings("out", {name: began}, {name: now}, {}) == []
    for began, now in ((new, new[:-1] + "3"), (old, new.replace("1", "4"))):
        sentence = f"reads '{now}' but read '{began}'"
        with pytest.raises(InputError, match=sentence):
            check_settings("out", {name: [new, began]}, {name: [new, now]}, {})
    with pytest.raises(InputError, match="a list of 1"):
        check_settings("out", {name: [old, old]}, {name: [new]}, {})


def test_damaged_settings_are_named(states: Path) -> None:
    folder = str(states.parent)
    (states / "settings.json").write_text('{"seed": 3')
    with pytest.raises(
        InputError, match="settings.json is not a JSON file .* damaged"
    ):
        read_settings(folder)
    (states / "settings.json").unlink()
    assert read_settings(folder) == {}
    write_settings(folder, {"seed": 3})
    assert read_settings(folder) == {"seed": 3}


def test_a_pipe_in_the_place_of_a_file_is_refused(states: Path) -> None:
    """It would be waited for."""
    folder = states.parent
    (folder / "best").mkdir()
    names = ("best.json", "best/best.json", "training_state/settings.json")
    for name in names:
        os.mkfifo(folder / name)
    best = BestCheckpoint(str(folder))
    for name, read in zip(
        names,
        (best.final_step, best.find, lambda: read_settings(str(folder))),
        strict=True,
    ):
        with pytest.raises(InputError, match=f"{name} is a device or a pipe"):
            read()
    (states / "step-10.index").unlink()
    os.mkfifo(states / "step-10.index")
    with pytest.raises(InputError, match="step-10.index is a device or a pipe"):
        branch(str(folder), str(folder / "other"), 10, {})
    assert Run(folder).restored() == 5


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"{}",
        b'{"step": 1e999}',
        b'{"step": -5}',
        b'{"step": "7"}',
    ],
)
def test_a_damaged_best_model_is_named(tmp_path: Path, content: bytes) -> None:
    best = BestCheckpoint(str(tmp_path))
    best.note_adopted(7, {"f1": 0.5})
    assert best.final_step() == 7
    (tmp_path / "best.json").write_bytes(content)
    with pytest.raises(InputError, match="best.json, .* damaged"):
        best.final_step()


def test_files_of_others_beside_the_best_model_stay(tmp_path: Path) -> None:
    best = BestCheckpoint(str(tmp_path))
    for step in (3, 7):
        best.keep(step, {"f1": 0.5}, lambda folder: None)
        (tmp_path / "best" / "notes.txt").touch()
    names = {path.name for path in (tmp_path / "best").iterdir()}
    assert names == {"step-7", "best.json", "notes.txt"}


def test_folders_of_others_beside_the_best_model_stay(tmp_path: Path) -> None:
    best = BestCheckpoint(str(tmp_path))
    best.keep(2, {"f1": 0.5}, lambda folder: None)
    (tmp_path / "best" / "step-500").mkdir()
    (tmp_path / "best" / "step-500" / "mine.txt").touch()
    copy = tmp_path / "best" / "step-99"
    shutil.copytree(tmp_path / "best" / "step-2", copy)
    best.keep(7, {"f1": 0.5}, lambda folder: None)
    names = {path.name for path in (tmp_path / "best").iterdir()}
    assert names == {"step-7", "best.json", "step-500", "step-99"}
    assert (tmp_path / "best" / "step-500" / "mine.txt").exists()
    for step in (99, 500):
        kept = sorted((tmp_path / "best").rglob("*"))
        with pytest.raises(InputError, match=f"step-{step}, which has other"):
            best.keep(step, {"f1": 0.5}, lambda folder: None)
        assert sorted((tmp_path / "best").rglob("*")) == kept


@pytest.mark.parametrize("at", range(1, 7))
def test_a_kill_leaves_no_second_best_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Before the write or removal number `at`; 0 leaves an empty folder."""

    def save(folder: str) -> None:
        for name in "ab":
            call(Path.touch)(Path(folder, name))

    def call(function: Any) -> Any:
        def counted(*args: Any) -> None:
            if next(calls) == at:
                raise KeyboardInterrupt
            function(*args)

        return counted

    calls = itertools.count(-99)
    best = BestCheckpoint(str(tmp_path))
    best.keep(3, {"f1": 0.5}, save)
    own = types.SimpleNamespace(**vars(checkpoints.files))
    own.write_json, own.remove = call(own.write_json), call(own.remove)
    monkeypatch.setattr(checkpoints, "files", own)
    calls = itertools.count()
    with pytest.raises(KeyboardInterrupt):
        best.keep(7, {"f1": 0.6}, save)
    folder, step = best.find()
    assert step == (3 if at < 4 else 7)
    assert sorted(os.listdir(folder)) == ["a", "b", "best.json"]
    calls = itertools.count(-99)
    best.keep(9, {"f1": 0.7}, save)
    assert sorted(os.listdir(best.parent)) == ["best.json", "step-9"]


def test_the_best_up_to_the_newest_state_is_kept_to_go_back_to(
    tmp_path: Path,
) -> None:
    best = BestCheckpoint(str(tmp_path))

    def keep(step: int, saved_step: int) -> None:
        value = {"f1": step / 100}
        best.keep(step, value, lambda x: Path(x, "a").touch(), saved_step)

    def models() -> list[str]:
        return sorted(x for x in os.listdir(best.parent) if x != "best.json")

    keep(3, 0)
    keep(6, 0)
    assert models() == ["step-6"]
    keep(15, 10)
    keep(18, 10)
    assert models() == ["step-18", "step-6"]
    best.go_back(20)
    assert best.find()[1] == 18
    best.go_back(10)  # the state of step 20 was never saved
    assert best.find()[1] == 6
    assert json.loads((tmp_path / "best" / "best.json").read_text()) == {
        "step": 6,
        "f1": 0.06,
    }
    assert models() == ["step-6"]
    keep(15, 10)
    assert models() == ["step-15", "step-6"]
    best.go_back(20)  # as in a run that has not looked at step 15 again
    keep(25, 20)
    assert models() == ["step-15", "step-25"]
    best.go_back(20)
    best.finish()
    assert models() == ["step-15"]


def test_a_best_folder_of_an_earlier_version_is_replaced(
    tmp_path: Path,
) -> None:
    best = BestCheckpoint(str(tmp_path))
    best.keep(3, {"f1": 0.5}, lambda folder: None)
    (tmp_path / "best" / "step-3" / "best.json").unlink()
    best.keep(7, {"f1": 0.5}, lambda folder: None)
    assert sorted(os.listdir(best.parent)) == ["best.json", "step-7"]


@pytest.mark.parametrize("forgets", [True, False])
def test_a_best_folder_that_is_a_link_is_replaced(
    tmp_path: Path, forgets: bool
) -> None:
    other = BestCheckpoint(str(tmp_path / "other"))
    other.keep(5, {"f1": 0.5}, lambda folder: Path(folder, "a").touch())
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "best").symlink_to(other.parent)
    best = BestCheckpoint(str(tmp_path / "run"))
    if forgets:
        assert best.is_after(4) and not best.is_after(5)
        best.forget_seen()
        assert not os.path.lexists(best.parent)
    else:
        best.keep(7, {"f1": 0.5}, lambda folder: None)
        assert sorted(os.listdir(best.parent)) == ["best.json", "step-7"]
    assert sorted(os.listdir(other.parent)) == ["best.json", "step-5"]
    assert (tmp_path / "other" / "best" / "step-5" / "a").exists()


def test_a_best_model_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="best/best.json, .* is missing"):
        BestCheckpoint(str(tmp_path)).find()


def test_a_link_in_the_place_of_the_best_model(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "step-7").symlink_to(tmp_path / "mine")
    best = BestCheckpoint(str(tmp_path))
    best.keep(7, {"f1": 0.5}, lambda folder: Path(folder, "a").touch())
    assert list((tmp_path / "mine").iterdir()) == []
    assert (tmp_path / "best" / "step-7" / "a").exists()
