"""A model folder's answers to lines of text, whatever it was trained for:

    model = load("/tmp/mrpc")
    run = functools.partial(predict, Predictor(model.forward))
    for answer in model.answer_all(["One text.\\tAnother."], run):
        print(answer.fields)

`predict` and `Predictor` are training.inference's.
"""

from typing import NamedTuple

from bert_keras.data.tokenizer_folder import TokenizerOptions, open_tokenizer
from bert_keras.data.tokenizers import (
    Tokenizer,
)
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import LoadReport, load_checkpoint
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.hugging_face import model_config_file
from bert_keras.tasks.hugging_face_task import check_tokens, folder_task
from bert_keras.tasks.line_kinds import (
    BlankKind,
    ChoiceKind,
    SpanKind,
    TagKind,
    TextKind,
)
from bert_keras.tasks.line_predictor import Kind, LinePredictor
from bert_keras.tasks.task_config import TaskConfig


def load(
    folder: str, options: TokenizerOptions | None = None, top_k: int = 5
) -> LinePredictor:
    """Reads a model folder.

    Its task.json, or Hugging Face's config.json, says what it was trained for;
    where neither does, it is asked to fill in blanks.

    Args:
        options: override the folder's settings of its tokenizer.
        top_k: pieces wanted for a blank.

    Raises:
        InputError: a file is missing or does not fit the others.
    """
    settings, config, tokenizer = open_folder(folder, options)
    kind = _make_kind(config, tokenizer, settings, top_k)
    report = load_checkpoint(kind.model.mappings(), folder)
    _check_complete(folder, kind, report)
    return LinePredictor(kind, config.max_position_embeddings, report)


class ModelFolder(NamedTuple):
    """What lies beside the weights."""

    settings: TaskConfig | None
    config: BertConfig
    tokenizer: Tokenizer


def open_folder(
    folder: str, options: TokenizerOptions | None = None
) -> ModelFolder:
    """All but the weights; arguments and errors are those of `load`."""
    settings = folder_task(folder, options)
    config_file = model_config_file(folder)
    opened = open_tokenizer(folder, options=options)
    if config_file is None or opened is None:
        raise InputError(
            f"{folder} has no {'vocabulary' if config_file else 'config'}; "
            "expected a model folder: weights, bert_config.json and vocab.txt "
            "(or vocab.json and merges.txt)"
        )
    config = BertConfig.from_json_file(config_file)
    check_tokens(opened, config, folder)
    longest = config.max_position_embeddings
    if settings is not None and settings.max_seq_length > longest:
        raise InputError(
            f"{folder} has a task.json with max_seq_length "
            f"{settings.max_seq_length}, but its model has {longest} positions"
        )
    tokenizer = opened.load()
    least = tokenizer.special_tokens.count(is_pair=True) + 1
    if settings is not None and settings.max_seq_length < least:
        raise InputError(
            f"{folder} has a task.json with max_seq_length "
            f"{settings.max_seq_length}; expected at least {least}, for the "
            "marks of a pair and a piece"
        )
    return ModelFolder(settings, config, tokenizer)


def _make_kind(
    config: BertConfig,
    tokenizer: Tokenizer,
    settings: TaskConfig | None,
    top_k: int,
) -> Kind:
    if settings is None:
        return BlankKind(config, tokenizer, top_k)
    if settings.target == "span":
        return SpanKind(config, tokenizer, settings)
    if settings.target == "choice":
        return ChoiceKind(config, tokenizer, settings)
    if settings.target == "tags":
        return TagKind(config, tokenizer, settings)
    return TextKind(config, tokenizer, settings)


def _check_complete(folder: str, kind: Kind, report: LoadReport) -> None:
    """Refuses what would answer at random. Only texts and choices need the
    pooler."""
    missing = [
        name
        for name in report.missing
        if isinstance(kind, TextKind | ChoiceKind) or "/pooler/" not in name
    ]
    if missing:
        what = (
            "fill in blanks, and neither task.json nor config.json says what "
            "else it was trained for"
            if isinstance(kind, BlankKind)
            else "predict"
        )
        raise InputError(
            f"the model in {folder} cannot {what}: its checkpoint has no "
            f"{missing[0]}"
        )
