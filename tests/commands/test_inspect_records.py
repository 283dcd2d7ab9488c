"""The real command on real files, and its one-sentence errors."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.record_schema import (
    Feature,
    packed_features,
    pretraining_features,
    unmasked_features,
)
from bert_keras.data.tfrecords import RecordWriter, encode
from tests.conftest import (
    GOLDEN,
    NUM_PREDICTIONS,
    SEQ_LENGTH,
    fails_with,
    forked,
    run,
    tiny_record,
)

COMMAND = "inspect_records.py"
VOCAB = f"--vocab_file={GOLDEN / 'tiny_vocab.txt'}"
TEXT = GOLDEN / "tiny_corpus.txt"


@pytest.fixture(scope="module")
def pretraining(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden pairs of tests/golden/tiny_instances.json in two files."""
    folder = tmp_path_factory.mktemp("inspected")
    forked(
        "create_pretraining_data.py",
        f"--input_file={TEXT}",
        f"--output_file={folder}/a.tfrecord,{folder}/b.tfrecord.gz",
        VOCAB,
        "--sampler=google",
        "--max_seq_length=23",
        "--max_predictions_per_seq=5",
        "--dupe_factor=3",
        "--short_seq_prob=0.3",
        "--random_seed=11",
    )
    return folder


@pytest.mark.slow
def test_prints_and_reports(pretraining: Path, tmp_path: Path) -> None:
    shown = run(
        COMMAND,
        f"--input_file={pretraining}/*",
        VOCAB,
        "--num_records=2",
        f"--report_json={tmp_path}/report.json",
        f"--histogram_png={tmp_path}/new/lengths.png",
        PYTHONIOENCODING="ascii",  # the text has others
    )
    golden = json.loads((GOLDEN / "tiny_instances.json").read_text("utf-8"))
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["num_records"] == len(golden) == 32
    assert report["max_seq_length"] == 23
    assert report["num_pieces"] == sum(len(x["tokens"]) for x in golden)
    num_random = sum(bool(x["is_random_next"]) for x in golden)
    assert dict(report["labels"])["random next"] == num_random
    masks = report["masks"]
    assert masks["max_predictions_per_seq"] == 5
    assert masks["num_masked"] == sum(
        x["tokens"].count("[MASK]") for x in golden
    )
    num_predictions = sum(len(x["masked_lm_positions"]) for x in golden)
    parts = ("num_masked", "num_kept", "num_random")
    assert sum(masks[part] for part in parts) == num_predictions
    lines = shown.splitlines()
    assert lines[0] == f"{pretraining}/a.tfrecord, record 1"
    assert lines[1].startswith("  A: [CLS] ")
    assert f"{pretraining}/a.tfrecord, record 2" in lines
    assert f"{pretraining}/a.tfrecord, record 3" not in lines[:12]
    picture = (tmp_path / "new" / "lengths.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_a_stated_number_runs_over_files(pretraining: Path) -> None:
    shown = forked(
        COMMAND,
        f"--input_file={pretraining}/*",
        VOCAB,
        "--num_records=0",
        "--num_report_records=17",
    )
    assert shown.split()[:2] == ["records", "17"]


def test_prints_only_records_unless_asked(pretraining: Path) -> None:
    shown = forked(
        COMMAND, f"--input_file={pretraining}/b*", VOCAB, "--num_records=1"
    )
    assert shown.startswith(f"{pretraining}/b.tfrecord.gz, record 1\n")
    assert "records  " not in shown


def write(
    path: Path,
    features: tuple[Feature, ...],
    *rows: Mapping[str, Sequence[float]],
) -> None:
    with RecordWriter([str(path)]) as writer:
        for values in rows:
            writer.write(encode(features, values))


def piece_ids(text: str) -> list[int]:
    pieces = (GOLDEN / "tiny_vocab.txt").read_text("utf-8").split("\n")
    return [pieces.index(piece) for piece in text.split()]


def test_packed_rows(tmp_path: Path) -> None:
    ids = piece_ids(
        "[CLS] the [MASK] [SEP] saw [SEP] [CLS] a [SEP] the [SEP] [PAD] [PAD]"
    )
    both: dict[str, Sequence[float]] = {
        "input_ids": ids,
        "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0],
        "position_ids": [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 0, 0],
        "sequence_numbers": [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0, 0],
        "masked_lm_positions": [2, 7, 9],
        "masked_lm_ids": piece_ids("ship a sea"),
        "masked_lm_weights": [1.0, 1.0, 1.0],
        "next_sentence_positions": [0, 6],
        "next_sentence_labels": [1, 0],
        "next_sentence_weights": [1.0, 1.0],
    }
    first = {**both, "next_sentence_weights": [1.0, 0.0]}
    path = tmp_path / "packed"
    write(path, packed_features(13, 3, 2), both, first)
    shown = forked(COMMAND, f"--input_file={path}", VOCAB, "--report")
    one = (
        "  A: [CLS] the [MASK->ship] [SEP]\n"
        "  B: saw [SEP]\n"
        "  random next; 6 of 13 tokens: 4 in A, 2 in B\n"
        "  1 of 3 predictions: 1 [MASK], 0 kept, 0 random\n\n"
    )
    assert shown.startswith(
        f"{path}, record 1, packed: 2 sequences, 11 of 13 tokens, "
        f"3 of 3 predictions\n{one}"
        "  A: [CLS] [kept a] [SEP]\n"
        "  B: [the->sea] [SEP]\n"
        "  is next; 5 of 13 tokens: 3 in A, 2 in B\n"
        "  2 of 3 predictions: 0 [MASK], 1 kept, 1 random\n\n"
        f"{path}, record 2, packed: 1 sequence, 6 of 13 tokens, "
        f"1 of 3 predictions\n{one}"
        "packed rows "
    )
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "sequences in a row 1.500" in lines
    assert "filled 65.38%" in lines  # 6 + 5 + 6 of 26


def test_records_without_masks(tmp_path: Path) -> None:
    values: dict[str, Sequence[float]] = {
        "input_ids": piece_ids("[CLS] the sea [SEP] saw a ship [SEP] [PAD]"),
        "segment_lengths": [4, 4],
        "next_sentence_labels": [1],
    }
    path = tmp_path / "unmasked"
    write(path, unmasked_features(9), values)
    shown = forked(
        COMMAND,
        f"--input_file={path}",
        VOCAB,
        "--max_seq_length=11",
        "--report",
    )
    assert shown.startswith(
        f"{path}, record 1\n"
        "  A: [CLS] the sea [SEP]\n"
        "  B: saw a ship [SEP]\n"
        "  random next; 8 tokens: 4 in A, 4 in B\n"
        "  no masks: they are drawn when it is read\n\n"
        "records "
    )
    assert "predict" not in shown


def test_reports_on_a_text(tmp_path: Path) -> None:
    shown = forked(
        COMMAND,
        f"--text_file={TEXT}",
        VOCAB,
        "--max_seq_length=23",
        f"--report_json={tmp_path}/report.json",
    )
    report = json.loads((tmp_path / "report.json").read_text())
    lines = TEXT.read_text("utf-8").split("\n")
    assert report["num_lines"] == sum(bool(line.strip()) for line in lines)
    assert shown.startswith("documents ")
    assert f"  longer than {23 - 3} tokens" in shown


def test_a_document_ends_with_its_file(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text("the sea\nan old ship")
    shown = forked(COMMAND, f"--text_file={tmp_path}/*.txt", VOCAB)
    first, single, *_ = shown.splitlines()
    assert first.split() == ["documents", "3"]
    assert single.split()[-1] == "0.00%"
    assert "a single document" not in shown


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    same = tmp_path / "same"
    outputs = f"--report_json={same}", f"--histogram_png={same}"
    sentence = fails_with(COMMAND, f"--text_file={TEXT}", VOCAB, *outputs)
    assert sentence.endswith("are the same file; name two")
    assert not same.exists()


def test_neither_or_both(pretraining: Path) -> None:
    both = f"--input_file={pretraining}/*", f"--text_file={TEXT}"
    for given in ((), both):
        sentence = fails_with(COMMAND, VOCAB, *given)
        assert sentence.endswith("pass either --input_file or --text_file")


def test_an_id_outside_the_vocabulary(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    features = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
    path = str(tmp_path / "x.tfrecord")
    num_pieces = len((GOLDEN / "tiny_vocab.txt").read_text().split("\n")) - 1
    with RecordWriter([path]) as writer:
        for number in range(1, 4):
            values = tiny_record(rng)
            values["input_ids"] = [3] * SEQ_LENGTH
            values["masked_lm_ids"] = [3] * NUM_PREDICTIONS
            values["masked_lm_ids"][2] = 3 if number < 3 else num_pieces
            writer.write(encode(features, values))
    sentence = fails_with(COMMAND, f"--input_file={path}", VOCAB)
    assert sentence == (
        f"inspect_records.py: {path}, record 3: masked_lm_ids holds "
        f"{num_pieces}, expected 0 to {num_pieces - 1}, the last of "
        "--vocab_file"
    )


def test_without_matplotlib(pretraining: Path, tmp_path: Path) -> None:
    """Found out before anything is read."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: (\n"
        "    None if name == 'matplotlib' else find(name, *rest)\n"
        ")\n"
    )
    sentence = fails_with(
        COMMAND,
        f"--input_file={pretraining}/*",
        VOCAB,
        "--histogram_png=lengths.png",
        PYTHONPATH=str(tmp_path),
    )
    assert "--histogram_png is drawn by matplotlib" in sentence
