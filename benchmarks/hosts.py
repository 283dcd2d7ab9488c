"""Several hosts, as processes of one machine: equal to one device, and killed.

    python benchmarks/hosts.py --num_hosts 2 3 --output_dir=/tmp/hosts

run_pretraining.py on a tiny model without dropout, alone and on several hosts;
then again, one host killed (SIGKILL) after some steps, and all of them started
anew: once the chief, once the last. Prints the largest difference between the
weights, and what became of the hosts that were not killed.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import tensorflow as tf

from bert_keras.data.record_schema import pretraining_features
from bert_keras.data.tfrecords import RecordWriter, encode
from tests.conftest import (
    NUM_PREDICTIONS,
    ROOT,
    SEQ_LENGTH,
    TINY,
    free_ports,
    tiny_record,
)

NUM_STEPS, SAVE_STEPS, KILL_STEP = 60, 5, 12
PATIENCE_S = 90.0  # with the hosts that are left


def make_inputs(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "bert_config.json").write_text(TINY.to_json())
    features = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
    rng = np.random.default_rng(5)
    with RecordWriter([str(folder / f"{i}.tfrecord") for i in (1, 2)]) as out:
        for _ in range(101):
            out.write(encode(features, tiny_record(rng)))


def start(inputs: Path, output: Path, count: int) -> list[subprocess.Popen]:
    """A process for each host; one alone knows of no hosts."""
    output.mkdir(parents=True, exist_ok=True)
    hosts = [f"127.0.0.1:{port}" for port in free_ports(count)]
    processes = []
    for index in range(count):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": hosts}, "task": task}
        text = json.dumps(config) if count > 1 else ""
        with open(output / f"host-{index}.txt", "a") as said:
            processes.append(
                subprocess.Popen(
                    [
                        *(sys.executable, "run_pretraining.py", "--do_train"),
                        f"--input_file={inputs}/*.tfrecord",
                        f"--bert_config_file={inputs}/bert_config.json",
                        f"--output_dir={output}",
                        f"--max_seq_length={SEQ_LENGTH}",
                        f"--max_predictions_per_seq={NUM_PREDICTIONS}",
                        *("--train_batch_size=12", "--learning_rate=1e-3"),
                        *(
                            "--num_warmup_steps=3",
                            f"--num_train_steps={NUM_STEPS}",
                        ),
                        f"--save_checkpoints_steps={SAVE_STEPS}",
                    ],
                    cwd=ROOT,
                    env={**os.environ, "TF_CONFIG": text},
                    stdout=said,
                    stderr=said,
                )
            )
    return processes


def finish(processes: list[subprocess.Popen]) -> None:
    codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit(f"hosts ended with {codes}; see their host-*.txt")


def kill_one(
    processes: list[subprocess.Popen], index: int, output: Path
) -> str:
    """Kills that host after KILL_STEP; says how the others ended."""
    log = output / "train_log.jsonl"
    while not (log.exists() and log.read_text().count("\n") >= KILL_STEP):
        if any(process.poll() is not None for process in processes):
            sys.exit(f"a host ended by itself; see {output}/host-*.txt")
        time.sleep(0.02)
    others = list(processes)
    victim = others.pop(index)
    victim.kill()
    begin = time.monotonic()
    ends = []
    for process in others:
        left = max(0.0, begin + PATIENCE_S - time.monotonic())
        try:
            code = process.wait(timeout=left)
            after_s = time.monotonic() - begin
            ends.append(f"exit {code} after {after_s:.0f} s")
        except subprocess.TimeoutExpired:
            process.kill()
            ends.append(f"waited for {PATIENCE_S:.0f} s, then killed")
    if victim.wait() != -signal.SIGKILL:
        sys.exit("the host ended before it was killed: raise NUM_STEPS")
    return ", ".join(ends)


def difference(folder: Path, other: Path) -> float:
    """The largest between two models' weights."""
    one, two = (
        tf.train.load_checkpoint(str(each / "bert_model.ckpt"))
        for each in (folder, other)
    )
    return max(
        float(np.abs(one.get_tensor(name) - two.get_tensor(name)).max())
        for name in one.get_variable_to_shape_map()
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_hosts", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--output_dir", type=Path, required=True)
    flags = parser.parse_args()
    folder, inputs = flags.output_dir, flags.output_dir / "inputs"
    make_inputs(inputs)
    finish(start(inputs, folder / "one", 1))
    for count in flags.num_hosts:
        whole = folder / f"{count}"
        finish(start(inputs, whole, count))
        print(
            f"{count} hosts, {NUM_STEPS} steps: weights differ from those of "
            f"one device by at most {difference(whole, folder / 'one'):.1e}",
            flush=True,
        )
        for index in (0, count - 1):  # the chief, and another
            cut = folder / f"{count}-killed-{index}"
            ends = kill_one(start(inputs, cut, count), index, cut)
            finish(start(inputs, cut, count))
            print(
                f"  host {index} killed after step {KILL_STEP} (the others: "
                f"{ends}), all started again: weights differ from those of the "
                f"undisturbed run by at most {difference(cut, whole):.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
