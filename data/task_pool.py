"""Tasks for several processes, each done once though the run is stopped.

A task is a function of a module with its arguments. What it returns, a
dataclass of numbers, is kept in a folder, beside whatever the task wrote there,
and a later run takes it from there.
"""

import concurrent.futures
import concurrent.futures.process
import dataclasses
import multiprocessing
import os
import pickle
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tqdm import tqdm

from bert_keras.data.resume_folder import read_json, write_json
from bert_keras.errors import InputError

Result = TypeVar("Result")
Task = tuple[Callable[..., Any], str, tuple[Any, ...]]  # and its result's file

SECONDS_BETWEEN_LINES = 30.0  # of progress, where stderr is not a terminal


class Workers:
    """A context manager.

    Args:
        num_workers: with one, tasks are done in this process.
        prepare: called with `argument` in each process before its first task.
        begin: called first of all in each new process, if given; pickled.
    """

    def __init__(
        self,
        folder: str,
        num_workers: int,
        prepare: Callable[[Any], None],
        argument: Any,
        begin: Callable[[], None] | None = None,
    ):
        self.folder = folder
        self._starts: dict[int, float] = {}  # a process's first task's, unix
        self.num_skipped = 0  # tasks that had been done before
        self._pool: concurrent.futures.Executor | None = None
        if num_workers > 1:
            # A fork would copy TensorFlow's threads, half.
            self._pool = concurrent.futures.ProcessPoolExecutor(
                num_workers,
                multiprocessing.get_context("spawn"),
                initializer=_begin,
                initargs=(begin, pickle.dumps((prepare, argument))),
            )
        else:
            prepare(argument)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def run(
        self,
        kind: str,
        function: Callable[..., Result],
        result_type: type[Result],
        arguments: Sequence[tuple[Any, ...]],
    ) -> list[Result]:
        """function(*each of arguments), in order.

        Args:
            kind: a word for the tasks, different for each call.
        """
        paths = [
            os.path.join(self.folder, f"{kind}-{number}.json")
            for number in range(len(arguments))
        ]
        tasks = [
            (function, path, own)
            for path, own in zip(paths, arguments, strict=True)
            if not os.path.exists(path)
        ]
        self.num_skipped += len(paths) - len(tasks)
        with tqdm(
            desc=f"{kind}s",
            total=len(paths),
            initial=len(paths) - len(tasks),
            unit=f" {kind}s",
            file=sys.stderr,
            mininterval=0.5 if sys.stderr.isatty() else SECONDS_BETWEEN_LINES,
        ) as bar:
            for process, start in self._do_all(tasks):
                bar.update()
                self._starts[process] = min(
                    start, self._starts.get(process, start)
                )
        return [result_type(**read_json(path)) for path in paths]

    def seconds(self) -> float:
        """Since the processes began to work, the mean of them; 0 if none has.

        Without what they took to start, that is.
        """
        now = time.time()
        return now - statistics.mean(self._starts.values() or [now])

    def _do_all(self, tasks: Sequence[Task]) -> Iterator[tuple[int, float]]:
        """What `_do` returns, of each task when it is done."""
        if self._pool is None:
            yield from map(_do, tasks)
            return
        futures = [self._pool.submit(_do, task) for task in tasks]
        try:
            for future in concurrent.futures.as_completed(futures):
                yield future.result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise InputError(
                "a worker process was killed, perhaps because memory ran out; "
                "give the same command with fewer `num_workers`: what is "
                "finished is kept"
            ) from error


def _do(task: Task) -> tuple[int, float]:
    """Returns the process, and when the task began."""
    start = time.time()
    function, path, arguments = task
    write_json(path, dataclasses.asdict(function(*arguments)))
    return os.getpid(), start


def _begin(begin: Callable[[], None] | None, pickled: bytes) -> None:
    """In a new process; `pickled` is what to call, and with what: loading it
    imports its module, so `begin` comes before."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    # Otherwise it would wait for tasks for ever if the parent is killed.
    threading.Thread(target=end_with_parent, daemon=True).start()
    # Each process has a core of its own; it needs no threads of a library.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if begin is not None:
        begin()
    prepare, argument = pickle.loads(pickled)
    prepare(argument)
