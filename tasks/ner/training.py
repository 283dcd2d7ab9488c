"""A tagger of words trained from Python, as run_ner.py does it."""

import dataclasses
import os
from typing import Any

from bert_keras.errors import InputError
from bert_keras.tasks import fine_tuning_run
from bert_keras.tasks.keyword_settings import path_of, plain, records_of
from bert_keras.tasks.ner.data import TAGS, WORDS, TaggedFile, tagged_objects
from bert_keras.tasks.ner.feature_based.task import FeatureBasedNerTask
from bert_keras.tasks.ner.pipeline import TokenClassificationPipeline
from bert_keras.tasks.ner.task import Files, NerTask, read_problem
from bert_keras.tasks.tables import JsonObject
from bert_keras.training.loop import Callback

SETTINGS = fine_tuning_run.fine_tuning_settings(
    "train_token_classifier",
    [Files],
    [
        *("max_seq_length", "doc_stride", "document_context"),
        *("feature_layers", "lstm_size"),
    ],
    without=[
        *("train_file", "eval_file", "predict_file", "data_dir"),
        *("predict_batch_size", "second_init_checkpoint"),
    ],
    max_seq_length=128,
)


def train_token_classifier(
    train: Any,
    init_checkpoint: str | os.PathLike[str] | None,
    output_dir: str | os.PathLike[str],
    evaluation: Any = None,
    callback: Callback | None = None,
    **settings: Any,
) -> TokenClassificationPipeline:
    """Fine-tunes a model to tag words: names of people, places and the like.

    With equal settings the weights are those of run_ner.py, to the bit. The
    same call resumes a run that was stopped. output_dir becomes a model folder.

    Examples:
        >>> words = [["Ann", "saw", "Rome", "."], ["The", "sky", "is", "blue"]]
        >>> tags = [["B-PER", "O", "B-LOC", "O"], ["O", "O", "O", "O"]]
        >>> model = bert_keras.train_token_classifier(
        ...     (words, tags),
        ...     init_checkpoint="bert",
        ...     output_dir="new_ner",
        ...     max_seq_length=32,
        ...     train_batch_size=2,
        ... )
        train: ...
        >>> model.history[-1]["step"]
        3

    Args:
        train: the path of a file in CoNLL's columns, or of JSON; or a tuple of
            each sentence's list of words and of each sentence's list of tags;
            or a list of dictionaries, or a pandas frame, with "tokens" and
            "ner_tags" (`word_column` and `tag_column` have other names). Tags
            are those of entities: O, B-PER, I-PER, ..., in any scheme.
        init_checkpoint: folder of the model to start from. None starts from
            random weights; then give `vocab_file` and either `model_size` or
            `bert_config_file`.
        evaluation: data as `train` may be.
        callback: called after each step with its number, from 1, and its
            figures by name.
        settings: flags of run_ner.py, by name, such as max_seq_length (128),
            document_context, feature_layers, learning_rate, seed.

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
        ["tags"],
        train,
        evaluation,
    )
    files = tuning.given.make(Files)
    columns = files.word_column, files.tag_column
    problem = read_problem(
        dataclasses.replace(
            files,
            train_file=_read("train", train, *columns),
            eval_file=_read("evaluation", evaluation, *columns),
        ),
        True,
        evaluation is not None,
        False,
        tuning.stored.labels if tuning.stored else (),
    )
    task_config = tuning.task_config(target="tags", labels=problem.labels)
    if task_config.doc_stride is None:
        stride = max(1, task_config.max_seq_length // 2)
        task_config = dataclasses.replace(task_config, doc_stride=stride)
    kind = FeatureBasedNerTask if task_config.feature_layers else NerTask
    return fine_tuning_run.train(
        tuning, kind, problem, task_config, evaluation is not None, callback
    )


def _read(
    name: str, data: Any, word_field: str | None, tag_field: str | None
) -> str | TaggedFile | None:
    """A path or None as it is; the sentences of anything else."""
    if data is None or isinstance(data, str):
        return data
    if isinstance(data, tuple):
        if len(data) != 2:
            raise InputError(
                f"`{name}` is a tuple of {len(data)}; expected two lists: "
                "sentences, each a list of words, and their tags"
            )
        words, tags = map(plain, data)
        if len(words) != len(tags):
            raise InputError(
                f"`{name}` has {len(words)} sentences and the tags of "
                f"{len(tags)}; expected the same number"
            )
        names = word_field or WORDS, tag_field or TAGS
        data = [
            dict(zip(names, pair, strict=True))
            for pair in zip(words, tags, strict=True)
        ]
    objects = []
    for number, entry in enumerate(records_of(data), 1):
        if not isinstance(entry, dict):
            raise InputError(
                f"{name}, entry {number} is a {type(entry).__name__}; "
                f"expected a dictionary with {WORDS!r} and {TAGS!r}"
            )
        objects.append(JsonObject(name, "entry", number, entry))
    if not objects:
        raise InputError(f"`{name}` has no sentence")
    return tagged_objects(name, objects, word_field, tag_field)
