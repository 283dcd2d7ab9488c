"""Records as text, each case written out by hand."""

import numpy as np

from bert_keras.data import format_records
from bert_keras.data.special_tokens import ROBERTA

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] un ##aff ##able sea ship . ##s".split()
SCRIPT = format_records.PieceFormatter(PIECES)
UN, AFF, ABLE, SEA, SHIP, DOT, S = range(5, 12)


def pretraining_record() -> dict[str, np.ndarray]:
    """[CLS] unaffable sea [SEP] ##s ship. [SEP], of 13 positions."""
    return {
        "input_ids": np.array([2, UN, 4, ABLE, SEA, 3, S, UN, DOT, 3, 0, 0, 0]),
        "input_mask": np.array([1] * 10 + [0] * 3),
        "segment_ids": np.array([0] * 6 + [1] * 4 + [0] * 3),
        "masked_lm_positions": np.array([2, 4, 7, 0, 0]),
        "masked_lm_ids": np.array([AFF, SEA, SHIP, 0, 0]),
        "masked_lm_weights": np.array([1.0, 1, 1, 0, 0], "float32"),
        "next_sentence_labels": np.array([1]),
    }


def test_pretraining() -> None:
    assert format_records.format_record(pretraining_record(), SCRIPT) == (
        "  A: [CLS] un[MASK->##aff]able [kept sea] [SEP]\n"
        "  B: ##s [un->ship] . [SEP]\n"
        "  random next; 10 of 13 pieces: 6 in A, 4 in B\n"
        "  3 of 5 predictions: 1 [MASK], 1 kept, 1 random\n"
    )


def test_a_text_that_says_mask() -> None:
    record = pretraining_record()
    record["masked_lm_ids"][0] = 4
    lines = format_records.format_record(record, SCRIPT).splitlines()
    assert lines[0] == "  A: [CLS] un [kept [MASK]]able [kept sea] [SEP]"
    assert lines[-1] == "  3 of 5 predictions: 0 [MASK], 2 kept, 1 random"


def test_original_ids_leave_unasked_places_alone() -> None:
    record = pretraining_record()
    expected = [2, UN, AFF, ABLE, SEA, 3, S, SHIP, DOT, 3, 0, 0, 0]
    assert format_records.original_ids(record).tolist() == [expected]
    batch = {name: np.stack([x, x]) for name, x in record.items()}
    assert format_records.original_ids(batch).tolist() == [expected, expected]
    assert record["input_ids"][2] == 4


def test_without_masks() -> None:
    record = {
        name: values
        for name, values in pretraining_record().items()
        if not name.startswith("masked_lm")
    }
    record["input_ids"][2] = AFF
    record["segment_lengths"] = np.array([6, 4])
    assert format_records.format_record(record, SCRIPT) == (
        "  A: [CLS] unaffable sea [SEP]\n"
        "  B: ##s un . [SEP]\n"
        "  random next; 10 of 13 pieces: 6 in A, 4 in B\n"
        "  no masks: they are drawn when it is read\n"
    )


def test_bytes_are_shown_as_they_stand() -> None:
    """<s>The café</s></s> sea.</s>: a piece of é's first byte, and its other
    as the hidden one; sea kept, another piece for the dot; no label."""
    pieces = "<s> <pad> </s> <unk> <mask> The \u0120caf \u00c3 \u00a9"
    pieces += " \u0120sea . ing"
    record = {
        "input_ids": np.array([0, 5, 6, 7, 4, 2, 2, 9, 11, 2, 1]),
        "input_mask": np.array([1] * 10 + [0]),
        "segment_ids": np.zeros(11, int),
        "masked_lm_positions": np.array([4, 7, 8, 0]),
        "masked_lm_ids": np.array([8, 9, 10, 0]),
        "masked_lm_weights": np.array([1.0, 1, 1, 0], "float32"),
    }
    script = format_records.PieceFormatter(pieces.split(), ROBERTA)
    assert format_records.format_record(record, script) == (
        "  A: <s>The caf\ufffd[MASK->\ufffd]</s></s>[kept  sea][ing->.]</s>\n"
        "  no label; 10 of 11 pieces: 10 in A, 0 in B\n"
        "  3 of 4 predictions: 1 <mask>, 1 kept, 1 random\n"
    )
    del record["masked_lm_positions"], record["masked_lm_weights"]
    record["input_ids"][4] = 8
    lines = format_records.format_record(record, script).splitlines()
    assert lines[0] == "  A: <s>The café</s></s> seaing</s>"


def test_fill_of_packed_rows() -> None:
    record = pretraining_record()
    assert format_records.format_fill([record]) == (
        "packed: 1 sequence, 10 of 13 pieces, 3 of 5 predictions"
    )
    short = {
        "input_mask": np.array([1] * 2 + [0] * 11),
        "masked_lm_weights": np.array([1.0, 0, 0, 0, 0]),
    }
    assert format_records.format_fill([record, short]) == (
        "packed: 2 sequences, 12 of 13 pieces, 4 of 5 predictions"
    )
    assert format_records.format_fill([]) == "packed: nothing"


def one_text(**features: object) -> dict[str, np.ndarray]:
    """[CLS] sea ships [SEP] and the features."""
    record = {
        "input_ids": [2, SEA, SHIP, S, 3, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0] * 7,
    }
    return {name: np.array(x) for name, x in (record | features).items()}


def test_classifier() -> None:
    shown = format_records.format_record(
        one_text(label_ids=[3], is_real_example=[1]), SCRIPT
    )
    assert shown == (
        "  A: [CLS] sea ships [SEP]\n  label 3; 5 of 7 pieces: 5 in A, 0 in B\n"
    )


def test_span() -> None:
    answer = one_text(start_positions=[2], end_positions=[3], is_impossible=[0])
    assert format_records.format_record(answer, SCRIPT).splitlines()[1:] == [
        "  answer; 5 of 7 pieces: 5 in A, 0 in B",
        "  answer at 2 to 3: ships",
    ]


def test_labels() -> None:
    cases = [
        (pretraining_record(), "random next"),
        ({"next_sentence_labels": np.array([0])}, "is next"),
        (one_text(label_ids=[0.25, 1.0]), "label 0.25 1"),
        (one_text(label_ids=[1], is_real_example=[0]), "padding"),
        (one_text(is_impossible=[1]), "no answer"),
        (one_text(unique_ids=[1]), ""),
    ]
    for record, expected in cases:
        assert format_records.label(record) == expected
