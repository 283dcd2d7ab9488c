"""Kinds and lengths found in the records, damage named; records as text, each
case written out by hand; the report's counts on a few records, counted by hand.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data import inspect_records, record_schema, tfrecords
from bert_keras.data.inspect_records import RecordBatch
from bert_keras.data.record_schema import Feature
from bert_keras.data.special_tokens import BERT, ROBERTA
from bert_keras.errors import InputError
from tests.conftest import NUM_PREDICTIONS, SEQ_LENGTH, tiny_record

LABEL = Feature("label_ids", 3, "float32")
KINDS = (
    record_schema.pretraining_features(11, 2),
    record_schema.classifier_features(13, LABEL),
    record_schema.span_features(7, has_answers=True),
    record_schema.span_features(7, has_answers=False),
)


def write(path: Path, *tables: tuple[Feature, ...]) -> str:
    """A record of zeros of each table, no position of which is padding."""
    with tfrecords.RecordWriter([str(path)]) as writer:
        for table in tables:
            values = {
                f.name: [int(f.name == "input_mask")] * f.length for f in table
            }
            writer.write(tfrecords.encode(table, values))
    return str(path)


@pytest.mark.parametrize("kind", KINDS)
def test_finds_kinds_and_lengths(
    kind: tuple[Feature, ...], tmp_path: Path
) -> None:
    path = write(tmp_path / "x", kind, kind)
    table = inspect_records.find_table([path])
    found = [(f.name, f.length, f.dtype) for f in table]
    assert found == [(f.name, f.length, f.dtype) for f in kind]
    [batch] = inspect_records.read_batches([path], table, 5)
    assert (batch.path, batch.first) == (path, 1)
    assert {x: y.shape for x, y in batch.values.items()} == {
        f.name: (2, f.length) for f in kind
    }


def test_counts_records_of_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_records, "BATCH_RECORDS", 2)
    kind = KINDS[2]
    paths = [
        write(tmp_path / "x", kind, kind, kind),
        write(tmp_path / "y", kind, kind),
    ]

    def seen(limit: int | None) -> list[tuple[str, int, int]]:
        return [
            (Path(batch.path).name, batch.first, len(batch.values["input_ids"]))
            for batch in inspect_records.read_batches(paths, kind, 5, limit)
        ]

    assert seen(None) == [("x", 1, 2), ("x", 3, 1), ("y", 1, 2)]
    assert seen(4) == [("x", 1, 2), ("x", 3, 1), ("y", 1, 1)]
    assert seen(2) == [("x", 1, 2)]
    assert seen(0) == []


def refusal(paths: list[str], vocab_size: int = 5) -> str:
    with pytest.raises(InputError) as error:
        table = inspect_records.find_table(paths)
        list(inspect_records.read_batches(paths, table, vocab_size))
    return str(error.value)


def test_files_that_differ(tmp_path: Path) -> None:
    one = write(tmp_path / "x", KINDS[0])
    two = write(tmp_path / "y", record_schema.pretraining_features(11, 3))
    sentence = refusal([one, two])
    assert sentence.startswith(f"{two} has records of input_ids [11], ")
    assert "masked_lm_ids [3]" in sentence
    assert sentence.endswith("inspect them apart")
    packed = write(tmp_path / "z", record_schema.packed_features(11, 2, 3))
    assert refusal([one, packed]) == (
        f"{one} holds records with masks and {packed} holds packed rows: "
        "inspect them apart"
    )


def test_other_kinds(tmp_path: Path) -> None:
    path = write(tmp_path / "x", (Feature("image", 3),))
    assert f"{path}, record 1 is of no kind" in refusal([path])
    path = write(tmp_path / "y", ())
    assert "it holds nothing" in refusal([path])
    with tfrecords.RecordWriter([str(tmp_path / "z")]) as writer:
        writer.write(b"\xff\xff")
    assert "not a tf.train.Example" in refusal([str(tmp_path / "z")])
    with tfrecords.RecordWriter([str(tmp_path / "w")]):
        pass
    assert "holds no record" in refusal([str(tmp_path / "w")])


def test_a_record_unlike_the_first(tmp_path: Path) -> None:
    """No flag is named: the length was found, not passed."""
    path = write(
        tmp_path / "x",
        KINDS[0],
        KINDS[0],
        record_schema.pretraining_features(17, 2),
    )
    assert refusal([path]) == (
        f"{path}, record 3: input_ids holds 17 numbers of type int64, not 11"
    )


def write_values(
    path: Path, table: tuple[Feature, ...], *rows: dict[str, list[int]]
) -> str:
    with tfrecords.RecordWriter([str(path)]) as writer:
        for values in rows:
            writer.write(tfrecords.encode(table, values))
    return str(path)


def test_records_without_masks(tmp_path: Path) -> None:
    features = record_schema.unmasked_features(7)
    values = {
        "input_ids": [2, 4, 3, 4, 3, 0, 0],
        "segment_lengths": [3, 2],
        "next_sentence_labels": [1],
    }
    path = write_values(tmp_path / "x", features, values)
    table = inspect_records.find_table([path], 11)
    [batch] = inspect_records.read_batches([path], table, 5)
    assert batch.sizes is None
    assert {name: x.tolist() for name, x in batch.values.items()} == {
        "input_ids": [[2, 4, 3, 4, 3, 0, 0, 0, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]],
        "segment_lengths": [[3, 2]],
        "next_sentence_labels": [[1]],
    }
    table = inspect_records.find_table([path], 3)
    with pytest.raises(InputError, match="pass `max_seq_length=5` or more$"):
        list(inspect_records.read_batches([path], table, 5))


def test_packed_rows_are_their_sequences(tmp_path: Path) -> None:
    features = record_schema.packed_features(7, 2, 3)
    one = {
        "input_ids": [2, 4, 3, 2, 3, 0, 0],
        "segment_ids": [0, 0, 0, 0, 1, 0, 0],
        "position_ids": [0, 1, 2, 0, 1, 0, 0],
        "sequence_numbers": [1, 1, 1, 2, 2, 0, 0],
        "masked_lm_positions": [1, 4],
        "masked_lm_ids": [1, 2],
        "masked_lm_weights": [1, 1],
        "next_sentence_positions": [0, 3, 0],
        "next_sentence_labels": [1, 0, 0],
        "next_sentence_weights": [1, 1, 0],
    }
    other = {**one, "next_sentence_weights": [1, 0, 0]}
    path = write_values(tmp_path / "x", features, one, other)
    table = inspect_records.find_table([path])
    [batch] = inspect_records.read_batches([path], table, 5)
    assert batch.sizes is not None
    assert batch.sizes.tolist() == [2, 1]
    first = [2, 4, 3, 0, 0, 0, 0]
    assert batch.values["input_ids"].tolist() == [
        first,
        [2, 3, 0, 0, 0, 0, 0],
        first,
    ]
    assert batch.values["masked_lm_ids"].tolist() == [[1, 0], [2, 0], [1, 0]]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("input_ids", -1, "expected 0 to 100, the last of `vocab_file`"),
        ("masked_lm_positions", 29, "expected 0 to 28"),
        ("segment_ids", 2, "expected 0 to 1"),
        ("next_sentence_labels", 2, "expected 0 to 1"),
    ],
)
def test_numbers_out_of_range(
    name: str, value: int, expected: str, tmp_path: Path
) -> None:
    table = record_schema.pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
    rng = np.random.default_rng(2)
    good, bad = tiny_record(rng), tiny_record(rng)
    bad[name][0] = value
    path = str(tmp_path / "x")
    with tfrecords.RecordWriter([path]) as writer:
        for values in (good, bad):
            writer.write(tfrecords.encode(table, values))
    sentence = refusal([path], 101)
    assert sentence == f"{path}, record 2: {name} holds {value}, {expected}"


def test_a_number_without_a_limit_is_not_negative(tmp_path: Path) -> None:
    table = record_schema.span_features(7, has_answers=False)
    values = {f.name: [1] * f.length for f in table} | {"unique_ids": [-3]}
    path = write_values(tmp_path / "x", table, values)
    assert refusal([path]).endswith("unique_ids holds -3, expected 0 or more")


PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] un ##aff ##able sea ship . ##s".split()
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
    assert inspect_records.format_record(
        pretraining_record(), PIECES, BERT
    ) == (
        "  A: [CLS] un[MASK->##aff]able [kept sea] [SEP]\n"
        "  B: ##s [un->ship] . [SEP]\n"
        "  random next; 10 of 13 tokens: 6 in A, 4 in B\n"
        "  3 of 5 predictions: 1 [MASK], 1 kept, 1 random\n"
    )


def test_shows_a_text_that_says_mask() -> None:
    record = pretraining_record()
    record["masked_lm_ids"][0] = 4
    lines = inspect_records.format_record(record, PIECES, BERT).splitlines()
    assert lines[0] == "  A: [CLS] un [kept [MASK]]able [kept sea] [SEP]"
    assert lines[-1] == "  3 of 5 predictions: 0 [MASK], 2 kept, 1 random"


def test_original_ids_leave_unasked_places_alone() -> None:
    record = pretraining_record()
    expected = [2, UN, AFF, ABLE, SEA, 3, S, SHIP, DOT, 3, 0, 0, 0]
    assert inspect_records.original_ids(record).tolist() == expected
    batch = {name: np.stack([x, x]) for name, x in record.items()}
    assert inspect_records.original_ids(batch).tolist() == [expected, expected]
    assert record["input_ids"][2] == 4


def test_shown_without_masks() -> None:
    record = {
        name: values
        for name, values in pretraining_record().items()
        if not name.startswith("masked_lm")
    }
    record["input_ids"][2] = AFF
    record["segment_lengths"] = np.array([6, 4])
    assert inspect_records.format_record(record, PIECES, BERT) == (
        "  A: [CLS] unaffable sea [SEP]\n"
        "  B: ##s un . [SEP]\n"
        "  random next; 10 tokens: 6 in A, 4 in B\n"
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
    vocabulary = pieces.split(), ROBERTA
    assert inspect_records.format_record(record, *vocabulary) == (
        "  A: <s>The caf\ufffd[MASK->\ufffd]</s></s>[kept  sea][ing->.]</s>\n"
        "  no label; 10 of 11 tokens: 10 in A, 0 in B\n"
        "  3 of 4 predictions: 1 <mask>, 1 kept, 1 random\n"
    )
    del record["masked_lm_positions"], record["masked_lm_weights"]
    record["input_ids"][4] = 8
    lines = inspect_records.format_record(record, *vocabulary).splitlines()
    assert lines[0] == "  A: <s>The café</s></s> seaing</s>"


def test_fill_of_packed_rows() -> None:
    record = pretraining_record()
    assert inspect_records.format_fill([record]) == (
        "packed: 1 sequence, 10 of 13 tokens, 3 of 5 predictions"
    )
    short = {
        "input_mask": np.array([1] * 2 + [0] * 11),
        "masked_lm_weights": np.array([1.0, 0, 0, 0, 0]),
    }
    assert inspect_records.format_fill([record, short]) == (
        "packed: 2 sequences, 12 of 13 tokens, 4 of 5 predictions"
    )
    assert inspect_records.format_fill([]) == "packed: nothing"


def one_text(**features: object) -> dict[str, np.ndarray]:
    """[CLS] sea ships [SEP] and the features."""
    record = {
        "input_ids": [2, SEA, SHIP, S, 3, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0] * 7,
    }
    return {name: np.array(x) for name, x in (record | features).items()}


def test_classifier() -> None:
    shown = inspect_records.format_record(
        one_text(label_ids=[3], is_real_example=[1]), PIECES, BERT
    )
    assert shown == (
        "  A: [CLS] sea ships [SEP]\n  label 3; 5 of 7 tokens: 5 in A, 0 in B\n"
    )


def test_span() -> None:
    answer = one_text(start_positions=[2], end_positions=[3], is_impossible=[0])
    assert inspect_records.format_record(answer, PIECES, BERT).splitlines()[
        1:
    ] == [
        "  answer; 5 of 7 tokens: 5 in A, 0 in B",
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
        assert inspect_records.label(record) == expected


LETTERS = "[PAD] [UNK] [CLS] [SEP] [MASK] a b c d".split()
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
    counter = inspect_records.RecordCounter(LETTERS, BERT, 7)
    counter.add(RecordBatch("x", 1, batch(first, short)))
    counter.add(RecordBatch("x", 1, batch(first)))
    counter.add(RecordBatch("y", 1, batch(short, again)))
    summary = counter.summary()
    assert summary == inspect_records.RecordSummary(
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
        masks=inspect_records.MaskSummary(
            max_predictions_per_seq=2,
            num_full=2,
            num_masked=3,
            num_kept=2,
            num_random=2,
        ),
    )
    shown = inspect_records.format_report(summary)
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
        ["tokens", "29"],
        ["  [UNK]", "5"],
        ["  [UNK], share", "17.24%"],
        ["  to be predicted", "24.14%"],
        ["predictions", "7"],
        ["  shown as [MASK]", "42.86%"],
        ["  kept", "28.57%"],
        ["  another token", "28.57%"],
        ["records with all 2", "40.00%"],
    ]
    assert shown.splitlines()[-2:] == [
        "          3  x, record 1",
        "          2  x, record 2",
    ]


def test_the_place_of_a_later_file() -> None:
    one = record([2, A, 3], [1], [A], 0)
    two = record([2, B, 3], [1], [B], 0)
    counter = inspect_records.RecordCounter(LETTERS, BERT, 7)
    counter.add(RecordBatch("x", 1, batch(one)))
    counter.add(RecordBatch("y", 1, batch(record([2, C, 3], [1], [C], 0), two)))
    counter.add(RecordBatch("z", 1, batch(two)))
    assert counter.summary().repeated == [("y, record 2", 2)]


def test_a_text_that_says_mask_and_padding_that_is_unknown() -> None:
    """[MASK] in the text itself, left as it was; [UNK] has the id of pads."""
    pieces = [*LETTERS[1:], LETTERS[0]]  # [UNK] 0, [CLS] 1, [SEP] 2, [MASK] 3
    counter = inspect_records.RecordCounter(pieces, BERT, 7)
    counter.add(RecordBatch("x", 1, batch(record([1, 3, 0, 2], [1], [3], 0))))
    summary = counter.summary()
    assert summary.num_unknown == 1
    assert summary.masks == inspect_records.MaskSummary(2, 0, 0, 1, 0)


def test_texts_without_masks() -> None:
    labelled = batch(record([2, A, 3], [1], [A], 0))
    for name in list(labelled):
        if name.startswith(("masked_lm", "next")):
            del labelled[name]
    counter = inspect_records.RecordCounter(LETTERS, BERT, 7)
    counter.add(RecordBatch("x", 1, {**labelled, "label_ids": np.array([[2]])}))
    summary = counter.summary()
    assert summary.masks is None
    assert summary.labels == [("label 2", 1)]
    assert "predictions" not in inspect_records.format_report(summary)


def test_counts_of_packed_rows() -> None:
    """Rows of 2 and 1 sequences, and in another file of 1 and 3."""
    first, second = record([2, A, 3], [1], [A], 0), record([2, B], [1], [B], 1)
    third, fourth = record([2, C], [1], [C], 0), record([2, D], [1], [D], 0)
    counter = inspect_records.RecordCounter(LETTERS, BERT, 7)
    counter.add(
        RecordBatch("x", 1, batch(first, second, third), np.array([2, 1]))
    )
    counter.add(RecordBatch("y", 1, batch(first, third), np.array([1, 1])))
    counter.add(
        RecordBatch("y", 1, batch(fourth, second, fourth), np.array([3]))
    )
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
        x.split() for x in inspect_records.format_report(summary).split("\n")
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
    assert ["tokens", "in", "a", "sequence"] in report
    assert ["sequences", "with", "all", "2", "0.00%"] in report
