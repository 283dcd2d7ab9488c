"""What tasks do with a tokenizer, done with RoBERTa's byte-level one."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.bpe import ByteLevelBpe
from bert_keras.data.input_features import build_inputs
from bert_keras.data.special_tokens import BERT, ROBERTA
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.data.tokenizers import check_any_vocabulary, load_tokenizer
from bert_keras.errors import InputError
from bert_keras.tasks.classification.data import (
    InputExample,
    encode_example,
)
from bert_keras.tasks.features import read_document
from bert_keras.tasks.fill_mask import encode
from bert_keras.tasks.squad.data import read_examples
from bert_keras.tasks.squad.features import SquadFeatures, make_windows
from bert_keras.tasks.squad.postprocessing import Answerer, Logits
from bert_keras.tasks.task_config import TaskConfig
from tests.conftest import GOLDEN

BYTE_LEVEL = str(GOLDEN / "byte_level" / "vocab.json")
TOKENIZER = load_tokenizer(BYTE_LEVEL)
PARAGRAPH = "An old captain (1895-1943) saw the sea, and sailed."
SPAN = TaskConfig("span", 31, False, doc_stride=5, max_query_length=11)


def pieces_of(ids: list[int]) -> str:
    """The pieces joined by |, with a space for the sign of one."""
    return "|".join(TOKENIZER.convert_ids_to_tokens(ids)).replace("\u0120", " ")


def test_the_files_name_says_which_kind() -> None:
    assert isinstance(TOKENIZER, ByteLevelBpe)
    word_pieces = str(GOLDEN / "tiny_vocab.txt")
    assert isinstance(load_tokenizer(word_pieces), FullTokenizer)
    assert len(check_any_vocabulary(BYTE_LEVEL)) == 420
    assert "[MASK]" in check_any_vocabulary(word_pieces)


def test_a_pair_has_two_ends_between_and_one_segment() -> None:
    tokens, segments = build_inputs(["a", "b", "c"], ["d", "e"], 8, ROBERTA)
    assert " ".join(tokens) == "<s> a b </s> </s> d e </s>"
    assert segments == [0] * 8
    assert build_inputs(["a", "b"], None, 3, ROBERTA)[0] == ["<s>", "a", "</s>"]
    assert (BERT.count(True), ROBERTA.count(True)) == (3, 4)


def test_examples_are_cut_where_the_marks_leave_no_room() -> None:
    example = InputExample("1", "the sea", "the ship", None)
    for length, expected in ((9, False), (7, True)):
        (row,), is_cut, _ = encode_example(example, TOKENIZER, length)
        assert is_cut is expected
        assert len(row.input_ids) <= length
    (row,), *_ = encode_example(example, TOKENIZER, 9)
    assert pieces_of(row.input_ids) == "<s>|the| sea|</s>|</s>|the| ship|</s>"


def test_features_have_its_marks() -> None:
    document = read_document("the sea ||| the ship", TOKENIZER, 16)
    assert document.tokens[0] == "<s>" and document.tokens[-1] == "</s>"
    long = read_document("the sea, the sea, the sea", TOKENIZER, 6, 2)
    assert {row.input_ids[0] for row in long.rows} == {TOKENIZER.vocab["<s>"]}


def test_a_blank_takes_the_space_before_it() -> None:
    (row,) = encode("the old <mask> saw <mask>.", TOKENIZER, 20)
    assert pieces_of(row.input_ids) == "<s>|the| old|<mask>| saw|<mask>|.|</s>"
    assert row.positions == [3, 5]
    with pytest.raises(InputError, match="there is no <mask> in it"):
        encode("the old [MASK].", TOKENIZER, 20)


def span_windows(
    tmp_path: Path, answer: str
) -> tuple[list, list[SquadFeatures]]:
    qas = {
        "id": "q",
        "question": "What was it?",
        "answers": [{"text": answer, "answer_start": PARAGRAPH.index(answer)}],
    }
    paragraph = {"context": PARAGRAPH, "qas": [qas]}
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    examples = read_examples(str(path), False, True)
    (windows,) = make_windows(examples, TOKENIZER, SPAN)
    return examples, windows


@pytest.mark.parametrize("answer", ["old captain", "1895", "sea", "An", "1943"])
def test_answers_are_found_and_given_back(tmp_path: Path, answer: str) -> None:
    examples, windows = span_windows(tmp_path, answer)
    assert len(windows) > 1
    first = windows[0]
    assert first.paragraph.tokens == TOKENIZER.tokenize(PARAGRAPH)
    start = pieces_of(first.row.input_ids).split(
        first.paragraph.tokens[0] + "|"
    )[0]
    assert start.startswith("<s>|") and start.endswith("|</s>|</s>|")
    assert set(first.row.segment_ids) == {0}
    logits = [
        Logits(
            np.eye(len(w.row.input_ids))[w.start_position],
            np.eye(len(w.row.input_ids))[w.end_position],
        )
        for w in windows
    ]
    found = Answerer(TOKENIZER, SPAN).answer(examples[0], windows, logits)
    assert found.nbest[0].text == answer


def test_part_of_a_character_answers_with_its_word(tmp_path: Path) -> None:
    examples, windows = span_windows(tmp_path, "sea")
    paragraph = windows[0].paragraph
    cut = paragraph._replace(tokens=["\u00e6", *paragraph.tokens[1:]])
    answerer = Answerer(TOKENIZER, SPAN)
    window = windows[0]
    place = window.part.start + window.shift
    broken = SquadFeatures(window.row, cut, window.part, window.max_context)
    text, _ = answerer._span(examples[0], broken, place, place)
    assert text == "An"


def test_a_question_that_leaves_no_room_is_refused(tmp_path: Path) -> None:
    examples, _ = span_windows(tmp_path, "sea")
    settings = dataclasses.replace(SPAN, max_seq_length=14)
    with pytest.raises(InputError, match="10 tokens leaves no room .* in 14"):
        make_windows(examples, TOKENIZER, settings)
