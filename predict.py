"""Answers lines of text with a model that was fine-tuned or pre-trained.

    python predict.py --model_dir=/tmp/mrpc $'One sentence.\\tAnother one.'
    python predict.py --model_dir=/tmp/bert "The sky is [MASK]."
    python predict.py --model_dir=/tmp/squad --input_file=questions.tsv \\
        --output_file=answers.jsonl --output_format=jsonl

The model is loaded once. Lines come from the arguments, from --input_file or
from standard input; each gets one line in answer, in their order. What a line
holds follows from what the model was trained for: a text, or two with a tab
between them; a question, a tab and a paragraph; a text with [MASK]s.

A .csv, .json or .jsonl file is a table, as in run_classifier.py: each row gets
one line in answer. A .tsv file is a table if its header names the columns that
the model was trained on, or if --text_column is given.

In columns of answers a tab, a newline, a carriage return and a backslash are
written as \\t, \\n, \\r and \\\\.

Ours; google-research/bert has no such command.
"""

import collections
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from bert_keras.cli import command, common_flags, streams

from absl import flags

from bert_keras import files
from bert_keras.errors import InputError

if TYPE_CHECKING:
    from bert_keras.tasks.classification.data import TableFormat
    from bert_keras.tasks.pipeline import Answer, Line
    from bert_keras.tasks.task_config import TaskConfig

FLAGS = flags.FLAGS
TARGETS = "single_label", "multi_label", "regression"  # of texts and pairs

flags.DEFINE_string(
    "model_dir",
    None,
    "Folder with weights, their config, vocabulary and, if it was fine-tuned, "
    "task.json (or Hugging Face's config.json, which says what for).",
)
flags.DEFINE_string(
    "input_file",
    None,
    "Files of lines or tables, plain or .gz: comma-separated names, globs.",
)
common_flags.define_table()
flags.DEFINE_string("output_file", None, "Unset: standard output.")
flags.DEFINE_enum(
    "output_format",
    "tsv",
    ["tsv", "jsonl"],
    "tsv writes columns with tabs between them, and an empty line where there "
    r"is no answer; \t, \n, \r and \\ stand for a tab, a newline, a carriage "
    "return and a backslash in a column. jsonl writes a JSON object a line, "
    "with an error where there is no answer.",
)
flags.DEFINE_integer(
    "batch_size", 32, "Rows at once; of short ones more.", lower_bound=1
)
flags.DEFINE_bool(
    "line_by_line",
    None,
    "Answer each line before the next is read; unset: if standard input is a "
    "terminal. Otherwise many are read at once and sorted by length.",
)
flags.DEFINE_integer("top_k", 5, "Pieces for each [MASK].", lower_bound=1)
common_flags.define_tokenizer()
common_flags.define_precision_and_threads()
flags.DEFINE_bool("use_xla", False, "Compile the model as a whole.")
flags.mark_flag_as_required("model_dir")


def main(*texts: str) -> None:
    if texts and FLAGS.input_file:
        raise InputError(
            f"both --input_file and the text {texts[0]!r} are given; drop one"
        )
    command.import_tensorflow()

    from bert_keras.data.text_files import expand_patterns
    from bert_keras.tasks.pipeline import EMPTY
    from bert_keras.training.inference import with_progress

    if FLAGS.output_file and FLAGS.input_file:
        paths = expand_patterns(FLAGS.input_file, takes_pipes=True)
        files.refuse_inputs("output_file", FLAGS.output_file, input_file=paths)
    notices = command.Notices()
    folder = _local_folder(FLAGS.model_dir)
    answer_all = _load(folder)
    lines = _decoded(_read(texts, folder), notices)
    line_by_line = FLAGS.line_by_line
    if line_by_line is None:
        line_by_line = not FLAGS.input_file and sys.stdin.isatty()
    answers = answer_all(lines)
    if line_by_line:
        answers = (
            answer
            for number, line in enumerate(lines, 1)
            for answer in answer_all([line], first_number=number)
        )
    counts: collections.Counter[bool] = collections.Counter()

    def formatted() -> Iterator[str]:
        for answer in answers:
            error = answer.fields.get("error")
            if error != EMPTY:
                counts[error is None] += 1
            for sentence in filter(None, (answer.note, error)):
                notices.say(answer.number, sentence)
            if FLAGS.output_format == "jsonl":
                yield files.to_json({"line": answer.number, **answer.fields})
            else:
                yield "\t".join(map(files.tsv_field, answer.columns))

    shown = formatted()
    if FLAGS.output_file or not sys.stdout.isatty():
        shown = with_progress(shown)
    if FLAGS.output_file:
        with files.writing(FLAGS.output_file, "output_file") as file:
            for text in shown:
                file.write((text + "\n").encode())
    else:
        for text in shown:
            print(text)
            if not streams.output_is_read():  # | head
                break
    notices.close()
    if counts[False] and not counts[True]:
        raise InputError(
            f"no line has an answer: none of {counts[False]:,} is what this "
            "model takes; the sentences above say why"
        )


def _load(folder: str) -> "Callable[..., Iterator[Answer]]":
    """Reads the model; what was loaded is said on standard error."""
    import keras

    from bert_keras.tasks import load
    from bert_keras.training.config import DeviceConfig
    from bert_keras.training.distribution import make_strategy
    from bert_keras.training.inference import Predictor, predict

    keras.config.set_dtype_policy(FLAGS.precision)
    strategy = make_strategy(DeviceConfig(), alone=True)
    with strategy.scope():
        model = load.load(folder, common_flags.tokenizer_options(), FLAGS.top_k)
    if model.fault:
        raise InputError(model.fault)
    print(model.report, file=sys.stderr)
    predictor = Predictor(model.model.forward, strategy, FLAGS.use_xla)
    return functools.partial(
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
    try:
        for name in tf.io.gfile.listdir(folder):
            if not tf.io.gfile.isdir(f"{folder}/{name}"):
                tf.io.gfile.copy(f"{folder}/{name}", os.path.join(copy, name))
    except tf.errors.OpError as error:
        raise InputError(
            f"cannot read --model_dir={folder}: {error.message}"
        ) from error
    return copy


def _read(texts: tuple[str, ...], folder: str) -> "Iterator[Line]":
    """Lines of the arguments, else of files, else of standard input."""
    from bert_keras.data.text_files import (
        expand_patterns,
        numbered,
        read_text_lines,
        text_lines,
    )
    from bert_keras.tasks.classification.data import read_table
    from bert_keras.tasks.tables import ENDINGS
    from bert_keras.tasks.task_config import TaskConfig

    if texts:
        for text in texts:
            yield os.fsencode(text).decode(errors="surrogateescape")
    elif FLAGS.input_file is None:
        lines = text_lines(sys.stdin.buffer, FLAGS.encoding)
        yield from (line for _, line in numbered("standard input", lines))
    else:
        settings = TaskConfig.from_folder(folder)
        for path in expand_patterns(FLAGS.input_file, takes_pipes=True):
            if path.removesuffix(".gz").endswith(ENDINGS):
                path = files.seekable(path)  # its header is read first
            table = _table(path, settings)
            if table is None:
                yield from read_text_lines(path, FLAGS.encoding, refuses=False)
                continue
            for example in read_table(path, table, has_labels=False):
                pair = () if example.text_b is None else (example.text_b,)
                yield (example.text_a, *pair)


def _table(path: str, settings: "TaskConfig | None") -> "TableFormat | None":
    """How to read a file by columns; None: read it by lines."""
    from bert_keras.tasks.classification.data import (
        TableFormat,
        names_text_columns,
    )
    from bert_keras.tasks.tables import ENDINGS

    table = command.from_flags(TableFormat, settings, label_column="")
    is_asked_for = any(
        FLAGS[flag].present
        for flag in ("text_column", "text_pair_column", "has_header")
    )
    has_columns = is_asked_for or (
        settings is not None and settings.target in TARGETS
    )
    plain = path.removesuffix(".gz")
    if not is_asked_for:
        if not plain.endswith(ENDINGS):
            return None
        if plain.endswith(".tsv") and not (
            has_columns and names_text_columns(path, table)
        ):
            return None
    if not has_columns:
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


def cli() -> None:
    command.run(main, takes_arguments=True)


if __name__ == "__main__":
    cli()
