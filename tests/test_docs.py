"""README and docs: their code runs, their links and flags exist, and their
English is plain. tests/docs_code.py runs the longer code."""

import ast
import importlib
import re
import shutil
from pathlib import Path
from typing import Any

from bert_keras.cli.reference import COMMANDS, command_page

import pytest

import bert_keras
from tests.conftest import GOLDEN, ROOT
from tests.exported_model import make_folder
from tests.web_server import measure

PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]  # fmt: skip
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
FOR_READERS = [page for page in PAGES if page.name != "CONTRIBUTING.md"]
PACKAGES = "cli|data|modeling|tasks|tests|training|benchmarks|docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Flags of docker, pip, git, a TensorFlow server, Beam and the like.
OTHERS_FLAGS = {
    *("yes", "rm", "no", "local", "index", "flagfile", "help", "version"),
    *("logdir", "direct_running_mode", "project", "region", "temp_location"),
    *("sdk_container_image", "number_of_worker_harness_threads"),
}
# What to write instead of the English that a reader has to read twice.
BANNED = {
    r"\b(is|are|was|were) no (number|text|file|folder|token)": "is not a ...",
    r"\bbut for\b": "except",
    r"\b(one|people)'s own\b": "your own",
    r"\b(is|was|are|were|be) (there|at hand)\b": "exists, is available",
    r"\bto be had\b": "exists, is available",
    r"\b(goes|go|went|going) on (with|from|where|to|again)\b": "resumes",
    r"\b[Pp]ieces?\b": "token",
    r"\bthe same of\b": "a noun",
    r"\bis said\b": "the command says so",
    r"\breckoned\b": "estimated",
    r"\bNot (yet )?run\b(?!:)": "docs/explanation/testing.md",
    r"\b[0-9a-f]{7}\b(?<!\d{7})": "no commit in prose",
}


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    return [
        code for name, code in BLOCK.findall(read(page)) if name == language
    ]


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"`[^`]*`", "`", BLOCK.sub("", read(page)))


def anchors(page: Path) -> set[str]:
    """What a link to a heading says, as mkdocs makes it."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", read(page)), re.MULTILINE)
    kept = [re.sub(r"[^\w\s-]", "", name).strip().lower() for name in headings]
    return {re.sub(r"[-\s]+", "-", name) for name in kept}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(
        rf"(?<![\w/.-])((?:{PACKAGES})/[\w/]+\.(?:py|md))", read(page)
    )
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_messages_of_the_page_of_errors_are_printed() -> None:
    """Each part of a message, between dots and flags, is in the code."""
    packages = ("cli", "data", "modeling", "tasks", "training")
    sources = [
        *(
            path
            for package in packages
            for path in (ROOT / package).rglob("*.py")
        ),
        *(ROOT / "bert_keras").glob("*.py"),
    ]
    code = re.sub(r'"\s*f?"', "", "".join(map(read, sources)))  # one string
    table = read(ROOT / "docs" / "reference" / "errors.md")
    rows = re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)
    assert len(rows) > 10
    for row in rows:
        for part in re.split(r"\.\.\.|--\w+=?", row):
            assert part.strip(" ;,") in code, row


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", read(page))):
        path, _, anchor = link.partition("#")
        if link.startswith("https://"):
            continue
        target = (page.parent / path) if path else page
        if "reference/commands/" in target.as_posix() or path.startswith(
            "commands/"
        ):  # made by docs/hooks.py
            assert (ROOT / f"{target.stem}.py").exists(), link
        else:
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_menu() -> None:
    menu = read(ROOT / "mkdocs.yml").partition("\nnav:")[2]
    for page in (ROOT / "docs").rglob("*.md"):
        assert f" {page.relative_to(ROOT / 'docs').as_posix()}\n" in menu


def test_every_module_is_named_in_contributing() -> None:
    text = read(ROOT / "CONTRIBUTING.md")
    listed = text.partition("## Every module")[2].partition("\n## ")[0]
    packages = ("cli", "data", "modeling", "tasks", "training")
    modules = {
        path.name
        for package in packages
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    folders = {path.parent.name for path in (ROOT / "tasks").glob("*/*.py")}
    for name in (*modules, *(f"{folder}/" for folder in folders)):
        assert f"`{name}`" in listed, name


def flags_of(command: str) -> set[str]:
    table = importlib.import_module(f"bert_keras.commands.{command}").FLAGS
    return {*table, *(flag.alias for flag in table.table if flag.alias)}


@pytest.fixture(scope="module")
def flags() -> dict[str, set[str]]:
    return {name: flags_of(name) for name in COMMANDS}


def test_the_reference_has_every_flag(flags: dict[str, set[str]]) -> None:
    for name in COMMANDS:
        page = command_page(name)
        table = importlib.import_module(f"bert_keras.commands.{name}").FLAGS
        for flag in table.table:
            assert re.search(rf"^\| `--(\[no\])?{flag.name}` ", page, re.M)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_flags_that_a_page_names_exist(
    page: Path, flags: dict[str, set[str]]
) -> None:
    known = OTHERS_FLAGS.union(*flags.values())
    for script in (ROOT / "benchmarks").rglob("*.py"):
        known |= set(re.findall(r'"--(\w+)"', read(script)))
    named = set(re.findall(r"(?<![\w-])--([a-z]\w+)", read(page)))
    assert {n for n in named if n not in known and n[2:] not in known} == set()


@pytest.mark.parametrize("page", FOR_READERS, ids=lambda page: page.name)
def test_english_is_plain(page: Path) -> None:
    text = prose(page)
    found = {
        match[0]: advice
        for pattern, advice in BANNED.items()
        for match in re.finditer(pattern, text)
    }
    assert found == {}


def test_readme_is_short() -> None:
    assert len(read(ROOT / "README.md").splitlines()) <= 180


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_what_a_page_imports_is_there(page: Path) -> None:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.split(".")[0] != "bert_keras":
                continue
            for alias in node.names:
                module = importlib.import_module(node.module)
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


def test_attention_page_reads_a_map(tmp_path: Path) -> None:
    make_folder(tmp_path / "model")
    page = ROOT / "docs" / "tutorials" / "look_inside.md"
    (block,) = blocks(page, "python")
    exec(block.replace("packages", str(tmp_path / "model")), {})


@pytest.mark.slow
def test_the_web_server_answers_as_the_model(tmp_path: Path) -> None:
    make_folder(tmp_path / "model")
    texts = ["the sea", "an old captain saw the sea", "the storm"]
    latencies, _, wrong = measure(str(tmp_path / "model"), texts, 24, 8)
    assert (len(latencies), wrong) == (24, 0)


@pytest.mark.slow
def test_python_page_trains_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From text to a tagger, with fewer steps and smaller sizes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    shutil.copy(GOLDEN / "tiny_corpus.txt", tmp_path / "corpus" / "a.txt")
    code = blocks(ROOT / "docs" / "python.md", "python")
    names: dict[str, Any] = {"bert_keras": bert_keras}
    smaller = {
        "/tmp/pretraining_output": "bert",
        "/tmp/tf_examples.tfrecord": "records.tfrecord",
        "/tmp/": "",
        "30522": "300",
        "max_seq_length=128": "max_seq_length=32, dupe_factor=1",
        "10_000": "2",
        "num_warmup_steps=1_000": "num_warmup_steps=1, max_seq_length=32",
    }
    for word in (
        "build_vocabulary",
        "train_token_classifier",
        "record_dataset",
    ):
        (block,) = (x for x in code if f"bert_keras.{word}(" in x)
        for shown, tried in smaller.items():
            block = block.replace(shown, tried)
        exec(block, names)
    assert type(names["model"]).__name__ == "TokenClassificationPipeline"
    assert len(names["model"].history) == 6
    assert names["data"].element_spec["input_ids"].shape == (32, 32)
