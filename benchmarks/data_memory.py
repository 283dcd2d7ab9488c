"""Peak memory of create_pretraining_data.py on a text and on copies of it.

    python benchmarks/data_memory.py --input_file=text.txt \\
        --vocab_file=vocab.txt --output_dir=/tmp/memory

The largest of all its processes: resident, shared libraries included.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
# A process of its own for each run: the peak is that of all its children.
RUN = """
import json, resource, subprocess, sys, time
start = time.monotonic()
done = subprocess.run(sys.argv[1:], stdout=sys.stderr)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
seconds = time.monotonic() - start
print(json.dumps([done.returncode, peak, seconds]))
"""


def run(flags: argparse.Namespace, copies: int) -> float:
    """Peak in MiB."""
    folder = Path(flags.output_dir, str(copies)).absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for copy in range(copies):
        (folder / f"{copy}.txt").symlink_to(os.path.abspath(flags.input_file))
    command = [
        *(sys.executable, "create_pretraining_data.py"),
        f"--input_file={folder}/*.txt",
        f"--input_format={flags.input_format}",
        f"--vocab_file={os.path.abspath(flags.vocab_file)}",
        f"--output_file={folder}/records.tfrecord",
        f"--num_workers={flags.num_workers}",
        f"--dupe_factor={flags.dupe_factor}",
        f"--worker_memory_mb={flags.worker_memory_mb}",
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    code, peak, seconds = json.loads(done.stdout)
    if code:
        sys.exit(code)
    size = os.path.getsize(folder / "records.tfrecord") / 1e6
    print(
        f"{copies} copies: peak {peak / 1024:,.0f} MiB, {seconds:,.0f} s, "
        f"{size:,.0f} MB of records",
        flush=True,
    )
    shutil.rmtree(folder)
    return peak / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--input_file", required=True)
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--input_format", default="paragraphs")
    parser.add_argument("--num_workers", type=int, default=2)
    parser.add_argument("--dupe_factor", type=int, default=5)
    parser.add_argument("--worker_memory_mb", type=int, default=512)
    parser.add_argument("--copies", type=int, nargs=2, default=[1, 10])
    flags = parser.parse_args()
    peaks = [run(flags, copies) for copies in flags.copies]
    print(f"ratio of the peaks: {peaks[1] / peaks[0]:.2f}")


if __name__ == "__main__":
    main()
