"""What a command is: flags in; a sentence and exit code 1 on bad input.

Heavy imports (TensorFlow, Keras) belong inside a command's `main`, so that
`--help` and a mistyped flag answer at once.
"""

import collections
import contextlib
import errno
import faulthandler
import gc
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from bert_keras.cli import INTERRUPTED, is_interrupt, streams
from bert_keras.cli.flags import BYTES, HELP, Flags

from absl import logging

from bert_keras import __version__, files
from bert_keras.errors import InputError, one_line, show_flags, warn

STARTED = time.monotonic()  # a command imports this before anything slow
MAX_NOTICES = 10  # of each kind, line by line; others are only counted
# Keras and TensorFlow import these where they are installed, for wrappers,
# plots and converters that no command uses: a third of the time of an import.
UNUSED = ("jax", "matplotlib", "sklearn")

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


class Command:
    """A command, to be called: with the process's arguments, or with others.

        run_classifier.cli(["--do_eval", "--output_dir=/tmp/mrpc"])

    Attributes:
        name: as it is installed.
        description: paragraphs of `doc`.
        examples: the lines below "Examples:" there.
        arguments: what may follow the flags and is handed to `main`; "":
            nothing.
    """

    def __init__(
        self,
        doc: str | None,
        flags: Flags,
        main: Callable[..., None],
        arguments: str = "",
    ) -> None:
        self.name = Path(main.__code__.co_filename).stem
        self.description, _, examples = (doc or "").partition("Examples:\n")
        self.examples = textwrap.dedent(examples).strip("\n")
        self.flags, self.main, self.arguments = flags, main, arguments

    def __call__(self, argv: Sequence[str] | None = None) -> None:
        """Parses the flags and calls `main`.

        Args:
            argv: flags and what follows them; None: the process's.

        Raises:
            SystemExit: bad input, with code 1, after a sentence on standard
                error; or a signal, with 128 and its number.
        """
        streams.prepare()
        files.forget_streams()
        show_flags()
        given = [self.name, *argv] if argv is not None else sys.argv
        try:
            self._run(given)
        except (Exception, KeyboardInterrupt) as error:
            if is_interrupt(error):  # where nothing is there to be saved
                sys.exit(INTERRUPTED)
            if sentence := explained(error, self.flags):
                name = os.path.basename(given[0])
                print(one_line(f"{name}: {sentence}"), file=sys.stderr)
                sys.exit(1)
            raise
        finally:
            show_flags(False)

    def _run(self, argv: Sequence[str]) -> None:
        if argv[1:] == ["--version"]:
            print(f"bert-keras {__version__}")
            return
        texts = self.flags.parse(argv)
        if any(self.flags[name].value for name in HELP):
            from bert_keras.cli.reference import help_text

            print(help_text(self, self.flags.helpfull))
            return
        self.flags.check()
        if not sys.stderr.isatty():  # a log: no bar of three seconds' work,
            os.environ.setdefault("TQDM_DELAY", "3")  # and others seldom drawn
            os.environ.setdefault("TQDM_MININTERVAL", "5")
        if texts and not self.arguments:
            raise InputError(
                f"unexpected argument {texts[0]!r}; flags begin with --"
            )
        _prepare_environment()
        if not self.flags["verbosity"].present:
            logging.set_verbosity(logging.WARNING)
        logging.use_absl_handler()
        faulthandler.enable(2)
        with _sigterm_exits():
            self.main(*texts)


@contextlib.contextmanager
def _sigterm_exits() -> Iterator[None]:
    """In the block SIGTERM raises SystemExit, so that files begun are removed;
    training handles it in its own way."""

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one ends it at once
        sys.exit(128 + number)

    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if is_ours:
        signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _prepare_environment() -> None:
    # Errors raise exceptions beside what is logged; with bfloat16 on a CPU one
    # about int32 is logged at each start.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    os.environ["KERAS_BACKEND"] = "tensorflow"  # also over ~/.keras/keras.json
    if backend != "tensorflow":
        warn(f"KERAS_BACKEND={backend} is not used: commands run TensorFlow")
    if re.search(BYTES, os.environ.get("TMPDIR", "")):
        warn("TMPDIR is not UTF-8 and not used, as TensorFlow cannot")
        del os.environ["TMPDIR"]


def explained(error: BaseException, flags: Iterable[str] = ()) -> str | None:
    """What a person can do about an error; None: nothing, the code is at
    fault.

    Args:
        flags: names of those of the command.
    """
    if isinstance(error, InputError):
        return str(error)
    # TensorFlow has errors of the disk with and without the class for them, but
    # always with the system's words.
    text = getattr(error, "message", "") or str(error)
    text = text.split("}} ")[-1].split(" [Op:")[0]
    if "Permission denied" in text:
        return (
            f"cannot read or write: {text}; give this user the permission and "
            "run the same command again"
        )
    if "executing an HTTP request" in text:
        return (
            f"cannot read or write: {' '.join(text.split())}; check the path, "
            "the network and this machine's rights, and run the same command "
            "again"
        )
    if any(fault in text for fault in DISK_FAULTS):
        return (
            f"cannot write: {text}; free some space or give another folder to "
            "write to; what was complete before is unchanged, and the same "
            "command resumes from there"
        )
    kind = type(error).__name__  # TensorFlow may not be imported
    full = kind == "ResourceExhaustedError" and re.search(
        "(OOM when|[Oo]ut of memory|[Ff]ailed to allocate)[^\n]*", str(error)
    )
    if full or isinstance(error, MemoryError):
        shown = full[0] if full else error
        advice = "make the batch, the model or the input smaller"
        if "num_accumulation_steps" in flags:
            sizes = [
                f"--{name}"
                for name in ("eval_batch_size", "predict_batch_size")
                if name in flags
            ]
            advice = (
                "in training split each batch by --num_accumulation_steps, "
                "give --recompute or lower --train_batch_size (--dry_run "
                "estimates what a run takes); after it lower "
                f"{' or '.join(sizes)}"
            )
        return f"out of memory ({shown}); {advice}"
    if kind == "UnavailableError":
        from bert_keras.training.distribution import num_hosts

        if num_hosts() > 1:
            return (
                "another of the hosts in TF_CONFIG no longer answers; start "
                "the same command on all hosts again, and it resumes from the "
                "latest checkpoint in --output_dir"
            )
    # Of TensorFlow's errors those of files and networks, which have no place in
    # the code, or the system's words, or TensorFlow's, after a path.
    words = [f"; {os.strerror(number)}" for number in errno.errorcode]
    words.append(" is not a directory")
    if isinstance(error, OSError) and error.errno:
        names = filter(None, (error.filename, error.filename2))
        text = "; ".join([*map(os.fsdecode, names), str(error.strerror)])
    elif kind not in FILE_ERRORS and not any(x in text for x in words):
        return None
    return f"the system refuses: {text.strip()}; mend that and try again"


def import_tensorflow(
    flags: Flags | None = None, computes: bool = True
) -> None:
    """Imports TensorFlow without the page of greetings that it writes.

    They come from below Python and no setting silences them (2.21). An import
    that fails still raises.

    Args:
        flags: the command's; its --num_threads, if any, holds from then on.
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
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        sys.modules.update(hidden)
        if keeps_garbage:
            gc.disable()
        import tensorflow as tf

        tf.config.list_physical_devices()
        if flags is not None and "num_threads" in flags:
            _set_threads(flags.num_threads)
    finally:
        for name in hidden:
            del sys.modules[name]
        if keeps_garbage:
            gc.freeze()
            gc.enable()
        os.dup2(stderr, 2)
        os.close(stderr)
    if computes:
        known = flags.flag_values_dict() if flags is not None else {}
        print(_devices(known), file=sys.stderr, flush=True)


def _set_threads(count: int) -> None:
    import tensorflow as tf

    cpu = tf.config.threading
    try:
        cpu.set_intra_op_parallelism_threads(count)
        cpu.set_inter_op_parallelism_threads(count)
    except RuntimeError:  # a command before this one, in the same process
        has = cpu.get_intra_op_parallelism_threads()
        if count:
            raise InputError(
                f"--num_threads={count} comes too late: TensorFlow runs with "
                f"--num_threads={has} in this process; start another one"
            ) from None


def _devices(known: Mapping[str, Any]) -> str:
    """What a model runs on: "1 CPU, 2 cores, float32".

    Args:
        known: values of the command's flags.
    """
    import tensorflow as tf

    precision = known.get("precision", "float32")
    if known.get("use_tpu"):
        name = known.get("tpu_name") or known.get("master") or ""
        return f"connecting to Cloud TPU {name}".strip() + f", {precision}"
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
            env={
                **os.environ,
                "TF_CPP_MIN_LOG_LEVEL": "0",
                "PYTHONSAFEPATH": "1",  # a file here may be tensorflow.py
            },
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


class Notices:
    """Says on standard error what was odd about lines: of each kind the first
    few times, then how often.

    Attributes:
        unit: what is counted: "line", or "row" of a table.
    """

    unit = "line"

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()

    def say(self, number: int, sentence: str) -> None:
        self.counts[sentence] += 1
        if self.counts[sentence] <= MAX_NOTICES:
            place = f"{self.unit} {number}"
            print(f"{place}: {sentence}", file=sys.stderr, flush=True)

    def close(self) -> None:
        for sentence, count in self.counts.items():
            if count > MAX_NOTICES:
                counted = f"{count} {self.unit}s in all"
                print(f"{counted}: {sentence}", file=sys.stderr)
