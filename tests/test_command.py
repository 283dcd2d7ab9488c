"""Tests of command.py's file that appears whole or not at all."""

from pathlib import Path

import pytest

import command
from input_error import InputError


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.bin"
    with command.writing(str(path), "--output_file") as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    with (
        pytest.raises(RuntimeError),
        command.writing(str(path), "--output_file") as file,
    ):
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", ["", "file/x.bin"])
def test_where_nothing_can_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match="cannot write --pooled_file="),
        command.writing(str(tmp_path / place), "--pooled_file"),
    ):
        pass
