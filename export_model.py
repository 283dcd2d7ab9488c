"""Export a model folder as a SavedModel, for TensorFlow Serving and others.

The export answers without this package. It takes token ids; models of texts
take strings, too, and tokenize them in the graph. Weights are float32.

Examples:
    # The first version of a classifier
    export_model --model_dir=/tmp/mrpc --export_dir=/tmp/serving/mrpc

    # A second version, to which TensorFlow Serving switches over
    export_model --model_dir=/tmp/better --export_dir=/tmp/serving/mrpc \\
        --version=2

    # An encoder without a task, for texts of up to 256 tokens
    export_model --model_dir=uncased_L-12_H-768_A-12 \\
        --export_dir=/tmp/serving/bert --max_seq_length=256
"""

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

FLAGS = Flags(
    *common_flags.EXPORT_FLAGS,
    Flag("export_dir", str, Group.REQUIRED,
         "Folder of the model, with a subfolder for each version."),
    Flag("version", 1, Group.OUTPUT,
         "Version number of the export, which names the subfolder.", 1),
)  # fmt: skip


def main() -> None:
    command.import_tensorflow(FLAGS)

    from bert_keras.data.tokenizer_folder import TOKENIZER_CONFIG, settings_json
    from bert_keras.files import vocabulary_contents
    from bert_keras.modeling import fused_ops
    from bert_keras.modeling.hugging_face import CONFIG
    from bert_keras.tasks import export
    from bert_keras.tasks.task_config import TASK
    from bert_keras.training.export import version_folder, write_saved_model

    folder = version_folder(FLAGS.export_dir, FLAGS.version)
    options = common_flags.tokenizer_options(FLAGS)
    settings, config, opened = export.open_folder(FLAGS.model_dir, options)
    assets = {CONFIG: config.to_json().encode()}
    if settings is not None:
        assets[TASK] = settings.to_json().encode()
    if opened is not None:
        assets[TOKENIZER_CONFIG] = settings_json(opened).encode()
        assets |= vocabulary_contents(opened.vocab_file)
    model = export.load_model(FLAGS.model_dir, config, settings)
    length = common_flags.exported_length(FLAGS, settings)
    tokenizer = export.graph_tokenizer(opened, config, length, settings)
    signatures = export.signatures(model, config, settings, tokenizer)
    variables = [mapping.variable.value for mapping in model.mappings()]
    with fused_ops.uncompiled():
        write_saved_model(folder, signatures, [tokenizer, variables], assets)
    print(folder)
    for name, signature in signatures.items():
        print(f"  {name}: {', '.join(signature.inputs)}")


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
