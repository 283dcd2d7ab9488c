"""GLUE's files, in the layouts that its tasks are distributed in."""

from pathlib import Path

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.classification.data import InputExample
from bert_keras.tasks.classification.glue import (
    INFERENCE,
    TASKS,
    GlueTask,
    Table,
    find_task,
)
from bert_keras.tasks.results import WRITTEN
from tests.conftest import ROOT

SHARED = ROOT.parent / "shared" / "data" / "glue"
PARSES = "\t".join(f"p{i}" for i in range(1, 8))  # columns 1 to 7 of MNLI


def write(folder: Path, name: str, *lines: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(folder)


LAYOUTS = [
    # task, split, file, lines, the examples
    (
        "cola", "train", "train.tsv",
        ["gj04\t1\t\tIt is.", "gj04\t0\t*\tIs it it."],
        [("train-0", "It is.", None, "1"), ("train-1", "Is it it.", None, "0")],
    ),
    (
        "cola", "test", "test.tsv", ["index\tsentence", "0\tIt is."],
        [("test-1", "It is.", None, None)],
    ),
    (
        "sst-2", "dev", "dev.tsv", ["sentence\tlabel", "so good \t1"],
        [("dev-1", "so good ", None, "1")],
    ),
    (
        "SST2", "test", "test.tsv", ["index\tsentence", "0\tso bad"],
        [("test-1", "so bad", None, None)],
    ),
    (
        "mrpc", "dev", "dev.tsv",
        ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
         '1\t7\t8\tHe said " no .\t" No . "'],
        [("dev-1", 'He said " no .', '" No . "', "1")],
    ),
    (
        "mrpc", "test", "test.tsv",
        ["index\t#1 ID\t#2 ID\t#1 String\t#2 String", "0\t7\t8\tA\tB"],
        [("test-1", "A", "B", None)],
    ),
    (
        "stsb", "train", "train.tsv",
        ["index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1"
         "\tsentence2\tscore", "0\tg\tf\t2012\t1\tn\tn\tA\tB\t3.800"],
        [("train-1", "A", "B", "3.800")],
    ),
    (
        "sts-b", "test", "test.tsv",
        ["index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1"
         "\tsentence2", "0\tg\tf\t2012\t1\tn\tn\tA\tB"],
        [("test-1", "A", "B", None)],
    ),
    (
        "qqp", "dev", "dev.tsv",
        ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
         "9\t1\t2\tA?\tB?\t0"],
        [("dev-1", "A?", "B?", "0")],
    ),
    (
        "qqp", "test", "test.tsv",
        ["id\tquestion1\tquestion2", "0\tA?\tB?"],
        [("test-1", "A?", "B?", None)],
    ),
    (
        "mnli", "train", "train.tsv",
        ["index" + "\th" * 11, f"31\t{PARSES}\tA\tB\tneutral\tentailment"],
        [("train-31", "A", "B", "entailment")],
    ),
    (
        "mnli", "dev", "dev_matched.tsv",
        ["index" + "\th" * 15,
         f"5\t{PARSES}\tA\tB\tneutral\tneutral\tneutral\tneutral\tneutral"
         "\tcontradiction"],
        [("dev_matched-5", "A", "B", "contradiction")],
    ),
    (
        "mnli", "dev_mismatched", "dev_mismatched.tsv",
        ["index" + "\th" * 15,
         f"5\t{PARSES}\tA\tB\tx\tx\tx\tx\tx\tneutral"],
        [("dev_mismatched-5", "A", "B", "neutral")],
    ),
    (
        "mnli", "test", "test_matched.tsv",
        ["index" + "\th" * 9, f"5\t{PARSES}\tA\tB"],
        [("test-5", "A", "B", None)],
    ),
    (
        "mnli", "test_mismatched", "test_mismatched.tsv",
        ["index" + "\th" * 9, f"5\t{PARSES}\tA\tB"],
        [("test_mismatched-5", "A", "B", None)],
    ),
    (
        "qnli", "train", "train.tsv",
        ["index\tquestion\tsentence\tlabel", "0\tA?\tB.\tnot_entailment"],
        [("train-1", "A?", "B.", "not_entailment")],
    ),
    (
        "rte", "test", "test.tsv",
        ["index\tsentence1\tsentence2", "0\tA\tB"],
        [("test-1", "A", "B", None)],
    ),
    (
        "wnli", "train", "train.tsv",
        ["index\tsentence1\tsentence2\tlabel", "0\tA\tB\t1"],
        [("train-1", "A", "B", "1")],
    ),
    (
        "ax", "test", "AX.tsv",
        ["index\tsentence1\tsentence2", "0\tA\tB"],
        [("test-1", "A", "B", None)],
    ),
    (
        "ax", "test", "diagnostic/diagnostic.tsv",
        ["index\tsentence1\tsentence2", "0\tA\tB"],
        [("test-1", "A", "B", None)],
    ),
    (
        "xnli", "train", "multinli/multinli.train.zh.tsv",
        ["premise\thypo\tlabel", "甲\t乙\tcontradictory", "丙\t丁\tneutral"],
        [("train-1", "甲", "乙", "contradiction"),
         ("train-2", "丙", "丁", "neutral")],
    ),
    (
        "xnli", "dev", "xnli.dev.tsv",
        ["language\tgold_label" + "\th" * 6,
         "de\tneutral\t\t\t\t\tA\tB", "zh\tentailment\t\t\t\t\t甲\t乙"],
        [("dev-2", "甲", "乙", "entailment")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("task", "split", "file", "lines", "expected"),
    LAYOUTS,
    ids=[f"{task}-{split}" for task, split, *_ in LAYOUTS],
)
def test_layouts(
    tmp_path: Path,
    task: str,
    split: str,
    file: str,
    lines: list[str],
    expected: list[tuple[str, str, str | None, str | None]],
) -> None:
    folder = write(tmp_path, file, *lines)
    found = find_task(task).read(folder, split)
    assert found == [InputExample(*values) for values in expected]


def test_every_file_of_every_task_has_its_layout_tested() -> None:
    tested = {(find_task(task).name, split) for task, split, *_ in LAYOUTS}
    files = {(task.name, split) for task in TASKS for split in task.tables}
    # Those of one form with another that is there.
    alike = {
        ("CoLA", "dev"), ("SST-2", "train"), ("MRPC", "train"),
        ("STS-B", "dev"), ("QQP", "train"), ("QNLI", "dev"), ("QNLI", "test"),
        ("RTE", "train"), ("RTE", "dev"), ("WNLI", "dev"), ("WNLI", "test"),
    }  # fmt: skip
    assert tested | alike == files


def test_labels_are_in_the_order_of_google_and_of_glue() -> None:
    assert {task.name: task.labels for task in TASKS} == {
        "CoLA": ("0", "1"),
        "SST-2": ("0", "1"),
        "MRPC": ("0", "1"),
        "STS-B": None,
        "QQP": ("0", "1"),
        "MNLI": ("contradiction", "entailment", "neutral"),
        "QNLI": ("entailment", "not_entailment"),
        "RTE": ("entailment", "not_entailment"),
        "WNLI": ("0", "1"),
        "AX": ("contradiction", "entailment", "neutral"),
        "XNLI": ("contradiction", "entailment", "neutral"),
    }


def test_official_metrics() -> None:
    assert {task.name: task.metrics for task in TASKS} == {
        "CoLA": ("matthews", "accuracy"),
        "SST-2": ("accuracy",),
        "MRPC": ("accuracy", "f1"),
        "STS-B": ("pearson", "spearman"),
        "QQP": ("accuracy", "f1"),
        "MNLI": ("accuracy",),
        "QNLI": ("accuracy",),
        "RTE": ("accuracy",),
        "WNLI": ("accuracy",),
        "AX": ("matthews",),
        "XNLI": ("accuracy",),
    }


@pytest.mark.parametrize(
    ("folder", "train", "dev", "test"),
    [
        ("MRPC", 3668, 408, 1725),
        ("CoLA", 8551, 1043, 1063),
        ("RTE", 2490, 277, 3000),
        ("STS-B", 5749, 1500, 1379),
        ("WNLI", 635, 71, 146),
    ],
)
def test_the_official_files(
    folder: str, train: int, dev: int, test: int
) -> None:
    if not SHARED.exists():
        pytest.skip(f"{SHARED} is not here")
    task = find_task(folder)
    for split, count in (("train", train), ("dev", dev), ("test", test)):
        examples = task.read(str(SHARED), split)
        assert len(examples) == count
        assert all(example.text_a for example in examples)
        assert all((e.label is None) == (split == "test") for e in examples)


def test_a_folder_of_tasks_is_a_data_folder_too(tmp_path: Path) -> None:
    write(tmp_path, "CoLA/dev.tsv", "gj04\t1\t\tIt is.")
    assert len(find_task("cola").read(str(tmp_path), "dev")) == 1
    inside = str(tmp_path / "CoLA")
    assert len(find_task("cola").read(inside, "dev")) == 1


def test_empty_lines_windows_lines_and_a_last_one_without_end(
    tmp_path: Path,
) -> None:
    text = "index\tsentence1\tsentence2\tlabel\r\n0\tA\tB\t1\r\n\r\n1\tC\tD\t0"
    (tmp_path / "dev.tsv").write_bytes(text.encode())
    assert find_task("wnli").read(str(tmp_path), "dev") == [
        InputExample("dev-1", "A", "B", "1"),
        InputExample("dev-3", "C", "D", "0"),
    ]


def test_broken_rows_of_qqp_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(
        tmp_path,
        "train.tsv",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "1\t1\t2\tA?\tB?\t0",
        '2\t3\t4\t"',
        "\tC?\t0",
        "3\t5\t6\tD?\tE?\t1",
    )
    found = find_task("qqp").read(folder, "train")
    assert [e.guid for e in found] == ["train-1", "train-4"]
    assert "2 rows" in capsys.readouterr().err


HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [HEADER, "1\t7\t8\tA\tB", "1\t7\t8\tA"],
            r"dev\.tsv, line 3 has 4 columns .* first line has 5",
        ),
        (
            [HEADER, "1\t7\t8\tA\tstray\tB"],
            r"dev\.tsv, line 2 has 6 columns .* first line has 5",
        ),
        (
            ["Quality,#1 ID,#2 ID,#1 String,#2 String", "1,7,8,A,B"],
            r"dev\.tsv, line 1 has 1 columns .* MRPC has at least 5",
        ),
        (
            [HEADER, "yes\t7\t8\tA\tB"],
            r"dev\.tsv, line 2 has the label 'yes'; MRPC expects 0, 1",
        ),
        ([], r"dev\.tsv holds no example of MRPC"),
        ([HEADER], r"dev\.tsv holds no example of MRPC"),
    ],
)
def test_bad_files_are_named_with_the_line(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    folder = write(tmp_path, "dev.tsv", *lines)
    with pytest.raises(InputError, match=message):
        find_task("mrpc").read(folder, "dev")


@pytest.mark.parametrize(
    ("task", "split", "file", "line"),
    [
        (task, split, file, lines[1])
        for task, split, file, lines, _ in LAYOUTS
        if (task, split) != ("cola", "train")  # has no header
    ],
)
def test_an_example_in_place_of_the_header_is_not_lost(
    tmp_path: Path, task: str, split: str, file: str, line: str
) -> None:
    folder = write(tmp_path, file, line, line)
    with pytest.raises(InputError, match="line 1 looks like an example"):
        find_task(task).read(folder, split)


def test_texts_alone_in_place_of_the_header_are_not_lost(
    tmp_path: Path,
) -> None:
    task = GlueTask("own", ("no", "yes"), ("accuracy",), {"test": Table(0)}, {})
    folder = write(tmp_path, "test.tsv", "sentence", "A boat.")
    assert [x.text_a for x in task.read(folder, "test")] == ["A boat."]
    folder = write(tmp_path, "test.tsv", "A boat.", "A ship.")
    with pytest.raises(InputError, match="line 1 looks like an example"):
        task.read(folder, "test")


@pytest.mark.parametrize("task", ["cola", "sst-2", "qqp"])
def test_a_dev_set_is_no_test_set(tmp_path: Path, task: str) -> None:
    """Texts and labels of these are in other columns."""
    rows = {
        "cola": ["gj04\t1\t\tIt is."] * 2,
        "sst-2": ["sentence\tlabel", "so good\t1"],
        "qqp": [
            "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
            "9\t1\t2\tA?\tB?\t0",
        ],
    }
    folder = write(tmp_path, "test.tsv", *rows[task])
    with pytest.raises(InputError, match="file of another split"):
        find_task(task).read(folder, "test")


def test_bad_scores_files_and_names(tmp_path: Path) -> None:
    row = "0\tg\tf\t2012\t1\tn\tn\tA\tB\t"
    folder = write(tmp_path, "train.tsv", row + "score", row + "nan")
    with pytest.raises(InputError, match="line 2 .*'nan'.* a number"):
        find_task("sts-b").read(folder, "train")
    with pytest.raises(InputError, match=r"dev\.tsv"):
        find_task("sts-b").read(folder, "dev")
    with pytest.raises(InputError, match="AX has no train set"):
        find_task("ax").read(folder, "train")
    with pytest.raises(InputError, match="`task_name=mrcp` .* MRPC"):
        find_task("mrcp")
    (tmp_path / "dev.tsv").write_bytes(row.encode() + b"\n\xff")
    with pytest.raises(InputError, match=r"dev\.tsv, line 2 is not UTF-8"):
        find_task("sts-b").read(folder, "dev")


def test_submissions() -> None:
    scores = np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    assert find_task("mnli").submission(scores) == (
        "index\tprediction\n0\tentailment\n1\tneutral\n"
    )
    assert find_task("rte").submission(scores[:, :2]) == (
        "index\tprediction\n0\tnot_entailment\n1\tentailment\n"
    )
    values = np.array([[2.34567], [-0.5], [5.2]])
    assert find_task("sts-b").submission(values) == (
        "index\tprediction\n0\t2.346\n1\t0.000\n2\t5.000\n"
    )


def test_names_of_submissions() -> None:
    names = [name for task in TASKS for name in task.submissions.values()]
    assert sorted(names) == [
        "AX.tsv", "CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "MRPC.tsv",
        "QNLI.tsv", "QQP.tsv", "RTE.tsv", "SST-2.tsv", "STS-B.tsv", "WNLI.tsv",
    ]  # fmt: skip


def test_names_in_hugging_faces_data_sets() -> None:
    """As huggingface.co/datasets/nyu-mll/glue has them, 0 before 1; of the
    others they are the labels themselves, of MNLI in another order."""
    three = {"entailment": 0, "neutral": 1, "contradiction": 2}
    by_number = tuple(f"LABEL_{three[name]}" for name in INFERENCE)
    names = {
        "CoLA": ("unacceptable", "acceptable"),
        "SST-2": ("negative", "positive"),
        "MRPC": ("not_equivalent", "equivalent"),
        "QQP": ("not_duplicate", "duplicate"),
        "WNLI": ("not_entailment", "entailment"),
        **dict.fromkeys(("MNLI", "AX", "XNLI"), by_number),
    }
    for task in TASKS:
        assert task.hugging_face_labels == names.get(task.name, ())


def test_submissions_are_among_the_results() -> None:
    names = {name for task in TASKS for name in task.submissions.values()}
    assert names < WRITTEN
