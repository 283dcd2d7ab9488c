"""The examples in docstrings of what is public, run as a user would."""

import csv
import dataclasses
import doctest
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_keras
from bert_keras.modeling.checkpoint import save_model_folder
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.fused_ops import uncompiled
from bert_keras.tasks.classification.model import make_target
from bert_keras.tasks.classification.pipeline import (
    TextClassificationPipeline,
)
from bert_keras.tasks.fill_mask import FillMaskPipeline
from bert_keras.tasks.multiple_choice.pipeline import MultipleChoicePipeline
from bert_keras.tasks.ner.pipeline import TokenClassificationPipeline
from bert_keras.tasks.pipeline import Pipeline
from bert_keras.tasks.squad.pipeline import QuestionAnsweringPipeline
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.tasks.task_model import TaskModel

WORDS = """[PAD] [UNK] [CLS] [SEP] [MASK] . ? the a and is was saw sky sea film
plot blue wet boring wonderful what ann bob rome dog""".split()
CONFIG = dataclasses.replace(
    BertConfig.of_size("tiny", len(WORDS)), num_hidden_layers=1
)
REVIEWS = [
    ("The film was wonderful.", "good"),
    ("The plot was boring.", "bad"),
    ("A wonderful plot.", "good"),
    ("A boring film.", "bad"),
]
CORPUS = """The sky is blue.
The sea is blue and wet.

Ann saw a film.
The film was wonderful.
Bob saw a boring film.
"""
FITS = "Pretraining", "TextClassifier"  # whose examples call `fit`
METHODS: dict[str, Callable[..., Any]] = {
    f"{each.__qualname__}": each
    for each in (
        TaskModel.from_folder,
        TaskModel.save_folder,
        TaskModel.tokenize,
        bert_keras.MultipleChoice.tokenize,
        bert_keras.TextClassifier.from_folder,
        bert_keras.BertConfig.of_size,
        bert_keras.BertConfig.from_json_file,
        bert_keras.BertConfig.to_json,
        Pipeline.encode,
        TextClassificationPipeline.predict,
        QuestionAnsweringPipeline.answer,
        TokenClassificationPipeline.tag,
        FillMaskPipeline.fill,
        MultipleChoicePipeline.choose,
    )
}


def save(folder: str, model: Any, head: dict[str, Any], **task: Any) -> None:
    """A BERT written by hand: a token's vector is its id's, and attention adds
    the mean of all of them. Where `head` says nothing, weights are zeros."""
    eye = np.eye(CONFIG.hidden_size)
    values = {
        "bert/embeddings/word_embeddings": eye[: len(WORDS)],
        "bert/encoder/layer_0/attention/self/value/kernel": eye,
        "bert/encoder/layer_0/attention/output/dense/kernel": eye,
        "bert/pooler/dense/kernel": eye,
        **head,
    }
    for mapping in model.mappings():
        fill = 1.0 if mapping.name.endswith("gamma") else 0.0
        value = values.pop(mapping.name, np.full(mapping.shape, fill))
        mapping.write(np.asarray(value, np.float32))
    assert values == {}
    save_model_folder(folder, CONFIG, model.mappings(), "vocab.txt")
    if task:
        text = TaskConfig(do_lower_case=True, **task).to_json()
        Path(folder, "task.json").write_text(text)


def outputs(*scores: dict[str, float]) -> np.ndarray:
    """[C, H]: what each word adds to each output."""
    weights = np.zeros((len(scores), CONFIG.hidden_size))
    for row, words in zip(weights, scores, strict=True):
        for word, score in words.items():
            row[WORDS.index(word)] = score
    return weights


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a reader of the examples has."""
    path = tmp_path_factory.mktemp("reader")
    with pytest.MonkeyPatch.context() as patch, uncompiled():
        patch.chdir(path)
        write_files()
        write_models()
        yield path


def write_files() -> None:
    Path("vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    Path("corpus.txt").write_text(CORPUS)
    bert_keras.make_records(
        "corpus.txt", "records.tfrecord", "vocab.txt",
        max_seq_length=32, num_workers=1,
    )  # fmt: skip
    with open("reviews.csv", "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *REVIEWS])
    answer = {"text": "sky", "answer_start": 4}
    question = {"id": "0", "question": "What is blue?", "answers": [answer]}
    paragraph = {"context": "The sky is blue.", "qas": [question]}
    squad = {"data": [{"title": "Sky", "paragraphs": [paragraph]}]}
    Path("train-v1.1.json").write_text(json.dumps(squad))


def write_models() -> None:
    blue = np.arange(len(WORDS)) == WORDS.index("blue")
    save(
        "bert",
        bert_keras.Pretraining(CONFIG),
        {"cls/predictions/output_bias": 10 * blue},
    )
    save(
        "reviews",
        bert_keras.TextClassifier(
            CONFIG, make_target("single_label", ("bad", "good"))
        ),
        {"output_weights": outputs({"boring": 9}, {"wonderful": 9})},
        target="single_label",
        max_seq_length=32,
        labels=("bad", "good"),
    )
    save(
        "squad",
        bert_keras.QuestionAnsweringModel(CONFIG),
        {"cls/squad/output_weights": outputs({"sky": 1}, {"sky": 1})},
        target="span",
        max_seq_length=32,
        doc_stride=16,
    )
    save(
        "ner",
        bert_keras.TokenClassifier(CONFIG, 3),
        {
            "output_weights": outputs({}, {"ann": 1, "bob": 1}, {"rome": 1}),
            "output_bias": np.array([5, 0, 0]),
        },
        target="tags",
        max_seq_length=32,
        labels=("O", "B-PER", "B-LOC"),
    )
    save(
        "swag",
        bert_keras.MultipleChoice(CONFIG),
        {"output_weights": outputs({"blue": 9})},
        target="choice",
        max_seq_length=32,
    )


@pytest.mark.filterwarnings(
    "ignore:`shuffle=True` was passed",  # Keras's own
    "ignore:Even though the `tf.config.experimental_run_functions_eagerly`",
)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow)
        if name.startswith(("train_", "pretrain"))
        else name
        for name in (*bert_keras.__all__, *METHODS)
    ],
)
def test_the_example_runs(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thing = METHODS.get(name) or getattr(bert_keras, name)
    names = {"bert_keras": bert_keras, "keras": keras, "np": np}
    (example,) = doctest.DocTestFinder(recurse=False).find(
        thing, name, globs=names
    )
    assert example.examples, f"{name} has no example"
    # XLA would take longer to compile the whole step than the steps take.
    tf.config.run_functions_eagerly(name in FITS)
    try:
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        failed, _ = runner.run(example)
    finally:
        tf.config.run_functions_eagerly(False)
    assert failed == 0, capsys.readouterr().out
