"""A vector a sentence here and with transformers: whole commands, in pairs.

    python benchmarks/sentence_features.py --text_file=$TEXT \\
        --init_checkpoint=$MODEL --peer_python=$PEER/bin/python \\
        --output_dir=/tmp/sentence_features

$TEXT has one sentence a line; $MODEL is a Hugging Face folder of an uncased
model, which both sides load; $PEER an environment with torch and transformers,
which sorts by length and pads to the longest of a batch. A time is that of a
process from its start to its end, with its files. Sides take turns at being
first. float32, and both sides also with products in bfloat16.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
PEER = ROOT / "benchmarks" / "peers" / "transformers_features.py"
LENGTH, BATCH_SIZE = 128, 32
MAX_DIFFERENCE = 1e-3  # of a number of a vector, in float32


def write_sentences(path: Path, text_file: str, count: int) -> None:
    with open(text_file, encoding="utf-8") as file:
        lines = [line for line in map(str.strip, file) if line][:count]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def commands(flags: argparse.Namespace, text: Path) -> dict[str, list[str]]:
    """By side, without the file of vectors, which is the last argument."""
    shared = [
        f"--input_file={text}",
        f"--max_seq_length={LENGTH}",
        f"--batch_size={BATCH_SIZE}",
    ]
    model = flags.init_checkpoint
    ours = [
        *(sys.executable, "extract_features.py", *shared),
        f"--init_checkpoint={model}",
    ]
    theirs = [flags.peer_python, str(PEER), *shared, f"--model={model}"]
    bf16 = "--precision=mixed_bfloat16"
    return {
        "this project": [*ours, "--pooled_file="],
        "this project, bf16": [*ours, bf16, "--pooled_file="],
        "transformers": [*theirs, "--output_file="],
        "transformers, bf16": [*theirs, "--bf16", "--output_file="],
    }


def measure(command: list[str], vectors: Path) -> float:
    *arguments, last = command
    start = time.monotonic()
    with open(vectors.with_suffix(".log"), "w") as log:
        done = subprocess.run(
            [*arguments, f"{last}{vectors}"], cwd=ROOT, stdout=log, stderr=log
        )
    if done.returncode:
        sys.exit(f"exit code {done.returncode}, see {log.name}")
    return time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text_file", required=True)
    parser.add_argument("--init_checkpoint", required=True)
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--num_sentences", type=int, default=10000)
    parser.add_argument("--num_pairs", type=int, default=5)
    flags = parser.parse_args()
    folder = Path(flags.output_dir).absolute()
    os.makedirs(folder, exist_ok=True)
    text = folder / "sentences.txt"
    write_sentences(text, flags.text_file, flags.num_sentences)
    sides = commands(flags, text)
    files = {
        side: folder / f"{side.replace(' ', '_').replace(',', '')}.npy"
        for side in sides
    }
    times: dict[str, list[float]] = {side: [] for side in sides}
    for i in range(flags.num_pairs):
        for side in list(sides)[:: -1 if i % 2 else 1]:
            times[side].append(measure(sides[side], files[side]))
            print(f"{side}: {times[side][-1]:.1f} s", flush=True)
    vectors = [np.load(path) for path in files.values()]
    print("| a vector a sentence | s | faster | largest difference |")
    print("|---|---|---|---|")
    for side, own, found in zip(sides, times.values(), vectors, strict=True):
        pairs = zip(own, times["this project"], strict=True)
        ratio = statistics.median(theirs / mine for theirs, mine in pairs)
        difference = float(np.abs(found - vectors[0]).max())
        print(
            f"| {side} | {statistics.median(own):.1f} | {ratio:.2f} "
            f"| {difference:.0e} |"
        )
        if side == "transformers" and not difference <= MAX_DIFFERENCE:
            sys.exit(f"vectors differ by {difference}")


if __name__ == "__main__":
    main()
