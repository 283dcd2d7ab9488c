"""What answers texts with a model, whatever task it is of.

A pipeline turns a text into rows and the model's outputs into an answer; each
task has its own, and tasks/load.py says which.
"""

import abc
import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from bert_keras.data.batching import checked_batch_size
from bert_keras.data.input_features import (
    IndexedBatch,
    InputFeatures,
    run_documents,
)
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError, refuse_fork, say_once, with_flags
from bert_keras.modeling.checkpoint import LoadReport
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.tasks.base import Model, Outputs, are_finite
from bert_keras.tasks.features import (
    FeatureExtractor,
    encode_documents,
    make_document,
)
from bert_keras.tasks.keyword_settings import as_list, type_of
from bert_keras.tasks.sentence_pooling import (
    POOLINGS,
    SentencePooling,
    pooling_file,
    read_sentence_pooling,
)
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.training.inference import Predictor, predict, with_progress

BATCH_SIZE = 32  # rows
EMPTY = "the text is empty"
UNREADABLE = "the tokenizer drops every character of the text"
NOT_FINITE = "the model's numbers for it overflow"
METHODS = ("predict", "answer", "tag", "choose", "fill")

# A text with tabs between its parts, or the columns of a table's row.
Line = str | tuple[str, ...]

Run = Callable[[Iterable[IndexedBatch]], Iterator[Outputs]]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a model says to a line."""

    number: int  # of the line
    fields: dict[str, Any]  # by name; {"error": why} where there is no answer
    columns: list[str]  # the same, to be read by people
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
    """A model that answers texts; `bert_keras.load` gives one.

    `answer_all` is of a file's lines: those that cannot be answered get an
    answer that says why, so that answers and lines stay side by side. Other
    methods are of Python's lists and raise an InputError instead. They may be
    called from several threads, which take turns.

    Attributes:
        metrics: of a model that `bert_keras.train_classifier` or the like has
            just trained, on its evaluation data.
        history: each step's figures, in order; where it was evaluated on the
            way, with those that begin with eval_.
    """

    needs_pooler: ClassVar[bool]  # whether answers look at the pooler
    purpose: ClassVar[str] = "predict"  # in "the model cannot ..."
    method: ClassVar[str]  # one of METHODS

    model: Model
    report: LoadReport  # of the weights
    folder: str  # from which it was loaded
    metrics: dict[str, float]
    history: list[dict[str, float]]
    fault: str = ""  # why it cannot answer, though it can encode

    def __init__(self, config: BertConfig, tokenizer: Tokenizer):
        self.config = config
        self.tokenizer = tokenizer
        self.max_length = config.max_position_embeddings
        self.lock = threading.Lock()
        self.extractors: dict[int, Predictor] = {}  # by the layer they read

    @property
    def encoder(self) -> Encoder:
        """The Keras layer with the folder's weights, for models of your own."""
        return self.model.encoder

    @functools.cached_property
    def predictor(self) -> Predictor:
        return Predictor(self.model.outputs_by_name)

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            raise AttributeError(
                self.fault
                or f"the model in {self.folder} has no {name}(): call "
                f"{self.method}() or encode(), by what it was trained for"
            )
        raise AttributeError(name)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Threads take turns."""
        refuse_fork()
        with self.lock:
            yield

    def ask(
        self,
        texts: Sequence[Line],
        is_one: bool,
        make: Callable[..., Any],
        batch_size: int,
        progress: bool,
    ) -> Any:
        """Answers texts from Python.

        Args:
            texts: each a tuple of its parts.
            is_one: whether the caller gave one text, not a list.
            make: what is given the fields of an answer, by name.
            batch_size: rows at once; of short ones more.
            progress: whether a bar on standard error shows how many are done.

        Returns:
            What `make` makes, in the order of the texts; of one text, that.

        Raises:
            InputError: a text cannot be answered.
        """
        check_are_texts(texts)
        batch_size = checked_batch_size(batch_size)
        with self._turn():
            answers = self.answer_all(
                texts,
                functools.partial(predict, self.predictor),
                batch_size,
                0,
                self.predictor.shapes_are_cheap,
            )
            if progress:
                answers = with_progress(answers, len(texts), " texts")
            found = []
            for answer in answers:
                if error := answer.fields.get("error"):
                    where = "" if is_one else f"number {answer.number}: "
                    raise InputError(where + error)
                if answer.note:
                    say_once(f"one of the texts: {answer.note}")
                found.append(make(**answer.fields))
        return found[0] if is_one else found

    def encode(
        self,
        texts: str | Sequence[str],
        pooling: str | None = None,
        layer: int = -1,
        batch_size: int = BATCH_SIZE,
        progress: bool = False,
    ) -> np.ndarray:
        """Gives each text a vector, its tokens' vectors pooled.

        Examples:
            >>> model = bert_keras.load("bert")
            >>> model.encode(["The sky is blue.", "Ann saw Rome."]).shape
            (2, 128)

        Args:
            texts: one text or a list. Longer texts are cut to the model's
                positions, or to the length that the folder of a
                sentence-transformers model gives.
            pooling: of the tokens' vectors: "mean", "max" or "cls"; None: what
                the folder of a sentence-transformers model says, else the mean.
            layer: index of the layer: 0 is the first, -1 the last.
            batch_size: number of full-length texts to compute at once.
            progress: whether to show a progress bar.

        Returns:
            float32 [N, H], or [H] of one text.
        """
        batch_size = checked_batch_size(batch_size)
        if pooling not in (None, *POOLINGS):
            raise InputError(
                f"`pooling={pooling}` is not one of {', '.join(POOLINGS)}"
            )
        if type(layer) is not int:
            raise InputError(f"`layer` is {layer!r}; expected a whole number")
        own = pooling_file(self.folder) if pooling is None else None
        pool = SentencePooling(pooling or "mean")
        if own:
            pool = read_sentence_pooling(own)
        several = as_list(texts)
        check_are_texts([(text,) for text in several])
        size = self.encoder.config.hidden_size
        most = min(self.max_length, pool.max_length or self.max_length)
        with self._turn():
            if layer not in self.extractors:
                extractor = FeatureExtractor(self.config, [layer], self.encoder)
                self.extractors[layer] = Predictor(extractor.outputs_by_name)
            results = encode_documents(
                self.extractors[layer],
                (
                    make_document(text, None, self.tokenizer, most)
                    for text in several
                ),
                batch_size,
                most,
                (1, size),
            )
            if progress:
                results = with_progress(results, len(several), " texts")
            vectors = [
                pool.vector(document.vectors(rows)[:, 0])
                for document, rows in results
            ]
        found = np.array(vectors, np.float32).reshape(len(several), size)
        return found[0] if isinstance(texts, str) else found

    @abc.abstractmethod
    def preprocess(self, number: int, texts: Sequence[str]) -> Question:
        """Raises an InputError if it cannot answer such a line.

        Args:
            texts: of a line, between its tabs.
        """

    @abc.abstractmethod
    def postprocess(
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

        Raises:
            InputError: the model answers nothing: `fault`.
        """
        if self.fault:
            raise InputError(self.fault)
        questions = (
            self._read(number, line)
            for number, line in enumerate(lines, first_number)
        )
        results = run_documents(
            questions, run, batch_size, self.max_length, fine_buckets
        )
        for question, outputs in results:
            error = question.error
            if not are_finite(outputs):
                error = NOT_FINITE
            if error:
                fields: dict[str, Any] = {"error": error}
                columns: list[str] = []
            else:
                fields, columns = self.postprocess(question, outputs)
            yield Answer(question.number, fields, columns, question.note)

    def _read(self, number: int, line: Line) -> Question:
        if isinstance(line, str):
            line = tuple(line.rstrip("\r\n").split("\t"))
        if not "".join(line).strip():
            return Question(number, [], error=EMPTY)
        if isinstance(self.tokenizer, FullTokenizer):
            basic = self.tokenizer.basic_tokenizer
            if not basic.clean("".join(line)).strip():
                return Question(number, [], error=UNREADABLE)
        try:
            return self.preprocess(number, line)
        except InputError as error:
            return Question(number, [], error=with_flags(str(error)))


def pairs_of(
    name: str, ones: list[Any], other_name: str, others: list[Any]
) -> list[tuple[Any, Any]]:
    """Each one with its other. Raises an InputError if they are not as many."""
    if len(ones) != len(others):
        raise InputError(
            f"`{name}` has {len(ones)} entries and `{other_name}` "
            f"{len(others)}; expected the same number"
        )
    return list(zip(ones, others, strict=True))


def check_are_texts(lines: Sequence[Any]) -> None:
    """Each is a tuple of a text's parts."""
    for number, line in enumerate(lines):
        for text in line:
            if not isinstance(text, str):
                raise InputError(
                    f"number {number}: expected a text, found {type_of(text)}"
                )


class TaskPipeline(Pipeline):
    """Answers with a fine-tuned model, and says how it is exported."""

    model_class: ClassVar[Any]  # a TaskModel
    answers_tokens: ClassVar[bool] = False  # and not whole texts
    reads_pairs: ClassVar[bool] = False  # whatever task.json says

    def __init__(
        self, config: BertConfig, tokenizer: Tokenizer, settings: TaskConfig
    ):
        super().__init__(config, tokenizer)
        self.model = self.make_model(config, settings)
        self.settings = settings

    @classmethod
    def make_model(cls, config: BertConfig, settings: TaskConfig) -> Model:
        """The model that a task.json describes."""
        return cls.model_class.from_settings(config, settings)

    @staticmethod
    def exported(
        outputs: dict[str, Any], settings: TaskConfig
    ) -> dict[str, Any]:
        """The model's outputs as an exported model gives them, in a TensorFlow
        graph and by predict.py's names."""
        return outputs
