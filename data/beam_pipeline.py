"""create_pretraining_data.py's work as an Apache Beam pipeline.

Its steps are those of build_records.py, by the same functions: spans of the
text become pieces; when all documents are counted, each is dealt out to a part;
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
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsSingleton

from bert_keras.data import build_records, corpus
from bert_keras.data.build_config import RecordBuildConfig, read_vocabulary
from bert_keras.data.build_records import PartSummary
from bert_keras.data.corpus import (
    Block,
    CountedPieces,
    Counts,
    FileSpan,
    Stretch,
)
from bert_keras.data.instances import Summary
from bert_keras.data.tfrecords import RecordWriter
from bert_keras.errors import InputError
from bert_keras.files import temporary_folder

COUNTERS = "create_pretraining_data"
Place = tuple[int, int, Block]  # span, its documents before these, these


@dataclasses.dataclass(frozen=True)
class PortableConfig:
    """A Making for machines that do not have its vocabulary file."""

    making: RecordBuildConfig
    vocabulary: tuple[tuple[str, bytes], ...]  # its files, the first one first

    @classmethod
    def pack(cls, making: RecordBuildConfig) -> "PortableConfig":
        files = read_vocabulary(making.vocab_file)
        return cls(making, tuple(files.items()))

    def unpack(self) -> RecordBuildConfig:
        path = _unpack_vocabulary(self.vocabulary)
        return dataclasses.replace(self.making, vocab_file=path)


@functools.lru_cache(maxsize=1)
def _unpack_vocabulary(files: tuple[tuple[str, bytes], ...]) -> str:
    """A process does so once, and so makes one tokenizer; see Making."""
    folder = temporary_folder()
    for name, content in files:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    return os.path.join(folder, files[0][0])


@dataclasses.dataclass(frozen=True)
class Plan:
    """How documents are dealt out."""

    num_documents: dict[int, int]  # of each span that has any
    num_dealt: dict[int, int]  # in the spans before it
    num_parts: int


def make_records(
    making: RecordBuildConfig, runner: str, options: Sequence[str]
) -> Summary:
    """Makes a file for each part.

    Args:
        runner: one of Beam's, by its name there.
        options: Beam's own, as on a command line.

    Raises:
        InputError: the input cannot be used, the output cannot be written or
            is there already, or Beam does not know the runner.
    """
    _check_output(making)
    try:
        pipeline = beam.Pipeline(runner, PipelineOptions(list(options)))
    except (ImportError, ValueError) as error:
        raise InputError(f"`runner={runner}`: {error}") from error
    _build(pipeline, making, corpus.find_spans(making.paths))
    try:
        result = pipeline.run()
        result.wait_until_finish()
    except Exception as error:  # a runner's own, with the worker's as text
        if sentence := find_input_error(error):
            raise InputError(sentence) from error
        raise
    return _summarize(result)


def _check_output(making: RecordBuildConfig) -> None:
    path = making.output_files[0]
    if len(making.output_files) > 1 or not path or path.endswith(".gz"):
        raise InputError(
            "`output_file` with `runner` is one name, to which the number of "
            "each part is added, and not packed: it cannot be "
            f"{','.join(making.output_files)!r}"
        )
    found = tf.io.gfile.glob(f"{path}-*-of-*")
    if found:
        raise InputError(
            f"{min(found)} is there already, which readers of {path}-* would "
            "take for a part of this `output_file`; delete it or give another "
            "name"
        )


def _build(
    pipeline: Any, making: RecordBuildConfig, spans: Sequence[FileSpan]
) -> None:
    """Adds the steps; `>>` gives each the name that it has on Beam's pages."""
    shipped = PortableConfig.pack(making)
    counted = corpus.counted_pieces(making.tokenizer)
    blocks = (
        pipeline
        | "spans"
        >> beam.Create(
            [(i, [*map(tuple, span)]) for i, span in enumerate(spans)]
        )
        | "spread over workers" >> beam.Reshuffle()
        | "tokenize" >> beam.FlatMap(_tokenize, shipped)
    )
    plan = (
        blocks
        | "count" >> beam.Map(_count, counted)
        | "all counts" >> beam.combiners.ToList()
        | "plan" >> beam.Map(make_plan, making)
    )
    (
        blocks
        | "deal"
        >> beam.FlatMap(_deal, AsSingleton(plan), making.config.random_seed)
        | "part" >> beam.GroupByKey()
        | "make" >> beam.Map(_make_part, AsSingleton(plan), shipped)
    )


def _tokenize(
    numbered: tuple[int, Sequence[tuple[Any, ...]]], shipped: PortableConfig
) -> Iterator[Place]:
    number, span = numbered
    making = shipped.unpack()
    num_before = 0
    for block in corpus.tokenize(
        tuple(Stretch(*stretch) for stretch in span),
        making.text_format,
        making.line_tokenizer,
        making.id_type,
    ):
        yield number, num_before, block
        num_before += len(block.documents)


def _count(place: Place, counted: CountedPieces) -> tuple[int, Counts]:
    number, _, block = place
    counts = corpus.count(block, counted)
    _add_to_counters(counts)
    return number, counts


def make_plan(
    found: Iterable[tuple[int, Counts]], making: RecordBuildConfig
) -> Plan:
    """From the counts of all blocks, each with its span's number."""
    total = Counts()
    num_documents: collections.Counter[int] = collections.Counter()
    for number, counts in found:
        num_documents[number] += counts.documents
        total += counts
    build_records.check_counts(making, total)
    numbers = sorted(num_documents)
    ends = np.cumsum([num_documents[number] for number in numbers]).tolist()
    return Plan(
        dict(num_documents),
        dict(zip(numbers, [0, *ends], strict=False)),
        build_records.choose_num_parts(making, total),
    )


_deal_span = functools.lru_cache(maxsize=2)(
    corpus.assign_shards
)  # once for all blocks


def _deal(place: Place, plan: Plan, seed: int) -> Iterator[tuple[int, Place]]:
    """What goes to a part, with the part's number, for each."""
    number, num_before, block = place
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
    dealt: tuple[int, Iterable[Place]], plan: Plan, shipped: PortableConfig
) -> None:
    part, found = dealt
    making = shipped.unpack()
    in_order = sorted(found, key=lambda place: place[:2])
    text = corpus.concatenate([block for _, _, block in in_order])
    path = part_file(making.output_files[0], part, plan.num_parts)
    with RecordWriter([path]) as writer:

        def write(records: list[bytes]) -> None:
            for record in records:
                writer.write(record)

        made = build_records.write_part(making, part, text, write)
    _add_to_counters(made)


def part_file(output_file: str, part: int, num_parts: int) -> str:
    """With the numbers that sharded files usually have."""
    return f"{output_file}-{part:05}-of-{num_parts:05}"


def _add_to_counters(numbers: Counts | PartSummary) -> None:
    """They rise on the runner's pages while it works."""
    for name, value in dataclasses.asdict(numbers).items():
        Metrics.counter(COUNTERS, name).inc(value)


def _summarize(result: Any) -> Summary:
    wanted = MetricsFilter().with_namespace(COUNTERS)
    found = result.metrics().query(wanted)["counters"]
    # a runner may leave out what is 0
    values = collections.Counter({x.key.metric.name: x.result for x in found})

    def fill(kind: type[Any]) -> Any:
        return kind(*(values[x.name] for x in dataclasses.fields(kind)))

    return build_records.summarize(fill(Counts), [fill(PartSummary)])


def find_input_error(error: Exception) -> str | None:
    """The sentence of a worker's InputError, without what Beam adds."""
    lines = [str(error)]
    if not isinstance(error, InputError):
        lines = re.findall(r"\bInputError: (.*)", lines[0])
    return lines[-1].split(" [while running ")[0] if lines else None
