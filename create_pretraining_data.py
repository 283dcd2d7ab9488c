"""Text -> TFRecords of masked sentence pairs: data for run_pretraining.py.

The flags and their defaults are those of google-research/bert's
create_pretraining_data.py, and with --sampler=google the records are too, one
by one; the default makes others of the same distribution, on all cores and in
bounded memory. Input: UTF-8, one sentence a line, a blank line between
documents; --input_format has others. The same command again goes on where the
last run stopped. With --runner an Apache Beam pipeline does the work, on any
number of machines; Beam's own options follow " -- ".
"""

import functools
import os
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert_keras.cli import command, common_flags

from absl import flags
from tqdm import tqdm

from bert_keras import files
from bert_keras.data import instances, record_hints, streaming_stats, tokenizers
from bert_keras.data.instances import InstanceConfig
from bert_keras.data.special_tokens import BERT
from bert_keras.errors import InputError, warn

if TYPE_CHECKING:
    from bert_keras.data.tokenizer_folder import OpenedTokenizer

FLAGS = flags.FLAGS


def num_cores() -> int:
    """That this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


flags.DEFINE_string(
    "input_file", None, "Text files: comma-separated names and globs."
)
flags.DEFINE_string(
    "output_file",
    None,
    "TFRecord files: comma-separated names; records are dealt round-robin.",
)
flags.DEFINE_string(
    "vocab_file",
    None,
    "The model's vocabulary: a vocab.txt, or a vocab.json with merges.txt "
    "beside it.",
)
common_flags.define_tokenizer()
flags.DEFINE_bool(
    "do_whole_word_mask",
    InstanceConfig.do_whole_word_mask,
    "Mask all pieces of a word together.",
)
flags.DEFINE_integer(
    "max_seq_length", InstanceConfig.max_seq_length, "Pieces in a record."
)
flags.DEFINE_integer(
    "max_predictions_per_seq",
    InstanceConfig.max_predictions_per_seq,
    "Masked pieces in a record, at most.",
)
flags.DEFINE_integer("random_seed", InstanceConfig.random_seed, "Seed.")
flags.DEFINE_integer(
    "dupe_factor",
    InstanceConfig.dupe_factor,
    "Times the text is used, with other pairs and masks each time.",
)
flags.DEFINE_float(
    "masked_lm_prob", InstanceConfig.masked_lm_prob, "Share of pieces masked."
)
flags.DEFINE_float(
    "short_seq_prob",
    InstanceConfig.short_seq_prob,
    "Share of documents cut into pairs that are shorter than they could be.",
)

# google-research/bert has none of the flags below.
common_flags.define_mask_shares()
flags.DEFINE_enum(
    "sampler",
    "vectorized",
    ["vectorized", "google"],
    "google: its very records, on one core, with all of them in memory.",
)
flags.DEFINE_bool(
    "dynamic_masking",
    InstanceConfig.dynamic_masking,
    "Leave out the masks: run_pretraining.py draws others in each epoch, so "
    "that --dupe_factor=1 will do.",
)
flags.DEFINE_enum(
    "sequence_format",
    InstanceConfig.sequence_format,
    instances.FORMATS,
    "What a record is: two stretches of sentences, which may follow one "
    "another, or two sentences; or, without labels of next sentences, as many "
    "sentences as fit, from one document into the next, or of one document.",
)
flags.DEFINE_bool(
    "words_are_spaced",
    False,
    "Whole words to mask are what stands between spaces, as in Chinese text "
    "that has been cut into words.",
)
flags.DEFINE_enum(
    "input_format",
    "sentences",
    ["sentences", "paragraphs", "jsonl"],
    "What a line is: a sentence; a paragraph; a document, as JSON. Paragraphs "
    "are cut into sentences.",
)
flags.DEFINE_string("text_field", "text", "Where JSON lines have the text.")
flags.DEFINE_string(
    "language", "en", "Of paragraphs and JSON lines, to cut sentences by."
)
flags.DEFINE_integer(
    "num_workers",
    num_cores(),
    "Processes; the records do not depend on it. Default: the machine's cores.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "worker_memory_mb",
    512,
    "MiB for the data that each has at once: a random part of the documents, "
    "among which sentences are drawn and records shuffled. The libraries take "
    "some 950 MiB besides.",
    lower_bound=16,
)
flags.DEFINE_string(
    "runner",
    None,
    "Of Apache Beam: DirectRunner, DataflowRunner, FlinkRunner, SparkRunner. "
    "Unset: this command's own workers.",
)
flags.mark_flags_as_required(["input_file", "output_file", "vocab_file"])


def main(*beam_options: str) -> None:
    config = command.from_flags(InstanceConfig)
    config.check(tokenizers.special_tokens_of(FLAGS.vocab_file))
    command.import_tensorflow(computes=False)
    from bert_keras.data import text_files
    from bert_keras.data.tokenizer_folder import open_tokenizer

    options = common_flags.tokenizer_options()
    opened = open_tokenizer(None, FLAGS.vocab_file, options)
    if opened is None:
        raise InputError("--vocab_file= is empty; name a vocabulary")
    opened.load()  # merges.txt is looked at, too
    check_flags(config, opened.vocab_file, beam_options)
    paths = text_files.expand_patterns(FLAGS.input_file)
    read = {"input_file": paths, "vocab_file": [FLAGS.vocab_file]}
    for path in FLAGS.output_file.split(","):
        files.refuse_inputs("output_file", path, **read)
    if hint := record_hints.mask_hint(config):
        warn(hint)
    is_googles = FLAGS.sampler == "google"
    summary = (
        make_googles(config, opened, paths)
        if is_googles
        else make_vectorized(config, opened, paths, beam_options)
    )
    if summary is None:
        print(f"{FLAGS.output_file}: made already, by this very command")
        return
    print(format_summary(summary, config))
    for hint in record_hints.summary_hints(
        summary,
        config,
        FLAGS.input_format == "sentences",
        FLAGS.words_are_spaced,
        is_googles,
    ):
        warn(hint)


def check_flags(
    config: InstanceConfig, vocab_file: str, beam_options: Sequence[str]
) -> None:
    """Refuses flags that do not go together, or would change nothing."""
    is_bert = tokenizers.special_tokens_of(vocab_file) == BERT
    if FLAGS.sampler == "google":
        for name in (
            "dynamic_masking", "input_format", "words_are_spaced",
            "sequence_format", "runner",
        ):  # fmt: skip
            if not FLAGS[name].using_default_value:
                raise InputError(
                    f"--sampler=google has no --{name}; leave out one of the "
                    "two"
                )
        if not is_bert:
            raise InputError(
                f"--sampler=google knows no --vocab_file={vocab_file}, only a "
                "vocab.txt; leave out --sampler"
            )
    if FLAGS.runner is None and beam_options:
        raise InputError(
            f"unexpected argument {beam_options[0]!r}; flags begin with --; "
            "what follows a lone -- is for --runner"
        )
    if FLAGS.runner is not None and FLAGS["num_workers"].present:
        raise InputError(
            "--num_workers is not for --runner; options that Beam has for it "
            "follow --"
        )
    for name in (
        "do_whole_word_mask", "masked_lm_prob", "mask_share", "random_share",
    ):  # fmt: skip
        if FLAGS.dynamic_masking and FLAGS[name].present:
            raise InputError(
                f"--{name} is run_pretraining.py's where --dynamic_masking "
                "leaves the masks to it"
            )
    if FLAGS.words_are_spaced and not FLAGS.do_whole_word_mask:
        raise InputError("--words_are_spaced is for --do_whole_word_mask")
    if FLAGS.words_are_spaced and not is_bert:
        raise InputError(
            "--words_are_spaced is for a vocab.txt; pieces of a vocab.json "
            "have the spaces before them"
        )
    is_segments = config.sequence_format == instances.SEGMENT_PAIR
    if FLAGS["short_seq_prob"].present and not is_segments:
        raise InputError(
            "--short_seq_prob is for --sequence_format=segment_pair: records "
            f"of {config.sequence_format} are not shortened"
        )


def make_vectorized(
    config: InstanceConfig,
    opened: "OpenedTokenizer",
    paths: list[str],
    beam_options: Sequence[str],
) -> instances.Summary | None:
    from bert_keras.data import build_records
    from bert_keras.data.sentence_splitting import TextFormat

    build = build_records.RecordBuildConfig(
        tuple(paths),
        tuple(FLAGS.output_file.split(",")),
        opened.vocab_file,
        opened.settings,
        FLAGS.words_are_spaced,
        command.from_flags(TextFormat),
        FLAGS.worker_memory_mb,
        config,
    )
    if FLAGS.runner is None:
        # TensorFlow is imported quietly, before the tasks import it
        begin = functools.partial(command.import_tensorflow, computes=False)
        return build_records.make_records(build, FLAGS.num_workers, begin)
    try:
        from bert_keras.data import beam_pipeline
    except ImportError as error:
        raise InputError(
            f"--runner={FLAGS.runner} needs Apache Beam ({error}); "
            "pip install 'apache-beam>=2.77'"
        ) from error
    return beam_pipeline.make_records(build, FLAGS.runner, beam_options)


def make_googles(
    config: InstanceConfig, opened: "OpenedTokenizer", paths: list[str]
) -> instances.Summary:
    from bert_keras.data import record_schema, text_files, tfrecords

    tokenizer = opened.load()
    features = record_schema.pretraining_features(
        config.max_seq_length, config.max_predictions_per_seq
    )
    with tfrecords.RecordWriter(FLAGS.output_file.split(",")) as writer:
        with tqdm(desc="reading", unit="B", unit_scale=True) as bar:
            documents = instances.read_documents(
                (
                    (path, text_files.read_lines(path, bar.update))
                    for path in paths
                ),
                tokenizer.tokenize,
            )
        made = instances.create_instances(
            documents,
            list(tokenizer.vocab),
            config,
            random.Random(config.random_seed),
            functools.partial(tqdm, desc="pairing", unit=" documents"),
        )
        for instance in tqdm(made, desc="writing", unit=" records"):
            values = instances.to_features(instance, tokenizer.vocab, config)
            writer.write(tfrecords.encode(features, values))
    return instances.summarize(documents, made)


def format_summary(summary: instances.Summary, config: InstanceConfig) -> str:
    """A little table: counts, and shares of the count above them."""
    share = streaming_stats.format_share
    num_records, num_random = summary.num_records, summary.num_random_next
    cut = share(summary.num_truncated, num_records)
    labels = {
        "  label 0, is next": share(num_records - num_random, num_records),
        "  label 1, random": share(num_random, num_records),
        "  pairs truncated": cut,
    }
    rows = {
        "documents": f"{summary.num_documents:,}",
        "sentences": f"{summary.num_sentences:,}",
        "pieces": f"{summary.num_pieces:,}",
        "  [UNK]": share(summary.num_unknown, summary.num_pieces),
        "records": f"{num_records:,}",
        **(labels if config.is_pair else {"  sentence cut": cut}),
        "pieces in records": f"{summary.num_tokens:,}",
        "  masked": share(summary.num_masked, summary.num_tokens),
    }
    return streaming_stats.format_table(rows, name_width=20)


def cli() -> None:
    command.run(main, takes_arguments=True)


if __name__ == "__main__":
    cli()
