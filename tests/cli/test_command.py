"""Tests of cli/command.py: files that appear whole, and how a command ends."""

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bert_keras.cli import command

import pytest
import tensorflow as tf

from bert_keras import files
from bert_keras.errors import InputError
from tests.command_world import GOOD
from tests.conftest import ROOT, fails_with


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.bin"
    with files.writing(str(path), "output_file") as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    with (
        pytest.raises(RuntimeError),
        files.writing(str(path), "output_file") as file,
    ):
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", ["", "file/x.bin", "x" * 300])
def test_where_nothing_can_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match="cannot write `pooled_file="),
        files.writing(str(tmp_path / place), "pooled_file"),
    ):
        pass


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x/y"),
            "No space left on device: '/x/y'; free some space",
        ),
        (
            tf.errors.FailedPreconditionError(
                None, None, "{{node __wrapped__}} /x; Read-only file system"
            ),
            "cannot write: /x; Read-only file system; free some space",
        ),
        (
            tf.errors.PermissionDeniedError(
                None, None, "/x; Permission denied"
            ),
            "cannot read or write: /x; Permission denied; give this user",
        ),
        (
            tf.errors.FailedPreconditionError(
                None,
                None,
                "Error executing an HTTP request: no host\n\t when reading "
                "metadata of gs://b/x",
            ),
            "no host when reading metadata of gs://b/x; check the path, the",
        ),
    ],
)
def test_a_disk_that_takes_nothing_is_a_sentence(
    error: Exception, sentence: str
) -> None:
    assert sentence in (command.explained(error) or "")


@pytest.mark.parametrize("read", [open, files.fingerprint, os.listdir])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none", errno.ENOENT),
        ("loop", errno.ELOOP),
        ("file/x", errno.ENOTDIR),
        ("x" * 300, errno.ENAMETOOLONG),
    ],
)
def test_what_the_system_refuses_is_a_sentence(
    tmp_path: Path, read: Callable[[str], object], name: str, reason: int
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    with pytest.raises((OSError, tf.errors.OpError)) as failed:
        read(f"{tmp_path}/{name}")
    assert command.explained(failed.value) == (
        f"the system refuses: {tmp_path}/{name}; {os.strerror(reason)}; mend "
        "that and try again"
    )


def test_a_folder_below_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(tf.errors.OpError) as failed:
        tf.io.gfile.makedirs(f"{tmp_path}/file/x")
    assert command.explained(failed.value) == (
        f"the system refuses: {tmp_path}/file is not a directory; mend that "
        "and try again"
    )


@pytest.mark.parametrize(
    "error",
    [
        OSError("could not get source code"),
        KeyError("No such file or directory"),
        tf.errors.InvalidArgumentError(None, None, "Incompatible shapes: [2]"),
    ],
)
def test_a_fault_of_the_code_is_not_explained(error: Exception) -> None:
    assert command.explained(error) is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes")
def test_a_name_that_is_not_utf8() -> None:
    sentence = fails_with(
        "build_vocab.py", "--input_file=caf\udce9", "--output_file=v"
    )
    assert r"--input_file=caf\udce9 is not UTF-8, in which" in sentence


@pytest.mark.slow
def test_a_memory_that_is_full_is_a_sentence() -> None:
    with pytest.raises(tf.errors.ResourceExhaustedError) as full:
        tf.zeros([1 << 25, 1 << 25])  # more than a processor can address
    said = command.explained(full.value) or ""
    assert "out of memory (OOM when allocating tensor with shape" in said
    said = command.explained(MemoryError("Unable to allocate 7 GiB")) or ""
    assert "out of memory (Unable to allocate 7 GiB); " in said
    open_files = "Too many open files"
    other = tf.errors.ResourceExhaustedError(None, None, open_files)
    assert command.explained(other) is None


def test_a_lost_host_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tf.errors.UnavailableError(None, None, "Connection reset by peer")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert "refuses: Connection" in (command.explained(gone) or "")  # a bucket
    for hosts, is_said in ((["h:1"], False), (["h:1", "h:2"], True)):
        task = {"type": "worker", "index": 0}
        config = json.dumps({"cluster": {"worker": hosts}, "task": task})
        monkeypatch.setenv("TF_CONFIG", config)
        said = command.explained(gone) or ""
        assert is_said == ("hosts in TF_CONFIG no longer answers" in said)
    assert command.explained(ValueError("of another kind")) is None


@pytest.mark.parametrize("name", GOOD)
def test_ctrl_c_is_quiet_from_the_first_import_on(
    tmp_path: Path, name: str
) -> None:
    """absl is the first of other libraries that a command imports. Some make
    an error of their own of what is raised within them."""
    code = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup ignores it
try:
    os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit("no signal came")
except KeyboardInterrupt as error:
    raise ImportError("initialization failed") from error
"""
    (tmp_path / "absl.py").write_text(code)
    done = subprocess.run(
        [sys.executable, str(ROOT / f"{name}.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


WRITES = """"Writes slowly."
import sys, time
from bert_keras import files
from bert_keras.cli import command
from bert_keras.cli.flags import Flags

def main():
    with files.writing("x.bin", "output_file"):
        time.sleep(60)

command.Command(__doc__, Flags(), main)()
"""


@pytest.mark.slow
def test_sigterm_leaves_no_file_half_written(tmp_path: Path) -> None:
    script = tmp_path / "writes.py"
    script.write_text(WRITES)
    with subprocess.Popen(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        while not list(tmp_path.glob(".x.bin.*.incomplete")):
            assert process.poll() is None
            time.sleep(0.1)
        process.terminate()
    assert process.returncode == 143
    assert list(tmp_path.iterdir()) == [script]


@pytest.mark.slow
def test_a_name_with_a_scheme_is_the_file_of_that_name(tmp_path: Path) -> None:
    """Or else an output that is an input would not be seen."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the sea\n" * 20)
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "build_vocab.py"),
            f"--input_file={corpus},file://{corpus}",
            f"--output_file=file://{corpus}",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"--output_file={corpus} would overwrite --input_file" in done.stderr
    assert corpus.read_text() == "the sea\n" * 20


def test_a_flag_that_is_no_finite_number() -> None:
    # infinity, which lies above any lower bound
    sentence = fails_with(
        "run_pretraining.py",
        *("--input_file=a", "--output_dir=b", "--bert_config_file=c"),
        "--learning_rate=1e400",
    )
    assert sentence == (
        "run_pretraining.py: --learning_rate=inf is not a finite number"
    )


def test_devices_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("nvidia-smi", "python"):
        (tmp_path / name).write_text(
            "#!/bin/sh\necho NVIDIA H100 80GB HBM3, 81559 MiB\n"
            "echo W0000 Cannot dlopen some GPU libraries >&2\n"
        )
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 7})
    gpus: list[str] = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: gpus)
    details = {"device_name": "NVIDIA H100 80GB HBM3"}
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda _: details
    )
    for hidden in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert command._devices({}) == "1 CPU, 3 cores, float32"
    gpus += ["/gpu:0", "/gpu:1"]
    assert command._devices({}) == (
        "2 GPUs: NVIDIA H100 80GB HBM3, 81559 MiB, float32"
    )
    assert command._devices({"use_tpu": True, "tpu_name": "mine"}) == (
        "connecting to Cloud TPU mine, float32"
    )


def test_a_gpu_that_is_not_used_is_said(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\necho greetings >&2\n"
        "echo W0000 Cannot dlopen some GPU libraries >&2\n"
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: [])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert command._devices({}).startswith("1 CPU, ")
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "TensorFlow: W0000 Cannot dlopen some GPU libraries"
    assert "tensorflow[and-cuda]" in said[1] and len(said) == 2


IMPORT = """
import gc, importlib.util, sys, types
from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flags
FLAGS = Flags(*common_flags.PRECISION_AND_THREADS)
FLAGS.parse(sys.argv)
loaded = sys.modules["sklearn"] = types.ModuleType("sklearn")
command.import_tensorflow(FLAGS)
print(sys.modules["sklearn"] is loaded, "matplotlib" not in sys.modules)
print(importlib.util.find_spec("matplotlib") is not None)
import tensorflow as tf
tf.constant(0)
print(tf.config.threading.get_intra_op_parallelism_threads())
print(tf.config.threading.get_inter_op_parallelism_threads())
print(gc.isenabled(), gc.get_freeze_count() > 100_000)
kept = gc.get_freeze_count()
command.import_tensorflow(FLAGS)
print(gc.get_freeze_count() <= kept)
FLAGS.parse(["", "--num_threads=5"])
try:
    command.import_tensorflow(FLAGS)
except ValueError as error:
    print("comes too late" in str(error))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "count"), [([], "0"), (["--num_threads=3"], "3")]
)
def test_import_heeds_the_threads_and_keeps_what_it_made_out_of_collections(
    args: list[str], count: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, *args],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [*3 * ["True"], count, count, *4 * ["True"]]
