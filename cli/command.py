"""What commands share: absl flags in; a sentence and exit code 1 on bad input.

Heavy imports (TensorFlow, Keras) belong inside a command's `main`, so that
`--help` and a mistyped flag answer at once.
"""

import collections
import contextlib
import dataclasses
import errno
import gc
import glob
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from bert_keras.cli import INTERRUPTED, is_interrupt, streams

from absl import app, flags, logging

from bert_keras.errors import InputError, one_line, show_flags, warn

Settings = TypeVar("Settings")
MAX_NOTICES = 10  # of each kind, line by line; others are only counted
# Keras and TensorFlow import these where they are installed, for wrappers,
# plots and converters that no command uses: a third of the time of an import.
UNUSED = ("jax", "matplotlib", "sklearn")

# Ends of the names of flags that name files or folders
FILES = ("_file", "_dir", "_checkpoint", "_json", "_png")
BYTES = "[\udc80-\udcff]"  # as Python keeps those that are not UTF-8
DISK_FAULTS = (
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "File too large",
)

FILE_ERRORS = (
    "AbortedError",
    "AlreadyExistsError",
    "DataLossError",
    "DeadlineExceededError",
    "NotFoundError",
    "UnauthenticatedError",
    "UnavailableError",
)


def run(main: Callable[..., None], takes_arguments: bool = False) -> None:
    """Parses the flags, calls `main()` and turns an InputError into exit 1.

    With `takes_arguments` what follows the flags is handed to `main`.

    Unknown flags are refused by absl, with the nearest known name. (Google's
    tf.app.run ignores them, so that a typing error trains with a default.)
    """
    streams.prepare()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    os.environ["KERAS_BACKEND"] = "tensorflow"  # also over ~/.keras/keras.json
    if backend != "tensorflow":
        warn(f"KERAS_BACKEND={backend} is not used: commands run TensorFlow")
    if re.search(BYTES, os.environ.get("TMPDIR", "")):
        warn("TMPDIR is not UTF-8 and not used, as TensorFlow cannot")
        del os.environ["TMPDIR"]
    show_flags()
    module = main.__module__
    if module != "__main__":
        # It was installed: --help would tell of the little script that calls.
        sys.modules["__main__"].__doc__ = sys.modules[module].__doc__
        for flag in flags.FLAGS.get_key_flags_for_module(module):
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)

    def guarded(argv: list[str]) -> None:
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)
        arguments = argv[1:]
        if arguments and not takes_arguments:
            _fail(f"unexpected argument {arguments[0]!r}; flags begin with --")
        for name, value in flags.FLAGS.flag_values_dict().items():
            # absl's bounds let infinity through
            if isinstance(value, float) and not math.isfinite(value):
                _fail(f"--{name}={value} is not a finite number")
            if isinstance(value, str) and name.endswith(FILES):
                # Only so are two names of one file known to be one.
                local = re.sub(r"(^|,)file://(?=/)", r"\1", value)
                if local != value:
                    flags.FLAGS[name].value = value = local
            if isinstance(value, str) and re.search(BYTES, value):
                _fail(
                    f"--{name}={value} is not UTF-8, in which TensorFlow takes "
                    "the names of files; rename it"
                )
        try:
            main(*arguments)
        except (Exception, KeyboardInterrupt) as error:
            if is_interrupt(error):  # where nothing is there to be saved
                sys.exit(INTERRUPTED)
            if sentence := explained(error):
                _fail(sentence)
            raise

    app.run(guarded)


def explained(error: BaseException) -> str | None:
    """What a person can do about an error; None: nothing, the code is at
    fault."""
    if isinstance(error, InputError):
        return str(error)
    # TensorFlow has errors of the disk with and without the class for them, but
    # always with the system's words.
    text = getattr(error, "message", "") or str(error)
    text = text.split("}} ")[-1].split(" [Op:")[0]
    if "Permission denied" in text:
        return (
            f"cannot read or write: {text}; see to it that this user may, and "
            "give the same command again"
        )
    if any(fault in text for fault in DISK_FAULTS):
        return (
            f"cannot write: {text}; make room or give another folder to write "
            "to; what was whole before is as it was, and the same command goes "
            "on from there"
        )
    kind = type(error).__name__  # TensorFlow may not be imported
    found = re.search(
        "(OOM when|[Oo]ut of memory|[Ff]ailed to allocate)[^\n]*", str(error)
    )
    is_full = kind == "ResourceExhaustedError" and found is not None
    if is_full or isinstance(error, MemoryError):
        shown = found[0] if is_full and found else error
        advice = "make the batch, the model or the input smaller"
        if "num_accumulation_steps" in flags.FLAGS:
            sizes = [
                f"--{name}"
                for name in ("eval_batch_size", "predict_batch_size")
                if name in flags.FLAGS
            ]
            advice = (
                "in training split each batch by --num_accumulation_steps, "
                "give --recompute or lower --train_batch_size (--dry_run "
                "reckons what a run takes); after it lower "
                f"{' or '.join(sizes)}"
            )
        return f"the memory is full ({shown}); {advice}"
    if kind == "UnavailableError":
        from bert_keras.training.distribution import num_hosts

        if num_hosts() > 1:
            return (
                "another of the hosts in TF_CONFIG does not answer any more; "
                "start the same command on all of them again, and it goes on "
                "from the newest state in --output_dir"
            )
    # Of TensorFlow's errors those of files and networks, which have no place in
    # the code, or the system's words after a path.
    words = map(os.strerror, errno.errorcode)
    if isinstance(error, OSError) and error.errno:
        names = filter(None, (error.filename, error.filename2))
        text = "; ".join([*map(os.fsdecode, names), str(error.strerror)])
    elif kind not in FILE_ERRORS and not any(f"; {x}" in text for x in words):
        return None
    return f"the system refuses: {text.strip()}; mend that and try again"


def import_tensorflow(computes: bool = True) -> None:
    """Imports TensorFlow without the page of greetings that it writes.

    They come from below Python and no setting silences them (2.21). An import
    that fails still raises. `--num_threads`, of commands that have it, holds
    from then on.

    Args:
        computes: whether the command runs a model: on which devices is printed.
    """
    # None in sys.modules makes an import fail, so these look uninstalled.
    hidden: dict[str, Any] = {
        name: None for name in UNUSED if name not in sys.modules
    }
    # Imports make 300,000 objects that live as long as the process: nothing is
    # collected meanwhile, and collections to come do not look at them. Where
    # they are loaded already the collector is left alone.
    keeps_garbage = "tensorflow" not in sys.modules and gc.isenabled()
    stderr = os.dup(sys.stderr.fileno())
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    try:
        sys.modules.update(hidden)
        if keeps_garbage:
            gc.disable()
        import tensorflow as tf

        tf.config.list_physical_devices()
        if "num_threads" in flags.FLAGS:
            count = flags.FLAGS["num_threads"].value
            tf.config.threading.set_intra_op_parallelism_threads(count)
            tf.config.threading.set_inter_op_parallelism_threads(count)
    finally:
        for name in hidden:
            del sys.modules[name]
        if keeps_garbage:
            gc.freeze()
            gc.enable()
        os.dup2(stderr, sys.stderr.fileno())
        os.close(stderr)
    if computes:
        print(_devices(), file=sys.stderr, flush=True)


def _devices() -> str:
    """What a model runs on: "1 CPU, 2 cores, float32"."""
    import tensorflow as tf

    known = flags.FLAGS.flag_values_dict()
    precision = known.get("precision", "float32")
    if known.get("use_tpu"):
        name = known.get("tpu_name") or known.get("master") or ""
        return f"Cloud TPU {name}".strip() + f", {precision}"
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = map(tf.config.experimental.get_device_details, gpus)
        names = [found.get("device_name", "unknown") for found in details]
        memory = _gpu_memory()
        kinds = [
            f"{name}{memory.get(name, '')}" for name in dict.fromkeys(names)
        ]
        count = "1 GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
        return f"{count}: {', '.join(kinds)}, {precision}"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    has_gpu = visible not in ("", "-1")  # which hide it on purpose
    if visible is None:
        has_gpu = bool(
            glob.glob("/dev/nvidia[0-9]*") or shutil.which("nvidia-smi")
        )
    if has_gpu:
        _say_why_gpu_is_unused()
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return f"1 CPU, {cores} core{'s' * (cores > 1)}, {precision}"


def _gpu_memory() -> dict[str, str]:
    """The memory of each kind of GPU, as text to follow its name."""
    query = "nvidia-smi --query-gpu=name,memory.total --format=csv,noheader"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        lines = subprocess.check_output(
            query.split(), stderr=subprocess.DEVNULL, text=True, timeout=20
        ).splitlines()
        pairs = (line.rpartition(", ") for line in lines)
        return {name: f", {memory}" for name, _, memory in pairs}
    return {}


def _say_why_gpu_is_unused() -> None:
    """Prints TensorFlow's reasons, from another process: in this one `run`
    has silenced them."""
    looking = "import tensorflow as tf; tf.config.list_physical_devices('GPU')"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [sys.executable, "-c", looking],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        for line in done.stderr.splitlines():
            if re.search("gpu|cuda|dlopen|nvidia", line, re.IGNORECASE):
                print(f"TensorFlow: {one_line(line)}", file=sys.stderr)
    warn(
        "this machine has a GPU, or CUDA_VISIBLE_DEVICES names one, but "
        "TensorFlow does not use it: CUDA's libraries may be missing (pip "
        "install 'tensorflow[and-cuda]' installs them) or the driver may be "
        'too old; CUDA_VISIBLE_DEVICES="" hides the GPU on purpose'
    )


def from_flags(
    settings: type[Settings], stored: Any = None, **values: Any
) -> Settings:
    """Fills a dataclass from `values` and the flags named like its fields.

    Args:
        stored: whose fields stand in for flags that are not given.
    """
    assert dataclasses.is_dataclass(settings)
    found: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        if (name := field.name) in flags.FLAGS:
            flag = flags.FLAGS[name]
            is_stored = hasattr(stored, name) and not flag.present
            found[name] = getattr(stored, name) if is_stored else flag.value
    return settings(**(found | values))


def flags_text() -> str:
    """The flags that were given, as a --flagfile that repeats the command.

    Those left out stay so: commands refuse some flags that change nothing.
    """
    known = flags.FLAGS.get_key_flags_for_module(sys.argv[0])
    lines = [flag.serialize() for flag in known if flag.present]
    return "\n".join(filter(None, lines)) + "\n"


def given_files() -> dict[str, str]:
    """The data that the command reads, by flag."""
    names = (
        "task_name", "data_dir", "input_file", "eval_file", "predict_file",
    )  # fmt: skip
    known = (name for name in names if name in flags.FLAGS)
    return {name: x for name in known if (x := flags.FLAGS[name].value)}


class Notices:
    """Says on standard error what was odd about lines: of each kind the first
    few times, then how often."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()

    def say(self, number: int, sentence: str) -> None:
        self.counts[sentence] += 1
        if self.counts[sentence] <= MAX_NOTICES:
            print(f"line {number}: {sentence}", file=sys.stderr, flush=True)

    def close(self) -> None:
        for sentence, count in self.counts.items():
            if count > MAX_NOTICES:
                print(f"{count} lines in all: {sentence}", file=sys.stderr)


def _fail(sentence: str) -> None:
    line = one_line(f"{os.path.basename(sys.argv[0])}: {sentence}")
    print(line, file=sys.stderr)
    sys.exit(1)
