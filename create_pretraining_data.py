"""Turn text into records of masked sentence pairs, to pre-train a BERT on.

Input is UTF-8 with one sentence per line and a blank line between documents;
--input_format has others. Flags and defaults are those of google-research/bert,
and with --sampler=google the records are identical too. The default sampler
draws from the same distribution, uses all cores and needs bounded memory. The
same command again resumes where the last run stopped. With --runner an Apache
Beam pipeline makes the records on any number of machines.

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

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras.data import instances, streaming_stats
from bert_keras.data.instances import InstanceConfig
from bert_keras.errors import InputError
from bert_keras.tasks.pretraining.config import RecordsConfig

FLAGS = Flags(
    common_flags.TEXT_FILES,
    Flag("output_file", str, Group.REQUIRED,
         "TFRecord files to write, comma-separated; records are distributed "
         "round-robin."),
    Flag("vocab_file", str, Group.REQUIRED,
         "Vocabulary of the model: vocab.txt, or vocab.json with merges.txt "
         "beside it."),
    Flag("input_format", "sentences", Group.DATA,
         "Content of a line: a sentence; a paragraph; or a document as a JSON "
         "object. Paragraphs and documents are split into sentences."),
    common_flags.TEXT_FIELD,
    Flag("language", "en", Group.DATA,
         "Language code, such as en or de, of the rules that split "
         "paragraphs into sentences."),
    Flag("max_seq_length", InstanceConfig, Group.DATA,
         "Maximum length of a record in tokens, special tokens included."),
    Flag("short_seq_prob", InstanceConfig, Group.DATA,
         "Probability that a document is cut into pairs shorter than "
         "--max_seq_length, so that lengths vary."),
    Flag("dupe_factor", InstanceConfig, Group.DATA,
         "Number of passes over the text, each with new pairs and masks."),
    Flag("sequence_format", InstanceConfig, Group.DATA,
         "Content of a record. segment_pair: two runs of sentences, with a "
         "next-sentence label. sentence_pair: two sentences, with a label. "
         "full_sentences: as many sentences as fit, across documents. "
         "doc_sentences: as many sentences of one document as fit."),
    Flag("sampler", RecordsConfig, Group.DATA,
         "Sampler of the records. vectorized: fast, on all cores. google: "
         "bit-identical to google-research/bert, on one core, with everything "
         "in memory."),
    Flag("random_seed", InstanceConfig, Group.DATA,
         "Seed of the random choice of pairs and masks."),
    Flag("max_predictions_per_seq", InstanceConfig, Group.MASKING,
         "Maximum number of masked tokens in a record."),
    Flag("masked_lm_prob", InstanceConfig, Group.MASKING,
         "Fraction of the tokens that the model has to predict."),
    *common_flags.MASK_SHARE_FLAGS,
    Flag("do_whole_word_mask", InstanceConfig, Group.MASKING,
         "Mask all tokens of a word together, or none."),
    Flag("words_are_spaced", RecordsConfig, Group.MASKING,
         "Treat text between spaces as one word, for Chinese text that has "
         "been split into words. Only with --do_whole_word_mask."),
    Flag("dynamic_masking", InstanceConfig, Group.MASKING,
         "Write records without masks; run_pretraining masks them anew in "
         "each epoch, so that --dupe_factor=1 is enough."),
    *common_flags.TOKENIZER_FLAGS,
    Flag("num_workers", RecordsConfig, Group.SPEED,
         "Number of processes, which does not change the records. Default: "
         "one per core."),
    Flag("worker_memory_mb", RecordsConfig, Group.SPEED,
         "Memory in MiB for the documents that a process holds at once, "
         "from which random next sentences are drawn. Libraries take "
         "about 950 MiB more."),
    Flag("runner", RecordsConfig, Group.SPEED,
         "Apache Beam runner: DirectRunner, DataflowRunner, FlinkRunner or "
         "SparkRunner. Default: --num_workers processes on this machine, "
         "without Beam."),
)  # fmt: skip


def main(*beam_options: str) -> None:
    config = FLAGS.make(InstanceConfig)
    if FLAGS.runner is None and beam_options:
        raise InputError(
            f"unexpected argument {beam_options[0]!r}; flags begin with --; "
            "what follows a lone -- is for --runner"
        )
    command.import_tensorflow(computes=False)
    from bert_keras.data.corpus import TextFormat
    from bert_keras.tasks.pretraining import data

    summary = data.write_records(
        FLAGS.input_file,
        FLAGS.output_file,
        FLAGS.vocab_file,
        config,
        FLAGS.make(TextFormat),
        common_flags.tokenizer_options(FLAGS),
        FLAGS.make(RecordsConfig),
        [name for name in FLAGS if FLAGS[name].present],
        beam_options,
        # TensorFlow is imported quietly, before the tasks import it
        functools.partial(command.import_tensorflow, computes=False),
    )
    if summary is None:
        print(
            f"{FLAGS.output_file}: made already, by this very command; "
            "remove it to make it again, as after a change of the code"
        )
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
        "tokens": f"{summary.num_pieces:,}",
        "  [UNK]": share(summary.num_unknown, summary.num_pieces),
        "records": f"{num_records:,}",
        **(labels if config.is_pair else {"  sentence cut": cut}),
        "tokens in records": f"{summary.num_tokens:,}",
        "  masked": "in training"
        if config.dynamic_masking
        else share(summary.num_masked, summary.num_tokens),
    }
    return streaming_stats.format_table(rows, name_width=20)


cli = command.Command(__doc__, FLAGS, main, "[-- BEAM_OPTIONS]")

if __name__ == "__main__":
    cli()
