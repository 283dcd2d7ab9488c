"""The training step or forward pass of modeling/ on Keras's JAX backend, for
steps.py --device=cuda_jax, or the product of two matrices of 8192.

Not what commands run, which are of TensorFlow: the same layers and losses in a
step of JAX, compiled whole, with Keras's AdamW. Where attention has no dropout,
Keras chooses its kernel.

Shapes: B rows, S positions, H hidden size.
"""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"
sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent / "peers"))

import jax
import keras
import numpy as np
import worker
from jax import numpy as jnp

from bert_keras.modeling.checkpoint import load_checkpoint
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.pretraining.model import Pretraining

MATMUL_SIZE = 8192
NUM_PRODUCTS = 8  # before their result is waited for
Values = list[Any]


class Work:
    """A model whose values are arguments, as JAX has it."""

    def __init__(self, job: worker.Job):
        keras.config.set_dtype_policy(
            "mixed_bfloat16" if job.is_bfloat16 else "float32"
        )
        self.model = Pretraining(
            BertConfig.from_json_file(f"{job.model}/bert_config.json")
        )
        load_checkpoint(self.model.mappings(), job.hugging_face)
        self.variables = self.model.trainable_variables
        self.batch = {name: jnp.asarray(x) for name, x in job.batch.items()}

    @property
    def values(self) -> Values:
        return [variable.value for variable in self.variables]

    def _with(self, values: Values) -> keras.StatelessScope:
        return keras.StatelessScope(zip(self.variables, values, strict=True))

    def loss(self, values: Values, key: Any) -> Any:
        """`key`: int32 [2], of the dropout; None for none."""
        with self._with(values):
            totals = self.model.totals(self.batch)
            return self.model.loss_fn(self.batch, totals, key)[0]

    def trainer(self) -> Callable[[], float]:
        optimizer = keras.optimizers.AdamW(
            worker.LEARNING_RATE,
            weight_decay=worker.WEIGHT_DECAY,
            epsilon=worker.EPSILON,
            global_clipnorm=worker.MAX_GRADIENT_NORM,
        )
        optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
        optimizer.build(self.variables)
        state = [v.value for v in optimizer.variables]
        values, number = self.values, 0

        @functools.partial(jax.jit, donate_argnums=(0, 1))
        def train(values: Values, state: Values, key: Any) -> Any:
            loss, gradients = jax.value_and_grad(self.loss)(values, key)
            return loss, *optimizer.stateless_apply(state, gradients, values)

        def step() -> float:
            nonlocal values, state, number
            key = np.array([number, 0], np.int32)
            loss, values, state = train(values, state, key)
            number += 1
            return float(loss)

        return step

    def encoder(self) -> Callable[[], dict[str, np.ndarray]]:
        names = ("input_ids", "input_mask", "segment_ids")

        @jax.jit
        def forward(values: Values, *inputs: Any) -> list[Any]:
            with self._with(values):
                outputs = self.model.encoder(*inputs)
            found = (outputs.sequence, outputs.pooled)
            return [x.astype("float32") for x in found]

        def step() -> dict[str, np.ndarray]:
            inputs = (self.batch[name] for name in names)
            sequence, pooled = forward(self.values, *inputs)
            return {
                "sequence": np.asarray(sequence),
                "pooled": np.asarray(pooled),
            }

        return step


def product(job: worker.Job) -> Callable[[], float]:
    dtype = "bfloat16" if job.is_bfloat16 else "float32"
    shape = (MATMUL_SIZE, MATMUL_SIZE)
    factors = [
        jax.random.normal(jax.random.key(seed), shape).astype(dtype)
        for seed in (1, 2)
    ]
    multiply = jax.jit(jnp.matmul)

    def step() -> float:
        for _ in range(NUM_PRODUCTS):
            result = multiply(*factors)
        return float(result[0, 0])

    return step


def main() -> None:
    job = worker.read_job()
    if job.device == "cuda":
        assert jax.default_backend() == "gpu", "JAX sees no GPU"
    if job.variant == "matmul":
        worker.serve(product(job), NUM_PRODUCTS)
        return
    work = Work(job)

    def loss() -> Any:
        return jax.jit(work.loss)(work.values, None)

    worker.work(job, loss, work.trainer, work.encoder)


if __name__ == "__main__":
    main()
