"""Shows where a model looks: the attention of every layer and head.

    python show_attention.py --model_dir=/tmp/bert --output_file=map.html \\
        --text="The keys to the cabinet are on the table."
    python show_attention.py --model_dir=/tmp/mrpc --output_file=map.png \\
        --text="One sentence." --text_pair="Another one." --layer=3 --head=5

A .html is one page that needs no network: choose layer and head, hover over a
piece. A .png is a grid of all layers and heads, or those that are chosen; it
takes matplotlib. Any model folder will do, Google's, Hugging Face's or a
fine-tuned one. Ours; google-research/bert has no such command.
"""

import importlib.util
import sys

from bert_keras.cli import command, common_flags

from absl import flags

from bert_keras import files
from bert_keras.errors import InputError

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "model_dir", None, "Folder with weights, their config and vocabulary."
)
flags.DEFINE_string("text", None, "A text.")
flags.DEFINE_string("text_pair", None, "A second one, if it is a pair.")
flags.DEFINE_string("output_file", None, "A name that ends in .html or .png.")
flags.DEFINE_integer(
    "layer", None, "In a .png, one: from 0, or downwards from -1, the last."
)
flags.DEFINE_integer("head", None, "In a .png, one: from 0, or from -1.")
flags.DEFINE_integer(
    "max_seq_length",
    128,
    "Pieces; a longer text is cut. A page grows with its square: some 6 MB for "
    "128 pieces of BERT-base.",
    lower_bound=4,
)
common_flags.define_tokenizer()
flags.mark_flags_as_required(["model_dir", "text", "output_file"])


def main() -> None:
    path = FLAGS.output_file
    is_page = path.endswith(".html")
    for name in ("layer", "head"):
        if is_page and FLAGS[name].value is not None:
            raise InputError(
                f"--{name} is for a .png; a page shows every {name}"
            )
    if not is_page and not path.endswith(".png"):
        raise InputError(f"--output_file={path} ends in neither .html nor .png")
    if not is_page and not importlib.util.find_spec("matplotlib"):
        raise InputError(
            "a .png is drawn by matplotlib, which is not installed: "
            'pip install ".[plot]", or matplotlib alone; a .html needs nothing'
        )
    command.import_tensorflow()

    from bert_keras.tasks.attention_maps import AttentionReader, to_html, to_png

    options = common_flags.tokenizer_options()
    reader = AttentionReader(FLAGS.model_dir, options)
    print(reader.report, file=sys.stderr)
    attention = reader.read(FLAGS.text, FLAGS.text_pair, FLAGS.max_seq_length)
    if attention.is_cut:
        print(
            f"the text is cut to {len(attention.pieces)} pieces; see "
            "--max_seq_length",
            file=sys.stderr,
        )
    if is_page:
        content = to_html(attention)
    else:
        layers, heads, *_ = attention.probabilities.shape
        content = to_png(
            attention, _number("layer", layers), _number("head", heads)
        )
    with files.writing(path, "output_file") as file:
        file.write(content)
    print(f"written: {path}")


def _number(name: str, count: int) -> int | None:
    """The flag's, counted from 0."""
    value = FLAGS[name].value
    if value is not None and not -count <= value < count:
        raise InputError(
            f"there is no {name} {value}; the model has {count}: 0 to "
            f"{count - 1}, or -{count} to -1"
        )
    return None if value is None else int(value) % count


def cli() -> None:
    command.run(main)


if __name__ == "__main__":
    cli()
