"""Export a model folder as a .tflite file, for phones and small computers.

LiteRT, formerly TensorFlow Lite, runs the file without TensorFlow: token ids
in, the answers of predict out.

Examples:
    # A quarter of the size, and faster
    export_tflite --model_dir=/tmp/mrpc --output_file=/tmp/mrpc.tflite \\
        --weights=int8

    # Short texts only, which take less time
    export_tflite --model_dir=/tmp/mrpc --output_file=/tmp/mrpc.tflite \\
        --max_seq_length=64

    # Strings instead of ids, for a LiteRT with Flex operations
    export_tflite --model_dir=/tmp/mrpc --output_file=/tmp/mrpc.tflite \\
        --string_input
"""

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras import files
from bert_keras.errors import InputError

FLAGS = Flags(
    *common_flags.EXPORT_FLAGS,
    Flag("output_file", str, Group.REQUIRED,
         "File to write, usually with a name that ends in .tflite."),
    Flag("weights", "float32", Group.OUTPUT,
         "Number format of the weights. int8 takes a quarter of the space of "
         "float32 and runs faster.",
         choices=("float32", "float16", "int8")),
    Flag("string_input", False, Group.OUTPUT,
         "Take two strings, the second of which may be empty, instead of "
         "token ids. Requires LiteRT with TensorFlow's operations (Flex)."),
)  # fmt: skip


def main() -> None:
    command.import_tensorflow(FLAGS)

    from bert_keras.modeling import fused_ops
    from bert_keras.tasks import export
    from bert_keras.training.export import to_tflite

    files.refuse_model_file("output_file", FLAGS.output_file, FLAGS.model_dir)
    options = common_flags.tokenizer_options(FLAGS)
    settings, config, opened = export.open_folder(FLAGS.model_dir, options)
    length = common_flags.exported_length(FLAGS, settings)
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
    variables = [mapping.variable.value for mapping in model.mappings()]
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
    print(f"  an example of {length} tokens: {', '.join(signature.inputs)}")


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
