"""Tests of run_multiple_choice.py and of its task, as a user would."""

import functools
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.modeling import fused_ops
from bert_keras.tasks import load
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.training.inference import Predictor, predict
from tests.conftest import ONE_LAYER, fails_with, forked, results

NOUNS = [f"n{i}" for i in range(30)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model without weights, and questions of two to four choices, of
    which the right one says "good"."""
    folder = tmp_path_factory.mktemp("choices")
    (folder / "bert_config.json").write_text(ONE_LAYER.to_json())
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
    (folder / "vocab.txt").write_text("\n".join(pieces + NOUNS) + "\n")
    rng = random.Random(3)
    for name, count in (("train", 90), ("dev", 41), ("test", 7)):
        lines = []
        for i in range(count):
            number = rng.randint(2, 4)
            label = rng.randrange(number)
            words = [rng.sample(NOUNS, rng.randint(1, 4)) for _ in range(4)]
            line: dict[str, Any] = {
                "context": " ".join(rng.choices(NOUNS, k=1 + i % 17)),
                "choices": [
                    " ".join([*words[c], "good" if c == label else "bad"])
                    for c in range(number)
                ],
            }
            if name != "test":
                line["label"] = label
            lines.append(json.dumps(line))
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return folder


@pytest.mark.slow
def test_it_learns_evaluates_and_predicts(world: Path) -> None:
    out = world / "out"
    output = forked(
        "run_multiple_choice.py",
        f"--bert_config_file={world}/bert_config.json",
        f"--vocab_file={world}/vocab.txt",
        f"--train_file={world}/train.jsonl",
        f"--eval_file={world}/dev.jsonl",
        f"--predict_file={world}/test.jsonl",
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--max_seq_length=17",
        "--train_batch_size=90",  # all: one shape
        "--num_train_epochs=18",
        "--learning_rate=4e-3",
        f"--output_dir={out}",
    )
    assert f"predict.py --model_dir={out}" in output
    assert (
        f"--train_file={world}/train.jsonl: 90 questions of 2 to 4 choices, 90 "
        "with a label\n"
    ) in output
    assert "7 questions of 2 to 4 choices, 0 with a label\n" in output
    assert re.search(r"choices of \d+ to 17 tokens, median \d+\n", output)
    found = results(out)
    assert set(found) == {"eval_accuracy", "eval_loss", "global_step"}
    assert found["eval_accuracy"] > 0.9
    asked = [
        json.loads(line)["choices"]
        for line in (world / "test.jsonl").read_text().splitlines()
    ]
    shares = [
        [float(share) for share in line.split("\t")]
        for line in (out / "test_results.tsv").read_text().splitlines()
    ]
    assert [len(x) for x in shares] == [len(x) for x in asked]
    assert {len(x) for x in asked} == {2, 3, 4}
    np.testing.assert_allclose([sum(x) for x in shares], 1.0, atol=1e-6)
    right = [
        "good" in choices[int(np.argmax(x))]
        for choices, x in zip(asked, shares, strict=True)
    ]
    assert np.mean(right) > 0.8
    task = json.loads((out / "task.json").read_text())
    assert (task["target"], task["max_seq_length"]) == ("choice", 17)
    model = load.load(str(out))
    lines = [
        "n1\tn2 bad\tn3 good\tn4 bad",
        "n1\tn2 good",
        f"{'n1 ' * 20}\tn2\tn3",
        f"n1\tn2\t{'n3 ' * 20}",
    ]
    with fused_ops.uncompiled():
        run = functools.partial(predict, Predictor(model.model.outputs_by_name))
        first, second, third, fourth = model.answer_all(lines, run)
    assert first.fields["choice"] == 1
    assert sum(first.fields["probabilities"]) == pytest.approx(1.0)
    assert first.columns[:2] == ["1", "n3 good"]
    assert "it has 1 choices" in second.fields["error"]
    assert third.note == "its context is cut to 17 tokens"
    assert fourth.note == "its context and choices are cut to 17 tokens"


def test_what_is_asked_must_be_there(tmp_path: Path) -> None:
    folder = f"--output_dir={tmp_path}"
    for flags, expected in (
        ([], "nothing to do"),
        (["--do_train"], "--train_file is missing"),
        (
            ["--do_train", "--train_file=a.json", "--num_seeds=2"],
            "--eval_file is missing",
        ),
        (["--do_eval"], "--eval_file is missing"),
    ):
        assert expected in fails_with("run_multiple_choice.py", folder, *flags)
    task = TaskConfig("span", 16, True, doc_stride=5)
    (tmp_path / "task.json").write_text(task.to_json())
    flags = [folder, "--do_eval", "--eval_file=a.json"]
    for script, target in (
        ("run_multiple_choice.py", "choice"),
        ("run_ner.py", "tags"),
        ("run_classifier.py", "single_label or multi_label or regression"),
    ):
        assert f"was trained for span, not for {target};" in fails_with(
            script, *flags
        )
    task = TaskConfig("single_label", 16, True, labels=("no", "yes"))
    (tmp_path / "task.json").write_text(task.to_json())
    table = tmp_path / "table.tsv"
    table.write_text("text\tlabel\nthe sea\tyes\n")
    flags = [folder, "--do_eval", f"--eval_file={table}"]
    assert "was trained for single_label, not for multi_label;" in fails_with(
        "run_classifier.py", *flags, "--target=multi_label"
    )
