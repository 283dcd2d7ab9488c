"""Entity F1 on CoNLL-2003 here and with transformers: the same recipe.

    python benchmarks/ner_scores.py --data_dir=$CONLL \\
        --init_checkpoint=$MODEL --peer_python=$PEER/bin/python \\
        --output_dir=/tmp/ner_scores

$CONLL has train.txt, valid.txt and test.txt; $MODEL is a Hugging Face folder of
an uncased model (--cased for another), which both sides load; $PEER an
environment with torch, transformers and seqeval. Prints a table: the median of
the seeds, and each seed, on valid.txt and on test.txt. What is in output_dir
already is not run again.

Beside the same recipe on both sides there are two ways that only this project
has: rows of a document, and a BiLSTM on the last four layers, whose vectors are
computed once for all seeds.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
from pathlib import Path

from glue_scores import ROOT, keras_precision, run

PEER = ROOT / "benchmarks" / "peers" / "transformers_ner.py"
SETS = ("dev", "test")
SCORES = dict[int, dict[str, float]]  # by seed
LENGTH = 128
# By way: the flags in which it differs from --num_train_epochs=3
# --train_batch_size=32 and --learning_rate as given. A row of a document has as
# many words as four sentences.
WAYS = {
    "sentences": (),
    "documents": ("--document_context", "--train_batch_size=8"),
    "last four layers": (
        "--feature_layers=concat_last_four",
        "--learning_rate=1e-3",
        "--num_train_epochs=10",
    ),
}
THEIRS = "transformers"


def ours(way: str, seed: int, flags: argparse.Namespace) -> dict[str, float]:
    name = f"ours-{way.replace(' ', '_')}"
    folder = Path(flags.output_dir, f"{name}-{seed}")
    found = folder / "eval_results_test.txt"
    if not found.exists():
        _take_vectors(folder, Path(flags.output_dir, f"{name}-1"))
        run(
            [
                *(sys.executable, "run_ner.py", "--do_train", "--do_eval"),
                *("--do_predict", "--bias_correction", f"--seed={seed}"),
                f"--data_dir={flags.data_dir}",
                f"--init_checkpoint={flags.init_checkpoint}",
                f"--output_dir={folder}",
                f"--do_lower_case={not flags.cased}",
                f"--max_seq_length={LENGTH}",
                "--train_batch_size=32",
                f"--learning_rate={flags.learning_rate}",
                f"--precision={keras_precision(flags.precision)}",
                *WAYS[way],
            ],
            Path(f"{folder}.log"),
        )
    files = {"dev": folder / "eval_results.txt", "test": found}
    return {name: _f1(path) for name, path in files.items()}


def _take_vectors(folder: Path, first: Path) -> None:
    """Those of the first seed are those of all."""
    if (first / "features").exists() and not (folder / "features").exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(
            first / "features", folder / "features", copy_function=os.link
        )


def _f1(path: Path) -> float:
    lines = dict(line.split(" = ") for line in path.read_text().splitlines())
    return float(lines["eval_f1"])


def theirs(seed: int, flags: argparse.Namespace) -> dict[str, float]:
    found = Path(flags.output_dir, f"{THEIRS}-{seed}.json")
    if not found.exists():
        output = run(
            [
                *(flags.peer_python, str(PEER), f"--seed={seed}"),
                f"--data_dir={flags.data_dir}",
                f"--model={flags.init_checkpoint}",
                f"--precision={flags.precision}",
                *("--epochs=3", "--batch_size=32"),
                f"--learning_rate={flags.learning_rate}",
                f"--max_seq_length={LENGTH}",
            ],
            found.with_suffix(".log"),
        )
        found.write_text(output)
    scores = json.loads(found.read_text())
    return {name: scores[name] for name in SETS}


def print_row(way: str, scores: SCORES) -> None:
    columns = []
    for name in SETS:
        values = [100 * scores[seed][name] for seed in sorted(scores)]
        each = ", ".join(f"{value:.2f}" for value in values)
        columns += [f"**{statistics.median(values):.2f}**", each]
    print(f"| {way} | {' | '.join(columns)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--init_checkpoint", required=True)
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--ways", nargs="+", default=[*WAYS, THEIRS])
    parser.add_argument("--num_seeds", type=int, default=3)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--cased", action="store_true")
    flags = parser.parse_args()
    os.makedirs(flags.output_dir, exist_ok=True)
    table: dict[str, SCORES] = {way: {} for way in flags.ways}
    for seed in range(1, flags.num_seeds + 1):  # sides in turn
        for way, scores in table.items():
            if way == THEIRS:
                scores[seed] = theirs(seed, flags)
            else:
                scores[seed] = ours(way, seed, flags)
    print("| entity F1 | dev, median | seeds | test, median | seeds |")
    print("|---|---|---|---|---|")
    for way, scores in table.items():
        print_row(way, scores)


if __name__ == "__main__":
    main()
