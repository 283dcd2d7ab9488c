"""Tests of run_classifier.py and its task, as a user would start them."""

import dataclasses
import json
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import save_model_folder
from bert_keras.tasks.classification.data import InputExample, TableFormat
from bert_keras.tasks.classification.model import (
    LabelType,
    Regression,
    SingleLabel,
    TextClassifier,
)
from bert_keras.tasks.classification.task import (
    ClassificationTask,
    Problem,
    TableFiles,
    _target,
    table_problem,
)
from bert_keras.tasks.fine_tuning import FineTuningConfig
from bert_keras.tasks.task_config import TaskConfig
from tests.conftest import (
    GOLDEN,
    TINY,
    fails_with,
    files_in,
    forked,
    results,
    start_fork,
    tiny_context,
)

VOCAB = str(GOLDEN / "tiny_vocab.txt")

WORDS = [f"w{i}" for i in range(60)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Flags of a tiny model without weights; its config drops out."""
    folder = tmp_path_factory.mktemp("model")
    config = dataclasses.replace(TINY, num_hidden_layers=2)
    text = config.to_json().replace('dropout_prob": 0.0', 'dropout_prob": 0.1')
    (folder / "bert_config.json").write_text(text)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary + WORDS) + "\n")
    return (
        f"--bert_config_file={folder}/bert_config.json",
        f"--vocab_file={folder}/vocab.txt",
        "--max_seq_length=29",
        "--learning_rate=1e-3",
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reviews that say good or bad: train.csv, dev.csv and test.jsonl."""
    folder = tmp_path_factory.mktemp("tables")
    rng = random.Random(3)
    for name, count in (("train", 203), ("dev", 41), ("test", 17)):
        rows = []
        for _ in range(count):
            label = rng.choice(["bad", "good"])
            words = rng.sample(WORDS, rng.randint(1, 20))
            words.insert(rng.randrange(len(words)), label)
            rows.append((" ".join(words), f"{label} one"))
        if name == "test":
            lines = [json.dumps({"review": text}) for text, _ in rows]
            (folder / "test.jsonl").write_text("\n".join(lines))
        else:
            lines = [
                "kind,review",
                *(f'{kind},"{text}"' for text, kind in rows),
            ]
            (folder / f"{name}.csv").write_text("\n".join(lines))
    return folder


def files(tables: Path) -> tuple[str, ...]:
    return (
        f"--train_file={tables}/train.csv",
        f"--eval_file={tables}/dev.csv",
        f"--predict_file={tables}/test.jsonl",
        "--text_column=review",
        "--label_column=kind",
    )


@pytest.fixture(scope="module")
def trained(
    model: tuple[str, ...],
    tables: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("trained")
    output = forked(
        "run_classifier.py",
        *model,
        *files(tables),
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--train_batch_size=8",
        "--num_train_epochs=6",
        "--eval_steps=50",
        "--class_weights=balanced",
        f"--output_dir={folder}",
    )
    return folder, output


def test_it_learns_and_keeps_the_best_model(trained: tuple[Path, str]) -> None:
    folder, output = trained
    found = results(folder)
    assert found["eval_accuracy"] > 0.9
    lines = (folder / "eval_log.jsonl").read_text().splitlines()
    seen = [json.loads(line) for line in lines]
    assert [line["step"] for line in seen] == [50, 100, 150, 152]
    best = max(seen, key=lambda line: line["eval_accuracy"])
    assert found["global_step"] == best["step"]
    assert found["eval_loss"] == pytest.approx(best["eval_loss"], abs=1e-6)
    assert f"predict.py --model_dir={folder}" in output
    assert "--train_batch_size=8" in (folder / "flags.txt").read_text()


def test_labels_go_with_the_model_and_records_are_written(
    trained: tuple[Path, str],
) -> None:
    folder, _ = trained
    task = json.loads((folder / "task.json").read_text())
    assert task["labels"] == ["bad one", "good one"]
    assert task["target"] == "single_label"
    names = tf.train.list_variables(str(folder / "bert_model.ckpt"))
    assert ["output_bias", [2]] in [[n, s] for n, s in names]
    assert ["output_weights", [2, 40]] in [[n, s] for n, s in names]
    for name, count in (("train", 203), ("eval", 41), ("predict", 17)):
        records = tf.data.TFRecordDataset(str(folder / f"{name}.tf_record"))
        examples = [
            tf.train.Example.FromString(r) for r in records.as_numpy_iterator()
        ]
        assert len(examples) == count
        assert sorted(examples[0].features.feature) == [
            "input_ids",
            "input_mask",
            "is_real_example",
            "label_ids",
            "segment_ids",
        ]


def test_predictions_are_probabilities_a_line_each(
    trained: tuple[Path, str], tables: Path
) -> None:
    folder, _ = trained
    lines = (folder / "test_results.tsv").read_text().splitlines()
    found = np.array([[float(x) for x in line.split("\t")] for line in lines])
    assert found.shape == (17, 2)
    np.testing.assert_allclose(found.sum(-1), 1.0, atol=1e-6)
    texts = [
        json.loads(line)["review"].split()
        for line in (tables / "test.jsonl").read_text().splitlines()
    ]
    is_good = ["good" in text for text in texts]
    right = np.array(is_good) == (found[:, 1] > 0.5)
    assert np.mean(right) > 0.8
    header, *rows = (folder / "test_labels.tsv").read_text().splitlines()
    assert header == "example\tlabel\tprobability"
    for row, probabilities in zip(rows, found, strict=True):
        _, label, probability = row.split("\t")
        assert label == ["bad one", "good one"][probabilities.argmax()]
        assert float(probability) == pytest.approx(probabilities.max(), 1e-5)
    assert rows[2].startswith(f"{tables}/test.jsonl, line 3\t")


def test_classes_are_scored_one_by_one(
    trained: tuple[Path, str], tables: Path
) -> None:
    folder, output = trained
    text = (folder / "eval_classes.txt").read_text()
    assert text in output
    report, _, confused = text.partition("\n\n")
    rows = [line.rsplit(None, 4) for line in report.splitlines()]
    assert [row[0] for row in rows] == ["label", "bad one", "good one"]
    matrix = np.array(
        [x.rsplit(None, 2)[1:] for x in confused.splitlines()[2:]], int
    )
    assert matrix.sum(1).tolist() == [int(row[-1]) for row in rows[1:]]
    recalls = [float(row[2]) for row in rows[1:]]
    np.testing.assert_allclose(
        recalls, matrix.diagonal() / matrix.sum(1), atol=1e-4
    )
    accuracy = results(folder)["eval_accuracy"]
    assert accuracy == pytest.approx(matrix.trace() / matrix.sum())


def test_evaluation_alone_gives_the_same(
    trained: tuple[Path, str], tables: Path
) -> None:
    before = results(trained[0])
    # config, vocabulary, length, labels and columns are those of the folder
    forked(
        "run_classifier.py",
        f"--eval_file={tables}/dev.csv",
        "--do_eval",
        f"--output_dir={trained[0]}",
    )
    flags = (trained[0] / "flags.txt").read_text()
    assert "--do_train" in flags, "those of the training"
    assert results(trained[0]) == pytest.approx(before, abs=1e-6)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_bits(
    model: tuple[str, ...], tables: Path, tmp_path: Path
) -> None:
    straight, cut = tmp_path / "straight", tmp_path / "cut"
    args = [
        *model,
        *files(tables),
        "--do_train",
        "--train_batch_size=8",
        "--num_train_epochs=1",
        "--save_checkpoints_steps=5",
        "--eval_steps=10",
        "--layer_decay=0.9",
        "--num_frozen_layers=1",
    ]
    forked(
        "run_classifier.py", *args, f"--output_dir={straight}", compiles=True
    )
    process = start_fork(
        "run_classifier.py", *args, f"--output_dir={cut}", compiles=True
    )
    state = cut / "training_state" / "step-15.index"
    while not state.exists() and process.is_running():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.ended().code == -signal.SIGKILL
    assert "resuming from the checkpoint" in forked(
        "run_classifier.py", *args, f"--output_dir={cut}", compiles=True
    )
    best = json.loads((straight / "best" / "best.json").read_text())["step"]
    assert [p.name for p in (cut / "best").glob("step-*")] == [f"step-{best}"]
    for name in (".", f"best/step-{best}"):
        readers = [
            tf.train.load_checkpoint(str(folder / name / "bert_model.ckpt"))
            for folder in (straight, cut)
        ]
        for variable in readers[0].get_variable_to_shape_map():
            np.testing.assert_array_equal(
                *(reader.get_tensor(variable) for reader in readers)
            )
    logs = [(f / "eval_log.jsonl").read_text() for f in (straight, cut)]
    assert logs[0] == logs[1]


def test_another_metric_than_it_began_with_is_refused(
    trained: tuple[Path, str], model: tuple[str, ...], tables: Path
) -> None:
    args = [
        *model,
        *files(tables),
        "--do_train",
        "--train_batch_size=8",
        "--num_train_epochs=6",
        "--class_weights=balanced",
        f"--output_dir={trained[0]}",
    ]
    before = files_in(trained[0])
    for flags, expected in (
        (
            ["--eval_steps=50", "--do_lower_case=False"],
            "--do_lower_case is False but was True",
        ),
        (
            ["--eval_steps=50", "--class_weights=bad one=2"],
            "--class_weights is 2.0 but was",
        ),
        (
            ["--eval_steps=50", "--max_seq_length=27"],
            "--max_seq_length is 27 but was 29",
        ),
        (["--eval_steps=50", "--best_metric=eval_loss"], "was 'eval_accuracy'"),
        (["--eval_steps=20"], "--eval_steps is 20 but was 50"),
        (["--eval_steps=50", "--best_metric=f1"], "eval_accuracy, eval_macro"),
        (["--patience=3"], "give --eval_steps"),
    ):
        assert expected in fails_with("run_classifier.py", *args, *flags)
    after = files_in(trained[0])
    records = "eval.tf_record", "predict.tf_record"
    assert {n for n in before if after[n] != before[n]} <= {".", *records}


def test_the_same_command_on_a_finished_run_changes_nothing(
    trained: tuple[Path, str], model: tuple[str, ...], tables: Path
) -> None:
    folder, _ = trained
    args = [
        *model,
        *files(tables),
        "--do_train",
        "--train_batch_size=8",
        "--num_train_epochs=6",
        "--eval_steps=50",
        "--class_weights=balanced",
        f"--output_dir={folder}",
    ]
    described = [
        folder / name
        for name in ("task.json", "flags.txt", "bert_model.ckpt.index")
    ]
    before = [path.stat().st_mtime_ns for path in described]
    output = forked("run_classifier.py", *args, "--save_checkpoints_steps=7")
    assert "all of its 152 training steps already" in output
    assert [path.stat().st_mtime_ns for path in described] == before
    assert (folder / "test_results.tsv").is_file()

    # as the version before left it: settings that it did not store are those
    # of task.json
    copy = folder.parent / "of_an_earlier_version"
    shutil.copytree(folder, copy)
    path = copy / "training_state" / "settings.json"
    stored = json.loads(path.read_text())
    for name in ("do_lower_case", "labels", "learning_rate", "class_weights"):
        del stored[name]
    path.write_text(json.dumps(stored))
    args[-1] = f"--output_dir={copy}"
    refusal = fails_with("run_classifier.py", *args, "--do_lower_case=False")
    assert "--do_lower_case is False but was True" in refusal
    output = forked("run_classifier.py", *args)
    assert "did not store learning_rate, class_weights" in output


def test_a_model_is_used_as_it_was_trained(
    trained: tuple[Path, str], tables: Path
) -> None:
    args = [*files(tables), "--do_eval", f"--output_dir={trained[0]}"]
    refusal = fails_with("run_classifier.py", *args, "--do_lower_case=False")
    assert "do_lower_case is False, and the model was trained with" in refusal
    output = forked("run_classifier.py", *args, "--window_pooling=max")
    assert "window_pooling is 'max', and the model was trained with" in output
    noted = json.loads((trained[0] / "results.json").read_text())
    assert noted["step"] == results(trained[0])["global_step"]
    assert noted["results"] == {
        "eval_results.txt": f"--eval_file={tables}/dev.csv",
        "eval_classes.txt": f"--eval_file={tables}/dev.csv",
        "test_results.tsv": f"--predict_file={tables}/test.jsonl",
        "test_labels.tsv": f"--predict_file={tables}/test.jsonl",
    }


@pytest.mark.slow
def test_several_seeds_on_a_glue_task(
    model: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "RTE"
    folder.mkdir()
    rows = ["index\tsentence1\tsentence2\tlabel"]
    labels = ("entailment", "not_entailment")
    rows += [f"{i}\tw{i} good\tw{i + 1}\t{labels[i % 2]}" for i in range(31)]
    (folder / "train.tsv").write_text("\n".join(rows))
    (folder / "dev.tsv").write_text("\n".join(rows[:12]))
    output = forked(
        "run_classifier.py",
        *model,
        "--task_name=rte",
        f"--data_dir={tmp_path}",
        "--do_train",
        "--do_eval",
        "--num_seeds=2",
        "--seed=5",
        "--train_batch_size=4",
        "--num_train_epochs=1",
        f"--output_dir={tmp_path}/out",
    )
    summary = json.loads((tmp_path / "out" / "seeds.json").read_text())
    reached = {s: m["eval_accuracy"] for s, m in summary["seeds"].items()}
    assert set(reached) == {"5", "6"}
    assert summary["median"] == pytest.approx(np.median([*reached.values()]))
    assert json.loads((tmp_path / "out" / "best.json").read_text())["step"] == 7
    best = results(tmp_path / "out")["eval_accuracy"]
    assert best == max(reached.values()) == summary["highest"]
    assert f"{best:.4f} (seed {summary['best_seed']})" in output


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--do_train"], "either --task_name"),
        (["--task_name=RTE"], "nothing to do"),
        (["--task_name=SNLI", "--data_dir=.", "--do_eval"], "one of CoLA"),
    ],
)
def test_bad_input_is_one_sentence(
    args: list[str], expected: str, model: tuple[str, ...], tmp_path: Path
) -> None:
    assert expected in fails_with(
        "run_classifier.py", *model, *args, f"--output_dir={tmp_path}"
    )


EXAMPLES = [InputExample("", "", None, label) for label in ("a", "a", "a", "b")]


def test_class_weights() -> None:
    def weights(text: str) -> tuple[float, ...]:
        target = _target(TableFiles(class_weights=text), (), EXAMPLES)
        assert isinstance(target, SingleLabel)
        return target.class_weights

    # 4 / (2 * 3) and 4 / (2 * 1)
    assert weights("balanced") == (pytest.approx(2 / 3), 2.0)
    assert weights("b=5") == (1.0, 5.0)
    for bad in ("b", "c=1", "b=x", "b=nan", "b=inf", "b=-1", "a=0,b=0"):
        with pytest.raises(InputError, match="balanced, or label=weight"):
            weights(bad)
    with pytest.raises(InputError, match="for `target=single_label`"):
        _target(
            TableFiles(class_weights="balanced", target="multi_label"),
            (),
            EXAMPLES,
        )


def test_stored_labels_hold_unless_there_are_others() -> None:
    assert _target(TableFiles(), ("c", "b", "a"), EXAMPLES).labels == tuple(
        "cba"
    )
    assert _target(TableFiles(), ("c", "b"), EXAMPLES).labels == ("a", "b")
    assert _target(TableFiles(), ("c", "b"), []).labels == ("c", "b")
    assert _target(TableFiles(), ("B", "A"), EXAMPLES).labels == ("b", "a")
    with pytest.raises(InputError, match="too few"):
        _target(TableFiles(), (), [])


def test_numbers_that_overflow_are_no_answers(tmp_path: Path) -> None:
    """They would all be of the first class."""
    target = SingleLabel(("a", "b"))
    model = TextClassifier(TINY, target)
    large = {"bert/pooler/dense/bias": 9, "output_weights": 3e38}
    for mapping in model.mappings():
        if value := large.get(mapping.name):
            mapping.write(np.full(mapping.shape, value, np.float32))
    folder = str(tmp_path / "large")
    save_model_folder(folder, TINY, model.mappings(), VOCAB)
    settings = TaskConfig(
        target.kind, 16, True, labels=target.labels, takes_pairs=False
    )
    (tmp_path / "large" / "task.json").write_text(settings.to_json())
    table = tmp_path / "some.csv"
    table.write_text("text,label\nthe sea,a\na storm,b\n")
    for asked in ("eval", "predict"):
        sentence = fails_with(
            "run_classifier.py",
            f"--do_{asked}",
            f"--{asked}_file={table}",
            f"--init_checkpoint={folder}",
            f"--output_dir={tmp_path}/{asked}",
        )
        assert "the model's numbers for text 1 overflow" in sentence
        assert not list((tmp_path / asked).glob("*results*"))


def prepare(target: LabelType, train: list[InputExample]) -> None:
    problem = Problem(
        target, ("accuracy",), train, {"": train[:2]}, {"": train}, False
    )
    settings = TaskConfig(target.kind, 16, True, labels=target.labels)
    context = tiny_context(Path(), VOCAB)
    ClassificationTask(problem, settings, context, FineTuningConfig()).prepare()


def test_what_was_read_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["x", "x", "", "x"]
    train = [
        example._replace(text_a=text)
        for text, example in zip(texts, EXAMPLES, strict=True)
    ]
    prepare(SingleLabel(("a", "b")), train)
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "train: 4 examples (a: 3, b: 1); 1 have an empty text",
        "eval: 2 examples (a: 2, b: 0)",
        "predict: 4 examples; 1 have an empty text",
    ]
    assert "1 of 2 classes have one example, too few to learn from: b" in (
        said.err
    )


def test_numbers_that_are_learnt_as_classes_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    numbers = [f"{i / 7:.2f}" for i in range(60)]
    train = [
        InputExample("", "x", None, number) for number in [*numbers, "0.14"]
    ]
    prepare(SingleLabel(tuple(numbers)), train)
    said = capsys.readouterr().err
    assert "60 different numbers" in said
    assert "`target=regression`" in said
    prepare(Regression(), train)
    assert capsys.readouterr().err == ""


def test_two_spellings_of_a_number_weigh_as_one_class(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\nx,1\nx,1.0\nx,1.0\nx,0\n")
    problem = table_problem(
        TableFiles(
            train_file=str(path),
            eval_file=str(path),
            class_weights="balanced",
        ),
        TableFormat("text", None, "label", has_header=True),
        *(True, True, False),
        (),
    )
    assert isinstance(problem.target, SingleLabel)
    assert problem.target.labels == ("0", "1")
    # 4 / (2 * 1) and 4 / (2 * 3)
    assert problem.target.class_weights == pytest.approx((2.0, 2 / 3))


def test_a_model_of_one_text_is_not_given_pairs(
    trained: tuple[Path, str], tables: Path
) -> None:
    assert "trained on single texts, but these are pairs" in fails_with(
        "run_classifier.py",
        f"--eval_file={tables}/dev.csv",
        "--text_pair_column=review",
        "--do_eval",
        f"--output_dir={trained[0]}",
    )


def test_labels_to_evaluate_by_have_the_models_order() -> None:
    """Without training the labels are those of the examples to evaluate on;
    one that the model does not have is refused later, with its line."""

    def labels(stored: tuple[str, ...], **settings: Any) -> tuple[str, ...]:
        return _target(TableFiles(**settings), stored, [], EXAMPLES).labels

    assert labels(("B", "A")) == ("b", "a")
    assert labels(("LABEL_0", "LABEL_1")) == ("a", "b")
    assert labels(("y", "x")) == ("y", "x")
    assert labels(("y", "x"), keep_classifier_head=True) == ("a", "b")
