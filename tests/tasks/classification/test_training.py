"""Tests of tasks/classification/training.py: a run from Python is the
command's, whatever form its data has."""

import csv
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.tasks import fine_tuning_run
from bert_keras.tasks.classification import training
from bert_keras.tasks.classification.training import train_classifier
from tests.conftest import GOLDEN, ROOT, forked

TEXTS = ["the sea", "an old captain", "the storm", "the old sea", "a captain"]
LABELS = [0, 1, 0, 0, 1]
PAIRS = [(text, "the wind blew") for text in TEXTS]
SETTINGS: dict[str, Any] = {
    "init_checkpoint": str(GOLDEN / "tiny_bert"),
    "vocab_file": str(GOLDEN / "tiny_vocab.txt"),
    "max_seq_length": 16,
    "num_train_epochs": 2,
    "train_batch_size": 3,
    "seed": 7,
}


class Frame:
    """What is asked of a pandas.DataFrame, which need not be installed."""

    def __init__(self, rows: list[dict[str, Any]]):
        self.rows = rows
        self.columns = list(rows[0])

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return self.rows


def weights(folder: Path) -> bytes:
    return (folder / "bert_model.ckpt.data-00000-of-00001").read_bytes()


@pytest.mark.slow
def test_file_frame_lists_and_command_give_the_same_bits(
    tmp_path: Path,
) -> None:
    table = tmp_path / "table.csv"
    rows = [
        {"text": text, "label": label}
        for text, label in zip(TEXTS, LABELS, strict=True)
    ]
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(rows)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = train_classifier(
            str(table),
            output_dir=str(tmp_path / "file"),
            evaluation=(TEXTS, LABELS),
            **SETTINGS,
        )
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
    finally:
        keras.config.set_dtype_policy("float32")
    assert len(model.history) == 3
    assert {"loss", "step"} <= model.history[0].keys()
    assert 0 <= model.metrics["eval_accuracy"] <= 1
    assert model.predict("the sea").label in ("0", "1")
    for name, data in {
        "lists": (TEXTS, LABELS),
        "frame": Frame(rows),
    }.items():
        folder = tmp_path / name
        train_classifier(data, output_dir=str(folder), **SETTINGS)
        assert weights(folder) == weights(tmp_path / "file")
    flags = [f"--{name}={value}" for name, value in SETTINGS.items()]
    flags += ["--do_train", f"--train_file={table}"]
    forked(
        "run_classifier.py",
        *flags,
        f"--output_dir={tmp_path / 'command'}",
        compiles=True,
    )
    assert weights(tmp_path / "command") == weights(tmp_path / "file")


def variables(folder: Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    shapes = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in shapes}


@pytest.mark.slow
def test_layers_learn_more_slowly_the_further_from_the_head(
    tmp_path: Path,
) -> None:
    """One step from three layers, at half the rate of the next one each."""
    start = variables(GOLDEN / "tiny_bert")
    settings = SETTINGS | {"num_train_epochs": 1, "train_batch_size": 5}
    after = {}
    for decay in (1.0, 0.5):
        folder = tmp_path / str(decay)
        train_classifier(
            (TEXTS, LABELS),
            output_dir=folder,
            layer_decay=decay,
            warmup_proportion=0.0,
            learning_rate=0.1,
            **settings,
        )
        after[decay] = variables(folder)
    for name, full in after[1.0].items():
        layer = re.search(r"layer_(\d)", name)
        if layer:
            share = 0.5 ** (3 - int(layer[1]))
        else:
            share = 0.5**4 if "/embeddings/" in name else 1.0
        if name not in start:  # the head's
            np.testing.assert_array_equal(after[0.5][name], full)
            continue
        moved, half = full - start[name], after[0.5][name] - start[name]
        np.testing.assert_allclose(half, share * moved, atol=1e-6)
        if name.endswith("LayerNorm/beta"):
            assert np.abs(moved).max() > 0.05, name


@pytest.mark.slow
def test_pairs_are_told_by_their_texts(tmp_path: Path) -> None:
    model = train_classifier(
        (PAIRS, LABELS), output_dir=str(tmp_path), **SETTINGS
    )
    assert model.settings.takes_pairs
    assert model.predict(PAIRS[0]).label in ("0", "1")


def test_settings_are_the_command_s() -> None:
    flags = set(re.findall(r"^ +--(?:\[no\])?(\w+)", help_of(), re.MULTILINE))
    assert flags >= training.SETTINGS.types.keys()
    assert "train_batch_size" in training.SETTINGS.types


def help_of() -> str:
    """What run_classifier.py --help prints."""
    done = subprocess.run(
        [sys.executable, "run_classifier.py", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.mark.slow
def test_the_case_is_a_setting(tmp_path: Path) -> None:
    model = train_classifier(
        (TEXTS, LABELS),
        output_dir=str(tmp_path),
        do_lower_case=False,
        **SETTINGS,
    )
    assert model.settings.do_lower_case is False
    assert model.tokenizer.tokenize("Sea") != model.tokenizer.tokenize("sea")


@pytest.mark.slow
def test_a_run_that_has_learnt_nothing_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the command warns of it."""
    data, settings = (TEXTS, LABELS), SETTINGS | {"learning_rate": 100.0}
    train_classifier(data, output_dir=tmp_path, evaluation=data, **settings)
    assert "WARNING: degenerate run: " in capsys.readouterr().err


@pytest.mark.slow
def test_the_best_of_several_seeds_and_evaluations(tmp_path: Path) -> None:
    data = (TEXTS, LABELS)
    with pytest.raises(InputError, match="give `evaluation`"):
        train_classifier(
            data, output_dir=str(tmp_path / "a"), num_seeds=2, **SETTINGS
        )
    model = train_classifier(
        data,
        output_dir=str(tmp_path / "b"),
        evaluation=data,
        num_seeds=2,
        **SETTINGS,
    )
    assert "eval_accuracy" in model.metrics
    assert len(model.history) == 3  # of the best seed


def examples_of(
    monkeypatch: pytest.MonkeyPatch, folder: Path, data: Any, **settings: Any
) -> list[tuple[Any, ...]]:
    """What would be trained on: texts and labels."""
    monkeypatch.setattr(fine_tuning_run, "train", lambda *given: given[2])
    settings = SETTINGS | {"output_dir": str(folder), **settings}
    problem: Any = train_classifier(data, **settings)
    return [(x.text_a, x.text_b, x.label) for x in problem.train]


def test_arrays_tuples_and_iterators_are_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["the sea", "a captain", "the storm"]
    single = [
        (text, None, label) for text, label in zip(texts, "aba", strict=True)
    ]
    data: Any
    labels: Any
    for data in (
        (iter(texts), iter("aba")),
        ((x for x in texts), ["a", "b", "a"]),
        (np.array(texts), np.array(list("aba"))),
        (tuple(texts), ("a", "b", "a")),
    ):
        assert examples_of(monkeypatch, tmp_path, data) == single
    names = [("a", "b"), ("b",), ("c",)]
    several = [(x, None, y) for x, y in zip(texts, names, strict=True)]
    for labels in (
        names,
        [[*each] for each in names],
        (np.array(each) for each in names),
        np.array([np.array(each) for each in names], object),
    ):
        data = texts, labels
        kind = {"target": "multi_label"}
        assert examples_of(monkeypatch, tmp_path, data, **kind) == several
    data = (x for x in PAIRS), iter(np.array(LABELS))
    assert examples_of(monkeypatch, tmp_path, data) == [
        (*pair, str(label)) for pair, label in zip(PAIRS, LABELS, strict=True)
    ]


def test_the_separator_of_a_table_without_header_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fine_tuning_run, "train", lambda *given: given[3])
    table = tmp_path / "table.csv"
    table.write_text("the sea;0\na captain;1\n")
    task_config: Any = train_classifier(
        table,
        output_dir=str(tmp_path / "run"),
        has_header=False,
        text_column="0",
        label_column="1",
        separator=";",
        **SETTINGS,
    )
    assert task_config.separator == ";"


def test_what_does_not_fit_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, folder = (TEXTS, LABELS), str(tmp_path / "run")
    with pytest.raises(TypeError, match="did you mean learning_rate"):
        train_classifier(data, output_dir=folder, learnin_rate=1, **SETTINGS)
    with pytest.raises(TypeError, match="did you mean num_train_epochs"):
        train_classifier(data, output_dir=folder, epochs=1, **SETTINGS)
    with pytest.raises(InputError, match="'text' is both text and label"):
        train_classifier(
            data, output_dir=folder, label_column="text", **SETTINGS
        )
    with pytest.raises(InputError, match="`target=span` is not one of"):
        train_classifier(data, output_dir=folder, target="span", **SETTINGS)
    frame = Frame([{"review": "the sea", "label": 1}])
    with pytest.raises(InputError, match="no column text; it has review"):
        train_classifier(frame, output_dir=folder, **SETTINGS)
    for wrong, words in (
        ([("the sea", "1")], "`train` is a list; expected the path of a file"),
        ((["the sea"], ["1", "2"]), "`train` has 1 texts and 2 labels"),
        ((["a", ("b", "c")], [0, 1]), "`train`, example 1: expected one text"),
        ((["a"], 3), "`train` is a tuple; expected the path of a file"),
        ((("a", "0"), ("b", "1")), "may be examples or texts and labels"),
        (("ab", "01"), "`train` is a tuple; expected the path of a file"),
        (({"a", "b"}, ["0", "1"]), "`train` is a tuple; expected the path"),
        ((["a"], {"b": 0}), "`train` is a tuple; expected the path of a file"),
        ((iter("abc"), [0, 1]), "`train` has 3 texts and 2 labels"),
        (([b"a", "b"], [0, 1]), "`train`, example 0 has a bytes in 'text'"),
        ((["a", "b"], [b"0", 1]), "`train`, example 0 has a bytes in 'label'"),
        ((["a", "b"], [[1, 0, 1], [0, 1, 0]]), "example 0 has the labels 1, 0"),
        ((["a", "b"], np.eye(3)[:2]), "example 0 has the labels 1.0, 0.0, 0"),
        ((["a", "b"], np.eye(2)), "example 0 has the labels 1.0, 0.0, a 0 or"),
        ((np.array([["a", "b"]]), [0]), "example 0: expected one text"),
        (([], []), "`train` holds no example"),
    ):
        with pytest.raises(InputError, match=words):
            train_classifier(wrong, output_dir=folder, **SETTINGS)
    assert not (tmp_path / "run").exists()
    wrong = TEXTS[:1], ["none"]
    with pytest.raises(InputError, match="`evaluation`, example 0"):
        train_classifier(data, output_dir=folder, evaluation=wrong, **SETTINGS)
    with pytest.raises(InputError, match="`evaluation` holds no example"):
        train_classifier(
            data, output_dir=folder, evaluation=([], []), **SETTINGS
        )
    with pytest.raises(InputError, match="`label_separator=` is empty"):
        train_classifier(
            data, output_dir=folder, label_separator="", **SETTINGS
        )
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(
        InputError, match="trained on Ten.* and KERAS_BACKEND i"
    ):
        train_classifier(data, output_dir=folder, **SETTINGS)
