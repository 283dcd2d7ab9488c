"""run_ner.py's work: tagged words from files, predicted tags and their scores.

Ours; google-research/bert has no such command.

Shapes: T words of a text, P words of a row, C tags.
"""

import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bert_keras.data.input_features import InputFeatures, describe_lengths
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError, one_line, warn, with_flags
from bert_keras.files import beside
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.fine_tuning import (
    FineTuningTask,
    TrainingData,
    labelled_rows,
)
from bert_keras.tasks.label_names import shown
from bert_keras.tasks.ner.data import (
    Sentence,
    TaggedFile,
    is_json,
    read_columns,
    read_tagged_json,
    with_column,
    with_field,
)
from bert_keras.tasks.ner.features import WordText, label_arrays, read_words
from bert_keras.tasks.ner.iob_tags import (
    are_tags,
    entities,
    entity_scores,
    kinds_of,
    tags_of,
    to_tags,
)
from bert_keras.tasks.ner.model import TokenClassifier
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.tasks.trainer import Trainer

# By flag, the names that `data_dir`'s files have.
NAMES = {
    "train_file": ("train.txt",),
    "eval_file": ("valid.txt", "dev.txt"),
    "predict_file": ("test.txt",),
}

MAX_SHOWN = 20  # different tags


@dataclasses.dataclass(frozen=True)
class Files:
    data_dir: str | None = None
    # each a path, or what has been read
    train_file: str | TaggedFile | None = None
    eval_file: str | TaggedFile | None = None
    predict_file: str | None = None
    word_column: str | None = None
    tag_column: str | None = None

    def read(self, argument: str) -> TaggedFile:
        path, names = getattr(self, argument), " or ".join(NAMES[argument])
        if isinstance(path, TaggedFile):
            return path
        if not path and not self.data_dir:
            raise InputError(
                f"`{argument}` is missing: it names a file of tagged words (or "
                f"give `data_dir`, where {names} is)"
            )
        folder = os.path.join(self.data_dir or "", "")
        path = path or beside(folder, NAMES[argument])
        if path is None:
            raise InputError(
                f"`data_dir={self.data_dir}` has no {names}; name the file by "
                f"`{argument}`"
            )
        reader = read_tagged_json if is_json(path) else read_columns
        return reader(path, self.word_column, self.tag_column)


@dataclasses.dataclass(frozen=True)
class Problem:
    """The files that are asked for, and the labels of their words."""

    labels: tuple[str, ...]
    train: TaggedFile | None
    evaluation: TaggedFile | None
    prediction: TaggedFile | None


def read_problem(
    files: Files,
    trains: bool,
    evaluates: bool,
    predicts: bool,
    stored_labels: tuple[str, ...],
) -> Problem:
    """Reads what is wanted.

    Args:
        stored_labels: of the model folder that is used or started from. They
            hold, unless the training file has others.
    """
    train = _read_tagged(files, "train_file") if trains else None
    own: tuple[str, ...] = ()
    if train:
        counts = train.tag_counts
        own = tags_of(kinds_of(counts))
        rare = [repr(tag) for tag, count in counts.items() if count == 1]
        if rare:
            warn(
                f"{train.path} has {shown(rare, MAX_SHOWN)} only once: correct "
                "what is misspelt, as nothing is learnt from one example"
            )
    labels = stored_labels if set(own) <= set(stored_labels) else own
    if len(labels) < 2:
        raise InputError(
            "there is no entity to learn from; check `train_file`, or "
            "`init_checkpoint`, whose task.json would name the tags"
        )
    if not are_tags(labels):
        raise InputError(
            f"the model's labels are {shown(labels)}, which are not tags of "
            "entities such as O and B-PER; use predict.py, which gives each "
            "word such a label"
        )
    evaluation = _read_tagged(files, "eval_file") if evaluates else None
    prediction = files.read("predict_file") if predicts else None
    known = kinds_of(labels)
    for file in filter(None, (evaluation, prediction)):
        for line, tag in file.line_tags():
            if not kinds_of([tag]) <= known:
                names = ", ".join(sorted(known)) or "B and I without a type"
                raise InputError(
                    f"{file.path}, {file.unit} {line + 1} has the tag {tag!r}, "
                    f"but the model knows {names} only; correct the "
                    f"{file.unit}, or train on a file that has it"
                )
    return Problem(labels, train, evaluation, prediction)


def _read_tagged(files: Files, argument: str) -> TaggedFile:
    file = files.read(argument)
    if not file.has_tags:
        raise InputError(
            f"`{argument}={file.path}` has no tags: {file.layout}; name their "
            "column by `tag_column`"
        )
    return file


@dataclasses.dataclass(frozen=True)
class WordFile:
    """A file as a model reads it."""

    file: TaggedFile
    groups: list[list[Sentence]]  # sentences that are one text
    texts: list[WordText]

    @property
    def rows(self) -> list[InputFeatures]:
        return [row for text in self.texts for row in text.rows]

    @functools.cached_property
    def golds(self) -> list[list[str]]:
        """Each sentence's tags, in IOB2."""
        return [
            to_tags(entities(sentence.tags), len(sentence.words))
            for sentence in self.file.sentences
        ]

    def by_sentence(self, values: Iterable[np.ndarray]) -> list[np.ndarray]:
        """Each text's [T, ...] to each sentence's."""
        parts = []
        for group, value in zip(self.groups, values, strict=True):
            ends = itertools.accumulate(len(s.words) for s in group)
            parts += np.split(value, list(ends)[:-1])
        return parts


def read_texts(
    file: TaggedFile | None, tokenizer: Tokenizer, settings: TaskConfig
) -> WordFile:
    """Cuts a file's sentences, or documents, into windows; prints how many
    there are."""
    assert file is not None, "the command has read it"
    assert settings.doc_stride is not None, "the command has set it"
    groups = [[sentence] for sentence in file.sentences]
    if settings.document_context:
        groups = file.documents
    texts = [
        read_words(
            [word for sentence in group for word in sentence.words],
            tokenizer,
            settings.max_seq_length,
            settings.doc_stride,
        )
        for group in groups
    ]
    words = WordFile(file, groups, texts)
    num_words = sum(len(sentence.words) for sentence in file.sentences)
    lines = [
        f"{file.path}: {len(file.sentences):,} sentences of {num_words:,} "
        f"words ({file.layout}) in {len(words.rows):,} windows"
    ]
    lengths = [text.num_tokens for text in texts]
    num_long = sum(len(text.rows) > 1 for text in texts)
    are_sentences = len(groups) == len(file.sentences)
    lines.append(
        f"{'sentences' if are_sentences else 'documents'} of "
        f"{describe_lengths(lengths)}; {num_long:,} do not fit into "
        f"`max_seq_length={settings.max_seq_length}` and are read through "
        "windows"
    )
    if file.has_tags:
        counts = file.tag_counts
        top = [f"{tag} {count:,}" for tag, count in counts.most_common()]
        empty = sum(not entities(s.tags) for s in file.sentences)
        lines += [
            f"tags: {shown(top, MAX_SHOWN)}",
            f"sentences without an entity: {empty:,}",
        ]
    print(with_flags("\n  ".join(map(one_line, lines))))
    return words


class NerTask(FineTuningTask):
    """Tags of words; everything is trained (Devlin et al. 2018, section
    5.3)."""

    problem: Problem
    metric_names: tuple[str, ...] = (
        "eval_f1", "eval_precision", "eval_recall", "eval_accuracy",
    )  # fmt: skip

    finds_nothing = False  # at the latest evaluation

    def make_model(self, config: BertConfig) -> Any:
        return TokenClassifier(config, len(self.settings.labels))

    def training_data(self) -> TrainingData:
        words = read_texts(self.problem.train, self.tokenizer, self.settings)
        number_of = {tag: i for i, tag in enumerate(self.settings.labels)}
        numbers = [[number_of[tag] for tag in tags] for tags in words.golds]
        return self.numbered_data(words, numbers)

    def numbered_data(
        self, words: WordFile, numbers: list[list[int]]
    ) -> TrainingData:
        """What is trained on.

        Args:
            numbers: the labels of the words of each sentence.
        """
        of_texts, given = [], iter(numbers)
        for group in words.groups:
            own = itertools.islice(given, len(group))
            of_texts.append(list(itertools.chain.from_iterable(own)))
        # Where the labels are is told by an array of theirs.
        rows = [row._replace(positions=()) for row in words.rows]
        labels = label_arrays(words.texts, of_texts)
        return labelled_rows(rows, labels, len(rows), packs=True)

    def logits(
        self, trainer: Trainer, words: WordFile, batch_size: int
    ) -> list[np.ndarray]:
        """Each sentence's [T, C]."""
        rows = [text.rows for text in words.texts]
        outputs = self.outputs(trainer, rows, batch_size)
        return words.by_sentence(
            text.join(own, "logits")
            for text, own in zip(words.texts, outputs, strict=True)
        )

    def prepare(self) -> None:
        """Cuts up what is evaluated and tagged: faults are to show before the
        training."""
        if self.problem.evaluation is not None:
            _ = self.evaluated
        if self.problem.prediction is not None:
            _ = self.asked

    @functools.cached_property
    def evaluated(self) -> WordFile:
        return read_texts(
            self.problem.evaluation, self.tokenizer, self.settings
        )

    @functools.cached_property
    def asked(self) -> WordFile:
        return read_texts(
            self.problem.prediction, self.tokenizer, self.settings
        )

    def evaluate(self, trainer: Trainer) -> dict[str, float]:
        """Of all entities, and of each kind with its name at the end."""
        tags = self._tags(trainer, self.evaluated, self.config.eval_batch_size)
        return self._scores(self.evaluated, tags)

    def compared_on(self) -> Iterable[tuple[object, ...]]:
        return ((x.words, x.tags) for x in self.evaluated.file.sentences)

    def diagnosis(self, trainer: Trainer) -> str | None:
        """Tells a model that finds nothing."""
        if not self.finds_nothing:
            return None
        return (
            "degenerate run: not one entity is found in "
            f"{self.evaluated.file.path}; more `num_train_epochs`, another "
            "`seed` or `learning_rate` may help"
        )

    def predict(self, trainer: Trainer) -> None:
        """Writes test_predictions.txt (.jsonl for JSON) and, if the tags are
        known, eval_results_test.txt with the scores."""
        words = self.asked
        tags = self._tags(trainer, words, self.config.predict_batch_size)
        if any(kinds_of(gold) for gold in words.golds):
            metrics = self._scores(words, tags)
            trainer.write_results(metrics, "_test", "predict_file")
        of_json = is_json(words.file.path)
        add_tags = with_field if of_json else with_column
        trainer.write_result(
            f"test_predictions.{'jsonl' if of_json else 'txt'}",
            add_tags(words.file, tags),
            "predict_file",
        )

    def _tags(
        self, trainer: Trainer, words: WordFile, batch_size: int
    ) -> list[list[str]]:
        """Each sentence's, in IOB2."""
        labels, tags = self.settings.labels, []
        for logits in self.logits(trainer, words, batch_size):
            own = [labels[i] for i in logits.argmax(-1)]
            tags.append(to_tags(entities(own), len(own)))
        return tags

    def _scores(
        self, words: WordFile, tags: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        said = any(map(kinds_of, tags))
        self.finds_nothing = not said and any(map(kinds_of, words.golds))
        scores = entity_scores(words.golds, tags)
        hits = np.concatenate(words.golds) == np.concatenate(tags)
        scores["accuracy"] = float(np.mean(hits))
        return {f"eval_{name}": value for name, value in scores.items()}
