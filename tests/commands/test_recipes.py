"""Tests of recipes/: each is read by run_pretraining.py, and tells where its
settings come from."""

from pathlib import Path

import pytest

from tests.conftest import GOLDEN, ROOT, fails_with

RECIPES = sorted((ROOT / "recipes").glob("*.flags"))


def test_there_are_recipes() -> None:
    assert [path.stem for path in RECIPES] == [
        "domain", "google_base", "roberta", "tiny_on_a_laptop",
    ]  # fmt: skip


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_flags_are_understood(path: Path, tmp_path: Path) -> None:
    assert path.read_text().startswith("# ")
    sentence = fails_with(
        "run_pretraining.py",
        f"--flagfile={path}",
        "--do_train",
        "--input_file=nothing.tfrecord",
        f"--init_checkpoint={GOLDEN / 'tiny_bert'}",
        f"--output_dir={tmp_path / 'out'}",
    )
    assert "nothing.tfrecord" in sentence
