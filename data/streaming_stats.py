"""Counts of very many things in little memory: lengths, repeats, favourites.

All of it is deterministic: what is shown depends on the data alone.
"""

import array
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

PERCENTILES = (1, 5, 25, 50, 75, 95, 99)
MAX_KEYS = 100_000  # that `HeavyHitters` holds at a time
NUM_BARS = 16  # of a histogram in text, at most
BAR_WIDTH = 40  # characters of the longest bar


class HeavyHitters:
    """The commonest words of a stream, of which MAX_KEYS are held at most.

    When there are more, the rarer half is forgotten ("lossy counting"). A
    count can then be too low, for a word that was rare when that happened.
    """

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def update(self, words: Iterable[str]) -> None:
        self._counts.update(words)
        if len(self._counts) > MAX_KEYS:
            self._counts = Counter(dict(self.top(MAX_KEYS // 2)))

    def top(self, number: int) -> list[tuple[str, int]]:
        """The commonest with their counts; of equally common ones the least."""
        order = sorted(self._counts.items(), key=lambda x: (-x[1], x[0]))
        return order[:number]


class Repeated(NamedTuple):
    """A thing that came more than once."""

    fingerprint: int
    first: int  # its place in the stream, from 0
    times: int


class DuplicateFinder:
    """Finds what comes twice: 8 bytes a thing, some 60 while it sorts them.

    Two different things share their fingerprint with a chance of 2**-64; among
    a hundred million things no two do, with a chance of 99.97 %.
    """

    def __init__(self) -> None:
        self._values = array.array("Q")

    def add(self, thing: bytes) -> None:
        self._values.append(fingerprint(thing))

    def repeats(self, number: int) -> tuple[int, list[Repeated]]:
        """How many had come before, and the `number` that came most often.

        Of a, b, a, c, a, b three had come before: a at 0 came 3 times, b at 1
        twice.
        """
        unique, firsts, counts = np.unique(
            np.asarray(self._values), return_index=True, return_counts=True
        )
        order = np.lexsort((firsts, -counts))[:number]
        most = [
            Repeated(int(unique[i]), int(firsts[i]), int(counts[i]))
            for i in order
            if counts[i] > 1
        ]
        return len(self._values) - len(unique), most


def fingerprint(thing: bytes) -> int:
    """A number below 2**64, the same in each process and on each machine."""
    digest = hashlib.blake2b(thing, digest_size=8).digest()
    return int.from_bytes(digest, "little")


def percentile(counts: Sequence[int], percent: float) -> int:
    """The smallest length that at least `percent` of all things do not exceed.

    Args:
        counts: how many have length 0, 1, ...; at least one thing is there.
    """
    cumulated = np.cumsum(counts)
    return int(np.searchsorted(cumulated, cumulated[-1] * percent / 100))


def format_lengths(counts: Sequence[int]) -> str:
    """Percentiles, and bars of '#' for ranges of lengths; counts[i] things
    have length i."""
    if not sum(counts):
        return "  none"
    percents = [f"{percent}%" for percent in PERCENTILES]
    lengths = [f"{percentile(counts, p):,}" for p in PERCENTILES]
    lines = [
        "  share      " + "".join(f"{text:>7}" for text in percents),
        "  up to      " + "".join(f"{text:>7}" for text in lengths),
    ]
    last = max(i for i, count in enumerate(counts) if count)
    width = -(-(last + 1) // NUM_BARS)
    sums = {i: sum(counts[i : i + width]) for i in range(0, last + 1, width)}
    for start, number in sums.items():
        end = min(start + width - 1, last)
        ends = f"{start:,}-{end:,}" if end > start else f"{start:,}"
        bar = "#" * -(-BAR_WIDTH * number // max(sums.values()))
        lines.append(f"  {ends:<11}{number:>12,}  {bar}".rstrip())
    return "\n".join(lines)


def format_table(rows: Mapping[str, str], name_width: int = 32) -> str:
    """A name and a value a line."""
    return "\n".join(
        f"{name:<{name_width}}{value:>15}" for name, value in rows.items()
    )


def format_share(part: float, whole: float) -> str:
    """3 of 8 are 37.50%."""
    return f"{part / whole:.2%}" if whole else "-"


def format_top(title: str, lines: Iterable[tuple[str, int]]) -> list[str]:
    """A title and a count with its thing a line; nothing if there are none."""
    shown = [f"  {count:>9,}  {thing}" for thing, count in lines]
    return [title, *shown] if shown else []
