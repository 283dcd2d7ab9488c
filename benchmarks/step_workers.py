"""The processes that steps.py measures, one for each side of a comparison.

peers/worker.py is their other end.
"""

import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

# Relative. A loss of random weights is near ln V whatever they are, and so has
# to agree better than the outputs. Only fp32 shows a bias in the wrong place;
# for bf16 the same weights are loaded in the same way.
MAX_OUTPUT_DIFFERENCE = {"fp32": 1e-4, "bf16": 5e-2}
MAX_LOSS_DIFFERENCE = {"fp32": 1e-5, "bf16": 5e-4}


class WorkerError(Exception):
    """A side does not run, or does not do the same work."""


class Worker:
    """A side, loaded and warm; it works only when it is asked to."""

    def __init__(
        self, python: str, script: Path, job: dict[str, Any], path: Path
    ):
        """Starts it and waits until it is warm.

        Args:
            job: what peers/worker.py reads, but for `outputs`.
            path: of its files, without an ending: .json, .npz, .log.
        """
        self.outputs = path.with_suffix(".npz")
        self.log = path.with_suffix(".log")
        self.outputs.unlink(missing_ok=True)
        request = path.with_suffix(".json")
        request.write_text(json.dumps({**job, "outputs": str(self.outputs)}))
        with open(self.log, "w") as errors:
            self.process = subprocess.Popen(
                [python, str(script), str(request)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.last_loss: float | None = None
        self._answer()

    def measure(self) -> float:
        """Milliseconds of a step, over one unit of work."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):  # it has no answer then
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        answer = self._answer()
        self.last_loss = answer["loss"]
        return float(answer["milliseconds"])

    @property
    def has_ended(self) -> bool:
        return self.process.returncode is not None

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.close()
            raise WorkerError(f"it stopped: see {self.log}")
        return dict(json.loads(line))

    def check(self, other: "Worker", precision: str) -> float:
        """Compares what both gave before the first step; returns by how much
        they differ, and makes sure that training has made the loss smaller."""
        with np.load(self.outputs) as mine, np.load(other.outputs) as theirs:
            differences = [
                np.linalg.norm(mine[name] - theirs[name])
                / np.linalg.norm(mine[name])
                for name in mine.files
            ]
            difference = float(np.max(differences))
            trains = "loss" in mine.files
            loss = float(mine["loss"]) if trains else 0.0
        limits = MAX_LOSS_DIFFERENCE if trains else MAX_OUTPUT_DIFFERENCE
        if not difference <= limits[precision]:
            raise WorkerError(f"its outputs differ by {difference:.1e}")
        for side, name in (self, "this project's"), (other, "its"):
            if trains and not (side.last_loss or loss) < loss:
                raise WorkerError(
                    f"{name} loss was {loss} and is {side.last_loss} in the end"
                )
        return difference

    def close(self) -> None:
        """Lets it end by itself, and waits."""
        self.process.communicate()
