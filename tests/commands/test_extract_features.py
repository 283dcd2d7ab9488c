"""Tests of extract_features.py, beside what the original wrote."""

import gzip
import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import (
    GOLDEN,
    fails_with,
    forked,
    run,
    start_fork,
    well_ended,
)
from tests.tasks.test_sentence_pooling import write_modules

MODEL = (
    f"--vocab_file={GOLDEN}/tiny_vocab.txt",
    f"--bert_config_file={GOLDEN}/tiny_bert/bert_config.json",
    f"--init_checkpoint={GOLDEN}/tiny_bert/bert_model.ckpt",
)
TEXT = f"--input_file={GOLDEN}/tiny_features.txt"


@pytest.mark.slow
def test_lines_are_the_originals(tmp_path: Path) -> None:
    """Pairs, cut lines, an empty one, a carriage return; and pooled vectors."""
    run(
        "extract_features.py",
        *MODEL,
        TEXT,
        f"--output_file={tmp_path}/new/out.jsonl",
        "--layers=-1,1",
        "--max_seq_length=16",
        "--batch_size=4",
        f"--pooled_file={tmp_path}/pooled.npy",
    )
    pooled = np.load(tmp_path / "pooled.npy")
    lines = (tmp_path / "new" / "out.jsonl").read_text().splitlines()
    with gzip.open(GOLDEN / "tiny_features.jsonl.gz", "rt") as golden:
        for line, expected, vector in zip(lines, golden, pooled, strict=True):
            values, shape = _apart(line)
            golden_values, golden_shape = _apart(expected)
            assert shape == golden_shape
            np.testing.assert_allclose(values, golden_values, atol=1e-5)
            np.testing.assert_allclose(
                vector, golden_values[:, 0].mean(0), atol=1e-5
            )


def test_a_sentence_transformers_folder(tmp_path: Path) -> None:
    """modules.json asks for the vector of [CLS], normalized. Two of the six
    lines, the fourth and the sixth, are longer than 16 tokens."""
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "tiny_bert", folder)
    shutil.copy(GOLDEN / "tiny_vocab.txt", folder / "vocab.txt")
    write_modules(folder, {"pooling_mode_cls_token": True})
    ended = well_ended(
        "extract_features.py",
        *(TEXT, f"--init_checkpoint={folder}"),
        *(f"--pooled_file={tmp_path}/pooled.npy", "--max_seq_length=16"),
    )
    said = ended.errors.splitlines()
    assert f"pooling: cls, of length 1: {folder}/modules.json" in said
    with gzip.open(GOLDEN / "tiny_features.jsonl.gz", "rt") as golden:
        first = np.array([_apart(line)[0][0, 0] for line in golden])
    np.testing.assert_allclose(
        np.load(tmp_path / "pooled.npy"),
        first / np.sqrt((first**2).sum(1, keepdims=True)),
        atol=1e-5,
    )
    cut = "it is cut to --max_seq_length=16 tokens (--doc_stride reads"
    assert [line[:60] for line in said if "is cut" in line] == [
        f"line {number}: {cut}"[:60] for number in (2, 5)
    ]


def test_precision(tmp_path: Path) -> None:
    """Beside the original's mean vectors, which are float32."""
    path = tmp_path / "pooled.npy"
    forked(
        "extract_features.py",
        *(*MODEL, TEXT, f"--pooled_file={path}"),
        *("--max_seq_length=16", "--precision=mixed_bfloat16"),
    )
    narrow = np.load(path)
    with gzip.open(GOLDEN / "tiny_features.jsonl.gz", "rt") as golden:
        wide = np.array([_apart(line)[0][:, 0].mean(0) for line in golden])
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, wide, atol=0.05)
    assert np.abs(narrow - wide).max() > 1e-4


def _apart(line: str) -> tuple[np.ndarray, object]:
    """The numbers [T, L, H], and the line without them."""
    content = json.loads(line)
    layers = [feature["layers"] for feature in content["features"]]
    numbers = [[layer.pop("values") for layer in token] for token in layers]
    return np.array(numbers), content


def test_bad_flags(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").touch()
    for flags, sentence in (
        ([], "give --output_file, --pooled_file or both"),
        (
            ["--output_file=x", "--layers=a"],
            "--layers is 'a'; expected numbers",
        ),
        (["--output_file=x", "--doc_stride=127"], "expected at most 126"),
        (
            ["--output_file=x", f"--input_file={tmp_path}/a.csv.gz"],
            f"{tmp_path}/a.csv.gz is a table by its name",
        ),
    ):
        found = fails_with("extract_features.py", *MODEL, TEXT, *flags)
        assert sentence in found
    assert "the model has 61 positions" in fails_with(
        "extract_features.py", *MODEL, TEXT, f"--output_file={tmp_path}/x"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv.gz"]


@pytest.mark.slow
def test_an_input_that_grows_is_refused(tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "vectors.npy"
    text.write_text("the sea\n" * 50_000)
    running = start_fork(
        "extract_features.py",
        *MODEL,
        f"--input_file={text}",
        f"--pooled_file={out}",
        "--max_seq_length=8",
    )
    while not [*tmp_path.glob(".vectors*incomplete")]:
        assert running.is_running(), running.ended()
        time.sleep(0.01)
    with text.open("a") as file:
        file.write("a storm\n")
    assert (
        "had 50,000 lines at first and 50,001 at the end"
        in running.ended().errors
    )
    assert not out.exists()


def test_files_that_are_not_the_models_own(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "tiny_bert", folder)
    pieces = (GOLDEN / "tiny_vocab.txt").read_text("utf-8").splitlines()
    (folder / "vocab.txt").write_text("\n".join([*pieces[:-1], "theirs"]))
    args = (
        *(TEXT, f"--init_checkpoint={folder}"),
        f"--vocab_file={GOLDEN}/tiny_vocab.txt",
        f"--output_file={tmp_path}/out.jsonl",
        "--max_seq_length=16",
        "--layers=-1",
    )
    said = well_ended("extract_features.py", *args).errors
    assert "tiny_vocab.txt has 1 tokens other than" in said
    config = json.loads((folder / "bert_config.json").read_text())
    config["num_attention_heads"] *= 2
    (tmp_path / "heads.json").write_text(json.dumps(config))
    other = f"--bert_config_file={tmp_path}/heads.json"
    for command, *own in (
        ("extract_features.py", *args),
        (
            "convert_checkpoint.py",
            f"--init_checkpoint={folder}",
            f"--output_dir={tmp_path}/out",
        ),
    ):
        sentence = fails_with(command, *own, other)
        assert "the config has num_attention_heads = 10" in sentence
