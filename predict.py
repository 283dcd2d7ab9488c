"""Answers lines of text with a model that was fine-tuned or pre-trained.

    python predict.py --model_dir=/tmp/mrpc $'One sentence.\\tAnother one.'
    python predict.py --model_dir=/tmp/bert "The sky is [MASK]."
    python predict.py --model_dir=/tmp/squad --input_file=questions.tsv \\
        --output_file=answers.jsonl --output_format=jsonl

The model is loaded once. Lines come from the arguments, from --input_file or
from standard input; each gets one line in answer, in their order. What a line
holds follows from what the model was trained for: a text, or two with a tab
between them; a question, a tab and a paragraph; a text with [MASK]s.

Ours; google-research/bert has no such command.
"""

import collections
import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from absl import flags

import command
import common_flags
from input_error import InputError

if TYPE_CHECKING:
    from tasks.line_predictor import Answer

FLAGS = flags.FLAGS
MAX_NOTICES = 10  # of each kind, line by line; others are only counted

flags.DEFINE_string(
    "model_dir",
    None,
    "Folder with weights, their config, vocabulary and, if it was fine-tuned, "
    "task.json (or Hugging Face's config.json, which says what for).",
)
flags.DEFINE_string("input_file", None, "Lines: comma-separated names, globs.")
flags.DEFINE_string("output_file", None, "Unset: standard output.")
flags.DEFINE_enum(
    "output_format",
    "tsv",
    ["tsv", "jsonl"],
    "Columns with tabs between them, an empty line where there is no answer; or"
    " an object a line, with an error where there is no answer.",
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
common_flags.define_case_of_folder()
common_flags.define_precision_and_threads()
flags.DEFINE_bool("use_xla", False, "Compile the model as a whole.")
flags.mark_flag_as_required("model_dir")


def main(*texts: str) -> None:
    if texts and FLAGS.input_file:
        raise InputError(
            f"both --input_file and the text {texts[0]!r} are given; drop one"
        )
    command.import_tensorflow()

    from training.inference import with_progress

    notices = Notices()
    answer_all = _load()
    answers = _answers(_decoded(_read(texts), notices), answer_all)
    if FLAGS.output_file:
        with command.writing(FLAGS.output_file, "--output_file") as file:
            for answer in with_progress(answers):
                file.write((_format(answer, notices) + "\n").encode())
    else:
        shown = answers if sys.stdout.isatty() else with_progress(answers)
        _print(_format(answer, notices) for answer in shown)
    notices.close()


def _load() -> "Callable[[Iterable[str]], Iterator[Answer]]":
    """Reads the model; what was loaded is said on standard error."""
    import keras

    from tasks import predictors
    from training.distribution import make_strategy
    from training.inference import Predictor, predict
    from training.settings import DeviceConfig

    keras.config.set_dtype_policy(FLAGS.precision)
    strategy = make_strategy(DeviceConfig())
    with strategy.scope():
        model = predictors.load(
            _local_folder(FLAGS.model_dir),
            FLAGS.do_lower_case,
            FLAGS.strip_accents,
            FLAGS.top_k,
        )
    print(model.report, file=sys.stderr)
    predictor = Predictor(model.forward, strategy, FLAGS.use_xla)
    return functools.partial(
        model.answer_all,
        run=functools.partial(predict, predictor),
        batch_size=FLAGS.batch_size,
        finely=predictor.shapes_are_cheap,
    )


def _local_folder(folder: str) -> str:
    """The folder itself, or a copy of what lies on gs:// and the like."""
    if "://" not in folder:
        return folder
    import tensorflow as tf

    from modeling.folder_files import temporary_folder

    copy = temporary_folder()
    try:
        for name in tf.io.gfile.listdir(folder):
            if not tf.io.gfile.isdir(f"{folder}/{name}"):
                tf.io.gfile.copy(f"{folder}/{name}", os.path.join(copy, name))
    except tf.errors.OpError as error:
        raise InputError(
            f"cannot read --model_dir={folder}: {error.message}"
        ) from error
    return copy


def _read(texts: tuple[str, ...]) -> Iterator[bytes]:
    """Lines of the arguments, else of files, else of standard input."""
    if texts:
        yield from (os.fsencode(text) for text in texts)
    elif FLAGS.input_file is None:
        yield from sys.stdin.buffer
    else:
        import tensorflow as tf

        from data.files import expand_patterns

        for path in expand_patterns(FLAGS.input_file):
            try:
                with tf.io.gfile.GFile(path, "rb") as file:
                    yield from iter(file.readline, b"")
            except tf.errors.OpError as error:
                raise InputError(
                    f"cannot read --input_file={path}: {error.message}"
                ) from error


def _decoded(lines: Iterable[bytes], notices: "Notices") -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            notices.say(number, "bytes that are not UTF-8 are left out")
            text = line.decode(errors="replace")
        yield text


def _answers(
    lines: Iterator[str], answer_all: "Callable[..., Iterator[Answer]]"
) -> "Iterator[Answer]":
    line_by_line = FLAGS.line_by_line
    if line_by_line is None:
        line_by_line = not FLAGS.input_file and sys.stdin.isatty()
    if not line_by_line:
        return answer_all(lines)
    return (
        answer
        for number, line in enumerate(lines, 1)
        for answer in answer_all([line], first_number=number)
    )


def _format(answer: "Answer", notices: "Notices") -> str:
    error = answer.fields.get("error", "")
    for sentence in filter(None, (answer.note, error)):
        notices.say(answer.number, sentence)
    if FLAGS.output_format == "jsonl":
        return json.dumps({"line": answer.number, **answer.fields})
    return "\t".join(answer.columns)


def _print(lines: Iterable[str]) -> None:
    """Each at once; a reader that has gone away (| head) ends it quietly."""
    try:
        for line in lines:
            print(line, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Notices:
    """Says on standard error what was odd about lines: of each kind the first
    few times, then how often."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()

    def say(self, number: int, sentence: str) -> None:
        self.counts[sentence] += 1
        if self.counts[sentence] <= MAX_NOTICES:
            print(f"line {number}: {sentence}", file=sys.stderr, flush=True)

    def close(self) -> None:
        for sentence, count in self.counts.items():
            if count > MAX_NOTICES:
                print(f"{count} lines in all: {sentence}", file=sys.stderr)


def cli() -> None:
    command.run(main, takes_arguments=True)


if __name__ == "__main__":
    cli()
