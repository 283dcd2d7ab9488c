"""Commands of the repository as users start them, but in a quarter of a second.

A process imports TensorFlow and runs nothing with it; each command is then a
fork of that process, with flags, files and an end of its own. (After the first
operation TensorFlow has threads, which a fork does not copy.) Not on Windows.
"""

import contextlib
import gc
import importlib
import inspect
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
        count = sum(bool(re.match(r"\w+\.py: ", line)) for line in lines)
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
        return self.start(script, *args, cwd=cwd, timeout_s=timeout_s).ended()

    def start(
        self,
        script: str,
        *args: str,
        cwd: str,
        timeout_s: float = TIMEOUT_S,
        environment: dict[str, str] | None = None,
        compiles: bool = True,
    ) -> "Running":
        """`compiles`: element-wise chains, which takes most of the time of a
        short training."""
        request = {"script": script, "args": args, "cwd": cwd}
        more = {"timeout_s": timeout_s, "environment": environment or {}}
        pid = self.ask("start", **request, **more, compiles=compiles)
        return Running(self, pid)

    def ask(self, name: str, **request: Any) -> Any:
        """Has a function of `_Forks` called in the process."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([name, request]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            process.kill()


class Running(NamedTuple):
    """A command that may not have ended."""

    commands: Commands
    pid: int

    def is_running(self) -> bool:
        return self.commands.ask("is_running", pid=self.pid)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def ended(self) -> Ended:
        """Waits for its end; to be asked once."""
        return Ended(*self.commands.ask("ended", pid=self.pid))


def _serve() -> None:
    """Answers each request of standard input with a line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    gc.disable()
    _import_all()
    gc.freeze()  # what is there stays; no fork looks through it again
    gc.enable()
    gc.set_threshold(20_000, 20, 20)
    forks = _Forks()
    for line in sys.stdin:
        name, request = json.loads(line)
        answers.write(json.dumps(getattr(forks, name)(**request)) + "\n")
        answers.flush()


def _import_all() -> None:
    """Imports all that commands import, but no command."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.path.insert(0, str(ROOT))
    for room in ("cli", "data", "modeling", "tasks", "training"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            with contextlib.suppress(ImportError):  # Apache Beam
                importlib.import_module(f"bert_keras.{name}")
    from tensorflow.python.eager import context

    assert context.context()._context_handle is None, "TensorFlow has begun"


class _Forks:
    """By process id: when each began, what it writes, and how it ended."""

    def __init__(self) -> None:
        self._begun: dict[int, tuple[float, Any, Any]] = {}
        self._ends: dict[int, tuple[int, Any]] = {}

    def start(self, script: str, **request: Any) -> int:
        if script.startswith("export_"):
            _tokenize_all_characters()
        out = tempfile.TemporaryFile()  # noqa: SIM115
        err = tempfile.TemporaryFile()  # noqa: SIM115
        start = time.monotonic()
        pid = os.fork()
        if not pid:
            _become(script, out.fileno(), err.fileno(), **request)
        self._begun[pid] = start, out, err
        return pid

    def is_running(self, pid: int, options: int = os.WNOHANG) -> bool:
        if pid not in self._ends:
            ended, status, usage = os.wait4(pid, options)
            if ended:
                self._ends[pid] = status, usage
        return pid not in self._ends

    def ended(self, pid: int) -> Ended:
        self.is_running(pid, 0)
        start, *files = self._begun.pop(pid)
        seconds = time.monotonic() - start
        status, usage = self._ends.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        output, errors = map(_text, files)
        return Ended(code, output, errors, seconds, usage.ru_maxrss >> 10)


def _text(file: Any) -> str:
    """All of it; closes it."""
    with file:
        file.seek(0)
        return file.read().decode(errors="replace")


def _tokenize_all_characters() -> None:
    """What every export of an uncased model does first, remembered here."""
    from bert_keras.data.graph_tokenization import rewrites
    from bert_keras.data.tokenization import BasicTokenizer

    names = inspect.signature(BasicTokenizer).parameters
    basic = BasicTokenizer()
    rewrites(**{name: getattr(basic, name) for name in names})


def _become(
    script: str,
    *files: int,
    args: list[str],
    cwd: str,
    timeout_s: float,
    environment: dict[str, str],
    compiles: bool,
) -> None:
    """Turns this process into the command; does not return."""
    code: Any = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((nothing, *files)):
            os.dup2(file, number)
        os.chdir(cwd)
        os.environ.update(environment)
        sys.argv = [str(ROOT / script), *args]
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        from bert_keras.modeling.fused_ops import uncompiled

        with uncompiled(not compiles):
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
