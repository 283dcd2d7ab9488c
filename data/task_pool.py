"""Tasks for several processes, each done once though the run is stopped.

A task is a function of a module with its arguments. The counts that it returns
are kept in the folder of data/work_folder.py, beside whatever the task wrote
there.
"""

import concurrent.futures
import concurrent.futures.process
import contextlib
import dataclasses
import itertools
import multiprocessing
import os
import pickle
import signal
import statistics
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tqdm import tqdm

from bert_keras import files
from bert_keras.data.instances import Summary
from bert_keras.data.work_folder import read_json
from bert_keras.errors import InputError, warn

SECONDS_BETWEEN_LINES = 30.0  # of progress, where stderr is not a terminal


class Workers:
    """A context manager.

    Args:
        num_workers: with one, tasks are done in this process.
        prepare: called in each new process before its first task; pickled.
        begin: called first of all in each new process, if given; pickled.
    """

    def __init__(
        self,
        folder: str,
        num_workers: int,
        prepare: Callable[[], None],
        begin: Callable[[], None] | None = None,
    ):
        self.folder = folder
        self.num_skipped = 0  # tasks that had been done before
        self._starts: dict[int, float] = {}  # a process's first task's, unix
        self._pool: concurrent.futures.Executor | None = None
        if num_workers > 1:
            try:
                # A fork would copy TensorFlow's threads, half.
                with _safe_path():
                    self._pool = concurrent.futures.ProcessPoolExecutor(
                        num_workers,
                        multiprocessing.get_context("spawn"),
                        initializer=_begin,
                        initargs=(begin, pickle.dumps(prepare)),
                    )
            except OSError as error:
                warn(
                    "one process does all the work: several need /dev/shm to "
                    f"be there and writable ({error.strerror})"
                )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool:
            # Do not wait for the tasks.
            if kind in (KeyboardInterrupt, SystemExit):
                for process in multiprocessing.active_children():
                    process.terminate()
            self._pool.shutdown(cancel_futures=True)

    def run(
        self,
        kind: str,
        function: Callable[..., Summary],
        arguments: Sequence[tuple[Any, ...]],
    ) -> Summary:
        """The sum of function(*own) for each of the arguments; `kind` is a word
        for the tasks, different for each call."""
        paths = [
            os.path.join(self.folder, f"{kind}-{number}.json")
            for number in range(len(arguments))
        ]
        tasks = [
            (function, path, own)
            for path, own in zip(paths, arguments, strict=True)
            if not os.path.exists(path)
        ]
        num_done = len(paths) - len(tasks)
        self.num_skipped += num_done
        results: Iterator[tuple[int, float]] = itertools.starmap(_do, tasks)
        if self._pool:
            # the first holds here, and for ever in the processes
            with _interrupts_wait(), _without_main(), _safe_path():
                futures = [self._pool.submit(_do, *task) for task in tasks]
            finished = concurrent.futures.as_completed(futures)
            results = (future.result() for future in finished)
        is_shown = sys.stderr.isatty()
        try:
            for process, start in tqdm(
                results,
                desc=f"{kind}s",
                total=len(paths),
                initial=num_done,
                unit=f" {kind}s",
                mininterval=0.5 if is_shown else SECONDS_BETWEEN_LINES,
            ):
                self._starts[process] = min(
                    start, self._starts.get(process, start)
                )
        except concurrent.futures.process.BrokenProcessPool as error:
            raise InputError(
                "a worker process was killed, perhaps because memory ran out; "
                "give the same command with fewer `num_workers`: what is "
                "finished is kept"
            ) from error
        try:
            parts = [Summary(**read_json(path)) for path in paths]
        except TypeError as error:
            raise InputError(
                f"{self.folder} was made by an earlier version, which counted "
                "other things; delete it to begin anew"
            ) from error
        return sum(parts, Summary())

    def seconds(self) -> float:
        """Since the processes began to work, the mean of them; 0 if none has.

        Without what they took to start, that is.
        """
        now = time.time()
        return now - statistics.mean(self._starts.values() or [now])


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C reaches the processes of a terminal alike; those begun in the
    block never see it, so that the first one can end them quietly."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Processes that are begun in the block do not run the program's own script
    again, as multiprocessing has it: tasks are of our modules, and a script
    without `if __name__ == "__main__"` would start processes of its own."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that are begun in the block do not import what lies in the
    working directory under the name of a module (from Python 3.11 on)."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


def _do(
    function: Callable[..., Summary], path: str, arguments: tuple[Any, ...]
) -> tuple[int, float]:
    """Returns the process, and when the task began."""
    start = time.time()
    files.write_json(path, dataclasses.asdict(function(*arguments)))
    return os.getpid(), start


def _begin(begin: Callable[[], None] | None, pickled: bytes) -> None:
    """In a new process; `pickled` is what else to call: loading it imports its
    module, so `begin` comes before."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    # Otherwise it would wait for tasks for ever if the parent is killed.
    threading.Thread(target=end_with_parent, daemon=True).start()
    # Each process has a core of its own; it needs no threads of a library.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if begin is not None:
        begin()
    prepare = pickle.loads(pickled)
    prepare()
