"""The web server of docs/python.md, asked by many threads at once.

    python benchmarks/web_server.py --model_dir=/tmp/reviews \\
        --text_file=lines.txt

Sends each line of the file several times, and compares every answer with the
model's own. Latencies are those of the clients. It needs fastapi and uvicorn.
"""

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.web_server import measure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--text_file", required=True, help="A text a line.")
    parser.add_argument("--num_requests", type=int, default=1000)
    parser.add_argument("--num_threads", type=int, default=8)
    flags = parser.parse_args()
    texts = Path(flags.text_file).read_text(encoding="utf-8").splitlines()
    latencies, seconds, wrong = measure(
        flags.model_dir,
        [text for text in texts if text.strip()],
        flags.num_requests,
        flags.num_threads,
    )
    hundredths = statistics.quantiles(latencies, n=100)
    print(
        f"{len(latencies)} requests, {wrong} wrong answers, "
        f"{len(latencies) / seconds:.0f} a second; latency: median "
        f"{1000 * hundredths[49]:.0f} ms, 95 % below "
        f"{1000 * hundredths[94]:.0f} ms, 99 % below "
        f"{1000 * hundredths[98]:.0f} ms"
    )
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
