"""Tests of tasks/load.py, tasks/pipeline.py and each task's pipeline: answers
worked out by hand from given logits, and real models read from their folders.
"""

import contextlib
import dataclasses
import functools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras.data.input_features import IndexedBatch
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import encoder_mappings, save_model_folder
from bert_keras.modeling.encoder import Encoder
from bert_keras.tasks.classification.data import split_labels
from bert_keras.tasks.classification.model import TextClassifier, make_target
from bert_keras.tasks.features import make_document
from bert_keras.tasks.fill_mask import BlankFiller
from bert_keras.tasks.load import load
from bert_keras.tasks.multiple_choice.model import MultipleChoice
from bert_keras.tasks.ner.feature_based.lstm_tagger import FeatureTagger
from bert_keras.tasks.ner.model import TokenClassifier
from bert_keras.tasks.ner.pipeline import word_spans
from bert_keras.tasks.pipeline import Answer, Pipeline
from bert_keras.tasks.pretraining.model import MaskedLm
from bert_keras.tasks.run_context import make_devices
from bert_keras.tasks.squad.model import QuestionAnsweringModel
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.training.config import DeviceConfig
from bert_keras.training.inference import Predictor, predict
from tests.conftest import GOLDEN, ONE_LAYER

pytestmark = pytest.mark.usefixtures("uncompiled_chains")

VOCAB = str(GOLDEN / "tiny_vocab.txt")
LABELS = ("no", "yes", "maybe")


def save(folder: Path, model: Any, **settings: Any) -> str:
    """A folder of a model with random weights, for a task if one is named."""
    rng = np.random.default_rng(3)
    for mapping in model.mappings():
        mapping.write(rng.normal(size=mapping.shape).astype(np.float32))
    save_model_folder(str(folder), ONE_LAYER, model.mappings(), VOCAB)
    if settings:
        task = TaskConfig(do_lower_case=True, **settings)
        (folder / "task.json").write_text(task.to_json())
    return str(folder)


def text_folder(folder: Path, target: str, **settings: Any) -> str:
    labels = () if target == "regression" else LABELS
    model = TextClassifier(ONE_LAYER, make_target(target, labels))
    settings = {"max_seq_length": 16, "labels": labels, **settings}
    return save(folder, model, target=target, **settings)


def answers(
    model: Pipeline, lines: Iterable[str], **outputs: Any
) -> list[Answer]:
    """What the model says to lines whose rows all have these outputs."""

    def run(batches: Iterable[IndexedBatch]) -> Iterator[dict[str, np.ndarray]]:
        for indices, _ in batches:
            yield from [{k: np.array(v) for k, v in outputs.items()}] * len(
                indices
            )

    return list(model.answer_all(lines, run))


def test_a_class(tmp_path: Path) -> None:
    """Odds of 1 : 4 : 3."""
    model = load(text_folder(tmp_path, "single_label"))
    (answer,) = answers(model, ["The sea."], logits=np.log([0.5, 2.0, 1.5]))
    assert answer.number == 1
    assert answer.fields["label"] == "yes"
    shares = answer.fields["probabilities"]
    assert list(shares) == ["no", "yes", "maybe"]
    assert list(shares.values()) == pytest.approx([0.125, 0.5, 0.375])
    assert answer.columns == [
        *["yes", "no 0.125000", "yes 0.500000", "maybe 0.375000"]
    ]


def test_several_classes(tmp_path: Path) -> None:
    """Odds of 3 : 1, 1 : 3 and 4 : 1."""
    model = load(text_folder(tmp_path, "multi_label"))
    logits = np.log([3.0, 1 / 3, 4.0])
    (answer,) = answers(model, ["The sea."], logits=logits)
    assert answer.fields["labels"] == ["no", "maybe"]
    assert answer.columns == [
        *["no,maybe", "no 0.750000", "yes 0.250000", "maybe 0.800000"]
    ]


def test_a_number(tmp_path: Path) -> None:
    model = load(text_folder(tmp_path, "regression"))
    (answer,) = answers(model, ["The sea."], logits=[2.5])
    assert answer.fields == {"value": 2.5}
    assert answer.columns == ["2.500000"]


def test_labels_that_hold_the_separator_can_be_read_back(
    tmp_path: Path,
) -> None:
    labels = ("blue, dark", "red", "green")
    folder = text_folder(tmp_path, "multi_label", labels=labels)
    logits = np.log([3.0, 4.0, 0.5])
    (answer,) = answers(load(folder), ["The sea."], logits=logits)
    assert json.loads(answer.columns[0]) == ["blue, dark", "red"]
    assert split_labels(answer.columns[0], ",") == ["blue, dark", "red"]
    text_folder(tmp_path, "multi_label", labels=labels, label_separator=";")
    (answer,) = answers(load(folder), ["The sea."], logits=logits)
    assert answer.columns[0] == "blue, dark;red"
    text_folder(tmp_path, "multi_label", labels=("[x]", "y", "z"))
    (answer,) = answers(load(folder), ["The sea."], logits=logits)
    assert split_labels(answer.columns[0], ",") == ["[x]", "y"]


@pytest.mark.parametrize(
    ("takes_pairs", "errors"),
    [
        (None, ["", "", "3 texts .* one or two"]),
        (False, ["", "2 texts .* takes one$", "3 texts .* takes one$"]),
        (True, ["one text; the model takes two", "", "3 texts .* takes two$"]),
    ],
)
def test_one_text_or_two_is_what_it_was_trained_on(
    tmp_path: Path, takes_pairs: bool | None, errors: list[str]
) -> None:
    folder = text_folder(tmp_path, "regression", takes_pairs=takes_pairs)
    lines = ["a storm\n", "a\tstorm", "a\tb\tc"]
    for answer, error in zip(
        answers(load(folder), lines, logits=[2.5]), errors, strict=True
    ):
        assert bool(error) == ("error" in answer.fields)
        assert re.search(error, answer.fields.get("error", ""))


def test_columns_are_texts_whatever_is_in_them(tmp_path: Path) -> None:
    folder = text_folder(tmp_path, "regression", takes_pairs=False)
    model = load(folder)
    rows = [("the\tsea",), ("the\nsea",), ("the sea",), ("",)]
    questions = [model._read(1, row) for row in rows]
    assert questions[0] == questions[1] == questions[2]
    assert questions[3].error == "the text is empty"


def test_lines_without_an_answer_say_why(tmp_path: Path) -> None:
    """And leave the numbers of others as they are."""
    model = load(text_folder(tmp_path, "regression"))
    lines = [" \n", "the\tsea\n", "a\tb\tc", "", "the sea", "\x00\u200b"]
    found = answers(model, lines, logits=[2.5])
    assert [answer.number for answer in found] == [1, 2, 3, 4, 5, 6]
    assert [answer.columns for answer in found] == [
        *[[], ["2.500000"], [], [], ["2.500000"], []]
    ]
    assert "drops every character" in found[5].fields["error"]
    assert found[0].fields == {"error": "the text is empty"}
    assert "3 texts" in found[2].fields["error"]


def test_a_long_line_is_cut_or_read_through_windows(tmp_path: Path) -> None:
    long = "the sea " * 50
    model = load(text_folder(tmp_path, "regression"))
    cut, short = answers(model, [long, "the sea"], logits=[2.5])
    assert (cut.note, short.note) == ("it is cut to 16 tokens", "")
    model = load(text_folder(tmp_path, "regression", doc_stride=7))
    (windowed,) = answers(model, [long], logits=[2.5])  # 0-13, ..., 91-99
    assert windowed.note == "it is read through 14 windows of 16 tokens"
    assert windowed.columns == ["2.500000"]


def test_a_cut_text_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model: Any = load(text_folder(tmp_path, "regression"))
    model.predict("the sea")
    assert capsys.readouterr().err == ""
    for _ in range(2):
        model.predict(["the sea", "the sea " * 50])
    said = capsys.readouterr().err
    assert said == "one of the texts: it is cut to 16 tokens\n"


def test_texts_as_the_model_itself_scores_them(tmp_path: Path) -> None:
    """Through folder, tokenizer, padding and batches; windows are joined."""
    folder = text_folder(
        tmp_path, "single_label", doc_stride=7, window_pooling="max"
    )
    model = load(folder)
    assert model.report.missing == model.report.unused == ()
    tokenizer, classifier = model.tokenizer, model.model
    lines = ["An island.\tThe wind blew.", "the sea", "old captain " * 8]
    segments = [
        ("[CLS] an island . [SEP]", "the wind blew . [SEP]"),
        ("[CLS] the sea [SEP]", ""),
        ("[CLS] " + "old captain " * 7 + "[SEP]", ""),  # 0-13 of 16 pieces
        ("[CLS] captain " + "old captain " * 4 + "[SEP]", ""),  # 7-15
    ]
    logits = []
    for first, second in segments:
        tokens = [first.split(), second.split()]
        ids = tokenizer.convert_tokens_to_ids(sum(tokens, []))
        places = [0] * len(tokens[0]) + [1] * len(tokens[1])
        row = {
            "input_ids": np.array([ids]),
            "input_mask": np.ones([1, len(ids)], int),
            "segment_ids": np.array([places]),
        }
        logits.append(np.array(classifier.outputs_by_name(row)["logits"])[0])
    logits[2:] = [np.maximum(*logits[2:])]
    found = list(model.answer_all(lines, runner(model), batch_size=2))
    for answer, expected in zip(found, logits, strict=True):
        shares = np.exp(expected) / np.exp(expected).sum()
        np.testing.assert_allclose(
            list(answer.fields["probabilities"].values()), shares, atol=1e-5
        )


def runner(
    model: Pipeline,
) -> Callable[[Iterable[IndexedBatch]], Iterator[dict]]:
    return functools.partial(predict, Predictor(model.model.outputs_by_name))


SPANS = {"target": "span", "max_seq_length": 16, "doc_stride": 4}
LINE = "Who?\tThe old Captain  saw the sea."


def span_logits(best: int) -> list[float]:
    return [10.0 if i == best else 0.0 for i in range(16)]


def test_a_span(tmp_path: Path) -> None:
    """[CLS] who ? [SEP] the old captain saw the sea . [SEP]: 5 to 6."""
    model = load(save(tmp_path, QuestionAnsweringModel(ONE_LAYER), **SPANS))
    (answer,) = answers(
        model, [LINE], start_logits=span_logits(5), end_logits=span_logits(6)
    )
    assert answer.fields["answer"] == "old Captain"
    assert answer.fields["score"] == 20.0
    assert answer.fields["probability"] > 0.99
    assert answer.columns[0] == "old Captain"


def test_no_span(tmp_path: Path) -> None:
    settings = {**SPANS, "version_2_with_negative": True}
    model = load(save(tmp_path, QuestionAnsweringModel(ONE_LAYER), **settings))
    (answer,) = answers(
        model, [LINE], start_logits=span_logits(0), end_logits=span_logits(0)
    )
    assert answer.fields["answer"] == ""
    assert answer.fields["null_odds"] == 20.0
    assert answer.fields["probability"] > 0.99


def test_where_no_span_is_allowed_there_is_no_answer(tmp_path: Path) -> None:
    """The likeliest start lies behind the likeliest end."""
    settings = {**SPANS, "n_best_size": 1}
    model = load(save(tmp_path, QuestionAnsweringModel(ONE_LAYER), **settings))
    (answer,) = answers(
        model, [LINE], start_logits=span_logits(9), end_logits=span_logits(4)
    )
    assert answer.fields["answer"] == ""
    assert answer.fields["probability"] == 0.0
    assert answer.fields["begin"] is answer.fields["end"] is None
    assert answer.columns == ["", "0.000000"]
    (answer,) = answers(
        model,
        ["Who?\tThe empty sea."],
        start_logits=span_logits(5),
        end_logits=span_logits(5),
    )
    assert answer.fields["answer"] == "empty"


def test_a_real_span_model_and_what_is_no_question(tmp_path: Path) -> None:
    model = load(save(tmp_path, QuestionAnsweringModel(ONE_LAYER), **SPANS))
    lines = [LINE, "Who?", "Who?\t ", LINE + " An island." * 20]
    found = list(model.answer_all(lines, runner(model)))
    assert found[0].fields["answer"] in " ".join(LINE.split())
    for answer in found[1:3]:
        assert answer.fields == {
            "error": "expected a question, a tab and a paragraph"
        }
    assert "windows of 16 tokens" in found[3].note


def test_a_long_question_is_cut_which_is_noted(tmp_path: Path) -> None:
    short = {**SPANS, "max_query_length": 2}
    model = load(save(tmp_path, QuestionAnsweringModel(ONE_LAYER), **short))
    cut = LINE.replace("Who", "Who saw")
    lines = [LINE, cut, cut + " An island." * 5]
    notes = [model.preprocess(1, line.split("\t")).note for line in lines]
    assert notes == [
        "",
        "its question is cut to 2 tokens",
        "its question is cut to 2 tokens; its paragraph is read through 4 "
        "windows of 16 tokens",
    ]


def test_tags(tmp_path: Path) -> None:
    """Nine words of a piece each, in windows of five, three apart: 0-4, 3-7 and
    6-8. The first answers about 0 to 3, the second about 4 to 6, and each gives
    its words O B I I O."""
    settings: dict[str, Any] = {
        "target": "tags", "max_seq_length": 7, "doc_stride": 3,
        "labels": ("O", "B-PER", "I-PER"),
    }  # fmt: skip
    model = load(save(tmp_path, TokenClassifier(ONE_LAYER, 3), **settings))
    line = "The sea (old)  was, sea."
    logits = np.eye(3)[[0, 1, 2, 2, 0]]
    (answer,) = answers(model, [line], logits=logits)
    assert " ".join(answer.fields["words"]) == "The sea ( old ) was , sea ."
    assert [tag[0] for tag in answer.fields["tags"]] == [*"OBIIBIIBI"]
    assert answer.fields["entities"] == [
        {"kind": "PER", "text": "sea (old", "begin": 4, "end": 12},
        {"kind": "PER", "text": ")  was,", "begin": 12, "end": 19},
        {"kind": "PER", "text": "sea.", "begin": 20, "end": 24},
    ]
    assert answer.columns[:3] == ["The O", "sea B-PER", "( I-PER"]
    assert answer.note == "it is read through 3 windows of 7 tokens"
    features = {"feature_layers": "last", "lstm_size": 11}
    kept = FeatureTagger(ONE_LAYER, 3, "last", 11)
    other = load(save(tmp_path / "kept", kept, **settings, **features))
    found = list(other.answer_all([line, " "], runner(other)))
    assert len(found[0].fields["tags"]) == 9
    assert found[1].fields == {"error": "the text is empty"}


def test_words_of_scripts_whose_vowels_combine() -> None:
    line = "भारत की (नदी)।"
    words = [line[begin:end] for begin, end in word_spans(line)]
    assert words == ["भारत", "की", "(", "नदी", ")", "।"]


@pytest.mark.parametrize(
    "line, words",
    [
        ("张三住在Rome。", "张 三 住 在 Rome 。"),
        ("東京タワー", "東 京 タ ワ ー"),
        ("ฉันรักที่", "ฉั น รั ก ที่"),
        ("Ann,Bob saw Rome/Paris", "Ann , Bob saw Rome / Paris"),
        ("1,000 at 10:30 in U.S, it's", "1,000 at 10:30 in U.S , it's"),
        ("a:b:c 3/a", "a : b : c 3 / a"),
    ],
)
def test_words_without_spaces_between_them(line: str, words: str) -> None:
    found = [line[begin:end] for begin, end in word_spans(line)]
    assert found == words.split()


def test_a_pair_with_an_empty_text_is_noted(tmp_path: Path) -> None:
    """It is answered, as upstream, as one text."""
    model = load(text_folder(tmp_path, "single_label", takes_pairs=True))
    lines = ["the sea\ta storm", "the sea\t", "the sea\t\u200b", " \tthe sea"]
    found = answers(model, lines, logits=np.zeros(3))
    assert [answer.note for answer in found] == [
        "",
        "its second text is empty",
        "its second text is empty",
        "its first text is empty",
    ]


def test_a_keras_model_reads_the_blanks_that_fill_answers(
    tmp_path: Path,
) -> None:
    folder = save(tmp_path, BlankFiller(ONE_LAYER, range(95)))
    text = "The [MASK] sea[MASK]."
    model, tokenizer = MaskedLm.from_folder(folder), FullTokenizer(VOCAB)
    inputs = model.tokenize([text, "The sea."])
    is_mask = inputs["input_ids"] == tokenizer.vocab["[MASK]"]
    assert np.argwhere(is_mask).tolist() == [[0, 2], [0, 4]]
    logits = np.asarray(model(inputs))[..., :95][is_mask]
    filled: Any = load(folder)
    pieces = [blank[0].piece for blank in filled.fill(text).blanks]
    found = [tokenizer.inv_vocab[i] for i in logits.argmax(-1)]
    assert found == pieces


def test_blanks(tmp_path: Path) -> None:
    folder = save(tmp_path, BlankFiller(ONE_LAYER, range(95)))
    model = load(folder, top_k=2)
    lines = ["The [MASK].", "the sea", "[MASK] old [MASK]" + " sea" * 80]
    found = list(model.answer_all(lines, runner(model)))
    assert [len(a.fields.get("blanks", [])) for a in found] == [1, 0, 2]
    assert found[1].fields == {"error": "there is no [MASK] in it"}
    assert found[2].note == "it is read through windows of 61 tokens"
    vocab = Path(VOCAB).read_text().split("\n")
    for answer in (found[0], found[2]):
        for blank, column in zip(
            answer.fields["blanks"], answer.columns[1:], strict=True
        ):
            first, second = blank
            assert first["piece"] in vocab and second["piece"] in vocab
            assert 1 > first["probability"] > second["probability"] > 0
            assert column == (
                f"{first['piece']} {first['probability']:.6f}  "
                f"{second['piece']} {second['probability']:.6f}"
            )
    ((best, _),) = found[0].fields["blanks"]
    filled = f"The {best['piece'].removeprefix('##')}."
    assert found[0].fields["text"] == found[0].columns[0] == filled
    json.dumps([answer.fields for answer in found])


def test_a_roberta_must_pad_as_its_vocabulary_does(tmp_path: Path) -> None:
    """<pad> is 1 in that vocabulary."""
    shutil.copytree(GOLDEN / "hugging_face" / "roberta_bare", tmp_path / "m")
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(GOLDEN / "byte_level" / name, tmp_path / "m" / name)
    path = tmp_path / "m" / "config.json"
    config = json.loads(path.read_text()) | {"vocab_size": 420}
    for padding in (1, 3):
        path.write_text(json.dumps(config | {"pad_token_id": padding}))
        with pytest.raises(InputError) as caught:
            load(str(tmp_path / "m"))
        is_refused = "padding token at 1 but the config" in str(caught.value)
        assert is_refused == (padding == 3)  # else it does not fit the weights


def test_folders_that_cannot_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="`folder` is None; expected a path"):
        load(None)  # type: ignore[arg-type]
    for name in (
        ("NO_GCE_CHECK", "true"),
        ("https_proxy", "http://proxy.invalid:1"),
    ):
        monkeypatch.setenv(*name)
    with pytest.raises(InputError, match="cannot read gs://.*/model: "):
        load("gs://bert-keras-has-no-bucket/model")
    with pytest.raises(InputError, match="has no config"):
        load(str(tmp_path))
    folder = text_folder(tmp_path, "regression", max_seq_length=3)
    with pytest.raises(InputError, match="max_seq_length 3; expected at least"):
        load(folder)
    (tmp_path / "task.json").unlink()
    headless: Any = load(folder)  # it can encode
    with pytest.raises(InputError, match="`layer` is 'a'; expected a whole"):
        headless.encode("The sea.", layer="a")
    why = "neither task.json nor.*has no cls/predictions"
    with pytest.raises(InputError, match=why):
        headless.fill("The [MASK].")
    with pytest.raises(AttributeError, match=why):
        headless.predict("The sea.")
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(InputError, match="has no vocabulary"):
        load(folder)


@pytest.mark.slow
def test_python_gets_what_lines_get(tmp_path: Path) -> None:
    """One text and several, in classes, labels and numbers."""
    folders = {
        target: text_folder(tmp_path / target, target)
        for target in ("single_label", "multi_label", "regression")
    }
    texts = ["The sea.", "an old captain", ("the sea", "the storm")]
    lines = ["The sea.", "an old captain", "the sea\tthe storm"]
    for target, folder in folders.items():
        model: Any = load(folder)
        found = model.predict(texts)
        expected = [x.fields for x in model.answer_all(lines, runner(model))]
        if target == "regression":
            assert found == [fields["value"] for fields in expected]
        else:
            assert [dataclasses.asdict(x) for x in found] == expected
        assert type(model.predict(texts[2])) is type(found[2])
    assert load(folders["single_label"]).predict([]) == []


@pytest.mark.slow
def test_python_answers_tags_chooses_and_fills(tmp_path: Path) -> None:
    model: Any = load(
        save(tmp_path / "q", QuestionAnsweringModel(ONE_LAYER), **SPANS)
    )
    question, paragraph = LINE.split("\t")
    (line,) = model.answer_all([LINE], runner(model))
    answer = model.answer(question, paragraph)
    assert dataclasses.asdict(answer) == {"null_odds": None, **line.fields}
    found = paragraph[answer.begin : answer.end]
    assert " ".join(found.split()) == answer.answer
    assert model.answer([question, question], paragraph) == [answer, answer]

    labels = ("O", "B-PER", "I-PER")
    model = load(
        save(
            tmp_path / "t",
            TokenClassifier(ONE_LAYER, 3),
            target="tags",
            max_seq_length=16,
            labels=labels,
        )
    )
    text = "The sea (old)  was, sea."
    (line,) = model.answer_all([text], runner(model))
    assert dataclasses.asdict(model.tag(text)) == line.fields
    for entity in model.tag([text])[0].entities:
        assert text[entity.begin : entity.end] == entity.text

    model = load(
        save(
            tmp_path / "c",
            MultipleChoice(ONE_LAYER),
            target="choice",
            max_seq_length=16,
        )
    )
    choices = ["a storm", "the sea"]
    (line,) = model.answer_all(["old\t" + "\t".join(choices)], runner(model))
    chosen = model.choose("old", choices)
    assert dataclasses.asdict(chosen) == line.fields
    assert chosen.text == choices[chosen.choice]
    assert model.choose(["old"], [choices]) == [chosen]

    model = load(save(tmp_path / "m", BlankFiller(ONE_LAYER, range(95))))
    (line,) = model.answer_all(["The [MASK]."], runner(model))
    assert dataclasses.asdict(model.fill("The [MASK].")) == line.fields


def test_every_model_encodes(tmp_path: Path) -> None:
    """[CLS], the words and [SEP], pooled; a model without a head does, too."""
    model: Any = load(text_folder(tmp_path / "one", "single_label"))
    texts = ["The sea.", "an old captain saw the sea"]
    for pooling, pool in (
        ("cls", lambda x: x[0]),
        ("mean", lambda x: x.mean(0)),
    ):
        vectors = model.encode(texts, pooling)
        assert vectors.shape == (2, ONE_LAYER.hidden_size)
        for vector, text in zip(vectors, texts, strict=True):
            document = make_document(text, None, model.tokenizer, 61)
            row = document.rows[0]
            ids = np.array([row.input_ids])
            outputs = model.model.encoder(ids).sequence
            np.testing.assert_allclose(
                vector, pool(np.array(outputs)[0]), atol=1e-5
            )
    assert model.encode("The sea.").shape == (ONE_LAYER.hidden_size,)
    ids = keras.Input((None,), dtype="int32")
    own = keras.Model(ids, model.encoder(ids).pooled)
    assert own(np.array([[1, 2, 3]])).shape == (1, ONE_LAYER.hidden_size)
    assert model.encode([]).shape == (0, ONE_LAYER.hidden_size)
    encoder = Encoder(ONE_LAYER)
    encoder.build()
    (tmp_path / "bare").mkdir()
    mappings = encoder_mappings(encoder)
    save_model_folder(str(tmp_path / "bare"), ONE_LAYER, mappings, VOCAB)
    bare: Any = load(str(tmp_path / "bare"))
    assert bare.encode(texts).shape == (2, ONE_LAYER.hidden_size)
    # as sentence-transformers cuts texts
    (tmp_path / "bare" / "1_Pooling").mkdir()
    for name, values in (
        (
            "modules.json",
            [
                {"type": "a.Transformer", "path": ""},
                {"type": "a.Pooling", "path": "1_Pooling"},
            ],
        ),
        ("sentence_bert_config.json", {"max_seq_length": 4}),
        ("1_Pooling/config.json", {"pooling_mode": "mean"}),
    ):
        (tmp_path / "bare" / name).write_text(json.dumps(values))
    vectors = bare.encode(["the sea", "the sea is old"])
    np.testing.assert_array_equal(vectors[0], vectors[1])
    vectors = bare.encode(["the sea", "the sea is old"], pooling="mean")
    assert abs(vectors[0] - vectors[1]).max() > 1e-3
    with pytest.raises(InputError, match="has no cls/predictions"):
        bare.fill("The [MASK].")


def test_what_a_model_cannot_do_is_said(tmp_path: Path) -> None:
    model: Any = load(text_folder(tmp_path, "regression", takes_pairs=False))
    with pytest.raises(AttributeError, match=r"no tag\(\): call predict\(\)"):
        model.tag("the sea")
    with pytest.raises(InputError, match="number 1: the text is empty"):
        model.predict(["the sea", " "])
    with pytest.raises(InputError, match="number 0: it has 2 texts"):
        model.predict([("the sea", "a storm")])
    with pytest.raises(InputError, match="^it has 2 texts"):  # not in a list
        model.predict(("the sea", "a storm"))


def test_only_texts_are_answered(tmp_path: Path) -> None:
    """A table would be read as the names of its columns."""
    model: Any = load(Path(text_folder(tmp_path / "one", "single_label")))

    class Frame:
        columns = ("text",)

        def __iter__(self) -> Iterator[str]:
            return iter(self.columns)

    for call in (model.predict, model.encode):
        for texts, words in (
            (Frame(), "type Frame; give one column of it"),
            ({"text": ["the sea"]}, "type dict; give one column of it"),
            (None, "expected a text or a list of texts, found None"),
            (b"the sea", "found one of type bytes"),
            ({"the sea", "a storm"}, "found one of type set"),
            (np.array("the sea"), "found one of type ndarray"),
            ([{"text": "the sea"}], "number 0: .* found one of type dict"),
            (["the sea", None], "number 1: expected a text, found None"),
            (["the sea", np.nan], "number 1: .* found one of type float"),
        ):
            with pytest.raises(InputError, match=words):
                call(texts)
    assert len(model.predict(np.array(["the sea", "a storm"]))) == 2
    assert len(model.predict(["the sea", "a storm"], np.int64(3))) == 2
    with pytest.raises(InputError, match="`pooling=men` is not one of cls, me"):
        model.encode("the sea", pooling="men")
    for size in (0, -3, ["a storm"]):
        with pytest.raises(InputError, match="expected a whole number from 1"):
            model.predict("the sea", size)
    with pytest.raises(InputError, match="nowhere does not exist; expected a"):
        load(tmp_path / "nowhere")

    model = load(
        save(tmp_path / "q", QuestionAnsweringModel(ONE_LAYER), **SPANS)
    )
    with pytest.raises(
        InputError, match="`questions` has 1 .* 2; expected the"
    ):
        model.answer(["who?"], ["the sea", "a storm"])


def test_threads_take_turns(tmp_path: Path) -> None:
    model: Any = load(text_folder(tmp_path, "regression"))
    texts = ["the sea " * n for n in range(1, 7)]
    expected = [model.predict(text) for text in texts]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(model.predict, texts * 5)) == expected * 5


def test_a_forked_process_is_told_so(tmp_path: Path) -> None:
    folder = text_folder(tmp_path, "regression")
    model: Any = load(folder)
    model.predict("the sea")
    if (child := os.fork()) == 0:
        code = 1
        with contextlib.suppress(BaseException):
            for ask in model.predict, model.encode:
                with pytest.raises(InputError, match="by spawn"):
                    ask("the sea")
            for make in load, TextClassifier.from_folder:
                with pytest.raises(InputError, match="by spawn"):
                    make(folder)
            with pytest.raises(InputError, match="by spawn"):
                make_devices(DeviceConfig())
            code = 0
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
