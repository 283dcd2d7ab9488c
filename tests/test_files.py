"""Tests of bert_keras/files.py: what is written appears whole or not at all."""

from pathlib import Path

import pytest

from bert_keras import files
from bert_keras.errors import InputError


def test_a_file_or_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    with files.atomic(str(tmp_path / "folder")) as folder:
        Path(folder).mkdir()
        assert not (tmp_path / "folder").exists()
    with files.atomic(str(tmp_path / "file")) as file:
        Path(file).write_text("new")
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "file"}


def test_what_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match="stop"):  # noqa: SIM117
        with files.atomic(str(tmp_path / "file"), overwrite=True) as file:
            Path(file).write_text("new")
            raise OSError("stop")
    assert (tmp_path / "file").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_removing_a_folder_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    for name in ("gone", "link", "not there"):
        files.remove(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept" / "file").exists()


@pytest.mark.parametrize("text", ["", "{", "3", "\xff"])
def test_damaged_json_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"file\.json is not .* give another"):
        files.read_json(str(path), "give another")
