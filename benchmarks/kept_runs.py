"""Commands whose results stay in a folder, so that none is run twice.

For benchmarks/ablations.py and distillation.py, which pre-train on most
documents of a text and evaluate on the rest, one_hour.py and
pretraining_pays.py.
"""

import hashlib
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
HELD_OUT_EVERY = 20  # each twentieth document is kept from training


class KeptRuns:
    """A folder and what commands of this repository leave in it."""

    def __init__(self, output_dir: str):
        self.folder = Path(output_dir).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, made: Path, script: str, *arguments: str) -> None:
        """Runs a command, unless what it makes is there, by the same one with
        the same configs and recipes."""
        command = shlex.join([script, *arguments])
        for path in (argument.partition("=")[2] for argument in arguments):
            if path.endswith((".json", ".flags")):
                digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
                command += f"\n{path} {digest[:16]}"
        log = self.folder / f"{made.parent.name}-{made.stem}.log"
        kept = log.with_suffix(".command")
        if made.exists():
            if kept.exists() and kept.read_text() != command:
                sys.exit(
                    f"{made} is of another command; expected\n{command}\n"
                    f"found\n{kept.read_text()}\ngive another --output_dir"
                )
            return
        kept.write_text(command)
        start = time.monotonic()
        with open(log, "w") as file:
            code = subprocess.run(
                [sys.executable, script, *arguments],
                cwd=ROOT,
                stdout=file,
                stderr=subprocess.STDOUT,
            ).returncode
        if code:
            sys.exit(f"exit code {code}, see {log}")
        took = time.monotonic() - start
        first = command.partition("\n")[0]
        print(f"{took:6.1f} s  {first}", file=sys.stderr)

    def split(self, text_file: str | Path) -> tuple[Path, Path]:
        """Files of the documents to train on, and of those held out."""
        paths = self.folder / "train.txt", self.folder / "held_out.txt"
        if not paths[1].exists():
            text = Path(text_file).read_text("utf-8")
            documents = [d.strip() for d in text.split("\n\n") if d.strip()]
            held_out = documents[::HELD_OUT_EVERY]
            kept = [d for i, d in enumerate(documents) if i % HELD_OUT_EVERY]
            for path, part in zip(paths, (kept, held_out), strict=True):
                path.write_text("\n\n".join(part) + "\n", "utf-8")
        return paths


def results(folder: Path) -> dict[str, float]:
    """The figures of a run's eval_results.txt."""
    lines = (folder / "eval_results.txt").read_text().splitlines()
    pairs = (line.split(" = ") for line in lines)
    return {key: float(value) for key, value in pairs}
