"""Records a second: this project, and the original under TensorFlow 1.15.

    python benchmarks/create_data.py --input_file=text.txt \\
        --vocab_file=vocab.txt --peer_python=$PEER/bin/python

$PEER is an environment of Python 3.7 with tensorflow 1.15.5, numpy below 1.19,
protobuf below 3.21, six and bert-tensorflow 1.0.4. Each pair of runs follows
one another; length 128, 20 predictions, duplication 5, six output files. The
time is from the first work on the text to the last byte written, without
start-up: the command says it, and peers/original_create_data.py says the
original's. Of two processes, which do not start at the same moment, it begins
midway between their first works.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PEER = ROOT / "benchmarks" / "peers" / "original_create_data.py"
NUM_FILES = 6
SAID = re.compile(r"\(([\d,]+) per second")


def data_flags(flags: argparse.Namespace, folder: str) -> list[str]:
    paths = [os.path.join(folder, f"{i}.tfrecord") for i in range(NUM_FILES)]
    return [
        f"--input_file={flags.input_file}",
        f"--vocab_file={flags.vocab_file}",
        f"--output_file={','.join(paths)}",
        "--max_seq_length=128",
        "--max_predictions_per_seq=20",
        "--dupe_factor=5",
    ]


def run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stderr)
    return done


def ours(flags: argparse.Namespace, folder: str, num_workers: int) -> float:
    """Records a second."""
    done = run(
        [
            *(sys.executable, "create_pretraining_data.py"),
            *data_flags(flags, folder),
            f"--num_workers={num_workers}",
        ]
    )
    shutil.rmtree(os.path.join(folder, ".0.tfrecord.making"))
    said = SAID.search(done.stderr)
    assert said, done.stderr
    return int(said[1].replace(",", ""))


def theirs(flags: argparse.Namespace, folder: str) -> float:
    """Records a second."""
    done = run([flags.peer_python, str(PEER), *data_flags(flags, folder)])
    found = json.loads(done.stdout.splitlines()[-1])
    return found["records"] / found["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--input_file", required=True)
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--num_pairs", type=int, default=5)
    flags = parser.parse_args()
    num_cores = len(os.sched_getaffinity(0))
    print(f"| original | 1 worker | ratio | {num_cores} workers | ratio |")
    print("|---|---|---|---|---|")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(flags.num_pairs):
            base = theirs(flags, folder)
            one, all_cores = (
                ours(flags, folder, count) for count in (1, num_cores)
            )
            ratios.append((one / base, all_cores / base))
            print(
                f"| {base:,.0f} | {one:,.0f} | {one / base:.1f} "
                f"| {all_cores:,.0f} | {all_cores / base:.1f} |",
                flush=True,
            )
    medians = map(statistics.median, zip(*ratios, strict=True))
    print("median ratios:", ", ".join(f"{ratio:.1f}" for ratio in medians))


if __name__ == "__main__":
    main()
