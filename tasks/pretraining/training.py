"""A model pre-trained from Python, as run_pretraining.py does it."""

import os
import time
from typing import Any

import tensorflow as tf

from bert_keras.data.dataset_batches import features_of
from bert_keras.data.masking import MaskConfig
from bert_keras.errors import InputError
from bert_keras.tasks.distillation.config import DistilBertLoss, StudentConfig
from bert_keras.tasks.fill_mask import FillMaskPipeline
from bert_keras.tasks.keyword_settings import Settings, make, types_of
from bert_keras.tasks.pretraining.data import names_of_files
from bert_keras.tasks.pretraining.task import (
    MASKS,
    PretrainingConfig,
    make_task,
)
from bert_keras.tasks.python_training import (
    NOT_SETTINGS,
    TYPES,
    as_before,
    one_training,
    trained_model,
)
from bert_keras.tasks.run_context import RunConfig, make_devices
from bert_keras.tasks.trainer import Trainer
from bert_keras.training.config import (
    Budget,
    DeviceConfig,
)
from bert_keras.training.loop import Callback

SETTINGS = Settings(
    "pretrain",
    {
        **TYPES,
        **types_of(PretrainingConfig),
        **types_of(MaskConfig),
        **types_of(Budget),
        **types_of(StudentConfig),
        **types_of(DistilBertLoss),
        "teacher_model_dir": str | None,
    },
    without={
        *NOT_SETTINGS,
        *("input_file", "eval_file", "do_eval", "mask_flags"),
        *("keeps_warmup", "started"),
        # what fine-tuning alone has
        *("layer_decay", "num_frozen_layers", "num_seeds"),
        *("keep_classifier_head", "second_init_checkpoint"),
    },
    teacher_model_dir=None,
)


@one_training()
def pretrain(
    records: Any,
    output_dir: str | os.PathLike[str],
    init_checkpoint: str | os.PathLike[str] | None = None,
    evaluation: Any = None,
    callback: Callback | None = None,
    **settings: Any,
) -> FillMaskPipeline:
    """Pre-trains a model on records.

    With equal settings the weights are those of run_pretraining.py, to the bit.
    The same call resumes a run that was stopped. output_dir becomes a model
    folder.

    Examples:
        >>> model = bert_keras.pretrain(
        ...     "records.tfrecord",
        ...     output_dir="new_bert",
        ...     vocab_file="vocab.txt",
        ...     model_size="tiny",
        ...     max_seq_length=32,
        ...     train_batch_size=4,
        ...     num_train_steps=5,
        ...     num_warmup_steps=1,
        ... )
        model: 2 layers, hidden size 128, 2 heads, ...
        >>> [figures["step"] for figures in model.history]
        [1, 2, 3, 4, 5]
        >>> len(model.fill("The sky is [MASK].").blanks)
        1

    Args:
        records: a string of comma-separated names and globs of TFRecord files;
            or a pathlib.Path, or a list of these; or a tf.data.Dataset of your
            own, whose elements are examples, not batches: dictionaries by the
            names of a record's features, each [length]. It is repeated without
            end but not shuffled, and its state is saved with the model's.
        init_checkpoint: folder of the model to start from. None starts from
            random weights; then give `vocab_file` and either `model_size` or
            `bert_config_file`.
        evaluation: files of records as `records` may be.
        callback: called after each step with its number, from 1, and its
            figures by name.
        settings: flags of run_pretraining.py, by name, such as vocab_file,
            max_seq_length (128, or as long as the dataset's), train_batch_size,
            num_train_steps, learning_rate, teacher_model_dir, seed.

    Returns:
        The trained model, with its `metrics` and `history`.

    Raises:
        InputError: records, models and settings do not fit each other.
        TypeError: a setting is not one of these flags.
    """
    started = time.monotonic()
    values = SETTINGS.read(settings) | {
        "init_checkpoint": init_checkpoint and os.fspath(init_checkpoint),
        "output_dir": os.fspath(output_dir),
        "do_train": True,
    }
    if isinstance(records, tf.data.Dataset):
        length = next(
            feature.length
            for feature in features_of(records)
            if feature.name == "input_ids"
        )
        if values.setdefault("max_seq_length", length) != length:
            raise InputError(
                f"`max_seq_length` is {values['max_seq_length']}, but the "
                f"dataset has examples of {length} tokens; leave it out"
            )
    else:
        records = names_of_files("records", records)
    if values.get("eval_steps") and evaluation is None:
        raise InputError(
            "`eval_steps` compares models: give `evaluation`, records to "
            "compare them on"
        )
    if evaluation is not None:
        evaluation = names_of_files("evaluation", evaluation)
    files = {"input_file": records, "eval_file": evaluation}
    read = files | {"general_eval_file": values.get("general_eval_file")}
    run = make(
        RunConfig,
        values,
        data_files={n: x for n, x in read.items() if isinstance(x, str)},
    )
    config = make(
        PretrainingConfig,
        values,
        **files,
        do_eval=evaluation is not None,
        mask_flags=[name for name in MASKS if name in settings],
        budget=make(
            Budget,
            values,
            keeps_warmup="num_warmup_steps" in settings,
            started=started,
        ),
    )
    devices = make_devices(DeviceConfig(), output_dir=run.output_dir)
    with as_before():
        task = make_task(
            devices,
            run,
            config,
            make(StudentConfig, values),
            make(DistilBertLoss, values),
            settings.keys(),
        )
        if task.context.tokenizer is None:
            raise InputError(
                "the vocabulary is not known: give `vocab_file`, with which "
                "the trained model reads texts"
            )
        with task.explain_parse_errors():
            trainer = Trainer(task, task.context, config.seed)
            trainer.train(callback)
            metrics = task.evaluate(trainer) if config.do_eval else {}
    with as_before():  # once more: the model is as the caller has it
        return trained_model(run.output_dir, metrics, run.output_dir)
