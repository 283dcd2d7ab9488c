"""A text classifier trained from Python, as run_classifier.py does it."""

import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras

from bert_keras.errors import InputError
from bert_keras.tasks import fine_tuning, load
from bert_keras.tasks.classification.data import (
    InputExample,
    TableFormat,
    to_examples,
)
from bert_keras.tasks.classification.pipeline import TextClassificationPipeline
from bert_keras.tasks.classification.task import (
    Actions,
    ClassificationTask,
    TableFiles,
    table_problem,
)
from bert_keras.tasks.fine_tuning import FineTuningConfig
from bert_keras.tasks.run_context import (
    RunConfig,
    claim_folder,
    find_tokenizer,
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

SETTINGS = (
    RunConfig,
    FineTuningConfig,
    OptimizerConfig,
    LoopConfig,
    ModelSelection,
    TableFormat,
    TableFiles,
    TaskConfig,
)


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

    >>> model = bert_keras.train_classifier(
    ...     "train.csv", "uncased_L-2_H-128_A-2", "/tmp/reviews",
    ...     evaluation="dev.csv", text_column="review", label_column="stars",
    ...     num_train_epochs=3, learning_rate=5e-5)
    >>> model.metrics["eval_accuracy"]
    0.871
    >>> model.predict("What a film!").label
    '5'

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
        TypeError: there is no such setting.
    """
    known = {field.name for kind in SETTINGS for field in _fields(kind)}
    if unknown := settings.keys() - known:
        raise TypeError(
            f"train_classifier has no setting {', '.join(sorted(unknown))}; "
            "expected flags of run_classifier.py, without their dashes"
        )
    values = {
        "has_header": True,
        "text_column": "text",
        "text_pair_column": None,
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
    paths = {"train_file": train, "eval_file": evaluation}
    files = {name: x for name, x in paths.items() if isinstance(x, str)}
    run = make(RunConfig, data_files=files)
    selection = make(ModelSelection)
    devices = make_devices(DeviceConfig(), output_dir=output_dir)
    stored = fine_tuning.stored_settings(run)
    if _has_pairs(train):
        values["text_pair_column"] = "text_pair"
    table = make(TableFormat)
    problem = table_problem(
        make(
            TableFiles,
            train_file=_read(train, table),
            eval_file=_read(evaluation, table),
            predict_file=None,
        ),
        table,
        Actions(True, evaluation is not None, False),
        stored.labels if stored and stored.target == values["target"] else (),
    )
    found = find_tokenizer(run, None)
    task_config = make(
        TaskConfig,
        labels=problem.target.labels,
        takes_pairs=problem.takes_pairs,
        second_direction=fine_tuning.second_direction(run, stored),
        do_lower_case=found.settings.do_lower_case if found else True,
        strip_accents=found.settings.strip_accents if found else None,
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
        metrics = {} if evaluation is None else task.evaluate(trainer)
        model: Any = load.load(output_dir)
    finally:
        keras.config.set_dtype_policy(policy)
    model.metrics = metrics
    with open(os.path.join(output_dir, LOG), encoding="utf-8") as log:
        model.history = [json.loads(line) for line in log]
    return model


def _fields(kind: Any) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(kind)


def _make(values: Mapping[str, Any], kind: Any, **others: Any) -> Any:
    """A dataclass of what `values` has for its fields, and of `others`."""
    names = [field.name for field in _fields(kind)]
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
    """Of each example its place, for people, and its columns."""
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
