"""The real command, and a model trained and evaluated on what it writes."""

import json
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.record_schema import (
    packed_features,
    pretraining_features,
    unmasked_features,
    without_next_sentence,
)
from bert_keras.data.tfrecords import (
    RecordWriter,
    encode,
    parse_batch,
    read_records,
)
from tests.conftest import (
    GOLDEN,
    NUM_PREDICTIONS,
    SEQ_LENGTH,
    fails_with,
    forked,
    results,
    tiny_record,
)

SHAPE = (
    f"--max_seq_length={SEQ_LENGTH}",
    f"--max_predictions_per_seq={NUM_PREDICTIONS}",
)


def record_of(length: int) -> dict[str, list[float]]:
    """A record of 10 positions and 5 predictions, one of which is made."""
    return {
        "input_ids": [*range(11, 11 + length), *[0] * (10 - length)],
        "input_mask": [1] * length + [0] * (10 - length),
        "segment_ids": [0] * 10,
        "masked_lm_positions": [1, 0, 0, 0, 0],
        "masked_lm_ids": [12, 0, 0, 0, 0],
        "masked_lm_weights": [1.0, 0.0, 0.0, 0.0, 0.0],
        "next_sentence_labels": [1],
    }


def test_rows_and_summary_by_hand(tmp_path: Path) -> None:
    # 9 | 6 4 | 3: 22 of 40 positions in four records, of 30 in three rows. A
    # second window of one record has a fourth row: 24 of 50, of 40.
    for path, lengths in (("a", [4, 9]), ("b.gz", [6, 3, 2])):
        with RecordWriter([str(tmp_path / path)]) as writer:
            for length in lengths:
                record = record_of(length)
                writer.write(encode(pretraining_features(10, 5), record))
    output = forked(
        "pack_records.py",
        f"--input_file={tmp_path}/a,{tmp_path}/b.gz",
        f"--output_file={tmp_path}/new/one,{tmp_path}/new/two.gz",
        "--max_seq_length=10",
        "--max_predictions_per_seq=5",
        "--max_sequences_per_pack=2",
        "--window_records=4",
    )
    assert output == (
        "records                           5\n"
        "  filled                     48.00%\n"
        "rows                              4\n"
        "  filled                     60.00%\n"
        "  records in a row            1.250\n"
    )
    features = packed_features(10, 5, 2)
    starts = [
        parse_batch(features, [*read_records(str(tmp_path / "new" / name))])[
            "next_sentence_positions"
        ]
        for name in ("one", "two.gz")
    ]
    # the 9 and the 3; the 6 with the 4, and the 2
    assert starts[0].numpy().tolist() == [[0, 0], [0, 0]]
    assert starts[1].numpy().tolist() == [[0, 6], [0, 0]]


@pytest.fixture(scope="module")
def packed(tiny_records: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("packed") / "all.tfrecord"
    forked(
        "pack_records.py",
        f"--input_file={tiny_records}",
        f"--output_file={path}",
        *SHAPE,
    )
    return str(path)


def train_args(config_file: str, records: str, output_dir: Path) -> list[str]:
    return [
        f"--input_file={records}",
        f"--bert_config_file={config_file}",
        f"--output_dir={output_dir}",
        *SHAPE,
    ]


def test_packed_records_are_evaluated_like_their_sequences(
    packed: str, tiny_records: str, config_file: str, tmp_path: Path
) -> None:
    found = []
    for records in (tiny_records, packed):
        forked(
            "run_pretraining.py",
            *train_args(config_file, records, tmp_path),
            "--do_eval",
            f"--init_checkpoint={GOLDEN}/tiny_bert",
            "--eval_batch_size=142",  # all of them, and rows of padding
        )
        found.append(results(tmp_path))
    assert found[0] == pytest.approx(found[1], abs=1e-5)


@pytest.mark.slow
def test_packed_records_are_trained_on(
    packed: str, config_file: str, tmp_path: Path
) -> None:
    args = [
        *train_args(config_file, packed, tmp_path),
        "--do_train",
        "--train_batch_size=8",
        "--num_train_steps=40",
        "--num_warmup_steps=3",
        "--learning_rate=3e-3",
    ]
    forked("run_pretraining.py", *args)
    log = (tmp_path / "train_log.jsonl").read_text().splitlines()
    losses = [json.loads(line)["masked_lm_loss"] for line in log]
    assert len(losses) == 40
    # 101 pieces, all as likely: ln 101 = 4.6
    assert losses[0] == pytest.approx(4.6, abs=0.2)
    assert np.mean(losses[-5:]) < losses[0]


def test_bad_input_is_a_sentence(
    packed: str, tiny_records: str, config_file: str, tmp_path: Path
) -> None:
    unmasked = str(tmp_path / "unmasked")
    features = unmasked_features(SEQ_LENGTH)
    values = {f.name: [3] * f.length for f in features}
    with RecordWriter([unmasked]) as writer:
        writer.write(encode(features, values))
    no_pairs = str(tmp_path / "no_pairs")
    table = without_next_sentence(
        pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
    )
    with RecordWriter([no_pairs]) as writer:
        writer.write(encode(table, {f.name: [1] * f.length for f in table}))
    common = [
        f"--input_file={tiny_records}",
        f"--output_file={tmp_path}/out",
        *SHAPE,
    ]
    cases = [
        (["--max_seq_length=31"], f"pass --max_seq_length={SEQ_LENGTH}"),
        (
            ["--max_predictions_per_seq=7"],
            f"pass --max_predictions_per_seq={NUM_PREDICTIONS}",
        ),
        ([f"--input_file={packed}"], f"{packed} is packed already"),
        ([f"--input_file={unmasked}"], "make them without --dynamic_masking"),
        ([f"--output_file={packed}/out"], f"--output_file={packed}/out"),
        (
            [f"--input_file={no_pairs},{tiny_records}"],
            f"{no_pairs} holds records with masks that have no next_sentence",
        ),
    ]
    for extra, named in cases:
        assert named in fails_with("pack_records.py", *common, *extra)
    args = train_args(config_file, packed, tmp_path / "out")
    for extra, named in [
        (["--max_seq_length=31"], f"pass --max_seq_length={SEQ_LENGTH}"),
        (
            [f"--eval_file={tiny_records}"],
            f"{packed} holds packed rows and ",
        ),
    ]:
        sentence = fails_with("run_pretraining.py", *args, "--do_eval", *extra)
        assert named in sentence


def refusal_to_pack(path: Path) -> str:
    """What is said of the file; nothing is written."""
    out = path.with_name("out")
    sentence = fails_with(
        "pack_records.py",
        f"--input_file={path}",
        f"--output_file={out}",
        "--max_seq_length=10",
        "--max_predictions_per_seq=5",
    )
    assert not out.exists()
    return sentence


def test_a_later_record_that_is_damaged_is_named(tmp_path: Path) -> None:
    path, features = tmp_path / "damaged", pretraining_features(10, 5)
    nan = {"masked_lm_weights": [float("nan"), 0.0, 0.0, 0.0, 0.0]}
    with RecordWriter([str(path)]) as writer:
        for record in (record_of(4), {**record_of(4), **nan}):
            writer.write(encode(features, record))
    sentence = refusal_to_pack(path)
    assert f"{path}, record 2: masked_lm_weights holds nan" in sentence


def test_a_later_record_of_other_lengths_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mixed"
    with RecordWriter([str(path)]) as writer:
        writer.write(encode(pretraining_features(10, 5), record_of(4)))
        record = tiny_record(np.random.default_rng(3))
        features = pretraining_features(SEQ_LENGTH, NUM_PREDICTIONS)
        writer.write(encode(features, record))
    sentence = refusal_to_pack(path)
    assert f"{path}, record 2: input_ids holds {SEQ_LENGTH} numbers" in sentence
