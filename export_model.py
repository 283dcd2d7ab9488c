"""Writes a model folder as a SavedModel, for TensorFlow Serving and others.

    python export_model.py --model_dir=/tmp/mrpc --export_dir=/tmp/serving/mrpc

The export needs nothing of this project to answer: ids, or where the model
takes texts, strings, which are cut into word pieces in the graph. It is
float32. docs/serving.md shows how to serve it and to ask it.

Ours; google-research/bert has no such command.
"""

import sys
from typing import TYPE_CHECKING

from absl import flags

import command
import common_flags
from input_error import InputError

if TYPE_CHECKING:
    from data.graph_tokenization import GraphTokenizer
    from jobs.serving import Model
    from modeling.config import BertConfig
    from tasks.task import TaskSettings

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "model_dir",
    None,
    "Folder with weights, their config, vocab.txt and, if it was fine-tuned, "
    "task.json; without that the encoder is exported.",
)
common_flags.define_folder("export_dir", "Folder of the model's versions.")
flags.DEFINE_integer(
    "version", 1, "Number, and folder, of this one.", lower_bound=1
)
flags.DEFINE_bool(
    "do_lower_case",
    True,
    "Where there is no task.json: true for uncased models.",
)
flags.DEFINE_alias("do_lower", "do_lower_case")
flags.DEFINE_bool(
    "strip_accents", None, "Whether accents go; unset: as --do_lower_case."
)
flags.DEFINE_integer(
    "max_seq_length",
    128,
    "Where there is no task.json: pieces to which texts are cut.",
    lower_bound=3,
)
flags.mark_flags_as_required(["model_dir", "export_dir"])


def main() -> None:
    command.import_tensorflow()

    from jobs import serving
    from modeling import fused
    from modeling.conversion import CONFIG
    from modeling.folder_files import vocabulary_file, vocabulary_files
    from tasks.task import TASK
    from training.export import version_folder, write_saved_model

    folder = version_folder(FLAGS.export_dir, FLAGS.version)
    settings, config = _read_settings(FLAGS.model_dir)
    vocab_file = vocabulary_file(FLAGS.model_dir)
    assets = {CONFIG: config.to_json().encode()}
    if settings is not None:
        assets[TASK] = settings.to_json().encode()
    parts = vocabulary_files(vocab_file) if vocab_file else {}
    for name, path in parts.items():
        with open(path, "rb") as file:
            assets[name] = file.read()
    model = _load_model(FLAGS.model_dir, config, settings)
    tokenizer = _tokenizer(vocab_file, config, settings)
    signatures = serving.signatures(model, config, settings, tokenizer)
    variables = [binding.variable.value for binding in model.bindings()]
    with fused.uncompiled():
        write_saved_model(folder, signatures, [tokenizer, variables], assets)
    print(folder)
    for name, signature in signatures.items():
        print(f"  {name}: {', '.join(signature.inputs)}")


def _read_settings(
    folder: str,
) -> "tuple[TaskSettings | None, BertConfig]":
    from modeling.config import BertConfig
    from modeling.hugging_face import model_config_file
    from tasks.task import TaskSettings

    config_file = model_config_file(folder)
    if config_file is None or "://" in folder:
        raise InputError(
            f"--model_dir={folder} is no local folder with a bert_config.json "
            "or config.json; expected a model folder"
        )
    config = BertConfig.from_json_file(config_file)
    return TaskSettings.from_folder(folder), config


def _tokenizer(
    vocab_file: str | None,
    config: "BertConfig",
    settings: "TaskSettings | None",
) -> "GraphTokenizer | None":
    from data.graph_tokenization import GraphTokenizer
    from data.tokenization import FullTokenizer
    from data.vocabulary import check_vocabulary

    if vocab_file is None:
        return None
    if vocab_file.endswith(".json"):
        print(
            "a byte-level vocabulary has no form in a graph: the model is "
            "asked by ids alone",
            file=sys.stderr,
        )
        return None
    check_vocabulary(vocab_file, config.vocab_size)
    chosen = settings or FLAGS
    if chosen.max_seq_length > config.max_position_embeddings:
        raise InputError(
            f"texts would be cut to {chosen.max_seq_length} pieces but the "
            f"model has {config.max_position_embeddings} positions; change "
            f"{'its task.json' if settings else '--max_seq_length'}"
        )
    return GraphTokenizer(
        FullTokenizer(vocab_file, chosen.do_lower_case, chosen.strip_accents),
        chosen.max_seq_length,
        cuts=settings is None or settings.doc_stride is None,
    )


def _load_model(
    folder: str, config: "BertConfig", settings: "TaskSettings | None"
) -> "Model":
    """The model with its weights. A span is found without the pooler."""
    from jobs.serving import make_model
    from modeling.conversion import load_checkpoint

    model = make_model(config, settings)
    report = load_checkpoint(model.bindings(), folder)
    print(report, file=sys.stderr)
    is_span = settings is not None and settings.target == "span"
    for name in report.missing:
        if not (is_span and "/pooler/" in name):
            raise InputError(
                f"the model in {folder} cannot be exported: its checkpoint has "
                f"no {name}"
            )
    return model


def cli() -> None:
    command.run(main)


if __name__ == "__main__":
    cli()
