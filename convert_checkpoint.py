"""Converts a model folder: Google's to Hugging Face's, or the other way.

    python convert_checkpoint.py --init_checkpoint=$BERT --output_dir=there

The encoder goes over and whichever heads there are, with the vocabulary and
the labels. What was written is loaded again and must give the same outputs
before --output_dir appears. Ours; google-research/bert has no such command.
"""

from bert_keras.cli import command, common_flags

from absl import flags

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "init_checkpoint", None, "Model folder of either kind, or a checkpoint."
)
flags.DEFINE_string("output_dir", None, "A folder that is not there yet.")
flags.DEFINE_enum(
    "to",
    None,
    ["google", "hugging_face"],
    "Unset: what --init_checkpoint is not.",
)
flags.DEFINE_enum(
    "hidden_act",
    None,
    ["gelu", "gelu_erf", "relu", "tanh", "linear"],
    "The activation, where the config's is not the one wanted: gelu is Google's"
    ", by tanh; gelu_erf is what Hugging Face calls gelu.",
)
flags.DEFINE_string(
    "bert_config_file", None, "Unset: the one beside --init_checkpoint."
)
flags.DEFINE_string(
    "vocab_file", None, "Unset: the one beside --init_checkpoint."
)
common_flags.define_tokenizer()
flags.mark_flags_as_required(["init_checkpoint", "output_dir"])


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
        common_flags.tokenizer_options(),
    )
    print(
        f"{FLAGS.output_dir} is written, for {to}; loaded again, its outputs "
        f"on a sample differ by at most {difference:.1e}"
    )


def cli() -> None:
    command.run(main)


if __name__ == "__main__":
    cli()
