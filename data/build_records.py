"""create_pretraining_data.py's work on many cores, in bounded memory.

First spans of the text become pieces on disk; then each of some parts takes its
random share of all documents and makes its records; at last the parts are
mixed into the output files. What comes out depends on text, vocabulary and
settings alone, not on the number of workers. What is finished lies in a folder
beside the first output file, so that the same command goes on after a stop.
"""

import contextlib
import dataclasses
import gc
import itertools
import os
import sys
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from bert_keras import files
from bert_keras.data import (
    corpus,
    resume_folder,
    segment_sampling,
    shard_mixing,
    tfrecords,
    vectorized_masking,
)
from bert_keras.data.build_config import RecordBuildConfig
from bert_keras.data.corpus import Counts, FaultyText, FileSpan
from bert_keras.data.instances import SENTENCE_PAIR, WHY_DOCUMENTS, Summary
from bert_keras.data.masking import read_masking_vocabulary
from bert_keras.data.resume_folder import read_json, write_json
from bert_keras.data.segment_sampling import Text
from bert_keras.data.task_pool import Workers
from bert_keras.errors import InputError
from bert_keras.files import fingerprint

MAKING = 2  # sets this use of the seed apart; see corpus.DEALING
# What a part takes of memory: ids, and its pairs for each pass over the text.
BYTES_PER_PIECE, BYTES_PER_PIECE_AND_PASS = 16, 4
BYTES_PER_PAIR = 160  # while pairs are drawn
# For the sake of more workers there may be this many parts, if each has ...
MANY_PARTS, LEAST_PIECES, LEAST_DOCUMENTS = 64, 250_000, 128


@dataclasses.dataclass(frozen=True)
class PartSummary:
    """What a part has made."""

    records: int
    random_next: int
    truncated: int
    tokens: int
    masked: int


def make_records(
    making: RecordBuildConfig,
    num_workers: int,
    begin: Callable[[], None] | None = None,
) -> Summary | None:
    """Makes the output files; None if this very command has made them before.

    Args:
        begin: called first of all in each new process, if given; pickled.

    Raises:
        InputError: the input cannot be used, the output cannot be written, or
            the folder of what is finished belongs to another command.
    """
    settings = making.describe()
    try:
        _check_outputs(making)
        if _is_taken_away(making):
            resume_folder.discard(making.folder)
        with resume_folder.open_or_resume(making.folder, settings) as is_left:
            if not is_left:
                return None
            return _make_in_folder(making, num_workers, begin)
    except FaultyText:
        # As the text has to change, what is finished is of no more use.
        resume_folder.discard(making.folder)
        raise
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "message", None) or getattr(
            error, "strerror", error
        )
        raise InputError(
            f"cannot write `output_file={making.output_files[0]}`, or beside "
            f"it: {reason}"
        ) from error


def _make_in_folder(
    making: RecordBuildConfig,
    num_workers: int,
    begin: Callable[[], None] | None,
) -> Summary:
    spans = corpus.find_spans(making.paths)
    with Workers(
        making.folder, min(num_workers, len(spans)), _prepare, making, begin
    ) as workers:
        counts = sum(
            workers.run(
                "span",
                _tokenize,
                Counts,
                [(making, *numbered) for numbered in enumerate(spans)],
            ),
            Counts(),
        )
        check_counts(making, counts)
        num_parts = choose_num_parts(making, counts)
        made = workers.run(
            "part",
            _make_part,
            PartSummary,
            [(making, i, num_parts, len(spans)) for i in range(num_parts)],
        )
        _join(making, num_parts)
        seconds = workers.seconds()
    outputs = enumerate(making.output_files)
    resume_folder.finish(
        making.folder,
        {path: read_json(making.file(f"output-{i}")) for i, path in outputs},
    )
    summary = summarize(counts, made)
    if seconds and not workers.num_skipped:
        print(
            f"{summary.num_records:,} records in {seconds:.1f} s "
            f"({summary.num_records / seconds:,.0f} a second), processes' "
            "start left out",
            file=sys.stderr,
        )
    return summary


def check_counts(making: RecordBuildConfig, counts: Counts) -> None:
    if not counts.pieces:
        raise FaultyText(f"{', '.join(making.paths)} is empty: it has no text")
    if counts.documents < 2 and making.config.is_pair:
        raise FaultyText(f"the input is a single document{WHY_DOCUMENTS}")


def choose_num_parts(making: RecordBuildConfig, counts: Counts) -> int:
    """As few as fit a worker's memory, or more, so that many can work."""
    passes = making.config.dupe_factor
    wanted = counts.pieces * (
        BYTES_PER_PIECE + BYTES_PER_PIECE_AND_PASS * passes
    )
    # each pass makes a pair of the shortest document
    shortest = counts.documents
    if making.config.sequence_format == SENTENCE_PAIR:
        shortest = counts.sentences
    wanted += shortest * passes * BYTES_PER_PAIR
    memory = making.worker_memory_mb << 20
    for_memory = -(-wanted // memory)
    for_workers = min(
        MANY_PARTS,
        counts.pieces // LEAST_PIECES,
        counts.documents // LEAST_DOCUMENTS,
    )
    return max(1, min(for_memory, counts.documents // 2), for_workers)


def _prepare(making: RecordBuildConfig) -> None:
    """What each process does before its first task."""
    tf.config.set_visible_devices([], "GPU")  # others may be at work there
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    making.line_tokenizer.encode(b"the first use of a tokenizer takes longer")
    # All that lives by now is to stay; looking through it takes long, too.
    gc.freeze()


def _tokenize(making: RecordBuildConfig, number: int, span: FileSpan) -> Counts:
    return corpus.tokenize_span(
        span,
        making.text_format,
        making.line_tokenizer,
        making.file(f"span-{number}"),
        making.id_type,
    )


def _make_part(
    making: RecordBuildConfig, part: int, num_parts: int, num_spans: int
) -> PartSummary:
    text = corpus.load_share(
        [making.file(f"span-{number}") for number in range(num_spans)],
        making.id_type,
        part,
        num_parts,
        making.config.random_seed,
    )
    outputs = outputs_of(part, num_parts, len(making.output_files))
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(
                shard_mixing.writing_chunks(_part_file(making, part, output))
            )
            for output in outputs
        ]

        turns = itertools.cycle(writers)

        def deal(records: list[bytes]) -> None:
            for start in range(len(writers)):
                next(turns)(records[start :: len(writers)])
            # the next block goes on with the writer whose turn it is
            for _ in range(len(records) % len(writers)):
                next(turns)

        return write_part(making, part, text, deal)


def write_part(
    making: RecordBuildConfig,
    part: int,
    text: Text,
    write: Callable[[list[bytes]], None],
) -> PartSummary:
    """Makes all records of a part's text, and writes them some at a time."""
    config = making.config
    rng = np.random.default_rng([config.random_seed, MAKING, part])
    pieces = read_masking_vocabulary(
        making.tokenizer.vocab, making.tokenizer.special_tokens
    )
    num_special_tokens = pieces.special_tokens.count(config.is_pair)
    text, pairs = segment_sampling.sample_segments(
        text, config, num_special_tokens, pieces.end, rng
    )
    features = making.features
    num_masked = 0
    for block in vectorized_masking.make_blocks(
        text, pairs, pieces, config, rng
    ):
        if not config.dynamic_masking:
            num_masked += int(block["masked_lm_weights"].sum())
        write(tfrecords.encode_batch(features, block))
    return PartSummary(
        len(pairs.a_start),
        int(pairs.is_random_next.sum()),
        int(pairs.is_truncated.sum()),
        int((pairs.a_length + pairs.b_length + num_special_tokens).sum()),
        num_masked,
    )


def outputs_of(part: int, num_parts: int, num_outputs: int) -> list[int]:
    """Which output files a part's records go to: one, or where there are fewer
    parts than files some. Of 2 parts and 5 files part 0 has 0, 2 and 4."""
    if num_outputs <= num_parts:
        return [part % num_outputs]
    return list(range(part, num_outputs, num_parts))


def _part_file(making: RecordBuildConfig, part: int, output: int) -> str:
    return making.file(f"records-{part}-{output}")


def _join(making: RecordBuildConfig, num_parts: int) -> None:
    """Makes each output file of its parts, unless it has been made."""
    num_outputs = len(making.output_files)
    for output, path in enumerate(making.output_files):
        done = making.file(f"output-{output}")
        if os.path.exists(done):
            if not _is_as_made(path, read_json(done)):
                raise InputError(
                    f"{path} is not as this command left it; delete the folder "
                    f"{making.folder} to make it again"
                )
            continue
        sources = [
            _part_file(making, part, output)
            for part in range(num_parts)
            if output in outputs_of(part, num_parts, num_outputs)
        ]
        packs = path.endswith(".gz")
        if packs or len(sources) > 1 or not shard_mixing.move(sources[0], path):
            with files.writing(path, "output_file") as file:
                shard_mixing.mix(sources, file, packs)
        write_json(done, fingerprint(path))
        for source in sources:
            with contextlib.suppress(FileNotFoundError):
                os.remove(source)


def summarize(counts: Counts, made: Sequence[PartSummary]) -> Summary:
    num_records = sum(part.records for part in made)
    num_random_next = sum(part.random_next for part in made)
    return Summary(
        num_documents=counts.documents,
        num_sentences=counts.sentences,
        num_pieces=counts.pieces,
        num_unknown=counts.unknown,
        num_records=num_records,
        num_is_next=num_records - num_random_next,
        num_random_next=num_random_next,
        num_truncated=sum(part.truncated for part in made),
        num_tokens=sum(part.tokens for part in made),
        num_masked=sum(part.masked for part in made),
        num_ideographs=counts.ideographs,
    )


def _check_outputs(making: RecordBuildConfig) -> None:
    """Each is tried now: it will be written hours later."""
    for path in making.output_files:
        if not path or making.output_files.count(path) > 1:
            raise InputError(
                f"`output_file` must list different files, not {path!r} "
                f"{'twice' if path else 'among them'}"
            )
        if tf.io.gfile.isdir(path):
            raise InputError(f"`output_file={path}` is a folder")
        tf.io.gfile.makedirs(os.path.dirname(path) or os.curdir)
        trial = f"{path}.incomplete"
        with tf.io.gfile.GFile(trial, "wb") as file:
            file.write(b"")
        tf.io.gfile.remove(trial)


def _is_taken_away(making: RecordBuildConfig) -> bool:
    """Whether someone has deleted what was finished, or written over it."""
    done = making.file(resume_folder.DONE)
    if not os.path.exists(done):
        return False
    made = read_json(done)
    for path in making.output_files:
        if not _is_as_made(path, made.get(path)):
            if tf.io.gfile.exists(path):
                print(f"{path} has changed since it was made; making it again")
            return True
    return False


def _is_as_made(path: str, made: str | None) -> bool:
    """`made`: the fingerprint that was stored; None if none was."""
    if not tf.io.gfile.exists(path):
        return False
    return made is None or fingerprint(path) == made
