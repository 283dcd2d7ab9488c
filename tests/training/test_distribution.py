"""Tests of training/distribution.py, and of dropout between replicas.

Of a Cloud TPU all is tested that can be said without one.
"""

import json
import math
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.training import distribution
from bert_keras.training.config import DeviceConfig
from bert_keras.training.distribution import (
    Host,
    check_batch_size,
    check_paths,
    make_strategy,
    split_between_replicas,
    this_host,
)
from tests.conftest import ROOT, fails_with

TWO_REPLICAS = """
import dataclasses, json, sys
sys.path[:0] = ["."]
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
import numpy as np
from tests.conftest import TINY, tiny_batch
from bert_keras.tasks.pretraining.model import Pretraining
from bert_keras.training.distribution import Host, split_between_replicas
from bert_keras.training.loop import StepFunction, _fold
from bert_keras.training.optimization import AdamW, Lamb
from bert_keras.training.config import LoopConfig, OptimizerConfig

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
config = dataclasses.replace(
    TINY, num_hidden_layers=1,
    hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
with strategy.scope():
    model = Pretraining(config)
    optimizer = AdamW(model.trainable_variables, OptimizerConfig())
step = StepFunction(model, optimizer, strategy, LoopConfig())
one = tiny_batch(1)
twice = {k: tf.repeat(v[None], 2, axis=1) for k, v in one.items()}
shares = split_between_replicas(strategy, Host(0, 1), twice)

def replica_loss(batches):
    batch = {name: value[0] for name, value in batches.items()}
    replica = tf.distribute.get_replica_context()
    number = tf.convert_to_tensor(replica.replica_id_in_sync_group)
    key = _fold(tf.constant([3, 5]), number)
    totals = model.totals(batch)
    kept = model.loss_fn(batch, totals, None)[0]  # nothing drops out
    args = batch, totals, key, tf.constant(0)
    return *step._accumulate(*args)[:2], kept

def run():
    return tf.function(lambda x: strategy.run(replica_loss, (x,)))(shares)

gradients, *losses = run()
losses = [[float(x) for x in loss.values] for loss in losses]
model.encoder.recompute()
step.micro_step = step._micro_step
for kept, recomputed in zip(gradients, run()[0]):
    for one, other in zip(kept.values, recomputed.values):
        np.testing.assert_allclose(one, other, atol=1e-6)

with strategy.scope():
    # of one shape: each has moments of its own on each replica
    pair = [keras.Variable([[3.0, 4.0]], name="kernel") for _ in range(2)]
    config = OptimizerConfig(0.5, 10**9, 0, weight_decay_rate=0.0)
    lamb = Lamb(pair, config)
gradients = [tf.constant([[7.0, 7.0]]), tf.constant([[7.0, -7.0]])]
strategy.run(lamb.apply, (gradients, tf.constant(0), tf.constant(1.0)))
weights = [[w.numpy()[0].tolist() for w in v.value.values] for v in pair]
print(json.dumps([losses, weights]))
"""


@pytest.mark.slow
def test_replicas_draw_their_masks_and_have_one_update() -> None:
    output = subprocess.run(
        [sys.executable, "-c", TWO_REPLICAS],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout
    losses, weights = json.loads(output.splitlines()[-1])
    # the same row on both: the same loss, but for what dropout takes away
    dropped, kept = losses
    assert kept[0] == kept[1]
    assert dropped[0] != dropped[1]
    # LAMB's first update: 0.5 * 5 in the direction of (1, 1) or (1, -1)
    moved = 2.5 / math.sqrt(2)
    for first, second in zip(*weights, strict=True):
        assert first == pytest.approx([3 - moved, 4 - moved], rel=1e-5)
        assert second == pytest.approx([3 - moved, 4 + moved], rel=1e-5)


def test_one_device_is_one_host() -> None:
    strategy = make_strategy(DeviceConfig())
    assert strategy.num_replicas_in_sync == 1
    assert this_host(strategy) == Host(0, 1)
    batch = {"x": tf.reshape(tf.range(6), [1, 2, 3])}
    shares = split_between_replicas(strategy, Host(0, 1), batch)
    assert shares["x"].numpy().tolist() == batch["x"].numpy().tolist()


def test_a_batch_must_split_evenly() -> None:
    strategy = tf.distribute.get_strategy()
    check_batch_size(strategy, "train_batch_size", 12, 3)
    with pytest.raises(InputError, match="`train_batch_size` is 13; .* of 3 "):
        check_batch_size(strategy, "train_batch_size", 13, 3)


HOSTS = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}


FIRST = {"type": "worker", "index": 0}


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ("{", "it is not JSON"),
        ([1], "it has no cluster"),
        ({}, "it has no cluster"),
        ({"cluster": 3}, "it has no cluster"),
        ({"cluster": {"worker": []}, "task": FIRST}, "it has no cluster"),
        ({"cluster": {**HOSTS, "ps": ["h:3"]}, "task": FIRST}, "has 'ps'"),
        ({"cluster": {"worker": "h:3"}, "task": FIRST}, "not a list of addr"),
        ({"cluster": {"worker": ["h"]}, "task": FIRST}, "'h' is not an add"),
        ({"cluster": {"worker": ["h:0"]}, "task": FIRST}, "'h:0' has a port"),
        ({"cluster": {"worker": ["h:99999"]}, "task": FIRST}, "to 65535"),
        (
            {"cluster": {**HOSTS, "chief": ["h:3", "h:4"]}, "task": FIRST},
            "more than one chief",
        ),
        (
            {"cluster": {**HOSTS, "chief": ["127.0.0.1:2"]}, "task": FIRST},
            "127.0.0.1:2 occurs 2 times",
        ),
        ({"cluster": HOSTS}, "it has no task"),
        ({"cluster": HOSTS, "task": {"type": "ps", "index": 0}}, "is 'ps', of"),
        ({"cluster": HOSTS, "task": {"type": ["worker"]}}, "of which the"),
        ({"cluster": HOSTS, "task": {"type": "worker"}}, "index is None"),
        (
            {"cluster": HOSTS, "task": {"type": "worker", "index": 2}},
            "index is 2: of the 2 worker addresses in the cluster none is",
        ),
        (
            {"cluster": HOSTS, "task": {"type": "worker", "index": -1}},
            "index is -1",
        ),
    ],
)
def test_a_wrong_tf_config_is_shown(
    monkeypatch: pytest.MonkeyPatch, config: object, fault: str
) -> None:
    text = config if isinstance(config, str) else json.dumps(config)
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match="TF_CONFIG is") as caught:
        make_strategy(DeviceConfig())
    assert fault in str(caught.value)


@pytest.mark.slow
def test_a_port_that_is_taken_is_a_sentence(tiny_records: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = {
            "cluster": {"worker": [f"127.0.0.1:{port}", "127.0.0.1:1"]},
            "task": FIRST,
        }
        sentence = fails_with(
            "run_pretraining.py",
            *(
                "--do_train",
                f"--input_file={tiny_records}",
                "--output_dir=none",
            ),
            TF_CONFIG=json.dumps(config),
        )
    assert "could not join those of TF_CONFIG" in sentence
    assert "is another process listening at its address" in sentence


def test_one_host_alone_is_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    chief = {"type": "chief", "index": 0}
    alone = {"cluster": {"chief": ["h:1"]}, "task": chief}
    monkeypatch.setenv("TF_CONFIG", json.dumps(alone))
    assert this_host(make_strategy(DeviceConfig())) == Host(0, 1)
    two = {"cluster": {"worker": ["h:1", "h:2"]}, "task": FIRST}
    monkeypatch.setenv("TF_CONFIG", json.dumps(two))
    assert this_host(make_strategy(DeviceConfig(), alone=True)) == Host(0, 1)


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in distribution.TPU_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def deaf() -> Iterator[str]:
    """host:port of a machine that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def shut() -> str:
    """host:port where nothing is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def refusal(**settings: str) -> str:
    with pytest.raises(InputError) as caught:
        make_strategy(DeviceConfig(use_tpu=True, **settings))
    return str(caught.value)


def test_a_name_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "`use_tpu` is given without `tpu_name`" in refusal()
    assert "`master` is 10.0.0.2:8470" in refusal(master="10.0.0.2:8470")
    monkeypatch.setenv("TPU_NAME", "local")
    assert "answers as `tpu_name=local`" in refusal()


def test_an_address_where_nothing_is(shut: str) -> None:
    for flag in ("tpu_name", "master"):
        assert f"nothing answers at {shut}" in refusal(
            **{flag: f"grpc://{shut}"}
        )
    assert "nothing answers at h:x" in refusal(tpu_name="grpc://h:x")


def test_no_metadata_server(monkeypatch: pytest.MonkeyPatch, shut: str) -> None:
    monkeypatch.setenv("GCE_METADATA_IP", shut)
    found = refusal(tpu_name="absent")
    assert "cannot ask Google Cloud for `tpu_name=absent`" in found
    assert "give `tpu_zone` and `gcp_project`" in found


def test_a_metadata_server_that_is_silent(
    monkeypatch: pytest.MonkeyPatch, deaf: str
) -> None:
    monkeypatch.setenv("GCE_METADATA_IP", deaf)
    monkeypatch.setattr(distribution, "TIMEOUT_S", 0.1)
    assert "cannot ask Google Cloud" in refusal(tpu_name="absent")
    assert socket.getdefaulttimeout() is None


def test_a_tpu_that_google_cloud_does_not_give() -> None:
    found = refusal(tpu_name="absent", tpu_zone="z", gcp_project="p")
    assert "`tpu_name=absent` is not available" in found


def test_paths_that_a_worker_cannot_read() -> None:
    config = DeviceConfig(use_tpu=True, tpu_name="tpu-1")
    good = {"output_dir": "gs://b/out", "input_file": "gs://b/a*,gs://b/c"}
    check_paths(config, {**good, "eval_file": None})
    for path in ("out", "/out", "gs:/b/out", "gs://b", "gs:///out"):
        with pytest.raises(InputError, match=f"`output_dir={path}` is not in"):
            check_paths(config, {**good, "output_dir": path})
    with pytest.raises(InputError, match="`input_file=c` .*give gs://"):
        check_paths(config, {**good, "input_file": "gs://b/a,c"})
    local = {"output_dir": "out"}
    check_paths(DeviceConfig(), local)
    check_paths(DeviceConfig(use_tpu=True, tpu_name="local"), local)


def test_a_command_looks_at_its_paths_before_it_connects(
    config_file: str, tiny_records: str, tmp_path: object
) -> None:
    found = fails_with(
        "run_pretraining.py",
        "--do_train",
        f"--input_file={tiny_records}",
        f"--bert_config_file={config_file}",
        f"--output_dir={tmp_path}/out",
        "--use_tpu",
        "--tpu_name=absent",
    )
    assert f"--output_dir={tmp_path}/out is not in a bucket" in found
