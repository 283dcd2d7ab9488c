"""Tests of tasks/trainer.py: what a run is held to, and which model is used."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from bert_keras.errors import InputError
from bert_keras.tasks.fine_tuning import check_use, stored_settings
from bert_keras.tasks.run_context import (
    Devices,
    RunConfig,
    RunContext,
    find_tokenizer,
)
from bert_keras.tasks.run_settings import (
    MAY_CHANGE,
    NOT_COMPARED,
    settings_of,
    weights_contents,
)
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.tasks.trainer import TrainingPlan
from bert_keras.training.checkpoints import STATES, check_settings
from bert_keras.training.config import (
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)
from bert_keras.training.distribution import Host
from tests.conftest import TINY

CONFIG = RunConfig("out", None, None, None, "float32")
PIECES = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
TASK = TaskConfig("single_label", 16, True, labels=("neg", "pos"))


def settings(*changed: Any) -> dict[str, Any]:
    """A run's settings, with these dataclasses in place of the defaults."""
    defaults = CONFIG, OptimizerConfig(), LoopConfig(), TASK
    given: dict[type, Any] = {type(x): x for x in (*defaults, *changed)}
    run, optimizer, loop, task = given.values()
    nothing: Any = None
    context = RunContext(Devices(nothing, Host(0, 1)), run, TINY, None)
    others = dataclasses.asdict(task)
    plan = TrainingPlan(nothing, optimizer, loop, ModelSelection(), others)
    return settings_of(context, plan)


def other(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return f"{value}x"
    if isinstance(value, tuple):
        return value[::-1]
    return not value if isinstance(value, bool) else value + 1


@pytest.mark.parametrize(
    "default", [OptimizerConfig(), LoopConfig(), TASK, CONFIG]
)
def test_a_run_is_held_to_each_setting(default: Any) -> None:
    began = json.loads(json.dumps(settings()))
    held = 0
    for field in dataclasses.fields(default):
        if field.name in NOT_COMPARED or field.name in (
            "vocab_file",
            "data_files",
        ):
            continue
        changed = object.__new__(type(default))  # not all values are sensible
        for name, value in vars(default).items():
            object.__setattr__(changed, name, value)
        value = other(getattr(default, field.name))
        object.__setattr__(changed, field.name, value)
        now = settings(changed)
        if field.name in MAY_CHANGE:
            [notice] = check_settings("out", began, now, MAY_CHANGE)
            assert notice.startswith(f"`{field.name}` is ")
        else:
            with pytest.raises(InputError, match=f"`{field.name}` is "):
                check_settings("out", began, now, MAY_CHANGE)
            held += 1
    assert held


def test_a_state_is_used_with_what_it_was_begun_with(tmp_path: Path) -> None:
    run = dataclasses.replace(CONFIG, output_dir=str(tmp_path))
    (tmp_path / "task.json").write_text(TASK.to_json())
    assert stored_settings(run) == TASK
    # another run has begun where that model is
    other_task = dataclasses.replace(TASK, labels=("pos", "neg"))
    states = tmp_path / "training_state"
    states.mkdir()
    (states / "step-5.index").touch()
    began = {**dataclasses.asdict(other_task), "bilstm": None, "seed": 3}
    (states / "settings.json").write_text(json.dumps(began))
    assert stored_settings(run) == other_task
    # it has ended, and its threshold was chosen
    ended = dataclasses.replace(other_task, null_score_diff_threshold=1.5)
    (tmp_path / "task.json").write_text(ended.to_json())
    assert stored_settings(run) == ended


def test_a_model_is_not_used_by_other_labels_or_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path)
    for change in ({"target": "multi_label"}, {"do_lower_case": False}):
        with pytest.raises(InputError, match="answers would be wrong"):
            check_use(dataclasses.replace(TASK, **change), TASK, folder)
    others = dataclasses.replace(TASK, labels=("pos", "neg"))
    check_use(others, TASK, folder)  # the head is found by its labels' names
    (tmp_path / STATES).mkdir()
    (tmp_path / STATES / "step-3.index").touch()  # of the state of a run
    with pytest.raises(InputError, match="answers would be wrong"):
        check_use(others, TASK, folder)
    pairs = dataclasses.replace(TASK, takes_pairs=True)
    check_use(pairs, TASK, folder)  # what is not known cannot differ
    check_use(dataclasses.replace(TASK, max_seq_length=9), TASK, folder)
    assert capsys.readouterr().out == (
        "max_seq_length is 9, and the model was trained with 16\n"
    )


def test_what_is_replaced_says_nothing_of_the_model_that_is_trained(
    tmp_path: Path,
) -> None:
    """As where `output_dir` has the best of several seeds of another model."""
    for name, is_uncased in (("out", True), ("start", False)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "vocab.txt").write_text(f"{PIECES}{name}\n")
        says = json.dumps({"do_lower_case": is_uncased})
        (folder / "tokenizer_config.json").write_text(says)
        task = dataclasses.replace(TASK, do_lower_case=is_uncased)
        (folder / "task.json").write_text(task.to_json())
    out, start = tmp_path / "out", tmp_path / "start"
    use = dataclasses.replace(
        CONFIG, output_dir=str(out), vocab_file=None, init_checkpoint=str(start)
    )

    def case_and_file(run: RunConfig) -> tuple[bool, str]:
        found, task = find_tokenizer(run, None), stored_settings(run)
        assert found is not None
        assert task is None or task.do_lower_case == (
            found.settings.do_lower_case
        )
        return found.settings.do_lower_case, found.vocab_file

    assert case_and_file(use) == (True, str(out / "vocab.txt"))
    train = dataclasses.replace(use, do_train=True)
    assert case_and_file(train) == (False, str(start / "vocab.txt"))
    at_random = dataclasses.replace(train, init_checkpoint=None)
    assert case_and_file(at_random) == (True, str(out / "vocab.txt"))
    (out / STATES).mkdir()
    (out / STATES / "step-3.index").touch()  # the run resumes
    assert case_and_file(train) == (True, str(out / "vocab.txt"))
    # a checkpoint without a vocabulary
    (out / STATES / "step-3.index").unlink()
    (start / "vocab.txt").unlink()
    given = dataclasses.replace(train, vocab_file=str(out / "vocab.txt"))
    assert case_and_file(given) == (False, str(out / "vocab.txt"))
    found = find_tokenizer(train, None)  # as where it was put by hand
    assert found is not None and found.vocab_file == str(out / "vocab.txt")


def test_a_pipe_beside_the_weights_is_refused(tmp_path: Path) -> None:
    """It would be waited for."""
    for name in "ab":
        path = tmp_path / f"{name}.safetensors"
        save_file({name: np.zeros(3, np.float32)}, path)
    index = {"weight_map": {name: f"{name}.safetensors" for name in "ab"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert weights_contents(str(tmp_path))
    os.mkfifo(tmp_path / "c.safetensors")
    with pytest.raises(
        InputError, match=r"c\.safetensors is a device or a pipe"
    ):
        weights_contents(str(tmp_path))
