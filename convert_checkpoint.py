"""Converts a model folder: Google's to Hugging Face's, or the other way.

    python convert_checkpoint.py --init_checkpoint=$BERT --output_dir=there

The encoder goes over and whichever heads there are, with the vocabulary and
the labels. What was written is loaded again and must give the same outputs
before --output_dir appears. Ours; google-research/bert has no such command.
"""

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags

from bert_keras import files
from bert_keras.cli import command, common_flags
from bert_keras.errors import InputError

if TYPE_CHECKING:
    from bert_keras.data.tokenizer_folder import (
        OpenedTokenizer,
        TokenizerOptions,
    )
    from bert_keras.modeling.checkpoint import (
        AnyModel,
        LoadReport,
        VariableMapping,
    )
    from bert_keras.modeling.config import BertConfig
    from bert_keras.tasks.task_config import TaskConfig

FLAGS = flags.FLAGS
Shapes = Mapping[str, Sequence[int]]  # by Google's names
GOOGLE, HUGGING_FACE = FORMATS = ["google", "hugging_face"]
MAX_DIFFERENCE = 1e-5  # between the outputs of what was read and written

flags.DEFINE_string(
    "init_checkpoint", None, "Model folder of either kind, or a checkpoint."
)
flags.DEFINE_string("output_dir", None, "A folder that is not there yet.")
flags.DEFINE_enum("to", None, FORMATS, "Unset: what --init_checkpoint is not.")
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


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """What goes over beside the weights."""

    config: "BertConfig"
    tokenizer: "OpenedTokenizer | None"
    task: "TaskConfig | None"


def main() -> None:
    command.import_tensorflow(computes=False)
    from bert_keras.files import new_folder
    from bert_keras.modeling.checkpoint import AnyModel, load_checkpoint
    from bert_keras.modeling.hugging_face import is_hugging_face
    from bert_keras.tasks.sentence_pooling import copy_pooling

    to = FLAGS.to or FORMATS[not is_hugging_face(FLAGS.init_checkpoint)]
    with new_folder(FLAGS.output_dir) as folder:
        around = _surroundings()
        shapes = _shapes(around.task)
        model = AnyModel(around.config, shapes)
        report = load_checkpoint(model.mappings(), FLAGS.init_checkpoint)
        print(report, flush=True)
        _check_whole(report)
        found = [b for b in model.mappings() if b.name in report.loaded]
        write = _write_google if to == GOOGLE else _write_hugging_face
        write(folder, found, around)
        copy_pooling(FLAGS.init_checkpoint, folder)
        difference = _difference(folder, model)
    print(
        f"{FLAGS.output_dir} is written, for {to}; loaded again, its outputs "
        f"on a sample differ by at most {difference:.1e}"
    )


def _shapes(task: "TaskConfig | None") -> Shapes:
    """Of the checkpoint's variables, but for a head that stays behind."""
    from bert_keras.files import json_beside
    from bert_keras.modeling.checkpoint import open_weights
    from bert_keras.modeling.hugging_face import (
        HUGGING_FACE_CONFIG,
        is_hugging_face,
    )
    from bert_keras.tasks.hugging_face_task import class_of

    shapes = dict(open_weights(FLAGS.init_checkpoint).shapes)
    if task is not None or not is_hugging_face(FLAGS.init_checkpoint):
        return shapes
    name = class_of(json_beside(FLAGS.init_checkpoint, HUGGING_FACE_CONFIG))
    if not name or "output_weights" not in shapes:
        return shapes
    print(
        f"the classifier is left out: it is a {name}'s, and what that does "
        "with it is not known"
    )
    return {k: v for k, v in shapes.items() if not k.startswith("output_")}


def _surroundings() -> Surroundings:
    from bert_keras.data.tokenizer_folder import open_tokenizer
    from bert_keras.modeling.config import BertConfig
    from bert_keras.modeling.hugging_face import model_config_file
    from bert_keras.tasks.checkpoint_compatibility import (
        check_config,
        compare_pieces,
    )
    from bert_keras.tasks.hugging_face_task import check_tokens

    config_file = FLAGS.bert_config_file or model_config_file(
        FLAGS.init_checkpoint
    )
    if config_file is None:
        raise InputError(
            "there is no bert_config.json or config.json beside "
            f"{FLAGS.init_checkpoint}; give --bert_config_file"
        )
    config = BertConfig.from_json_file(files.local(config_file))
    check_config(config, FLAGS.init_checkpoint)
    if FLAGS.hidden_act:
        config = dataclasses.replace(config, hidden_act=FLAGS.hidden_act)
    options = common_flags.tokenizer_options()
    tokenizer = open_tokenizer(
        FLAGS.init_checkpoint, FLAGS.vocab_file, options, tells_case=True
    )
    task = _task(options)
    if tokenizer is not None:
        vocab = check_tokens(tokenizer, config, FLAGS.init_checkpoint)
        if FLAGS.vocab_file:
            compare_pieces(FLAGS.vocab_file, vocab, FLAGS.init_checkpoint)
        if task is not None:  # of --vocab_file the folder does not know
            task = dataclasses.replace(
                task,
                do_lower_case=tokenizer.settings.do_lower_case,
                strip_accents=tokenizer.settings.strip_accents,
            )
    return Surroundings(config, tokenizer, task)


def _task(options: "TokenizerOptions") -> "TaskConfig | None":
    """What the model was trained for, if that is known."""
    from bert_keras.tasks.hugging_face_task import folder_task

    task = folder_task(FLAGS.init_checkpoint, options)
    if task is not None and not task.has_one_encoder:
        raise InputError(
            f"{FLAGS.init_checkpoint} has a second encoder, or a BiLSTM on its "
            "encoder, for which there is no other form; expected a model "
            "fine-tuned without --second_init_checkpoint, --bilstm and "
            "--feature_layers"
        )
    return task


def _check_whole(report: "LoadReport") -> None:
    """The encoder must be as the config says; only a pooler may lack."""
    for what, names in (
        ("lacks", report.missing),
        ("has", report.unused),
    ):
        for name in names:
            if name.startswith("bert/") and "/pooler/" not in name:
                raise InputError(
                    f"{FLAGS.init_checkpoint} {what} {name}, unlike what its "
                    "config describes; give the right --bert_config_file"
                )


def _write_google(
    folder: str, found: "Sequence[VariableMapping]", around: Surroundings
) -> None:
    from bert_keras.data.tokenizer_folder import TOKENIZER_CONFIG, settings_json
    from bert_keras.modeling.checkpoint import save_model_folder
    from bert_keras.tasks.task_config import TASK

    config = around.config
    if config.hidden_act == "gelu_tanh":  # the original knows one name for it
        config = dataclasses.replace(config, hidden_act="gelu")
    if config.family != "bert":
        print(
            f"warning: google-research/bert does not know {config.family}; the "
            "folder has its form, for the commands here",
            file=sys.stderr,
        )
    elif config.hidden_act == "gelu_erf":
        print(
            "warning: bert_config.json says gelu_erf, which google-research/"
            "bert does not know: it has the tanh form only; with --hidden_act="
            "gelu it reads the folder, and the outputs change a little",
            file=sys.stderr,
        )
    tokenizer = around.tokenizer
    save_model_folder(
        folder,
        config,
        found,
        tokenizer and tokenizer.vocab_file,
        {
            TASK: around.task.to_json() if around.task else None,
            TOKENIZER_CONFIG: tokenizer and settings_json(tokenizer),
        },
    )


def _write_hugging_face(
    folder: str, found: "Sequence[VariableMapping]", around: Surroundings
) -> None:
    from bert_keras.data.tokenizer_folder import hugging_face_files
    from bert_keras.files import write_whole
    from bert_keras.modeling.hugging_face import save_hugging_face_folder
    from bert_keras.tasks.hugging_face_task import (
        classifier_class,
        problem_type,
    )
    from bert_keras.tasks.task_config import TASK

    task, tokenizer = around.task, around.tokenizer
    save_hugging_face_folder(
        folder,
        around.config,
        found,
        tokenizer and tokenizer.vocab_file,
        task.labels if task else (),
        problem_type(task),
        classifier_class(task),
        hugging_face_files(
            tokenizer,
            around.config.max_position_embeddings,
            around.config.type_vocab_size > 0,
        )
        if tokenizer
        else {},
    )
    if task is not None:  # so that the way back loses nothing
        write_whole(os.path.join(folder, TASK), task.to_json().encode())


def _difference(folder: str, model: "AnyModel") -> float:
    """Between the outputs of what was read and what was written."""
    from bert_keras.modeling.checkpoint import (
        AnyModel,
        largest_difference,
        load_checkpoint,
        open_weights,
    )
    from bert_keras.modeling.config import BertConfig
    from bert_keras.modeling.hugging_face import model_config_file

    config_file = model_config_file(folder)
    assert config_file is not None
    config = BertConfig.from_json_file(files.local(config_file))
    written = AnyModel(config, open_weights(folder).shapes)
    load_checkpoint(written.mappings(), folder)
    difference = largest_difference(model, written)
    if not difference <= MAX_DIFFERENCE:
        raise InputError(
            f"what was written gives other outputs, by up to {difference}; "
            f"expected at most {MAX_DIFFERENCE}, so it was removed"
        )
    return difference


def cli() -> None:
    command.run(main)


if __name__ == "__main__":
    cli()
