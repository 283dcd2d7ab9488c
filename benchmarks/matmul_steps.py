"""A product of two square matrices through TensorFlow, for steps.py: what the
machine does at best, at the moment of the other measurements."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent / "peers"))

from bert_keras.cli import command

import numpy as np
import worker

SIZES = {"cpu": 2048, "cuda": 8192}
NUM_PRODUCTS = 8  # before their result is waited for


def main() -> None:
    job = worker.read_job()
    command.import_tensorflow()
    import tensorflow as tf

    size = SIZES[job.device]
    dtype = tf.bfloat16 if job.is_bfloat16 else tf.float32
    factors = [
        tf.cast(tf.random.stateless_normal([size, size], [0, seed]), dtype)
        for seed in (1, 2)
    ]

    @tf.function
    def product(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.matmul(a, b)

    def step() -> np.ndarray:
        for _ in range(NUM_PRODUCTS):
            result = product(*factors)
        return result[0, 0].numpy()

    worker.serve(step, NUM_PRODUCTS)


if __name__ == "__main__":
    main()
