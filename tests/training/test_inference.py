"""Tests of training/inference.py."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import keras
import numpy as np
import pytest
import tensorflow as tf
from tqdm import tqdm

from bert_keras.training import inference
from bert_keras.training.inference import Predictor, predict, with_progress
from tests.conftest import ROOT, free_ports


class Doubler:
    """Counts how often it is traced."""

    def __init__(self) -> None:
        self.num_traces = 0
        self.factor = tf.Variable(2.0)

    def __call__(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        self.num_traces += 1
        x = batch["x"]
        half = tf.cast(x, tf.bfloat16) * tf.cast(self.factor, tf.bfloat16)
        return {"doubled": half, "sum": tf.reduce_sum(x, axis=1)}


def batches(*numbers: list[int]) -> Iterator[tuple[list[int], dict]]:
    """Batches of two rows, each row its number three times."""
    for members in numbers:
        padded = [*members, 0, 0][:2]
        yield members, {"x": np.array(padded, np.int32)[:, None].repeat(3, 1)}


@pytest.mark.parametrize(("use_xla", "num_traces"), [(False, 1), (True, 7)])
def test_traces_once_or_once_a_shape_and_reads_the_weights_each_time(
    use_xla: bool, num_traces: int, caplog: pytest.LogCaptureFixture
) -> None:
    double = Doubler()
    predictor = Predictor(double, use_xla=use_xla)
    for value in (2.0, 5.0):
        double.factor.assign(value)
        for width in range(1, 8):
            x = np.arange(2 * width, dtype=np.int32).reshape(2, width)
            outputs = predictor({"x": x})
            assert outputs["doubled"].dtype == np.float32
            assert outputs["doubled"].tolist() == (value * x).tolist()
            assert outputs["sum"].dtype == np.int32
            assert outputs["sum"].tolist() == x.sum(1).tolist()
    assert double.num_traces == num_traces
    assert "retracing" not in caplog.text


@pytest.mark.parametrize("use_xla", [False, True])
def test_weights_are_cast_once_and_again_when_they_have_changed(
    use_xla: bool,
) -> None:
    keras.utils.set_random_seed(1)
    rough = keras.layers.Dense(7, use_bias=False, dtype="mixed_bfloat16")
    exact = keras.layers.Dense(5, use_bias=False, dtype="float32")
    num_traces = 0

    def forward(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        nonlocal num_traces
        num_traces += tf.inside_function()
        return {"y": exact(rough(batch["x"]))}

    # Whole numbers below 256, which bfloat16 has too: compiled for a processor
    # without bfloat16, products and sums stay in float32.
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (3, 11)).astype(np.float32)
    forward({"x": x})  # makes the weights
    predictor = Predictor(forward, use_xla=use_xla)

    def by_file(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        rows = predict(predictor, [([0, 1, 2], batch)])
        return {"y": np.stack([row["y"] for row in rows])}

    for num_rows, call in ((3, predictor), (3, by_file), (2, predictor)):
        narrow = rng.choice([-3, -2, -1, 1, 2, 3], (11, 7))
        wide = rng.integers(-3, 4, (7, 5))
        rough.kernel.assign(narrow + 2**-10)  # which bfloat16 rounds away
        exact.kernel.assign(wide)
        found = call({"x": x[:num_rows]})["y"]
        np.testing.assert_array_equal(found, (x @ narrow @ wide)[:num_rows])
    assert num_traces == len(predictor.runs) == 1 + use_xla
    for run in predictor.runs.values():
        assert {(tuple(x.shape), x.dtype) for x in run.variables} == {
            ((11, 7), tf.bfloat16),
            ((7, 5), tf.float32),
        }


def test_a_cpu_is_given_few_rows_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inference, "CPU_POSITIONS", 13)
    double = Doubler()
    predictor = Predictor(double)
    x = np.arange(3 * 23, dtype=np.int32).reshape(23, 3)
    batch = {"x": np.concatenate([x, x[:9] * 0])}  # 32 rows, 9 of padding
    parts = predictor.fetch(predictor.start(batch, 23))
    sums = [part["sum"].tolist() for part in parts]
    assert sum(sums, []) == [*x.sum(1).tolist(), 0]  # six times four rows
    assert double.num_traces == 1
    assert predictor.shapes_are_cheap
    predictor = Predictor(double, use_xla=True)
    predictor(batch)
    ((shape,),) = predictor.runs
    assert shape == (4, 3)  # the power of two that 13 positions hold


@pytest.mark.parametrize(
    ("num_parts", "num_rows", "shapes"),
    [
        (1, 10, {(10, 61)}),
        (2, 10, {(5, 61)}),
        (2, 11, {(6, 61), (5, 61)}),
        (2, 1, {(1, 61)}),
    ],
)
def test_the_batch_of_a_call_is_divided_between_parts(
    monkeypatch: pytest.MonkeyPatch,
    num_parts: int,
    num_rows: int,
    shapes: set[tuple[int, int]],
) -> None:
    monkeypatch.setattr(inference, "CPU_PARTS_AT_ONCE", num_parts)
    x = np.arange(num_rows * 61, dtype=np.int32).reshape(num_rows, 61)
    predictor = Predictor(Doubler(), use_xla=True)  # which keeps shapes apart
    assert predictor({"x": x})["sum"].tolist() == x.sum(1).tolist()
    assert {shape for (shape,) in predictor.runs} == shapes
    predictor.fetch(predictor.start({"x": x}, num_rows))
    assert {shape for (shape,) in predictor.runs} == shapes | {(num_rows, 61)}


def test_short_rows_are_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "CPU_PARTS_AT_ONCE", 2)
    x = np.arange(12 * 11, dtype=np.int32).reshape(12, 11)
    predictor = Predictor(Doubler(), use_xla=True)
    predictor({"x": x})
    assert {shape for (shape,) in predictor.runs} == {(6, 11)}
    predictor = Predictor(Doubler(), use_xla=True)
    predictor({"x": x[:11]})
    assert {shape for (shape,) in predictor.runs} == {(11, 11)}


def test_parts_at_once_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inference, "CPU_POSITIONS", 4 * 61)
    weights = tf.random.stateless_normal([61, 61], [1, 2])
    x = np.random.default_rng(0).normal(size=(64, 61)).astype(np.float32)
    found = []
    for num_parts in (1, 2):
        monkeypatch.setattr(inference, "CPU_PARTS_AT_ONCE", num_parts)
        predictor = Predictor(
            lambda batch: {"y": tf.matmul(batch["x"], weights)}
        )
        found.append(predictor({"x": x})["y"])
    assert found[0].tobytes() == found[1].tobytes()


def test_after_an_error_no_more_parts_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inference, "CPU_POSITIONS", 2)
    begun = []

    def slow(x: np.ndarray) -> np.ndarray:
        begun.append(x[0, 0])
        time.sleep(0.05)
        return x

    def forward(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        x = tf.ensure_shape(
            tf.numpy_function(slow, [batch["x"]], tf.int32), [None, 2]
        )
        with tf.control_dependencies([tf.debugging.assert_positive(x)]):
            return {"x": tf.identity(x)}

    predictor = Predictor(forward)
    x = np.repeat(np.arange(32, dtype=np.int32)[:, None], 2, axis=1)
    rows = predict(predictor, [(list(range(32)), {"x": x})])
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(rows)
    predictor({"x": x[1:3]})  # waits for what was on its way
    assert len(begun) < 16


def test_rows_come_in_order_and_padding_does_not() -> None:
    rows = predict(Predictor(Doubler()), batches([4, 1], [3, 0], [2]))
    assert [row["sum"].tolist() for row in rows] == [0, 3, 6, 9, 12]


def test_no_rows_at_all() -> None:
    assert list(predict(Predictor(Doubler()), batches())) == []


def test_a_row_is_yielded_before_later_batches_are_read() -> None:
    """One batch is begun ahead, no more."""
    read = []

    def watched() -> Iterator[tuple[list[int], dict]]:
        for batch in batches([0, 1], [2, 3], [4, 5]):
            read.append(batch[0])
            yield batch

    next(predict(Predictor(Doubler()), watched()))
    assert read == [[0, 1], [2, 3]]


def test_progress_is_shown_when_it_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inference, "SECONDS_WITHOUT_PROGRESS", 0.0)
    monkeypatch.setattr(sys, "stderr", screen := io.StringIO())
    list(with_progress(predict(Predictor(Doubler()), batches([0, 1])), 2))
    assert "2/2" in screen.getvalue()


TWO_REPLICAS = """
import json, sys
import numpy as np
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2)
from bert_keras.training.inference import Predictor

shapes = []
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    factor = tf.Variable(3)

def forward(batch):
    shapes.append(list(batch["x"].shape))
    return {"y": batch["x"] * factor}

predictor = Predictor(forward, strategy)
outputs = predictor({"x": np.arange(10, dtype=np.int32).reshape(5, 2)})
print(json.dumps([outputs["y"].tolist(), shapes]))
"""


@pytest.mark.slow
def test_replicas_share_the_rows() -> None:
    """Five rows on two replicas: three each, the last one padding."""
    output = subprocess.run(
        [sys.executable, "-c", TWO_REPLICAS],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout
    values, shapes = json.loads(output.splitlines()[-1])
    assert values == (3 * np.arange(10)).reshape(5, 2).tolist()
    assert shapes and all(shape == [3, 2] for shape in shapes)


ONE_OF_HOSTS = """
import json, sys
sys.path[:0] = ["."]
from bert_keras.training.distribution import make_strategy
from bert_keras.training.config import DeviceConfig
strategy = make_strategy(DeviceConfig())
import numpy as np
import tensorflow as tf
from bert_keras.training.inference import Predictor
predictor = Predictor(lambda x: {"sum": tf.reduce_sum(x["x"], 1)}, strategy)
num_rows = int(sys.argv[1])
for width in (2, 3):
    x = np.ones((num_rows, width), np.int32)
    print(json.dumps(predictor({"x": x})["sum"].tolist()))
"""


@pytest.mark.slow
def test_each_host_answers_its_own_rows() -> None:
    hosts = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = []
    for index, num_rows in enumerate(("4", "1")):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": hosts}, "task": task}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", ONE_OF_HOSTS, num_rows],
                cwd=ROOT,
                env={**os.environ, "TF_CONFIG": json.dumps(config)},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert said == ["[2, 2, 2, 2]\n[3, 3, 3, 3]\n", "[2]\n[3]\n"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_takes_the_line_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without escape sequences, which commands print as text."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(inference, "SECONDS_WITHOUT_PROGRESS", 0)
    with tqdm(total=2, file=terminal) as bar:
        bar.clear()
        assert [*inference.with_progress(range(3), 3)] == [0, 1, 2]
        bar.update()
    shown = terminal.getvalue()
    assert "/3 [" in shown
    assert "\x1b" not in shown and shown.count("\n") == 1  # the bar's end
