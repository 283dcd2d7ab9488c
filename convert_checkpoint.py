"""Convert a model folder from Google's to Hugging Face's format, or back.

Encoder, heads, vocabulary and labels are converted. The result is loaded again
and must give the same outputs before --output_dir appears.

Examples:
    # Google's format to Hugging Face's
    convert_checkpoint --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --output_dir=/tmp/for_transformers

    # Hugging Face's format to Google's
    convert_checkpoint --init_checkpoint=bert-base-uncased \\
        --output_dir=/tmp/for_google

    # A checkpoint that does not lie beside a config and a vocabulary
    convert_checkpoint --init_checkpoint=run/model.ckpt-20000 \\
        --bert_config_file=bert_config.json --vocab_file=vocab.txt \\
        --output_dir=/tmp/converted
"""

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

FLAGS = Flags(
    Flag("init_checkpoint", str, Group.REQUIRED,
         "Model folder in either format, or a checkpoint in Google's."),
    common_flags.NEW_FOLDER,
    Flag("to", str, Group.OUTPUT,
         "Format to write. Default: hugging_face for a model in Google's "
         "format, google for a model in Hugging Face's.",
         choices=("google", "hugging_face")),
    Flag("hidden_act", str, Group.MODEL,
         "Activation function of the encoder, in place of the one in the "
         "config. gelu is Google's tanh approximation; gelu_erf is the "
         "function that Hugging Face calls gelu.",
         choices=("gelu", "gelu_erf", "relu", "tanh", "linear")),
    common_flags.CONFIG_FILE,
    common_flags.VOCAB_FILE,
    *common_flags.TOKENIZER_FLAGS,
)  # fmt: skip


def main() -> None:
    command.import_tensorflow(computes=False)
    from bert_keras.tasks.conversion import convert

    to, difference = convert(
        FLAGS.init_checkpoint,
        FLAGS.output_dir,
        FLAGS.to,
        FLAGS.hidden_act,
        FLAGS.bert_config_file,
        FLAGS.vocab_file,
        common_flags.tokenizer_options(FLAGS),
    )
    print(
        f"{FLAGS.output_dir} is written, for {to}; loaded again, its outputs "
        f"on a sample differ by at most {difference:.1e}"
    )


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
