"""Tests of training/cloud_tpu.py: all that can be said without a TPU."""

import socket
from collections.abc import Iterator

import pytest

from bert_keras.errors import InputError
from bert_keras.training import cloud_tpu
from bert_keras.training.config import DeviceConfig
from tests.conftest import fails_with


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in cloud_tpu.VARIABLES:
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


def sentence(**settings: str) -> str:
    with pytest.raises(InputError) as caught:
        cloud_tpu.connect(DeviceConfig(use_tpu=True, **settings))
    return str(caught.value)


def test_a_name_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "`use_tpu` is given without `tpu_name`" in sentence()
    assert "`master` is 10.0.0.2:8470" in sentence(master="10.0.0.2:8470")
    monkeypatch.setenv("TPU_NAME", "local")
    assert "answers as `tpu_name=local`" in sentence()


def test_an_address_where_nothing_is(shut: str) -> None:
    for flag in ("tpu_name", "master"):
        assert f"nothing answers at {shut}" in sentence(
            **{flag: f"grpc://{shut}"}
        )
    assert "nothing answers at h:x" in sentence(tpu_name="grpc://h:x")


def test_no_metadata_server(monkeypatch: pytest.MonkeyPatch, shut: str) -> None:
    monkeypatch.setenv("GCE_METADATA_IP", shut)
    found = sentence(tpu_name="absent")
    assert "cannot ask Google Cloud for `tpu_name=absent`" in found
    assert "give `tpu_zone` and `gcp_project`" in found


def test_a_metadata_server_that_is_silent(
    monkeypatch: pytest.MonkeyPatch, deaf: str
) -> None:
    monkeypatch.setenv("GCE_METADATA_IP", deaf)
    monkeypatch.setattr(cloud_tpu, "TIMEOUT_S", 0.1)
    assert "cannot ask Google Cloud" in sentence(tpu_name="absent")
    assert socket.getdefaulttimeout() is None


def test_a_tpu_that_google_cloud_does_not_give() -> None:
    found = sentence(tpu_name="absent", tpu_zone="z", gcp_project="p")
    assert "`tpu_name=absent` is not to be had" in found


def test_paths_that_a_worker_cannot_read() -> None:
    config = DeviceConfig(use_tpu=True, tpu_name="tpu-1")
    good = {"output_dir": "gs://b/out", "input_file": "gs://b/a*,gs://b/c"}
    cloud_tpu.check_paths(config, {**good, "eval_file": None})
    for path in ("out", "/out", "gs:/b/out", "gs://b", "gs:///out"):
        with pytest.raises(InputError, match=f"`output_dir={path}` is not in"):
            cloud_tpu.check_paths(config, {**good, "output_dir": path})
    with pytest.raises(InputError, match="`input_file=c` .*give gs://"):
        cloud_tpu.check_paths(config, {**good, "input_file": "gs://b/a,c"})
    local = {"output_dir": "out"}
    cloud_tpu.check_paths(DeviceConfig(), local)
    cloud_tpu.check_paths(DeviceConfig(use_tpu=True, tpu_name="local"), local)


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
