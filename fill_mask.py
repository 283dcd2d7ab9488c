"""Fills in blanks: a model's likeliest pieces for each [MASK] of a line.

    python fill_mask.py --model_dir=/tmp/bert "The sky is [MASK]."

Lines come from the arguments, from --input_file or from standard input; each
is answered as soon as it is read. Ours; google-research/bert has no such
command.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from absl import flags

import command
from input_error import InputError

if TYPE_CHECKING:
    from data.tokenization import FullTokenizer
    from tasks.blanks import BlankFiller

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "model_dir",
    None,
    "Folder with bert_model.ckpt, bert_config.json and vocab.txt.",
)
flags.DEFINE_string("input_file", None, "Lines: comma-separated names, globs.")
flags.DEFINE_integer("top_k", 5, "Pieces to show.", lower_bound=1)
flags.DEFINE_bool(
    "do_lower_case", True, "True for uncased models, False for cased ones."
)
flags.DEFINE_alias("do_lower", "do_lower_case")
flags.DEFINE_bool(
    "strip_accents", None, "Whether accents go; unset: as --do_lower_case."
)
flags.mark_flag_as_required("model_dir")


def main(*texts: str) -> None:
    if texts and FLAGS.input_file:
        raise InputError(
            f"both --input_file and the text {texts[0]!r} are given; drop one"
        )
    command.import_tensorflow()
    command.import_tensorflow()
    tokenizer, model = _load(FLAGS.model_dir)
    lines = texts or _read_lines(FLAGS.input_file)
    for number, line in enumerate(lines, 1):
        try:
            print(_answer(line, tokenizer, model), flush=True)
        except InputError as error:
            raise InputError(f"line {number}: {error}") from error


def _load(folder: str) -> "tuple[FullTokenizer, BlankFiller]":
    """Reads a model folder; what was loaded is said on standard error."""
    import tensorflow as tf

    from data.tokenization import FullTokenizer
    from data.vocabulary import check_vocabulary
    from modeling import conversion
    from modeling.config import BertConfig
    from tasks.blanks import BlankFiller

    files = (conversion.CONFIG, conversion.VOCABULARY)
    for name in (*files, conversion.CHECKPOINT + ".index"):
        if not tf.io.gfile.exists(f"{folder}/{name}"):
            raise InputError(
                f"--model_dir={folder} has no {name}; it must name a folder "
                "that run_pretraining.py, with --vocab_file, has written"
            )
    config_file, vocab_file = (
        command.local(f"{folder}/{name}") for name in files
    )
    config = BertConfig.from_json_file(config_file)
    check_vocabulary(vocab_file, config.vocab_size)
    tokenizer = FullTokenizer(
        vocab_file, FLAGS.do_lower_case, FLAGS.strip_accents
    )
    model = BlankFiller(config)
    report = conversion.load_checkpoint(model.bindings(), folder)
    print(report, file=sys.stderr)
    if report.missing:
        raise InputError(
            f"the model in {folder} cannot fill in blanks: its checkpoint has "
            f"no {report.missing[0]}"
        )
    return tokenizer, model


def _read_lines(patterns: str | None) -> Iterable[str]:
    """Lines of files; of standard input if none are named."""
    if patterns is None:
        return sys.stdin

    from data.records import expand_patterns, read_lines

    return (
        line for path in expand_patterns(patterns) for line in read_lines(path)
    )


def _answer(line: str, tokenizer: "FullTokenizer", model: "BlankFiller") -> str:
    """The line, then a line of pieces for each [MASK]; "" for an empty one."""
    from tasks.blanks import encode, likeliest

    if not line.strip():
        return ""
    blanks = encode(line, tokenizer, model.config.max_position_embeddings)
    answer = [line.rstrip("\n")]
    for row in model.probabilities(blanks):
        best = likeliest(row, tokenizer.inv_vocab, FLAGS.top_k)
        answer.append("  " + "  ".join(f"{p} {share:.3f}" for p, share in best))
    return "\n".join(answer)


def cli() -> None:
    command.run(main, takes_arguments=True)


if __name__ == "__main__":
    cli()
