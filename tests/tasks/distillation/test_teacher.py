"""Students and models with a teacher, by the commands."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from bert_keras.data.tokenizer_folder import TokenizerOptions, open_tokenizer
from bert_keras.modeling.checkpoint import open_weights, save_model_folder
from bert_keras.tasks.classification.model import SingleLabel, TextClassifier
from bert_keras.tasks.classification.task import ClassificationTask, Problem
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.tasks.distillation.fine_tuning import Teacher
from bert_keras.tasks.fine_tuning import FineTuningConfig
from bert_keras.tasks.task_config import TaskConfig
from tests.command_world import LENGTHS, make_world
from tests.conftest import ONE_LAYER, fails_with, forked, tiny_context


def bits(folder: Path) -> dict[str, bytes]:
    weights = open_weights(str(folder))
    return {name: weights.read(name).tobytes() for name in weights.shapes}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a model for the masked language model, and one for the table."""
    folder = tmp_path_factory.mktemp("world")
    make_world(folder, num_layers=2)
    settings = TaskConfig("single_label", 16, True, labels=("0", "1"))
    model = TextClassifier(ONE_LAYER, SingleLabel(settings.labels))
    path = folder / "taught"
    path.mkdir()
    vocab_file = str(folder / "model" / "vocab.txt")
    save_model_folder(str(path), ONE_LAYER, model.mappings(), vocab_file)
    (path / "task.json").write_text(settings.to_json())
    forked(
        "create_pretraining_data.py",
        f"--input_file={folder / 'corpus.txt'}",
        f"--output_file={folder / 'some.tfrecord'}",
        f"--vocab_file={vocab_file}",
        *LENGTHS.split(),
        *("--dynamic_masking", "--num_workers=1"),
    )
    return folder


def distilling(world: Path, output_dir: Path, num_layers: int) -> list[str]:
    return [
        "--do_train",
        f"--input_file={world / 'some.tfrecord'}",
        f"--teacher_model_dir={world / 'model'}",
        f"--output_dir={output_dir}",
        f"--num_student_layers={num_layers}",
        *LENGTHS.split(),
        "--train_batch_size=4",
        "--num_train_steps=4",
        "--num_warmup_steps=1",
        "--save_checkpoints_steps=2",
        "--learning_rate=1e-3",
        f"--eval_file={world / 'some.tfrecord'}",
        "--eval_steps=3",
        "--best_metric=cosine_loss",
    ]


@pytest.mark.slow
def test_a_student_from_start_to_a_task(world: Path) -> None:
    """Distilled, stopped and gone on with to the same bits, taken to Hugging
    Face's form, taught a task by another teacher."""
    student = world / "student"
    args = [*distilling(world, student, 1), "--student_layers=1"]
    said = forked("run_pretraining.py", *args)
    assert "the student has layers 1 of it" in said
    lines = (student / "train_log.jsonl").read_text().splitlines()
    parts = {"soft_target_loss", "masked_lm_loss", "cosine_loss"}
    assert len(lines) == 4 and parts <= json.loads(lines[3]).keys()
    seen = (student / "eval_log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in seen] == [3, 4]
    assert (student / "vocab.txt").is_file()
    expected = bits(student)
    assert not any("layer_1" in n or "token_type" in n for n in expected)
    for path in student.glob("training_state/step-4*"):
        path.unlink()
    forked("run_pretraining.py", *args)
    assert bits(student) == expected
    only = [arg for arg in args if arg != "--do_train" and "_st" not in arg]
    only = [arg for arg in only if "best_metric" not in arg]
    said = forked(
        "run_pretraining.py",
        *only,
        "--do_eval",
        "--num_student_layers=1",
        "--student_layers=1",
    )
    assert "cosine_loss = " in said

    there = world / "hugging_face"
    forked(
        "convert_checkpoint.py",
        f"--init_checkpoint={student}",
        f"--output_dir={there}",
        "--do_lower_case",
    )
    config = json.loads((there / "config.json").read_text())
    assert config["architectures"] == ["DistilBertForMaskedLM"]
    forked(
        "run_classifier.py",
        "--do_train",
        f"--train_file={world / 'table.tsv'}",
        f"--init_checkpoint={there}",
        f"--teacher_model_dir={world / 'taught'}",
        f"--output_dir={world / 'small'}",
        "--max_seq_length=16",
        "--train_batch_size=2",
        "--num_train_epochs=1",
        "--do_eval",
        f"--eval_file={world / 'table.tsv'}",
    )
    assert (world / "small" / "eval_classes.txt").is_file()
    log = (world / "small" / "train_log.jsonl").read_text().splitlines()
    step = json.loads(log[0])
    half = (step["task_loss"] + step["soft_target_loss"]) / 2
    assert step["loss"] == pytest.approx(half, rel=1e-5)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("--student_layers=0,3", "--student_layers is 0,3; expected"),
        ("--student_layers=1", "names 1 layers but --num_student_layers is 2"),
        ("--bert_config_file={}/model/bert_config.json", "is of no use with"),
        ("--direction=left_to_right", "--direction=left_to_right is of no use"),
        ("--next_sentence_prediction", "not part of what a teacher teaches"),
        ("--teacher_model_dir={}/taught", "has no cls/predictions/"),
        ("--teacher_model_dir={}", "has no bert_config.json or config.json"),
        ("--teacher_model_dir=", "--num_student_layers is for a model with a"),
    ],
)
def test_what_a_student_cannot_be_is_said(
    world: Path, wrong: str, sentence: str
) -> None:
    args = distilling(world, world / "refused", 2)
    said = fails_with("run_pretraining.py", *args, wrong.format(world))
    assert sentence in said


def test_what_is_for_a_teacher_is_refused_without_one(world: Path) -> None:
    said = fails_with(
        "run_classifier.py",
        "--do_train",
        f"--train_file={world / 'table.tsv'}",
        f"--init_checkpoint={world / 'model'}",
        f"--output_dir={world / 'refused'}",
        "--max_seq_length=16",
        "--distillation_weight=0.9",
    )
    assert "are for a model with a teacher" in said


def test_a_teacher_that_reads_texts_otherwise_is_said(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = TaskConfig("single_label", 16, True, labels=("0", "1"))
    problem = Problem(SingleLabel(settings.labels), (), [], {}, {}, False)
    vocab_file = str(world / "model" / "vocab.txt")
    for options, is_said in (
        (TokenizerOptions(do_lower_case=True), False),
        (TokenizerOptions(True, None, ["[unused0]"]), True),
    ):
        context = dataclasses.replace(
            tiny_context(world / "out", vocab_file),
            tokenizer=open_tokenizer(str(world / "model"), None, options),
        )
        task = ClassificationTask(
            problem, settings, context, FineTuningConfig()
        )
        capsys.readouterr()
        Teacher(task, TaskDistillation(str(world / "taught")))
        said = capsys.readouterr().err
        assert ("texts are read with added_tokens = " in said) == is_said


def test_a_teacher_of_something_else_is_refused(world: Path) -> None:
    for name, change in (
        ("other", {"labels": ["1", "2"]}),
        ("recurrent", {"bilstm": True}),
    ):
        shutil.copytree(world / "taught", world / name)
        path = world / name / "task.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
    command = [
        "--do_train",
        f"--train_file={world / 'table.tsv'}",
        f"--init_checkpoint={world / 'model'}",
        f"--output_dir={world / 'refused'}",
        "--max_seq_length=16",
    ]
    for teacher, sentence in (
        ("other", "was trained with labels = ('1', '2') but here it is"),
        ("recurrent", "was trained with bilstm = True but here it is False"),
        ("model", "has no task.json"),
    ):
        said = fails_with(
            "run_classifier.py",
            *command,
            f"--teacher_model_dir={world / teacher}",
        )
        assert sentence in said
