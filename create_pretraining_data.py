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

from bert_keras.cli import command, common_flags

from absl import flags

from bert_keras.data import instances, streaming_stats, tokenizers
from bert_keras.data.instances import InstanceConfig
from bert_keras.errors import InputError
from bert_keras.tasks.pretraining.config import RecordsConfig, num_cores

FLAGS = flags.FLAGS


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
    if FLAGS.runner is None and beam_options:
        raise InputError(
            f"unexpected argument {beam_options[0]!r}; flags begin with --; "
            "what follows a lone -- is for --runner"
        )
    command.import_tensorflow(computes=False)
    from bert_keras.data.sentence_splitting import TextFormat
    from bert_keras.tasks.pretraining import data

    summary = data.write_records(
        FLAGS.input_file,
        FLAGS.output_file,
        FLAGS.vocab_file,
        config,
        command.from_flags(TextFormat),
        common_flags.tokenizer_options(),
        command.from_flags(RecordsConfig),
        [name for name in FLAGS if FLAGS[name].present],
        beam_options,
        # TensorFlow is imported quietly, before the tasks import it
        functools.partial(command.import_tensorflow, computes=False),
    )
    if summary is None:
        print(f"{FLAGS.output_file}: made already, by this very command")
        return
    print(format_summary(summary, config))


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
