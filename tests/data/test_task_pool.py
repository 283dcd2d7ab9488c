"""Tasks for several processes, in a folder that a later run resumes."""

import json
import os
from pathlib import Path

import pytest

from bert_keras.data import task_pool
from bert_keras.data.instances import Summary
from bert_keras.errors import InputError


def test_one_process_at_a_time(tmp_path: Path) -> None:
    folder = str(tmp_path / "work")
    with (
        task_pool.open_or_resume(folder, {"seed": 1}) as is_left,
        pytest.raises(InputError, match="another process is working in"),
        task_pool.open_or_resume(folder, {"seed": 1}),
    ):
        assert is_left
    (tmp_path / "work" / "span-0.json").touch()
    (tmp_path / "work" / "settings.json").unlink()  # half deleted
    with task_pool.open_or_resume(folder, {"seed": 2}):
        assert not (tmp_path / "work" / "span-0.json").exists()
    with (
        pytest.raises(InputError, match="with other `seed`; delete the folder"),
        task_pool.open_or_resume(folder, {"seed": 1}),
    ):
        pass
    task_pool.finish(folder, {})
    with task_pool.open_or_resume(folder, {"seed": 2}) as is_left:
        assert not is_left


def test_what_an_earlier_version_made_is_not_called_the_same(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "settings.json").write_text('{"input_file": [["a", 3, 7]]}')
    settings = {"input_file's contents": [["3 bytes", None]]}
    with (
        pytest.raises(InputError, match="by an earlier version"),
        task_pool.open_or_resume(str(folder), settings),
    ):
        pass


def count(text: str) -> Summary:
    return Summary(num_documents=1, num_pieces=len(text))


def fail(text: str) -> Summary:
    raise AssertionError(f"{text} was counted before")


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    texts = [("the",), ("old ship",)]
    prepared = []
    with task_pool.Workers(
        str(tmp_path), 1, lambda: prepared.append(1)
    ) as workers:
        assert workers.run("text", count, texts) == Summary(2, num_pieces=11)
        assert workers.run("text", fail, texts) == Summary(2, num_pieces=11)
        assert workers.num_skipped == 2
    assert prepared == [1]
    assert sorted(os.listdir(tmp_path)) == ["text-0.json", "text-1.json"]
    (tmp_path / "text-1.json").write_text(json.dumps({"documents": 1}))
    with (
        pytest.raises(InputError, match="made by an earlier version"),
        task_pool.Workers(str(tmp_path), 1, lambda: None) as workers,
    ):
        workers.run("text", fail, texts)
