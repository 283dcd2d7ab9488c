"""Turn text into records of masked sentence pairs, to pre-train a BERT on.

Input is UTF-8 with one sentence per line and a blank line between documents;
--input_format has others. Flags and defaults are those of google-research/bert,
and with --sampler=google the records are identical too; the default sampler
makes records of the same distribution on all cores and in bounded memory. The
same command again resumes where the last run stopped. With --runner an Apache
Beam pipeline does the work on any number of machines.

Examples:
    # Sentences, one per line
    create_pretraining_data --input_file='text/*.txt' --vocab_file=vocab.txt \\
        --output_file=data/train.tfrecord

    # Paragraphs, masked anew in each epoch of run_pretraining
    create_pretraining_data --input_file='text/*.txt' --vocab_file=vocab.txt \\
        --output_file=data/a.tfrecord,data/b.tfrecord --dynamic_masking \\
        --input_format=paragraphs --dupe_factor=1

    # Apache Beam, whose own options follow --
    create_pretraining_data --input_file='text/*.txt' --vocab_file=vocab.txt \\
        --output_file=data/train.tfrecord --runner=DirectRunner -- \\
        --direct_num_workers=4
"""

import functools
import os
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

from tqdm import tqdm

from bert_keras import files
from bert_keras.data import instances, record_hints, streaming_stats, tokenizers
from bert_keras.data.instances import InstanceConfig
from bert_keras.data.special_tokens import BERT
from bert_keras.errors import InputError, warn

if TYPE_CHECKING:
    from bert_keras.data.tokenizer_folder import OpenedTokenizer

FLAGS = Flags(
    common_flags.TEXT_FILES,
    Flag("output_file", str, Group.REQUIRED,
         "TFRecord files to write, comma-separated; records are dealt "
         "round-robin."),
    Flag("vocab_file", str, Group.REQUIRED,
         "Vocabulary of the model: vocab.txt, or vocab.json with merges.txt "
         "beside it."),
    Flag("input_format", "sentences", Group.DATA,
         "Content of a line: a sentence; a paragraph; or a document as a JSON "
         "object. Paragraphs and documents are split into sentences.",
         choices=("sentences", "paragraphs", "jsonl")),
    Flag("text_field", "text", Group.DATA,
         "Key of the text in JSON lines. Only with --input_format=jsonl."),
    Flag("language", "en", Group.DATA,
         "Language code by which paragraphs are split into sentences."),
    Flag("max_seq_length", InstanceConfig, Group.DATA,
         "Maximum length of a record in tokens, special tokens included."),
    Flag("short_seq_prob", InstanceConfig, Group.DATA,
         "Share of documents that are cut into shorter pairs, for variety of "
         "length."),
    Flag("dupe_factor", InstanceConfig, Group.DATA,
         "Number of times the text is used, each time with other pairs and "
         "masks."),
    Flag("sequence_format", InstanceConfig, Group.DATA,
         "Content of a record. segment_pair: two runs of sentences, with a "
         "next-sentence label. sentence_pair: two sentences, with a label. "
         "full_sentences: as many sentences as fit, across documents. "
         "doc_sentences: as many sentences of one document as fit.",
         choices=instances.FORMATS),
    Flag("sampler", "vectorized", Group.DATA,
         "Sampler of the records. vectorized: fast, on all cores. google: "
         "bit-identical to google-research/bert, on one core, with everything "
         "in memory.", choices=("vectorized", "google")),
    Flag("random_seed", InstanceConfig, Group.DATA,
         "Seed of the random generator for pairs and masks."),
    Flag("max_predictions_per_seq", InstanceConfig, Group.MASKING,
         "Maximum number of masked tokens in a record."),
    Flag("masked_lm_prob", InstanceConfig, Group.MASKING,
         "Share of the tokens that are to be predicted."),
    *common_flags.MASK_SHARE_FLAGS,
    Flag("do_whole_word_mask", InstanceConfig, Group.MASKING,
         "Mask all tokens of a word together, or none."),
    Flag("words_are_spaced", False, Group.MASKING,
         "Take what stands between spaces as a word, as in Chinese text that "
         "has been split into words. Only with --do_whole_word_mask."),
    Flag("dynamic_masking", InstanceConfig, Group.MASKING,
         "Write records without masks; run_pretraining masks them anew in "
         "each epoch, so that --dupe_factor=1 is enough."),
    *common_flags.TOKENIZER_FLAGS,
    Flag("num_workers", int, Group.SPEED,
         "Number of processes, which does not change the records. Default: "
         "one per core.", 1),
    Flag("worker_memory_mb", 512, Group.SPEED,
         "Memory in MiB for the data of each process: a random part of the "
         "documents, within which sentences are drawn and records shuffled. "
         "Libraries take some 950 MiB more.", 16),
    Flag("runner", str, Group.SPEED,
         "Apache Beam runner: DirectRunner, DataflowRunner, FlinkRunner or "
         "SparkRunner. Default: no Beam, but --num_workers processes."),
)  # fmt: skip


def main(*beam_options: str) -> None:
    config = FLAGS.make(InstanceConfig)
    config.check(tokenizers.special_tokens_of(FLAGS.vocab_file))
    command.import_tensorflow(computes=False)
    from bert_keras.data import text_files
    from bert_keras.data.tokenizer_folder import open_tokenizer

    options = common_flags.tokenizer_options(FLAGS)
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


def num_cores() -> int:
    """That this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
        FLAGS.make(TextFormat),
        FLAGS.worker_memory_mb,
        config,
    )
    if FLAGS.runner is None:
        # TensorFlow is imported quietly, before the tasks import it
        begin = functools.partial(command.import_tensorflow, computes=False)
        return build_records.make_records(
            build, FLAGS.num_workers or num_cores(), begin
        )
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


cli = command.Command(__doc__, FLAGS, main, "[-- BEAM_OPTIONS]")

if __name__ == "__main__":
    cli()
