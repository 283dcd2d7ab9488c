"""A model folder's answers to lines of text, whatever it was trained for:

    model = load("/tmp/mrpc")
    run = functools.partial(predict, Predictor(model.model.forward))
    for answer in model.answer_all(["One text.\\tAnother."], run):
        print(answer.fields)

`predict` and `Predictor` are training.inference's.
"""

from bert_keras.data.tokenizer_folder import TokenizerOptions
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import load_checkpoint
from bert_keras.tasks.base import (
    Pipeline,
    TaskPipeline,
    missing_weight,
    open_with_task,
)
from bert_keras.tasks.classification.pipeline import (
    TextClassificationPipeline,
)
from bert_keras.tasks.fill_mask import FillMaskPipeline
from bert_keras.tasks.multiple_choice.pipeline import MultipleChoicePipeline
from bert_keras.tasks.ner.pipeline import TokenClassificationPipeline
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
    folder: str, options: TokenizerOptions | None = None, top_k: int = 5
) -> Pipeline:
    """Reads a model folder.

    Its task.json, or Hugging Face's config.json, says what it was trained for;
    where neither does, it is asked to fill in blanks.

    Args:
        options: override the folder's settings of its tokenizer.
        top_k: pieces wanted for a blank.

    Raises:
        InputError: a file is missing or does not fit the others.
    """
    task, config, tokenizer = open_with_task(folder, options)
    pipeline: Pipeline = (
        FillMaskPipeline(config, tokenizer, top_k)
        if task is None
        else PIPELINES[task.target](config, tokenizer, task)
    )
    pipeline.report = load_checkpoint(pipeline.model.mappings(), folder)
    if name := missing_weight(pipeline.report, pipeline.needs_pooler):
        raise InputError(
            f"the model in {folder} cannot {pipeline.purpose}: its checkpoint "
            f"has no {name}"
        )
    return pipeline
