"""Writes a model folder as a SavedModel, for TensorFlow Serving and others.

    python export_model.py --model_dir=/tmp/mrpc --export_dir=/tmp/serving/mrpc

The export needs nothing of this project to answer: ids, or where the model
takes texts, strings, which are cut into word pieces in the graph. It is
float32. docs/how_to/serving.md shows how to serve it and to ask it.

Ours; google-research/bert has no such command.
"""

from bert_keras.cli import command, common_flags

from absl import flags

FLAGS = flags.FLAGS

common_flags.define_exported_model()
common_flags.define_folder("export_dir", "Folder of the model's versions.")
flags.DEFINE_integer(
    "version", 1, "Number, and folder, of this one.", lower_bound=1
)
flags.mark_flags_as_required(["model_dir", "export_dir"])


def main() -> None:
    command.import_tensorflow()

    from bert_keras.data.tokenizer_folder import TOKENIZER_CONFIG, settings_json
    from bert_keras.files import vocabulary_files
    from bert_keras.modeling import fused_ops
    from bert_keras.modeling.hugging_face import CONFIG
    from bert_keras.tasks import export
    from bert_keras.tasks.task_config import TASK
    from bert_keras.training.export import version_folder, write_saved_model

    folder = version_folder(FLAGS.export_dir, FLAGS.version)
    options = common_flags.tokenizer_options()
    settings, config, opened = export.open_folder(FLAGS.model_dir, options)
    assets = {CONFIG: config.to_json().encode()}
    if settings is not None:
        assets[TASK] = settings.to_json().encode()
    if opened is not None:
        assets[TOKENIZER_CONFIG] = settings_json(opened).encode()
        for name, path in vocabulary_files(opened.vocab_file).items():
            with open(path, "rb") as file:
                assets[name] = file.read()
    model = export.load_model(FLAGS.model_dir, config, settings)
    length = common_flags.exported_length(settings)
    tokenizer = export.graph_tokenizer(opened, config, length, settings)
    signatures = export.signatures(model, config, settings, tokenizer)
    variables = [binding.variable.value for binding in model.mappings()]
    with fused_ops.uncompiled():
        write_saved_model(folder, signatures, [tokenizer, variables], assets)
    print(folder)
    for name, signature in signatures.items():
        print(f"  {name}: {', '.join(signature.inputs)}")


def cli() -> None:
    command.run(main)


if __name__ == "__main__":
    cli()
