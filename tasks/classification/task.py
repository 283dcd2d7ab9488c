"""run_classifier.py's work: problems from files, scores and predictions.

Upstream file: run_classifier.py, whose records, eval_results.txt and
test_results.tsv these are.

Shapes: N examples, C outputs.
"""

import collections
import dataclasses
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.data.record_schema import classifier_features
from bert_keras.data.tfrecords import RecordWriter, encode
from bert_keras.errors import InputError, one_line, warn
from bert_keras.files import tsv_field
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.classification.data import (
    InputExample,
    TableFormat,
    are_measures,
    encode_examples,
    labels_of,
    read_table,
)
from bert_keras.tasks.classification.glue import GlueTask, find_task
from bert_keras.tasks.classification.model import (
    LABELS,
    LabelType,
    MultiLabel,
    Regression,
    SingleLabel,
    TextClassifier,
    pool_windows,
)
from bert_keras.tasks.fine_tuning import (
    FineTuningTask,
    TrainingData,
    labelled_rows,
    train_losses,
)
from bert_keras.tasks.label_names import in_stored_order
from bert_keras.tasks.metrics import (
    class_report,
    confusion_matrix,
    diagnose_classes,
    diagnose_labels,
    diagnose_values,
)
from bert_keras.tasks.trainer import Trainer

MAX_CONFUSED = 20  # classes whose confusion matrix is shown
TABLE_FOR = {
    "train_file": "train on",
    "eval_file": "evaluate on",
    "predict_file": "predict",
}


@dataclasses.dataclass(frozen=True)
class Problem:
    """Examples, and how they are scored."""

    target: LabelType
    metrics: tuple[str, ...]  # the first is the main one
    train: list[InputExample]
    # by what ends the names of their results: "" or "_mismatched"
    evaluation: dict[str, list[InputExample]]
    prediction: dict[str, list[InputExample]]
    takes_pairs: bool  # whether an example is two texts
    glue: GlueTask | None = None


class ClassificationTask(FineTuningTask):
    """Classes, several labels or numbers for texts and pairs, fine-tuned."""

    problem: Problem

    def set_up(self) -> None:
        problem = self.problem
        self.target = problem.target
        if problem.glue:
            self.other_names = problem.glue.hugging_face_labels
        named = tuple(f"eval_{name}" for name in problem.metrics)
        self.metric_names = (*named, "eval_loss", "loss")
        if isinstance(problem.target, SingleLabel):
            self.loss_settings = {"class_weights": problem.target.class_weights}
        # by record file, the rows of each example
        self.encoded: dict[str, list[list[InputFeatures]]] = {}
        # scores [N, C] and labels [N, ...] of the latest evaluation
        self.latest: tuple[np.ndarray, np.ndarray] | None = None

    def make_model(self, config: BertConfig) -> TextClassifier:
        return TextClassifier.from_settings(
            config, self.settings, target=self.target
        )

    def training_data(self) -> TrainingData:
        examples = self.problem.train
        if not examples:
            raise InputError("there is no example to train on")
        encoded = self._encode(examples, "train")
        labels = self._labels(examples)
        counts = [len(rows) for rows in encoded]
        return labelled_rows(
            [row for rows in encoded for row in rows],
            {LABELS: np.repeat(labels, counts, axis=0)},
            sum(counts),
            packs=self.settings.has_one_encoder,
        )

    def prepare(self) -> None:
        """Prints what was read and checks the labels to evaluate by, so that
        their faults show before training."""
        self._describe("train", self.problem.train)
        for name, examples in self.problem.evaluation.items():
            self._describe("eval" + name, examples)
        for name, examples in self.problem.prediction.items():
            self._describe("predict" + name, examples, has_labels=False)
        if not (self.problem.train and isinstance(self.target, SingleLabel)):
            return
        labels, names = self._labels(self.problem.train), self.target.labels
        counts = np.bincount(labels[:, 0], minlength=len(names))
        if are_measures(names, len(labels)):
            warn(
                f"the labels are {len(names)} different numbers, and each is "
                "learnt as a class; `target=regression` learns numbers"
            )
        elif rare := [names[i] for i in np.flatnonzero(counts == 1)]:
            warn(
                f"{len(rare)} of {len(names)} classes have one example, too "
                f"few to learn from: {', '.join(rare)}"
            )

    def _describe(
        self,
        name: str,
        examples: Sequence[InputExample],
        has_labels: bool = True,
    ) -> None:
        if not examples:
            return
        line = f"{name}: {len(examples):,} examples"
        if has_labels:
            line += f" ({self.target.describe(self._labels(examples))})"
        num_empty = sum(
            not (example.text_a.strip() and (example.text_b or "x").strip())
            for example in examples
        )
        if num_empty:
            line += f"; {num_empty:,} have an empty text"
        print(one_line(line), flush=True)

    def keep_training_data(self) -> None:
        if self.context.writes:
            self._write_records("train", self.problem.train)

    def evaluate(self, trainer: Trainer) -> dict[str, float]:
        """The metrics of the first evaluation set."""
        return self.evaluate_set(trainer, next(iter(self.problem.evaluation)))

    def compared_on(self) -> Iterable[tuple[object, ...]]:
        examples = next(iter(self.problem.evaluation.values()))
        return ((x.text_a, x.text_b, x.label) for x in examples)

    def diagnosis(self, trainer: Trainer) -> str | None:
        """Tells one class for everything, or a loss that never fell."""
        if self.latest is None:
            return None
        scores, labels = self.latest
        if isinstance(self.target, SingleLabel):
            return diagnose_classes(
                scores.argmax(-1),
                labels[:, 0],
                train_losses(trainer.folder),
                self.target.labels,
                self.target.class_weights,
            )
        if isinstance(self.target, MultiLabel):
            return diagnose_labels(scores > 0.5, labels)
        return diagnose_values(scores[:, 0], labels[:, 0])

    def evaluate_set(self, trainer: Trainer, name: str) -> dict[str, float]:
        """The metrics on problem.evaluation[name], "loss" and "eval_loss"."""
        examples = self.problem.evaluation[name]
        labels = self._labels(examples)
        encoded = self._encode(examples, "eval" + name)
        logits = self._logits(trainer, encoded, self.config.eval_batch_size)
        losses = self.target.losses(logits, labels)
        scores = self.target.scores(logits)
        self.latest = scores, labels
        metrics = self.target.metrics(scores, labels)
        size = self.config.eval_batch_size
        of_batches = [
            losses[i : i + size].mean() for i in range(0, len(losses), size)
        ]
        return {
            # upstream's: a mean over batches, the last one smaller; and ...
            "loss": float(np.mean(of_batches)),
            # ... one over examples
            "eval_loss": float(losses.mean()),
            **{f"eval_{name}": metrics[name] for name in self.problem.metrics},
        }

    def report(self, trainer: Trainer) -> None:
        """Writes eval_results.txt, one for each evaluation set."""
        for name in self.problem.evaluation:
            trainer.write_results(self.evaluate_set(trainer, name), name)
            if text := self._class_report():
                print(text, end="")
                trainer.write_result(
                    f"eval_classes{name}.txt", text, "eval_file"
                )
            self.check(trainer)

    def _class_report(self) -> str:
        """Each class's scores in the latest evaluation, and which classes are
        taken for which; empty for numbers."""
        assert self.latest is not None, "evaluate_set makes it"
        scores, labels = self.latest
        names = self.settings.labels
        if isinstance(self.target, MultiLabel):
            return class_report(scores > 0.5, labels > 0.5, names) + "\n"
        if not isinstance(self.target, SingleLabel):
            return ""
        predicted, gold = scores.argmax(-1), labels[:, 0]
        classes = np.arange(len(names))
        text = class_report(
            predicted[:, None] == classes, gold[:, None] == classes, names
        )
        if len(names) <= MAX_CONFUSED:
            table = confusion_matrix(predicted, gold, names)
            text += f"\n\nrows: the true label; columns: predicted\n{table}"
        return text + "\n"

    def predict(self, trainer: Trainer) -> None:
        """Writes test_results.tsv, Google's file of probabilities; the same by
        examples and labels in test_labels.tsv; and what GLUE's server takes."""
        for name, examples in self.problem.prediction.items():
            encoded = self._encode(examples, "predict" + name)
            logits = self._logits(
                trainer, encoded, self.config.predict_batch_size
            )
            scores = self.target.scores(logits)
            rows = scores.astype(np.float32)
            lines = ("\t".join(map(str, row)) + "\n" for row in rows)
            results = {
                f"test_results{name}.tsv": "".join(lines),
                f"test_labels{name}.tsv": self._labelled(examples, scores),
            }
            glue = self.problem.glue
            if glue and (submission := glue.submissions.get("test" + name)):
                results[submission] = glue.submission(scores)
            for file_name, text in results.items():
                trainer.write_result(file_name, text, "predict_file")

    def _labelled(
        self, examples: Sequence[InputExample], scores: np.ndarray
    ) -> str:
        """A line for each example: where it stands, what is predicted, and how
        likely that is."""
        names = self.settings.labels
        if isinstance(self.target, SingleLabel):
            header = "example\tlabel\tprobability"
            best = scores.argmax(-1)
            rows = [
                (names[i], row[i]) for i, row in zip(best, scores, strict=True)
            ]
        elif isinstance(self.target, MultiLabel):
            header = "example\t" + "\t".join(map(tsv_field, names))
            rows = [tuple(row) for row in scores]
        else:
            header, rows = "example\tvalue", [tuple(row) for row in scores]
        lines = [header]
        for example, row in zip(examples, rows, strict=True):
            cells = (x if isinstance(x, str) else f"{x:.6g}" for x in row)
            lines.append("\t".join(map(tsv_field, [example.guid, *cells])))
        return "\n".join(lines) + "\n"

    def _encode(
        self, examples: Sequence[InputExample], name: str
    ) -> list[list[InputFeatures]]:
        """Each example's rows, which are also written to name.tf_record (for
        training by `keep_training_data`)."""
        if name not in self.encoded:
            self.encoded[name] = encode_examples(
                examples,
                self.tokenizer,
                self.settings.max_seq_length,
                self.settings.doc_stride,
            )
            if self.context.writes and name != "train":
                self._write_records(name, examples)
        return self.encoded[name]

    def _labels(self, examples: Sequence[InputExample]) -> np.ndarray:
        """[N, length], by the target's feature."""
        numbers = []
        for example in examples:
            try:
                numbers.append(self.target.encode(example.label))
            except InputError as error:
                raise InputError(f"{example.guid}: {error}") from error
        is_whole = self.target.feature.dtype == "int64"
        return np.array(numbers, np.int32 if is_whole else np.float32)

    def _write_records(
        self, name: str, examples: Sequence[InputExample]
    ) -> None:
        """Writes the file that upstream would have trained on."""
        length = self.settings.max_seq_length
        features = classifier_features(length, self.target.feature)
        labels = self._labels(examples).tolist()
        path = os.path.join(self.context.run.output_dir, f"{name}.tf_record")
        with RecordWriter([path], "output_dir") as writer:
            for rows, label in zip(self.encoded[name], labels, strict=True):
                for row in rows:
                    values = pad([row], length, 1)
                    record: dict[str, Any] = {
                        key: value[0].tolist() for key, value in values.items()
                    }
                    record |= {LABELS: label, "is_real_example": [1]}
                    writer.write(encode(features, record))

    def _logits(
        self,
        trainer: Trainer,
        encoded: list[list[InputFeatures]],
        batch_size: int,
    ) -> np.ndarray:
        """[N, C]; the windows of a document joined."""
        pooling = self.settings.window_pooling
        outputs = self.outputs(trainer, encoded, batch_size)
        return np.array([pool_windows(own, pooling) for own in outputs])


def glue_problem(
    name: str, data_dir: str, trains: bool, evaluates: bool, predicts: bool
) -> Problem:
    """A task of GLUE, or XNLI, as its files lie in `data_dir`; the examples
    that are wanted."""
    task = find_task(name)
    target = Regression() if task.labels is None else SingleLabel(task.labels)

    def read(kind: str) -> dict[str, list[InputExample]]:
        splits = task.splits(kind)
        if not splits:
            raise InputError(
                f"{task.name} has no {kind} set; leave out "
                f"{'`do_eval`' if kind == 'dev' else '`do_predict`'}"
            )
        return {s.removeprefix(kind): task.read(data_dir, s) for s in splits}

    return Problem(
        target,
        task.metrics,
        task.read(data_dir, "train") if trains else [],
        read("dev") if evaluates else {},
        read("test") if predicts else {},
        next(iter(task.tables.values())).text_b is not None,
        task,
    )


@dataclasses.dataclass(frozen=True)
class TableFiles:
    train_file: str | list[InputExample] | None = None  # or what has been read
    eval_file: str | list[InputExample] | None = None
    predict_file: str | None = None
    target: str = "single_label"  # one of TARGETS, in task_config.py
    label_separator: str = ","
    class_weights: str | None = None
    keep_classifier_head: bool = False

    def __post_init__(self) -> None:
        if not self.label_separator:
            raise InputError(
                "`label_separator=` is empty; expected a character"
            )


METRICS = {
    "single_label": ("accuracy", "macro_f1", "matthews"),
    "multi_label": ("micro_f1", "macro_f1", "accuracy"),
    "regression": ("pearson", "spearman", "mean_squared_error"),
}


def table_problem(
    files: TableFiles,
    table: TableFormat,
    trains: bool,
    evaluates: bool,
    predicts: bool,
    stored_labels: tuple[str, ...],
) -> Problem:
    """A problem from your own files; the examples that are wanted.

    Args:
        stored_labels: of the model folder that is used or started from. Their
            order holds, unless the training examples have others.
    """

    def read(
        path: str | list[InputExample] | None, argument: str, has_labels: bool
    ) -> list[InputExample]:
        if isinstance(path, list):
            return path
        if not path:
            raise InputError(
                f"`{argument}` is missing; give the table to "
                f"{TABLE_FOR[argument]}"
            )
        return read_table(path, table, has_labels)

    train, held_out, asked = [], {}, {}
    if trains:
        train = read(files.train_file, "train_file", True)
    if evaluates:
        held_out = {"": read(files.eval_file, "eval_file", True)}
    if predicts:
        asked = {"": read(files.predict_file, "predict_file", False)}
    target = _target(files, stored_labels, train, held_out.get("", []))
    metrics, is_pair = METRICS[files.target], len(table.text_columns) > 1
    return Problem(target, metrics, train, held_out, asked, is_pair)


def _target(
    files: TableFiles,
    stored: tuple[str, ...],
    train: list[InputExample],
    held_out: Sequence[InputExample] = (),
) -> LabelType:
    is_single = files.target == "single_label"
    if files.class_weights and not is_single:
        raise InputError(
            f"`class_weights` is for `target=single_label`, not {files.target}"
        )
    if files.target == "regression":
        return Regression()
    separator = files.label_separator
    own = labels_of(train or held_out, None if is_single else separator)
    labels = in_stored_order(stored, own, files.keep_classifier_head)
    if labels is None:  # with held_out alone, its first such label is refused
        labels = own if train else stored
    if len(labels) < 1 + is_single:
        raise InputError(
            f"the examples have {len(labels)} different labels, too few to "
            "learn from; check `label_column`, or `init_checkpoint`, whose "
            "task.json would name them"
        )
    if not is_single:
        return MultiLabel(labels, separator)
    return SingleLabel(
        labels, _class_weights(files.class_weights, labels, train)
    )


def _class_weights(
    text: str | None, labels: tuple[str, ...], train: list[InputExample]
) -> tuple[float, ...]:
    """By label; "balanced" is N / (C * count), as scikit-learn has it."""
    if text is None or not train:
        return ()
    if text == "balanced":
        target = SingleLabel(labels)
        counts = collections.Counter(
            target.encode(example.label)[0] for example in train
        )
        return tuple(
            len(train) / (len(labels) * max(counts[i], 1))
            for i in range(len(labels))
        )
    try:
        pairs = (pair.rsplit("=", 1) for pair in text.split(","))
        weights = {label.strip(): float(weight) for label, weight in pairs}
    except ValueError:
        weights = {}
    unknown = weights.keys() - set(labels)
    given = tuple(weights.get(label, 1.0) for label in labels)
    is_sound = all(0 <= x < math.inf for x in given) and any(given)
    if unknown or not weights or not is_sound:
        raise InputError(
            f"`class_weights={text}` is not understood; expected balanced, or "
            "label=weight pairs with commas, no weight below 0 and not all 0, "
            f"of the labels {', '.join(labels)}"
        )
    return given
