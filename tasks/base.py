"""What all tasks share: opening a model folder, models, and pipelines.

A model folder holds weights, their config, a tokenizer and, if the model was
fine-tuned, task.json (tasks/task_config.py). A pipeline turns a line of text
into rows and the model's outputs into an answer; each task has its own, and
tasks/pipeline.py says which.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import keras
import numpy as np

from bert_keras import files
from bert_keras.data.input_features import (
    IndexedBatch,
    InputFeatures,
    run_documents,
)
from bert_keras.data.tokenizer_folder import (
    OpenedTokenizer,
    TokenizerOptions,
    open_tokenizer,
)
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError, with_flags
from bert_keras.modeling.checkpoint import LoadReport, VariableMapping
from bert_keras.modeling.config import BertConfig, model_config_file
from bert_keras.tasks.checkpoint_compatibility import (
    check_config,
    compare_pieces,
)
from bert_keras.tasks.hugging_face_task import check_tokens, folder_task
from bert_keras.tasks.task_config import TaskConfig

MODEL_FOLDER = (
    "a model folder: weights, bert_config.json and vocab.txt (or vocab.json "
    "and merges.txt)"
)
BATCH_SIZE = 32  # rows
EMPTY = "the line is empty"
NOT_FINITE = "the model's numbers for it overflow"

# A text with tabs between its parts, or the columns of a table's row.
Line = str | tuple[str, ...]

Outputs = dict[str, np.ndarray]
Run = Callable[[Iterable[IndexedBatch]], Iterator[Outputs]]


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
            compare_pieces(self.vocab_file, vocab, self.path)
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
    config = BertConfig.from_json_file(files.local(found))
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
    task = folder_task(path, options)
    folder = open_model_folder(path, options)
    config, tokenizer = folder.config, folder.tokenizer()
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

    Outputs for each piece, and layers below the top, do not look at the
    pooler; it may be missing from what is trained for them.
    """
    return next(
        (n for n in report.missing if needs_pooler or "/pooler/" not in n), None
    )


class Model(Protocol):
    def mappings(self) -> list[VariableMapping]: ...

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]: ...


class TaskModel(abc.ABC):
    """A model that is trained: built layers; optimizers keep their order."""

    parts: tuple[keras.layers.Layer, ...]

    @property
    def variables(self) -> list[keras.Variable]:
        return [v for part in self.parts for v in part.variables]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        return [v for part in self.parts for v in part.trainable_variables]

    @abc.abstractmethod
    def mappings(self) -> list[VariableMapping]:
        """Where their weights are in a checkpoint."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a model says to a line."""

    number: int  # of the line, from 1
    fields: dict[str, Any]  # for programs; "error" alone: there is no answer
    columns: list[str]  # for people
    note: str = ""  # what was done to the line, if anything


@dataclasses.dataclass(frozen=True)
class Question:
    """A line, as a pipeline reads it."""

    number: int
    rows: Sequence[InputFeatures]
    content: Any = None  # what the pipeline keeps for its answer
    note: str = ""
    error: str = ""  # why there will be no answer


class Pipeline(abc.ABC):
    """A model that answers lines of text.

    Lines that cannot be answered get an answer that says why, so that answers
    and lines stay side by side.
    """

    needs_pooler: ClassVar[bool]  # whether answers look at the pooler
    purpose: ClassVar[str] = "predict"  # in "the model cannot ..."

    model: Model
    tokenizer: Tokenizer
    max_length: int  # positions of the model
    report: LoadReport  # of the weights

    @abc.abstractmethod
    def read(self, number: int, texts: Sequence[str]) -> Question:
        """Raises an InputError if it cannot answer such a line.

        Args:
            texts: of a line, between its tabs.
        """

    @abc.abstractmethod
    def answer(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        """Fields and columns, of the outputs of the question's rows."""

    def answer_all(
        self,
        lines: Iterable[Line],
        run: Run,
        batch_size: int = BATCH_SIZE,
        first_number: int = 1,
        fine_buckets: bool = False,
    ) -> Iterator[Answer]:
        """Yields an answer for each line, in their order.

        Lines are read many batches at a time and sorted by length; to have
        each answered at once, hand them over one by one.

        Args:
            run: batches in, the outputs of each row out, in order.
            batch_size, fine_buckets: as in `bucket_by_length`.
            first_number: that of the first line.
        """
        questions = (
            self._read(number, line)
            for number, line in enumerate(lines, first_number)
        )
        results = run_documents(
            questions, run, batch_size, self.max_length, fine_buckets
        )
        for question, outputs in results:
            error = question.error
            arrays = (x for row in outputs for x in row.values())
            if not all(np.isfinite(x).all() for x in arrays):
                error = NOT_FINITE
            if error:
                fields: dict[str, Any] = {"error": error}
                columns: list[str] = []
            else:
                fields, columns = self.answer(question, outputs)
            yield Answer(question.number, fields, columns, question.note)

    def _read(self, number: int, line: Line) -> Question:
        if isinstance(line, str):
            line = tuple(line.rstrip("\r\n").split("\t"))
        if not "".join(line).strip():
            return Question(number, [], error=EMPTY)
        try:
            return self.read(number, line)
        except InputError as error:
            return Question(number, [], error=with_flags(str(error)))


class TaskPipeline(Pipeline):
    """That of a fine-tuned model, which can be exported, too."""

    answers_pieces: ClassVar[bool] = False  # and not whole texts
    reads_pairs: ClassVar[bool] = False  # whatever task.json says

    def __init__(
        self, config: BertConfig, tokenizer: Tokenizer, settings: TaskConfig
    ):
        self.model = self.make_model(config, settings)
        self.max_length = config.max_position_embeddings
        self.tokenizer = tokenizer
        self.settings = settings

    @staticmethod
    @abc.abstractmethod
    def make_model(config: BertConfig, settings: TaskConfig) -> Model:
        """The model that a task.json describes."""

    @staticmethod
    @abc.abstractmethod
    def exported(
        outputs: dict[str, Any], settings: TaskConfig
    ) -> dict[str, Any]:
        """The model's outputs as an exported model gives them, in a TensorFlow
        graph and by predict.py's names."""
