"""Tests of training/metric_logging.py."""

import json
from pathlib import Path

import pytest
import tensorflow as tf

from bert_keras.training.metric_logging import (
    LOG,
    TENSORBOARD,
    Progress,
    forget_steps_after,
)


def steps_of(folder: Path) -> list[int]:
    lines = (folder / LOG).read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def test_a_log_goes_on_from_the_step_of_the_state(tmp_path: Path) -> None:
    progress = Progress(str(tmp_path), 0, 10)
    progress.write([(1, {"loss": 3.0}), (2, {"loss": 2.0})], 7)
    progress.write([(3, {"loss": 1.0})], 7)
    progress.close()
    with (tmp_path / LOG).open("a") as log:
        log.write('{"step": 4, "lo')  # killed here; the state is of step 2
    Progress(str(tmp_path), 2, 10).close()
    assert steps_of(tmp_path) == [1, 2]


@pytest.mark.parametrize("tail", [b"\xff\n", b"1\n", b"{}\n", bytes(9), b"\n"])
def test_a_torn_end_of_a_log_is_left_out(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / LOG
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n' + tail)
    forget_steps_after(str(path), 2)
    assert steps_of(tmp_path) == [1, 2]
    forget_steps_after(str(path), 0)
    assert path.read_bytes() == b""


def test_tensorboard_reads_the_figures(tmp_path: Path) -> None:
    progress = Progress(str(tmp_path), 0, 2)
    progress.write([(1, {"loss": 3.0, "learning_rate": 0.5})], 7)
    progress.close()
    (path,) = (tmp_path / TENSORBOARD).iterdir()
    found = {
        (event.step, value.tag): value.simple_value
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert found[1, "loss"] == 3.0
    assert found[1, "learning_rate"] == 0.5
    assert found[1, "tokens_per_second"] > 0


def test_the_last_step_is_always_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress(str(tmp_path), 0, 2)
    progress.write([(1, {"loss": 3.0})], 7)
    progress.write([(2, {"loss": 2.0})], 7)
    progress.close()
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].startswith("step 1/2  loss 3  tokens_per_second")
    assert shown[1].startswith("step 2/2  loss 2")
    assert shown[1].endswith("left 0:00:00")


def test_other_hosts_write_nothing(tmp_path: Path) -> None:
    progress = Progress(None, 0, 1)
    progress.write([(1, {"loss": 3.0})], 7)
    progress.flush()
    progress.close()
    assert list(tmp_path.iterdir()) == []
