"""MRPC under Keras's `fit` and by run_classifier.py: the same recipe.

    python benchmarks/keras_fit.py --data_dir=glue/MRPC \\
        --init_checkpoint=/tmp/minilm --work_dir=/tmp/keras_fit

Both sides train for 3 epochs in batches of 32 and 128 positions, with a
learning rate of 5e-5 that rises for a tenth of the steps and then falls,
gradients clipped at 1 and Adam with bias correction, which Keras's always has.
`fit` pads all rows to the longest; run_classifier.py packs them, and its
batches are others. --sides names some of three: command, fit, and lora, which
is fit with `enable_lora(8)` and --lora_learning_rate.

Each run is a process; sides take turns. Prints each accuracy on the
development set and the seconds of training and evaluation, then each side's
median, lowest and highest.
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

EPOCHS, BATCH_SIZE, LENGTH, RATE, RANK = 3, 32, 128, 5e-5, 8


def read(path: Path) -> tuple[list[tuple[str, str]], list[int]]:
    """The pairs of MRPC's file, and their labels."""
    with open(path, encoding="utf-8-sig") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(row[3], row[4]) for row in rows[1:]], [
        int(row[0]) for row in rows[1:]
    ]


def fit(job: argparse.Namespace, side: str, seed: int) -> dict[str, Any]:
    import keras
    import numpy as np

    import bert_keras

    class Rate(keras.optimizers.schedules.LearningRateSchedule):
        """Rises for a tenth of the steps, then falls to 0."""

        def __init__(self, rate: float, num_steps: int):
            self.rate, self.num_steps = rate, num_steps

        def __call__(self, step: Any) -> Any:
            step = keras.ops.cast(step, "float32")
            warmup = self.num_steps // 10
            falling = self.rate * (1 - step / self.num_steps)
            rising = self.rate * step / warmup
            return keras.ops.where(step < warmup, rising, falling)

    keras.utils.set_random_seed(seed)
    model = bert_keras.TextClassifier.from_folder(
        job.init_checkpoint, num_labels=2
    )
    rate = RATE
    if side == "lora":
        model.encoder.enable_lora(RANK)
        rate = job.lora_learning_rate
    texts, labels = read(Path(job.data_dir) / "train.tsv")
    begin = time.perf_counter()
    data = model.tokenize(texts)
    optimizer = keras.optimizers.AdamW(
        Rate(rate, -(-len(texts) // BATCH_SIZE) * EPOCHS),
        weight_decay=0.01,
        epsilon=1e-6,
        global_clipnorm=1.0,
    )
    optimizer.exclude_from_weight_decay(
        var_names=["LayerNorm", "gamma", "beta", "bias"]
    )
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        data,
        np.array(labels),
        batch_size=BATCH_SIZE,
        epochs=EPOCHS,
        verbose=0,
    )
    texts, labels = read(Path(job.data_dir) / "dev.tsv")
    _, accuracy = model.evaluate(
        model.tokenize(texts), np.array(labels), verbose=0
    )
    trained = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    return {
        "accuracy": accuracy,
        "seconds": time.perf_counter() - begin,
        "trained": trained / model.count_params(),
    }


def command(job: argparse.Namespace, seed: int) -> dict[str, Any]:
    output_dir = Path(job.work_dir) / f"command_{seed}"
    begin = time.perf_counter()
    subprocess.run(
        [
            *(sys.executable, str(ROOT / "run_classifier.py")),
            *("--task_name=mrpc", f"--data_dir={job.data_dir}"),
            f"--init_checkpoint={job.init_checkpoint}",
            f"--output_dir={output_dir}",
            *("--do_train", "--do_eval", f"--seed={seed}"),
            *(f"--learning_rate={RATE}", f"--num_train_epochs={EPOCHS}"),
            "--bias_correction",
            *(f"--max_seq_length={LENGTH}", f"--train_batch_size={BATCH_SIZE}"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    lines = (output_dir / "eval_results.txt").read_text().splitlines()
    results = dict(line.split(" = ") for line in lines)
    return {
        "accuracy": float(results["eval_accuracy"]),
        "seconds": time.perf_counter() - begin,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--init_checkpoint", required=True)
    parser.add_argument("--work_dir", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--sides", nargs="+", default=["command", "fit"])
    parser.add_argument("--lora_learning_rate", type=float, default=5e-4)
    job = parser.parse_args()
    found: dict[str, list[float]] = {side: [] for side in job.sides}
    if len(job.sides) == len(job.seeds) == 1 and job.sides != ["command"]:
        print(json.dumps(fit(job, job.sides[0], job.seeds[0])))
        return
    # A run found there would be resumed, in no time.
    Path(job.work_dir).mkdir(parents=True)
    for seed in job.seeds:
        for side in job.sides:
            if side == "command":
                result = command(job, seed)
            else:  # a process of its own
                done = subprocess.run(
                    [
                        *(sys.executable, __file__),
                        f"--data_dir={job.data_dir}",
                        f"--init_checkpoint={job.init_checkpoint}",
                        f"--work_dir={job.work_dir}",
                        f"--lora_learning_rate={job.lora_learning_rate}",
                        *("--sides", side, "--seeds", str(seed)),
                    ],
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                result = json.loads(done.stdout.splitlines()[-1])
            print(seed, side, json.dumps(result), flush=True)
            found[side].append(result["accuracy"])
    for side, values in found.items():
        print(
            f"{side}: median {statistics.median(values):.4f}, "
            f"{min(values):.4f} to {max(values):.4f}"
        )


if __name__ == "__main__":
    main()
