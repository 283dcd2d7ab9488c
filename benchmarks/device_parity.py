"""Three training steps with dropout on a GPU, and the same on the CPU.

    python benchmarks/device_parity.py --size=base

Each side is a process with the same weights and batch (8 rows of 128 tokens).
Prints, by device and precision, the losses and how far they are from those of
the CPU in float32, relatively. Where TensorFlow finds no GPU, all sides are the
CPU, and say so. --replicas=2 makes two devices of the GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
NUM_STEPS = 3
# By name: the precision, and variables of the environment.
SIDES = {
    "the CPU, float32": ("float32", {"CUDA_VISIBLE_DEVICES": ""}),
    "float32, full products": ("float32", {"NVIDIA_TF32_OVERRIDE": "0"}),
    "float32 as TensorFlow has it": ("float32", {}),
    "bfloat16": ("mixed_bfloat16", {}),
}


def train(size: str, precision: str, num_replicas: int) -> dict[str, Any]:
    from bert_keras.cli import command

    command.import_tensorflow()

    import numpy as np
    import tensorflow as tf
    from shared_weights import NOISE, config_of, make_batch

    from bert_keras.tasks import run_context
    from bert_keras.tasks.pretraining.model import Pretraining
    from bert_keras.tasks.trainer import make_model
    from bert_keras.training.config import (
        DeviceConfig,
        LoopConfig,
        OptimizerConfig,
    )
    from bert_keras.training.distribution import split_between_replicas
    from bert_keras.training.loop import StepFunction, stack
    from bert_keras.training.optimization import AdamW

    gpus = tf.config.list_physical_devices("GPU")
    if gpus and num_replicas > 1:
        part = tf.config.LogicalDeviceConfiguration(memory_limit=20_000)
        tf.config.set_logical_device_configuration(
            gpus[0], [part] * num_replicas
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "batch.npz")
        make_batch(path, 8, 128)
        batch = {name: tf.constant(x) for name, x in np.load(path).items()}
        run = run_context.RunConfig(output_dir=folder, precision=precision)
        devices = run_context.make_devices(DeviceConfig())
        model = make_model(
            lambda: Pretraining(config_of(size)), devices, run, 0
        )
    numbers = np.random.default_rng(0)
    for variable in model.variables:
        noise = numbers.standard_normal(variable.shape, np.float32)
        variable.assign(variable.numpy() + NOISE * noise)
    strategy, host = devices
    config = OptimizerConfig(learning_rate=1e-4, num_warmup_steps=0)
    with strategy.scope():
        optimizer = AdamW(model.trainable_variables, config)
    run_steps = StepFunction(model, optimizer, strategy, LoopConfig())
    shares = split_between_replicas(strategy, host, stack([batch] * NUM_STEPS))
    return {
        "device": "GPU" if gpus else "CPU",
        "replicas": strategy.num_replicas_in_sync,
        "losses": [figures["loss"] for figures in run_steps(shares, 0)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="base")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    job = parser.parse_args()
    if job.side:
        print(json.dumps(train(job.size, SIDES[job.side][0], job.replicas)))
        return
    expected: list[float] = []
    for side, (_, environment) in SIDES.items():
        done = subprocess.run(
            [
                *(sys.executable, __file__, f"--side={side}"),
                *(f"--size={job.size}", f"--replicas={job.replicas}"),
            ],
            env={**os.environ, **environment},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        found = json.loads(done.stdout.splitlines()[-1])
        losses = found["losses"]
        expected = expected or losses
        furthest = max(
            abs(x - y) / abs(y) for x, y in zip(losses, expected, strict=True)
        )
        shown = ", ".join(f"{loss:.7g}" for loss in losses)
        print(
            f"{side} ({found['replicas']} {found['device']}): losses {shown}; "
            f"furthest {furthest:.1e}"
        )


if __name__ == "__main__":
    main()
