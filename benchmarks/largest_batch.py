"""The largest batch that fits into a given memory, by peaks of real steps.

    python benchmarks/largest_batch.py --memory_gib=24

A step of pre-training runs in a process of its own, whose peak of resident
memory is read at its end and which is stopped where it passes `--child_gib`.
These steps are of models with few layers and of few rows. What they took beyond
12 bytes a parameter (weights and moments; gradients come while activations go)
is taken to be, with T positions in rows of S, L layers, and M parameters where
micro-batches are accumulated and else 0,

    a + b T + c T L + d T S + e M

with d T (L - 0.85) S for d T S where all is kept, by least squares, and the
largest batch is extrapolated from there. A longer step of more layers that was
left out says how far this is off. Of S positions 0.15 S are predicted, where
alone the last layer has queries.
"""

import argparse
import dataclasses
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from bert_keras.cli import command

from bert_keras.modeling.config import BertConfig

VOCAB_SIZE = 30522
MIB = 1 << 20
GIB = 1 << 30
MASKED_LM_PROB = 0.15
NUM_LAYERS = {"base": 12, "large": 24}


STATE_BYTES = 12  # a parameter: itself and two moments, each float32
# Layers, positions in all and in a row, micro-batches. Enough positions that
# the peak is that of the backward pass and not of the update.
FITTED = {
    False: [
        (2, 2560, 128, 1),
        (4, 1536, 128, 1),
        (4, 2560, 128, 1),
        (2, 2560, 512, 1),
        (4, 1536, 512, 1),
        (4, 2560, 512, 1),
        (4, 1536, 128, 2),
    ],
    True: [
        (2, 3072, 128, 1),
        (2, 6144, 128, 1),
        (6, 6144, 128, 1),
        (2, 3072, 512, 1),
        (2, 6144, 512, 1),
        (6, 6144, 512, 1),
        (2, 6144, 128, 2),
    ],
}
LEFT_OUT = {False: (8, 1152, 384, 1), True: (8, 7680, 384, 1)}


@dataclasses.dataclass(frozen=True)
class Case:
    """A step of a model."""

    size: str
    precision: str  # of RunConfig
    recompute: bool
    num_layers: int
    num_positions: int  # of a micro-batch
    length: int  # of a row
    num_micro_batches: int

    @property
    def rows(self) -> int:
        """Of the batch."""
        return self.num_positions // self.length * self.num_micro_batches

    @property
    def config(self) -> BertConfig:
        return dataclasses.replace(
            BertConfig.of_size(self.size, VOCAB_SIZE),
            num_hidden_layers=self.num_layers,
        )

    @property
    def num_parameters(self) -> int:
        """But for biases and LayerNorm."""
        config = self.config
        hidden = config.hidden_size
        layer = 4 * hidden**2 + 2 * hidden * config.intermediate_size
        rows = VOCAB_SIZE + config.max_position_embeddings
        return rows * hidden + self.num_layers * layer

    def terms(self) -> np.ndarray:
        """What is multiplied by what is found out."""
        positions, layers = self.num_positions, self.num_layers
        kept = 1 if self.recompute else layers - 1 + MASKED_LM_PROB
        seen = positions * self.length * kept
        accumulated = self.num_parameters * (self.num_micro_batches > 1)
        return np.array(
            [1, positions, positions * layers, seen, accumulated], float
        )


class Fit:
    """Peaks of all cases of a size that are trained in one way."""

    def __init__(self, peaks: dict[Case, int]):
        terms = np.array([case.terms() for case in peaks])
        rest = np.array([p - self._state(case) for case, p in peaks.items()])
        self.weights = np.linalg.lstsq(terms, rest, rcond=None)[0]

    def peak(self, case: Case) -> float:
        """Bytes."""
        return self._state(case) + float(case.terms() @ self.weights)

    def _state(self, case: Case) -> int:
        return STATE_BYTES * case.num_parameters


def run_step(case: Case) -> None:
    """A step as run_pretraining.py does it, on random pieces."""
    command.import_tensorflow()
    import tensorflow as tf

    from bert_keras.tasks import trainer
    from bert_keras.tasks.pretraining.model import Pretraining
    from bert_keras.training.config import LoopConfig, OptimizerConfig
    from bert_keras.training.distribution import Host
    from bert_keras.training.loop import StepFunction
    from bert_keras.training.optimization import AdamW

    run = trainer.RunConfig(
        "", None, None, None, case.precision, recompute=case.recompute
    )
    strategy = tf.distribute.get_strategy()
    place = trainer.Devices(strategy, Host(0, 1))
    model = trainer.make_model(lambda: Pretraining(case.config), place, run, 1)
    loop = LoopConfig(num_accumulation_steps=case.num_micro_batches)
    optimizer = AdamW(model.trainable_variables, OptimizerConfig())
    StepFunction(model, optimizer, strategy, loop)(random_batch(case), 0)


def random_batch(case: Case) -> dict[str, Any]:
    """Full rows, each feature [1, rows, length]."""
    import tensorflow as tf

    rows, length = case.rows, case.length
    num_predictions = math.ceil(MASKED_LM_PROB * length)

    def below(bound: int, width: int) -> tf.Tensor:
        return tf.random.uniform([1, rows, width], 0, bound, tf.int32)

    return {
        "input_ids": below(VOCAB_SIZE, length),
        "input_mask": tf.ones([1, rows, length], tf.int32),
        "segment_ids": below(2, length),
        "masked_lm_positions": below(length, num_predictions),
        "masked_lm_ids": below(VOCAB_SIZE, num_predictions),
        "masked_lm_weights": tf.ones([1, rows, num_predictions]),
        "next_sentence_labels": below(2, 1),
    }


def peak(case: Case, child_bytes: float) -> int:
    """Bytes of a step of this in a process of its own."""
    spec = json.dumps(dataclasses.asdict(case))
    process = subprocess.Popen(
        [sys.executable, __file__, f"--child={spec}"], stdout=subprocess.DEVNULL
    )
    while True:
        number, status, usage = os.wait4(process.pid, os.WNOHANG)
        if number:
            break
        if resident(process.pid) > child_bytes:
            process.kill()
            os.wait4(process.pid, 0)
            sys.exit(f"{case} passed --child_gib")
        time.sleep(0.05)
    if status:
        sys.exit(f"{case} failed")
    found = usage.ru_maxrss * 1024
    print(f"measured {found / MIB:,.0f} MiB: {case}", file=sys.stderr)
    return found


def resident(pid: int) -> int:
    """Bytes of memory of a process; 0 where it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def measured(
    size: str, recompute: bool, flags: argparse.Namespace
) -> tuple[Fit, float]:
    """What was found, and by which share the step that was left out is off."""

    def case(where: tuple[int, int, int, int]) -> Case:
        return Case(size, flags.precision, recompute, *where)

    limit = flags.child_gib * GIB
    fit = Fit({case(at): peak(case(at), limit) for at in FITTED[recompute]})
    left_out = case(LEFT_OUT[recompute])
    return fit, peak(left_out, limit) / fit.peak(left_out) - 1


def largest(
    size: str, recompute: bool, length: int, fit: Fit, memory: float
) -> list[str]:
    """Cells of the table: GiB without rows, MiB a row, and rows."""

    def total(rows: int, num_micro_batches: int) -> float:
        layers = NUM_LAYERS[size]
        where = layers, rows * length, length, num_micro_batches
        return fit.peak(Case(size, "", recompute, *where))

    cells = []
    per_row = total(1, 1) - total(0, 1)
    for count in (1, 2):
        room = memory - total(0, count)
        cells.append(str(max(0, math.floor(room / per_row))))
    return [f"{total(0, 1) / GIB:.1f}", f"{per_row / MIB:,.0f}", *cells]


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="base,large")
    parser.add_argument("--lengths", default="128,256,384,512")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--memory_gib", type=float, default=24)
    parser.add_argument("--child_gib", type=float, default=10)
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    flags = parse_flags()
    if flags.child:
        run_step(Case(**flags.child))
        return
    print(
        "| model | positions | recomputed | GiB without rows | MiB a row |"
        " rows | rows of a micro-batch | off |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for size in flags.sizes.split(","):
        for recompute in (False, True):
            fit, off = measured(size, recompute, flags)
            way = "yes" if recompute else "no"
            for length in map(int, flags.lengths.split(",")):
                cells = largest(
                    size, recompute, length, fit, flags.memory_gib * GIB
                )
                row = [size, str(length), way, *cells, f"{off:+.1%}"]
                print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
