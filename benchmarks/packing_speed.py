"""Real tokens a second of pre-training on padded rows and on packed ones.

    python benchmarks/packing_speed.py --text_file=$TEXT --vocab_file=$VOCAB \\
        --bert_config_file=$CONFIG --work_dir=/tmp/packing_speed

Makes records of 512 positions of $TEXT, packs them, and runs run_pretraining.py
on both by turns, some steps each. A run's rate is the median of its steps',
padding left out: those of train_log.jsonl times the share of positions that are
filled, as pack_records.py prints it. The first steps of a run, which trace and
compile, do not count.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SIZES = ["--max_seq_length=512", "--max_predictions_per_seq=76"]
NUM_STEPS, NUM_WARM_STEPS, BATCH_SIZE = 12, 2, 8


def run(*words: str) -> str:
    """Its standard output."""
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, text=True, capture_output=True
    )
    if done.returncode:
        sys.exit(f"{words[0]} failed: {done.stderr[-2000:]}")
    return done.stdout


def positions_per_second(flags: argparse.Namespace, records: Path) -> float:
    with tempfile.TemporaryDirectory(dir=records.parent) as output:
        run(
            *("run_pretraining.py", *SIZES, "--do_train"),
            f"--input_file={records}",
            f"--bert_config_file={flags.bert_config_file}",
            f"--output_dir={output}",
            f"--train_batch_size={BATCH_SIZE}",
            f"--num_train_steps={NUM_STEPS}",
            f"--precision={flags.precision}",
        )
        log = Path(output, "train_log.jsonl").read_text().splitlines()
    rates = [json.loads(line)["tokens_per_second"] for line in log]
    return statistics.median(rates[NUM_WARM_STEPS:])


def main() -> None:
    parser = argparse.ArgumentParser()
    path = os.path.abspath  # commands run in another folder
    parser.add_argument("--text_file", type=path, required=True)
    parser.add_argument("--vocab_file", type=path, required=True)
    parser.add_argument("--bert_config_file", type=path, required=True)
    parser.add_argument("--work_dir", required=True)
    parser.add_argument("--input_format", default="sentences")
    parser.add_argument("--precision", default="mixed_bfloat16")
    parser.add_argument("--num_pairs", type=int, default=5)
    flags = parser.parse_args()
    folder = Path(flags.work_dir).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    padded, packed = folder / "padded.tfrecord", folder / "packed.tfrecord"
    run(
        *("create_pretraining_data.py", *SIZES, "--dupe_factor=1"),
        f"--input_file={flags.text_file}",
        f"--input_format={flags.input_format}",
        f"--vocab_file={flags.vocab_file}",
        f"--output_file={padded}",
    )
    report = run(
        *("pack_records.py", *SIZES, f"--input_file={padded}"),
        f"--output_file={packed}",
    )
    filled = [float(x) / 100 for x in re.findall(r"filled +([\d.]+)%", report)]
    sides = dict(zip((padded, packed), filled, strict=True))
    rates: dict[Path, list[float]] = {padded: [], packed: []}
    for i in range(flags.num_pairs):
        for side in list(sides)[:: -1 if i % 2 else 1]:
            rate = sides[side] * positions_per_second(flags, side)
            rates[side].append(rate)
            print(f"{side.stem}: {rate:,.0f} real tokens/s", flush=True)
    print("| rows | filled | real tokens a second | times the padded |")
    print("|---|---|---|---|")
    for side, own in rates.items():
        pairs = zip(own, rates[padded], strict=True)
        ratio = statistics.median(mine / theirs for mine, theirs in pairs)
        print(
            f"| {side.stem} | {100 * sides[side]:.1f} % "
            f"| {statistics.median(own):,.0f} | {ratio:.2f} |"
        )


if __name__ == "__main__":
    main()
