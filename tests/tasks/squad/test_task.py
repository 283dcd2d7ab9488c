"""Tests of tasks/squad/task.py that need no model."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.batching import InMemoryBatches
from bert_keras.data.input_features import InputFeatures
from bert_keras.errors import InputError
from bert_keras.tasks.fine_tuning import FineTuningConfig, TrainingData
from bert_keras.tasks.squad.evaluation import (
    best_thresholds,
    evaluate_v1,
    evaluate_v2,
)
from bert_keras.tasks.squad.task import SquadConfig, SquadTask
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.tasks.trainer import Trainer
from bert_keras.training.config import ModelSelection
from bert_keras.training.inference import Predictor
from tests.conftest import GOLDEN, tiny_context

QUESTIONS = str(GOLDEN / "squad" / "train.json")


def job(
    folder: Path,
    predict_file: str = QUESTIONS,
    applies_best: bool = False,
    is_scored: bool = False,
    dry: bool = False,
    is_v2: bool = True,
) -> SquadTask:
    selection = ModelSelection(eval_steps=3 if is_scored else 0)
    return SquadTask(
        SquadConfig(
            QUESTIONS, predict_file, apply_best_null_threshold=applies_best
        ),
        TaskConfig(
            "span", 48, True, doc_stride=16, max_query_length=12,
            version_2_with_negative=is_v2,
        ),
        tiny_context(
            folder, str(GOLDEN / "tiny_vocab.txt"), do_train=True, dry_run=dry
        ),
        FineTuningConfig(selection=selection),
    )  # fmt: skip


def run_with_losses(folder: Path, *losses: float) -> Trainer:
    """What `check` needs of a run: its folder, with the log."""
    lines = [json.dumps({"loss": loss}) for loss in losses]
    (folder / "train_log.jsonl").write_text("\n".join(lines))
    return cast(Trainer, SimpleNamespace(folder=str(folder)))


@pytest.mark.parametrize("is_v2", [False, True])
def test_models_can_be_compared_by_what_is_measured(
    tmp_path: Path, is_v2: bool
) -> None:
    measured = evaluate_v1(["oil"], [["oil"]])
    if is_v2:
        measured = {
            **evaluate_v2(["oil"], [["oil"]]),
            **best_thresholds(["oil"], [0.0], [["oil"]]),
        }
    first, *others = job(tmp_path, is_v2=is_v2).metric_names
    assert first == "f1" and {first, *others} <= set(measured)
    assert ("best_exact" if is_v2 else "exact_match") in others


def labels_of(data: TrainingData) -> Mapping[str, np.ndarray]:
    source = data.batches(batch_size=1, max_seq_length=20, seed=0)
    assert isinstance(source, InMemoryBatches)
    return source.labels


def test_an_epoch_has_as_many_rows_as_there_are_questions(
    tmp_path: Path,
) -> None:
    long = job(tmp_path)
    long.settings = TaskConfig(
        "span", 20, True, doc_stride=4, max_query_length=6,
        version_2_with_negative=True,
    )  # fmt: skip
    data = long.training_data()
    assert data.num_examples == 6 < data.num_rows
    assert not data.packs
    long.problem = dataclasses.replace(long.problem, padding_in_loss=False)
    assert long.training_data().packs
    for positions in labels_of(data).values():
        assert positions.shape == (data.num_rows, 1)


@pytest.mark.parametrize(("offsets", "place"), [("exact", 6), ("google", 4)])
def test_answer_offsets_reach_the_labels(
    tmp_path: Path, offsets: str, place: int
) -> None:
    """[CLS] ? [SEP] sea the - the [SEP]: the answer is the second "the"."""
    answer = {"text": "the", "answer_start": 8}
    qas = [{"id": "q", "question": "?", "answers": [answer]}]
    paragraphs = [{"context": "sea the-the", "qas": qas}]
    path = tmp_path / "asked.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    asked = job(tmp_path, str(path))
    asked.problem = SquadConfig(str(path))
    asked.settings = dataclasses.replace(asked.settings, answer_offsets=offsets)
    labels = labels_of(asked.training_data())
    assert labels["start_positions"].tolist() == [[place]]
    assert labels["end_positions"].tolist() == [[place]]


def test_outputs_that_overflow_are_refused(tmp_path: Path) -> None:
    """In all tasks that are fine-tuned."""

    def forward(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {"logits": 1.0 / tf.cast(batch["input_ids"] - 8, tf.float32)}

    trainer = cast(Trainer, SimpleNamespace(predictor=Predictor(forward)))
    texts = [[InputFeatures([2, n, 3], [0, 0, 0])] for n in (7, 9, 8)]
    outputs = job(tmp_path).outputs(trainer, texts, batch_size=2)
    for last in (-1, 1):
        (found,) = next(outputs)
        assert found["logits"][1] == pytest.approx(last)
    with pytest.raises(InputError, match="numbers for text 3 overflow, so"):
        next(outputs)


def test_what_was_read_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = "the old man saw the old sea. " * 5
    qas = [
        # 3, 5 and 14 tokens, of which 12 are read: 1, 1 and 2 windows
        {"id": "a", "question": "the sea?", "answers": []},
        {"id": "b", "question": "the old sea, ?", "answers": []},
        {"id": "c", "question": "the sea " * 7, "answers": []},
    ]
    empty = {"id": "d", "question": "the sea?", "answers": []}
    paragraphs = [
        {"context": context, "qas": qas},
        {"context": " ", "qas": [empty]},
    ]
    path = tmp_path / "asked.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    asked = job(tmp_path, str(path), dry=True)
    asked.problem = SquadConfig(str(path), str(path))
    asked.training_data()
    asked.prepare()
    read = (
        f"{path}: 1 articles, 2 paragraphs, 4 questions: 0 with an answer, 4 "
        "without, 1 empty paragraphs"
    )
    lengths = (
        "questions of 3 to 14 tokens, median 5; paragraphs of 40 to 40 tokens, "
        "median 40"
    )
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        read,
        f"{tmp_path}/train.tf_record: 4 questions, 4 windows",
        lengths,
        read,
        f"{tmp_path}/eval.tf_record: 4 questions, 4 windows",
        lengths,
    ]
    cut = (
        "1 of 4 questions are longer than `max_query_length=12` tokens and "
        "were cut"
    )
    unread = (
        "1 of 4 questions are about a paragraph with nothing readable in it "
        "and "
    )
    assert said.err.splitlines() == [
        cut,
        unread + "are not trained on",
        cut,
        unread + "get the answer ''",
    ]
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs[1:]}]}))
    with pytest.raises(InputError, match="nothing readable in its paragraphs"):
        asked.training_data()


def test_a_loss_that_never_fell_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = job(tmp_path)
    asked.training_data()
    # Rows of 23 to 33 pieces: guessing costs 3.32 nats, the mean logarithm.
    asked.check(run_with_losses(tmp_path, 5.0, 2.9))
    assert not capsys.readouterr().err
    asked.check(run_with_losses(tmp_path, 5.0, 3.4))
    assert "the training loss ended at 3.400" in capsys.readouterr().err


def test_a_model_that_answers_nothing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = job(tmp_path)
    asked.num_answered = 1
    asked.check(run_with_losses(tmp_path, 1.0))
    assert not capsys.readouterr().err
    asked.num_answered = 0
    asked.check(run_with_losses(tmp_path, 1.0))
    assert "not one of 6 questions is answered" in capsys.readouterr().err


def test_what_needs_answers_asks_for_them(tmp_path: Path) -> None:
    content: Any = json.loads(Path(QUESTIONS).read_text())
    del content["data"][0]["paragraphs"][0]["qas"][1]["answers"]
    path = tmp_path / "asked.json"
    path.write_text(json.dumps(content))
    job(tmp_path, str(path)).prepare()
    with pytest.raises(InputError, match="none for 1 of its questions"):
        job(tmp_path, str(path), applies_best=True).prepare()
    with pytest.raises(InputError, match="no answers for 1 of its questions"):
        job(tmp_path, str(path), is_scored=True).prepare()
