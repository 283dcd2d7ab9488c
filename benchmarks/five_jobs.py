"""The same five jobs here, in transformers and in KerasHub: lines and seconds.

    python benchmarks/five_jobs.py --vocab_file=$VOCAB --work_dir=/tmp/jobs

Each job is a script in benchmarks/jobs: fill a blank, classify with a trained
folder, fine-tune a classifier on a CSV file, vectors of texts, answer a
question. All read the same folders in Hugging Face's form, of random weights
(4 layers of 256) that transformers makes. A script's lines are those that are
not blank. Its seconds are those of a whole process, from the start of Python to
the result, the medians of --repeats in turns: first on the clock, then of
processor time, which other programs on the machine hardly change. KerasHub
reads no trained head of Hugging Face's and has no question answering, so two of
its scripts are missing.
"""

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from peer_environments import python_of

ROOT = Path(__file__).parent.parent
JOBS = ("fill", "classify", "fine_tune", "encode", "answer")
WORDS = "a film good bad story plot sky blue slow fast great dull".split()

MAKE_FOLDERS = """
import shutil, sys
import transformers as t
config = t.BertConfig(
    vocab_size=sum(1 for _ in open(sys.argv[1], encoding="utf-8")),
    hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
    intermediate_size=1024,
)
t.set_seed(3)
for name, kind in (
    ("pretrained", t.BertForPreTraining),
    ("classifier", t.BertForSequenceClassification),
    ("reader", t.BertForQuestionAnswering),
):
    kind(config).save_pretrained(name)
    t.BertTokenizer(sys.argv[1]).save_pretrained(name)
    shutil.copy(sys.argv[1], f"{name}/vocab.txt")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocab_file", type=Path, required=True)
    parser.add_argument("--work_dir", type=Path, required=True)
    parser.add_argument("--env_dir", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS)
    arguments = parser.parse_args()
    folder = arguments.work_dir
    folder.mkdir(parents=True, exist_ok=True)
    env_dir = arguments.env_dir or folder / "environments"
    pythons = {
        "here": sys.executable,
        "transformers": python_of("transformers_jobs", env_dir, None),
        "keras_hub": python_of("keras_hub", env_dir, None),
    }
    subprocess.run(
        [
            *(pythons["transformers"], "-c", MAKE_FOLDERS),
            str(arguments.vocab_file.resolve()),
        ],
        cwd=folder,
        check=True,
    )
    rng = random.Random(7)
    rows = [
        f"{' '.join(rng.choices(WORDS, k=20))},{number % 2}"
        for number in range(1000)
    ]
    (folder / "reviews.csv").write_text("\n".join(["text,label", *rows]))

    print(f"{'job':<12}{'where':<14}{'lines':>6}{'seconds':>9}{'CPU':>9}")
    for job in arguments.jobs:
        times: dict[str, list[tuple[float, float]]] = {}
        for _ in range(arguments.repeats):
            for where, python in pythons.items():
                script = ROOT / "benchmarks" / "jobs" / where / f"{job}.py"
                if script.exists():
                    times.setdefault(where, []).append(
                        run(python, script, folder)
                    )
        for where, runs in times.items():
            script = ROOT / "benchmarks" / "jobs" / where / f"{job}.py"
            lines = sum(map(bool, script.read_text().splitlines()))
            wall, cpu = map(statistics.median, zip(*runs, strict=True))
            print(
                f"{job:<12}{where:<14}{lines:>6}{wall:>9.1f}{cpu:>9.1f}",
                flush=True,
            )


def run(python: str, script: Path, folder: Path) -> tuple[float, float]:
    """The seconds of a whole process, on the clock and of processor time."""
    subprocess.run(["rm", "-rf", str(folder / "out")], check=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT) if python == sys.executable else "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "KERAS_BACKEND": "tensorflow",
        "HF_HUB_OFFLINE": "1",
    }
    began, used = time.monotonic(), processor_seconds()
    done = subprocess.run(
        [python, str(script)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    seconds = time.monotonic() - began
    if done.returncode:
        why = done.stderr[-2000:]
        sys.exit(f"{script} ended with {done.returncode}: {why}")
    return seconds, processor_seconds() - used


def processor_seconds() -> float:
    """The processor time of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
