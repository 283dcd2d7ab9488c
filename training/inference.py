"""Running a trained model: batches in, a dictionary for each row out.

Knows nothing of BERT. Each host answers whole batches by itself and deals
their rows to its own devices, so that hosts need not hold equally many.

Shapes: B rows of a batch.
"""

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from bert_keras.training.distribution import (
    is_on_cpu,
    is_one_cpu,
    of_any_shape,
    split_between_replicas,
    this_host,
)

# Positions of what a CPU runs as one part: what a layer makes of them stays in
# its caches. (On two cores with 32 MB of them, 12,288 took up to 1.8 times as
# long each.)
CPU_POSITIONS = 2048
# One leaves a quarter of two cores idle: between operations, and in small ones.
CPU_PARTS_AT_ONCE = min(2, os.cpu_count() or 1)
# Of a part, where one batch is divided among them. (Parts of 64 to 896 made it
# 1.02 to 1.20 times as fast, parts of 16 up to 1.15 times as slow.)
MIN_CPU_POSITIONS = 64
SECONDS_WITHOUT_PROGRESS = 5.0  # a shorter run shows none
SECONDS_BETWEEN_LINES = 30.0  # of progress, where stderr is not a terminal

Tensors = dict[str, tf.Tensor]
Started = list[Future[Tensors]]  # parts of a batch; the last may have padding
Item = TypeVar("Item")


class Predictor:
    """A forward pass, traced once for each shape of its inputs.

    A batch is run at once. On a CPU a few rows are at a time, in two threads
    between which a call's batch is divided, and but for what XLA compiles there
    is one graph for all shapes.

    In bfloat16 and on one CPU weights are cast when a call begins or `predict`
    does, not in each pass: they must not change until it ends.
    """

    def __init__(
        self,
        forward: Callable[[Tensors], Tensors],
        strategy: tf.distribute.Strategy | None = None,
        use_xla: bool = False,
    ):
        """Wraps a forward pass.

        Args:
            forward: tensors by name, each [B, ...], to tensors by name whose
                first axis is B as well; made in the strategy's scope, of
                layers that are built.
            strategy: where it runs; None: on one device.
            use_xla: compile the pass as a whole.
        """
        self.strategy = strategy or tf.distribute.get_strategy()
        self.host = this_host(self.strategy)
        self.num_replicas = (
            self.strategy.num_replicas_in_sync // self.host.count
        )
        self.forward = tf.function(
            forward, jit_compile=use_xla, autograph=False
        )
        self.run = tf.function(self._run, autograph=False)
        # by shapes, of which None is any
        self.runs: dict[tuple[tuple[int | None, ...], ...], Any] = {}
        self.is_on_cpu = is_on_cpu()
        self.is_one_cpu = is_one_cpu(self.strategy)
        self.cast_weights = _CastWeights()
        self.pool = (
            ThreadPoolExecutor(CPU_PARTS_AT_ONCE) if self.is_one_cpu else None
        )
        # Whether another shape takes no longer than some dozen rows.
        self.shapes_are_cheap = self.is_on_cpu and not use_xla

    def __call__(self, batch: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Arrays [B, ...] by name -> arrays [B, ...]; fractions in float32."""
        self.cast_weights.refresh()
        num_rows = len(next(iter(batch.values())))
        parts = self.fetch(self.start(batch, num_rows, is_alone=True))
        return {
            name: np.concatenate([part[name] for part in parts])[:num_rows]
            for name in parts[0]
        }

    def start(
        self,
        batch: Mapping[str, np.ndarray],
        num_rows: int,
        is_alone: bool = False,
    ) -> Started:
        """Begins a batch; `fetch` waits for it. Other work fits in between.

        The weights are those that `cast_weights.refresh` found.

        Args:
            num_rows: how many of the batch are to be answered, the first.
            is_alone: that nothing else is begun before it is fetched.
        """
        if not self.is_on_cpu:
            return [self._start(batch)]
        width = max(value.shape[1] for value in batch.values())
        size = 1 << max(1, CPU_POSITIONS // width).bit_length() - 1
        size = min(size * self.num_replicas, len(next(iter(batch.values()))))
        fewest = num_rows // CPU_PARTS_AT_ONCE  # rows of a part
        if is_alone and self.pool and fewest * width >= MIN_CPU_POSITIONS:
            size = min(size, math.ceil(num_rows / CPU_PARTS_AT_ONCE))
        parts: list[Future[Tensors]] = []
        try:
            for i in range(0, num_rows, size):
                part = {n: value[i : i + size] for n, value in batch.items()}
                parts.append(self._start(part))
        except BaseException:
            _cancel(parts)
            raise
        return parts

    def _start(self, batch: Mapping[str, np.ndarray]) -> Future[Tensors]:
        missing = -len(next(iter(batch.values()))) % self.num_replicas
        stacked = {
            name: np.pad(value, [(0, missing)] + [(0, 0)] * (value.ndim - 1))
            for name, value in batch.items()
        }
        shares = split_between_replicas(
            self.strategy,
            self.host,
            {name: tf.constant(value)[None] for name, value in stacked.items()},
        )
        # `run` called by itself would warn that it sees many shapes.
        shapes = tuple(x.shape for x in stacked.values())
        traced = shares
        if self.shapes_are_cheap and self.is_one_cpu:
            shapes = tuple((None,) * x.ndim for x in stacked.values())
            traced = of_any_shape(shares)
        if shapes not in self.runs:
            # The threads of several replicas would not see the scope.
            with self.cast_weights if self.is_one_cpu else nullcontext():
                run = self.run.get_concrete_function(traced)
            self.cast_weights.refresh()
            self.runs[shapes] = run
        if self.pool is not None:
            return self.pool.submit(self.runs[shapes], shares)
        part: Future[Tensors] = Future()
        part.set_result(self.runs[shapes](shares))
        return part

    @staticmethod
    def fetch(parts: Started) -> list[dict[str, Any]]:
        """Each part's arrays by name; raises what a part has raised."""
        try:
            outputs = [part.result() for part in parts]
        finally:
            _cancel(parts)
        return [
            {name: x.numpy() for name, x in part.items()} for part in outputs
        ]

    def _run(self, shares: Any) -> Tensors:
        parts = self.strategy.run(self._replica_forward, args=(shares,))
        return {
            name: tf.concat(
                self.strategy.experimental_local_results(part), axis=0
            )
            for name, part in parts.items()
        }

    def _replica_forward(self, share: Tensors) -> Tensors:
        outputs = self.forward({name: x[0] for name, x in share.items()})
        return {
            name: tf.cast(x, tf.float32) if x.dtype.is_floating else x
            for name, x in outputs.items()
        }


class _CastWeights(keras.StatelessScope):
    """While it is entered, layers are traced to read copies of the weights that
    Keras would cast to bfloat16 in each pass.

    `refresh` fills the copies.
    """

    def __init__(self) -> None:
        super().__init__()
        self.copies: dict[int, tuple[keras.Variable, tf.Variable]] = {}

    def get_current_value(self, variable: keras.Variable) -> tf.Tensor | None:
        """Keras asks it for each weight read; None is the weight itself."""
        if variable.dtype != "bfloat16":  # in the layer that reads it
            return None
        if id(variable) not in self.copies:
            with tf.init_scope():
                copy = tf.Variable(
                    tf.zeros(variable.shape, tf.bfloat16),
                    trainable=False,
                    # Else tf.function traces once more, having made variables.
                    experimental_enable_variable_lifting=False,
                )
            self.copies[id(variable)] = variable, copy
        return tf.convert_to_tensor(self.copies[id(variable)][1])

    def refresh(self) -> None:
        for variable, copy in self.copies.values():
            copy.assign(tf.cast(variable.value, tf.bfloat16))


def predict(
    predictor: Predictor,
    batches: Iterable[tuple[list[int], Mapping[str, np.ndarray]]],
) -> Iterator[dict[str, Any]]:
    """Yields each row's outputs, in the order of the rows' numbers.

    A row is yielded as soon as all rows before it have been; what came too
    early waits.

    Args:
        batches: numbers of rows, together 0, 1, 2, ...; and their features.
            Rows of features beyond the numbers are padding.
    """
    predictor.cast_weights.refresh()
    waiting: dict[int, dict[str, Any]] = {}
    next_number = 0
    for numbers, parts in _overlapped(predictor, batches):
        rows = (
            dict(zip(part, row, strict=True))
            for part in parts
            for row in zip(*part.values(), strict=True)
        )
        waiting.update(zip(numbers, rows, strict=False))  # the rest is padding
        while next_number in waiting:
            yield waiting.pop(next_number)
            next_number += 1
    assert not waiting, f"row {next_number} is in no batch"


def with_progress(
    items: Iterable[Item],
    count: int | None = None,
    unit: str = " examples",
    name: str | None = None,
) -> Iterator[Item]:
    """The items; on stderr how many of `count` have been, if it takes long."""
    is_terminal = sys.stderr.isatty()
    yield from tqdm(
        items,
        desc=name,
        total=count,
        unit=unit,
        file=sys.stderr,
        delay=SECONDS_WITHOUT_PROGRESS,
        mininterval=0.5 if is_terminal else SECONDS_BETWEEN_LINES,
        # On the line of a training's bar: the way to a line below is an escape
        # sequence, which commands print as text.
        position=0,
        leave=not is_terminal,
    )


def _overlapped(
    predictor: Predictor,
    batches: Iterable[tuple[list[int], Mapping[str, np.ndarray]]],
) -> Iterator[tuple[list[int], list[dict[str, Any]]]]:
    """Results of batches, each waited for only when the next has begun."""
    begun: list[tuple[list[int], Started]] = []
    try:
        for numbers, features in batches:
            begun.append((numbers, predictor.start(features, len(numbers))))
            if len(begun) == 2:
                previous, started = begun.pop(0)
                yield previous, predictor.fetch(started)
        for last, started in begun:
            yield last, predictor.fetch(started)
    finally:
        for _, parts in begun:
            _cancel(parts)


def _cancel(parts: Iterable[Future[Tensors]]) -> None:
    """Those that have not begun never will: a process waits for the others
    before it ends."""
    for part in parts:
        part.cancel()
