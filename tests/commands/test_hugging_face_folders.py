"""Models as transformers saved them, asked by predict.py's own functions and
used by the commands.

Expected numbers are those of transformers 5.24 for the same folders and texts.
"""

import dataclasses
import functools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.modeling.hugging_face import save_hugging_face_folder
from bert_keras.modeling.hugging_face_names import TAGGER
from bert_keras.tasks.classification.model import TextClassifier, make_target
from bert_keras.tasks.export import load_model, open_folder
from bert_keras.tasks.load import load
from bert_keras.tasks.ner.model import TokenClassifier
from bert_keras.tasks.pipeline import Answer
from bert_keras.training.inference import Predictor, predict
from tests.conftest import GOLDEN, TINY, forked, results

pytestmark = pytest.mark.usefixtures("uncompiled_chains")

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAIR = "piece1 piece7\tpiece30"
BERT_LOGITS = [1.1176898, 0.8301011, 1.1988990]
DISTILBERT_LOGITS = [3.2370667, 3.3860617, 6.7519693]
MODERNBERT_LOGITS = [0.2376311, 1.1543796, -0.0151233]


def folder_of(tmp_path: Path, name: str, **changes: Any) -> str:
    """A golden folder with a vocabulary, and a config.json that is changed."""
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "hugging_face" / name, folder)
    pieces = [*SPECIAL, *(f"piece{i}" for i in range(32))]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return str(folder)


def answer(folder: str, line: str) -> Answer:
    model = load(folder)
    run = functools.partial(predict, Predictor(model.model.outputs_by_name))
    (found,) = model.answer_all([line], run)
    return found


@pytest.mark.parametrize(
    ("name", "logits"),
    [
        ("classifier", BERT_LOGITS),
        ("distilbert_classifier", DISTILBERT_LOGITS),
        ("modernbert_classifier", MODERNBERT_LOGITS),
    ],
)
def test_classes_of_a_pair(
    tmp_path: Path, name: str, logits: list[float]
) -> None:
    folder = folder_of(tmp_path, name)
    found = answer(folder, PAIR).fields
    shares = np.exp(logits) / np.exp(logits).sum()
    assert list(found["probabilities"]) == ["no", "yes", "perhaps"]
    np.testing.assert_allclose(
        list(found["probabilities"].values()), shares, atol=1e-5
    )
    assert found["label"] == ["no", "yes", "perhaps"][np.argmax(logits)]
    settings, config, _ = open_folder(folder)
    assert settings is not None and settings.labels == ("no", "yes", "perhaps")
    load_model(folder, config, settings)  # to be exported


def test_several_classes_of_a_pair(tmp_path: Path) -> None:
    """1 / (1 + exp(-logit))"""
    problem = "multi_label_classification"
    folder = folder_of(tmp_path, "classifier", problem_type=problem)
    found = answer(folder, PAIR).fields
    np.testing.assert_allclose(
        list(found["probabilities"].values()),
        [0.7535599, 0.6963763, 0.7683288],
        atol=1e-5,
    )
    assert found["labels"] == ["no", "yes", "perhaps"]


def test_three_numbers_of_a_text_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "classifier", problem_type="regression")
    with pytest.raises(InputError, match="gives 3 numbers to a text; expected"):
        load(folder)


def test_a_number_of_a_text(tmp_path: Path) -> None:
    """By the variables of a choice, where it is the score of one choice."""
    folder = folder_of(
        tmp_path, "choice", architectures=["BertForSequenceClassification"]
    )
    found = answer(folder, "piece1 piece7\tpiece2")
    assert found.fields == {"value": pytest.approx(6.7501631, abs=1e-5)}


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("choice", [0.3334483, 0.3332765, 0.3332752]),
        ("distilbert_choice", [0.3327294, 0.3334106, 0.3338600]),
        ("modernbert_choice", [0.3660749, 0.3502983, 0.2836268]),
    ],
)
def test_choices(tmp_path: Path, name: str, shares: list[float]) -> None:
    folder = folder_of(tmp_path, name)
    line = "piece1 piece7\tpiece2\tpiece3 piece9\tpiece30"
    found = answer(folder, line).fields
    np.testing.assert_allclose(found["probabilities"], shares, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "text", "score"),
    [
        ("span", "piece30", 3.3063390),
        ("distilbert_span", "piece11", -0.2671024),
        ("modernbert_span", "piece30", 0.0046272),
    ],
)
def test_spans(tmp_path: Path, name: str, text: str, score: float) -> None:
    folder = folder_of(tmp_path, name)
    found = answer(folder, "piece1 piece7\tpiece30 piece2 piece9 piece11")
    assert found.fields["answer"] == text
    assert found.fields["score"] == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("name", ["tagger", "distilbert_tagger"])
def test_tags_and_other_labels_of_words(tmp_path: Path, name: str) -> None:
    line = "piece1 piece7 piece30"
    folder = folder_of(tmp_path / "one", name)
    found = answer(folder, line)
    assert (found.fields["tags"], found.fields["entities"]) == (["O"] * 3, [])
    names = {"0": "NOUN", "1": "VERB", "2": "."}
    folder = folder_of(tmp_path / "two", name, id2label=names)
    found = answer(folder, line)
    assert found.fields == {"words": line.split(), "tags": ["NOUN"] * 3}
    assert found.columns == ["piece1 NOUN", "piece7 NOUN", "piece30 NOUN"]


def test_a_classifier_of_an_unknown_class_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "tagger", architectures=["BertCrfForNer"])
    assert "config.json says what else it was" in load(folder).fault


VOCAB = str(GOLDEN / "tiny_vocab.txt")
SMALL = dataclasses.replace(TINY, num_hidden_layers=1)


def save(folder: Path, model: Any, labels: list[str], **settings: Any) -> str:
    """A folder whose every answer is its head's bias: 0, 1, 2, ..."""
    for mapping in model.mappings():
        value = np.zeros(mapping.shape, np.float32)
        if mapping.name == "output_bias":
            value += np.arange(len(labels))
        mapping.write(value)
    save_hugging_face_folder(
        str(folder), SMALL, model.mappings(), VOCAB, labels, **settings
    )
    return str(folder)


def test_mnli_by_a_model_with_its_labels_in_another_order(
    tmp_path: Path,
) -> None:
    """Entailment is always likeliest, neutral next: exp 2, 1 and 0 of their
    sum, in Google's order, as contradiction, entailment, neutral."""
    labels = ["contradiction", "neutral", "entailment"]
    model = TextClassifier(SMALL, make_target("single_label", tuple(labels)))
    folder = save(tmp_path / "model", model, labels)
    data = tmp_path / "MNLI"
    data.mkdir()
    columns = ["index", *"abcdefg", "sentence1", "sentence2"]
    row = "{}\ta\tb\tc\td\te\tf\tg\tthe sea\tan island"
    golds = ["entailment", "neutral", "entailment", "entailment"]
    dev = ["\t".join([*columns, "gold_label"])]
    dev += [f"{row.format(i)}\t{gold}" for i, gold in enumerate(golds)]
    test = ["\t".join(columns), row.format(0)]
    for name, lines in (("dev", dev), ("test", test)):
        for kind in ("matched", "mismatched"):
            (data / f"{name}_{kind}.tsv").write_text("\n".join(lines) + "\n")
    output_dir = tmp_path / "out"
    forked(
        "run_classifier.py",
        "--task_name=MNLI",
        f"--data_dir={tmp_path}",
        "--do_eval",
        "--do_predict",
        f"--init_checkpoint={folder}",
        f"--output_dir={output_dir}",
    )
    assert results(output_dir)["eval_accuracy"] == 0.75
    line = (output_dir / "test_results.tsv").read_text().split("\t")
    np.testing.assert_allclose(
        [float(x) for x in line], [0.0900306, 0.6652410, 0.2447285], atol=1e-6
    )
    assert (output_dir / "MNLI-m.tsv").read_text().endswith("0\tentailment\n")


@pytest.mark.slow
def test_a_tagger_with_its_labels_in_another_order(tmp_path: Path) -> None:
    """The folder lists LOC last, and run_ner.py lists PER last. At a learning
    rate of 0 nothing is learnt."""
    labels = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    folder = save(
        tmp_path / "model", TokenClassifier(SMALL, 5), labels, classifier=TAGGER
    )
    tagged = tmp_path / "tagged.txt"
    tagged.write_text("the I-LOC\nsea I-LOC\n\nisland I-PER\n\n" * 4)
    forked(
        "run_ner.py",
        "--do_train",
        "--do_eval",
        f"--train_file={tagged}",
        f"--eval_file={tagged}",
        f"--init_checkpoint={folder}",
        f"--output_dir={tmp_path / 'out'}",
        "--learning_rate=0",
        "--num_train_epochs=1",
        "--train_batch_size=8",
        "--max_seq_length=16",
    )
    found = results(tmp_path / "out")
    assert (found["eval_recall_LOC"], found["eval_recall_PER"]) == (1.0, 0.0)
    task = json.loads((tmp_path / "out" / "task.json").read_text())
    assert task["labels"] == labels
