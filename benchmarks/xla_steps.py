"""Each command's whole training step, compiled by XLA and not.

    python benchmarks/xla_steps.py

Prints the largest difference between the figures (losses, accuracies, rate,
gradient norm) of the first steps; the suite has some of these.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from test_xla import CASES, NUM_STEPS, largest_difference


def main() -> None:
    print(f"| step | micro-batches | difference in {NUM_STEPS} steps |")
    print("|---|---|---|")
    for case in CASES:
        for count in (1, 3):
            difference = largest_difference(case, count)
            print(f"| {case} | {count} | {difference:.1e} |", flush=True)


if __name__ == "__main__":
    main()
