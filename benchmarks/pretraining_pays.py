"""What pre-training gives: models fine-tuned with and without it.

    python benchmarks/pretraining_pays.py --data=$DATA --wiki=/tmp/wiki \\
        --output_dir=/tmp/pays tiny=/tmp/tiny mini=/tmp/mini

$DATA has glue/ and conll2003/; /tmp/wiki is what wiki_tasks.py made. Each model
folder is fine-tuned as it is, and from random weights of the same config, with
one recipe for both and several seeds. A run that is in output_dir already is
not run again. Prints Markdown: for each task the scores by seed, the medians,
and whether every score with pre-training is above every one without.
"""

import argparse
import statistics
from pathlib import Path

from kept_runs import KeptRuns, results

TASKS = {  # by name: script, flags, score, epochs
    "topic": ("run_classifier.py", "accuracy", 5),
    "which_sport": ("run_classifier.py", "accuracy", 10),
    "STS-B": ("run_classifier.py", "pearson", 5),
    "MRPC": ("run_classifier.py", "accuracy", 5),
    "RTE": ("run_classifier.py", "accuracy", 5),
    "CoLA": ("run_classifier.py", "matthews", 5),
    "CoNLL": ("run_ner.py", "f1", 3),
}


def data_flags(task: str, data: Path, wiki: Path) -> list[str]:
    if task == "CoNLL":
        return [f"--data_dir={data / 'conll2003'}"]
    if task in ("topic", "which_sport"):
        folder = wiki / task
        return [
            f"--train_file={folder / 'train.tsv'}",
            f"--eval_file={folder / 'dev.tsv'}",
            "--text_column=sentence",
        ]
    return [f"--task_name={task}", f"--data_dir={data / 'glue' / task}"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", help="name=model folder")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--wiki", type=Path, required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--seeds", nargs="*", default=["1", "2", "3"])
    parser.add_argument("--learning_rate", default="3e-4")
    parser.add_argument("--max_seq_length", default="64")
    args = parser.parse_args()
    runs = KeptRuns(args.output_dir)
    print("| task | model | from | by seed | median |\n|---|---|---|---|---|")
    for task in args.tasks:
        script, score, epochs = TASKS[task]
        for model in args.models:
            name, _, folder = model.partition("=")
            found: dict[str, list[float]] = {}
            for start in ("random", "pre-trained"):
                found[start] = []
                for seed in args.seeds:
                    out = runs.folder / f"{task}-{name}-{start}-{seed}"
                    flags = [f"--init_checkpoint={folder}"]
                    if start == "random":
                        flags = [
                            f"--bert_config_file={folder}/bert_config.json",
                            f"--vocab_file={folder}/vocab.txt",
                        ]
                    made = out / "eval_results.txt"
                    runs.run(
                        made,
                        script,
                        "--do_train",
                        "--do_eval",
                        *data_flags(task, args.data, args.wiki),
                        *flags,
                        f"--output_dir={out}",
                        f"--seed={seed}",
                        f"--num_train_epochs={epochs}",
                        f"--learning_rate={args.learning_rate}",
                        f"--max_seq_length={args.max_seq_length}",
                        "--train_batch_size=32",
                    )
                    value = next(
                        x for k, x in results(out).items() if k.endswith(score)
                    )
                    found[start].append(100.0 * value)
                by_seed = ", ".join(f"{x:.1f}" for x in found[start])
                middle = statistics.median(found[start])
                print(
                    f"| {task} | {name} | {start} | {by_seed} | {middle:.1f} |"
                )
            is_clear = min(found["pre-trained"]) > max(found["random"])
            text = "outside" if is_clear else "within"
            print(f"| {task} | {name} | the gain is {text} the spread | | |")


if __name__ == "__main__":
    main()
