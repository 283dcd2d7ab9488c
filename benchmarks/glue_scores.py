"""Dev scores after fine-tuning here and with transformers: the same recipe.

    python benchmarks/glue_scores.py --data_dir=$GLUE \\
        --init_checkpoint=$MODEL --peer_python=$PEER/bin/python \\
        --output_dir=/tmp/glue_scores

$MODEL is a Hugging Face folder, which both sides load; $PEER an environment
with torch, transformers and scipy. What is in output_dir already is not run
again. Prints a table: the median of the seeds, and each seed. The recipe is
google-research/bert's but for one thing: torch's AdamW corrects its bias, and
here that is --bias_correction.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
PEER = ROOT / "benchmarks" / "peers" / "transformers_glue.py"
METRICS = {  # the task's own first
    "MRPC": ("accuracy", "f1"),
    "RTE": ("accuracy",),
    "CoLA": ("matthews",),
    "STS-B": ("pearson", "spearman"),
}
SCORES = dict[int, dict[str, float]]  # by seed
RECIPE = {
    "learning_rate": 5e-5,
    "max_seq_length": 128,
}
BATCH_SIZE, EPOCHS = 32, 3.0


def run(arguments: list[str], log: Path) -> str:
    """Its standard output; what else it says is in the log."""
    start = time.monotonic()
    with open(log, "w") as errors:
        done = subprocess.run(
            arguments, cwd=ROOT, text=True, stdout=-1, stderr=errors
        )
    if done.returncode:
        sys.exit(f"exit code {done.returncode}, see {log}: {arguments}")
    print(f"{log.stem}: {time.monotonic() - start:.0f} s", flush=True)
    return done.stdout


def ours(task: str, flags: argparse.Namespace) -> SCORES:
    suffix = "-bias_correction" if flags.bias_correction else ""
    folder = Path(flags.output_dir, f"ours-{task}{suffix}")
    found = folder / "seeds.json"
    if not found.exists():
        run(
            [
                *(sys.executable, "run_classifier.py", "--do_train"),
                f"--task_name={task}",
                f"--data_dir={os.path.join(flags.data_dir, task)}",
                f"--init_checkpoint={flags.init_checkpoint}",
                f"--output_dir={folder}",
                *("--do_eval", "--seed=1", f"--num_seeds={flags.num_seeds}"),
                f"--train_batch_size={BATCH_SIZE}",
                f"--num_train_epochs={EPOCHS}",
                *(f"--{name}={value}" for name, value in RECIPE.items()),
                f"--precision={keras_precision(flags.precision)}",
                f"--bias_correction={flags.bias_correction}",
            ],
            Path(f"{folder}.log"),
        )
    outcomes = json.loads(found.read_text())["seeds"]
    return {
        int(seed): {name: metrics[f"eval_{name}"] for name in METRICS[task]}
        for seed, metrics in outcomes.items()
    }


def theirs(task: str, flags: argparse.Namespace) -> SCORES:
    scores = {}
    for seed in range(1, flags.num_seeds + 1):
        found = Path(flags.output_dir, f"transformers-{task}-{seed}.json")
        if not found.exists():
            output = run(
                [
                    *(flags.peer_python, str(PEER), f"--task={task}"),
                    f"--data_dir={os.path.join(flags.data_dir, task)}",
                    f"--model={flags.init_checkpoint}",
                    f"--seed={seed}",
                    f"--precision={flags.precision}",
                    f"--batch_size={BATCH_SIZE}",
                    f"--epochs={EPOCHS}",
                    *(f"--{name}={value}" for name, value in RECIPE.items()),
                ],
                found.with_suffix(".log"),
            )
            found.write_text(output)
        scores[seed] = json.loads(found.read_text())
    return scores


def keras_precision(precision: str) -> str:
    return {"fp32": "float32", "bf16": "mixed_bfloat16"}[precision]


def print_row(task: str, metric: str, sides: list[SCORES]) -> None:
    columns = []
    for side in sides:
        values = [100 * side[seed][metric] for seed in sorted(side)]
        each = ", ".join(f"{value:.1f}" for value in values)
        columns += [f"**{statistics.median(values):.1f}**", each]
    print(f"| {task} {metric} | {' | '.join(columns)} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--init_checkpoint", required=True)
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--tasks", nargs="+", default=list(METRICS))
    parser.add_argument("--num_seeds", type=int, default=3)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--bias_correction", action="store_true")
    flags = parser.parse_args()
    if flags.num_seeds < 2:
        parser.error("--num_seeds: expected 2 or more, for seeds.json")
    os.makedirs(flags.output_dir, exist_ok=True)
    sides = {
        task: [ours(task, flags), theirs(task, flags)] for task in flags.tasks
    }
    print("| dev | here, median | seeds | transformers, median | seeds |")
    print("|---|---|---|---|---|")
    for task, both in sides.items():
        for metric in METRICS[task]:
            print_row(task, metric, both)


if __name__ == "__main__":
    main()
