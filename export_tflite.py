"""Writes a model folder as a .tflite file, for phones and small computers.

    python export_tflite.py --model_dir=/tmp/mrpc --weights=int8 \\
        --output_file=/tmp/mrpc.tflite

LiteRT, once TensorFlow Lite, runs it without TensorFlow: a row of ids in, what
predict.py says out. docs/how_to/on_device.md shows how to ask it, and what each
kind of weights costs and keeps.

Ours; google-research/bert has no such command.
"""

from bert_keras.cli import command, common_flags

from absl import flags

from bert_keras import files
from bert_keras.errors import InputError

FLAGS = flags.FLAGS

common_flags.define_exported_model()
flags.DEFINE_string("output_file", None, "The .tflite file to write.")
flags.DEFINE_enum(
    "weights",
    "float32",
    ["float32", "float16", "int8"],
    "Of the file; int8 takes a quarter of float32 and is computed faster.",
)
flags.DEFINE_bool(
    "string_input",
    False,
    "Ask the model by a text and a second one, which may be empty, instead of "
    "ids. Only a LiteRT with TensorFlow's operations (Flex) runs such a file.",
)
flags.mark_flags_as_required(["model_dir", "output_file"])


def main() -> None:
    command.import_tensorflow()

    from bert_keras.modeling import fused_ops
    from bert_keras.tasks import export
    from bert_keras.training.export import to_tflite

    options = common_flags.tokenizer_options()
    settings, config, opened = export.open_folder(FLAGS.model_dir, options)
    length = common_flags.exported_length(settings)
    export.check_length(config, length)
    model = export.load_model(FLAGS.model_dir, config, settings)
    tokenizer = None
    if FLAGS.string_input:
        tokenizer = export.graph_tokenizer(opened, config, length, settings)
        if tokenizer is None or not export.takes_strings(settings):
            raise InputError(
                "--string_input is for models of whole texts with a vocab.txt; "
                "leave it out, and the file is asked by ids"
            )
    signatures = export.device_signatures(
        model, config, settings, length, tokenizer
    )
    variables = [binding.variable.value for binding in model.mappings()]
    with files.writing(FLAGS.output_file, "output_file") as file:
        with fused_ops.uncompiled():
            content = to_tflite(
                signatures,
                [tokenizer, variables],
                FLAGS.weights,
                FLAGS.string_input,
            )
        file.write(content)
    (signature,) = signatures.values()
    print(f"{FLAGS.output_file}: {len(content):,} bytes, {FLAGS.weights}")
    print(f"  a row of {length} pieces: {', '.join(signature.inputs)}")


def cli() -> None:
    command.run(main)


if __name__ == "__main__":
    cli()
