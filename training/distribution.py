"""Where training runs: one device, several, several hosts, or a Cloud TPU.

https://www.tensorflow.org/guide/distributed_training describes the four
strategies, https://www.tensorflow.org/guide/tpu the last. A batch size is
always that of the global batch, all replicas together.
"""

import dataclasses
import functools
import os
import re
import signal
import socket
import textwrap
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_keras.errors import InputError, first_line
from bert_keras.files import parse_json
from bert_keras.training.config import DeviceConfig

MAX_PORT = 65535
ADDRESS = re.compile(r"[^\s/,]+:\d{1,5}")
TF_CONFIG = (
    '{"cluster": {"worker": ["host:port", ...]}, '
    '"task": {"type": "worker", "index": 0}}'
)
LOCAL = "local"  # the name of the TPU that is part of this machine, a TPU VM
TIMEOUT_S = 20.0  # of a question to Google Cloud, and of a connection
TPU_VARIABLES = ("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_NAME")  # TensorFlow's


def make_strategy(
    config: DeviceConfig, alone: bool = False
) -> tf.distribute.Strategy:
    """The strategy for this machine.

    A Cloud TPU when asked for; several hosts when TF_CONFIG names several
    workers; every GPU when there are several; else one device.

    Args:
        alone: whether this host works without the others of TF_CONFIG.

    Raises:
        InputError: the TPU cannot be reached, or TF_CONFIG is wrong.
    """
    if config.use_tpu:
        return _connect_tpu(config)
    if alone or num_hosts() == 1:
        if len(tf.config.list_logical_devices("GPU")) > 1:
            return tf.distribute.MirroredStrategy()
        return tf.distribute.get_strategy()
    try:
        # Waits until all hosts are there; TensorFlow lets nothing but SIGKILL
        # end that.
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except tf.errors.OpError as error:
        raise InputError(
            f"this host could not join those of TF_CONFIG ({error.message}); "
            "is another process listening at its address, such as this command "
            "from before?"
        ) from error
    # TensorFlow has taken the signal to itself, and does nothing with it.
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    return strategy


def check_paths(config: DeviceConfig, paths: Mapping[str, str | None]) -> None:
    """Refuses paths that a TPU's worker, another machine, cannot read.

    Args:
        paths: by argument, each one path or a comma list; None: not given.
    """
    if not config.use_tpu or _tpu_name(config) == LOCAL:
        return
    for argument, listed in paths.items():
        for path in (listed or "").split(","):
            if path and not re.match(r"gs://[^/]+/.", path):
                raise InputError(
                    f"`{argument}={path}` is not in a bucket, and the worker "
                    "of a Cloud TPU cannot read this machine's folders; give "
                    "gs://bucket/path, or `tpu_name=local` on a TPU VM"
                )


def _tpu_name(config: DeviceConfig) -> str:
    if config.master and not config.master.startswith("grpc://"):
        raise InputError(
            f"`master` is {config.master}; expected grpc://host:port, or the "
            "TPU's name as `tpu_name`"
        )
    variables = map(os.environ.get, TPU_VARIABLES)
    for name in (config.master, config.tpu_name, *variables):
        if name:
            return name
    raise InputError(
        "`use_tpu` is given without `tpu_name`; expected the name of a Cloud "
        "TPU, its address grpc://host:port, or local on a TPU VM"
    )


def _connect_tpu(config: DeviceConfig) -> tf.distribute.Strategy:
    """All cores of the TPU that the settings or the environment name.

    Google Cloud is asked for its addresses. No step waits without end for a
    machine that does not answer.
    """
    name = _tpu_name(config)
    timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_S)  # where a connection names none itself
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=name, zone=config.tpu_zone, project=config.gcp_project
        )
        hosts = resolver.cluster_spec().as_dict()
    except OSError as error:
        raise InputError(
            f"cannot ask Google Cloud for `tpu_name={name}` "
            f"({first_line(error)}): no metadata server tells this machine's "
            "zone and project; run on a machine of Google Cloud, or give "
            "`tpu_zone` and `gcp_project`"
        ) from error
    except Exception as error:  # Google's client has those of four libraries
        raise InputError(
            f"the Cloud TPU `tpu_name={name}` is not available "
            f"({first_line(error)}); check `tpu_name`, `tpu_zone` and "
            "`gcp_project`"
        ) from error
    finally:
        socket.setdefaulttimeout(timeout)
    for address in (x for addresses in hosts.values() for x in addresses):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), TIMEOUT_S).close()
        except (OSError, ValueError, OverflowError) as error:
            raise InputError(
                f"nothing answers at {address} ({first_line(error)}), the "
                f"address of `tpu_name={name}`; check that the TPU is READY "
                "and that this machine is in its network"
            ) from error
    try:
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        raise InputError(
            f"no Cloud TPU answers as `tpu_name={name}` "
            f"({first_line(error)}); check the name, and that "
            "tensorflow-tpu is installed in place of tensorflow"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def num_hosts() -> int:
    """By TF_CONFIG; 1 without. Raises InputError if it is wrong."""
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return 1
    try:
        config = parse_json(text)
        fault = _tf_config_fault(config)
    except ValueError as error:
        fault = f"it is not JSON ({error})"
    if fault:
        raise InputError(
            "the environment variable TF_CONFIG is "
            f"{textwrap.shorten(text, 300)}, but {fault}; expected JSON such "
            f"as {TF_CONFIG}"
        )
    return sum(map(len, config["cluster"].values()))


def _tf_config_fault(config: Any) -> str | None:
    """What is wrong with its hosts, or with which one this is; None if nothing
    is."""
    cluster = config.get("cluster") if isinstance(config, dict) else None
    if not isinstance(cluster, dict) or not any(cluster.values()):
        return "it has no cluster, which lists the hosts"
    listed: list[str] = []
    for kind, hosts in cluster.items():
        if kind not in ("chief", "worker"):
            return (
                f"its cluster has {kind!r}: hosts are of the types 'worker' "
                "and, at most one, 'chief'"
            )
        if not isinstance(hosts, list):
            return f"{kind!r} is not a list of addresses"
        for host in hosts:
            if not isinstance(host, str) or not ADDRESS.fullmatch(host):
                return f"{host!r} is not an address like host:port"
            if not 0 < int(host.rpartition(":")[2]) <= MAX_PORT:
                return f"{host!r} has a port that is not from 1 to {MAX_PORT}"
        listed += hosts
    if len(cluster.get("chief", [])) > 1:
        return "it has more than one chief"
    for host in listed:
        if listed.count(host) > 1:
            return f"the address {host} occurs {listed.count(host)} times"
    task = config.get("task")
    if not isinstance(task, dict):
        return "it has no task, which says which of the hosts this one is"
    kind, index = task.get("type"), task.get("index")
    if not isinstance(kind, str) or kind not in cluster:
        return f"the task's type is {kind!r}, of which the cluster has none"
    count = len(cluster[kind])
    if type(index) is not int or not 0 <= index < count:
        return (
            f"the task's index is {index!r}: of the {count} {kind} addresses "
            "in the cluster none is this host's (the first has index 0)"
        )
    return None


def is_one_cpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether a CPU is all there is, so that the values of a strategy which
    `make_strategy` made are plain tensors."""
    return strategy.num_replicas_in_sync == 1 and is_on_cpu()


def is_on_cpu() -> bool:
    """Whether TensorFlow sees neither a GPU nor a TPU."""
    return not any(
        tf.config.list_logical_devices(kind) for kind in ("GPU", "TPU")
    )


def of_any_shape(values: Mapping[str, Any]) -> dict[str, tf.TensorSpec]:
    """What a function is traced with that takes values like these whatever
    their axes are, but for the first."""
    return {
        name: tf.TensorSpec([x.shape[0], *[None] * (len(x.shape) - 1)], x.dtype)
        for name, x in values.items()
    }


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
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    if resolver is None or is_tpu:  # one process drives all of a TPU
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


def sum_over_hosts(
    strategy: tf.distribute.Strategy, host: Host, value: float
) -> float:
    """Every host has to call it as often as the others; it waits for them."""
    if host.count == 1:
        return value
    total = _sum_of(strategy)(tf.constant(value, tf.float64))
    return float(total) * host.count / strategy.num_replicas_in_sync


def wait_for_hosts(strategy: tf.distribute.Strategy, host: Host) -> None:
    """Returns once every host has called it."""
    sum_over_hosts(strategy, host, 0.0)


@functools.cache
def _sum_of(strategy: tf.distribute.Strategy) -> Any:
    @tf.function(autograph=False)
    def over_replicas(value: tf.Tensor) -> tf.Tensor:
        def summed() -> tf.Tensor:
            replica = tf.distribute.get_replica_context()
            own = tf.identity(value)  # on its device
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, own)

        sums = strategy.run(summed)
        return strategy.experimental_local_results(sums)[0]

    return over_replicas


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
    strategy: tf.distribute.Strategy,
    argument: str,
    batch_size: int,
    num_micro_batches: int,
) -> None:
    """Refuses a global batch that does not split evenly.

    Args:
        num_micro_batches: of each replica.
    """
    parts = strategy.num_replicas_in_sync * num_micro_batches
    if batch_size < 1 or batch_size % parts:
        raise InputError(
            f"`{argument}` is {batch_size}; expected a multiple of {parts} "
            f"({strategy.num_replicas_in_sync} replicas of "
            f"{num_micro_batches} micro-batches each)"
        )
