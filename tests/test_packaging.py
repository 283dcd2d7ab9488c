"""What setup.py installs: one name, every folder and every command."""

import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import ROOT

COMMANDS = {
    path.stem
    for path in ROOT.glob("*.py")
    if "cli = command.Command(" in path.read_text(encoding="utf-8")
}


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What setup.py hands to setuptools."""
    import setuptools

    seen: dict[str, Any] = {}
    stand_in = ModuleType("setuptools")
    stand_in.__dict__.update(
        setup=seen.update, find_packages=setuptools.find_packages
    )
    monkeypatch.setitem(sys.modules, "setuptools", stand_in)
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    return seen


def test_packages_are_the_folders_with_an_init(
    settings: dict[str, Any],
) -> None:
    rooms = {
        ".".join(["bert_keras", *path.parent.relative_to(ROOT).parts])
        for room in ("cli", "data", "modeling", "tasks", "training")
        for path in (ROOT / room).rglob("__init__.py")
    }
    own = {"bert_keras", "bert_keras.commands"}
    assert set(settings["packages"]) == rooms | own
    assert "py_modules" not in settings


def test_each_command_is_linked_and_installed_under_its_own_name(
    settings: dict[str, Any],
) -> None:
    links = {
        path.stem: path.resolve()
        for path in (ROOT / "bert_keras" / "commands").glob("[!_]*.py")
    }
    assert links == {name: ROOT / f"{name}.py" for name in COMMANDS}
    assert set(settings["entry_points"]["console_scripts"]) == {
        f"{name} = bert_keras.commands.{name}:cli" for name in COMMANDS
    }


def test_folders_are_linked_where_python_finds_them() -> None:
    for room in ("cli", "data", "modeling", "tasks", "training"):
        assert Path(ROOT, "bert_keras", room).resolve() == ROOT / room


def test_changelog_ends_in_the_version_or_is_unreleased(
    settings: dict[str, Any],
) -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = next(x for x in text.splitlines() if x.startswith("## ["))
    assert first.startswith(("## [Unreleased]", f"## [{settings['version']}]"))
