"""README and docs: their Python runs, and the files that they name exist."""

import ast
import importlib
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import bert_keras
from tests.conftest import GOLDEN, ROOT
from tests.exported_model import make_folder
from tests.web_server import measure

PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
]  # fmt: skip
ROOMS = "cli|data|modeling|tasks|tests|training|benchmarks|docs"


def python_blocks(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(rf"(?<![\w/.-])((?:{ROOMS})/[\w/]+\.(?:py|md))", text)
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_module_is_named_in_contributing() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = text.partition("## Every module")[2].partition("\n## ")[0]
    rooms = ("cli", "data", "modeling", "tasks", "training")
    modules = {
        path.name
        for room in rooms
        for path in (ROOT / room).rglob("*.py")
        if path.name != "__init__.py"
    }
    folders = {path.parent.name for path in (ROOT / "tasks").glob("*/*.py")}
    for name in (*modules, *(f"{folder}/" for folder in folders)):
        assert f"`{name}`" in listed, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_imports_is_there(page: Path) -> None:
    for block in python_blocks(page):
        for node in ast.walk(ast.parse(block)):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.split(".")[0] != "bert_keras":
                continue
            for alias in node.names:
                module = importlib.import_module(node.module)
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


def test_readme_answers_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(tmp_path / "model")
    (block,) = (
        block
        for block in python_blocks(ROOT / "README.md")
        if "bert_keras.load" in block
    )
    exec(block.replace("/tmp/mrpc_output", str(tmp_path / "model")), {})
    label, _, shown = capsys.readouterr().out.partition(" ")
    probabilities = ast.literal_eval(shown)
    assert label == max(probabilities, key=probabilities.get)
    assert sum(probabilities.values()) == pytest.approx(1, abs=1e-6)


def test_attention_page_reads_a_map(tmp_path: Path) -> None:
    make_folder(tmp_path / "model")
    (block,) = python_blocks(ROOT / "docs" / "attention.md")
    found = re.search(r'AttentionReader\("([^"]+)"', block)
    assert found
    exec(block.replace(found[1], str(tmp_path / "model")), {})


def test_the_web_server_answers_as_the_model(tmp_path: Path) -> None:
    make_folder(tmp_path / "model")
    texts = ["the sea", "an old captain saw the sea", "the storm"]
    latencies, _, wrong = measure(str(tmp_path / "model"), texts, 24, 8)
    assert (len(latencies), wrong) == (24, 0)


def test_python_page_trains_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From text to a tagger, with fewer steps and smaller sizes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    shutil.copy(GOLDEN / "tiny_corpus.txt", tmp_path / "corpus" / "a.txt")
    blocks = python_blocks(ROOT / "docs" / "python.md")
    names: dict[str, Any] = {"bert_keras": bert_keras}
    smaller = {
        "/tmp/pretraining_output": "bert",
        "/tmp/tf_examples.tfrecord": "records.tfrecord",
        "/tmp/": "",
        "30522": "300",
        "max_seq_length=128": "max_seq_length=32, dupe_factor=1",
        "10_000": "2",
        "num_warmup_steps=100": "num_warmup_steps=1, max_seq_length=32",
    }
    for word in (
        "build_vocabulary",
        "train_token_classifier",
        "record_dataset",
    ):
        (block,) = (x for x in blocks if f"bert_keras.{word}(" in x)
        for shown, tried in smaller.items():
            block = block.replace(shown, tried)
        exec(block, names)
    assert type(names["model"]).__name__ == "TokenClassificationPipeline"
    assert len(names["model"].history) == 6
    assert names["data"].element_spec["input_ids"].shape == (32, 32)
