"""Hostile files for every reader, for as long as there is time.

    python benchmarks/fuzz.py --seconds=60
    python benchmarks/fuzz.py --seconds=600 --targets "TFRecords" "safetensors"

The targets are those of tests/hostile.py, which says what is tried and what
must hold. Prints a line a target: cases, seconds, the longest case, the most
memory that the process has had by then, and different failures; below the
table the case that each failure was reduced to. The exit code is 1 if there is
any. Each round has a seed of its own, which is printed where it fails, and
--seed begins with another.
"""

import argparse
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from hypothesis import HealthCheck, given, seed, settings  # noqa: E402

from tests.hostile import TARGETS, Target  # noqa: E402

CASES_A_ROUND = 500


class Outcome(NamedTuple):
    num_cases: int
    seconds: float
    longest: float  # seconds
    failures: list[str]


class Trial:
    """A target and what has been seen of it."""

    def __init__(self, target: Target):
        self.target = target
        self.num_cases = 0
        self.longest = 0.0  # seconds
        self.case: Any = None  # the last one: of a failure the reduced one

    def read(self, case: Any) -> None:
        self.num_cases += 1
        self.case = case
        start = time.perf_counter()
        try:
            self.target.read(case)
        finally:
            self.longest = max(self.longest, time.perf_counter() - start)

    def run_round(self, number: int) -> str | None:
        """Some hundred cases; what failed, in words, or None."""

        @seed(number)
        @settings(
            max_examples=CASES_A_ROUND,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(self.target.cases)
        def try_case(case: Any) -> None:
            self.read(case)

        try:
            try_case()
        except Exception as error:
            words = f"{type(error).__name__}: {error}".splitlines()[0]
            return f"{words[:200]}\n  seed {number}: {self.case!r:.300}"
        return None


def fuzz(target: Target, seconds: float, first_seed: int) -> Outcome:
    """Rounds until the time is over, and one at least."""
    trial, failures = Trial(target), dict[str, str]()
    start = time.monotonic()
    number = first_seed
    while True:
        failure = trial.run_round(number)
        if failure is not None:
            failures.setdefault(failure.splitlines()[0], failure)
        number += 1
        elapsed = time.monotonic() - start
        if elapsed >= seconds:
            return Outcome(
                trial.num_cases, elapsed, trial.longest, list(failures.values())
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="a target")
    parser.add_argument("--seed", type=int, default=0)
    names = [target.name for target in TARGETS]
    parser.add_argument("--targets", nargs="+", choices=names, default=names)
    args = parser.parse_args()
    print(f"{'target':<24}{'cases':>10}{'s':>8}{'longest ms':>12}", end="")
    print(f"{'peak MiB':>10}{'failures':>10}")
    failures: list[str] = []
    for target in TARGETS:
        if target.name not in args.targets:
            continue
        outcome = fuzz(target, args.seconds, args.seed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(
            f"{target.name:<24}{outcome.num_cases:>10,}{outcome.seconds:>8.0f}"
            f"{1000 * outcome.longest:>12.1f}{peak:>10,}"
            f"{len(outcome.failures):>10}",
            flush=True,
        )
        failures += [f"{target.name}: {text}" for text in outcome.failures]
    print("\n".join(failures))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
