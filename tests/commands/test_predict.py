"""Tests of predict.py, as processes that a user could have started."""

import csv
import dataclasses
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from bert_keras.data.tokenization import FullTokenizer
from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import save_model_folder
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.classification.model import (
    LabelType,
    MultiLabel,
    Regression,
    SingleLabel,
    TextClassifier,
)
from bert_keras.tasks.fill_mask import BlankFiller
from bert_keras.tasks.ner.model import TokenClassifier
from bert_keras.tasks.task_config import TaskConfig
from tests.conftest import (
    GOLDEN,
    ONE_LAYER,
    ROOT,
    fails_with,
    forked,
    well_ended,
)

VOCAB = str(GOLDEN / "tiny_vocab.txt")
PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] a . red blue".split()
BLANKS = BertConfig(
    vocab_size=11,
    hidden_size=6,
    num_hidden_layers=1,
    num_attention_heads=3,
    intermediate_size=13,
    max_position_embeddings=7,
    type_vocab_size=2,
)
SETTINGS = TaskConfig("regression", 32, True)


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, object]:
    """A folder with random weights, and its model."""
    folder = tmp_path_factory.mktemp("regression")
    model = TextClassifier(ONE_LAYER, Regression())
    rng = np.random.default_rng(3)
    for mapping in model.mappings():
        mapping.write(rng.normal(size=mapping.shape).astype(np.float32))
    save_model_folder(str(folder), ONE_LAYER, model.mappings(), VOCAB)
    (folder / "task.json").write_text(SETTINGS.to_json())
    return str(folder), model


@pytest.fixture(scope="module")
def blanks(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that answers blue to one half, red to a quarter, whatever asked.

    Where all weights are 0, the scores are the output's bias.
    """
    path = tmp_path_factory.mktemp("blanks")
    (path / "vocab.txt").write_text("".join(p + "\n" for p in PIECES))
    shares = np.full(BLANKS.vocab_size, 0.25 / (BLANKS.vocab_size - 2))
    shares[[PIECES.index("blue"), PIECES.index("red")]] = 0.5, 0.25
    model = BlankFiller(BLANKS, range(9))
    for mapping in model.mappings():
        is_bias = mapping.name == "cls/predictions/output_bias"
        value = np.log(shares) if is_bias else np.zeros(mapping.shape)
        mapping.write(value.astype(np.float32))
    save_model_folder(
        str(path), BLANKS, model.mappings(), str(path / "vocab.txt")
    )
    return str(path)


def expected_value(model: TextClassifier, line: bytes) -> float:
    """Of the line alone, as the model itself scores it."""
    tokenizer = FullTokenizer(VOCAB)
    tokens = tokenizer.tokenize(line.decode(errors="replace"))
    ids = tokenizer.convert_tokens_to_ids(["[CLS]", *tokens[:30], "[SEP]"])
    row = {
        "input_ids": np.array([ids]),
        "input_mask": np.ones([1, len(ids)], np.int32),
        "segment_ids": np.zeros([1, len(ids)], np.int32),
    }
    with fused_ops.uncompiled():  # or each length would be compiled
        return float(np.array(model.outputs_by_name(row)["logits"])[0, 0])


@pytest.mark.slow
def test_a_thousand_lines_and_worse(
    regression: tuple[str, TextClassifier], tmp_path: Path
) -> None:
    """Order, number and values; the model is loaded once."""
    folder, model = regression
    words = Path(VOCAB).read_text().split()[5:]
    rng = np.random.default_rng(0)
    lines = [
        " ".join(rng.choice(words, rng.integers(1, 12))).encode()
        for _ in range(1000)
    ]
    lines[7], lines[300] = b"", b" \r"
    lines[500] = b"the sea " * 5000
    lines[600] = b"the \xff\xfe sea \xc3"
    (tmp_path / "in.txt").write_bytes(b"\n".join(lines))
    with (tmp_path / "in.txt").open("rb") as source:
        done = predict(source, f"--model_dir={folder}", "--output_format=jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("variables loaded") == 1
    assert "line 501: it is cut to 32 tokens\n" in done.stderr
    assert "line 601: bytes that are not UTF-8 are left out\n" in done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer.pop("line") for answer in answers] == [*range(1, 1001)]
    empty = {"error": "the text is empty"}
    assert (answers[7], answers[300]) == (empty, empty)
    for i in [*range(0, 1000, 47), 500, 600]:
        value = expected_value(model, lines[i])
        assert answers[i]["value"] == pytest.approx(value, abs=1e-4), i
    assert len({answer.get("value") for answer in answers}) > 900


def predict(
    source: IO[bytes], *flags: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "predict.py", *flags],
        cwd=ROOT,
        stdin=source,
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_each_line_at_once(regression: tuple[str, TextClassifier]) -> None:
    """A line is written when the one before has been answered. In the end
    nobody reads any more (as in | head), which is no error."""
    folder, model = regression
    process = subprocess.Popen(
        [
            sys.executable,
            "predict.py",
            f"--model_dir={folder}",
            "--line_by_line",
        ],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    watchdog = threading.Timer(120, process.kill)  # seconds
    watchdog.start()
    with process:
        assert process.stdin and process.stdout and process.stderr
        for line in (b"the sea", b"", b"a storm"):
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if line:
                value = expected_value(model, line)
                assert float(answer) == pytest.approx(value, abs=1e-4)
            else:
                assert answer == b"\n"
        process.stdout.close()
        process.stdin.write(b"the sea\n")
        process.stdin.close()
        errors = process.stderr.read()
    watchdog.cancel()
    assert process.returncode == 0
    assert b"BrokenPipe" not in errors


def test_blanks_of_arguments(blanks: str) -> None:
    output = forked(
        "predict.py",
        f"--model_dir={blanks}",
        "--top_k=2",
        "A [MASK].",
        "a red",
        "[MASK] [MASK]",
    )
    answer = "blue 0.500000  red 0.250000"
    assert output == (f"A blue.\t{answer}\n\nblue blue\t{answer}\t{answer}\n")


def test_a_text_that_names_a_file_and_an_empty_row(
    blanks: str, tmp_path: Path
) -> None:
    table = tmp_path / "in.csv"
    table.write_text('text\nthe [MASK] sea\n""\n')
    model = f"--model_dir={blanks}"
    asked = well_ended("predict.py", model, str(table), "the [MASK] sea")
    assert f"{table} is read as a text, and a file has this" in asked.errors
    asked = well_ended(
        "predict.py", model, f"--input_file={table}", "--text_column=text"
    )
    assert "row 2: the text is empty\n" in asked.errors


def test_a_column_holds_any_text(blanks: str) -> None:
    args = [f"--model_dir={blanks}", "--top_k=1"]
    output = forked("predict.py", *args, "a\t\\ [MASK]\r.")
    text, answer = output.removesuffix("\n").split("\t")
    assert answer == "blue 0.500000"
    ends = {"t": "\t", "r": "\r"}
    back = re.sub(r"\\(.)", lambda found: ends.get(found[1], found[1]), text)
    assert back == "a\t\\ blue\r."


def test_numbers_that_overflow_are_no_answer(
    regression: tuple[str, TextClassifier], tmp_path: Path
) -> None:
    folder, model = regression
    path = shutil.copytree(folder, tmp_path / "large")
    before = {b.name: b.read() for b in model.mappings()}
    for mapping in model.mappings():
        if mapping.name == "output_weights":
            mapping.write(np.full(mapping.shape, 3e38, np.float32))
    save_model_folder(str(path), ONE_LAYER, model.mappings(), VOCAB)
    for mapping in model.mappings():
        mapping.write(before[mapping.name])
    sentence = fails_with("predict.py", f"--model_dir={path}", "the sea")
    assert "no line has an answer" in sentence


def test_a_file_to_a_file(blanks: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("[MASK]\na blue\n")
    forked(
        "predict.py",
        f"--model_dir={blanks}",
        "--top_k=1",
        f"--input_file={tmp_path}/in.txt",
        f"--output_file={tmp_path}/out.jsonl",
        "--output_format=jsonl",
    )
    first, second = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(first) == {
        "line": 1,
        "text": "blue",
        "blanks": [[{"piece": "blue", "probability": pytest.approx(0.5)}]],
    }
    assert json.loads(second) == {
        "line": 2,
        "error": "there is no [MASK] in it",
    }


def test_files_are_read_as_in_training(
    regression: tuple[str, TextClassifier], tmp_path: Path
) -> None:
    """Tables by the columns of the training; other files by lines."""
    source, model = regression
    folder = tmp_path / "model"
    shutil.copytree(source, folder)
    settings = dataclasses.replace(
        SETTINGS, takes_pairs=False, text_column="review"
    )
    (folder / "task.json").write_text(settings.to_json())
    marked, texts = b"\xef\xbb\xbf", [b"the sea", b"a storm", b"the captain"]
    contents = {
        "a.csv": b'id,review\r\n7,"the\rsea"\r\n8,a storm\r\n9,the captain',
        "b.jsonl.gz": gzip.compress(
            b"".join(b'{"review": "%s"}\n' % text for text in texts)
        ),
        "c.tsv": b"review\nthe sea\na storm\n\nthe captain\n",
        "d.tsv": b"the sea\na storm\n7\tthe captain\n",
        "e.txt.gz": gzip.compress(marked + b"\n".join(texts)),
        "f.txt": "\r".join(["the sea", "a storm", ""]).encode("utf-16"),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    output = forked(
        "predict.py",
        f"--model_dir={folder}",
        "--input_file=" + ",".join(f"{tmp_path}/{name}" for name in contents),
        "--output_format=jsonl",
    )
    answers = [json.loads(line) for line in output.splitlines()]
    values = [expected_value(model, text) for text in texts]
    none, pair = "the text is empty", "it has 2 texts (in a line, tabs"
    expected = [
        *values, *values, *values[:2], none, values[2],
        *values[:2], pair, *values, *values[:2],
    ]  # fmt: skip
    for answer, wanted in zip(answers, expected, strict=True):
        if isinstance(wanted, str):
            assert answer["error"].startswith(wanted)
        else:
            assert answer["value"] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.slow
def test_columns_are_told_apart_as_in_training(
    regression: tuple[str, TextClassifier], tmp_path: Path
) -> None:
    """Without a header the separator is that of the training table; otherwise
    the header shows it. Plain lines are read as texts."""
    source, model = regression
    bare, headed = tmp_path / "bare", tmp_path / "headed"
    columns: dict[str, Any]
    for folder, columns in (
        (bare, {"has_header": False, "text_column": "1"}),
        (headed, {"text_column": "review"}),
    ):
        shutil.copytree(source, folder)
        columns |= {"takes_pairs": False, "separator": ";"}
        settings = dataclasses.replace(SETTINGS, **columns)
        (folder / "task.json").write_text(settings.to_json())
    rows = "7;the sea\n8;a storm\n"
    (tmp_path / "bare.csv").write_text(rows)
    (tmp_path / "lines.txt").write_text("the sea\na storm\n")
    (tmp_path / "semicolons.tsv").write_text(f"id;review\n{rows}")
    (tmp_path / "tabs.tsv").write_text("review\nthe sea\na storm\n")
    values = [expected_value(model, text) for text in (b"the sea", b"a storm")]
    for folder, names in (
        (bare, ("bare.csv", "lines.txt")),
        (headed, ("semicolons.tsv", "tabs.tsv")),
    ):
        output = forked(
            "predict.py",
            f"--model_dir={folder}",
            "--input_file=" + ",".join(f"{tmp_path}/{name}" for name in names),
        )
        found = [float(line) for line in output.splitlines()]
        assert found == pytest.approx(values * 2, abs=1e-4)


def test_tables_that_do_not_fit_the_model(
    regression: tuple[str, TextClassifier], blanks: str, tmp_path: Path
) -> None:
    source, _ = regression
    folder = tmp_path / "model"
    shutil.copytree(source, folder)
    pairs = dataclasses.replace(SETTINGS, takes_pairs=True)
    (folder / "task.json").write_text(pairs.to_json())
    (tmp_path / "a.csv").write_text("text,id\na storm,7\n")
    for model, flag, expected in (
        (folder, [], "the model takes two texts; check --text_column"),
        (blanks, [], "a.csv is a table; give --text_column"),
        (blanks, ["--text_column=b"], "a.csv, line 1 has no column 'b' but"),
    ):
        sentence = fails_with(
            "predict.py",
            f"--model_dir={model}",
            f"--input_file={tmp_path}/a.csv",
            *flag,
        )
        assert expected in sentence


def constant_classifier(folder: Path, target: LabelType, **task: Any) -> Path:
    """A model whose logits are log(3) and 0, whatever it is asked."""
    folder.mkdir()
    model = TextClassifier(ONE_LAYER, target)
    for mapping in model.mappings():
        value = np.zeros(mapping.shape, np.float32)
        if mapping.name == "output_bias":
            value[0] = np.log(3)
        mapping.write(value)
    save_model_folder(str(folder), ONE_LAYER, model.mappings(), VOCAB)
    settings = TaskConfig(target.kind, 32, True, **task)
    (folder / "task.json").write_text(settings.to_json())
    return folder


HARD_CSV = (
    'id,text,other,label\r\n1,"the ""sea"", a storm","x, y",7\r\n'
    '2,"the\ncaptain",,"a\rb"\r\n3,,the sea,\r\n'
)


def test_labels_beside_the_rows_of_a_csv(tmp_path: Path) -> None:
    """Quotes, commas and newlines come out as they went in. The third row has
    no text."""
    labels = ("good", "bad")
    model = constant_classifier(
        tmp_path / "one", SingleLabel(labels), labels=labels, takes_pairs=False
    )
    (tmp_path / "in.csv").write_bytes(HARD_CSV.encode())
    forked(
        "predict.py",
        f"--model_dir={model}",
        f"--input_file={tmp_path}/in.csv",
        f"--output_file={tmp_path}/out.csv",
    )
    with (tmp_path / "out.csv").open(newline="") as file:
        written = [*csv.reader(file, strict=True)]
    best = ["good", "0.750000"]
    assert written == [
        "id text other label predicted_label predicted_probability".split(),
        ["1", 'the "sea", a storm', "x, y", "7", *best],
        ["2", "the\ncaptain", "", "a\rb", *best],
        ["3", "", "the sea", "", "", ""],
    ]


def test_answers_beside_the_rows_of_other_tables(tmp_path: Path) -> None:
    """Pairs, several labels and numbers; columns may have one name."""
    labels = ("a", "b")
    several = constant_classifier(
        tmp_path / "several", MultiLabel(labels), labels=labels
    )
    number = constant_classifier(tmp_path / "number", Regression())
    pairs = "text,p,,\nthe sea,a storm,1,2\n"
    (tmp_path / "pairs.csv").write_text(pairs)
    pair = "--text_pair_column=p"
    output = forked(
        "predict.py",
        f"--model_dir={several}",
        f"--input_file={tmp_path}/pairs.csv",
        pair,
    )
    assert output == (
        "text,p,,,labels,probability_a,probability_b\n"
        "the sea,a storm,1,2,a,0.750000,0.500000\n"
    )
    (tmp_path / "lines.jsonl").write_text(
        '{"text": "the sea", "n": 1.5}\n{"text": "a\\nb", "n": null}\n'
    )
    output = forked(
        "predict.py",
        f"--model_dir={number}",
        f"--input_file={tmp_path}/lines.jsonl",
        "--output_format=csv",
    )
    value = f"{np.log(3):.6f}"
    assert output == (f'text,n,value\nthe sea,1.5,{value}\n"a\nb",,{value}\n')
    (tmp_path / "bare.csv").write_text("the sea\na storm\n")
    output = forked(
        "predict.py",
        f"--model_dir={number}",
        f"--input_file={tmp_path}/bare.csv",
        "--nohas_header",
        "--text_column=0",
    )
    assert output == f"the sea,{value}\na storm,{value}\n"
    bare = constant_classifier(
        tmp_path / "bare", Regression(), text_column="0", has_header=False
    )
    asked = f"--model_dir={bare}", f"--input_file={tmp_path}/bare.csv"
    assert forked("predict.py", *asked) == output
    named = "--has_header", "--text_column=the sea"
    output = forked("predict.py", *asked, *named)
    assert output == f"the sea,value\na storm,{value}\n"


def test_csv_needs_a_table_and_a_classifier(
    blanks: str, tmp_path: Path
) -> None:
    number = constant_classifier(tmp_path / "number", Regression())
    (tmp_path / "a.csv").write_text("text\nthe sea\n")
    (tmp_path / "b.csv").write_text("text,id\nthe sea,7\n")
    (tmp_path / "c.txt").write_text("the sea\n")
    is_csv = "--output_format=csv"
    for model, args, expected in (
        (blanks, [f"--input_file={tmp_path}/a.csv", is_csv], "that classifies"),
        (number, ["the sea", is_csv], "and a table as --input_file"),
        (number, [f"--input_file={tmp_path}/c.txt", is_csv], "read as lines"),
        (
            number,
            [f"--input_file={tmp_path}/?.csv"],
            "has the columns text, id",
        ),
    ):
        sentence = fails_with("predict.py", f"--model_dir={model}", *args)
        assert expected in sentence


def test_a_file_of_which_no_line_fits_the_model(
    blanks: str, tmp_path: Path
) -> None:
    """The answers of an earlier run stay."""
    (tmp_path / "in.txt").write_text("a storm\n\nthe sea\n")
    (tmp_path / "out.tsv").write_text("earlier")
    sentence = fails_with(
        "predict.py",
        f"--model_dir={blanks}",
        f"--input_file={tmp_path}/in.txt",
        f"--output_file={tmp_path}/out.tsv",
    )
    assert "no line has an answer: none of 2 is what this model" in sentence
    assert (tmp_path / "out.tsv").read_text() == "earlier"


def test_a_word_a_line_is_no_text_a_line(tmp_path: Path) -> None:
    model = TokenClassifier(ONE_LAYER, 3)
    folder, words = tmp_path / "tagger", tmp_path / "words.txt"
    save_model_folder(str(folder), ONE_LAYER, model.mappings(), VOCAB)
    labels = ("O", "B-PER", "I-PER")
    (folder / "task.json").write_text(TaskConfig(
        "tags", 32, True, labels=labels
    ).to_json())  # fmt: skip
    said = []
    for text in ("Ann B-PER\nsaw O\nBob B-PER\n", "Ann\nsaw\nBob\n"):
        words.write_text(text)
        ended = well_ended(
            "predict.py", f"--model_dir={folder}", f"--input_file={words}"
        )
        assert len(ended.output.splitlines()) == 3
        said.append("looks like a file with a word in each" in ended.errors)
    assert said == [True, False]


def test_a_model_is_not_overwritten(blanks: str, tmp_path: Path) -> None:
    (tmp_path / "model").symlink_to(blanks)
    for folder in (blanks, f"{tmp_path}/model"):
        for name in ("bert_model.ckpt.index", "bert_config.json", "vocab.txt"):
            assert "would overwrite a file of the model" in fails_with(
                "predict.py",
                f"--model_dir={blanks}",
                f"--output_file={folder}/{name}",
                "the [MASK]",
            )


def test_what_cannot_be_done(tmp_path: Path) -> None:
    assert "both --input_file and the text 'a [MASK]'" in fails_with(
        "predict.py", "--model_dir=x", "--input_file=y", "a [MASK]"
    )
    assert f"{tmp_path} has no config" in fails_with(
        "predict.py", f"--model_dir={tmp_path}", "a [MASK]"
    )


def test_help_of_the_installed_command_lists_the_flags() -> None:
    script = "import predict; predict.cli()"  # what pip installs
    done = subprocess.run(
        [sys.executable, "-c", script, "--help"],
        cwd=ROOT,
        capture_output=True,
        env={**os.environ, "COLUMNS": "80"},
        text=True,
    )
    assert done.stdout.startswith("Usage: predict --model_dir=DIR [flags]")
    assert "\nAnswer lines of text with a model" in done.stdout
    assert done.returncode == 0
    assert "--top_k" in done.stdout
