"""An environment for each peer: made once, with what its script imports."""

import dataclasses
import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Environment:
    modules: tuple[str, ...]  # that must be found in it
    packages: tuple[str, ...]  # for pip
    alone: tuple[str, ...] = ()  # for pip as well, without what they require
    needs_python37: bool = False


ENVIRONMENTS = {
    "transformers": Environment(
        ("torch", "transformers", "safetensors", "scipy"),
        ("torch==2.13.0", "transformers==5.23.0", "safetensors", "scipy"),
    ),
    "transformers_current": Environment(  # folder_parity.py's
        ("torch", "transformers", "safetensors"),
        ("torch==2.13.0", "transformers==5.24.0", "safetensors"),
    ),
    "transformers_jobs": Environment(  # five_jobs.py's
        ("torch", "transformers", "datasets", "accelerate"),
        (
            "torch==2.13.0",
            "transformers==5.24.0",
            "datasets",
            "accelerate",
            "safetensors",
        ),
    ),
    "keras_hub": Environment(
        ("tensorflow", "keras_hub", "safetensors"),
        (
            "tensorflow-cpu==2.21.0",
            "keras==3.15.1",
            "keras-hub==0.32.0",
            "safetensors",
        ),
    ),
    "model_garden": Environment(
        ("tensorflow", "tf_keras", "official"),
        (
            "tensorflow-cpu==2.20.0",
            "tf-keras==2.20.1",
            "tf-models-official==2.20.0",
        ),
    ),
    "original": Environment(
        ("tensorflow", "bert"),
        ("tensorflow==1.15.5", "numpy<1.19", "protobuf<3.21", "six"),
        ("bert-tensorflow==1.0.4",),
        needs_python37=True,
    ),
}


def python_of(peer: str, env_dir: Path, python37: str | None) -> str:
    """The peer's interpreter, after making its environment if need be.

    Args:
        env_dir: the environments, or links to them, by the peers' names.
        python37: for the original; None: looked for.
    """
    wanted, folder = ENVIRONMENTS[peer], env_dir / peer
    python = folder / "bin" / "python"
    if _has(python, wanted):
        return str(python)
    if folder.is_symlink():  # somebody else's
        sys.exit(_missing(folder, wanted))
    base = sys.executable
    if wanted.needs_python37:
        base = python37 or _find_python37()
    print(f"making {folder}", file=sys.stderr)
    _run(base, "-m", "venv", str(folder))
    pip = (str(python), "-m", "pip", "install", "--quiet")
    _run(*pip, *wanted.packages)
    if wanted.alone:
        _run(*pip, "--no-deps", *wanted.alone)
    if not _has(python, wanted):
        sys.exit(_missing(folder, wanted))
    return str(python)


def _missing(folder: Path, wanted: Environment) -> str:
    packages = ", ".join(wanted.packages + wanted.alone)
    return f"{folder} lacks one of {packages}"


def _has(python: Path, wanted: Environment) -> bool:
    """Whether all modules and versions are there; none is imported."""
    for package in wanted.packages + wanted.alone:
        name, _, version = package.replace("-", "_").partition("==")
        installed = f"lib/python3*/site-packages/{name}-{version}"
        if version and not any(
            glob.glob(str(python.parent.parent / installed) + end)
            for end in (".dist-info", "+*.dist-info")  # such as +cpu
        ):
            return False
    code = (
        "import sys; from importlib.util import find_spec; "
        "sys.exit(not all(map(find_spec, sys.argv[1:])))"
    )
    return (
        python.exists()
        and not subprocess.run([python, "-c", code, *wanted.modules]).returncode
    )


def _find_python37() -> str:
    home = os.path.expanduser("~/.pyenv/versions/3.7.*/bin/python")
    for python in (*glob.glob(home), shutil.which("python3.7")):
        if python and not subprocess.run([python, "-c", ""]).returncode:
            return python
    sys.exit("found no Python 3.7 for the original; give --python37")


def _run(*arguments: str) -> None:
    done = subprocess.run(arguments, stdout=sys.stderr)
    if done.returncode:
        sys.exit(f"exit code {done.returncode}: {' '.join(arguments)}")
