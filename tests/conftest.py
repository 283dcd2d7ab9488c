"""What every test shares: the one tiny config, its records, and processes."""

import atexit
import contextlib
import dataclasses
import functools
import gc
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.forked_commands import Commands, Ended, Running

# Before the first import of TensorFlow: what one process of the many has
# compiled is not compiled again. Where such a thing is loaded, TensorFlow logs
# a screenful as an error, so its log is left out; exceptions come all the same.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if "TF_XLA_FLAGS" not in os.environ:  # not in a worker of pytest-xdist
    _compiled = tempfile.TemporaryDirectory()
    os.environ["TF_XLA_FLAGS"] = (
        f"--tf_xla_persistent_cache_directory={_compiled.name}"
    )

from bert_keras import errors
from bert_keras.modeling.config import BertConfig

# Imports and traces make much and drop little: a seventh of their time went
# into looking for cycles.
gc.set_threshold(20_000, 20, 20)

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"

# Google's test sizes: primes and near-primes, so that no two axes can be
# exchanged unnoticed.
SEQ_LENGTH = 29
NUM_PREDICTIONS = 5
TINY = BertConfig(
    vocab_size=101,
    hidden_size=40,
    num_hidden_layers=3,
    num_attention_heads=5,
    intermediate_size=53,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=61,
    type_vocab_size=2,
)
# Where depth is beside the point: each layer takes a second to trace.
ONE_LAYER = dataclasses.replace(TINY, num_hidden_layers=1)


def tiny_record(rng: np.random.Generator) -> dict[str, list[float]]:
    """Values of a valid pre-training record, of random length and content."""
    length = int(rng.integers(9, SEQ_LENGTH + 1))
    num_masks = int(rng.integers(1, NUM_PREDICTIONS + 1))
    first = int(rng.integers(2, length - 2))
    places = np.arange(1, length)
    masked = sorted(rng.choice(places, num_masks, replace=False).tolist())

    def padded(values: Sequence[float], width: int) -> list[float]:
        return [*values, *[0] * (width - len(values))]

    def ids(count: int) -> list[int]:
        return rng.integers(0, TINY.vocab_size, count).tolist()

    return {
        "input_ids": padded(ids(length), SEQ_LENGTH),
        "input_mask": padded([1] * length, SEQ_LENGTH),
        "segment_ids": padded([0] * first + [1] * (length - first), SEQ_LENGTH),
        "masked_lm_positions": padded(masked, NUM_PREDICTIONS),
        "masked_lm_ids": padded(ids(num_masks), NUM_PREDICTIONS),
        "masked_lm_weights": padded([1.0] * num_masks, NUM_PREDICTIONS),
        "next_sentence_labels": [int(rng.integers(2))],
    }


def tiny_batch(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """`rows` records as the arrays that a batch holds."""
    rng = np.random.default_rng(seed)
    records = [tiny_record(rng) for _ in range(rows)]
    return {
        name: np.array(
            [record[name] for record in records],
            "float32" if name == "masked_lm_weights" else "int32",
        )
        for name in records[0]
    }


@pytest.fixture(autouse=True)
def shows_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program, whatever command a test before has run."""
    monkeypatch.setattr(errors, "_shows_flags", False)
    errors.say_once.cache_clear()


@pytest.fixture
def uncompiled_chains() -> Iterator[None]:
    """Element-wise chains as in the commands that `forked` starts: XLA takes
    longer to compile them than a tiny model to run. tests/modeling/ compares
    the encoder with the originals' numbers with them compiled."""
    from bert_keras.modeling.fused_ops import uncompiled

    with uncompiled():
        yield


@pytest.fixture(scope="session")
def tiny_records(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A pattern of three files with 47 records each, all different."""
    from bert_keras.data.record_schema import pretraining_features
    from bert_keras.data.tfrecords import RecordWriter, encode

    folder = tmp_path_factory.mktemp("records")
    features = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
    rng = np.random.default_rng(5)
    with RecordWriter([str(folder / f"{i}.tfrecord") for i in range(3)]) as out:
        for _ in range(3 * 47):
            out.write(encode(features, tiny_record(rng)))
    return str(folder / "*.tfrecord")


@pytest.fixture(scope="session")
def config_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The bert_config.json of ONE_LAYER."""
    path = tmp_path_factory.mktemp("config") / "bert_config.json"
    path.write_text(ONE_LAYER.to_json())
    return str(path)


def start(script: str, *args: str, **environment: str) -> subprocess.Popen[str]:
    """Starts a command of the repository, as a user would."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / script), *args],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(script: str, *args: str, **environment: str) -> str:
    """Runs a command to its end, which must be good; returns its output."""
    process = start(script, *args, **environment)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output


def fails_with(script: str, *args: str, **environment: str) -> str:
    """Runs a command that must refuse; returns its one sentence. With an
    environment, of which Python itself may read some, in no fork."""
    if environment:
        process = start(script, *args, **environment)
        output, errors = process.communicate()
        ended = Ended(process.returncode, output, errors, 0.0, 0)
    else:
        ended = start_fork(script, *args).ended()
    assert ended.is_refusal, f"{ended.fault}: {ended.errors}"
    return ended.errors.strip().splitlines()[-1]


def tiny_context(folder: Path, vocab_file: str, **run: Any) -> Any:
    """A RunContext with output_dir `folder`, of a model of TINY."""
    import tensorflow as tf

    from bert_keras.data.tokenizer_folder import (
        TokenizerOptions,
        open_tokenizer,
    )
    from bert_keras.tasks.run_context import Devices, RunConfig, RunContext
    from bert_keras.training.distribution import Host

    strategy = tf.distribute.get_strategy()
    return RunContext(
        Devices(strategy, Host(0, 1)),
        RunConfig(str(folder), **run),
        TINY,
        open_tokenizer(
            None, vocab_file, options=TokenizerOptions(do_lower_case=True)
        ),
    )


def start_fork(
    script: str, *args: str, compiles: bool = False, **environment: str
) -> Running:
    """As `start`, in a fork of a process that has imported TensorFlow.

    Args:
        compiles: element-wise chains, as for users: in test_every_task.py,
            where runs are killed, where the original's losses are repeated
            (in test_run_pretraining.py), and in real processes.
    """
    return forking().start(
        script,
        *args,
        cwd=str(ROOT),
        timeout_s=300,  # of a busy machine
        environment=environment,
        compiles=compiles,
    )


def forked(script: str, *args: str, compiles: bool = False) -> str:
    """As `run`, in a fork of a process that has imported TensorFlow."""
    return well_ended(script, *args, compiles=compiles).output


def well_ended(script: str, *args: str, compiles: bool = False) -> Ended:
    """The same, with what the command wrote to standard error."""
    ended = start_fork(script, *args, compiles=compiles).ended()
    assert ended.code == 0, ended.errors
    return ended


def results(folder: Path, suffix: str = "") -> dict[str, float]:
    """What eval_results.txt says."""
    lines = (folder / f"eval_results{suffix}.txt").read_text().splitlines()
    return {key: float(x) for key, x in (line.split(" = ") for line in lines)}


def files_in(folder: Path) -> dict[str, tuple[int, int]]:
    """Each file and folder under `folder`, with its time and size."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.stat().st_size,
        )
        for path in sorted(folder.rglob("*"))
    }


@functools.cache
def forking() -> Commands:
    """Has imported TensorFlow once for all tests of this process."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(Commands())


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
