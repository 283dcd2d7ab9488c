"""The tasks of GLUE, and XNLI: files, labels, metrics, submissions.

Wang et al. 2018 (GLUE), Conneau et al. 2018 (XNLI). Upstream file:
run_classifier.py, whose four processors are CoLA, MNLI, MRPC and XNLI here.
"""

import dataclasses
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from bert_keras.data.text_files import read_bare_lines
from bert_keras.errors import InputError
from bert_keras.tasks.classification.data import InputExample

BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
INFERENCE = ("contradiction", "entailment", "neutral")  # upstream's order

XNLI_LANGUAGE = "zh"  # upstream's, like the two files' names
XNLI_TRAIN_SPELLING = {"contradictory": "contradiction"}
NO_TEXTS = "id index label is_duplicate qid1 qid2".split()  # names of columns
STS_B_RANGE = (0.0, 5.0)


@dataclasses.dataclass(frozen=True)
class Table:
    """A file of tab-separated columns, counted from 0; quotes are characters.

    A label of None: it has none.
    """

    name: str
    text_a: int
    text_b: int | None = None
    label: int | None = None
    has_header: bool = True
    guid: int | None = None  # None: guids count the file's lines from 0
    language: int | None = None  # rows of others than XNLI_LANGUAGE are skipped
    elsewhere: tuple[str, ...] = ()  # other names it may have
    guid_start: str | None = None  # of each guid; None: the split's name
    skips_bad_rows: bool = False  # QQP's: some broke at line ends in a text


@dataclasses.dataclass(frozen=True)
class GlueTask:
    name: str  # as GLUE writes it; also that of the folder
    labels: tuple[str, ...] | None  # None: a number
    metrics: tuple[str, ...]  # of tasks.metrics; the first is the main one
    tables: Mapping[str, Table]  # by split: train, dev, test, test_mismatched
    submissions: Mapping[str, str]  # GLUE's file names, by split
    # The labels' names in Hugging Face's data sets, if others, in this order.
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
        path = _find(data_dir, self.name, table)
        examples = list(self._examples(path, table, split))
        if not examples:
            raise InputError(f"{path} holds no example of {self.name}")
        return examples

    def _examples(
        self, path: str, table: Table, split: str
    ) -> Iterator[InputExample]:
        start, width, num_bad = table.guid_start or split, 0, 0
        for number, line in enumerate(read_bare_lines(path)):
            if not line:
                continue
            row = line.split("\t")
            if not width:
                used = (table.text_a, table.text_b, table.label, table.guid)
                least = 1 + max(i for i in used if i is not None)
                width = len(row)
                if width < least:
                    raise InputError(
                        f"{path}, line {number + 1} has {width} columns parted "
                        f"by tabs, where {self.name} has at least {least}; "
                        "check `data_dir` and `task_name`"
                    )
                if table.has_header:
                    self._check_header(path, number, row, table)
                    continue
            if len(row) != width:
                if not table.skips_bad_rows:
                    raise InputError(
                        f"{path}, line {number + 1} has {len(row)} columns "
                        f"parted by tabs, where the first line has {width}; "
                        "mend or remove it"
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
                        f"{path}, line {number + 1} has the label {label!r}; "
                        f"{self.name} expects {expected}"
                    )
            guid = number if table.guid is None else row[table.guid]
            text_b = None if table.text_b is None else row[table.text_b]
            text_a = row[table.text_a]
            yield InputExample(f"{start}-{guid}", text_a, text_b, label)
        if num_bad:
            print(
                f"{path}: {num_bad} rows that do not have {width} columns are "
                "left out",
                file=sys.stderr,
            )

    def _check_header(
        self, path: str, number: int, row: list[str], table: Table
    ) -> None:
        """Refuses an example in place of the header, which would be lost, and
        another split's columns: in a dev.tsv copied to test.tsv, the labels of
        CoLA and SST-2 and the ids of QQP would be read as texts."""
        place = f"{path}, line {number + 1}"
        index_or_label = row[0 if table.label is None else table.label]
        if self._has_label(index_or_label) or _is_number(index_or_label):
            raise InputError(
                f"{place} looks like an example ({index_or_label!r} in column "
                f"{row.index(index_or_label) + 1}); {self.name} expects a "
                f"first line in {table.name} that names the columns"
            )
        for column in (table.text_a, table.text_b):
            name = "" if column is None else row[column]
            if self._has_label(name) or name.lower() in NO_TEXTS:
                raise InputError(
                    f"{place} has {name!r} in a column where the texts in "
                    f"{table.name} of {self.name} are; is it the file of "
                    "another split?"
                )

    def _has_label(self, label: str) -> bool:
        if self.labels is None:
            return _is_number(label)
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
        return "".join(itertools.chain(["index\tprediction\n"], lines))


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


def _find(data_dir: str, folder: str, table: Table) -> str:
    """The file in `data_dir`, or in the folder of that name there."""
    names = table.name, os.path.join(folder, table.name), *table.elsewhere
    paths = [os.path.join(data_dir, name) for name in names]
    return next(filter(os.path.exists, paths), paths[0])


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _task(
    name: str,
    labels: tuple[str, ...] | None,
    metrics: tuple[str, ...],
    train: Table,
    test: Table,
    hugging_face_labels: tuple[str, ...] = (),
) -> GlueTask:
    """One with train.tsv, dev.tsv and test.tsv."""
    tables = {
        "train": train,
        "dev": dataclasses.replace(train, name="dev.tsv"),
        "test": test,
    }
    submissions = {"test": f"{name}.tsv"}
    return GlueTask(
        name, labels, metrics, tables, submissions, hugging_face_labels
    )


_COLA = Table("train.tsv", text_a=3, label=1, has_header=False)
_MNLI = Table("train.tsv", text_a=8, text_b=9, label=-1, guid=0)
# Where the script download_glue_data.py, which many used, has put it.
_AX_ELSEWHERE = ("diagnostic.tsv", "diagnostic/diagnostic.tsv")
_QQP = Table("train.tsv", 3, 4, label=5, skips_bad_rows=True)

TASKS = (
    _task(
        "CoLA",
        BINARY,
        ("matthews", "accuracy"),
        _COLA,
        Table("test.tsv", 1),
        ("unacceptable", "acceptable"),
    ),
    _task(
        "SST-2",
        BINARY,
        ("accuracy",),
        Table("train.tsv", 0, label=1),
        Table("test.tsv", 1),
        ("negative", "positive"),
    ),
    _task(
        "MRPC",
        BINARY,
        ("accuracy", "f1"),
        Table("train.tsv", 3, 4, label=0),
        Table("test.tsv", 3, 4),
        ("not_equivalent", "equivalent"),
    ),
    _task(
        "STS-B",
        None,
        ("pearson", "spearman"),
        Table("train.tsv", 7, 8, label=9),
        Table("test.tsv", 7, 8),
    ),
    _task(
        "QQP",
        BINARY,
        ("accuracy", "f1"),
        _QQP,
        Table("test.tsv", 1, 2),
        ("not_duplicate", "duplicate"),
    ),
    GlueTask(
        "MNLI",
        INFERENCE,
        ("accuracy",),
        {
            "train": _MNLI,
            "dev": dataclasses.replace(
                _MNLI, name="dev_matched.tsv", guid_start="dev_matched"
            ),
            "dev_mismatched": dataclasses.replace(
                _MNLI, name="dev_mismatched.tsv"
            ),
            "test": Table("test_matched.tsv", 8, 9, guid=0),
            "test_mismatched": Table("test_mismatched.tsv", 8, 9, guid=0),
        },
        {"test": "MNLI-m.tsv", "test_mismatched": "MNLI-mm.tsv"},
    ),
    _task(
        "QNLI",
        ENTAILMENT,
        ("accuracy",),
        Table("train.tsv", 1, 2, label=3),
        Table("test.tsv", 1, 2),
    ),
    _task(
        "RTE",
        ENTAILMENT,
        ("accuracy",),
        Table("train.tsv", 1, 2, label=3),
        Table("test.tsv", 1, 2),
    ),
    _task(
        "WNLI",
        BINARY,
        ("accuracy",),
        Table("train.tsv", 1, 2, label=3),
        Table("test.tsv", 1, 2),
        ("not_entailment", "entailment"),
    ),
    GlueTask(
        "AX",  # predicted by a model of MNLI
        INFERENCE,
        ("matthews",),
        {"test": Table("AX.tsv", 1, 2, elsewhere=_AX_ELSEWHERE)},
        {"test": "AX.tsv"},
    ),
    GlueTask(
        "XNLI",
        INFERENCE,
        ("accuracy",),
        {
            "train": Table("multinli/multinli.train.zh.tsv", 0, 1, label=2),
            "dev": Table("xnli.dev.tsv", 6, 7, label=1, language=0),
        },
        {},
    ),
)
