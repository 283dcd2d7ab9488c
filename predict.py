"""Answer lines of text with a model that was fine-tuned or pre-trained.

Lines come from the arguments, from --input_file or from standard input. Each
line gets one line of output, in the same order. The model decides what a line
holds: a text; two texts with a tab between; a question, a tab and a paragraph;
or a text with [MASK]s. Files that end in .csv, .json or .jsonl are tables, as
for run_classifier. A .tsv file is a table if --text_column is given, or if its
header names the columns that the model was trained on. A classifier answers a
.csv file with a CSV: the same rows, with new columns for label and probability.

Examples:
    # A CSV file with a column of texts
    predict --model_dir=/tmp/reviews --input_file=reviews.csv \\
        --text_column=text --output_file=labelled.csv

    # A pair of texts, with a tab between
    predict --model_dir=/tmp/mrpc $'One sentence.\\tAnother sentence.'

    # Files in, JSON out
    predict --model_dir=/tmp/squad --input_file=questions.tsv \\
        --output_file=answers.jsonl --output_format=jsonl
"""

import collections
import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from bert_keras.cli import command, common_flags, streams
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras import files
from bert_keras.errors import InputError, warn

if TYPE_CHECKING:
    from bert_keras.tasks.classification.data import TableFormat
    from bert_keras.tasks.pipeline import Answer, Line
    from bert_keras.tasks.tables import Row
    from bert_keras.tasks.task_config import TaskConfig


FLAGS = Flags(
    Flag("model_dir", str, Group.REQUIRED,
         "Model folder: weights, config, vocabulary and, after fine-tuning, "
         "task.json or Hugging Face's config.json with the task."),
    Flag("input_file", str, Group.DATA,
         "Files of lines or tables, plain or .gz: comma-separated names and "
         "glob patterns."),
    *common_flags.TABLE_FLAGS,
    *common_flags.TOKENIZER_FLAGS,
    Flag("output_file", str, Group.OUTPUT,
         "File to write the answers to. Default: standard output."),
    Flag("output_format", str, Group.OUTPUT,
         "Format of the answers. tsv: columns separated by tabs, in which "
         r"\t, \n, \r and \\ stand for a tab, a newline, a carriage return and "
         "a backslash; an empty line where there is no answer. jsonl: a JSON "
         "object per line, with an error where there is no answer. csv: a "
         "table with the answers in new columns. Default: csv if a classifier "
         "reads .csv files and --output_file, if given, is one; otherwise tsv.",
         choices=("tsv", "jsonl", "csv")),
    Flag("top_k", 5, Group.OUTPUT, "Number of tokens listed for each [MASK].",
         1),
    Flag("line_by_line", bool, Group.OUTPUT,
         "Answer each line before reading the next. Default: true if "
         "standard input is a terminal; otherwise many lines are read at "
         "once and sorted by length."),
    *common_flags.INFERENCE_FLAGS,
)  # fmt: skip


def main(*texts: str) -> None:
    if texts and FLAGS.input_file:
        raise InputError(
            f"both --input_file and the text {texts[0]!r} are given; drop one"
        )
    command.import_tensorflow(FLAGS)

    from bert_keras.data.text_files import expand_patterns
    from bert_keras.training.inference import with_progress

    paths, output_file = None, FLAGS.output_file
    if FLAGS.input_file is not None:
        paths = expand_patterns(FLAGS.input_file, takes_pipes=True)
    if output_file:
        files.refuse_inputs("output_file", output_file, input_file=paths or [])
        files.refuse_model_file("output_file", output_file, FLAGS.model_dir)
    if sys.stderr.isatty():
        print(f"loading {FLAGS.model_dir}", file=sys.stderr)
    settings, answer_all = _load(_local_folder(FLAGS.model_dir))
    output = Output(_output_format(paths, settings), settings)

    lines = _decoded(_read(texts, paths, settings, output), output.notices)
    is_terminal = not FLAGS.input_file and sys.stdin.isatty()
    if is_terminal and not texts:
        print("type a line to be answered, Ctrl-D to end", file=sys.stderr)
    line_by_line = FLAGS.line_by_line
    if line_by_line is None:
        line_by_line = is_terminal
    answers = answer_all(lines)
    if line_by_line:
        answers = (
            answer
            for number, line in enumerate(lines, 1)
            for answer in answer_all([line], first_number=number)
        )

    shown = output.lines(answers)
    if output_file or not sys.stdout.isatty():
        shown = with_progress(shown)
    if output_file:
        with files.writing(output_file, "output_file") as file:
            for text in shown:
                file.write((text + "\n").encode())
            output.close()  # while a file of an earlier run is still there
    else:
        for text in shown:
            print(text)
            if not streams.output_is_read():  # | head
                break
        output.close()


class Output:
    """Answers as text, and what standard error says of them.

    Attributes:
        notices: what is odd about lines.
        table: whose rows are written beside their answers: --output_format=csv.
    """

    def __init__(self, output_format: str, settings: "TaskConfig | None"):
        self.format = output_format
        self.notices = command.Notices()
        self.table: LabelledTable | None = None
        if settings and output_format == "csv":
            self.table = LabelledTable(settings)
        # of lines that are not empty, by whether they have an answer
        self.counts: collections.Counter[bool] = collections.Counter()

    def lines(self, answers: "Iterator[Answer]") -> Iterator[str]:
        """Yields the lines of the answers."""
        from bert_keras.tasks.pipeline import EMPTY

        for answer in answers:
            error = answer.fields.get("error")
            if error != EMPTY:
                self.counts[error is None] += 1
            for sentence in filter(None, (answer.note, error)):
                self.notices.say(answer.number, sentence)
            if self.table:
                yield from self.table.lines(answer)
            elif self.format == "jsonl":
                yield files.to_json({"line": answer.number, **answer.fields})
            else:
                yield "\t".join(map(files.tsv_field, answer.columns))

    def close(self) -> None:
        """Says how often each notice came; raises an InputError if no line has
        an answer."""
        self.notices.close()
        if self.counts[False] and not self.counts[True]:
            raise InputError(
                f"no line has an answer: none of {self.counts[False]:,} is "
                "what this model takes; the sentences above say why"
            )


class LabelledTable:
    """Rows of tables, each written again with its answer in new columns.

    `add` takes each row when it is read, `lines` its answer some time later:
    answers come in the order of the rows, one for each.

    Attributes:
        has_header: whether the tables are read with one, and it is written.
    """

    has_header: bool

    def __init__(self, settings: "TaskConfig"):
        self.new_names = {
            "single_label": ["label", "probability"],
            "multi_label": [
                "labels",
                *(f"probability_{label}" for label in settings.labels),
            ],
            "regression": ["value"],
        }[settings.target]
        self.first: Row | None = None
        self.unanswered: collections.deque[Row] = collections.deque()

    def add(self, row: "Row") -> None:
        """Takes the next row, which must have the columns of the first."""
        self.first = self.first or row
        if row.names != self.first.names:
            raise InputError(
                f"{row.place} has the columns {', '.join(row.names)}, but "
                f"{self.first.place} has {', '.join(self.first.names)}; "
                "--output_format=csv needs the same columns in every row"
            )
        self.unanswered.append(row)

    def lines(self, answer: "Answer") -> "Iterator[str]":
        """Yields the next row with its answer, as CSV, and before the first row
        the names of the columns; a new one that exists is called
        predicted_..."""
        from bert_keras.tasks.tables import csv_line

        row = self.unanswered.popleft()
        if row is self.first and self.has_header:
            prefix = ""
            while {prefix + name for name in self.new_names} & {*row.names}:
                prefix += "predicted_"
            names = [prefix + name for name in self.new_names]
            yield csv_line([*row.names, *names])
        cells = [""] * len(self.new_names)
        if answer.columns:
            shares = answer.fields.get("probabilities", {})
            if "label" in answer.fields:
                shares = {"best": shares[answer.columns[0]]}
            cells = [
                answer.columns[0],
                *(f"{share:.6f}" for share in shares.values()),
            ]
        yield csv_line([*row.cells, *cells])


def _classifies(settings: "TaskConfig | None") -> bool:
    from bert_keras.tasks.task_config import TEXT_TARGETS

    return settings is not None and settings.target in TEXT_TARGETS


def _output_format(
    paths: "Sequence[str] | None", settings: "TaskConfig | None"
) -> str:
    """--output_format, or what suits the files."""
    may_be_csv = bool(paths) and _classifies(settings)
    given: str | None = FLAGS.output_format
    if given is None:
        names = [*(paths or ()), FLAGS.output_file or ".csv"]
        are_csv = all(x.removesuffix(".gz").endswith(".csv") for x in names)
        return "csv" if may_be_csv and are_csv else "tsv"
    if given == "csv" and not may_be_csv:
        raise InputError(
            "--output_format=csv adds labels to the rows of a table; give a "
            "model that classifies texts and a table as --input_file, or "
            "another format"
        )
    return given


def _load(
    folder: str,
) -> "tuple[TaskConfig | None, Callable[..., Iterator[Answer]]]":
    """Reads the model; what was loaded is said on standard error."""
    import keras

    from bert_keras.tasks import load
    from bert_keras.training.config import DeviceConfig
    from bert_keras.training.distribution import make_strategy
    from bert_keras.training.inference import Predictor, predict

    keras.config.set_dtype_policy(FLAGS.precision)
    strategy = make_strategy(DeviceConfig(), alone=True)
    with strategy.scope():
        model = load.load(
            folder, common_flags.tokenizer_options(FLAGS), FLAGS.top_k
        )
    if model.fault:
        raise InputError(model.fault)
    print(model.report, file=sys.stderr)
    predictor = Predictor(model.model.outputs_by_name, strategy, FLAGS.use_xla)
    settings: TaskConfig | None = getattr(model, "settings", None)
    return settings, functools.partial(
        model.answer_all,
        run=functools.partial(predict, predictor),
        batch_size=FLAGS.batch_size,
        fine_buckets=predictor.shapes_are_cheap,
    )


def _local_folder(folder: str) -> str:
    """The folder itself, or a copy of what lies on gs:// and the like."""
    if "://" not in folder:
        return folder
    import tensorflow as tf

    copy = files.temporary_folder()
    with files.reading(f"--model_dir={folder}"):
        for name in tf.io.gfile.listdir(folder):
            if not files.is_dir(f"{folder}/{name}"):
                tf.io.gfile.copy(f"{folder}/{name}", os.path.join(copy, name))
    return copy


def _read(
    texts: tuple[str, ...],
    paths: "Sequence[str] | None",
    settings: "TaskConfig | None",
    output: Output,
) -> "Iterator[Line]":
    """Yields what is to be answered: the arguments, else what `_read_file`
    finds in files, else the lines of standard input."""
    from bert_keras.data.text_files import numbered, text_lines

    if texts:
        for text in texts:
            if os.path.isfile(text):
                warn(
                    f"{text} is read as a text, and a file has this name; to "
                    f"read the file give --input_file={text}"
                )
            yield os.fsencode(text).decode(errors="surrogateescape")
    elif paths is None:
        lines = text_lines(sys.stdin.buffer, FLAGS.encoding)
        yield from (line for _, line in numbered("standard input", lines))
    else:
        for path in paths:
            yield from _read_file(path, settings, output)


def _read_file(
    path: str, settings: "TaskConfig | None", output: Output
) -> "Iterator[Line]":
    """Yields a file's lines, or the texts in a table's rows; `output` learns
    which they are, and `output.table` has each row before its texts are
    yielded."""
    from bert_keras.data.text_files import read_text_lines
    from bert_keras.tasks.classification.data import table_rows, to_examples
    from bert_keras.tasks.ner.data import are_columns
    from bert_keras.tasks.tables import ENDINGS

    if path.removesuffix(".gz").endswith(ENDINGS):
        path = files.seekable(path)  # its header is read first
    table_format = _table_format(path, settings)
    if table_format is None:
        if output.table:
            raise InputError(
                f"--input_file={path} is read as lines, and "
                "--output_format=csv needs a table; give "
                "--text_column, or another format"
            )
        output.notices.unit = "line"
        is_tagger = settings is not None and settings.target == "tags"
        if is_tagger and not files.is_stream(path):
            lines = read_text_lines(path, FLAGS.encoding, refuses=False)
            if are_columns(itertools.islice(lines, 20)):
                warn(
                    f"{path} looks like a file with a word in each line, and "
                    "each line is read as a text; run_ner --do_predict reads "
                    "such files"
                )
        yield from read_text_lines(path, FLAGS.encoding, refuses=False)
        return
    output.notices.unit = "row"
    if output.table:
        output.table.has_header = table_format.has_header
    rows = [*table_rows(path, table_format, has_labels=False)]
    by_name = (row.by_name() for row in rows)
    examples = to_examples(by_name, table_format, has_labels=False)
    for row, example in zip(rows, examples, strict=True):
        if output.table:
            output.table.add(row)
        pair = () if example.text_b is None else (example.text_b,)
        yield (example.text_a, *pair)


def _table_format(
    path: str, settings: "TaskConfig | None"
) -> "TableFormat | None":
    """How to read a file by columns; None: read it by lines."""
    from bert_keras.tasks.classification.data import (
        TableFormat,
        names_text_columns,
    )
    from bert_keras.tasks.tables import ENDINGS

    table = FLAGS.make(TableFormat, settings, label_column="")
    if not FLAGS["separator"].present:
        table = table.with_header_read()
    is_asked_for = any(
        FLAGS[flag].present
        for flag in ("text_column", "text_pair_column", "has_header")
    )
    plain = path.removesuffix(".gz")
    if not is_asked_for:
        is_table = plain.endswith(ENDINGS)
        if plain.endswith(".tsv"):  # which may be lines with tabs
            is_table = _classifies(settings) and names_text_columns(path, table)
        if not is_table:
            return None
    if not (is_asked_for or _classifies(settings)):
        raise InputError(
            f"--input_file={path} is a table; give --text_column, the column "
            "of the text (and --text_pair_column), or a file of lines"
        )
    takes_pairs = settings.takes_pairs if settings is not None else None
    if takes_pairs not in (None, len(table.text_columns) == 2):
        raise InputError(
            f"--input_file={path} is a table and its columns "
            f"{' and '.join(table.text_columns)} would be read, but the model "
            f"takes {'two texts' if takes_pairs else 'one text'}; check "
            "--text_column and --text_pair_column"
        )
    return table


def _decoded(
    lines: "Iterator[Line]", notices: command.Notices
) -> "Iterator[Line]":
    for number, line in enumerate(lines, 1):
        if isinstance(line, str) and not line.isascii():
            given = line.encode(errors="surrogateescape")
            decoded = given.decode(errors="replace")
            if decoded != line:
                notices.say(number, "bytes that are not UTF-8 are left out")
            line = decoded
        yield line


cli = command.Command(__doc__, FLAGS, main, "[TEXT ...]")

if __name__ == "__main__":
    cli()
