"""Do two samplers of pre-training records draw from one distribution?

    python benchmarks/sampler_statistics.py --vocab_file=$VOCAB \\
        --records_a google-*.tfrecord --records_b vectorized-*.tfrecord

Each argument is one run of create_pretraining_data.py over the same text, with
a --random_seed of its own; quoted, it may be a pattern of that run's shards.
Prints a table, a line a statistic: counts in bins, compared by chi-square.

Records are not independent of each other: whether a document is cut short is
drawn once for all of its records, and each of its sentences is used once a
visit. So the usual p-value ("if independent") is wrong, in either direction.
Runs of different seeds are independent, and equally distributed if the
samplers are. The p-value "over runs" is therefore that of a permutation test:
the share of all ways to call as many of the runs "a" that give a chi-square
at least as large. It is exact, whatever depends on what within a run. Several
runs a side are needed: 4 and 4 can give no less than 2/70 = 0.029, 8 and 8
give 2/12,870.

"Inflation" calibrates: the chi-square between the runs of one side, where
there is nothing to find, over its degrees of freedom. It is 1 for independent
records. Google's sampler against itself, six runs of 11,600 records a side
(1 MB of Wikipedia, dupe_factor 5), gave for the lengths 385 on 105 degrees of
freedom, p if independent 1e-33, over runs 0.048; short_seq_prob 0.2 instead of
0.1 in b, of four runs, gave 2359 and over runs 1/210, the least there is.
The lines are no independent tests (lengths tell in several of them), and among
ten one is below 0.05 easily: below the table is the least p times their number.

Shapes: R runs, K bins, W ways to call runs "a"; B records, S positions, P
predictions.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent.parent))

from bert_keras.data import inspect_records, text_files, vocabulary

Counts = dict[str, np.ndarray]  # a statistic's name -> [K], or [R, K]

SHARE_BINS = 200  # of masked shares, 0 to 1
RELATIVE_BINS = 20  # of positions, from a record's first piece to its last
PIECE_BINS = 100  # of random pieces, by their ids
MIN_EXPECTED = 5  # in a bin of a run; scarcer bins are joined with the next
MAX_WAYS = 20_000  # more are sampled, with this seed:
SEED = 1
MIN_WAYS = 20  # fewer say nothing


def count(batch: Mapping[str, np.ndarray], mask: int, size: int) -> Counts:
    """The statistics of some records.

    Args:
      mask: the id of [MASK].
      size: of the vocabulary.
    """
    real = batch["input_mask"] == 1  # [B, S]
    asked = batch["masked_lm_weights"] > 0  # [B, P]
    places = batch["masked_lm_positions"]
    seen = np.take_along_axis(batch["input_ids"], places, 1)
    kept = asked & (seen == batch["masked_lm_ids"])
    masked = asked & ~kept & (seen == mask)
    other = asked & ~kept & ~masked
    lengths, num_asked = real.sum(1), asked.sum(1)
    width, most = real.shape[1], asked.shape[1]
    relative = places * RELATIVE_BINS // lengths[:, None]
    gaps = np.diff(places, axis=1)[asked[:, 1:]]
    in_a = (real & (batch["segment_ids"] == 0)).sum(1)

    def bins(values: np.ndarray, number: int) -> np.ndarray:
        return np.bincount(values.ravel(), minlength=number)

    return {
        "next sentence is random": bins(batch["next_sentence_labels"], 2),
        "length": bins(lengths, width + 1),
        "length of A": bins(in_a, width + 1),
        "masked share of a record": bins(
            num_asked * SHARE_BINS // lengths, SHARE_BINS + 1
        ),
        "[MASK], kept, random": np.array([
            masked.sum(), kept.sum(), other.sum()
        ]),
        "not [MASK], in a record": bins((kept | other).sum(1), most + 1),
        "position": bins(places[asked], width),
        "position / length": bins(relative[asked], RELATIVE_BINS),
        "between two positions": bins(gaps, width),
        "random piece": bins(seen[other] * PIECE_BINS // size, PIECE_BINS),
    }  # fmt: skip


def count_run(pattern: str, vocab: Mapping[str, int]) -> Counts:
    """The statistics of all records of a run."""
    paths = text_files.expand_patterns(pattern, "--records_a or --records_b")
    table = inspect_records.find_table(paths)
    if "masked_lm_positions" not in {feature.name for feature in table}:
        sys.exit(f"{pattern} has records without masks: make them with masks")
    size = max(vocab.values()) + 1
    total: Counts = {}
    for batch in inspect_records.read_batches(paths, table, size):
        counts = count(batch.values, vocab[vocabulary.MASK], size)
        total = {name: total.get(name, 0) + x for name, x in counts.items()}
    return total


def join_scarce(counts: np.ndarray) -> np.ndarray:
    """[R, K] -> [R, fewer], each bin with MIN_EXPECTED * R counts or more.

    Which bins are joined depends on the sum of all runs alone, as the
    permutation test needs.
    """
    least = MIN_EXPECTED * len(counts)
    joined = [np.zeros(len(counts), counts.dtype)]
    for column in counts.T:
        if joined[-1].sum() >= least:
            joined.append(np.zeros_like(column))
        joined[-1] = joined[-1] + column
    if len(joined) > 1 and joined[-1].sum() < least:
        last = joined.pop()
        joined[-1] = joined[-1] + last
    return np.stack(joined, 1)


def ways(num_a: int, num_runs: int) -> np.ndarray:
    """[W, R]: 1 where a run is called "a"; the first way is the true one."""
    true_one = np.arange(num_runs) < num_a
    if math.comb(num_runs, num_a) <= MAX_WAYS:
        chosen: Iterable[Sequence[int]] = itertools.combinations(
            range(num_runs), num_a
        )  # the first is 0 to num_a - 1
        return np.array([np.isin(np.arange(num_runs), x) for x in chosen], int)
    rng = np.random.default_rng(SEED)
    others = [rng.permutation(true_one) for _ in range(MAX_WAYS - 1)]
    return np.array([true_one, *others], int)


def chi_square(counts: np.ndarray, is_a: np.ndarray) -> np.ndarray:
    """[W]: of the runs called "a", added up, against the others; [W, R]."""
    total = counts.sum(0)  # [K]
    observed = is_a @ counts  # [W, K]
    share = observed.sum(1, keepdims=True) / total.sum()  # [W, 1]
    # (o - e)^2 / e of both sides at once: their o - e are opposite.
    return (
        (observed - share * total) ** 2 / (share * (1 - share) * total)
    ).sum(1)


def between_runs(counts: np.ndarray) -> tuple[float, int]:
    """Chi-square of homogeneity of the runs [R, K], and its df."""
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    filled = expected > 0
    part = (counts - expected)[filled] ** 2 / expected[filled]
    return float(part.sum()), (len(counts) - 1) * (counts.shape[1] - 1)


class Comparison(NamedTuple):
    """One line of the table."""

    num_values: tuple[int, int]  # counted in a and in b
    distance: float  # half the sum of the differences of the bins' shares
    chi_square: float
    df: int
    p_independent: float
    inflation: float | None  # None: one run a side
    p_runs: float | None  # None: there are too few runs


def compare(counts: np.ndarray, num_a: int) -> Comparison:
    """Compares the first num_a runs of [R, K] with the rest."""
    counts = join_scarce(counts)
    found = chi_square(counts, ways(num_a, len(counts)))
    a, b = counts[:num_a].sum(0), counts[num_a:].sum(0)
    within = [between_runs(counts[:num_a]), between_runs(counts[num_a:])]
    within_df = sum(df for _, df in within)
    df = counts.shape[1] - 1
    # Equal ones, as of a and b exchanged, may differ in their last digit.
    p_runs = float(np.mean(found >= found[0] * (1 - 1e-9)))
    return Comparison(
        num_values=(int(a.sum()), int(b.sum())),
        distance=float(np.abs(a / a.sum() - b / b.sum()).sum() / 2),
        chi_square=float(found[0]),
        df=df,
        p_independent=float(stats.chi2.sf(found[0], df)),
        inflation=sum(x for x, _ in within) / within_df if within_df else None,
        p_runs=p_runs if len(found) >= MIN_WAYS else None,
    )


def print_table(lines: Mapping[str, Comparison]) -> None:
    print(
        "| statistic | values in a | in b | distance | chi-square | df "
        "| p if independent | inflation | p over runs |"
    )
    print("|---" * 9 + "|")
    for name, line in lines.items():
        print(
            f"| {name} | {line.num_values[0]:,} | {line.num_values[1]:,} "
            f"| {line.distance:.4f} | {line.chi_square:.1f} | {line.df} "
            f"| {line.p_independent:.3g} | {shown(line.inflation)} "
            f"| {shown(line.p_runs)} |"
        )


def shown(number: float | None) -> str:
    return "-" if number is None else f"{number:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--records_a", required=True, nargs="+")
    parser.add_argument("--records_b", required=True, nargs="+")
    flags = parser.parse_args()
    vocab = vocabulary.check_vocabulary(flags.vocab_file)
    runs = [count_run(x, vocab) for x in flags.records_a + flags.records_b]
    num_a, num_b = len(flags.records_a), len(flags.records_b)
    lines = {
        name: compare(np.stack([run[name] for run in runs]), num_a)
        for name in runs[0]
    }
    print_table(lines)
    found = [line.p_runs for line in lines.values() if line.p_runs is not None]
    least = min(1.0, min(found) * len(lines)) if found else None
    print(
        f"\n{num_a} and {num_b} runs: {len(ways(num_a, len(runs))):,} ways; "
        f"least p over runs times {len(lines)} lines: {shown(least)}"
    )


if __name__ == "__main__":
    main()
