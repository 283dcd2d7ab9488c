"""The report's counts on four records whose numbers are counted by hand."""

from collections.abc import Sequence

import numpy as np

from bert_keras.data import format_records, record_report

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] a b c d".split()
A, B, C, D = range(5, 9)


def record(
    ids: list[int], positions: list[int], labels: list[int], is_random: int
) -> dict[str, Sequence[float]]:
    """Of 7 positions, 2 predictions; all of it is segment A."""
    num_pads, num_free = 7 - len(ids), 2 - len(positions)
    return {
        "input_ids": ids + [0] * num_pads,
        "input_mask": [1] * len(ids) + [0] * num_pads,
        "segment_ids": [0] * 7,
        "masked_lm_positions": positions + [0] * num_free,
        "masked_lm_ids": labels + [0] * num_free,
        "masked_lm_weights": [1.0] * len(positions) + [0.0] * num_free,
        "next_sentence_labels": [is_random],
    }


def batch(*records: dict[str, Sequence[float]]) -> dict[str, np.ndarray]:
    return {name: np.array([x[name] for x in records]) for name in records[0]}


def test_counts() -> None:
    first = record([2, 4, B, 1, 3, C, 3], [1, 2], [A, B], 0)  # [MASK], kept
    again = record([2, A, B, 4, 3, C, 3], [3], [1], 1)  # the same text
    short = record([2, D, 1, 3], [1], [A], 1)  # another piece
    counter = record_report.RecordCounter(
        format_records.PieceFormatter(PIECES), 7
    )
    counter.add("x", batch(first, short))
    counter.add("x", batch(first))
    counter.add("y", batch(short, again))
    summary = counter.summary()
    assert summary == record_report.RecordSummary(
        max_seq_length=7,
        num_records=5,
        num_pieces=29,
        length_counts=[0, 0, 0, 0, 2, 0, 0, 3],
        num_full=3,
        num_unknown=5,
        unknown_neighbours=[("b [UNK] [SEP]", 3), ("a [UNK] [SEP]", 2)],
        labels=[("random next", 3), ("is next", 2)],
        num_repeats=3,
        num_exact_repeats=2,
        repeated=[("x, record 1", 3), ("x, record 2", 2)],
        masks=record_report.MaskSummary(
            max_predictions_per_seq=2,
            num_full=2,
            num_masked=3,
            num_kept=2,
            num_random=2,
        ),
    )
    shown = record_report.format_report(summary)
    rows = [line.rsplit(maxsplit=1) for line in shown.splitlines()[:17]]
    assert rows == [
        ["records", "5"],
        ["  random next", "60.00%"],
        ["  is next", "40.00%"],
        ["  text of an earlier one", "60.00%"],
        ["  equal in every number", "40.00%"],
        ["  full, perhaps cut", "60.00%"],
        ["positions each", "7"],
        ["  filled", "82.86%"],
        ["pieces", "29"],
        ["  [UNK]", "5"],
        ["  [UNK], share", "17.24%"],
        ["  to be predicted", "24.14%"],
        ["predictions", "7"],
        ["  shown as [MASK]", "42.86%"],
        ["  kept", "28.57%"],
        ["  another piece", "28.57%"],
        ["records with all 2", "40.00%"],
    ]
    assert shown.splitlines()[-2:] == [
        "          3  x, record 1",
        "          2  x, record 2",
    ]


def test_the_place_of_a_later_file() -> None:
    one = record([2, A, 3], [1], [A], 0)
    two = record([2, B, 3], [1], [B], 0)
    counter = record_report.RecordCounter(
        format_records.PieceFormatter(PIECES), 7
    )
    counter.add("x", batch(one))
    counter.add("y", batch(record([2, C, 3], [1], [C], 0), two))
    counter.add("z", batch(two))
    assert counter.summary().repeated == [("y, record 2", 2)]


def test_a_text_that_says_mask_and_padding_that_is_unknown() -> None:
    """[MASK] in the text itself, left as it was; [UNK] has the id of pads."""
    pieces = [*PIECES[1:], PIECES[0]]  # [UNK] 0, [CLS] 1, [SEP] 2, [MASK] 3
    counter = record_report.RecordCounter(
        format_records.PieceFormatter(pieces), 7
    )
    counter.add("x", batch(record([1, 3, 0, 2], [1], [3], 0)))
    summary = counter.summary()
    assert summary.num_unknown == 1
    assert summary.masks == record_report.MaskSummary(2, 0, 0, 1, 0)


def test_texts_without_masks() -> None:
    labelled = batch(record([2, A, 3], [1], [A], 0))
    for name in list(labelled):
        if name.startswith(("masked_lm", "next")):
            del labelled[name]
    counter = record_report.RecordCounter(
        format_records.PieceFormatter(PIECES), 7
    )
    counter.add("x", {**labelled, "label_ids": np.array([[2]])})
    summary = counter.summary()
    assert summary.masks is None
    assert summary.labels == [("label 2", 1)]
    assert "predictions" not in record_report.format_report(summary)


def test_packed_rows() -> None:
    """Rows of 2 and 1 sequences, and in another file of 1 and 3."""
    first, second = record([2, A, 3], [1], [A], 0), record([2, B], [1], [B], 1)
    third, fourth = record([2, C], [1], [C], 0), record([2, D], [1], [D], 0)
    counter = record_report.RecordCounter(
        format_records.PieceFormatter(PIECES), 7
    )
    counter.add("x", batch(first, second, third), np.array([2, 1]))
    counter.add("y", batch(first, third), np.array([1, 1]))
    counter.add("y", batch(fourth, second, fourth), np.array([3]))
    summary = counter.summary()
    assert summary.row_counts == [0, 3, 1, 1]
    assert (summary.num_rows, summary.num_records) == (5, 8)
    assert summary.repeated == [
        ("x, record 1", 2),
        ("x, record 1", 2),
        ("x, record 2", 2),
        ("y, record 3", 2),
    ]
    report = [
        x.split() for x in record_report.format_report(summary).split("\n")
    ]
    assert report[:6] == [
        ["packed", "rows", "5"],
        ["of", "1", "60.00%"],
        ["of", "2", "20.00%"],
        ["of", "3", "20.00%"],
        ["sequences", "in", "a", "row", "1.600"],
        ["sequences", "8"],
    ]
    assert ["filled", "51.43%"] in report  # 18 of 5 times 7
    assert ["pieces", "in", "a", "sequence"] in report
    assert ["sequences", "with", "all", "2", "0.00%"] in report
