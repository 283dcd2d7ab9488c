"""What pre-training gives: models fine-tuned with and without it.

    python benchmarks/pretraining_pays.py --data=$DATA --wiki=/tmp/wiki \\
        --output_dir=/tmp/pays tiny=/tmp/tiny sport=/tmp/sport_tiny

$DATA has glue/ and conll2003/; /tmp/wiki is what wiki_tasks.py made. Models of
one size are fine-tuned, and random weights of the first one's config, all with
one recipe and several seeds; with --no-random, models alone, of any size. A run
that is in output_dir already is not run again. Prints Markdown: for each task
the scores by seed, the median, and whether every score of a model is above
every one of random weights.
"""

import argparse
import statistics
from pathlib import Path

from kept_runs import KeptRuns, results

TASKS = {  # by name: script, score, epochs
    "topic": ("run_classifier.py", "accuracy", 5),
    "which_sport": ("run_classifier.py", "accuracy", 10),
    "which_sport_100": ("run_classifier.py", "accuracy", 30),
    "STS-B": ("run_classifier.py", "pearson", 5),
    "MRPC": ("run_classifier.py", "accuracy", 5),
    "RTE": ("run_classifier.py", "accuracy", 5),
    "CoLA": ("run_classifier.py", "matthews", 5),
    "CoNLL": ("run_ner.py", "f1", 3),
}


def data_flags(task: str, data: Path, wiki: Path) -> list[str]:
    if task == "CoNLL":
        return [f"--data_dir={data / 'conll2003'}"]
    if task.startswith(("topic", "which_sport")):
        folder = wiki / task
        return [
            f"--train_file={folder / 'train.tsv'}",
            f"--eval_file={folder / 'dev.tsv'}",
            "--text_column=sentence",
        ]
    return [f"--task_name={task}", f"--data_dir={data / 'glue' / task}"]


def fine_tuned(
    runs: KeptRuns, task: str, name: str, seed: int, *flags: str
) -> float:
    """The task's score on its dev set, times 100.

    Args:
        name: says what is fine-tuned, in the name of the folder.
        flags: the weights to begin with, and the task's data.
    """
    script, score, epochs = TASKS[task]
    out = runs.folder / f"{task}-{name}-{seed}"
    runs.run(
        out / "eval_results.txt",
        script,
        *("--do_train", "--do_eval"),
        *flags,
        f"--output_dir={out}",
        f"--seed={seed}",
        f"--num_train_epochs={epochs}",
        "--train_batch_size=32",
    )
    return 100.0 * results(out)[f"eval_{score}"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", help="name=model folder")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--wiki", type=Path, required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument(
        "--random", action=argparse.BooleanOptionalAction, default=True
    )
    parser.add_argument("--learning_rate", default="3e-4")
    parser.add_argument("--max_seq_length", default="64")
    args = parser.parse_args()
    runs = KeptRuns(args.output_dir)
    models = dict(x.partition("=")[::2] for x in args.models)
    if "random" in models:
        parser.error("random is the name of the random weights")
    config_of = next(iter(models.values()))
    starts: dict[str, tuple[str, ...]] = {}
    if args.random:
        starts["random"] = (
            f"--bert_config_file={config_of}/bert_config.json",
            f"--vocab_file={config_of}/vocab.txt",
        )
    for name, model in models.items():
        starts[name] = (f"--init_checkpoint={model}",)
    print("| task | from | by seed | median | all above random |")
    print("|---|---|---|---|---|")
    for task in args.tasks:
        common = (
            *data_flags(task, args.data, args.wiki),
            f"--learning_rate={args.learning_rate}",
            f"--max_seq_length={args.max_seq_length}",
        )
        found: dict[str, list[float]] = {}
        for start, flags in starts.items():
            found[start] = [
                fine_tuned(runs, task, start, seed, *flags, *common)
                for seed in args.seeds
            ]
            is_above = ""
            if args.random:
                best = max(found["random"])
                is_above = "yes" if min(found[start]) > best else "no"
            by_seed = ", ".join(f"{x:.1f}" for x in found[start])
            print(
                f"| {task}, {TASKS[task][1]} | {start} | {by_seed} | "
                f"{statistics.median(found[start]):.1f} | "
                f"{is_above} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
