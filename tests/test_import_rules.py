"""The arrows between the packages, and what takes long to import.

commands -> cli, tasks, training, data, modeling; cli and tasks -> training,
data, modeling. Training, data and modeling do not import one another. All may
import files, locks, errors and checkpoint_index.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.conftest import ROOT

GROUND = {
    "bert_keras.errors",
    "bert_keras.files",
    "bert_keras.locks",
    "bert_keras.checkpoint_index",
}
MAY_IMPORT = {
    "data": {"data"},
    "modeling": {"modeling"},
    "training": {"training"},
    "tasks": {"tasks", "training", "data", "modeling"},
    "cli": {"cli", "tasks", "training", "data", "modeling"},
}
COMMANDS = sorted((ROOT / "bert_keras" / "commands").glob("[!_]*.py"))


def package_files() -> Iterator[tuple[str, Path]]:
    for package in MAY_IMPORT:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield package, path


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yields what each import names: a.b for `from a import b`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def is_ground(name: str) -> bool:
    if name == "bert_keras.__version__":
        return True
    return any(f"{name}.".startswith(f"{ground}.") for ground in GROUND)


def test_rooms_import_only_what_the_arrows_allow() -> None:
    broken = []
    for package, path in package_files():
        for name in imported(ast.walk(tree(path))):
            words = name.split(".")
            if words[0] == "bert_keras" and not is_ground(name):
                if words[1] not in MAY_IMPORT[package]:
                    broken.append(f"{path} imports {name}")
            elif name.startswith("absl.flags") and package != "cli":
                broken.append(f"{path} reads flags")
            elif words[0] == "keras" and package == "data":
                broken.append(f"{path} imports keras")
    assert broken == []


def test_ground_imports_no_room() -> None:
    for name in GROUND:
        path = ROOT / f"{name.replace('.', '/')}.py"
        for target in imported(ast.walk(tree(path))):
            assert not target.startswith("bert_keras") or is_ground(target)


def test_commands_import_no_other_command() -> None:
    assert COMMANDS
    for path in COMMANDS:
        for name in imported(ast.walk(tree(path))):
            assert not name.startswith("bert_keras.commands"), path


def test_what_takes_long_is_imported_where_it_is_used() -> None:
    """--help has to be quick."""
    slow = {"matplotlib", "scipy", "sklearn"}
    for path in [*COMMANDS, *(path for _, path in package_files())]:
        names = [name.split(".") for name in imported(tree(path).body)]
        tops = {words[0] for words in names}
        assert not tops & slow, path
        if path in COMMANDS:
            assert not tops & {"tensorflow", "keras", "jax"}, path
            packages = {words[1] for words in names if words[0] == "bert_keras"}
            assert "modeling" not in packages, path
