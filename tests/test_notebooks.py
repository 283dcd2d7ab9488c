"""The notebooks run from top to bottom, and teach what they say."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "tutorials"
# What the cells at the end show
SHOWN = {
    "classifier": ["1.0", "label='good'", "['bad', 'good']", "'bad'"],
    "own_text": ["(4, 16)", "'The sun rises in the east.'", "('bread', "],
}


def results(notebook: Any) -> list[str]:
    """What the cells evaluate to, as text."""
    return [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "execute_result"
    ]


def test_each_notebook_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == {*SHOWN}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert results(notebook) == []  # committed without, for readable changes
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / "jupyter"))
    folder = tmp_path / "reader"
    folder.mkdir()
    NotebookClient(
        notebook,
        timeout=300,  # seconds a cell, on a busy machine
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    shown = "\n".join(results(notebook))
    for text in SHOWN[name]:
        assert text in shown
