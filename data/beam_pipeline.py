"""create_pretraining_data.py's work as an Apache Beam pipeline.

Its steps are those of build_records.py, by the same functions: spans of the
text become tokens; when all documents are counted, each is dealt out to a part;
each part makes its records. They depend, as there, on text, vocabulary and
settings alone, and are the very ones that this machine would make without Beam,
which mixes its parts.

Each part writes a file of its own. Beam's WriteToTFRecord would send all
records, many times the size of the text, between the machines once more, and
in an order that is the runner's.
"""

import collections
import dataclasses
import functools
import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsSingleton

from bert_keras.data import build_records, corpus
from bert_keras.data.build_records import RecordBuildConfig
from bert_keras.data.corpus import Block, Stretch
from bert_keras.data.instances import Summary
from bert_keras.data.tfrecords import RecordWriter
from bert_keras.errors import InputError
from bert_keras.files import temporary_folder, vocabulary_contents

COUNTERS = "create_pretraining_data"
Place = tuple[int, int, Block]  # span, its documents before these, these
Vocabulary = tuple[tuple[str, bytes], ...]  # its files, the first one first


@dataclasses.dataclass(frozen=True)
class Plan:
    """How documents are dealt out."""

    num_documents: dict[int, int]  # of each span that has any
    num_dealt: dict[int, int]  # in the spans before it
    num_parts: int


def make_records(
    build: RecordBuildConfig, runner: str, options: Sequence[str]
) -> Summary:
    """Makes a file for each part.

    Args:
        runner: one of Beam's, by its name there.
        options: Beam's own, as on a command line.

    Raises:
        InputError: the input cannot be used, the output cannot be written or
            is there already, or Beam does not know the runner.
    """
    path = build.output_files[0]
    if len(build.output_files) > 1 or not path or path.endswith(".gz"):
        raise InputError(
            "`output_file` with `runner` is one name, to which the number of "
            "each part is added, and not packed: it cannot be "
            f"{','.join(build.output_files)!r}"
        )
    if found := tf.io.gfile.glob(f"{glob.escape(path)}-*-of-*"):
        raise InputError(
            f"{min(found)} exists already, which readers of {path}-* would "
            "take for a part of this `output_file`; delete it or give another "
            "name"
        )
    try:
        pipeline = beam.Pipeline(runner, PipelineOptions(list(options)))
    except (ImportError, ValueError) as error:
        raise InputError(f"`runner={runner}`: {error}") from error
    # `>>` gives each step the name that it has on Beam's pages.
    vocabulary = tuple(vocabulary_contents(build.vocab_file).items())
    blocks = (
        pipeline
        | "spans"
        >> beam.Create([
            (number, [*map(tuple, span)])
            for number, span in enumerate(corpus.find_spans(build.paths))
        ])
        | "spread over workers" >> beam.Reshuffle()
        | "tokenize" >> beam.FlatMap(_tokenize, build, vocabulary)
    )  # fmt: skip
    plan = (
        blocks
        | "count" >> beam.Map(_count)
        | "all counts" >> beam.combiners.ToList()
        | "plan" >> beam.Map(make_plan, build)
    )
    (
        blocks
        | "deal"
        >> beam.FlatMap(_deal, AsSingleton(plan), build.config.random_seed)
        | "part" >> beam.GroupByKey()
        | "make" >> beam.Map(_make_part, AsSingleton(plan), build, vocabulary)
    )
    try:
        result = pipeline.run()
        result.wait_until_finish()
    except Exception as error:  # a runner's own, with the worker's as text
        sentences = [str(error)]
        if not isinstance(error, InputError):
            sentences = re.findall(r"\bInputError: (.*)", str(error))
        if not sentences:
            raise
        # without what Beam adds
        sentence = sentences[-1].split(" [while running ")[0]
        raise InputError(sentence) from error
    wanted = MetricsFilter().with_namespace(COUNTERS)
    total: collections.Counter[str] = collections.Counter()
    for counter in result.metrics().query(wanted)["counters"]:
        # each step has its own; a runner may leave out what is 0
        total[counter.key.metric.name] += counter.result
    return Summary(**total)


@functools.lru_cache(maxsize=1)
def _with_vocabulary(
    build: RecordBuildConfig, vocabulary: Vocabulary
) -> RecordBuildConfig:
    """For a machine that does not have its vocabulary's files. A process makes
    them once, and so makes one tokenizer."""
    folder = temporary_folder()
    for name, content in vocabulary:
        Path(folder, name).write_bytes(content)
    vocab_file = os.path.join(folder, vocabulary[0][0])
    return dataclasses.replace(build, vocab_file=vocab_file)


def _tokenize(
    numbered: tuple[int, Sequence[tuple[Any, ...]]],
    build: RecordBuildConfig,
    vocabulary: Vocabulary,
) -> Iterator[tuple[Place, Summary]]:
    number, span = numbered
    build = _with_vocabulary(build, vocabulary)
    num_before = 0
    for block, counts in corpus.tokenize(
        tuple(Stretch(*stretch) for stretch in span),
        build.text_format,
        build_records.line_tokenizer(build),
        build.id_type,
    ):
        yield (number, num_before, block), counts
        num_before += len(block.documents)


def _count(found: tuple[Place, Summary]) -> tuple[int, Summary]:
    (number, _, _), counts = found
    _add_to_counters(counts)
    return number, counts


def make_plan(
    found: Iterable[tuple[int, Summary]], build: RecordBuildConfig
) -> Plan:
    """From the counts of all blocks, each with its span's number."""
    total = Summary()
    num_documents: collections.Counter[int] = collections.Counter()
    for number, counts in found:
        num_documents[number] += counts.num_documents
        total += counts
    build_records.check_counts(build, total)
    numbers = sorted(num_documents)
    ends = np.cumsum([num_documents[number] for number in numbers]).tolist()
    return Plan(
        dict(num_documents),
        dict(zip(numbers, [0, *ends], strict=False)),
        build_records.choose_num_parts(build, total),
    )


# once for all blocks of a span
_deal_span = functools.lru_cache(maxsize=2)(corpus.assign_shards)


def _deal(
    found: tuple[Place, Summary], plan: Plan, seed: int
) -> Iterator[tuple[int, Place]]:
    """What goes to a part, with the part's number, for each."""
    (number, num_before, block), _ = found
    parts = _deal_span(
        number,
        plan.num_documents[number],
        plan.num_dealt[number],
        plan.num_parts,
        seed,
    )[num_before : num_before + len(block.documents)]
    for part in np.unique(parts).tolist():
        chosen = np.flatnonzero(parts == part)
        yield part, (number, num_before, corpus.take(block, chosen))


def _make_part(
    dealt: tuple[int, Iterable[Place]],
    plan: Plan,
    build: RecordBuildConfig,
    vocabulary: Vocabulary,
) -> None:
    part, found = dealt
    in_order = sorted(found, key=lambda place: place[:2])
    text = corpus.concatenate([block for _, _, block in in_order])
    # With the numbers that sharded files usually have.
    path = f"{build.output_files[0]}-{part:05}-of-{plan.num_parts:05}"
    with RecordWriter([path]) as writer:

        def write(records: list[bytes]) -> None:
            for record in records:
                writer.write(record)

        build = _with_vocabulary(build, vocabulary)
        _add_to_counters(build_records.write_part(build, part, text, write))


def _add_to_counters(counts: Summary) -> None:
    """They rise on the runner's pages while it works."""
    for name, value in dataclasses.asdict(counts).items():
        Metrics.counter(COUNTERS, name).inc(value)
