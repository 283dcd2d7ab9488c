"""A question answering model trained from Python, as run_squad.py does it."""

import dataclasses
import os
from typing import Any

from bert_keras.errors import InputError
from bert_keras.tasks import fine_tuning_run
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.tasks.keyword_settings import path_of, records_of
from bert_keras.tasks.squad.data import read_examples
from bert_keras.tasks.squad.pipeline import QuestionAnsweringPipeline
from bert_keras.tasks.squad.task import SquadConfig, SquadTask, check_settings
from bert_keras.training.loop import Callback

SETTINGS = fine_tuning_run.fine_tuning_settings(
    "train_question_answering",
    [TaskDistillation, SquadConfig],
    [
        *("max_seq_length", "doc_stride", "max_query_length"),
        *("max_answer_length", "n_best_size", "version_2_with_negative"),
        *("null_score_diff_threshold", "answer_offsets", "bilstm"),
    ],
    without=[
        *("train_file", "predict_file", "needs_answers", "eval_batch_size"),
        "keep_classifier_head",
    ],
    max_seq_length=384,
    doc_stride=128,
)


def train_question_answering(
    train: Any,
    init_checkpoint: str | os.PathLike[str] | None,
    output_dir: str | os.PathLike[str],
    evaluation: Any = None,
    callback: Callback | None = None,
    **settings: Any,
) -> QuestionAnsweringPipeline:
    """Fine-tunes a model to find answers in paragraphs: SQuAD 1.1 or 2.0.

    With equal settings the weights are those of run_squad.py, to the bit. The
    same call resumes a run that was stopped. output_dir becomes a model folder.

    Examples:
        >>> model = bert_keras.train_question_answering(
        ...     "train-v1.1.json",
        ...     init_checkpoint="bert",
        ...     output_dir="new_squad",
        ...     evaluation="train-v1.1.json",
        ...     max_seq_length=32,
        ...     max_query_length=8,
        ...     doc_stride=16,
        ...     train_batch_size=1,
        ... )
        train-v1.1.json: 1 articles, 1 paragraphs, 1 questions: ...
        >>> sorted(model.metrics)
        ['exact_match', 'f1']

    Args:
        train: the path of SQuAD's JSON; or what it holds, {"data": [...]}; or
            a list (or a pandas frame) of questions as the Hugging Face hub has
            them: {"id", "context", "question", "answers": {"text": [...],
            "answer_start": [...]}}.
        init_checkpoint: folder of the model to start from. None starts from
            random weights; then give `vocab_file` and either `model_size` or
            `bert_config_file`.
        evaluation: data as `train` may be.
        callback: called after each step with its number, from 1, and its
            figures by name.
        settings: flags of run_squad.py, by name, such as max_seq_length (384),
            doc_stride (128), version_2_with_negative, learning_rate, seed.

    Returns:
        The trained model, with its `metrics` and `history`.

    Raises:
        InputError: data, models and settings do not fit each other.
        TypeError: a setting is not one of these flags.
    """
    train, evaluation = path_of(train), path_of(evaluation)
    tuning = fine_tuning_run.from_keywords(
        SETTINGS,
        settings,
        init_checkpoint,
        output_dir,
        ["span"],
        train,
        evaluation,
        "predict_file",
    )
    task_config = tuning.task_config(target="span")
    squad = tuning.given.make(SquadConfig, needs_answers=evaluation is not None)
    check_settings(squad, task_config)
    if squad.apply_best_null_threshold and evaluation is None:
        raise InputError(
            "`apply_best_null_threshold` finds the threshold by the answers in "
            "`evaluation`: give it"
        )

    def read(data: Any, name: str) -> Any:
        if data is None or isinstance(data, str):
            return data
        return read_examples(
            records_of(data),
            task_config.version_2_with_negative,
            name == "train",
            squad.verbose_logging,
            task_config.answer_offsets,
            name,
        )

    problem = dataclasses.replace(
        squad,
        train_file=read(train, "train"),
        predict_file=read(evaluation, "evaluation"),
    )
    return fine_tuning_run.train(
        tuning,
        SquadTask,
        problem,
        task_config,
        evaluation is not None,
        callback,
    )
