"""Commands of the repository as users start them, but in a quarter of a second.

A process imports TensorFlow and runs nothing with it; each command is then a
fork of that process, with flags, files and an end of its own. (After the first
operation TensorFlow has threads, which a fork does not copy.) Not on Windows.
"""

import contextlib
import gc
import importlib
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
TIMEOUT_S = 120.0


class Ended(NamedTuple):
    """How a command has ended."""

    code: int  # -n: by signal n
    output: str
    errors: str
    seconds: float
    peak_mib: int  # the most memory it had

    @property
    def is_refusal(self) -> bool:
        """Whether it said one sentence and exited with 1."""
        return self.code == 1 and not self.fault

    @property
    def fault(self) -> str:
        """What is wrong with how it refused; "": nothing."""
        if self.code < 0:
            return f"ended by signal {-self.code}"
        if "Traceback (most recent call last)" in self.errors:
            return "a traceback"
        if self.code != 1:
            return f"exit code {self.code}"
        lines = re.split("[\r\n]+", self.errors)
        ours_or_absls = re.compile(r"\w+\.py: |FATAL Flags parsing error")
        count = sum(bool(ours_or_absls.match(line)) for line in lines)
        if count != 1:
            return f"{count} sentences"
        return ""


class Commands:
    """The process; a context manager."""

    def __enter__(self) -> "Commands":
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def run(
        self, script: str, *args: str, cwd: str, timeout_s: float = TIMEOUT_S
    ) -> Ended:
        assert self._process.stdin and self._process.stdout
        request = {"script": script, "args": args, "cwd": cwd}
        line = json.dumps({**request, "timeout_s": timeout_s})
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            process.kill()


def _serve() -> None:
    """Answers each request of standard input with a line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    gc.disable()
    _import_all()
    gc.freeze()  # what is there stays; no fork looks through it again
    gc.enable()
    gc.set_threshold(20_000, 20, 20)
    for line in sys.stdin:
        ended = _run(**json.loads(line))
        answers.write(json.dumps(ended._asdict()) + "\n")
        answers.flush()


def _import_all() -> None:
    """What commands import, but for the commands, whose flags are their own."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.path.insert(0, str(ROOT))
    for room in ("cli", "data", "modeling", "tasks", "training"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            with contextlib.suppress(ImportError):  # Apache Beam
                importlib.import_module(f"bert_keras.{name}")
    from tensorflow.python.eager import context

    assert context.context()._context_handle is None, "TensorFlow has begun"


def _run(script: str, args: list[str], cwd: str, timeout_s: float) -> Ended:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        pid = os.fork()
        if not pid:
            _become(script, args, cwd, timeout_s, out.fileno(), err.fileno())
        _, status, usage = os.wait4(pid, 0)
        for file in (out, err):
            file.seek(0)
        return Ended(
            os.waitstatus_to_exitcode(status),
            out.read().decode(errors="replace"),
            err.read().decode(errors="replace"),
            time.monotonic() - start,
            usage.ru_maxrss >> 10,
        )


def _become(
    script: str, args: list[str], cwd: str, timeout_s: float, *files: int
) -> None:
    """Turns this process into the command; does not return."""
    code: Any = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((nothing, *files)):
            os.dup2(file, number)
        os.chdir(cwd)
        sys.argv = [str(ROOT / script), *args]
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as error:
        code = error.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    _serve()
