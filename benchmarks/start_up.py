"""Time to import TensorFlow, to the first step, to the end of a run of one step
and to answer --help, before and after a change.

    git worktree add --detach /tmp/before COMMIT
    python benchmarks/start_up.py --before=/tmp/before --num_pairs=5

Runs alternate between the two trees, which take turns at being first. The older
must have command.import_tensorflow, as since 364d302. A run of one step is that
of a tiny model from command to end: imports, data, tracing, compiling, a step,
two states and a model; its first step is over when it stands in
train_log.jsonl. Medians of seconds passed, and of seconds of a processor, which
say more where others use the machine; "-" for a command that the older tree has
not. What is measured is not the training: that of a larger model adds to it.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"
MODEL = [
    f"--vocab_file={GOLDEN}/tiny_vocab.txt",
    f"--bert_config_file={GOLDEN}/tiny_bert/bert_config.json",
    "--max_seq_length=29",
    "--train_batch_size=8",
    "--do_train",
]
# Without the interpreter's end, which looks at all that was made once more.
IMPORT = [
    "-c",
    "import os; from bert_keras.cli import command;"
    " command.import_tensorflow(); os._exit(0)",
]


class Seconds(NamedTuple):
    passed: float
    processor: float
    to_step: float | None  # of a run that trains


def run(tree: Path, words: list[str], output: str = "") -> Seconds:
    """`output`: in the place of OUTPUT among `words`."""
    words = [word.replace("OUTPUT", output) for word in words]
    log = Path(output, "train_log.jsonl")
    start, started_at = time.monotonic(), time.time()
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status and words[-1] != "--help":  # 1 in older trees
        sys.exit(f"failed: {' '.join(words)}")
    passed = time.monotonic() - start
    to_step = log.stat().st_mtime - started_at if log.exists() else None
    return Seconds(passed, usage.ru_utime + usage.ru_stime, to_step)


def one_step_commands(folder: Path) -> dict[str, list[str]]:
    """Words of the commands, and what they read; each needs a new output."""
    records = folder / "records.tfrecord"
    run(
        ROOT,
        [
            "create_pretraining_data.py",
            f"--input_file={GOLDEN}/tiny_corpus.txt",
            f"--output_file={records}",
            f"--vocab_file={GOLDEN}/tiny_vocab.txt",
            "--max_seq_length=29",
            "--max_predictions_per_seq=5",
        ],
    )
    table = folder / "table.tsv"
    rows = [f"the captain saw {i}\t{i % 2}\n" for i in range(8)]
    table.write_text("text\tlabel\n" + "".join(rows))
    return {
        "run_pretraining.py": [
            *MODEL,
            f"--input_file={records}",
            "--max_predictions_per_seq=5",
            "--num_train_steps=1",
            "--num_warmup_steps=1",
        ],
        "run_classifier.py": [
            *MODEL,
            f"--train_file={table}",
            "--num_train_epochs=1",
        ],
    }


def compare(
    name: str, words: list[str], trees: list[Path], num_pairs: int
) -> None:
    """Prints the table's row of a command, and of its first step if any."""
    found: list[list[Seconds]] = [[] for _ in trees]
    for i in range(num_pairs):
        for k in (1, 0) if i % 2 else (0, 1):
            tree, runs = trees[k], found[k]
            if words[0] == "-c" or (tree / words[0]).exists():
                with tempfile.TemporaryDirectory() as output:
                    runs.append(run(tree, words, output))
    if found[-1][0].to_step is not None:
        passed = [median(x.to_step for x in runs) for runs in found]
        print_row(f"{name}, to its first step", [*passed, "", ""])
        name += ", to its end"
    passed = [median(x.passed for x in runs) for runs in found]
    processor = [median(x.processor for x in runs) for runs in found]
    print_row(name, passed + processor)


def median(seconds: Iterable[float | None]) -> str:
    found = [x for x in seconds if x is not None]
    return f"{statistics.median(found):.2f}" if found else "-"


def print_row(name: str, cells: list[str]) -> None:
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--num_pairs", type=int, default=5)
    flags = parser.parse_args()
    trees = [flags.before.absolute(), ROOT]
    print("| | before, s | after, s | before, processor | after, processor |")
    print("|---|---|---|---|---|")
    compare("import of TensorFlow", IMPORT, trees, flags.num_pairs)
    with tempfile.TemporaryDirectory() as folder:
        for name, words in one_step_commands(Path(folder)).items():
            words = [name, *words, "--output_dir=OUTPUT"]
            compare(name, words, trees, flags.num_pairs)
    for path in sorted(ROOT.glob("*.py")):
        if "cli = command.Command(" in path.read_text(encoding="utf-8"):
            words = [path.name, "--help"]
            compare(" ".join(words), words, trees, flags.num_pairs)


if __name__ == "__main__":
    main()
