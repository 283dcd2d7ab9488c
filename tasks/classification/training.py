"""A text classifier trained from Python, as run_classifier.py does it."""

import os
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from bert_keras.errors import InputError
from bert_keras.tasks import fine_tuning_run
from bert_keras.tasks.classification.data import (
    InputExample,
    TableFormat,
    to_examples,
)
from bert_keras.tasks.classification.model import TARGETS
from bert_keras.tasks.classification.pipeline import TextClassificationPipeline
from bert_keras.tasks.classification.task import (
    ClassificationTask,
    TableFiles,
    table_problem,
)
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.tasks.keyword_settings import path_of, plain, records_of
from bert_keras.training.loop import Callback

SETTINGS = fine_tuning_run.fine_tuning_settings(
    "train_classifier",
    [TaskDistillation, TableFormat, TableFiles],
    ["max_seq_length", "doc_stride", "window_pooling", "bilstm"],
    without=["train_file", "eval_file", "predict_file", "predict_batch_size"],
    max_seq_length=128,
    target="single_label",
)


def train_classifier(
    train: Any,
    init_checkpoint: str | os.PathLike[str] | None,
    output_dir: str | os.PathLike[str],
    evaluation: Any = None,
    callback: Callback | None = None,
    **settings: Any,
) -> TextClassificationPipeline:
    """Fine-tunes a model on texts or pairs.

    With equal settings the weights are those of run_classifier.py, to the bit.
    The same call resumes a run that was stopped. output_dir becomes a model
    folder.

    Examples:
        >>> model = bert_keras.train_classifier(
        ...     "reviews.csv",
        ...     init_checkpoint="bert",
        ...     output_dir="new_reviews",
        ...     evaluation="reviews.csv",
        ...     max_seq_length=32,
        ...     train_batch_size=2,
        ...     num_train_epochs=20,
        ...     learning_rate=1e-3,
        ... )
        train: 4 examples (bad: 2, good: 2)
        ...
        >>> model.metrics["eval_accuracy"]
        1.0
        >>> model.predict("The film was wonderful.").label
        'good'

    Args:
        train: the path of a TSV, CSV or JSON file; or a pandas frame; or a
            tuple of texts, each a string or a tuple of the two of a pair, and
            as many labels.
        init_checkpoint: folder of the model to start from. None starts from
            random weights; then give `vocab_file` and either `model_size` or
            `bert_config_file`.
        evaluation: data as `train` may be.
        callback: called after each step with its number, from 1, and its
            figures by name.
        settings: flags of run_classifier.py, by name, such as text_column,
            label_column, target, max_seq_length (128), learning_rate, seed.

    Returns:
        The trained model, with its `metrics` and `history`.

    Raises:
        InputError: data, models and settings do not fit each other.
        TypeError: a setting is not one of these flags.
    """
    is_same = evaluation is train  # perhaps iterators, which are read once
    train, evaluation = map(_kept, (path_of(train), path_of(evaluation)))
    evaluation = train if is_same else evaluation
    if _has_pairs(train):
        settings = {"text_pair_column": "text_pair", **settings}
    tuning = fine_tuning_run.from_keywords(
        SETTINGS,
        settings,
        init_checkpoint,
        output_dir,
        TARGETS,
        train,
        evaluation,
    )
    table, stored = tuning.given.make(TableFormat), tuning.stored
    files = tuning.given.make(
        TableFiles,
        train_file=_read("train", train, table),
        eval_file=_read("evaluation", evaluation, table),
    )
    known = stored.labels if stored and stored.target == files.target else ()
    problem = table_problem(
        files,
        table,
        trains=True,
        evaluates=evaluation is not None,
        predicts=False,
        stored_labels=known,
    )
    task_config = tuning.task_config(
        labels=problem.target.labels, takes_pairs=problem.takes_pairs
    )
    return fine_tuning_run.train(
        tuning,
        ClassificationTask,
        problem,
        task_config,
        evaluation is not None,
        callback,
    )


def _kept(data: Any) -> Any:
    """With lists for iterators, which can be read once."""
    if not isinstance(data, tuple):
        return data
    return tuple(list(x) if isinstance(x, Iterator) else x for x in data)


def _has_pairs(data: Any) -> bool:
    if not isinstance(data, tuple) or not data or not _is_list(data[0]):
        return False
    return isinstance(next(iter(data[0]), None), tuple)


def _is_list(data: Any) -> bool:
    """Not a set, whose order is any, nor a text."""
    others = str | bytes | Mapping | Set
    return isinstance(data, Iterable) and not isinstance(data, others)


def _read(
    name: str, data: Any, table: TableFormat
) -> str | list[InputExample] | None:
    """A path or None as it is; examples of anything else."""
    if data is None or isinstance(data, str):
        return data
    examples = to_examples(_rows(name, data, table), table, has_labels=True)
    if not examples:
        raise InputError(f"`{name}` holds no example")
    return examples


def _rows(
    name: str, data: Any, table: TableFormat
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each example's place, for errors, and its columns."""
    records: Iterable[Mapping[str, Any]]
    wanted = [*table.text_columns, table.label_column]
    if hasattr(data, "to_dict"):  # a frame of pandas
        if missing := [name for name in wanted if name not in data.columns]:
            raise InputError(
                f"`{name}` has no column {', '.join(missing)}; it has "
                f"{', '.join(map(str, data.columns))}"
            )
        records = records_of(data)
    else:
        is_pair = isinstance(data, tuple) and len(data) == 2
        if not is_pair or not all(map(_is_list, data)):
            raise InputError(
                f"`{name}` is a {type(data).__name__}; expected the path of a "
                "file, a pandas frame, or a tuple of two lists: texts and "
                "labels"
            )
        texts, labels = ([*map(plain, part)] for part in data)
        are_tuples = all(isinstance(x, tuple) and len(x) == 2 for x in data)
        if are_tuples and all(isinstance(x, str) for x in (*texts, *labels)):
            raise InputError(
                f"`{name}` is two tuples of two texts, which may be examples "
                "or texts and labels; give texts and labels as two lists"
            )
        if len(texts) != len(labels):
            raise InputError(
                f"`{name}` has {len(texts)} texts and {len(labels)} labels; "
                "expected the same number"
            )
        parts = [x if isinstance(x, tuple | list) else (x,) for x in texts]
        expected = "one text" if len(table.text_columns) == 1 else "two texts"
        for number, text in enumerate(parts):
            if len(text) != len(table.text_columns):
                raise InputError(
                    f"`{name}`, example {number}: expected {expected}, as "
                    f"`text_pair_column` or the pairs of `train` say, found "
                    f"{len(text)}"
                )
        records = (
            dict(zip(wanted, (*text, label), strict=True))
            for text, label in zip(parts, labels, strict=True)
        )
    for number, record in enumerate(records):
        yield f"`{name}`, example {number}", record
