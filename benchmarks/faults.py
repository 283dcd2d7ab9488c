"""Kills training at random moments and compares what it ends with, bit by bit.

    python benchmarks/faults.py --work_dir=/tmp/faults

Each of the three commands that train is run on a tiny model with dropout: once
without a stop, then again and again in new folders, where SIGKILL ends the
process several times and the same command resumes each time. One kill in five
falls into the start, the others into the training. Then the seconds that a
command needs from its start to its first step, 10 and 10,000 steps in.
Pre-training is done with accumulation and dynamic masking, from several files,
and on packed rows.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"
BATCH_SIZE, NUM_EXAMPLES = 8, 64  # 8 steps an epoch
NUM_FILES = 6  # of records, more than are read at once
POLL_SECONDS = 0.01


@dataclasses.dataclass(frozen=True)
class Case:
    """A command and all of its flags but the folder and the length."""

    name: str
    script: str
    flags: tuple[str, ...]

    def command(self, folder: Path, num_steps: int) -> list[str]:
        length = (
            f"--num_train_steps={num_steps}"
            if self.script == "run_pretraining.py"
            else f"--num_train_epochs={num_steps * BATCH_SIZE / NUM_EXAMPLES}"
        )
        return [
            sys.executable,
            str(ROOT / self.script),
            "--do_train",
            *self.flags,
            f"--train_batch_size={BATCH_SIZE}",
            f"--output_dir={folder}",
            length,
        ]


@dataclasses.dataclass
class Outcome:
    """Of one run in a folder of its own."""

    kills_at_start: int = 0
    kills_in_training: int = 0
    faults: tuple[str, ...] = ()  # what differs from the run without a stop

    @property
    def kills(self) -> int:
        return self.kills_at_start + self.kills_in_training


class Process:
    """A command in a process, and when it made its first step."""

    def __init__(self, command: list[str], log: Path):
        self.log = log
        self.began = time.monotonic()
        with log.open("w") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=output, stderr=output
            )

    def wait_for_step(self) -> float:
        """Seconds from the start to the first step, or to the end."""
        while self.process.poll() is None:
            if "\nstep " in "\n" + self.log.read_text():
                break
            time.sleep(POLL_SECONDS)
        return time.monotonic() - self.began

    def finish(self) -> float:
        """Seconds from the start to the end, which must be a good one."""
        if self.process.wait():
            raise SystemExit(f"{self.log}:\n{self.log.read_text()}")
        return time.monotonic() - self.began

    def kill_after(self, seconds: float) -> bool:
        """Whether it was still there to be killed."""
        time.sleep(seconds)
        self.process.send_signal(signal.SIGKILL)
        return self.process.wait() == -signal.SIGKILL


def run(*command: str) -> None:
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)


def make_cases(folder: Path) -> list[Case]:
    """Writes what the commands read."""
    vocab = (GOLDEN / "tiny_vocab.txt").read_text("utf-8").splitlines()
    config = {
        "vocab_size": len(vocab),
        "hidden_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 5,
        "intermediate_size": 53,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 64,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
    }
    (folder / "bert_config.json").write_text(json.dumps(config))
    common = (
        f"--bert_config_file={folder}/bert_config.json",
        f"--vocab_file={GOLDEN}/tiny_vocab.txt",
        "--learning_rate=1e-3",
        "--save_checkpoints_steps=7",
    )
    words = [w for w in vocab if w.isalpha()]
    return [
        *_pretraining(folder, common),
        _classifier(folder, common, words),
        _squad(folder, common, words),
    ]


def _pretraining(folder: Path, common: tuple[str, ...]) -> list[Case]:
    shape = ("--max_seq_length=64", "--max_predictions_per_seq=10")
    for name, count in {"raw": NUM_FILES, "plain": 1}.items():
        paths = [f"{folder}/{name}-{i}.tfrecord" for i in range(count)]
        run(
            "create_pretraining_data.py",
            f"--input_file={GOLDEN}/tiny_corpus.txt",
            f"--vocab_file={GOLDEN}/tiny_vocab.txt",
            f"--output_file={','.join(paths)}",
            "--dupe_factor=5",
            f"--dynamic_masking={str(name == 'raw').lower()}",
            *shape,
        )
    packed = f"{folder}/packed.tfrecord"
    run(
        "pack_records.py",
        f"--input_file={folder}/plain-0.tfrecord",
        f"--output_file={packed}",
        *shape,
    )
    script, warm_up = "run_pretraining.py", "--num_warmup_steps=10"
    raw = f"--input_file={folder}/raw-*.tfrecord"
    extra = "--num_accumulation_steps=2"
    return [
        Case(
            "run_pretraining, masks drawn",
            script,
            (*common, *shape, warm_up, raw, extra),
        ),
        Case(
            "run_pretraining, packed",
            script,
            (*common, *shape, warm_up, f"--input_file={packed}"),
        ),
    ]


def _classifier(
    folder: Path, common: tuple[str, ...], words: list[str]
) -> Case:
    rng = random.Random(3)
    lines = ["label\ttext"]
    for number in range(NUM_EXAMPLES):
        text = " ".join(rng.choices(words, k=rng.randint(3, 20)))
        lines.append(f"{'ab'[number % 2]}\t{text}")
    path = folder / "train.tsv"
    path.write_text("\n".join(lines) + "\n")
    flags = (f"--train_file={path}", "--max_seq_length=32")
    extra = "--num_accumulation_steps=2"
    return Case("run_classifier", "run_classifier.py", (*common, *flags, extra))


def _squad(folder: Path, common: tuple[str, ...], words: list[str]) -> Case:
    rng = random.Random(5)
    paragraphs = []
    for number in range(NUM_EXAMPLES):
        chosen = rng.choices(words, k=12)
        place = rng.randrange(12)
        start = len(" ".join(chosen[:place])) + (place > 0)
        answer = {"text": chosen[place], "answer_start": start}
        question = {
            "id": str(number),
            "question": " ".join(rng.choices(words, k=4)),
            "answers": [answer],
        }
        paragraphs.append({"context": " ".join(chosen), "qas": [question]})
    path = folder / "train.json"
    data = [{"title": "", "paragraphs": paragraphs}]
    path.write_text(json.dumps({"version": "1.1", "data": data}))
    lengths = ("--max_seq_length=48", "--max_query_length=16")
    flags = (f"--train_file={path}", *lengths, "--doc_stride=16")
    return Case("run_squad", "run_squad.py", (*common, *flags))


def differences(folder: Path, other: Path) -> tuple[str, ...]:
    """What is not the same in two folders of output: weights, losses."""
    import numpy as np
    import tensorflow as tf

    readers = [
        tf.train.load_checkpoint(str(f / "bert_model.ckpt"))
        for f in (folder, other)
    ]
    names = sorted(readers[0].get_variable_to_shape_map())
    unequal = [
        name
        for name in names
        if not np.array_equal(*(reader.get_tensor(name) for reader in readers))
    ]
    logs = [
        [
            (line["step"], line["loss"])
            for line in map(
                json.loads, (f / "train_log.jsonl").read_text().splitlines()
            )
        ]
        for f in (folder, other)
    ]
    return (*unequal, *(["the losses"] if logs[0] != logs[1] else []))


class Trial:
    """Runs of one case, compared with one that was not stopped."""

    def __init__(self, case: Case, folder: Path, num_steps: int, seed: int):
        self.case = case
        self.folder = folder
        self.num_steps = num_steps
        self.rng = random.Random(f"{seed} {case.name}")
        folder.mkdir(parents=True)
        self.straight = folder / "straight"
        process = self._start(self.straight)
        self.start_seconds = process.wait_for_step()
        self.train_seconds = process.finish() - self.start_seconds

    def _start(self, output_dir: Path) -> Process:
        log = self.folder / f"{output_dir.name}.log"
        return Process(self.case.command(output_dir, self.num_steps), log)

    def kill_often(self, number: int, max_kills: int) -> Outcome:
        """One run, killed at most so often and then let go to its end."""
        outcome = Outcome()
        output_dir = self.folder / f"killed-{number}"
        for _ in range(max_kills):
            process = self._start(output_dir)
            if self.rng.random() < 0.2:
                delay = self.rng.uniform(0, self.start_seconds)
                outcome.kills_at_start += process.kill_after(delay)
                continue
            process.wait_for_step()
            share = 2 * self.train_seconds / (max_kills + 1)
            delay = self.rng.uniform(0, share)
            outcome.kills_in_training += process.kill_after(delay)
        self._start(output_dir).finish()
        outcome.faults = differences(self.straight, output_dir)
        return outcome

    def kill(self, kills: int, kills_per_run: int) -> list[Outcome]:
        """Runs until so many kills have met a process that was there."""
        outcomes: list[Outcome] = []
        while left := kills - sum(o.kills for o in outcomes):
            outcomes.append(
                self.kill_often(len(outcomes), min(left, kills_per_run))
            )
        return outcomes


def start_seconds(case: Case, folder: Path, steps: list[int]) -> list[float]:
    """From the start to the first step, so many steps in."""
    found = []
    for number in steps:
        for last in (number, number + 3):
            command = case.command(folder, last)
            command.append("--save_checkpoints_steps=1000")
            process = Process(command, folder.with_suffix(".log"))
            seconds = process.wait_for_step()
            process.finish()
        found.append(seconds)
    return found


def show_kills(
    cases: list[Case], flags: argparse.Namespace, map_jobs: Callable
) -> bool:
    """Prints a line a case; whether all runs ended with the same bits."""
    share = {c: flags.kills // sum(d.script == c.script for d in cases)
             for c in cases}  # fmt: skip

    def work(case: Case) -> list[Outcome]:
        folder = flags.work_dir / case.name.replace(", ", "-").replace(" ", "-")
        trial = Trial(case, folder, flags.num_steps, flags.seed)
        return trial.kill(share[case], flags.kills_per_run)

    print("| command | kills: start | training | runs | bit-identical |")
    print("|---|---|---|---|---|", flush=True)
    is_good = True
    for case, outcomes in zip(cases, map_jobs(work, cases), strict=True):
        good = sum(not outcome.faults for outcome in outcomes)
        is_good &= good == len(outcomes)
        print(
            f"| {case.name} | {sum(o.kills_at_start for o in outcomes)} | "
            f"{sum(o.kills_in_training for o in outcomes)} | "
            f"{len(outcomes)} | {good} |",
            flush=True,
        )
        for outcome in outcomes:
            if outcome.faults:
                print(f"  differ: {', '.join(outcome.faults)}")
    return is_good


def show_starts(cases: list[Case], flags: argparse.Namespace) -> None:
    """One at a time, that they do not slow each other."""
    steps = [10, flags.late_step]
    print(f"\n| seconds to the first step | {steps[0]} in | {steps[1]} in |")
    print("|---|---|---|", flush=True)
    for number, case in enumerate(cases):
        folder = flags.work_dir / f"starts-{number}"
        early, late = start_seconds(case, folder, steps)
        print(f"| {case.name} | {early:.1f} | {late:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work_dir", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=20, help="of a command")
    parser.add_argument("--kills_per_run", type=int, default=4)
    parser.add_argument("--num_steps", type=int, default=400)
    parser.add_argument("--late_step", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="at once")
    flags = parser.parse_args()
    flags.work_dir.mkdir(parents=True, exist_ok=True)
    cases = make_cases(flags.work_dir)
    with concurrent.futures.ThreadPoolExecutor(flags.jobs) as pool:
        is_good = show_kills(cases, flags, pool.map)
    # one of each command
    show_starts(list({case.script: case for case in cases}.values()), flags)
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
