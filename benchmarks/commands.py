"""Whole commands here and with transformers, from start to end, in pairs.

    python benchmarks/commands.py features --data=$TEXT --model=$MODEL \\
        --peer_python=$PEER/bin/python --work_dir=/tmp/commands
    python benchmarks/commands.py mrpc --data=$MRPC ...
    python benchmarks/commands.py squad --data=dev-v1.1.json ...

$MODEL is a Hugging Face folder of an uncased model, which both sides load: for
`squad` with a span head, as convert_checkpoint.py makes it of what run_squad.py
trained. $PEER is an environment with torch, transformers and scipy.

- features: a vector a sentence (a line of $TEXT): the mean of its pieces.
- mrpc: fine-tuning on MRPC and its dev scores, by Google's recipe; also by
  google-research/bert itself, where --original_python is of an environment of
  Python 3.7 with tensorflow 1.15 and bert-tensorflow 1.0.4: padded, float32,
  GELU by tanh.
- squad: answers to questions.

Of sentences and questions --num_items takes the first.

The peer pads batches of 32 (--peer_batch_size, but for training) to their
longest row, and sorts by length but for training; "grouped" are batches of
similar length there, too. A time is that of a process with all it reads and
writes: here states, a model folder and records too. Every other round is in the
other order. "Faster" is how many times as fast as a side the first one is: the
median over rounds of its time by the first's.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parent.parent
PEERS = ROOT / "benchmarks" / "peers"
OUTPUT = "OUTPUT"  # in a command: the folder for what it writes
ORIGINAL, GOOGLE = "original, padded", "google"
BF16 = "--precision=mixed_bfloat16"


class Work(NamedTuple):
    """The first side is the one that others are compared with."""

    sides: dict[str, list[str]]  # commands
    compare: Callable[[Path, Path], str]  # what two sides wrote
    google: list[str] | None = None  # writes weights that a side reads


def features(flags: argparse.Namespace, folder: Path) -> Work:
    text = folder / "sentences.txt"
    with open(flags.data, encoding="utf-8") as file:
        lines = [line for line in map(str.strip, file) if line]
    chosen = lines[: flags.num_items]
    text.write_text("".join(f"{x}\n" for x in chosen), encoding="utf-8")
    shared = [f"--input_file={text}", "--max_seq_length=128"]
    vectors = f"{OUTPUT}/vectors.npy"
    ours = [
        *(sys.executable, "extract_features.py", *shared),
        f"--init_checkpoint={flags.model}",
        f"--pooled_file={vectors}",
    ]
    theirs = [
        *(flags.peer_python, f"{PEERS}/transformers_features.py", *shared),
        *(f"--model={flags.model}", f"--output_file={vectors}"),
        f"--batch_size={flags.peer_batch_size}",
    ]
    return Work(
        {
            "this project": ours,
            "transformers": theirs,
            "this project, bf16": [*ours, BF16],
            "transformers, bf16": [*theirs, "--bf16"],
        },
        _compare_vectors,
    )


def _compare_vectors(ours: Path, theirs: Path) -> str:
    a, b = (np.load(folder / "vectors.npy") for folder in (ours, theirs))
    return f"{np.abs(a - b).max():.0e}"


def mrpc(flags: argparse.Namespace, folder: Path) -> Work:
    shared = [f"--data_dir={flags.data}", "--learning_rate=5e-5"]
    shared += ["--max_seq_length=128", "--seed=1"]
    ours = [
        *(sys.executable, "run_classifier.py", *shared, BF16),
        *("--task_name=MRPC", "--do_train", "--do_eval", "--bias_correction"),
        f"--init_checkpoint={flags.model}",
        f"--output_dir={OUTPUT}",
        f"--num_train_epochs={flags.num_epochs}",
    ]
    theirs = [
        *(flags.peer_python, f"{PEERS}/transformers_glue.py", *shared),
        *("--task=MRPC", f"--model={flags.model}", "--batch_size=32"),
        f"--epochs={flags.num_epochs}",
    ]
    sides = {
        "this project, bf16": ours,
        "transformers, bf16": [*theirs, "--precision=bf16"],
        "transformers, bf16, grouped": [
            *(*theirs, "--precision=bf16", "--group_by_length"),
        ],
        "transformers": [*theirs, "--precision=fp32"],
    }
    if not flags.original_python:
        return Work(sides, _compare_accuracy)
    google = folder / GOOGLE
    sides[ORIGINAL] = [
        *(flags.original_python, "-m", "bert.run_classifier"),
        *("--task_name=MRPC", "--do_train=true", "--do_eval=true"),
        *(f"--data_dir={flags.data}", "--max_seq_length=128"),
        *("--train_batch_size=32", "--learning_rate=5e-5"),
        f"--num_train_epochs={flags.num_epochs}",
        f"--init_checkpoint={google}/bert_model.ckpt",
        f"--bert_config_file={google}/bert_config.json",
        f"--vocab_file={google}/vocab.txt",
        f"--output_dir={OUTPUT}",
    ]
    convert = [
        *(sys.executable, "convert_checkpoint.py", "--to=google"),
        f"--init_checkpoint={flags.model}",
        "--hidden_act=gelu",  # it has no other
        f"--output_dir={OUTPUT}",
    ]
    return Work(sides, _compare_accuracy, convert)


def _compare_accuracy(ours: Path, theirs: Path) -> str:
    values = []
    for folder in (ours, theirs):
        text = "".join(
            path.read_text()
            for path in (folder / "stdout.txt", folder / "eval_results.txt")
            if path.exists()
        )
        match = re.search(r'accuracy"?[ =:]+([0-9.]+)', text)
        assert match, f"no accuracy in {folder}"
        values.append(f"{100 * float(match.group(1)):.1f} %")
    return "accuracy " + " and ".join(values)


def squad(flags: argparse.Namespace, folder: Path) -> Work:
    asked = folder / "questions.json"
    asked.write_text(_first_questions(flags.data, flags.num_items))
    shared = [f"--predict_file={asked}", "--max_seq_length=384"]
    shared += ["--doc_stride=128"]
    ours = [
        *(sys.executable, "run_squad.py", *shared, "--do_predict"),
        f"--init_checkpoint={flags.model}",
        f"--output_dir={OUTPUT}",
    ]
    theirs = [
        *(flags.peer_python, f"{PEERS}/transformers_answers.py", *shared),
        *(f"--model={flags.model}", f"--output_dir={OUTPUT}"),
        f"--batch_size={flags.peer_batch_size}",
    ]
    return Work(
        {
            "this project, bf16": [*ours, BF16],
            "transformers, bf16": [*theirs, "--precision=bf16"],
            "transformers, bf16 weights": [
                *theirs,
                "--precision=bf16_weights",
            ],
            "this project": ours,
            "transformers": [*theirs, "--precision=fp32"],
        },
        _compare_texts,
    )


def _first_questions(path: str, count: int | None) -> str:
    with open(path, encoding="utf-8") as file:
        articles = json.load(file)["data"]
    left = sys.maxsize if count is None else count
    for article in articles:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = paragraph["qas"][:left]
            left -= len(paragraph["qas"])
        article["paragraphs"] = [x for x in article["paragraphs"] if x["qas"]]
    return json.dumps({"version": "1.1", "data": articles})


def _compare_texts(ours: Path, theirs: Path) -> str:
    a, b = (
        json.loads((folder / "predictions.json").read_text())
        for folder in (ours, theirs)
    )
    equal = sum(text == b[name] for name, text in a.items())
    words = sum(text.split() == b[name].split() for name, text in a.items())
    return f"{equal} of {len(b)} texts are equal, {words} but for white space"


def measure(command: list[str], output: Path) -> float:
    """Seconds of a process; what it says is in its folder."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    words = [word.replace(OUTPUT, str(output)) for word in command]
    start = time.monotonic()
    with (
        open(output / "stdout.txt", "w") as out,
        open(output / "stderr.txt", "w") as err,
    ):
        done = subprocess.run(words, cwd=ROOT, stdout=out, stderr=err)
    if done.returncode:
        sys.exit(f"exit code {done.returncode}, see {err.name}")
    return time.monotonic() - start


WORKS = {"features": features, "mrpc": mrpc, "squad": squad}


def main() -> None:
    parser = argparse.ArgumentParser()
    path = os.path.abspath  # commands run in another folder
    parser.add_argument("work", choices=WORKS)
    parser.add_argument(
        "--data",
        type=path,
        required=True,
        help="features: a sentence a line; mrpc: a folder of train.tsv and "
        "dev.tsv; squad: a dev-v1.1.json.",
    )
    parser.add_argument("--model", type=path, required=True)
    parser.add_argument("--peer_python", type=path, required=True)
    parser.add_argument("--original_python", type=path)
    parser.add_argument("--work_dir", required=True)
    parser.add_argument("--sides", nargs="+", help="Else all.")
    parser.add_argument("--num_items", type=int, help="Else all.")
    parser.add_argument(
        "--peer_batch_size", type=int, default=32, help="Not of mrpc."
    )
    parser.add_argument("--num_epochs", type=float, default=3.0)
    parser.add_argument("--num_pairs", type=int, default=5)
    flags = parser.parse_args()
    folder = Path(flags.work_dir, flags.work).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    work = WORKS[flags.work](flags, folder)
    if unknown := set(flags.sides or ()) - set(work.sides):
        parser.error(f"--sides {unknown} are none of {list(work.sides)}")
    sides = {side: work.sides[side] for side in flags.sides or work.sides}
    if work.google and ORIGINAL in sides:
        measure(work.google, folder / GOOGLE)
    outputs = {side: folder / re.sub(r"\W+", "-", side) for side in sides}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for i in range(flags.num_pairs):
        for side in list(sides)[:: -1 if i % 2 else 1]:
            times[side].append(measure(sides[side], outputs[side]))
            print(f"{side}: {times[side][-1]:.1f} s", flush=True)
    first = next(iter(sides))
    print(f"| {flags.work} | s | faster | beside the first |")
    print("|---|---|---|---|")
    for side, own in times.items():
        pairs = zip(own, times[first], strict=True)
        ratio = statistics.median(theirs / ours for theirs, ours in pairs)
        same = work.compare(outputs[first], outputs[side])
        print(
            f"| {side} | {statistics.median(own):.1f} | {ratio:.2f} | {same} |"
        )


if __name__ == "__main__":
    main()
