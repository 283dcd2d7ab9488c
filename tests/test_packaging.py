"""setup.py names every command and package that the tree has, and no other."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
NOT_PACKAGED = {"demo", "setup"}


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What setup.py hands to setuptools."""
    seen: dict[str, Any] = {}
    monkeypatch.setitem(
        sys.modules, "setuptools", SimpleNamespace(setup=seen.update)
    )
    runpy.run_path(str(ROOT / "setup.py"))
    return seen


def test_modules_are_the_python_files_at_the_top(
    settings: dict[str, Any],
) -> None:
    files = {path.stem for path in ROOT.glob("*.py")}
    assert set(settings["py_modules"]) == files - NOT_PACKAGED


def test_packages_are_the_folders_with_an_init(
    settings: dict[str, Any],
) -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert set(settings["packages"]) == folders


def test_each_command_is_installed_under_its_own_name(
    settings: dict[str, Any],
) -> None:
    commands = {
        path.stem
        for path in ROOT.glob("*.py")
        if "def cli() -> None:" in path.read_text(encoding="utf-8")
    }
    assert set(settings["entry_points"]["console_scripts"]) == {
        f"{name} = {name}:cli" for name in commands - NOT_PACKAGED
    }


def test_changelog_ends_in_the_version_or_is_unreleased(
    settings: dict[str, Any],
) -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = next(x for x in text.splitlines() if x.startswith("## ["))
    assert first.startswith(("## [Unreleased]", f"## [{settings['version']}]"))
