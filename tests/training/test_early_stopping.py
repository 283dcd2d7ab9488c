"""Tests of training/early_stopping.py."""

import json
from pathlib import Path

import pytest

from bert_keras.errors import InputError
from bert_keras.training.early_stopping import EarlyStopping


class Kept:
    """A run whose evaluations are given; what was kept of it."""

    def __init__(self, folder: Path, values: list[float], **settings: object):
        self.values = iter(values)
        self.steps: list[int] = []
        self.gone_back: list[int] = []
        arguments = {"metric": "f1", "patience": 2, "writes": True, **settings}
        self.stopping = EarlyStopping(
            every_steps=10,
            evaluate=lambda: {"f1": next(self.values), "loss": 1.0},
            keep=lambda step, _: self.steps.append(step),
            go_back=self.gone_back.append,
            output_dir=str(folder),
            **arguments,  # type: ignore[arg-type]
        )

    def check(self, step: int) -> bool:
        return self.stopping.check(step, self.stopping.evaluate())


def test_the_best_is_kept_and_patience_ends(tmp_path: Path) -> None:
    run = Kept(tmp_path, [0.5, 0.7, 0.6, 0.7])
    assert not run.stopping.resume(0)
    assert [run.check(step) for step in (10, 20, 30, 40)] == [
        False,
        False,
        False,
        True,  # two evaluations without a better one; an equal one is none
    ]
    assert run.steps == [10, 20]
    assert (
        run.stopping.verdict()
        == "kept step 20: f1 0.7000, best of 4 evaluations"
    )


def test_a_resumed_run_knows_what_it_saw_and_forgets_the_rest(
    tmp_path: Path,
) -> None:
    first = Kept(tmp_path, [0.5, 0.7, 0.9])
    for step in (10, 20, 30):
        first.check(step)
    resumed = Kept(tmp_path, [0.6, 0.65])
    assert not resumed.stopping.resume(20)
    assert resumed.gone_back == [20]
    reader = Kept(tmp_path, [], writes=False)
    assert not reader.stopping.resume(20)
    assert reader.gone_back == []
    assert not resumed.check(30)
    assert resumed.steps == []  # 0.7 at 20 was better
    assert resumed.check(40)
    lines = (tmp_path / "eval_log.jsonl").read_text().splitlines()
    assert [json.loads(line)["f1"] for line in lines] == [0.5, 0.7, 0.6, 0.65]
    assert Kept(tmp_path, []).stopping.resume(40), "it had been stopped"


def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "eval_log.jsonl").write_text('{"step": 10, "loss": 1.0}\n')
    with pytest.raises(InputError, match="eval_log.jsonl, .* is damaged"):
        Kept(tmp_path, []).stopping.resume(10)


def test_a_loss_is_better_when_lower(tmp_path: Path) -> None:
    run = Kept(tmp_path, [0.5, 0.4], metric="loss")
    run.stopping.evaluate = lambda: {"loss": next(run.values)}
    run.check(10)
    run.check(20)
    assert run.steps == [10, 20]


def test_no_number_is_worse_than_any(tmp_path: Path) -> None:
    run = Kept(tmp_path, [float("nan"), 0.1, float("nan")])
    for step in (10, 20, 30):
        run.check(step)
    assert run.steps == [10, 20]


def test_no_number_is_null_in_the_log_and_comes_back(tmp_path: Path) -> None:
    first = Kept(tmp_path, [0.0, float("nan")])
    for step in (10, 20):
        first.check(step)
    log = (tmp_path / "eval_log.jsonl").read_text()
    assert log.endswith('{"step": 20, "f1": null, "loss": 1.0}\n')
    resumed = Kept(tmp_path, [-1.0])
    assert not resumed.stopping.resume(20)
    assert resumed.check(30), "two were worse than the first"
