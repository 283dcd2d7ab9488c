"""The web server of docs/python.md, started on a free port of the loopback
and asked by many threads; for its test and for benchmarks/web_server.py."""

import contextlib
import itertools
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
SECONDS_TO_START = 120


def server_text(model_dir: str) -> str:
    """The page's server, for this model."""
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.M)
    (text,) = (block for block in blocks if "FastAPI()" in block)
    return text.replace("/tmp/reviews", model_dir)


@contextlib.contextmanager
def served(model_dir: str) -> Iterator[str]:
    """The address of a server that answers, until the block ends."""
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        Path(folder, "server.py").write_text(server_text(model_dir))
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "uvicorn", "server:app"),
                *("--host", "127.0.0.1", "--port", str(port)),
                *("--app-dir", folder, "--log-level", "warning"),
            ],
            cwd=ROOT,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(address, process)
            yield address
        finally:
            process.terminate()
            process.wait()


def _wait(address: str, process: subprocess.Popen) -> None:
    for _ in range(10 * SECONDS_TO_START):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/docs").close()
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"the server has not started: exit code {process.poll()}")


def ask(address: str, text: str) -> tuple[str, float]:
    """The label, and the seconds until it was there."""
    request = urllib.request.Request(
        f"{address}/predict",
        json.dumps({"text": text}).encode(),
        {"Content-Type": "application/json"},
    )
    begin = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        label = json.load(answer)["label"]
    return label, time.perf_counter() - begin


def measure(
    model_dir: str, texts: list[str], num_requests: int, num_threads: int
) -> tuple[list[float], float, int]:
    """Seconds of each request, seconds of all, and how many were wrong."""
    import bert_keras

    model = bert_keras.load(model_dir)
    expected = {text: model.predict(text).label for text in set(texts)}
    asked = list(itertools.islice(itertools.cycle(texts), num_requests))
    with served(model_dir) as address, ThreadPoolExecutor(num_threads) as pool:
        ask(address, texts[0])  # the first one traces the model
        begin = time.perf_counter()
        found = list(pool.map(lambda text: ask(address, text), asked))
        seconds = time.perf_counter() - begin
    wrong = sum(
        label != expected[text]
        for text, (label, _) in zip(asked, found, strict=True)
    )
    return [latency for _, latency in found], seconds, wrong
