"""Tests of run_squad.py and tasks/squad/task.py, as a user would start them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.record_schema import span_features
from bert_keras.data.tfrecords import parse_batch
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.modeling.checkpoint import load_checkpoint, save_model_folder
from bert_keras.tasks.squad.data import read_examples
from bert_keras.tasks.squad.evaluation import evaluate_v2
from bert_keras.tasks.squad.features import make_windows
from bert_keras.tasks.squad.model import QuestionAnsweringModel
from bert_keras.tasks.squad.postprocessing import Answerer, Logits
from bert_keras.tasks.task_config import TaskConfig
from tests.conftest import GOLDEN, TINY, fails_with, forked, results, run
from tests.tasks.squad.test_postprocessing import answers

QUESTIONS = GOLDEN / "squad" / "train.json"
RECORDED = np.load(GOLDEN / "squad" / "training.npz")
VOCABULARY = str(GOLDEN / "tiny_vocab.txt")
NUM_STEPS = 10
FLAGS = (
    f"--train_file={QUESTIONS}",
    f"--predict_file={QUESTIONS}",
    "--version_2_with_negative",
    "--max_seq_length=48",
    "--doc_stride=16",
    "--max_query_length=12",
    "--train_batch_size=6",  # all of them: the order does not matter
    f"--num_train_epochs={NUM_STEPS}",
    "--learning_rate=1e-3",
)
SETTINGS = TaskConfig(
    "span", 48, True, doc_stride=16, max_query_length=12,
    version_2_with_negative=True,
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that starts where the original's did, and what it printed."""
    start = tmp_path_factory.mktemp("start")
    model = QuestionAnsweringModel(TINY)
    load_checkpoint(model.mappings(), str(GOLDEN / "tiny_bert"))
    model.head.output_weights.assign(RECORDED["initial/output_weights"])
    model.head.output_bias.assign(RECORDED["initial/output_bias"])
    save_model_folder(str(start), TINY, model.mappings(), VOCABULARY)
    folder = tmp_path_factory.mktemp("trained")
    output = run(
        "run_squad.py",
        *FLAGS,
        f"--init_checkpoint={start}",
        f"--output_dir={folder}",
        "--do_train",
        "--do_predict",
    )
    return folder, output


def read_json(path: Path) -> dict:
    return json.loads(path.read_text())


def test_training_is_googles(trained: tuple[Path, str]) -> None:
    folder, output = trained
    lines = (folder / "train_log.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    np.testing.assert_allclose(losses, RECORDED["losses"], atol=1e-4)
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    names = [n for n in RECORDED if n.startswith("final/")]
    assert len(names) == 5
    for name in names:
        found = reader.get_tensor(name.removeprefix("final/"))
        np.testing.assert_allclose(found, RECORDED[name], atol=1e-4)
    assert f"predict.py --model_dir={folder}" in output


def test_train_records_are_googles_in_its_order(
    trained: tuple[Path, str],
) -> None:
    path = str(trained[0] / "train.tf_record")
    serialized = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    features = span_features(48, has_answers=True)
    found = parse_batch(features, tf.constant(serialized))
    assert np.array_equal(found["input_ids"], RECORDED["train_input_ids"])
    names = ("start_positions", "end_positions", "is_impossible")
    positions = np.concatenate([found[name] for name in names], axis=1)
    assert np.array_equal(positions, RECORDED["train_positions"])
    assert found["unique_ids"][:, 0].numpy().tolist() == [
        1000000000 + i for i in range(6)
    ]


def test_eval_records_have_no_answers_and_the_files_order(
    trained: tuple[Path, str],
) -> None:
    path = str(trained[0] / "eval.tf_record")
    records = [
        tf.train.Example.FromString(record).features.feature
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator()
    ]
    assert sorted(records[0]) == [
        "input_ids", "input_mask", "segment_ids", "unique_ids",
    ]  # fmt: skip
    tokenizer = FullTokenizer(VOCABULARY)
    questions = [e.question for e in read_examples(str(QUESTIONS), True, False)]
    for record, question in zip(records, questions, strict=True):
        pieces = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(question))
        ids = record["input_ids"].int64_list.value
        assert ids[1 : len(pieces) + 1] == pieces


def test_answers_are_those_of_the_originals_logits(
    trained: tuple[Path, str],
) -> None:
    folder, _ = trained
    tokenizer = FullTokenizer(VOCABULARY)
    examples = read_examples(str(QUESTIONS), True, False)
    windows = make_windows(examples, tokenizer, SETTINGS)
    logits = [
        # of the row alone, without its padding
        Logits(start[: len(w.row.input_ids)], end[: len(w.row.input_ids)])
        for start, end, (w,) in zip(
            RECORDED["start_logits"],
            RECORDED["end_logits"],
            windows,
            strict=True,
        )
    ]
    answerer = Answerer(tokenizer, SETTINGS)
    expected = answers(answerer, examples, windows, logits)
    predictions = read_json(folder / "predictions.json")
    nbest = read_json(folder / "nbest_predictions.json")
    odds = read_json(folder / "null_odds.json")
    ids = [example.id for example in examples]
    assert list(predictions) == list(nbest) == list(odds) == ids
    for name, answer in zip(ids, expected, strict=True):
        assert predictions[name] == answer.text(0.0)
        assert odds[name] == pytest.approx(answer.null_odds, abs=1e-3)
        for found, scored, probability in zip(
            nbest[name], answer.nbest, answer.probabilities, strict=True
        ):
            assert found["text"] == scored.text
            assert found["start_logit"] == pytest.approx(
                scored.start_logit, abs=1e-3
            )
            assert found["probability"] == pytest.approx(probability, abs=1e-3)


def test_results_are_those_of_the_predictions(
    trained: tuple[Path, str],
) -> None:
    folder, output = trained
    golds = {e.id: e.golds for e in read_examples(str(QUESTIONS), True, False)}
    predictions = read_json(folder / "predictions.json")
    expected = evaluate_v2(
        list(predictions.values()), [golds[name] or () for name in predictions]
    )
    found = results(folder)
    assert found["global_step"] == NUM_STEPS
    assert {n: found[n] for n in expected} == pytest.approx(expected)
    assert 0.0 < found["f1"] <= found["best_f1"]
    assert f"f1 = {found['f1']}" in output


def test_the_best_threshold_is_applied_on_request(
    trained: tuple[Path, str], tmp_path: Path
) -> None:
    folder, _ = trained
    (tmp_path / "task.json").write_text((folder / "task.json").read_text())
    forked(
        "run_squad.py",
        *FLAGS,
        f"--init_checkpoint={folder}",
        f"--output_dir={tmp_path}",
        "--do_predict",
        "--null_score_diff_threshold=1000",
        "--apply_best_null_threshold",
    )
    found = results(tmp_path)
    threshold = found["best_f1_thresh"]
    task = read_json(tmp_path / "task.json")
    assert task["null_score_diff_threshold"] == threshold < 0.0
    odds = read_json(tmp_path / "null_odds.json")
    predictions = read_json(tmp_path / "predictions.json")
    unanswered = {name for name, text in predictions.items() if not text}
    assert unanswered == {n for n, value in odds.items() if value > threshold}
    assert 0 < len(unanswered) < len(odds)
    assert found["f1"] == pytest.approx(found["best_f1"])
    assert found["best_f1"] == pytest.approx(results(folder)["best_f1"])


def test_scores_of_other_questions_do_not_stay(
    trained: tuple[Path, str], tmp_path: Path
) -> None:
    """Of a model that was asked about questions with answers, then without."""
    folder = tmp_path / "model"
    shutil.copytree(trained[0], folder)
    assert (folder / "null_odds.json").exists()
    asked = json.loads(QUESTIONS.read_text())
    for article in asked["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                del question["answers"]
                question.pop("is_impossible", None)
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    forked(
        "run_squad.py",
        "--do_predict",
        f"--predict_file={tmp_path}/asked.json",
        f"--output_dir={folder}",
        "--noversion_2_with_negative",
    )
    earlier = {path.name for path in (folder / "earlier_results").iterdir()}
    assert earlier == {"eval_results.txt", "null_odds.json"}
    assert not any((folder / name).exists() for name in earlier)
    assert (folder / "predictions.json").exists()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--do_train",), "--train_file is missing: it names SQuAD's JSON"),
        (
            (
                "--do_predict",
                "--predict_file=x",
                f"--bert_config_file={GOLDEN}/tiny_bert/bert_config.json",
                f"--vocab_file={GOLDEN}/tiny_vocab.txt",
                "--max_seq_length=34",
                "--max_query_length=31",
            ),
            "--max_seq_length is 34, which leaves no room beside a question of"
            " --max_query_length=31 and 3 separators; raise the one or lower "
            "the other",
        ),
    ],
)
def test_wrong_flags_are_refused(flags: tuple[str, ...], sentence: str) -> None:
    refusal = fails_with("run_squad.py", "--output_dir=/nowhere", *flags)
    assert refusal == f"run_squad.py: {sentence}"


def test_questions_to_answer_are_read_before_training(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"data": [{"paragraphs": [{"qas": []}]}]}')
    refusal = fails_with(
        "run_squad.py",
        *FLAGS,
        f"--predict_file={path}",
        f"--bert_config_file={GOLDEN}/tiny_bert/bert_config.json",
        f"--vocab_file={VOCABULARY}",
        f"--output_dir={tmp_path}/out",
        "--do_train",
        "--do_predict",
    )
    assert refusal == (
        f"run_squad.py: {path}: data[0].paragraphs[0] has no 'context' (only "
        "qas), as a SQuAD file has"
    )
    assert not (tmp_path / "out" / "train.tf_record").exists()


def test_a_model_of_another_task_is_refused(tmp_path: Path) -> None:
    task = {"target": "choice", "max_seq_length": 16, "do_lower_case": True}
    (tmp_path / "task.json").write_text(json.dumps({**task, "labels": []}))
    sentence = fails_with(
        "run_squad.py",
        f"--output_dir={tmp_path}",
        *("--do_predict", "--predict_file=x"),
    )
    assert "was trained for choice, not for span" in sentence


def test_defaults_that_are_not_what_the_start_was_trained_with_are_said(
    trained: tuple[Path, str], tmp_path: Path
) -> None:
    folder, _ = trained
    task = read_json(folder / "task.json")
    start = tmp_path / "start"
    start.mkdir()
    for path in folder.glob("bert_*"):
        shutil.copy(path, start)
    task |= {"null_score_diff_threshold": -2.5, "max_answer_length": 9}
    (start / "task.json").write_text(json.dumps(task))
    said = forked(
        "run_squad.py",
        *FLAGS,
        f"--vocab_file={VOCABULARY}",
        f"--init_checkpoint={start}",
        f"--output_dir={tmp_path}/out",
        *("--do_train", "--dry_run", "--max_answer_length=11"),
    )
    lines = [line for line in said.splitlines() if "is not given" in line]
    assert lines == [
        "--null_score_diff_threshold is not given: it is 0.0, and "
        "--init_checkpoint was trained with -2.5"
    ]
