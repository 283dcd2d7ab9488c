"""A text classifier trained from Python, as run_classifier.py does it."""

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras

from bert_keras.data.tokenizer_folder import TokenizerOptions
from bert_keras.errors import InputError
from bert_keras.files import content, parse_json
from bert_keras.tasks import fine_tuning, load
from bert_keras.tasks.classification.data import (
    InputExample,
    TableFormat,
    to_examples,
)
from bert_keras.tasks.classification.pipeline import TextClassificationPipeline
from bert_keras.tasks.classification.task import (
    METRICS,
    Actions,
    ClassificationTask,
    TableFiles,
    table_problem,
)
from bert_keras.tasks.fine_tuning import FineTuningConfig
from bert_keras.tasks.run_context import (
    RunConfig,
    claim_folder,
    make_devices,
)
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.training.config import (
    DeviceConfig,
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)
from bert_keras.training.monitor import LOG

KINDS: tuple[Any, ...] = (
    RunConfig,
    TokenizerOptions,
    FineTuningConfig,
    OptimizerConfig,
    LoopConfig,
    ModelSelection,
    TableFormat,
    TableFiles,
)
# Flags of run_classifier.py that `train_classifier` takes by name.
SETTINGS = {
    *(field.name for kind in KINDS for field in dataclasses.fields(kind)),
    *("max_seq_length", "doc_stride", "window_pooling", "bilstm"),
} - {
    # arguments of their own
    *("init_checkpoint", "output_dir", "train_file", "eval_file"),
    # what follows from others, or has no flag
    *("num_train_steps", "num_warmup_steps", "steps_per_call", "optimizer"),
    *("loop", "selection", "tokenizer", "flags", "data_files", "do_train"),
    *("dry_run", "predict_file", "predict_batch_size", "direction"),
    *("adam_beta_1", "max_gradient_norm", "weight_decay_rate"),
}


def train_classifier(
    train: Any,
    init_checkpoint: str | None,
    output_dir: str,
    evaluation: Any = None,
    **settings: Any,
) -> TextClassificationPipeline:
    """Fine-tunes a model on texts or pairs.

    With equal settings the weights are those of run_classifier.py, to the bit.
    The same call resumes a run that was stopped. output_dir becomes a model
    folder.

        model = bert_keras.train_classifier(
            "train.csv", "uncased_L-2_H-128_A-2", "/tmp/reviews",
            evaluation="dev.csv", text_column="review", label_column="stars",
            num_train_epochs=3, learning_rate=5e-5,
        )
        model.metrics["eval_accuracy"]
        model.predict("What a film!").label

    Args:
        train: the path of a TSV, CSV or JSON file; or a pandas frame; or a
            tuple of texts, each a string or a tuple of the two of a pair, and
            as many labels.
        init_checkpoint: the model to start from; None: from random weights,
            of `bert_config_file` or `model_size`, and `vocab_file`.
        evaluation: data as `train` may be.
        settings: flags of run_classifier.py, by name, such as text_column,
            label_column, target, max_seq_length (128), learning_rate, seed.

    Returns:
        The trained model, with its `metrics` and `history`.

    Raises:
        InputError: data, models and settings do not fit each other.
        TypeError: a setting is not one of these flags.
    """
    if unknown := settings.keys() - SETTINGS:
        raise TypeError(
            f"train_classifier has no setting {', '.join(sorted(unknown))}; "
            f"expected some of {', '.join(sorted(SETTINGS))}"
        )
    values = {
        "has_header": True,
        "text_column": "text",
        "text_pair_column": "text_pair" if _has_pairs(train) else None,
        "label_column": "label",
        "target": "single_label",
        "max_seq_length": 128,
        "label_separator": ",",
        "class_weights": None,
        **settings,
        "init_checkpoint": init_checkpoint,
        "output_dir": output_dir,
        "do_train": True,
    }
    make = functools.partial(_make, values)
    if values["target"] not in METRICS:
        raise InputError(
            f"`target={values['target']}` is not one of {', '.join(METRICS)}"
        )
    paths = {"train_file": train, "eval_file": evaluation}
    run = make(
        RunConfig,
        tokenizer=make(TokenizerOptions),
        data_files={n: x for n, x in paths.items() if isinstance(x, str)},
    )
    selection = make(ModelSelection)
    devices = make_devices(DeviceConfig(), output_dir=output_dir)
    stored = fine_tuning.stored_settings(run)
    table = make(TableFormat)
    evaluates = evaluation is not None or selection.compares(do_train=True)
    problem = table_problem(
        make(
            TableFiles,
            train_file=_read(train, table),
            eval_file=_read(evaluation, table),
            predict_file=None,
        ),
        table,
        Actions(do_train=True, evaluates=evaluates, do_predict=False),
        stored.labels if stored and stored.target == values["target"] else (),
    )
    task_config = make(
        TaskConfig,
        labels=problem.target.labels,
        takes_pairs=problem.takes_pairs,
        second_direction=fine_tuning.second_direction(run, stored),
        **fine_tuning.tokenizer_case(run),
    )
    policy = keras.config.dtype_policy()
    try:
        task = ClassificationTask(
            problem,
            task_config,
            fine_tuning.open_context(devices, run, task_config),
            make(
                FineTuningConfig,
                optimizer=make(OptimizerConfig),
                loop=make(LoopConfig),
                selection=selection,
            ),
        )
        claim_folder(run, devices.host)
        task.prepare()
        trainer = fine_tuning.train(task)
        metrics = task.evaluate(trainer) if evaluates else {}
        model: Any = load.load(output_dir)
    finally:
        keras.config.set_dtype_policy(policy)
    model.metrics = metrics
    # Of several seeds each has its own log.
    log = content(os.path.join(output_dir, LOG)) or b""
    model.history = [parse_json(line) for line in log.splitlines()]
    return model


def _make(values: Mapping[str, Any], kind: Any, **others: Any) -> Any:
    """A dataclass of what `values` has for its fields, and of `others`."""
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(**{**{n: values[n] for n in names if n in values}, **others})


def _has_pairs(data: Any) -> bool:
    if not isinstance(data, tuple):
        return False
    return isinstance(next(iter(data[0]), None), tuple)


def _read(data: Any, table: TableFormat) -> str | list[InputExample] | None:
    """A path or None as it is; examples of anything else."""
    if data is None or isinstance(data, str):
        return data
    return to_examples(_rows(data, table), table, has_labels=True)


def _rows(
    data: Any, table: TableFormat
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each example's place, for errors, and its columns."""
    records: Iterable[Mapping[str, Any]]
    wanted = [*table.text_columns, table.label_column]
    if hasattr(data, "to_dict"):  # a frame of pandas
        if missing := [name for name in wanted if name not in data.columns]:
            raise InputError(
                f"the frame has no column {', '.join(missing)}; it has "
                f"{', '.join(map(str, data.columns))}"
            )
        records = data.to_dict("records")
    else:
        texts, labels = data
        parts = ((x,) if isinstance(x, str) else x for x in texts)
        records = (
            dict(zip(wanted, (*text, _plain(label)), strict=True))
            for text, label in zip(parts, labels, strict=True)
        )
    for number, record in enumerate(records):
        yield f"example {number}", record


def _plain(label: Any) -> Any:
    """Python's number where NumPy's is given."""
    return label.item() if hasattr(label, "item") else label
