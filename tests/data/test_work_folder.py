"""Tests of data/work_folder.py."""

from pathlib import Path

import pytest

from bert_keras.data import work_folder
from bert_keras.errors import InputError


def test_one_process_at_a_time(tmp_path: Path) -> None:
    folder = str(tmp_path / "work")
    with (
        work_folder.open_or_resume(folder, {"seed": 1}) as is_left,
        pytest.raises(InputError, match="another process is working in"),
        work_folder.open_or_resume(folder, {"seed": 1}),
    ):
        assert is_left
    (tmp_path / "work" / "span-0.json").touch()
    with work_folder.open_or_resume(folder, {"seed": 1}) as is_left:
        assert is_left and (tmp_path / "work" / "span-0.json").exists()
    (tmp_path / "work" / "settings.json").unlink()  # half deleted
    with work_folder.open_or_resume(folder, {"seed": 2}):
        assert not (tmp_path / "work" / "span-0.json").exists()
    with (
        pytest.raises(InputError, match="with other `seed`; delete the folder"),
        work_folder.open_or_resume(folder, {"seed": 1}),
    ):
        pass
    work_folder.finish(folder, {})
    with work_folder.open_or_resume(folder, {"seed": 2}) as is_left:
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
        work_folder.open_or_resume(str(folder), settings),
    ):
        pass


def test_a_folder_of_others_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "span-thesis").touch()
    link = tmp_path / ".x.making"
    link.symlink_to(tmp_path / "mine")
    with (
        pytest.raises(InputError, match=r"\.x\.making is a link"),
        work_folder.open_or_resume(str(link), {}),
    ):
        pass
    work_folder.discard(str(link))
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [
        "span-thesis"
    ]
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "thesis").touch()
    with work_folder.open_or_resume(str(folder), {}):
        pass
    assert (folder / "thesis").exists()
