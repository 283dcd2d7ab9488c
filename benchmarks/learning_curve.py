"""Draws how a model learned: its training, and the records held out, if any
were evaluated on the way.

    python benchmarks/learning_curve.py --output_file=curve.png tiny tiny_pairs

The folders are output folders of run_pretraining.py, each of which started from
the one before, so that their steps are counted on.
"""

import argparse
import json
import statistics
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

SMOOTHED = 100  # steps whose mean is drawn
NAMES = {
    "masked_lm_accuracy": "masked tokens",
    "next_sentence_accuracy": "next sentence prediction",
}


def read(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--output_file", required=True)
    args = parser.parse_args()
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    begin = 0.0
    named: set[str] = set()
    for folder in args.folders:
        train = read(folder / "train_log.jsonl")
        log = folder / "eval_log.jsonl"
        held_out = read(log) if log.exists() else []
        smooth = [
            train[i : i + SMOOTHED] for i in range(0, len(train), SMOOTHED)
        ]
        for color, name in zip(("C0", "C1"), NAMES, strict=True):
            if name not in train[0]:
                continue
            steps = [begin + lines[-1]["step"] for lines in smooth]
            means = [100 * statistics.mean(x[name] for x in y) for y in smooth]
            label = None if name in named else NAMES[name]
            named.add(name)
            (line,) = axes.plot(steps, means, color=color, alpha=0.4)
            if held_out:
                steps = [begin + line["step"] for line in held_out]
                values = [100 * line[name] for line in held_out]
                (line,) = axes.plot(steps, values, "o-", color=color)
            line.set_label(label)
        begin += train[-1]["step"]
        if folder != args.folders[-1]:
            axes.axvline(begin, color="gray", lw=0.8, ls=":")
    axes.set(xlabel="step", ylabel="accuracy (%)", xlim=(0, begin))
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(args.output_file, dpi=120)


if __name__ == "__main__":
    main()
