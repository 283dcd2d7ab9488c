"""Tests of show_attention.py."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import GOLDEN, fails_with, forked


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    shutil.copytree(GOLDEN / "tiny_bert", path, dirs_exist_ok=True)
    shutil.copy(GOLDEN / "tiny_vocab.txt", path / "vocab.txt")
    return path


def test_a_page(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "map.html"
    output = forked(
        "show_attention.py",
        f"--model_dir={folder}",
        "--text=the sea",
        "--text_pair=the captain saw the sea",
        "--max_seq_length=7",
        f"--output_file={page}",
    )
    assert f"written: {page}" in output
    assert '"[CLS]"' in page.read_text()


def test_refusals(folder: Path, tmp_path: Path) -> None:
    flags = [f"--model_dir={folder}", "--text=the sea"]
    for more, expected in (
        (["--output_file=map.svg"], "ends in neither .html nor .png"),
        (["--output_file=map.html", "--head=1"], "--head is for a .png"),
        (
            [f"--output_file={tmp_path}/map.png", "--layer=3"],
            "the model has no layer 3; expected 0 to 2, or -3 to -1",
        ),
        (
            [f"--output_file={tmp_path}/map.html", "--text= "],
            "nothing readable in --text",
        ),
    ):
        assert expected in fails_with("show_attention.py", *flags, *more)
    assert not list(tmp_path.iterdir())
