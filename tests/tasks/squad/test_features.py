"""Tests of tasks/squad/features.py."""

from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.tokenization import FullTokenizer
from bert_keras.tasks.squad.data import (
    SquadExample,
    locate,
    read_examples,
    split_words,
)
from bert_keras.tasks.squad.features import (
    FIRST_UNIQUE_ID,
    SquadFeatures,
    make_windows,
    record_values,
)
from bert_keras.tasks.task_config import TaskConfig
from tests.conftest import GOLDEN, ROOT

FOLDER = GOLDEN / "squad"
SETTINGS = {
    "v1": TaskConfig("span", 48, True, doc_stride=16, max_query_length=12),
    "v2": TaskConfig(
        "span", 40, True, doc_stride=9, max_query_length=10,
        version_2_with_negative=True,
    ),
}  # fmt: skip


def golden_windows(
    version: str, is_training: bool
) -> list[list[SquadFeatures]]:
    settings = SETTINGS[version]
    examples = read_examples(
        str(FOLDER / f"{version}.json"),
        settings.version_2_with_negative,
        is_training,
        answer_offsets="google",
    )
    tokenizer = FullTokenizer(str(FOLDER / "vocab.txt"))
    return make_windows(examples, tokenizer, settings)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_records_are_googles(version: str, mode: str) -> None:
    windows = golden_windows(version, mode == "train")
    records = [
        record_values(i, window, SETTINGS[version].max_seq_length)
        for i, window in enumerate(w for own in windows for w in own)
    ]
    recorded = np.load(FOLDER / "recorded.npz")
    prefix = f"{version}_{mode}_"
    names = [n for n in recorded if n.startswith(prefix)]
    assert len(names) == (7 if mode == "train" else 4)
    for key in names:
        name = key.removeprefix(prefix)
        # The original's features lack the plural of its records.
        plural = {"unique_id", "start_position", "end_position"}
        name += "s" if name in plural else ""
        ours = np.array([record[name] for record in records]).squeeze()
        assert np.array_equal(ours, recorded[key]), key


@pytest.mark.parametrize(
    ("version", "length", "stride"), [("v1", 384, 128), ("v2", 128, 48)]
)
def test_records_of_real_questions_are_googles(
    version: str, length: int, stride: int
) -> None:
    shared = ROOT.parent / "shared"
    folder = shared / "golden" / f"squad_{version}"
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    settings = TaskConfig("span", length, True, doc_stride=stride)
    vocabulary = shared / "data/vocab/bert-base-uncased/vocab.txt"
    tokenizer = FullTokenizer(str(vocabulary))
    examples = read_examples(
        str(folder / "input.json"), version == "v2", is_training=True
    )
    windows = make_windows(examples, tokenizer, settings)
    recorded = np.load(folder / "train_features.npz")
    flat = [window for own in windows for window in own]
    assert len(flat) == len(recorded["unique_id"])
    for i, window in enumerate(flat):
        record = record_values(i, window, length)
        assert record["unique_ids"] == [FIRST_UNIQUE_ID + i]
        assert record["input_ids"] == recorded["input_ids"][i].tolist()
        assert record["segment_ids"] == recorded["segment_ids"][i].tolist()
        assert record["start_positions"] == [recorded["start_position"][i]]
        assert record["end_positions"] == [recorded["end_position"][i]]
        assert record["is_impossible"] == [recorded["is_impossible"][i]]


def test_a_question_about_nothing_has_no_window() -> None:
    (example, *_) = read_examples(str(FOLDER / "v1.json"), False, False)
    empty = type(example)("q", "What?", split_words(""))
    tokenizer = FullTokenizer(str(FOLDER / "vocab.txt"))
    assert make_windows([empty], tokenizer, SETTINGS["v1"]) == [[]]


def test_questions_are_cut_and_answers_found_in_pieces() -> None:
    windows = golden_windows("v1", is_training=True)
    vocab = FullTokenizer(str(FOLDER / "vocab.txt")).inv_vocab
    year = next(w for w in windows[0] if w.start_position)
    shown = [vocab[i] for i in year.row.input_ids]
    # Not "(1895-1943).", which is the word around the answer.
    assert shown[year.start_position : year.end_position + 1] == ["1895"]
    land = next(w for w in windows[1] if w.start_position)
    shown = [vocab[i] for i in land.row.input_ids]
    assert shown[land.start_position : land.end_position + 1] == ["japanese"]
    long_question = windows[2][0]
    assert long_question.row.segment_ids.index(1) == 12 + 2


def test_an_answer_without_a_token_is_nowhere() -> None:
    """It is where no window shows an answer, not an end before a start."""
    tokenizer = FullTokenizer(str(FOLDER / "vocab.txt"))
    paragraph = split_words("the sea \u200b was blue")
    answer = locate("\u200b", 8, paragraph)
    assert answer
    example = SquadExample("q", "who?", paragraph, answer)
    ((window,),) = make_windows([example], tokenizer, SETTINGS["v1"])
    assert (window.start_position, window.end_position) == (0, 0)


@pytest.mark.parametrize(
    ("context", "text", "begin", "exact", "google"),
    [
        # [CLS] who ? [SEP] is 0 to 3: the first token of the context is 4
        # of several places that at answer_start
        ("北京是首都。明代在北京。", "北京", 9, (13, 14), (4, 5)),
        ("北京是首都。明代在北京。", "北京", 0, (4, 5), (4, 5)),
        ("50-50", "50", 3, (6, 6), (4, 4)),
        # not quite at answer_start: the nearest
        ("北京是首都。明代在北京。", "北京", 8, (13, 14), (4, 5)),
        # characters that the vocabulary lacks, or that no token has
        ("😀是😀首都。", "😀", 2, (6, 6), (4, 4)),
        ("是\u200b北京\u200b北京", "北京", 5, (7, 8), (5, 6)),
        # not the tokens of the answer alone: ไทย in one word of Thai
        ("สวัสดีไทยแลนด์", "ไทย", 6, (5, 5), (4, 6)),
        ("カタカナ北京。", "カナ", 2, (4, 4), (4, 7)),
        # in scripts with spaces the whole words stay the answer
        ('"golden', "gold", 1, (4, 5), (4, 5)),
        ("(10\u00a0000)", "10\u00a0000", 1, (5, 6), None),
        ("(10\u00a0000)", "10 000", 1, (5, 6), None),
        ("is 10\u202f000\u00a0is", "10\u202f000\u00a0is", 3, (5, 7), None),
    ],
)
def test_answers_are_labelled_where_they_are(
    tmp_path: Path,
    context: str,
    text: str,
    begin: int,
    exact: tuple[int, int],
    google: tuple[int, int] | None,
) -> None:
    tokens = [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "?", "golden"),
        *(
            '"',
            "gold",
            "(",
            ")",
            "-",
            "10",
            "000",
            "50",
            "is",
            "カタカナ",
            "สวัสดี",
        ),
        *("##ไทย", "##แลนด์", "ไทย", *"北京是首都明代在。"),
    ]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    # Thai vowel signs are accents for BERT, and stay.
    tokenizer = FullTokenizer(str(tmp_path / "vocab.txt"), strip_accents=False)
    paragraph = split_words(context)
    for offsets, expected in (("exact", exact), ("google", google)):
        answer = locate(text, begin, paragraph, offsets)
        assert (answer is None) == (expected is None)
        if answer is not None:
            example = SquadExample("q", "who?", paragraph, answer)
            ((window,),) = make_windows([example], tokenizer, SETTINGS["v1"])
            found = window.start_position, window.end_position
            assert found == expected, offsets
