"""Opening a model folder, whatever it was trained for."""

import os

from bert_keras import files
from bert_keras.data.tokenizer_folder import TokenizerOptions
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import load_checkpoint
from bert_keras.tasks.base import (
    check_backend,
    missing_weight,
    open_with_task,
)
from bert_keras.tasks.classification.pipeline import TextClassificationPipeline
from bert_keras.tasks.fill_mask import FillMaskPipeline
from bert_keras.tasks.multiple_choice.pipeline import MultipleChoicePipeline
from bert_keras.tasks.ner.pipeline import TokenClassificationPipeline
from bert_keras.tasks.pipeline import Pipeline, TaskPipeline
from bert_keras.tasks.squad.pipeline import QuestionAnsweringPipeline

# By the target in task.json. Where there is none, a model fills in blanks.
PIPELINES: dict[str, type[TaskPipeline]] = {
    "single_label": TextClassificationPipeline,
    "multi_label": TextClassificationPipeline,
    "regression": TextClassificationPipeline,
    "span": QuestionAnsweringPipeline,
    "choice": MultipleChoicePipeline,
    "tags": TokenClassificationPipeline,
}


def load(
    folder: str | os.PathLike[str],
    options: TokenizerOptions | None = None,
    top_k: int = 5,
) -> Pipeline:
    """Reads a model folder: ours, Google's or Hugging Face's.

    Its task.json, or Hugging Face's config.json, says what it was trained for,
    and so which method answers: `predict` of a text classifier, `answer` of
    question answering, `tag`, `choose`, or `fill` where neither says anything.
    Each has `encode`.

    Examples:
        >>> model = bert_keras.load("reviews")
        >>> model.predict("The film was wonderful.").label
        'good'

    Args:
        folder: path of a model folder, or of a weights file in one.
        options: tokenizer settings that replace the folder's.
        top_k: number of tokens that `fill` lists for each [MASK].

    Returns:
        The model, with the methods of its task.

    Raises:
        InputError: a file is missing or does not fit the others.
    """
    check_backend("models answer")
    if not isinstance(folder, str | os.PathLike):
        raise InputError(f"`folder` is {folder!r}; expected a path")
    folder = os.fspath(folder)
    if not any(map(files.exists, (folder, f"{folder}.index"))):
        raise InputError(f"{folder} does not exist; expected a model folder")
    task, config, tokenizer = open_with_task(folder, options)
    pipeline: Pipeline = (
        FillMaskPipeline(config, tokenizer, top_k)
        if task is None
        else PIPELINES[task.target](config, tokenizer, task)
    )
    pipeline.folder = folder
    pipeline.report = load_checkpoint(pipeline.model.mappings(), folder)
    if name := missing_weight(pipeline.report, pipeline.needs_pooler):
        pipeline.fault = (
            f"the model in {folder} cannot {pipeline.purpose}: its checkpoint "
            f"has no {name}"
        )
        if task is not None or not name.startswith("cls/predictions"):
            raise InputError(pipeline.fault)
    return pipeline
