"""Tests of tasks/classifier_head.py, and of how runs load a classifier."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import save_model_folder
from bert_keras.modeling.hugging_face import save_hugging_face_folder
from bert_keras.modeling.hugging_face_names import TAGGER
from bert_keras.tasks.classification.glue import HUGGING_FACE_INFERENCE
from bert_keras.tasks.classification.model import TextClassifier, make_target
from bert_keras.tasks.classification.task import ClassificationTask, Problem
from bert_keras.tasks.distillation.teacher import load_teacher
from bert_keras.tasks.fine_tuning import FineTuningConfig
from bert_keras.tasks.task_config import TASK, TaskConfig
from bert_keras.tasks.trainer import Trainer
from tests.conftest import GOLDEN, TINY, tiny_context

SMALL = dataclasses.replace(TINY, num_hidden_layers=1)
GLUE = ("contradiction", "entailment", "neutral")
NLI = ("contradiction", "neutral", "entailment")


def texts(*labels: str, **changes: Any) -> TaskConfig:
    target = "single_label" if labels else "regression"
    values = {"target": target, "labels": labels, **changes}
    return TaskConfig(max_seq_length=16, do_lower_case=True, **values)


def make(settings: TaskConfig) -> TextClassifier:
    return TextClassifier(SMALL, make_target(settings.target, settings.labels))


def head_of(model: Any) -> list[list[float]]:
    """The first weight of each row, and its bias."""
    weights, bias = model.head.output_weights, model.head.output_bias
    rows = np.concatenate([weights.numpy()[:, :1], bias.numpy()[:, None]], 1)
    return rows.tolist()


ROWS = [[10.0, 1.0], [20.0, 2.0], [30.0, 3.0]]


def save(folder: Path, stored: TaskConfig | None, as_: str = "google") -> str:
    """A model whose rows are those of ROWS."""
    count = len(stored.labels) if stored else 3
    model = make(stored or texts(*GLUE))
    for mapping in model.mappings():
        value = np.zeros(mapping.shape, np.float32)
        if mapping.name.startswith("output_"):
            columns = np.array(ROWS[: max(count, 1)], np.float32)
            value[...] = (
                columns[:, 1]
                if mapping.name == "output_bias"
                else columns[:, :1]
            )
        mapping.write(value)
    if as_ == "google":
        save_model_folder(str(folder), SMALL, model.mappings(), None)
        if stored is not None:
            (folder / TASK).write_text(stored.to_json())
    else:
        assert stored is not None
        save_hugging_face_folder(
            str(folder),
            SMALL,
            model.mappings(),
            None,
            stored.labels,
            classifier=TAGGER if stored.target == "tags" else "For" + as_,
        )
    return str(folder)


def run_of(
    folder: Path,
    start: str,
    settings: TaskConfig,
    other_names: tuple[str, ...] = (),
    keeps: bool = False,
) -> Trainer:
    context = tiny_context(
        folder / "out",
        str(GOLDEN / "tiny_vocab.txt"),
        init_checkpoint=start,
        keep_classifier_head=keeps,
    )
    context = dataclasses.replace(context, config=SMALL)
    target = make_target(settings.target, settings.labels)
    problem = Problem(target, (), [], {}, {}, False)
    task = ClassificationTask(problem, settings, context, FineTuningConfig())
    task.other_names = other_names
    return Trainer(task, context, 0)


@pytest.mark.parametrize("kind", ["google", "SequenceClassification"])
@pytest.mark.parametrize("trains", [True, False])
def test_rows_go_to_the_labels_of_their_names(
    tmp_path: Path, kind: str, trains: bool
) -> None:
    """Entailment is the checkpoint's third label and GLUE's second."""
    start = save(tmp_path / "start", texts(*NLI), kind)
    run = run_of(tmp_path, start, texts(*GLUE))
    if trains:
        run.load_start(start)
    else:
        run.restore()
    assert head_of(run.model) == [ROWS[0], ROWS[2], ROWS[1]]


def test_names_of_hugging_faces_data_sets_and_no_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("not_equivalent", "equivalent")
    start = save(tmp_path / "mrpc", texts(*names[::-1]))
    run = run_of(tmp_path, start, texts("0", "1"), names)
    run.restore()
    assert head_of(run.model) == [ROWS[1], ROWS[0]]
    assert "taken to be" not in capsys.readouterr().out
    start = save(tmp_path / "generic", texts("LABEL_0", "LABEL_1"))
    run = run_of(tmp_path, start, texts("0", "1"), names)
    run.restore()
    assert head_of(run.model) == [ROWS[0], ROWS[1]]
    assert "they are taken to be 0, 1, in this order" in capsys.readouterr().out
    start = save(tmp_path / "mnli", texts("LABEL_0", "LABEL_1", "LABEL_2"))
    run = run_of(tmp_path, start, texts(*GLUE), HUGGING_FACE_INFERENCE)
    run.restore()
    assert head_of(run.model) == [ROWS[2], ROWS[0], ROWS[1]]
    assert (
        "they are taken to be entailment, neutral, contradiction, in this order"
        in capsys.readouterr().out
    )


OTHERS = {
    "names": (texts("cat", "dog", "cow"), texts(*GLUE),
              "has the labels cat, dog, cow; the data has contradiction, enta"),
    "number": (texts("cat", "dog"), texts(*GLUE), "has the labels cat, dog; "),
    "tagger": (texts(*GLUE, target="tags"), texts(*GLUE),
               "trained with target = 'tags', and here it is 'single_label'"),
    "several": (texts(*GLUE, target="multi_label"), texts(*GLUE),
                "with target = 'multi_label'"),
    "number in text": (texts(), texts(*GLUE), "with target = 'regression'"),
    "recurrent": (texts(*GLUE, bilstm=True), texts(*GLUE), "bilstm = True"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_another_head_starts_anew_in_training_and_is_refused_in_use(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stored, own, sentence = OTHERS[name]
    start = save(tmp_path / "start", stored)
    run = run_of(tmp_path, start, own)
    before = head_of(run.model)
    run.load_start(start)
    assert head_of(run.model) == before
    said = capsys.readouterr().out
    (line,) = [x for x in said.splitlines() if "starts anew" in x]
    assert line.startswith("the classifier head starts anew: the checkpoint ")
    assert sentence in line
    assert ("(`keep_classifier_head` keeps it" in line) == (
        len(stored.labels) == 3
    )
    with pytest.raises(
        InputError, match="is for something else: .*or `do_train"
    ):
        run.restore()


def test_a_head_is_kept_where_it_is_said(tmp_path: Path) -> None:
    start = save(tmp_path / "start", texts("cat", "dog", "cow"))
    run = run_of(tmp_path, start, texts(*GLUE), keeps=True)
    run.restore()
    assert head_of(run.model) == ROWS
    run = run_of(tmp_path, start, texts("0", "1"), keeps=True)
    for load in (run.restore, lambda: run.load_start(start)):
        with pytest.raises(InputError, match=r"is \[3, 40\], and here \[2, 40"):
            load()


def test_a_head_that_nothing_is_said_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Google's are taken if their number is right; Hugging Face's of a class
    that is not known are not."""
    start = save(tmp_path / "google", None)
    run = run_of(tmp_path, start, texts(*GLUE))
    run.restore()
    assert head_of(run.model) == ROWS
    assert (
        "does not name its labels: they are taken to be contradiction, "
        "entailment, neutral, in this order" in capsys.readouterr().out
    )
    run = run_of(tmp_path, start, texts("0", "1"))
    run.load_start(start)
    assert (
        "starts anew: in the checkpoint it is [3, 40], and here [2, 40], "
        in (capsys.readouterr().out)
    )
    start = save(tmp_path / "theirs", texts(*GLUE), "MultiLabelClassification")
    run = run_of(tmp_path, start, texts(*GLUE))
    with pytest.raises(InputError, match="does not say what its classifier is"):
        run.restore()


def test_a_teacher_answers_in_the_order_of_its_student(tmp_path: Path) -> None:
    folder = save(tmp_path / "teacher", texts(*NLI))
    settings = texts(*GLUE)
    teacher = make(settings)
    load_teacher(teacher.mappings(), folder, settings)
    assert head_of(teacher) == [ROWS[0], ROWS[2], ROWS[1]]
