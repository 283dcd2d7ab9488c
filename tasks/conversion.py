"""A model folder in the other form: Google's as Hugging Face's, or back.

Ours; google-research/bert has none.
"""

import dataclasses
import os
import sys
from collections.abc import Sequence

from bert_keras import files
from bert_keras.data.tokenizer_folder import (
    CASE,
    TOKENIZER_CONFIG,
    OpenedTokenizer,
    TokenizerOptions,
    hugging_face_files,
    settings_json,
)
from bert_keras.errors import InputError, with_flags
from bert_keras.modeling.checkpoint import (
    AnyModel,
    VariableMapping,
    check_sizes,
    largest_difference,
    load_checkpoint,
    open_weights,
    save_model_folder,
)
from bert_keras.modeling.config import BertConfig, model_config_file
from bert_keras.modeling.hugging_face import (
    HUGGING_FACE_CONFIG,
    class_of,
    is_hugging_face,
    save_hugging_face_folder,
)
from bert_keras.tasks.base import open_model_folder
from bert_keras.tasks.hugging_face_task import (
    classifier_class,
    folder_task,
    problem_type,
)
from bert_keras.tasks.sentence_pooling import copy_pooling
from bert_keras.tasks.task_config import TASK, TaskConfig

GOOGLE, HUGGING_FACE = "google", "hugging_face"
MAX_DIFFERENCE = 1e-5  # between the outputs of what was read and written


def convert(
    init_checkpoint: str,
    output_dir: str,
    to: str | None = None,
    hidden_act: str | None = None,
    bert_config_file: str | None = None,
    vocab_file: str | None = None,
    options: TokenizerOptions | None = None,
) -> tuple[str, float]:
    """Writes a model in the other form, with whichever heads it has.

    Prints what was loaded, and what stays behind.

    Args:
        init_checkpoint: a model folder of either kind, or a checkpoint.
        output_dir: a new folder, which appears when what was written has been
            loaded again and gives the same outputs.
        to: GOOGLE or HUGGING_FACE; None: what `init_checkpoint` is not.
        hidden_act: one of config.ACTIVATIONS; None: the config's.
        bert_config_file: None: the one beside `init_checkpoint`.
        vocab_file: None: the one beside `init_checkpoint`.
        options: override the folder's settings of its tokenizer.

    Returns:
        The form, and by how much outputs on a sample differ at most.

    Raises:
        InputError: a file is missing or does not fit the others, the model
            has no other form, or the folder is there already.
    """
    if to is None:
        to = GOOGLE if is_hugging_face(init_checkpoint) else HUGGING_FACE
    with files.new_folder(output_dir) as folder:
        about = open_model_folder(
            init_checkpoint,
            options,
            bert_config_file,
            vocab_file,
            "a bert_config.json or config.json beside it, or "
            "`bert_config_file`",
            tells_case=True,
        )
        config, tokenizer = about.config, about.opened
        if hidden_act:
            config = dataclasses.replace(config, hidden_act=hidden_act)
        task = folder_task(init_checkpoint, options)
        if task is not None and not task.has_one_encoder:
            raise InputError(
                f"{init_checkpoint} has a second encoder, or a BiLSTM on its "
                "encoder, for which there is no other form; expected a model "
                "fine-tuned without `second_init_checkpoint`, `bilstm` and "
                "`feature_layers`"
            )
        if tokenizer is not None:
            about.checked_tokenizer()
        if task and tokenizer:  # of `vocab_file` the folder does not know
            case = {name: getattr(tokenizer.settings, name) for name in CASE}
            task = dataclasses.replace(task, **case)
        check_sizes(config, init_checkpoint, needs_all_layers=True)
        shapes = dict(open_weights(init_checkpoint).shapes)
        if task is None and is_hugging_face(init_checkpoint):
            values = files.json_beside(init_checkpoint, HUGGING_FACE_CONFIG)
            name = class_of(values)
            if name and "output_weights" in shapes:
                print(
                    f"the classifier is left out: it is a {name}'s, and what "
                    "that does with it is not known"
                )
                del shapes["output_weights"]
        model = AnyModel(config, shapes)
        report = load_checkpoint(model.mappings(), init_checkpoint)
        print(report, flush=True)
        for what, names in (("lacks", report.missing), ("has", report.unused)):
            for name in names:  # only a pooler may lack
                if name.startswith("bert/") and "/pooler/" not in name:
                    raise InputError(
                        f"{init_checkpoint} {what} {name}, unlike what its "
                        "config describes; give the right `bert_config_file`"
                    )
        found = [m for m in model.mappings() if m.name in report.loaded]
        write = _write_google if to == GOOGLE else _write_hugging_face
        write(folder, config, found, tokenizer, task)
        copy_pooling(init_checkpoint, folder)
        config_file = model_config_file(folder)
        assert config_file is not None
        written = AnyModel(
            BertConfig.from_json_file(config_file),
            open_weights(folder).shapes,
        )
        load_checkpoint(written.mappings(), folder)
        difference = largest_difference(model, written)
        if not difference <= MAX_DIFFERENCE:
            raise InputError(
                f"what was written gives other outputs, by up to {difference}; "
                f"expected at most {MAX_DIFFERENCE}, so it was removed"
            )
    return to, difference


def _write_google(
    folder: str,
    config: BertConfig,
    found: Sequence[VariableMapping],
    tokenizer: OpenedTokenizer | None,
    task: TaskConfig | None,
) -> None:
    if config.hidden_act == "gelu_tanh":  # the original knows one name for it
        config = dataclasses.replace(config, hidden_act="gelu")
    if config.family != "bert":
        print(
            f"warning: google-research/bert does not know {config.family}; the "
            "folder has its form, for the commands here",
            file=sys.stderr,
        )
    elif config.hidden_act == "gelu_erf":
        warning = (
            "warning: bert_config.json says gelu_erf, which google-research/"
            "bert does not know: it has the tanh form only; with "
            "`hidden_act=gelu` it reads the folder, and the outputs change a "
            "little"
        )
        print(with_flags(warning), file=sys.stderr)
    others = {
        TASK: task.to_json() if task else None,
        TOKENIZER_CONFIG: tokenizer and settings_json(tokenizer),
    }
    vocab_file = tokenizer and tokenizer.vocab_file
    save_model_folder(folder, config, found, vocab_file, others)


def _write_hugging_face(
    folder: str,
    config: BertConfig,
    found: Sequence[VariableMapping],
    tokenizer: OpenedTokenizer | None,
    task: TaskConfig | None,
) -> None:
    tokenizer_files = {}
    if tokenizer is not None:
        tokenizer_files = hugging_face_files(
            tokenizer,
            config.max_position_embeddings,
            config.type_vocab_size > 0,
        )
    save_hugging_face_folder(
        folder,
        config,
        found,
        tokenizer and tokenizer.vocab_file,
        task.labels if task else (),
        problem_type(task),
        classifier_class(task),
        tokenizer_files,
    )
    if task is not None:  # so that the way back loses nothing
        files.write_whole(os.path.join(folder, TASK), task.to_json().encode())
