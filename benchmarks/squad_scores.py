"""SQuAD 1.1 dev after fine-tuning here and with transformers: same features.

    python benchmarks/squad_scores.py --train_file=train-v1.1.json \\
        --predict_file=dev-v1.1.json --init_checkpoint=$MODEL \\
        --peer_python=$PEER/bin/python --output_dir=/tmp/squad_scores

$MODEL is a Hugging Face folder, which both sides load; $PEER an environment
with torch, transformers and scipy. The peer's logits become answers by the code
that run_squad.py has, so that only model and training differ. What is in
output_dir already is not run again.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
from glue_scores import ROOT, keras_precision, run

sys.path.insert(0, str(ROOT))

from bert_keras.data.tokenization import FullTokenizer
from bert_keras.tasks.squad.data import SquadExample, read_examples
from bert_keras.tasks.squad.evaluation import evaluate_v1
from bert_keras.tasks.squad.features import (
    SquadFeatures,
    make_windows,
    record_values,
)
from bert_keras.tasks.squad.postprocessing import Answerer, Logits
from bert_keras.tasks.task_config import TaskConfig

PEER = ROOT / "benchmarks" / "peers" / "transformers_squad.py"
SETTINGS = TaskConfig("span", 384, do_lower_case=True, doc_stride=128)
BATCH_SIZE, LEARNING_RATE, SEED = 32, 5e-5, 1
Cut = tuple[list[SquadExample], list[list[SquadFeatures]]]


def cut(path: str, tokenizer: FullTokenizer, is_training: bool) -> Cut:
    examples = read_examples(path, False, is_training)
    return examples, make_windows(examples, tokenizer, SETTINGS)


def to_arrays(
    windows: list[list[SquadFeatures]], part: str
) -> dict[str, np.ndarray]:
    values = [
        record_values(number, window, SETTINGS.max_seq_length)
        for number, window in enumerate(w for own in windows for w in own)
    ]
    arrays = {
        f"{part}_{name}": np.array([row[name] for row in values])
        for name in values[0]
    }
    return {
        name: array[:, 0] if "_position" in name else array
        for name, array in arrays.items()
    }


def suffix(flags: argparse.Namespace) -> str:
    return "-bias_correction" if flags.bias_correction else "-as_google"


def ours(flags: argparse.Namespace) -> dict[str, float]:
    folder = Path(flags.output_dir, f"ours{suffix(flags)}")
    found = folder / "eval_results.txt"
    if not found.exists():
        run(
            [
                *(sys.executable, "run_squad.py", "--do_train"),
                *("--do_predict", f"--train_file={flags.train_file}"),
                f"--predict_file={flags.predict_file}",
                f"--init_checkpoint={flags.init_checkpoint}",
                f"--output_dir={folder}",
                f"--max_seq_length={SETTINGS.max_seq_length}",
                f"--doc_stride={SETTINGS.doc_stride}",
                f"--train_batch_size={BATCH_SIZE}",
                f"--learning_rate={LEARNING_RATE}",
                f"--num_train_epochs={flags.epochs}",
                f"--seed={SEED}",
                f"--precision={keras_precision(flags.precision)}",
                f"--bias_correction={flags.bias_correction}",
            ],
            Path(f"{folder}.log"),
        )
    pairs = [line.split(" = ") for line in found.read_text().splitlines()]
    return {name: float(value) for name, value in pairs}


def theirs(flags: argparse.Namespace) -> dict[str, float]:
    tokenizer = FullTokenizer(
        os.path.join(flags.init_checkpoint, "vocab.txt"), True
    )
    dev = cut(flags.predict_file, tokenizer, False)
    logits = Path(flags.output_dir, f"logits{suffix(flags)}.npz")
    if not logits.exists():
        train = cut(flags.train_file, tokenizer, True)
        features = Path(flags.output_dir, "features.npz")
        np.savez(
            features,
            allow_pickle=False,
            **to_arrays(train[1], "train"),
            **to_arrays(dev[1], "dev"),
        )
        run(
            [
                *(flags.peer_python, str(PEER), f"--features={features}"),
                f"--logits={logits}",
                f"--model={flags.init_checkpoint}",
                f"--seed={SEED}",
                f"--precision={flags.precision}",
                f"--num_steps={int(len(train[0]) / BATCH_SIZE * flags.epochs)}",
                f"--batch_size={BATCH_SIZE}",
                f"--learning_rate={LEARNING_RATE}",
                *(["--bias_correction"] if flags.bias_correction else []),
            ],
            logits.with_suffix(".log"),
        )
    return score(dev, np.load(logits), tokenizer)


def score(
    dev: Cut, logits: dict[str, np.ndarray], tokenizer: FullTokenizer
) -> dict[str, float]:
    examples, windows = dev
    lengths = [len(w.row.input_ids) for own in windows for w in own]
    starts, ends = logits["start_logits"], logits["end_logits"]
    of_windows = (
        Logits(start[:length], end[:length])
        for start, end, length in zip(starts, ends, lengths, strict=True)
    )
    answerer = Answerer(tokenizer, SETTINGS)
    texts = [
        answerer.answer(example, own, [next(of_windows) for _ in own]).text(0.0)
        for example, own in zip(examples, windows, strict=True)
    ]
    return evaluate_v1(texts, [example.golds or () for example in examples])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_file", required=True)
    parser.add_argument("--predict_file", required=True)
    parser.add_argument("--init_checkpoint", required=True)
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--epochs", type=float, default=2.0)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument(
        "--bias_correction", action="store_true", help="Of Adam, on both sides."
    )
    parser.add_argument("--sides", nargs="+", default=["ours", "transformers"])
    flags = parser.parse_args()
    os.makedirs(flags.output_dir, exist_ok=True)
    print("| SQuAD 1.1 dev | exact match | F1 | minutes |")
    print("|---|---|---|---|", flush=True)
    for side in flags.sides:
        start = time.monotonic()
        metrics = ours(flags) if side == "ours" else theirs(flags)
        minutes = (time.monotonic() - start) / 60
        exact, f1 = metrics["exact_match"], metrics["f1"]
        print(f"| {side} | {exact:.2f} | {f1:.2f} | {minutes:.0f} |")


if __name__ == "__main__":
    main()
