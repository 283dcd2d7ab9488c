"""Show what records hold, and report on many of them, or on raw text.

Records may come from create_pretraining_data, pack_records, run_classifier and
run_squad, or from google-research/bert's commands of these names. The kind and
the lengths of records are detected.

Examples:
    # The first five records, as tokens
    inspect_records --input_file=data/train.tfrecord --vocab_file=vocab.txt

    # A report on all records, with a picture of the lengths
    inspect_records --input_file='data/*.tfrecord' --vocab_file=vocab.txt \\
        --num_records=0 --report --histogram_png=lengths.png

    # A report on a text before records are made
    inspect_records --text_file='corpus/*.txt' --vocab_file=vocab.txt
"""

import dataclasses
import importlib.util
import itertools
from typing import IO, TYPE_CHECKING

from bert_keras.cli import command, common_flags, streams
from bert_keras.cli.flags import Flag, Flags, Group

from tqdm import tqdm

from bert_keras import files
from bert_keras.data import corpus_report, streaming_stats
from bert_keras.data.instances import InstanceConfig
from bert_keras.errors import InputError

if TYPE_CHECKING:
    from bert_keras.data.inspect_records import RecordSummary
    from bert_keras.data.tokenizers import Tokenizer

MAX_BARS = 50
DRAWN_PERCENT = 99.9  # of the lengths, at least

FLAGS = Flags(
    Flag("vocab_file", str, Group.REQUIRED,
         "Vocabulary that the records were made with: vocab.txt, or vocab.json "
         "with merges.txt beside it."),
    Flag("input_file", str, Group.DATA,
         "Record files to show: comma-separated names and glob patterns."),
    Flag("text_file", str, Group.DATA,
         "Text files to report on instead of records: comma-separated names "
         "and glob patterns."),
    Flag("max_seq_length", InstanceConfig, Group.DATA,
         "Maximum length of a record in tokens. Only for --text_file and "
         "for records without masks, whose length cannot be detected.", 1),
    *common_flags.TOKENIZER_FLAGS,
    Flag("num_records", 5, Group.OUTPUT,
         "Number of records to print, from the first record on.", 0),
    Flag("report", False, Group.OUTPUT,
         "Print a report on all records; --text_file always gets a report."),
    Flag("num_report_records", int, Group.OUTPUT,
         "Number of records to report on, from the first record on. Default: "
         "all records.", 1),
    Flag("report_json", str, Group.OUTPUT,
         "File to write the report's numbers to, as JSON."),
    Flag("histogram_png", str, Group.OUTPUT,
         "File to write a picture of the lengths to, as PNG. Requires "
         "matplotlib."),
)  # fmt: skip


def main() -> None:
    if bool(FLAGS.input_file) == bool(FLAGS.text_file):
        raise InputError("pass either --input_file or --text_file")
    if FLAGS.histogram_png and not importlib.util.find_spec("matplotlib"):
        raise InputError(
            "--histogram_png is drawn by matplotlib, which is not installed: "
            'pip install ".[plot]", or matplotlib alone'
        )
    command.import_tensorflow(computes=False)
    from bert_keras.data.text_files import expand_patterns
    from bert_keras.data.tokenizer_folder import open_tokenizer

    source = "text_file" if FLAGS.text_file else "input_file"
    patterns = FLAGS.text_file or FLAGS.input_file
    paths = expand_patterns(patterns, source, takes_pipes=True)
    if FLAGS.report_json and FLAGS.report_json == FLAGS.histogram_png:
        raise InputError(
            "--report_json and --histogram_png are the same file; name two"
        )
    for name in ("report_json", "histogram_png"):
        if path := FLAGS[name].value:
            read = {source: paths, "vocab_file": [FLAGS.vocab_file]}
            files.refuse_inputs(name, path, **read)
    paths = [*map(files.seekable, paths)]  # each is read twice

    options = common_flags.tokenizer_options(FLAGS)
    opened = open_tokenizer(None, FLAGS.vocab_file, options)
    if opened is None:
        raise InputError("--vocab_file= is empty; name a vocabulary")
    tokenizer = opened.load()
    summary = (
        report_on_text(tokenizer, paths)
        if FLAGS.text_file
        else inspect(tokenizer, paths)
    )
    streams.output_is_read()
    if summary is None:
        return
    if FLAGS.report_json:
        with files.writing(FLAGS.report_json, "report_json") as file:
            numbers = dataclasses.asdict(summary)
            file.write(files.to_json(numbers).encode() + b"\n")
    if FLAGS.histogram_png:
        with files.writing(FLAGS.histogram_png, "histogram_png") as file:
            draw_lengths(summary.length_counts, summary.max_seq_length, file)


def inspect(tokenizer: "Tokenizer", paths: list[str]) -> "RecordSummary | None":
    """Prints the first records, and the report if one is asked for."""
    from bert_keras.data import inspect_records

    table = inspect_records.find_table(paths, FLAGS.max_seq_length)
    size = max(tokenizer.vocab.values()) + 1
    pieces = [tokenizer.inv_vocab.get(number, "") for number in range(size)]
    vocabulary = pieces, tokenizer.special_tokens
    for batch in inspect_records.read_batches(
        paths, table, size, FLAGS.num_records
    ):
        sequences = inspect_records.rows(batch.values)
        num_rows = len(batch.values["input_ids"])
        sizes = [1] * num_rows if batch.sizes is None else batch.sizes
        for number, count in enumerate(sizes, batch.first):
            row = list(itertools.islice(sequences, count))
            packed = batch.sizes is not None
            fill = f", {inspect_records.format_fill(row)}" if packed else ""
            print(f"{batch.path}, record {number}{fill}")
            for record in row:
                print(inspect_records.format_record(record, *vocabulary))
        if not streams.output_is_read():  # | head
            break
    if not (
        FLAGS.report
        or FLAGS.num_report_records
        or FLAGS.report_json
        or FLAGS.histogram_png
    ):
        return None
    [length] = {f.length for f in table if f.name == "input_ids"}
    counter = inspect_records.RecordCounter(*vocabulary, length)
    with tqdm(desc="reading", unit=" records") as bar:
        for batch in inspect_records.read_batches(
            paths, table, size, FLAGS.num_report_records
        ):
            counter.add(batch)
            bar.update(len(batch.values["input_ids"]))
    summary = counter.summary()
    print(inspect_records.format_report(summary))
    return summary


def report_on_text(
    tokenizer: "Tokenizer", paths: list[str]
) -> corpus_report.TextSummary:
    """Prints the report on --text_file."""
    from bert_keras.data import text_files

    counter = corpus_report.TextCounter(tokenizer, FLAGS.max_seq_length)
    for line in text_files.read_with_progress(paths):
        counter.add(line)
    summary = counter.summary(
        text_files.read_with_progress(paths, "finding repeats")
    )
    print(corpus_report.format_report(summary))
    return summary


def draw_lengths(counts: list[int], longest: int, file: IO[bytes]) -> None:
    """Draws a histogram of the lengths of records or lines.

    Args:
      counts: how many have each length, in tokens.
      longest: tokens that fit into a record.
    """
    from matplotlib.figure import Figure

    # The few longest lines of a text would squeeze all the others.
    shown = max(longest, streaming_stats.percentile(counts, DRAWN_PERCENT))
    width = -(-(shown + 1) // MAX_BARS)
    bars = [sum(counts[i : i + width]) for i in range(0, shown + 1, width)]
    figure = Figure(layout="constrained")
    axis = figure.subplots()
    axis.bar(range(0, shown + 1, width), bars, width=0.9 * width, align="edge")
    axis.axvline(longest, color="black", linewidth=1, linestyle="dashed")
    # Most records have one length, the longest: its bar is cut off.
    *others, most = sorted(bars)
    second = max(others, default=0)
    if second and most > 2 * second:
        top = 1.25 * second
        axis.set_ylim(0, top)
        begin = bars.index(most) * width
        place, side = begin + 1.5 * width, "left"
        if begin > shown / 2:
            place, side = begin - 0.5 * width, "right"
        axis.annotate(f"{most:,} \u2191", (place, top), ha=side, va="top")
    axis.set_title(f"Lengths of {sum(counts):,} sequences")
    text = f"tokens (dashed: {longest} fit into a record)"
    if left_out := sum(counts[shown + 1 :]):
        most_tokens = len(counts) - 1
        text += (
            f"\n{left_out:,} longer, of up to {most_tokens:,}, are not shown"
        )
    axis.set_xlabel(text)
    axis.set_ylabel(f"sequences, in bars of {width} lengths")
    figure.savefig(file, format="png", dpi=120)


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
