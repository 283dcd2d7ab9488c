"""Tests of data/task_pool.py: tasks for several processes."""

import errno
import functools
import gc
import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import synchronize
from pathlib import Path

import pytest

from bert_keras.data import task_pool
from bert_keras.data.instances import Summary
from bert_keras.errors import InputError
from tests.conftest import ROOT


def count(text: str) -> Summary:
    return Summary(num_documents=1, num_pieces=len(text))


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="PYTHONSAFEPATH is of Python 3.11"
)
def test_new_processes_run_nothing_of_the_working_directory(
    tmp_path: Path,
) -> None:
    work = tmp_path / "here"
    work.mkdir()
    (work / "multiprocessing.py").write_text("open('imported', 'w')")
    # The task fails: its error comes back, and no result is written, for which
    # TensorFlow would be imported.
    code = tmp_path / "code"
    code.mkdir()
    (code / "tasks_of_test.py").write_text(
        "def count(text):\n    raise ValueError(f'asked of {text}')\n"
    )
    program = (
        "from bert_keras.data import task_pool\n"
        "from tasks_of_test import count\n"
        f"with task_pool.Workers({str(tmp_path)!r}, 2, dict) as workers:\n"
        "    workers.run('text', count, [('the',), ('sea',)])"
    )
    path = tmp_path / "program.py"
    path.write_text(program)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{code}"}
    done = subprocess.run(
        [sys.executable, path],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "ValueError: asked of " in done.stderr, done.stderr
    assert "_RemoteTraceback" in done.stderr  # it ran in another process
    assert os.listdir(work) == ["multiprocessing.py"]


def fail(text: str) -> Summary:
    raise AssertionError(f"{text} was counted before")


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    texts = [("the",), ("old ship",)]
    prepared: list[int] = []
    with task_pool.Workers(
        str(tmp_path), 1, lambda: prepared.append(1)
    ) as workers:
        assert workers.run("text", count, texts) == Summary(2, num_pieces=11)
        assert workers.run("text", fail, texts) == Summary(2, num_pieces=11)
        assert workers.num_skipped == 2
    assert prepared == []  # it is for new processes
    assert sorted(os.listdir(tmp_path)) == ["text-0.json", "text-1.json"]
    (tmp_path / "text-1.json").write_text(json.dumps({"documents": 1}))
    with (
        pytest.raises(InputError, match="made by an earlier version"),
        task_pool.Workers(str(tmp_path), 1, lambda: None) as workers,
    ):
        workers.run("text", fail, texts)


def killed(folder: str, is_last: bool) -> Summary:
    """The last one ends its process when the others are finished."""
    if is_last:
        while len(os.listdir(folder)) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    return Summary(num_documents=1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_what_is_finished_stays_when_a_process_is_killed(
    tmp_path: Path,
) -> None:
    tasks = [(str(tmp_path), is_last) for is_last in (False, False, True)]
    with (
        task_pool.Workers(str(tmp_path), 2, gc.enable) as workers,
        pytest.raises(InputError, match="a worker process was killed"),
    ):
        workers.run("text", killed, tasks)
    assert sorted(os.listdir(tmp_path)) == ["text-0.json", "text-1.json"]
    with task_pool.Workers(str(tmp_path), 1, gc.enable) as workers:
        tasks[2] = (str(tmp_path), False)
        assert workers.run("text", killed, tasks).num_documents == 3
        assert workers.num_skipped == 2


def test_without_semaphores_one_process_works(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(synchronize.SemLock, "__init__", refuse)
    prepared: list[int] = []
    with task_pool.Workers(
        str(tmp_path), 2, functools.partial(prepared.append, 1)
    ) as workers:
        assert workers.run("text", count, [("the",)] * 2).num_pieces == 6
    assert prepared == []  # it is for new processes
    assert "writable (Read-only file system)" in capsys.readouterr().err


TASKS = """
import os, time

def prepare():
    pass

def task(folder):
    open(f"{folder}/{os.getpid()}", "w")
    time.sleep(60)
"""
# Without `if __name__ == "__main__"`: a process does not run it again.
INTERRUPTED = """
import signal, sys
import tasks_of_test
from bert_keras.data import task_pool

signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup ignores it
with task_pool.Workers(sys.argv[1], 2, tasks_of_test.prepare) as workers:
    workers.run("text", tasks_of_test.task, [(sys.argv[2],)] * 2)
"""


def begin(tmp_path: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A program whose two workers are at work, and their process ids."""
    (tmp_path / "script.py").write_text(INTERRUPTED)
    (tmp_path / "tasks_of_test.py").write_text(TASKS)
    begun = tmp_path / "begun"
    begun.mkdir()
    process = subprocess.Popen(
        [sys.executable, "script.py", ".", "begun"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while len(os.listdir(begun)) < 2:
        assert process.poll() is None
        time.sleep(0.1)
    return process, [int(name) for name in os.listdir(begun)]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    process, workers = begin(tmp_path)
    process.kill()
    process.communicate(timeout=30)  # ends when no worker holds stderr
    for worker in workers:
        assert not os.path.exists(f"/proc/{worker}/exe")


@pytest.mark.skipif(sys.platform == "win32", reason="no process groups")
def test_ctrl_c_ends_all_processes_and_only_the_first_says_so(
    tmp_path: Path,
) -> None:
    process, workers = begin(tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert errors.count(b"Traceback") == 1, errors
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
