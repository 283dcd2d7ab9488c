"""A multiple choice model trained from Python, as run_multiple_choice.py does
it."""

import os
from typing import Any

from bert_keras.tasks import fine_tuning_run
from bert_keras.tasks.keyword_settings import path_of, records_of
from bert_keras.tasks.multiple_choice.pipeline import MultipleChoicePipeline
from bert_keras.tasks.multiple_choice.task import (
    MultipleChoiceTask,
    read_problem,
)
from bert_keras.training.loop import Callback

SETTINGS = fine_tuning_run.fine_tuning_settings(
    "train_multiple_choice",
    [],
    ["max_seq_length"],
    without=[
        *("predict_batch_size", "keep_classifier_head"),
        "second_init_checkpoint",
    ],
    max_seq_length=128,
    eval_batch_size=32,
)


def train_multiple_choice(
    train: Any,
    init_checkpoint: str | os.PathLike[str] | None,
    output_dir: str | os.PathLike[str],
    evaluation: Any = None,
    callback: Callback | None = None,
    **settings: Any,
) -> MultipleChoicePipeline:
    """Fine-tunes a model to choose among texts: SWAG, RACE, your own questions.

    With equal settings the weights are those of run_multiple_choice.py, to the
    bit. The same call resumes a run that was stopped. output_dir becomes a
    model folder.

    Examples:
        >>> questions = [
        ...     {"context": "Sky is", "choices": ["blue", "a dog"], "label": 0},
        ...     {"context": "Ann saw", "choices": ["wet", "Bob"], "label": 1},
        ... ]
        >>> model = bert_keras.train_multiple_choice(
        ...     questions,
        ...     init_checkpoint="bert",
        ...     output_dir="new_swag",
        ...     max_seq_length=32,
        ...     train_batch_size=2,
        ... )
        `train_file`: 2 questions of 2 choices, 2 with a label
        ...
        >>> model.history[-1]["step"]
        3

    Args:
        train: the path of a CSV or JSON file; or a list of dictionaries, or a
            pandas frame, with "context", "choices", "label" (the number of the
            right one, from 0) and perhaps "question"; or with the names of SWAG
            or RACE.
        init_checkpoint: folder of the model to start from. None starts from
            random weights; then give `vocab_file` and either `model_size` or
            `bert_config_file`.
        evaluation: data as `train` may be.
        callback: called after each step with its number, from 1, and its
            figures by name.
        settings: flags of run_multiple_choice.py, by name, such as
            max_seq_length (128), learning_rate, seed.

    Returns:
        The trained model, with its `metrics` and `history`.

    Raises:
        InputError: data, models and settings do not fit each other.
        TypeError: a setting is not one of these flags.
    """
    train, evaluation = map(records_of, (path_of(train), path_of(evaluation)))
    tuning = fine_tuning_run.from_keywords(
        SETTINGS,
        settings,
        init_checkpoint,
        output_dir,
        ["choice"],
        train,
        evaluation,
    )
    problem = read_problem(train, evaluation, None)
    task_config = tuning.task_config(target="choice")
    return fine_tuning_run.train(
        tuning,
        MultipleChoiceTask,
        problem,
        task_config,
        evaluation is not None,
        callback,
    )
