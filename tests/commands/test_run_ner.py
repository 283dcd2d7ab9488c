"""Tests of run_ner.py, as a user would start it."""

import dataclasses
import json
import random
import shutil
from pathlib import Path

import pytest
import tensorflow as tf

from bert_keras.data.tokenization import FullTokenizer
from bert_keras.errors import InputError
from bert_keras.tasks.ner.data import read_columns
from bert_keras.tasks.ner.iob_tags import (
    entities,
    entity_scores,
    scheme_of,
    to_tags,
)
from bert_keras.tasks.ner.task import Files, read_problem, read_texts
from bert_keras.tasks.task_config import TaskConfig
from tests.conftest import ONE_LAYER, fails_with, forked, results

WORDS = [f"w{i}" for i in range(30)]
NAMES = {"PER": ["ann", "bob lee", "eve fox"], "LOC": ["rome", "new york"]}


def sentence(rng: random.Random) -> list[tuple[str, str]]:
    """Words and tags, in IOB1; names between other words."""
    pairs: list[tuple[str, str]] = []
    for _ in range(rng.randint(1, 3)):
        pairs += [(word, "O") for word in rng.sample(WORDS, rng.randint(1, 6))]
        kind = rng.choice(sorted(NAMES))
        names = rng.choice(NAMES[kind]).split()
        pairs += [(name, f"I-{kind}") for name in names]
    return pairs


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.txt, dev.txt and test.txt, and a model without weights."""
    folder = tmp_path_factory.mktemp("data")
    rng = random.Random(3)
    for name, count in (("train", 110), ("dev", 23), ("test", 17)):
        text = ""
        for i in range(count):
            text += "" if i % 5 else "-DOCSTART- x O\n\n"
            text += "".join(f"{w} x {tag}\n" for w, tag in sentence(rng)) + "\n"
        (folder / f"{name}.txt").write_text(text)
    config = dataclasses.replace(ONE_LAYER, hidden_dropout_prob=0.1)
    (folder / "bert_config.json").write_text(config.to_json())
    special_tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special_tokens, *WORDS]
    words += [w for names in NAMES.values() for n in names for w in n.split()]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    return folder


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with document context."""
    folder = tmp_path_factory.mktemp("trained")
    output = forked(
        "run_ner.py",
        *flags(data, folder),
        f"--bert_config_file={data}/bert_config.json",
        f"--vocab_file={data}/vocab.txt",
        "--document_context",
        "--train_batch_size=4",
        "--num_train_epochs=4",
    )
    assert f"predict.py --model_dir={folder}" in output
    return folder


def flags(data: Path, output_dir: Path) -> tuple[str, ...]:
    return (
        f"--data_dir={data}",
        f"--output_dir={output_dir}",
        "--max_seq_length=31",
        "--learning_rate=3e-3",
        "--do_train",
        "--do_eval",
        "--do_predict",
    )


@pytest.mark.parametrize(
    ("document_context", "texts"),
    [(False, ["Ann reads", "it", "Bob"]), (True, ["Ann reads it", "Bob"])],
)
def test_what_is_one_text(
    document_context: bool, texts: list[str], tmp_path: Path
) -> None:
    vocabulary = "[PAD] [UNK] [CLS] [SEP] [MASK] Ann reads it Bob".split()
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    (tmp_path / "words.txt").write_text(
        "-DOCSTART- O\n\nAnn B-PER\nreads O\n\nit O\n\n"
        "-DOCSTART- O\n\nBob B-PER\n"
    )
    settings = TaskConfig(
        target="tags",
        do_lower_case=False,
        max_seq_length=9,
        doc_stride=4,
        document_context=document_context,
    )
    tokenizer = FullTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=False)
    file = read_columns(str(tmp_path / "words.txt"))
    rows = read_texts(file, tokenizer, settings).rows
    assert [
        " ".join(tokenizer.convert_ids_to_tokens(row.input_ids[1:-1]))
        for row in rows
    ] == texts


def test_what_was_read_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows have room for two of three tokens; B-PER comes once."""
    vocabulary = "[PAD] [UNK] [CLS] [SEP] [MASK] Ann reads it".split()
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    path = tmp_path / "words.txt"
    path.write_text("0 Ann B-PER\n1 reads O\n2 it O\n\n0 it O\n")
    files = Files(None, str(path), None, None, "1", None)
    file = read_problem(files, True, False, False, ()).train
    assert file is not None
    tokenizer = FullTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=False)
    settings = TaskConfig("tags", 4, False, doc_stride=1)
    read_texts(file, tokenizer, settings)
    captured = capsys.readouterr()
    assert captured.out == (
        f"{path}: 2 sentences of 4 words (words in column 1, tags in column 2)"
        " in 3 windows\n"
        "  sentences of 1 to 3 tokens, median 1; 1 do not fit into "
        "`max_seq_length=4` and are read through windows\n"
        "  tags: O 3, B-PER 1\n"
        "  sentences without an entity: 1\n"
    )
    assert captured.err.startswith(f"WARNING: {path} has 'B-PER' only once")


def test_a_tagger_with_document_context(data: Path, trained: Path) -> None:
    task = json.loads((trained / "task.json").read_text())
    assert task["labels"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert task["document_context"] and task["doc_stride"] == 15
    assert results(trained)["eval_f1"] > 0.8
    found = results(trained, "_test")
    assert {"eval_f1_PER", "eval_recall_LOC", "eval_accuracy"} <= set(found)
    # The file as it was, with a column; which scores what it is said to.
    lines = (trained / "test_predictions.txt").read_text().splitlines()
    asked = (data / "test.txt").read_text().splitlines()
    assert [line.rpartition(" ")[0] for line in lines if line] == [
        line for line in asked if line
    ]
    assert [not line for line in lines] == [not line for line in asked]
    golds = read_columns(str(data / "test.txt")).sentences
    tags = read_columns(str(trained / "test_predictions.txt")).sentences
    scores = entity_scores([s.tags for s in golds], [s.tags for s in tags])
    assert 0.8 < scores["f1"] == pytest.approx(found["eval_f1"])
    assert scheme_of(s.tags for s in tags) == "IOB1"  # as the file's


def test_json_in_biluo_is_the_same_file(
    data: Path, trained: Path, tmp_path: Path
) -> None:
    """test.txt as JSON with tags of BILUO: the same scores, the same entities
    predicted, given back in its own form."""
    rows: list[dict[str, list[str]]] = []
    document = -1
    for sentence in read_columns(str(data / "test.txt")).sentences:
        if sentence.document != document:
            rows.append({"tokens": ["-DOCSTART-"], "ner_tags": ["O"]})
            document = sentence.document
        tags = to_tags(entities(sentence.tags), len(sentence.words), "BILUO")
        rows.append({"tokens": sentence.words, "ner_tags": tags})
    assert {"U", "L"} <= {tag[0] for row in rows for tag in row["ner_tags"]}
    (tmp_path / "test.json").write_text(json.dumps(rows))
    folder = tmp_path / "model"
    shutil.copytree(trained, folder)
    given = f"--output_dir={folder}", f"--predict_file={tmp_path}/test.json"
    forked("run_ner.py", *given, "--do_predict")
    assert results(folder, "_test") == pytest.approx(results(trained, "_test"))
    lines = (folder / "test_predictions.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert [{k: row[k] for k in rows[0]} for row in found] == rows
    predicted = read_columns(str(trained / "test_predictions.txt")).sentences
    assert [
        row["predicted_tags"] for row in found if row["predicted_tags"]
    ] == [to_tags(entities(s.tags), len(s.words), "BILUO") for s in predicted]


@pytest.mark.slow
def test_a_tagger_on_vectors_that_are_kept(
    data: Path, trained: Path, tmp_path: Path
) -> None:
    given = flags(data, tmp_path)
    forked(
        "run_ner.py",
        *given,
        f"--init_checkpoint={trained}",
        "--feature_layers=last",
        "--lstm_size=11",
        "--learning_rate=3e-2",
        "--train_batch_size=13",
        "--num_train_epochs=4",
    )
    names = ("eval_results.txt", "test_predictions.txt")
    texts = [(tmp_path / name).read_text() for name in names]
    assert results(tmp_path)["eval_f1"] > 0.8
    # The encoder is as it was, and the folder says what stands on it.
    ours, theirs = (
        tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
        for folder in (tmp_path, trained)
    )
    name = "bert/encoder/layer_0/output/dense/kernel"
    assert (ours.get_tensor(name) == theirs.get_tensor(name)).all()
    for name in names:
        (tmp_path / name).unlink()
    output = forked("run_ner.py", *[f for f in given if f != "--do_train"])
    assert output.count("is used again") == 2  # of dev.txt and test.txt
    assert [(tmp_path / name).read_text() for name in names] == texts


def test_refusals(data: Path, trained: Path, tmp_path: Path) -> None:
    given = [f for f in flags(data, trained) if f != "--do_train"]
    assert "nothing to do" in fails_with("run_ner.py", *given[:2])
    path = tmp_path / "odd.txt"
    path.write_text("ann B-PER\nsees O\nmars B-GOD\n")
    assert fails_with("run_ner.py", *given, f"--predict_file={path}").endswith(
        "odd.txt, line 3 has the tag 'B-GOD', but the model knows LOC, PER "
        "only; correct the line, or train on a file that has it"
    )
    flag = f"--data_dir={tmp_path}"
    assert f"{flag} has no valid.txt or dev.txt; name the file by " in (
        fails_with("run_ner.py", *given, flag)
    )
    path.write_text("ann B-PER\n")
    # before anything is done
    assert "does not begin with a -DOCSTART- line" in fails_with(
        "run_ner.py", *given, f"--predict_file={path}", "--dry_run"
    )
    frozen = "--feature_layers=last", "--num_frozen_layers=1"
    assert "the whole encoder is frozen" in fails_with(
        "run_ner.py",
        *flags(data, tmp_path / "out"),
        f"--bert_config_file={data}/bert_config.json",
        f"--vocab_file={data}/vocab.txt",
        *frozen,
    )
    # a model is used as it was trained
    assert "feature_layers is 'last', and the model was trained with" in (
        fails_with("run_ner.py", *given, *frozen)
    )


def test_parts_of_speech_are_not_entities(data: Path) -> None:
    files = Files(str(data), None, None, None, None, None)
    with pytest.raises(InputError, match="NOUN, VERB, which are not tags of"):
        read_problem(files, False, False, True, ("NOUN", "VERB"))
