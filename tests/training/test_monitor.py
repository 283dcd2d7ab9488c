"""Tests of training/monitor.py."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import sys
import termios
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.training.distribution import Host
from bert_keras.training.monitor import (
    LOG,
    MAX_IN_A_ROW,
    TENSORBOARD,
    NonFiniteStepHandler,
    Progress,
    StopRequest,
    duration,
    forget_steps_after,
    write_settings_to_tensorboard,
)

BATCH = {
    "input_ids": np.array([[2, 3, 5], [7, 11, 13]]),
    "weights": tf.constant([[0.5], [0.25]]),
}
GOOD = {"loss": 1.0, "gradient_norm": 2.0, "learning_rate": 0.5}
BAD = {**GOOD, "gradient_norm": float("inf")}


def steps_of(folder: Path) -> list[int]:
    lines = (folder / LOG).read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def figures(loss: float) -> dict[str, float]:
    return {
        "loss": loss,
        "masked_lm_loss": loss,
        "masked_lm_accuracy": 0.25,
        "learning_rate": 0.5,
        "gradient_norm": 2.0,
    }


def test_a_log_goes_on_from_the_step_of_the_state(tmp_path: Path) -> None:
    progress = Progress(str(tmp_path), 0, 10)
    progress.write([(1, figures(3.0)), (2, figures(2.0))], 7)
    progress.write([(3, figures(1.0))], 7)
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


def events_of(folder: Path) -> dict[tuple[int, str], float]:
    """A run's scalars in TensorBoard, by step and tag."""
    return {
        (event.step, value.tag): value.simple_value
        for path in folder.iterdir()
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }


def test_tensorboard_draws_evaluations_over_training(tmp_path: Path) -> None:
    progress = Progress(str(tmp_path), 0, 2)
    progress.write([(1, figures(3.0))], 7)
    evaluation = {"eval_loss": 2.5, "eval_f1": 0.5, "loss": 9.0}
    progress.write_evaluation(1, evaluation, "sample")
    progress.close()
    found = events_of(tmp_path / TENSORBOARD / "train")
    assert found[1, "metrics/loss"] == 3.0
    assert found[1, "training/learning_rate"] == 0.5
    assert found[1, "training/tokens_per_second"] > 0
    found = events_of(tmp_path / TENSORBOARD / "eval")
    assert found[1, "metrics/loss"] == 2.5
    assert found[1, "metrics/f1"] == 0.5
    assert (1, "samples") in found


def test_the_line_of_an_evaluation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Short names, the loss over examples, and at most 100 columns."""
    progress = Progress(str(tmp_path), 0, 5)
    figures = {"loss": 2.0, "eval_loss": 2.5, "eval_accuracy": 0.75}
    progress.write_evaluation(4, figures, "")
    many = {f"figure_{i}": i / 4 for i in range(12)}
    progress.write_evaluation(5, many, "")
    progress.close()
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "eval at step 4:  acc 0.7500  loss 2.5000"
    assert len(others) == 3
    assert all(len(line) <= 100 for line in others)
    assert others[-1].endswith("  figure_9 2.2500")


def test_tensorboard_shows_the_settings(tmp_path: Path) -> None:
    write_settings_to_tensorboard(
        str(tmp_path), {"seed": 7, "input_file": ["a"], "bilstm": None}
    )
    (path,) = (tmp_path / TENSORBOARD / "train").iterdir()
    values = [
        value
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    ]
    (text,) = (value for value in values if value.tag == "settings")
    (table,) = tf.make_ndarray(text.tensor).ravel().tolist()
    assert b"|seed|7|\n|input_file|['a']|" in table
    assert any("hparams" in value.tag for value in values)


def test_a_line_shows_the_means_since_the_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress(str(tmp_path), 0, 2000)
    progress.write([(1, figures(9.0))], 7)  # compiled here
    progress.write([(2, figures(5.0)), (3, figures(2.0))], 7)
    progress.write([(2000, {**figures(2.0), "skipped_steps": 3})], 7)
    progress.close()
    compiling, first, last = capsys.readouterr().err.splitlines()
    assert compiling == "compiling the training step"
    assert first == "step 1/2,000 0%  loss 9  mlm_acc 0.25"
    assert re.fullmatch(
        r"step 2,000/2,000 100%  loss 3  mlm_acc 0.25  "
        r"[\d.e+]+k tok/s  0:00 left",
        last,
    )


def test_a_terminal_gets_a_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    with os.fdopen(side, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        progress = Progress(str(tmp_path), 0, 8)
        progress.write([(1, figures(3.0))], 7)
        progress.last_shown_at -= 10
        progress.write([(4, figures(2.0))], 7)
        with progress.paused():
            pass
        progress.close()
    shown = ""
    with contextlib.suppress(OSError):  # the end, where nobody writes to it
        while part := os.read(main, 10_000):
            shown += part.decode()
    os.close(main)
    assert "compiling the training step" in shown
    assert "| 1/8  loss 3  mlm_acc 0.25" in shown
    assert re.search(r" 50%\|█+ +\| 4/8  loss 2 .*k tok/s  \d:\d\d left", shown)
    assert all(len(x.strip()) <= 100 for x in re.split(r"[\r\n]", shown))


@pytest.mark.parametrize(
    ("seconds", "shown"), [(7.4, "0:07"), (725, "12:05"), (3600, "1:00:00")]
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_no_line_is_wider_than_100_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("masked_lm_loss", "next_sentence_loss", "next_sentence_accuracy")
    many = {**figures(10.123), **dict.fromkeys(names, 0.12345)}
    progress = Progress(str(tmp_path), 0, 1_000_000)
    progress.write([(1, {**many})], 7)
    progress.last_shown_at -= 10
    progress.write([(999_998, {**many, "skipped_steps": 17})], 12_345_678)
    progress.close()
    assert all(len(x) <= 100 for x in capsys.readouterr().err.splitlines())


def test_other_hosts_write_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    progress = Progress(None, 0, 1)
    progress.write([(1, figures(3.0))], 7)
    progress.flush()
    progress.close()
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr() == ("", "")


def look(
    nonfinite_steps: NonFiniteStepHandler,
    first: int,
    *figures: dict[str, float],
) -> None:
    steps = range(first, first + len(figures))
    batches = [BATCH] * len(figures)
    nonfinite_steps.check(steps, figures, batches, lambda _, batch: batch)


def test_a_bad_step_stops_and_leaves_its_batch(tmp_path: Path) -> None:
    nonfinite_steps = NonFiniteStepHandler(str(tmp_path), Host(0, 1), 0, False)
    with pytest.raises(InputError) as caught:
        look(nonfinite_steps, 16, {**GOOD}, {**BAD}, {**GOOD})
    path = tmp_path / "nonfinite-step-17-host-0.tfrecord"
    for part in ("norm inf at step 17", "rate of 0.5", str(path)):
        assert part in str(caught.value)
    rows = [
        tf.train.Example.FromString(record).features.feature
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]
    assert [list(r["input_ids"].int64_list.value) for r in rows] == [
        [2, 3, 5],
        [7, 11, 13],
    ]
    assert [list(r["weights"].float_list.value) for r in rows] == [
        [0.5],
        [0.25],
    ]
    line = json.loads((tmp_path / "nonfinite_steps.jsonl").read_text())
    assert (line["step"], line["gradient_norm"]) == (17, "inf")


def test_skipped_steps_are_counted_also_after_a_stop(tmp_path: Path) -> None:
    nonfinite_steps = NonFiniteStepHandler(str(tmp_path), Host(0, 1), 0, True)
    figures = [{**GOOD}, {**BAD}, {**GOOD}, {**BAD}]
    look(nonfinite_steps, 1, *figures)
    assert [f["skipped_steps"] for f in figures] == [0, 1, 1, 2]
    again = NonFiniteStepHandler(
        str(tmp_path), Host(0, 1), 3, True
    )  # step 4 is lost
    figures = [{**BAD}]
    look(again, 4, *figures)
    assert figures[0]["skipped_steps"] == 2


def test_a_row_goes_on_after_a_stop(tmp_path: Path) -> None:
    first = NonFiniteStepHandler(str(tmp_path), Host(0, 1), 0, True)
    look(first, 1, {**BAD}, {**GOOD}, *({**BAD} for _ in range(7)))
    again = NonFiniteStepHandler(
        str(tmp_path), Host(0, 1), 8, True
    )  # 3 to 8 are bad
    look(again, 9, *({**BAD} for _ in range(MAX_IN_A_ROW - 7)))
    with pytest.raises(InputError, match="in a row"):
        look(again, MAX_IN_A_ROW + 2, {**BAD})


def test_too_many_in_a_row_stop_the_run(tmp_path: Path) -> None:
    nonfinite_steps = NonFiniteStepHandler(str(tmp_path), Host(1, 2), 0, True)
    look(nonfinite_steps, 1, *({**BAD} for _ in range(MAX_IN_A_ROW - 1)))
    with pytest.raises(InputError, match="in a row"):
        look(nonfinite_steps, MAX_IN_A_ROW, {**BAD})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 10, "the other host's log is not its own"
    assert "nonfinite-step-10-host-1.tfrecord" in names


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 143),
        (signal.SIGINT, 130),
        (signal.SIGHUP, 129),
        (signal.SIGUSR1, 138),
    ],
)
def test_a_signal_is_obeyed_when_the_step_is_saved(
    number: signal.Signals, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.default_int_handler  # under nohup SIGHUP is ignored
    own = signal.signal(number, before)
    with pytest.raises(SystemExit) as caught, StopRequest() as request:
        assert request.number is None
        os.kill(os.getpid(), number)
        with pytest.raises(SystemExit):
            os.kill(os.getpid(), number)  # a second one is not noted
        request.exit_as_requested(17)
    assert caught.value.code == code
    assert f"{number.name} after step 17" in capsys.readouterr().err
    assert signal.signal(number, own) is before


def test_a_signal_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            assert request.number is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_that_nobody_saw_takes_effect_in_the_end() -> None:
    # One that is ignored from the start, as in the background, stays so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as caught, StopRequest():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught.value.code == 130


def test_other_names_of_a_log_stay_as_they_are(tmp_path: Path) -> None:
    """A link to somebody's file; a copy of a run made by hard links."""
    (tmp_path / "mine").write_text("notes\n")
    for name in ("linked", "copied", "nowhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "linked" / LOG).symlink_to(tmp_path / "mine")
    (tmp_path / "nowhere" / LOG).symlink_to(tmp_path / "new")
    Progress(str(tmp_path / "copied"), 0, 1).close()
    line = '{"step": 1}\n'
    (tmp_path / "copied" / LOG).write_text(line)
    os.link(tmp_path / "copied" / LOG, tmp_path / "copy")
    for name in ("linked", "copied", "nowhere"):
        progress = Progress(str(tmp_path / name), 1, 2)
        progress.write([(2, {"loss": 3.0})], 7)
        progress.close()
    assert (tmp_path / "mine").read_text() == "notes\n"
    assert (tmp_path / "copy").read_text() == line
    assert not (tmp_path / "new").exists()
    assert steps_of(tmp_path / "copied") == [1, 2]
