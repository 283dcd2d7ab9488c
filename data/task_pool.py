"""Tasks for several processes, each done once though the run is stopped.

A task is a function of a module with its arguments. The counts that it returns
are kept in a folder, beside whatever the task wrote there, and the same
command, run again, takes them from there.
"""

import concurrent.futures
import concurrent.futures.process
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import statistics
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tqdm import tqdm

from bert_keras import files
from bert_keras.data.instances import Summary
from bert_keras.errors import InputError, warn

SETTINGS, DONE = "settings.json", "done.json"
# Names of files in the folder, whole ones and unfinished
OWN = re.compile(r"\.?(span|part|records|output)-|\.?(settings|done)\.json")
read_json = functools.partial(
    files.read_json, advice="delete its folder to begin anew"
)
SECONDS_BETWEEN_LINES = 30.0  # of progress, where stderr is not a terminal


@contextlib.contextmanager
def open_or_resume(folder: str, settings: Mapping[str, Any]) -> Iterator[bool]:
    """Makes the folder or resumes what is in it, for this process alone.

    Yields whether anything is left to do.

    Args:
        settings: of JSON's types; the names are those of flags. With others
            the work would come out otherwise.

    Raises:
        InputError: another process is at it, or what is in the folder was made
            with other settings.
    """
    if os.path.islink(folder):  # in /tmp anybody could have made it
        raise InputError(
            f"{folder} is a link, and a folder of this name is needed for what "
            "is finished; remove the link, or name other output files"
        )
    with files.lock(folder, "output_file"):
        path = os.path.join(folder, SETTINGS)
        if not os.path.exists(path):
            _empty(folder, files.LOCK)  # left of one that was deleted
            files.write_json(path, settings)
        found = read_json(path)
        if settings.keys() - found.keys():
            raise InputError(
                f"{folder} was made by an earlier version, which did not store "
                "all that has to be the same; delete the folder to begin anew, "
                "or name other output files"
            )
        changed = [n for n in settings if found[n] != settings[n]]
        if changed:
            names = [name.removesuffix("'s digests") for name in changed]
            raise InputError(
                f"{folder} holds what was made for the same `output_file` with "
                f"other `{'`, `'.join(names)}`; delete the folder to begin "
                "anew, or name other output files"
            )
        yield not os.path.exists(os.path.join(folder, DONE))


def finish(folder: str, outputs: Mapping[str, Any]) -> None:
    """Empties the folder, except for what says that all is done, and what by
    path identifies each file that was made."""
    files.write_json(os.path.join(folder, DONE), outputs)
    _empty(folder, files.LOCK, SETTINGS, DONE)


def vocabulary_digest(vocab_file: str) -> str:
    """What the settings in a folder say of a vocabulary."""
    paths = files.vocabulary_files(vocab_file).values()
    found = b"".join(files.content(path) or b"" for path in paths)
    return hashlib.sha256(found).hexdigest()


def discard(folder: str) -> None:
    """Deletes it, so that whatever is left of it counts for nothing."""
    if os.path.islink(folder):
        return
    files.remove(os.path.join(folder, SETTINGS))
    shutil.rmtree(folder, ignore_errors=True)


def _empty(folder: str, *kept: str) -> None:
    for name in os.listdir(folder):
        if name not in kept and OWN.match(name):
            os.remove(os.path.join(folder, name))


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
