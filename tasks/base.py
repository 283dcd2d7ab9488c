"""What all tasks share: opening a model folder.

A model folder holds weights, their config, a tokenizer and, if the model was
fine-tuned, task.json (tasks/task_config.py).
"""

import dataclasses
from collections.abc import Iterable
from typing import Any, Protocol

import keras
import numpy as np

from bert_keras.data.tokenizer_folder import (
    OpenedTokenizer,
    TokenizerOptions,
    open_tokenizer,
)
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError, refuse_fork
from bert_keras.modeling.checkpoint import (
    LoadReport,
    VariableMapping,
    check_sizes,
)
from bert_keras.modeling.config import BertConfig, model_config_file
from bert_keras.tasks.checkpoint_compatibility import (
    check_config,
    check_tokens,
    compare_tokens,
)
from bert_keras.tasks.hugging_face_task import folder_task
from bert_keras.tasks.task_config import TaskConfig

MODEL_FOLDER = (
    "a model folder: weights, bert_config.json and vocab.txt (or vocab.json "
    "and merges.txt)"
)
Outputs = dict[str, np.ndarray]


def are_finite(outputs: Iterable[Outputs]) -> bool:
    return all(np.isfinite(x).all() for row in outputs for x in row.values())


def check_backend(what: str) -> None:
    """Raises an InputError unless Keras is on TensorFlow, which has not been
    used in a process that this one was forked from."""
    refuse_fork()
    if (backend := keras.config.backend()) != "tensorflow":
        raise InputError(
            f"{what} on TensorFlow and KERAS_BACKEND is {backend}; expected "
            "KERAS_BACKEND=tensorflow"
        )


@dataclasses.dataclass(frozen=True)
class ModelFolder:
    """What lies beside the weights."""

    path: str
    config: BertConfig
    opened: OpenedTokenizer | None  # None: there is no vocabulary
    vocab_file: str | None  # one that was given
    expected: str

    def tokenizer(self) -> Tokenizer:
        return self.checked_tokenizer().load()

    def checked_tokenizer(self) -> OpenedTokenizer:
        """Raises an InputError if there is none, or it does not fit the
        config."""
        if self.opened is None:
            raise InputError(
                f"{self.path} has no vocabulary; expected {self.expected}"
            )
        vocab = check_tokens(self.opened, self.config, self.path)
        if self.vocab_file:
            compare_tokens(self.vocab_file, vocab, self.path)
        return self.opened


def open_model_folder(
    path: str,
    options: TokenizerOptions | None = None,
    config_file: str | None = None,
    vocab_file: str | None = None,
    expected: str = MODEL_FOLDER,
    tells_case: bool = False,
) -> ModelFolder:
    """Reads the config and finds the tokenizer of a model.

    Args:
        path: a model folder, or weights in one.
        options: override the folder's settings of its tokenizer.
        config_file, vocab_file: used instead of those beside the weights.
        expected: ends the sentence of an error.
        tells_case: as in `open_tokenizer`.

    Raises:
        InputError: there is no config, or a file cannot be used.
    """
    found = config_file or model_config_file(path)
    opened = open_tokenizer(path, vocab_file, options, tells_case)
    if found is None:
        raise InputError(f"{path} has no config; expected {expected}")
    config = BertConfig.from_json_file(found)
    if config_file:
        check_config(config, path)
    return ModelFolder(path, config, opened, vocab_file, expected)


def open_with_task(
    path: str, options: TokenizerOptions | None = None
) -> tuple[TaskConfig | None, BertConfig, Tokenizer]:
    """What a model folder was trained for, if anything says it, its config and
    its tokenizer.

    Raises:
        InputError: a file is missing or does not fit the others.
    """
    folder = open_model_folder(path, options)
    task = folder_task(path, options, opened=folder.opened)
    config, tokenizer = folder.config, folder.tokenizer()
    check_sizes(config, path, needs_all_layers=True)
    longest = config.max_position_embeddings
    least = tokenizer.special_tokens.count(is_pair=True) + 1
    if task is not None and not least <= task.max_seq_length <= longest:
        raise InputError(
            f"{path} has a task.json with max_seq_length {task.max_seq_length}"
            f"; expected at least {least}, for the special tokens of a pair "
            f"and one token, and at most {longest}, its model's positions"
        )
    return task, config, tokenizer


def missing_weight(report: LoadReport, needs_pooler: bool) -> str | None:
    """The first weight that a checkpoint lacks and the model needs.

    Outputs for each token, and layers below the top, do not look at the
    pooler; it may be missing from what is trained for them.
    """
    return next(
        (n for n in report.missing if needs_pooler or "/pooler/" not in n), None
    )


class Model(Protocol):
    encoder: Any

    def mappings(self) -> list[VariableMapping]: ...

    def outputs_by_name(self, batch: dict[str, Any]) -> dict[str, Any]: ...
