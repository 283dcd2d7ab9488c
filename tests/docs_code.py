"""Runs the code of README.md and the tutorials, block by block, as a reader
would: `make docs-test`. Takes the demo_output/ that is there, if any."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_docs import BLOCK, read

TUTORIALS = ("first_bert", "own_text", "classifier", "look_inside", "squad")
# Installing, a server that never ends, and hours of training.
NOT_RUN = ("pip install", "tensorboard", "squad_full")
PARAGRAPH = "The museum opened in {} beside the river."
NUM_QUESTIONS = 20  # about a paragraph: together more than a batch


def squad(num_articles: int) -> str:
    """Questions in SQuAD's form, in place of the files that a reader gets."""
    articles = []
    for i in range(num_articles):
        year = str(1881 + i)
        answer = {"text": year, "answer_start": PARAGRAPH.index("{}")}
        questions = [
            {
                "id": f"{year}-{j}",
                "question": "When did the museum open?",
                "answers": [answer],
            }
            for j in range(NUM_QUESTIONS)
        ]
        text = PARAGRAPH.format(year)
        paragraph = {"context": text, "qas": questions}
        articles.append({"title": year, "paragraphs": [paragraph]})
    return json.dumps({"version": "1.1", "data": articles})


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.check_output(command, cwd=ROOT, text=True)
    for name in listed.splitlines():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    if (ROOT / "demo_output").exists():
        shutil.copytree(ROOT / "demo_output", folder / "demo_output")
    for name, number in (("train", 7), ("dev", 4)):
        (folder / f"{name}-v1.1.json").write_text(squad(number))
    return folder


def run_page(page: Path, folder: Path) -> None:
    environment = os.environ | {
        "BERT": "my_bert",  # that of own_text.md
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
    }
    for language, code in BLOCK.findall(read(page)):
        if any(words in code for words in NOT_RUN):
            continue
        code = code.replace("make demo", "python demo.py")
        code = code.replace(".venv/bin/python", "python")
        words = {
            "shell": ["bash", "-euo", "pipefail", "-c", code],
            "python": [sys.executable, "-c", code],
        }.get(language)
        if words:
            print(code, flush=True)
            subprocess.run(words, cwd=folder, env=environment, check=True)


@pytest.mark.parametrize("name", TUTORIALS)
def test_tutorial(name: str, clone: Path) -> None:
    run_page(ROOT / "docs" / "tutorials" / f"{name}.md", clone)


def test_readme(clone: Path) -> None:
    """After the tutorials, whose files it uses."""
    for name in ("packages", "packages_shell"):
        shutil.rmtree(clone / name)
    run_page(ROOT / "README.md", clone)
