"""Show where a model looks: the attention of every layer and head.

A .html file is one page that needs no network: choose layer and head, hover
over a token. A .png file is a grid of all layers and heads, or of those chosen,
and requires matplotlib. Any model folder will do, in Google's or Hugging Face's
format, pre-trained or fine-tuned.

Examples:
    # A page to explore
    show_attention --model_dir=/tmp/bert --output_file=map.html \\
        --text="The keys to the cabinet are on the table."

    # One head on a pair of texts
    show_attention --model_dir=/tmp/mrpc --output_file=map.png \\
        --text="One sentence." --text_pair="Another one." --layer=3 --head=5

    # All heads of the last layer
    show_attention --model_dir=/tmp/bert --output_file=map.png \\
        --text="The keys to the cabinet are on the table." --layer=-1
"""

import importlib.util
import sys

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras import files
from bert_keras.errors import InputError

FLAGS = Flags(
    Flag("model_dir", str, Group.REQUIRED,
         "Model folder: weights with config and vocabulary."),
    Flag("text", str, Group.REQUIRED, "Text for which attention is shown."),
    Flag("output_file", str, Group.REQUIRED,
         "File to write, whose name ends in .html or .png."),
    Flag("text_pair", str, Group.DATA,
         "Second text, for models that take pairs."),
    Flag("max_seq_length", 128, Group.DATA,
         "Maximum length in tokens; longer texts are cut. A page grows with "
         "the square of the length: about 6 MB for 128 tokens of BERT-base.",
         4),
    *common_flags.TOKENIZER_FLAGS,
    Flag("layer", int, Group.OUTPUT,
         "Layer to draw in a .png file, counted from 0, or from the last layer "
         "as -1. Default: all layers."),
    Flag("head", int, Group.OUTPUT,
         "Head to draw in a .png file, counted from 0, or from the last head "
         "as -1. Default: all heads."),
)  # fmt: skip


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
    command.import_tensorflow(FLAGS)

    from bert_keras.tasks.attention_maps import AttentionReader, to_html, to_png

    options = common_flags.tokenizer_options(FLAGS)
    reader = AttentionReader(FLAGS.model_dir, options)
    print(reader.report, file=sys.stderr)
    attention = reader.read(FLAGS.text, FLAGS.text_pair, FLAGS.max_seq_length)
    if attention.is_cut:
        print(
            f"the text is cut to {len(attention.pieces)} tokens; see "
            "--max_seq_length",
            file=sys.stderr,
        )
    if is_page:
        content = to_html(attention)
    else:
        content = to_png(attention, FLAGS.layer, FLAGS.head)
    with files.writing(path, "output_file") as file:
        file.write(content)
    print(f"written: {path}")


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
