"""Where training runs: one device, several, several hosts, or a Cloud TPU.

https://www.tensorflow.org/guide/distributed_training describes the four
strategies. A batch size is always that of the global batch, all replicas
together.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from input_error import InputError
from training.settings import DeviceConfig


def make_strategy(config: DeviceConfig) -> tf.distribute.Strategy:
    """The strategy for this machine.

    A Cloud TPU when asked for; several hosts when TF_CONFIG names several
    workers; every GPU when there are several; else one device.

    Raises:
        InputError: the TPU cannot be reached, or TF_CONFIG is not JSON.
    """
    if config.use_tpu:
        return _tpu_strategy(config)
    if _num_workers() > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def _tpu_strategy(config: DeviceConfig) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=config.master or config.tpu_name,
            zone=config.tpu_zone,
            project=config.gcp_project,
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        raise InputError(
            "--use_tpu was given but no Cloud TPU answers "
            f"({str(error).splitlines()[0]}); check --tpu_name, --tpu_zone "
            "and --gcp_project, and that tensorflow-tpu is installed"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def _num_workers() -> int:
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return 1
    try:
        config = json.loads(text)
        hosts = {k: config["cluster"].get(k, []) for k in ("chief", "worker")}
        task = config["task"]
        hosts[task["type"]][task["index"]]
        return sum(map(len, hosts.values()))
    except (
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
    ) as error:
        raise InputError(
            f"the environment variable TF_CONFIG is {text!r}; expected JSON "
            "that lists the hosts and says which of them this one is, such as "
            ' {"cluster": {"worker": ["host:port", ...]}, "task": '
            '{"type": "worker", "index": 0}}'
        ) from error


@dataclasses.dataclass(frozen=True)
class Host:
    """Which of the hosts of a job this process is."""

    index: int
    count: int

    @property
    def is_chief(self) -> bool:
        """Whether this host writes what all of them share."""
        return self.index == 0


def this_host(strategy: tf.distribute.Strategy) -> Host:
    resolver = strategy.cluster_resolver
    if resolver is None or isinstance(
        strategy, tf.distribute.TPUStrategy
    ):  # one process drives all of a TPU
        return Host(0, 1)
    spec = resolver.cluster_spec()
    hosts = [
        (kind, index)
        for kind in ("chief", "worker")
        if kind in spec.jobs
        for index in spec.task_indices(kind)
    ]
    if not hosts:
        return Host(0, 1)
    return Host(hosts.index((resolver.task_type, resolver.task_id)), len(hosts))


def split_between_replicas(
    strategy: tf.distribute.Strategy, host: Host, values: Mapping[str, Any]
) -> Any:
    """Deals this host's [K, rows, ...] tensors to its replicas by rows."""
    num_local = strategy.num_replicas_in_sync // host.count

    def rows_of(context: tf.distribute.experimental.ValueContext) -> Any:
        replica = context.replica_id_in_sync_group % num_local
        return {
            name: tf.split(value, num_local, axis=1)[replica]
            for name, value in values.items()
        }

    return strategy.experimental_distribute_values_from_function(rows_of)


def check_batch_size(
    strategy: tf.distribute.Strategy, flag: str, batch_size: int, pieces: int
) -> None:
    """Refuses a global batch that does not split evenly.

    Args:
        pieces: micro-batches of each replica.
    """
    parts = strategy.num_replicas_in_sync * pieces
    if batch_size < 1 or batch_size % parts:
        raise InputError(
            f"--{flag} is {batch_size}; expected a multiple of {parts} "
            f"({strategy.num_replicas_in_sync} replicas of {pieces} "
            "micro-batches each)"
        )
