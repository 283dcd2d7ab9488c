"""Tests of tasks/squad/postprocessing.py."""

import dataclasses
import json
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.tokenization import BasicTokenizer, FullTokenizer
from bert_keras.tasks.squad.data import SquadExample, read_examples, split_words
from bert_keras.tasks.squad.features import SquadFeatures, make_windows
from bert_keras.tasks.squad.postprocessing import (
    NBEST,
    NO_CANDIDATE,
    NULL_ODDS,
    PREDICTIONS,
    Answerer,
    Logits,
    Prediction,
    final_text,
    to_files,
)
from bert_keras.tasks.task_config import TaskConfig
from tests.conftest import GOLDEN, ROOT

FOLDER = GOLDEN / "squad"
TOKENIZER = FullTokenizer(str(FOLDER / "vocab.txt"))
SETTINGS = TaskConfig("span", 48, True, doc_stride=16, max_query_length=12)


def answers(
    answerer: Answerer,
    examples: Sequence[SquadExample],
    windows: Sequence[Sequence[SquadFeatures]],
    logits: Iterable[Logits],
) -> list[Prediction]:
    """Of the logits of all windows, question after question."""
    rest = iter(logits)
    return [
        answerer.answer(example, own, [next(rest) for _ in own])
        for example, own in zip(examples, windows, strict=True)
    ]


def predict(
    settings: TaskConfig, context: str, *scored: tuple[int, float, float]
) -> Prediction:
    """Of the question "Who?" in one window: [CLS] who ? [SEP] ... [SEP].

    Args:
        scored: a position with its two logits; all others have -9.
    """
    example = SquadExample("q", "Who?", split_words(context))
    windows = make_windows([example], TOKENIZER, settings)
    start, end = np.full((2, 48), -9.0)
    for place, start_logit, end_logit in scored:
        start[place], end[place] = start_logit, end_logit
    logits = [Logits(start, end)] * len(windows[0])
    answerer = Answerer(TOKENIZER, settings)
    (prediction,) = answers(answerer, [example], windows, logits)
    return prediction


V1 = dataclasses.replace(
    SETTINGS, n_best_size=5, max_answer_length=12, answer_offsets="google"
)
V2 = dataclasses.replace(
    V1, max_seq_length=40, doc_stride=9, max_query_length=10,
    version_2_with_negative=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("version", "settings"), [("v1", V1), ("v2", V2)], ids=["v1", "v2"]
)
def test_files_are_googles_to_the_byte(
    version: str, settings: TaskConfig
) -> None:
    examples = read_examples(
        str(FOLDER / f"{version}.json"), settings.version_2_with_negative, False
    )
    recorded = np.load(FOLDER / "recorded.npz")
    logits = zip(
        recorded[f"{version}_start_logits"],
        recorded[f"{version}_end_logits"],
        strict=True,
    )
    predictions = answers(
        Answerer(TOKENIZER, settings),
        examples,
        make_windows(examples, TOKENIZER, settings),
        (Logits(*both) for both in logits),
    )
    files = to_files(examples, predictions, settings)
    assert (NULL_ODDS in files) == (version == "v2")
    for name, content in files.items():
        path = FOLDER / f"{version}_{name}"
        if name == NBEST:
            assert_nbest_equals(content, path.read_text())
        else:
            assert content == path.read_text(), name


def assert_nbest_equals(ours: str, theirs: str) -> None:
    """Equal but for the last digit of probabilities: Python 3.12 sums anew."""
    left, right = json.loads(ours), json.loads(theirs)
    assert list(left) == list(right)
    for key in left:
        assert len(left[key]) == len(right[key])
        for a, b in zip(left[key], right[key], strict=True):
            assert list(a) == list(b)
            probability = pytest.approx(b["probability"], rel=1e-12)
            assert a == {**b, "probability": probability}
    assert ours.splitlines()[:3] == theirs.splitlines()[:3]
    assert ours.endswith("\n")


@pytest.mark.parametrize(
    ("version", "length", "stride"), [("v1", 384, 128), ("v2", 128, 48)]
)
def test_files_of_real_questions_are_googles(
    version: str, length: int, stride: int
) -> None:
    shared = ROOT.parent / "shared"
    folder = shared / "golden" / f"squad_{version}"
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    settings = TaskConfig(
        "span", length, True, doc_stride=stride,
        version_2_with_negative=version == "v2",
    )  # fmt: skip
    vocabulary = shared / "data/vocab/bert-base-uncased/vocab.txt"
    tokenizer = FullTokenizer(str(vocabulary))
    examples = read_examples(str(folder / "input.json"), version == "v2", False)
    recorded = np.load(folder / "logits.npz")
    predictions = answers(
        Answerer(tokenizer, settings),
        examples,
        make_windows(examples, tokenizer, settings),
        map(Logits, recorded["start"], recorded["end"]),
    )
    files = to_files(examples, predictions, settings)
    for name, content in files.items():
        theirs = (folder / name).read_text()
        if name == NBEST:
            assert_nbest_equals(content, theirs)
        else:
            assert content == theirs, name


@pytest.mark.parametrize(
    ("predicted", "original", "expected"),
    [
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("1895", "(1895-1943).", "1895"),
        ("cafe", "the Café!", "Café"),
        ("smith", "Steve\u00a0Smith", "Steve\u00a0Smith"),  # lengths differ
        ("smyth", "Steve Smith's", "Steve Smith's"),  # not to be found
        ("", "Steve", "Steve"),
        ("s '", "Smith's 'x", "s '"),
    ],
)
def test_final_text(predicted: str, original: str, expected: str) -> None:
    tokenizer = BasicTokenizer()

    def cut(text: str) -> str:
        return " ".join(tokenizer.tokenize(text))

    assert final_text(predicted, original, cut) == expected


def test_case_and_accents_are_the_tokenizers() -> None:
    settings = dataclasses.replace(SETTINGS, do_lower_case=False)
    example = SquadExample("q", "?", split_words("José's"))
    tokenizer = FullTokenizer(str(FOLDER / "vocab.txt"), False)
    (windows,) = make_windows([example], tokenizer, settings)
    start, end = np.zeros((2, 48))
    start[3] = end[3] = 1.0  # [CLS] ? [SEP] [UNK] ' s [SEP]
    # [UNK] is nowhere in the text, so Google's answer is all of the word.
    for offsets, expected in (("exact", "José"), ("google", "José's")):
        settings = dataclasses.replace(settings, answer_offsets=offsets)
        answer = Answerer(tokenizer, settings).answer
        found = answer(example, windows, [Logits(start, end)])
        assert found.text(0) == expected


@pytest.mark.parametrize(
    ("context", "pieces", "expected"),
    [
        # plain, as Google has it too
        ("北京是首都。明代在北京。", (0, 1), "北京"),
        # characters that no token has: zero-width space, byte order mark
        ("北京是\u200b首都。", (2, 4), "是\u200b首都"),
        ("\ufeff北京是首都。", (0, 1), "北京"),
        # a character that the vocabulary does not have
        ("😀北京是首都。", (1, 2), "北京"),
        ("北京是😀首都。", (2, 3), "是😀"),
        # white space that ends no word of Google's
        ("北京\u3000首都", (0, 1), "北京"),
        ("10\u00a0000 caf", (0, 0), "10"),
        ("10\u00a0000 caf", (0, 1), "10\u00a0000"),
        ("10\u202f000 caf", (0, 1), "10 000"),
        # combining marks are dropped, but belong to their letter
        ("cafe\u0301s", (0, 0), "cafe\u0301"),
        ("cafe\u0301s", (1, 1), "s"),
        # hangul syllables are two or three letters in the tokenizer
        ("\uc11c\uc6b8\uc5d0\uc11c", (0, 0), "\uc11c\uc6b8"),
        # a token that is found elsewhere first, in another case
        ("Kubiak", (2, 2), "k"),
        # whole words keep what the tokenizer drops
        ("\ufeffcaf\ufeff caf", (0, 0), "\ufeffcaf\ufeff"),
    ],
)
def test_an_answer_is_what_its_tokens_were_made_of(
    tmp_path: Path, context: str, pieces: tuple[int, int], expected: str
) -> None:
    tokens = [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "?", "caf"),
        *(
            "cafe",
            "##s",
            "10",
            "000",
            "ku",
            "##bia",
            "##k",
            *"北京是首都明代在。",
        ),
        unicodedata.normalize("NFD", "\uc11c\uc6b8"),
        "##" + unicodedata.normalize("NFD", "\uc5d0\uc11c"),
    ]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    tokenizer = FullTokenizer(str(tmp_path / "vocab.txt"))
    example = SquadExample("q", "who?", split_words(context))
    (windows,) = make_windows([example], tokenizer, SETTINGS)
    start, end = np.full((2, len(windows[0].row.input_ids)), -9.0)
    # [CLS] who ? [SEP] ... [SEP]
    start[4 + pieces[0]] = end[4 + pieces[1]] = 9.0
    answerer = Answerer(tokenizer, SETTINGS)
    found = answerer.answer(example, windows, [Logits(start, end)])
    assert found.text(0.0) == expected
    assert found.probabilities[0] < 1.0 or len(found.nbest) == 1


def test_of_equal_scores_the_first_is_best() -> None:
    # [CLS] who ? [SEP] john smith keeper [SEP]
    scored = [(4, 1.0, 1.0), (5, 1.0, 1.0), (6, 0.0, 0.0)]
    best = predict(SETTINGS, "john smith keeper", *scored).nbest[:4]
    assert [entry.text for entry in best] == [
        "john",
        "john smith",
        "smith",
        "john smith keeper",
    ]
    assert [entry.score for entry in best] == [2.0, 2.0, 2.0, 1.0]


def test_a_text_is_listed_once_with_its_best_score() -> None:
    scored = [(4, 1.0, 1.0), (5, 3.0, 3.0)]
    nbest = predict(SETTINGS, "john john", *scored).nbest
    assert [(e.text, e.score) for e in nbest] == [
        ("john", 6.0),
        ("john john", 4.0),
    ]


def test_answers_are_in_the_paragraph_and_not_too_long() -> None:
    scored = [(1, 9.0, 9.0), (4, 5.0, 0.0), (6, 0.0, 5.0), (7, 9.0, 9.0)]
    context = "john smith keeper"
    assert predict(SETTINGS, context, *scored).text(0) == context
    short = dataclasses.replace(SETTINGS, max_answer_length=2)
    texts = [e.text for e in predict(short, context, *scored).nbest]
    assert texts[:2] == ["john", "keeper"] and context not in texts


def test_without_a_candidate_upstreams_word_is_the_answer() -> None:
    few = dataclasses.replace(SETTINGS, n_best_size=1)
    prediction = predict(few, "john smith", (1, 9.0, 9.0))
    assert prediction.text(0.0) == "empty"
    assert prediction.probabilities == [1.0]


def test_without_a_candidate_2_0_has_no_answer_at_any_threshold() -> None:
    few = dataclasses.replace(
        SETTINGS, n_best_size=1, version_2_with_negative=True
    )
    for context in ("john smith", ""):  # the second one has no window
        prediction = predict(few, context, (1, 9.0, 9.0))
        assert prediction.null_odds == NO_CANDIDATE
        assert prediction.text(999999.0) == prediction.best_text == ""
        assert [entry.text for entry in prediction.nbest] == [""]


def test_null_odds_and_their_threshold() -> None:
    # 2.5 + 1.5 for no answer, 3.0 + 2.0 for john
    scored = [(0, 2.5, 1.5), (4, 3.0, 2.0)]
    settings = dataclasses.replace(SETTINGS, version_2_with_negative=True)
    prediction = predict(settings, "john smith", *scored)
    assert prediction.null_odds == -1.0
    assert prediction.text(-1.0) == "john"
    assert prediction.text(-1.5) == ""
    assert prediction.best_text == "john"
    examples = [SquadExample("é", "", split_words(""))]
    files = to_files(examples, [prediction], settings)
    assert files[PREDICTIONS] == '{\n    "\\u00e9": "john"\n}\n'
    assert files[NULL_ODDS] == '{\n    "\\u00e9": -1.0\n}\n'
    assert list(json.loads(files[NBEST])["é"][0]) == [
        "text",
        "probability",
        "start_logit",
        "end_logit",
    ]


def test_null_odds_are_subtracted_in_googles_order() -> None:
    scored = [(0, 0.1, 0.1), (4, 0.1, 0.3)]
    settings = dataclasses.replace(SETTINGS, version_2_with_negative=True)
    odds = predict(settings, "john", *scored).null_odds
    assert odds == 0.1 + 0.1 - 0.1 - 0.3 != (0.1 + 0.1) - (0.1 + 0.3)


def test_probabilities_are_a_softmax_of_the_sums() -> None:
    scored = [(4, 2.0, 1.0), (5, -9.0, np.log(2.0) + 1.0)]
    nbest = dataclasses.replace(SETTINGS, n_best_size=2, max_answer_length=2)
    prediction = predict(nbest, "john smith", *scored)
    assert [e.text for e in prediction.nbest] == ["john smith", "john"]
    assert prediction.probabilities == pytest.approx([2 / 3, 1 / 3])
