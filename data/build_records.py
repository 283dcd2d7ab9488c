"""create_pretraining_data.py's work on many cores, in bounded memory.

First spans of the text become tokens on disk; then each of some parts takes its
random share of all documents and makes its records; at last the parts are
mixed into the output files. What comes out depends on text, vocabulary and
settings alone, not on the number of workers. What is finished lies in a folder
beside the first output file, so that the same command goes on after a stop.

A part's records are written in chunks, whose ends are known, so that they can
be mixed: record files have no head and no tail, and any whole records end to
end are one.
"""

import contextlib
import dataclasses
import functools
import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras import files
from bert_keras.data import (
    corpus,
    segment_sampling,
    task_pool,
    tfrecords,
    vectorized_masking,
    work_folder,
)
from bert_keras.data.bpe import ByteLevelBpe
from bert_keras.data.corpus import FaultyText, FileSpan, TextFormat
from bert_keras.data.fast_tokenization import (
    BlockTokenizer,
    ByteLevelLines,
    LineTokenizer,
    SpacedWordTokenizer,
)
from bert_keras.data.instances import (
    SENTENCE_PAIR,
    WHY_DOCUMENTS,
    InstanceConfig,
    Summary,
)
from bert_keras.data.masking import read_masking_vocabulary
from bert_keras.data.record_schema import (
    pretraining_features,
    unmasked_features,
    without_next_sentence,
)
from bert_keras.data.segment_sampling import Text
from bert_keras.data.tokenizers import TokenizerSettings, load_tokenizer
from bert_keras.errors import InputError
from bert_keras.files import fingerprint

MAKING = 2  # sets this use of the seed apart; see corpus.DEALING
# What a part takes of memory: ids, and its pairs for each pass over the text.
BYTES_PER_PIECE, BYTES_PER_PIECE_AND_PASS = 16, 4
BYTES_PER_PAIR = 160  # while pairs are drawn
# For the sake of more workers there may be this many parts, if each has ...
MANY_PARTS, LEAST_PIECES, LEAST_DOCUMENTS = 64, 250_000, 128
ROWS_AT_ONCE = 2048  # few enough for a processor's cache
CHUNK_RECORDS = 64  # at most
MAX_OPEN_FILES = 256


@dataclasses.dataclass(frozen=True)
class RecordBuildConfig:
    """All that the outcome depends on, and all that a worker has to know."""

    paths: tuple[str, ...]
    output_files: tuple[str, ...]
    vocab_file: str
    tokenizer_settings: TokenizerSettings
    words_are_spaced: bool  # those of whole word masking; else "##" tells
    text_format: TextFormat
    worker_memory_mb: int  # for a part, beside what TensorFlow takes
    config: InstanceConfig

    @property
    def id_type(self) -> Any:
        """The smallest that holds every id."""
        num_ids = max(line_tokenizer(self).tokenizer.inv_vocab) + 1
        is_small = (1 + self.words_are_spaced) * num_ids <= 1 << 16
        return np.uint16 if is_small else np.int32

    @property
    def folder(self) -> str:
        """The folder of finished parts."""
        return work_folder.path_beside(self.output_files[0])

    def file(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def describe(self) -> dict[str, Any]:
        """What must be equal for a command to resume, as JSON values."""
        return {
            **dataclasses.asdict(self.config),
            **dataclasses.asdict(self.text_format),
            "tokenizer": self.tokenizer_settings.to_json(),
            "words_are_spaced": self.words_are_spaced,
            "worker_memory_mb": self.worker_memory_mb,
            "vocab_file": work_folder.digest_of_files(self.vocab_file),
            "output_file": ",".join(self.output_files),
            "input_file's digests": [*map(list, files.versions(self.paths))],
        }


@functools.lru_cache(maxsize=1)
def line_tokenizer(build: RecordBuildConfig) -> BlockTokenizer:
    """A process makes one for all its tasks."""
    tokenizer = load_tokenizer(build.vocab_file, build.tokenizer_settings)
    if isinstance(tokenizer, ByteLevelBpe):
        return ByteLevelLines(tokenizer)
    kind = SpacedWordTokenizer if build.words_are_spaced else LineTokenizer
    return kind(tokenizer)


def make_records(
    build: RecordBuildConfig,
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
    settings = build.describe()
    line_tokenizer.cache_clear()  # the vocabulary's file may be another now
    try:
        _check_outputs(build.output_files)
        if _is_taken_away(build):
            work_folder.discard(build.folder)
        with work_folder.open_or_resume(build.folder, settings) as is_left:
            if not is_left:
                return None
            spans = corpus.find_spans(build.paths)
            with task_pool.Workers(
                build.folder,
                min(num_workers, len(spans)),
                functools.partial(_prepare, build),
                begin,
            ) as workers:
                numbered = [(build, *span) for span in enumerate(spans)]
                counts = workers.run("span", _tokenize, numbered)
                check_counts(build, counts)
                num_parts = choose_num_parts(build, counts)
                parts = [
                    (build, part, num_parts, len(spans))
                    for part in range(num_parts)
                ]
                summary = counts + workers.run("part", _make_part, parts)
                work_folder.finish(build.folder, _join(build, num_parts))
                seconds = workers.seconds()
    except FaultyText:
        # As the text has to change, what is finished is of no more use.
        work_folder.discard(build.folder)
        raise
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "message", None) or getattr(
            error, "strerror", error
        )
        raise InputError(
            f"cannot write `output_file={build.output_files[0]}`, or beside "
            f"it: {reason}"
        ) from error
    if seconds and not workers.num_skipped:
        print(
            f"{summary.num_records:,} records in {seconds:.1f} s "
            f"({summary.num_records / seconds:,.0f} per second, without the "
            "start of processes)",
            file=sys.stderr,
        )
    return summary


def _check_outputs(paths: Sequence[str]) -> None:
    """Each is tried now: it will be written hours later."""
    tfrecords.check_different(paths, "output_file")
    for path in paths:
        if files.is_dir(path) or files.is_written_through(path):
            raise InputError(
                f"`output_file={path}` is a folder, a device or a pipe; name "
                "a file"
            )
        tf.io.gfile.makedirs(os.path.dirname(path) or os.curdir)
        files.refuse_protected(path)
        files.try_to_write(path)


def _is_taken_away(build: RecordBuildConfig) -> bool:
    """Whether someone has deleted what was finished, or written over it."""
    done = build.file(work_folder.DONE)
    if not os.path.exists(done):
        return False
    made = work_folder.read_json(done)
    for path in build.output_files:
        if not tf.io.gfile.exists(path):
            return True
        if path in made and fingerprint(path) != made[path]:
            print(f"{path} has changed since it was made; making it again")
            return True
    return False


def _prepare(build: RecordBuildConfig) -> None:
    """What each new process does before its first task."""
    tf.config.set_visible_devices([], "GPU")  # others may be at work there
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    line_tokenizer(build).encode(b"the first use of a tokenizer takes longer")
    # All that lives by now is to stay; looking through it takes long, too.
    gc.freeze()


def _tokenize(build: RecordBuildConfig, number: int, span: FileSpan) -> Summary:
    return corpus.tokenize_span(
        span,
        build.text_format,
        line_tokenizer(build),
        build.file(f"span-{number}"),
        build.id_type,
    )


def check_counts(build: RecordBuildConfig, counts: Summary) -> None:
    if not counts.num_pieces:
        raise FaultyText(f"{', '.join(build.paths)} is empty: it has no text")
    if counts.num_documents < 2 and build.config.is_pair:
        raise FaultyText(f"the input is a single document{WHY_DOCUMENTS}")


def choose_num_parts(build: RecordBuildConfig, counts: Summary) -> int:
    """As few as fit a worker's memory, or more, so that many can work."""
    passes = build.config.dupe_factor
    # each pass makes a pair of the shortest document
    shortest = counts.num_documents
    if build.config.sequence_format == SENTENCE_PAIR:
        shortest = counts.num_sentences
    wanted = counts.num_pieces * (
        BYTES_PER_PIECE + BYTES_PER_PIECE_AND_PASS * passes
    )
    wanted += shortest * passes * BYTES_PER_PAIR
    for_memory = -(-wanted // (build.worker_memory_mb << 20))
    for_workers = min(
        MANY_PARTS,
        counts.num_pieces // LEAST_PIECES,
        counts.num_documents // LEAST_DOCUMENTS,
    )
    return max(1, min(for_memory, counts.num_documents // 2), for_workers)


def _make_part(
    build: RecordBuildConfig, part: int, num_parts: int, num_spans: int
) -> Summary:
    text = corpus.load_share(
        [build.file(f"span-{number}") for number in range(num_spans)],
        build.id_type,
        part,
        num_parts,
        build.config.random_seed,
    )
    outputs = outputs_of(part, num_parts, len(build.output_files))
    paths = [build.file(f"records-{part}-{output}") for output in outputs]
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(writing_chunks(path)) for path in paths]

        def deal(records: list[bytes]) -> None:
            for start, write in enumerate(writers):
                write(records[start :: len(writers)])
            # the next block goes on with the writer whose turn it is
            turn = len(records) % len(writers)
            writers[:] = writers[turn:] + writers[:turn]

        return write_part(build, part, text, deal)


def outputs_of(part: int, num_parts: int, num_outputs: int) -> list[int]:
    """Which output files a part's records go to: one, or where there are fewer
    parts than files some. Of 2 parts and 5 files part 0 has 0, 2 and 4."""
    if num_outputs <= num_parts:
        return [part % num_outputs]
    return list(range(part, num_outputs, num_parts))


def write_part(
    build: RecordBuildConfig,
    part: int,
    text: Text,
    write: Callable[[list[bytes]], None],
) -> Summary:
    """Makes all records of a part's text, and writes them some at a time."""
    config = build.config
    rng = np.random.default_rng([config.random_seed, MAKING, part])
    tokenizer = line_tokenizer(build).tokenizer
    masking = read_masking_vocabulary(tokenizer.vocab, tokenizer.special_tokens)
    num_special_tokens = masking.special_tokens.count(config.is_pair)
    text, pairs = segment_sampling.sample_segments(
        text, config, num_special_tokens, masking.end, rng
    )
    features = pretraining_features(
        config.max_seq_length, config.max_predictions_per_seq
    )
    if config.dynamic_masking:
        features = unmasked_features(config.max_seq_length)
    if not config.is_pair:
        features = without_next_sentence(features)
    num_masked = 0
    for start in range(0, len(pairs.a_start), ROWS_AT_ONCE):
        block = vectorized_masking.make_features(
            text,
            pairs.take(slice(start, start + ROWS_AT_ONCE)),
            masking,
            config,
            rng,
        )
        if not config.dynamic_masking:
            num_masked += int(block["masked_lm_weights"].sum())
        write(tfrecords.encode_batch(features, block))
    lengths = pairs.a_length + pairs.b_length + num_special_tokens
    return Summary(
        num_records=len(lengths),
        num_random_next=int(pairs.is_random_next.sum()),
        num_truncated=int(pairs.is_truncated.sum()),
        num_tokens=int(lengths.sum()),
        num_masked=num_masked,
    )


def _join(build: RecordBuildConfig, num_parts: int) -> dict[str, str]:
    """Makes each output file of its parts, unless it has been made; returns
    their fingerprints by path."""
    made: dict[str, str] = {}
    num_outputs = len(build.output_files)
    for output, path in enumerate(build.output_files):
        done = build.file(f"output-{output}.json")
        if os.path.exists(done):
            made |= work_folder.read_json(done)
            if not tf.io.gfile.exists(path) or fingerprint(path) != made[path]:
                raise InputError(
                    f"{path} is not as this command left it; delete the folder "
                    f"{build.folder} to make it again"
                )
            continue
        sources = [
            build.file(f"records-{part}-{output}")
            for part in range(num_parts)
            if output in outputs_of(part, num_parts, num_outputs)
        ]
        with files.writing(path, "output_file") as file:
            # A chunk of each in turn, so that neighbours come from all parts
            for i in range(0, len(sources), MAX_OPEN_FILES):
                group = map(read_chunks, sources[i : i + MAX_OPEN_FILES])
                for chunks in itertools.zip_longest(*group, fillvalue=b""):
                    file.write(b"".join(chunks))
        made[path] = fingerprint(path)
        files.write_json(done, {path: made[path]})
        for source in sources:
            files.remove(source)
    return made


@contextlib.contextmanager
def writing_chunks(path: str) -> Iterator[Callable[[Sequence[bytes]], None]]:
    """Gives what writes some records; at the end, beside the file, where each
    chunk ends."""
    ends = [0]
    with open(path, "wb") as file:

        def write(records: Sequence[bytes]) -> None:
            for start in range(0, len(records), CHUNK_RECORDS):
                chunk = tfrecords.frame(records[start : start + CHUNK_RECORDS])
                file.write(chunk)
                ends.append(ends[-1] + len(chunk))

        yield write
    np.save(f"{path}.npy", ends)


def read_chunks(path: str) -> Iterator[bytes]:
    """Some whole records at a time.

    Raises:
        InputError: the file, or what is beside it, has lost something.
    """
    ends = [-1]
    with contextlib.suppress(FileNotFoundError, EOFError, ValueError):
        ends = np.load(f"{path}.npy")
    if not os.path.exists(path) or os.path.getsize(path) != ends[-1]:
        raise InputError(
            f"{path} is not whole, as after a power cut; delete the folder "
            f"{os.path.dirname(path)} and run the same command"
        )
    with open(path, "rb") as file:
        yield from map(file.read, np.diff(ends).tolist())
