"""Training steps, forward passes, prediction: here and in four other projects.

    python benchmarks/steps.py --work_dir=/tmp/steps --sizes mini 6x384

The peers (transformers under torch, KerasHub, TensorFlow's Model Garden,
google-research/bert under TensorFlow 1.15) are installed on first use, each in
an environment of its own under the work folder; --env_dir names a folder that
has them already, or links to them, by those names: transformers, keras_hub,
model_garden, original. The last needs a Python 3.7.

Every side has the same random weights and the same batch, and all cores. A side
is a process that is warm before the first measurement. A peer is measured in
pairs with this project, which take turns at being first, and the product of two
2048-square matrices after each pair; a measurement is of as many steps as take
a second. Before its first step each side's loss without dropout, or its
outputs, must agree with those here; in the end its loss must have fallen.

A training step is masked language model (20 predictions a row, which alone are
scored) and next sentence, dropout, AdamW, gradients clipped. Every way of
running a peer is tried, such as eager and compiled, and the fastest has a *.
A forward pass is of one batch. Prediction (--modes prediction; on a CPU) is of
a file of eight, of which a batch's time is an eighth: here as the commands do
it, which wait for a batch when they have begun the next and cast weights once,
there one after another, under torch within one autocast, by which eager casts
them once, too.
On a GPU the peer is transformers alone, and matrices are 8192-square.
--device=cuda measures what the commands run; --device=cuda_jax the layers of
modeling/ on Keras's JAX backend (jax_steps.py), without dropout in attention.

Times are medians; "faster" is the median over pairs of the peer's time by ours,
and the share that of our rate by the matrix product's. Operations are those of
modeling/cost.py.
"""

import argparse
import dataclasses
import functools
import json
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from peer_environments import python_of
from shared_weights import (
    NUM_PREDICTIONS,
    config_of,
    make_batch,
    make_model,
)
from step_workers import Worker, WorkerError

from bert_keras.modeling.cost import BACKWARD_FORWARDS, Rows, step_flop

HERE = Path(__file__).parent
VARIANTS = {
    "transformers": ("eager", "compiled"),
    "keras_hub": ("graph", "xla"),
    "model_garden": ("graph", "xla"),
    "original": ("graph",),
}
CAN_BE_BF16 = ("transformers", "keras_hub")  # their weights, in forward passes
MODES = ("training", "forward", "prediction")
OURS, MATMUL = "ours", "matmul"


GPU_SHAPES: dict[str, tuple[str, ...]] = {
    "base": ("256x128", "64x512"),
    "large": ("128x128", "32x512"),
}


@dataclasses.dataclass(frozen=True)
class Device:
    kind: str  # as torch names it
    shapes: dict[str, tuple[str, ...]]  # by size: rows x positions
    scripts: dict[str, Path]
    matmul_size: int
    peers: tuple[str, ...]
    attention_dropout: float

    @property
    def matmul_flop(self) -> int:
        return 2 * self.matmul_size**3


DEVICES = {
    "cpu": Device(
        "cpu",
        {
            "base": ("8x128", "32x128"),
            "6x384": ("32x56",),
            "mini": ("8x128",),
        },
        {OURS: HERE / "our_steps.py", MATMUL: HERE / "matmul_steps.py"},
        2048,
        tuple(VARIANTS),
        0.1,
    ),
    "cuda": Device(
        "cuda",
        GPU_SHAPES,
        {OURS: HERE / "our_steps.py", MATMUL: HERE / "matmul_steps.py"},
        8192,
        ("transformers",),
        0.1,
    ),
    "cuda_jax": Device(
        "cuda",
        GPU_SHAPES,
        dict.fromkeys((OURS, MATMUL), HERE / "jax_steps.py"),
        8192,
        ("transformers",),
        0.0,  # Keras's fused attention has none
    ),
}
HEADER = "| work | by | ms | faster | GFLOP/s | share | outputs differ |"


@dataclasses.dataclass(frozen=True)
class Work:
    size: str
    mode: str  # one of MODES
    shape: str
    precision: str

    def __str__(self) -> str:
        return f"{self.size} {self.mode} {self.shape} {self.precision}"

    @property
    def trains(self) -> bool:
        return self.mode == "training"

    @property
    def rows(self) -> Rows:
        number, length = map(int, self.shape.split("x"))
        predictions = NUM_PREDICTIONS if self.trains else 0
        return Rows(number, length, predictions)

    @property
    def gflop(self) -> float:
        flop = step_flop(config_of(self.size), self.rows, 0)
        return (flop if self.trains else flop / (1 + BACKWARD_FORWARDS)) / 1e9


class Round(NamedTuple):
    """Milliseconds, one after another."""

    ours: float
    theirs: float
    matmul: float


@dataclasses.dataclass(frozen=True)
class Pairs:
    rounds: list[Round]
    difference: float  # between both sides' outputs, relative

    @property
    def ratio(self) -> float:
        """How many times as fast as the peer this project is."""
        return statistics.median(r.theirs / r.ours for r in self.rounds)


def share(
    rounds: Iterable[tuple[float, float]], gflop: float, matmul_flop: float
) -> float:
    """Of the matrix product's rate, that a side has.

    Args:
        rounds: milliseconds of the side and of the product.
        gflop: operations of the side's work.
    """
    return statistics.median(
        gflop * matmul / (matmul_flop / 1e9 * time) for time, matmul in rounds
    )


class Bench:
    def __init__(self, flags: argparse.Namespace):
        self.flags = flags
        self.device = DEVICES[flags.device]
        self.folder = Path(flags.work_dir).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        env_dir = Path(flags.env_dir or self.folder / "envs").absolute()
        self.works = [
            Work(size, mode, shape, precision)
            for size in flags.sizes or self.device.shapes
            for shape in flags.shapes or self.device.shapes.get(size, ["8x128"])
            for mode in flags.modes
            for precision in flags.precisions
        ]
        self.pythons = {
            peer: python_of(peer, env_dir, flags.python37)
            for peer in flags.peers or self.device.peers
            if any(self.variants(peer, work) for work in self.works)
        }
        self.matmuls: dict[str, Worker] = {}  # by precision
        self.matmul_times = defaultdict[str, list[float]](list)
        self.has_failed = False

    def start(self, work: Work, side: str, variant: str = "") -> Worker:
        config = dataclasses.replace(
            config_of(work.size),
            attention_probs_dropout_prob=self.device.attention_dropout,
        )
        name = f"{work.size}-{self.flags.device}"
        model = make_model(self.folder / "models" / name, config)
        batch = self.folder / f"batch-{work.shape}.npz"
        make_batch(batch, work.rows.number, work.rows.length)
        jobs = self.folder / "jobs"
        jobs.mkdir(exist_ok=True)
        name = f"{work} {side} {variant}".strip().replace(",", "")
        return Worker(
            self.pythons.get(side, sys.executable),
            self.device.scripts.get(side, HERE / "peers" / f"{side}_steps.py"),
            {
                "model": str(model[0]),
                "hugging_face": str(model[1]),
                "batch": str(batch),
                "mode": work.mode,
                "precision": work.precision,
                "variant": variant,
                "device": self.device.kind,
            },
            jobs / name.replace(" ", "-"),
        )

    def run(self, work: Work) -> None:
        """Prints a table's rows for one kind of work."""
        if work.precision not in self.matmuls:
            self.matmuls[work.precision] = self.start(work, MATMUL, MATMUL)
        found: dict[str, Pairs] = {}
        ours = self.start(work, OURS, "xla" if self.flags.use_xla else "")
        try:
            for peer in self.pythons:
                for variant in self.variants(peer, work):
                    pairs = self.compare(work, ours, peer, variant)
                    if pairs:
                        found[f"{peer}, {variant}"] = pairs
        finally:
            ours.close()
        print_rows(work, found, self.device.matmul_flop)

    def variants(self, peer: str, work: Work) -> list[str]:
        """How the peer is run; the original knows no bfloat16."""
        if peer == "original" and work.precision == "bf16":
            return []
        wanted = self.flags.variants or VARIANTS[peer]
        found = [name for name in VARIANTS[peer] if name in wanted]
        if peer == "transformers" and work.trains:
            found += [f"{name}, own loss" for name in found]
        if work.precision == "bf16" and not work.trains and peer in CAN_BE_BF16:
            found += [f"{name}, bf16 weights" for name in found]
        return found

    def compare(
        self, work: Work, ours: Worker, peer: str, variant: str
    ) -> Pairs | None:
        """None, and a line on standard error, where the peer fails.

        Raises:
            WorkerError: it is not the peer that has stopped.
        """
        try:
            theirs = self.start(work, peer, variant)
            try:
                rounds = self.measure(work, ours, theirs)
                difference = ours.check(theirs, work.precision)
            finally:
                theirs.close()
        except WorkerError as error:
            if ours.has_ended or self.matmuls[work.precision].has_ended:
                raise
            print(f"{work}, {peer}, {variant}: {error}", file=sys.stderr)
            self.has_failed = True
            return None
        pairs = Pairs(rounds, difference)
        self.note(work, peer, variant, pairs)
        return pairs

    def measure(self, work: Work, ours: Worker, theirs: Worker) -> list[Round]:
        matmul = self.matmuls[work.precision]
        rounds = []
        for i in range(self.flags.num_pairs):
            if i % 2:
                their_time, our_time = theirs.measure(), ours.measure()
            else:
                our_time, their_time = ours.measure(), theirs.measure()
            rounds.append(Round(our_time, their_time, matmul.measure()))
        self.matmul_times[work.precision] += [r.matmul for r in rounds]
        return rounds

    def note(self, work: Work, peer: str, variant: str, pairs: Pairs) -> None:
        """Adds what was measured to steps.jsonl."""
        values = {
            **dataclasses.asdict(work),
            "peer": peer,
            "variant": variant,
            **dataclasses.asdict(pairs),
        }
        with open(self.folder / "steps.jsonl", "a") as file:
            file.write(json.dumps(values) + "\n")

    def close(self) -> None:
        for precision, worker in self.matmuls.items():
            worker.close()
            if times := self.matmul_times[precision]:
                rate = self.device.matmul_flop / 1e6 / statistics.median(times)
                print(f"matrix product, {precision}: {rate:,.0f} GFLOP/s")


def print_rows(work: Work, found: dict[str, Pairs], matmul_flop: int) -> None:
    """This project's row, and one for each way of running a peer."""
    print_row = functools.partial(_print_row, work, matmul_flop)
    rounds = [r for pairs in found.values() for r in pairs.rounds]
    if rounds:
        ours = [(r.ours, r.matmul) for r in rounds]
        print_row("this project", ours, "", "")
    best = [
        min(names, key=lambda name: found[name].ratio)
        for peer in VARIANTS
        if (names := [name for name in found if name.startswith(peer)])
    ]
    for name, pairs in found.items():
        print_row(
            f"{name} *" if name in best else name,
            [(r.theirs, r.matmul) for r in pairs.rounds],
            f"{pairs.ratio:.2f}",
            f"{pairs.difference:.0e}",
        )


def _print_row(
    work: Work,
    matmul_flop: int,
    side: str,
    rounds: list[tuple[float, float]],
    ratio: str,
    difference: str,
) -> None:
    """`rounds`: milliseconds of the side and of the matrix product."""
    time = statistics.median(time for time, _ in rounds)
    shown = f"{time:,.0f}" if time >= 100 else f"{time:.3g}"
    of_matmul = share(rounds, work.gflop, matmul_flop)
    print(
        f"| {work} | {side} | {shown} | {ratio} "
        f"| {1000 * work.gflop / time:,.0f} "
        f"| {100 * of_matmul:.0f} % | {difference} |",
        flush=True,
    )


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work_dir", required=True)
    parser.add_argument("--env_dir", help="Else envs in the work folder.")
    parser.add_argument("--python37", help="Else looked for.")
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument(
        "--peers", nargs="+", choices=VARIANTS, help="Else the device's."
    )
    kinds = sorted({name for names in VARIANTS.values() for name in names})
    parser.add_argument(
        "--variants", nargs="+", choices=kinds, help="Else all."
    )
    sizes = sorted({x for device in DEVICES.values() for x in device.shapes})
    parser.add_argument(
        "--sizes", nargs="+", choices=sizes, help="Else the device's."
    )
    parser.add_argument("--shapes", nargs="+", help="Else each size's own.")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES[:2])
    precisions = ["bf16", "fp32"]
    parser.add_argument(
        "--precisions", nargs="+", choices=precisions, default=precisions
    )
    parser.add_argument(
        "--use_xla", action="store_true", help="Training here, as the commands."
    )
    parser.add_argument("--num_pairs", type=int, default=5)
    flags = parser.parse_args()
    if flags.device != "cpu" and "prediction" in flags.modes:
        parser.error("--modes prediction is measured on a CPU alone")
    if flags.use_xla and (
        flags.device == "cuda_jax" or list(flags.modes) != ["training"]
    ):
        parser.error(
            "--use_xla compiles TensorFlow's training: give --modes training, "
            "and not --device=cuda_jax"
        )
    wanted = set(flags.variants or kinds)
    for peer in flags.peers or ():
        if wanted.isdisjoint(VARIANTS[peer]):
            parser.error(f"--variants of {peer} are {VARIANTS[peer]}")
    return flags


def main() -> None:
    flags = read_flags()
    # For this process and all that it starts.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    if flags.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    else:  # or the first process takes nearly all of its memory
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    bench = Bench(flags)
    print(HEADER)
    print("|---" * (HEADER.count("|") - 1) + "|", flush=True)
    try:
        for work in bench.works:
            bench.run(work)
    except WorkerError as error:
        sys.exit(f"this project or the matrix product: {error}")
    finally:
        bench.close()
    sys.exit(bench.has_failed)


if __name__ == "__main__":
    main()
