"""The settings of a run that change what is learnt, to compare a run that
resumes with how it was begun."""

import dataclasses
import glob
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from bert_keras.data.tokenizers import TokenizerSettings, vocabulary_digest
from bert_keras.errors import InputError
from bert_keras.files import fingerprint, identities, parse_json, refuse_stream
from bert_keras.modeling.checkpoint import open_weights
from bert_keras.modeling.hugging_face import INDEX, SAFETENSORS
from bert_keras.tasks.run_context import RunContext
from bert_keras.training.checkpoints import read_settings

if TYPE_CHECKING:
    from bert_keras.tasks.trainer import TrainingPlan

WEIGHTS_BYTES = 1 << 26  # that are hashed, to tell weights from others
# Settings that do not change what is learnt: names of files (their contents are
# compared), what else a command does, how often it saves.
NOT_COMPARED = {
    "output_dir", "bert_config_file", "model_size", "dry_run", "do_train",
    "do_eval", "flags", "data_files", "tokenizer", "save_checkpoints_steps",
    "keep_checkpoint_max", "steps_per_call", "num_seeds",
}  # fmt: skip
NEW_END = "; the learning rate now falls to 0 at the new end"
# Settings that may change when a run resumes. It prints the change, followed by
# this text.
MAY_CHANGE = {
    "num_train_steps": NEW_END,
    "num_train_epochs": NEW_END,
    "num_decay_steps": "",
    # in the place of which `num_train_steps` may be given
    "train_hours": "",
    "train_tokens": "",
    "patience": "",
    # what is only looked at
    "general_eval_file": "",
    "general_eval_file's contents": "",
    # how a device is used
    "precision": "",
    "use_xla": "",
    "num_accumulation_steps": "",
    "recompute": "",
    "skip_nonfinite_steps": "",
    # how a table was read, whose contents are compared
    "separator": "",
    # how a model answers, whatever it was trained with
    "window_pooling": "",
    "max_answer_length": "",
    "n_best_size": "",
    "null_score_diff_threshold": "",
}


def made_of(context: RunContext) -> dict[str, Any]:
    """Config and vocabulary as settings, to compare runs."""
    found, tokenizer = context.tokenizer, {}
    if found is not None:
        tokenizer = found.settings.to_json()
        if found.special_tokens.is_byte_level:  # which has no other settings
            names = "add_prefix_space", "added_tokens"
            tokenizer = {name: tokenizer[name] for name in names}
    elif context.run.tokenizer.do_lower_case is not None:
        tokenizer = {"do_lower_case": context.run.tokenizer.do_lower_case}
    config = context.config.to_dict()
    return {
        **{f"bert_config_file's {key}": x for key, x in config.items()},
        "vocab_file": found and vocabulary_digest(found.vocab),
        **tokenizer,
    }


def without_new_tokenizer(
    settings: dict[str, Any], began: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings without those of a vocabulary that the run had none of when
    it began."""
    if began.get("vocab_file", "") is not None:
        return settings
    new = {
        "vocab_file",
        *(f.name for f in dataclasses.fields(TokenizerSettings)),
    }
    new -= {name for name in new if began.get(name) is not None}
    return {name: x for name, x in settings.items() if name not in new}


def settings_of(context: RunContext, plan: "TrainingPlan") -> dict[str, Any]:
    """All settings that change what is learnt, by argument."""
    settings = {
        **dataclasses.asdict(context.run),
        **dataclasses.asdict(plan.optimizer),
        **dataclasses.asdict(plan.loop),
        "patience": plan.selection.patience,
        **plan.others,
        **made_of(context),
    }
    for name in (
        "init_checkpoint", "second_init_checkpoint", "teacher_model_dir",
    ):  # fmt: skip
        source = settings.get(name)
        settings[f"{name}'s contents"] = source and weights_contents(source)
    return {k: x for k, x in settings.items() if k not in NOT_COMPARED}


def refuse_other_kind(folder: str, is_pretraining: bool) -> None:
    """Raises an InputError if output_dir has a fine-tuning run and this is
    pre-training, or the reverse."""
    began = read_settings(folder)
    was_pretraining = "input_file" in began  # fine-tuning has none
    if began and was_pretraining != is_pretraining:
        kinds = "pre-training", "fine-tuning"
        own, other = kinds if was_pretraining else kinds[::-1]
        raise InputError(
            f"`output_dir={folder}` has a run of {own}, and this is {other}; "
            "name another folder (to start from its model, give "
            f"`init_checkpoint={folder}`, too)"
        )


def file_settings(argument: str, paths: Sequence[str]) -> dict[str, list[str]]:
    """The names of files, and what identifies their contents."""
    return {
        argument: [
            f"{path}, {tf.io.gfile.stat(path).length} bytes" for path in paths
        ],
        f"{argument}'s contents": [
            f"{os.path.basename(path)}, {found}"
            for path, found in zip(paths, identities(paths), strict=True)
        ],
    }


def weights_contents(path: str) -> str | None:
    """Identifies the weights that `path` names; None if they no longer
    exist."""
    try:
        source = open_weights(path).source
    except InputError:
        return None
    if tf.io.gfile.exists(source + ".index"):
        return fingerprint(source + ".index")  # a checksum of each variable
    paths = [source]
    if source.endswith(INDEX):
        folder = glob.escape(os.path.dirname(source))
        paths = tf.io.gfile.glob(f"{folder}/*{SAFETENSORS}")
        for name in paths:
            refuse_stream(name)
    if len(paths) > 1:  # as earlier versions stored it
        return ", ".join(map(fingerprint, sorted(paths)))
    return identities(paths, WEIGHTS_BYTES)[0]


def learnt(task: str | bytes | None) -> dict[str, Any]:
    """The settings in a task.json that are fixed once the model is trained."""
    values = dict(parse_json(task or "{}"))
    return {name: x for name, x in values.items() if name not in MAY_CHANGE}
