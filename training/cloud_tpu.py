"""A Cloud TPU: found, reached and set up, or a sentence that says why not.

https://www.tensorflow.org/guide/tpu; who has which address is asked of Google
Cloud by TPUClusterResolver. No step waits without end for a machine that does
not answer.
"""

import contextlib
import os
import re
import socket
from collections.abc import Iterator, Mapping

import tensorflow as tf

from bert_keras.errors import InputError, first_line
from bert_keras.training.config import DeviceConfig

LOCAL = "local"  # the name of the TPU that is part of this machine, a TPU VM
TIMEOUT_S = 20.0  # of a question to Google Cloud, and of a connection
VARIABLES = ("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_NAME")  # TensorFlow's


def check_paths(config: DeviceConfig, paths: Mapping[str, str | None]) -> None:
    """Refuses paths that a TPU's worker, another machine, cannot read.

    Args:
        paths: by argument, each one path or a comma list; None: not given.
    """
    if not config.use_tpu or _name(config) == LOCAL:
        return
    for argument, listed in paths.items():
        for path in (listed or "").split(","):
            if path and not re.match(r"gs://[^/]+/.", path):
                raise InputError(
                    f"`{argument}={path}` is not in a bucket, and the worker "
                    "of a Cloud TPU cannot read this machine's folders; give "
                    "gs://bucket/path, or `tpu_name=local` on a TPU VM"
                )


def connect(config: DeviceConfig) -> tf.distribute.Strategy:
    """All cores of the TPU that the settings or the environment name.

    Raises:
        InputError: there is none, or it does not answer.
    """
    name = _name(config)
    resolver = _resolve(config, name)
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


def _name(config: DeviceConfig) -> str:
    if config.master and not config.master.startswith("grpc://"):
        raise InputError(
            f"`master` is {config.master}; expected grpc://host:port, or the "
            "TPU's name as `tpu_name`"
        )
    given = [config.master, config.tpu_name, *map(os.environ.get, VARIABLES)]
    for name in given:
        if name:
            return name
    raise InputError(
        "`use_tpu` is given without `tpu_name`; expected the name of a Cloud "
        "TPU, its address grpc://host:port, or local on a TPU VM"
    )


def _resolve(
    config: DeviceConfig, name: str
) -> tf.distribute.cluster_resolver.TPUClusterResolver:
    """Asks Google Cloud for the TPU's addresses, and knocks at each."""
    try:
        with _socket_timeout():
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
            f"the Cloud TPU `tpu_name={name}` is not to be had "
            f"({first_line(error)}); check `tpu_name`, `tpu_zone` and "
            "`gcp_project`"
        ) from error
    for addresses in hosts.values():
        for address in addresses:
            _check_reachable(name, address)
    return resolver


def _check_reachable(name: str, address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), TIMEOUT_S).close()
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(
            f"nothing answers at {address} ({first_line(error)}), the "
            f"address of `tpu_name={name}`; check that the TPU is READY and "
            "that this machine is in its network"
        ) from error


@contextlib.contextmanager
def _socket_timeout() -> Iterator[None]:
    """Gives up connections that name no time themselves."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
