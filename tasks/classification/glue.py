"""The tasks of GLUE, and XNLI: files, labels, metrics, submissions.

Wang et al. 2018 (GLUE), Conneau et al. 2018 (XNLI). Upstream file:
run_classifier.py, whose four processors are CoLA, MNLI, MRPC and XNLI here.
"""

import dataclasses
import os
import sys
from collections.abc import Iterable, Mapping

import numpy as np

from bert_keras.data.text_files import read_bare_lines
from bert_keras.errors import InputError
from bert_keras.tasks.classification.data import InputExample
from bert_keras.tasks.label_names import to_number

BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
INFERENCE = ("contradiction", "entailment", "neutral")  # upstream's order
# Hugging Face's data sets number entailment 0, and so do models that name no
# labels.
HUGGING_FACE_INFERENCE = "LABEL_2", "LABEL_0", "LABEL_1"

XNLI_LANGUAGE = "zh"  # upstream's, like the two files' names
XNLI_TRAIN_SPELLING = {"contradictory": "contradiction"}
NO_TEXTS = "id index label is_duplicate qid1 qid2".split()  # names of columns
STS_B_RANGE = (0.0, 5.0)


@dataclasses.dataclass(frozen=True)
class Table:
    """A file of tab-separated columns, counted from 0, or from the last by -1;
    quotes are characters.

    A label of None: it has none.
    """

    text_a: int
    text_b: int | None = None
    label: int | None = None
    names: tuple[str, ...] = ()  # that it may have; none: its split and ".tsv"
    has_header: bool = True
    guid: int | None = None  # None: guids count the file's lines from 0
    guid_start: str | None = None  # of each guid; None: the split's name
    language: int | None = None  # rows of others than XNLI_LANGUAGE are skipped
    skips_bad_rows: bool = False  # QQP's: some broke at line ends in a text


@dataclasses.dataclass(frozen=True)
class GlueTask:
    name: str  # as GLUE writes it; also that of the folder
    labels: tuple[str, ...] | None  # None: a number
    metrics: tuple[str, ...]  # of tasks.metrics; the first is the main one
    tables: Mapping[str, Table]  # by split: train, dev..., test...
    submissions: Mapping[str, str]  # GLUE's file names, by split
    # Other names of `labels`, in the same order: in Hugging Face's data sets,
    # or of outputs without names.
    hugging_face_labels: tuple[str, ...] = ()

    def splits(self, kind: str) -> list[str]:
        """The splits that begin with "dev" or "test"."""
        return [split for split in self.tables if split.startswith(kind)]

    def read(self, data_dir: str, split: str) -> list[InputExample]:
        """The examples of a split; labels are among `labels`.

        Args:
            data_dir: with the task's files, or with a folder of its name.

        Raises:
            InputError: no such file or no example in it, a row with more or
                fewer columns than the first, or a label that the task does
                not have; with the file and the line.
        """
        table = self.tables.get(split)
        if table is None:
            raise InputError(
                f"{self.name} has no {split} set; it has "
                f"{', '.join(self.tables)}"
            )
        name, *others = table.names or (f"{split}.tsv",)
        candidates = name, os.path.join(self.name, name), *others
        paths = [os.path.join(data_dir, each) for each in candidates]
        path = next(filter(os.path.exists, paths), paths[0])
        start = table.guid_start or split
        examples, width, num_bad = [], 0, 0
        for number, line in enumerate(read_bare_lines(path)):
            if not line:
                continue
            row, place = line.split("\t"), f"{path}, line {number + 1}"
            if not width:
                used = (table.text_a, table.text_b, table.label, table.guid)
                least = 1 + max(i for i in used if i is not None)
                width = len(row)
                if width < least:
                    raise InputError(
                        f"{place} has {width} columns parted by tabs, where "
                        f"{self.name} has at least {least}; check `data_dir` "
                        "and `task_name`"
                    )
                if table.has_header:
                    self._check_header(place, row, table, name)
                    continue
            if len(row) != width:
                if not table.skips_bad_rows:
                    raise InputError(
                        f"{place} has {len(row)} columns parted by tabs, where "
                        f"the first line has {width}; mend or remove it"
                    )
                num_bad += 1
                continue
            language = table.language
            if language is not None and row[language] != XNLI_LANGUAGE:
                continue
            label = None
            if table.label is not None:
                label = row[table.label]
                label = XNLI_TRAIN_SPELLING.get(label, label)
                if not self._has_label(label):
                    expected = ", ".join(self.labels or ("a number",))
                    raise InputError(
                        f"{place} has the label {label!r}; {self.name} expects "
                        f"{expected}"
                    )
            guid = number if table.guid is None else row[table.guid]
            text_b = None if table.text_b is None else row[table.text_b]
            examples.append(
                InputExample(
                    f"{start}-{guid}", row[table.text_a], text_b, label
                )
            )
        if num_bad:
            print(
                f"{path}: {num_bad} rows that do not have {width} columns are "
                "left out",
                file=sys.stderr,
            )
        if not examples:
            raise InputError(f"{path} holds no example of {self.name}")
        return examples

    def _check_header(
        self, place: str, row: list[str], table: Table, name: str
    ) -> None:
        """Refuses an example in place of the header, which would be lost, and
        another split's columns: in a dev.tsv copied to test.tsv, the labels of
        CoLA and SST-2 and the ids of QQP would be read as texts."""
        cell = row[0 if table.label is None else table.label]
        is_text = table.label is None and 0 in (table.text_a, table.text_b)
        if (
            self._has_label(cell)
            or to_number(cell) is not None
            or (is_text and " " in cell)
        ):
            raise InputError(
                f"{place} looks like an example ({cell!r} in column "
                f"{row.index(cell) + 1}); {self.name} expects a first line in "
                f"{name} that names the columns"
            )
        for column in (table.text_a, table.text_b):
            found = "" if column is None else row[column]
            if self._has_label(found) or found.lower() in NO_TEXTS:
                raise InputError(
                    f"{place} has {found!r} in a column where the texts in "
                    f"{name} of {self.name} are; is it the file of another "
                    "split?"
                )

    def _has_label(self, label: str) -> bool:
        if self.labels is None:
            return to_number(label) is not None
        return XNLI_TRAIN_SPELLING.get(label, label) in self.labels

    def submission(self, scores: np.ndarray) -> str:
        """The text of the file that GLUE's server takes.

        Args:
            scores: [N, C] in the order of the test file and of `labels`.
        """
        if self.labels is None:
            values = np.clip(scores[:, 0], *STS_B_RANGE)
            answers: Iterable[str] = (f"{value:.3f}" for value in values)
        else:
            answers = (self.labels[i] for i in scores.argmax(-1))
        lines = (f"{i}\t{answer}\n" for i, answer in enumerate(answers))
        return "index\tprediction\n" + "".join(lines)


def find_task(name: str) -> GlueTask:
    """By its name in any case, with or without hyphens.

    Raises:
        InputError: there is no such task.
    """
    wanted = name.lower().replace("-", "")
    for task in TASKS:
        if task.name.lower().replace("-", "") == wanted:
            return task
    raise InputError(
        f"`task_name={name}` is not known; expected one of "
        f"{', '.join(task.name for task in TASKS)}"
    )


def _task(
    name: str,
    labels: tuple[str, ...] | None,
    metrics: tuple[str, ...],
    train: Table,
    test: Table,
    hugging_face_labels: tuple[str, ...] = (),
) -> GlueTask:
    """With train.tsv, dev.tsv and test.tsv, and a file for GLUE's server."""
    tables = {"train": train, "dev": train, "test": test}
    submissions = {"test": f"{name}.tsv"}
    return GlueTask(
        name, labels, metrics, tables, submissions, hugging_face_labels
    )


_MNLI = Table(8, 9, label=-1, guid=0)

TASKS = (
    _task(
        "CoLA", BINARY, ("matthews", "accuracy"),
        Table(3, label=1, has_header=False), Table(1),
        ("unacceptable", "acceptable"),
    ),
    _task(
        "SST-2", BINARY, ("accuracy",), Table(0, label=1), Table(1),
        ("negative", "positive"),
    ),
    _task(
        "MRPC", BINARY, ("accuracy", "f1"), Table(3, 4, label=0), Table(3, 4),
        ("not_equivalent", "equivalent"),
    ),
    _task(
        "STS-B", None, ("pearson", "spearman"),
        Table(7, 8, label=9), Table(7, 8),
    ),
    _task(
        "QQP", BINARY, ("accuracy", "f1"),
        Table(3, 4, label=5, skips_bad_rows=True), Table(1, 2),
        ("not_duplicate", "duplicate"),
    ),
    GlueTask(
        "MNLI", INFERENCE, ("accuracy",),
        {
            "train": _MNLI,
            "dev": dataclasses.replace(
                _MNLI, names=("dev_matched.tsv",), guid_start="dev_matched"
            ),
            "dev_mismatched": _MNLI,
            "test": Table(8, 9, names=("test_matched.tsv",), guid=0),
            "test_mismatched": Table(8, 9, guid=0),
        },
        {"test": "MNLI-m.tsv", "test_mismatched": "MNLI-mm.tsv"},
        HUGGING_FACE_INFERENCE,
    ),
    _task("QNLI", ENTAILMENT, ("accuracy",), Table(1, 2, label=3), Table(1, 2)),
    _task("RTE", ENTAILMENT, ("accuracy",), Table(1, 2, label=3), Table(1, 2)),
    _task(
        "WNLI", BINARY, ("accuracy",), Table(1, 2, label=3), Table(1, 2),
        ("not_entailment", "entailment"),
    ),
    GlueTask(
        "AX", INFERENCE, ("matthews",),  # predicted by a model of MNLI
        # The last two names are of download_glue_data.py, which many used.
        {"test": Table(1, 2, names=(
            "AX.tsv", "diagnostic.tsv", "diagnostic/diagnostic.tsv",
        ))},
        {"test": "AX.tsv"},
        HUGGING_FACE_INFERENCE,
    ),
    GlueTask(
        "XNLI", INFERENCE, ("accuracy",),
        {
            "train": Table(
                0, 1, label=2, names=("multinli/multinli.train.zh.tsv",)
            ),
            "dev": Table(6, 7, label=1, names=("xnli.dev.tsv",), language=0),
        },
        {},
        HUGGING_FACE_INFERENCE,
    ),
)  # fmt: skip
