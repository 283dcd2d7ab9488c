"""Counts the code: lines and functions, and the modules that a command imports.

    git worktree add --detach /tmp/before COMMIT
    python benchmarks/count_code.py --trees=/tmp/before,.

Each command does its work on a tiny model (tests/command_world.py); counted are
the project's own modules that it has then imported, workers left out, and their
lines.
"""

import argparse
import ast
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TESTS = ("tests", "benchmarks")
COMMANDS = ("create_pretraining_data", "run_pretraining", "run_classifier")
# Runs a script, then writes the files of the modules that it has imported.
RUN = """
import atexit, json, os, runpy, sys
tree, listed, script, *sys.argv[1:] = sys.argv[1:]
sys.argv[0] = script
sys.path[0] = tree

def write():
    files = {os.path.realpath(m.__file__) for m in list(sys.modules.values())
             if getattr(m, "__file__", None)}
    files.add(os.path.realpath(script))
    inside = os.path.realpath(tree) + os.sep
    with open(listed, "w") as file:
        json.dump([f for f in files if f.startswith(inside)
                   and "/.venv/" not in f], file)

atexit.register(write)
runpy.run_path(script, run_name="__main__")
"""


def python_files(tree: Path) -> list[Path]:
    """The files that git knows; links are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    paths = [tree / name for name in listed]
    return [path for path in paths if path.exists() and not path.is_symlink()]


def size(paths: list[Path]) -> dict[str, int]:
    texts = [path.read_text(encoding="utf-8") for path in paths]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {
        "modules": sum(bool(text) for text in texts),
        "lines": sum(text.count("\n") for text in texts),
        "functions": sum(isinstance(node, kinds) for node in nodes),
        "classes": sum(isinstance(node, ast.ClassDef) for node in nodes),
    }


def imported(tree: Path, commands: tuple[str, ...]) -> dict[str, list[Path]]:
    """By command, the files of the tree that it imports."""
    place = importlib.util.spec_from_file_location(
        "command_world", tree / "tests" / "command_world.py"
    )
    assert place and place.loader
    world: Any = importlib.util.module_from_spec(place)
    place.loader.exec_module(world)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        world.make_world(Path(folder))
        for command in (*commands, "predict"):
            arguments = world.arguments(command)
            if command == "predict":  # of what run_classifier has trained
                arguments = [
                    "--model_dir=out/run_classifier",
                    "--input_file=lines.txt",
                ]
            arguments = [
                argument.replace("out/run", f"out/{command}").replace(
                    "some.tfrecord", "out/made.tfrecord"
                )
                if command != "predict"
                else argument
                for argument in arguments
            ]
            listed = Path(folder, f"{command}.json")
            words = [str(tree), str(listed), str(tree / f"{command}.py")]
            done = subprocess.run(
                [sys.executable, "-c", RUN, *words, *arguments],
                cwd=folder,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
            )
            if done.returncode:
                sys.exit(f"{command} failed:\n{done.stderr}")
            names = json.loads(listed.read_text())
            modules = [Path(name) for name in names]
            found[command] = [path for path in modules if path.stat().st_size]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", default=str(ROOT))
    names = parser.parse_args().trees.split(",")
    for tree in (Path(name).resolve() for name in names):
        print(tree)
        files = python_files(tree)
        groups = {
            name: [p for p in files if p.relative_to(tree).parts[0] == name]
            for name in TESTS
        }
        others = [p for p in files if p.relative_to(tree).parts[0] not in TESTS]
        for name, paths in {"source": others, **groups}.items():
            numbers = ", ".join(f"{x:,} {n}" for n, x in size(paths).items())
            print(f"  {name}: {numbers}")
        for command, paths in imported(tree, COMMANDS).items():
            total = size(paths)
            print(
                f"  {command} imports {total['modules']} modules, "
                f"{total['lines']:,} lines"
            )


if __name__ == "__main__":
    main()
