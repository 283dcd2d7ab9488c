"""Language models of one direction: what they predict, and the command."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.dynamic_masking import CausalLmLabels
from bert_keras.data.masking import read_masking_vocabulary
from bert_keras.data.record_schema import (
    pretraining_features,
    unmasked_features,
)
from bert_keras.data.special_tokens import BERT
from bert_keras.data.tfrecords import RecordWriter, encode
from tests.conftest import ONE_LAYER, fails_with, forked, results

VOCAB = {
    piece: number
    for number, piece in enumerate(
        "[PAD] [UNK] [CLS] [SEP] [MASK] a b c d e f g".split()
    )
}


def test_neighbours_by_hand() -> None:
    """[CLS] a b [SEP] [SEP], and [CLS] c [SEP]; the example of `mask`."""
    batch = {
        "input_ids": tf.constant([[2, 5, 6, 3, 3, 0], [2, 7, 3, 0, 0, 0]]),
        "segment_lengths": tf.constant([[4, 1], [3, 0]]),
        "next_sentence_labels": tf.constant([[1], [0]]),
    }
    weights = [[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]
    for direction, first, labels in (
        ("left_to_right", 0, [[5, 6, 3, 3, 0], [7, 3, 0, 0, 0]]),
        ("right_to_left", 1, [[2, 5, 6, 3, 0], [2, 7, 0, 0, 0]]),
    ):
        pieces = read_masking_vocabulary(VOCAB, BERT)
        made = CausalLmLabels(pieces, direction).mask(
            tf.constant(0, tf.int64), batch
        )
        np.testing.assert_array_equal(made["input_ids"], batch["input_ids"])
        np.testing.assert_array_equal(made["masked_lm_ids"], labels)
        np.testing.assert_array_equal(made["masked_lm_weights"], weights)
        np.testing.assert_array_equal(
            made["masked_lm_positions"], [range(first, first + 5)] * 2
        )
        np.testing.assert_array_equal(
            made["segment_ids"], [[0, 0, 0, 0, 1, 0], [0] * 6]
        )
        assert made["next_sentence_labels"] is batch["next_sentence_labels"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config, a vocabulary, and records of a letter and the next: c d."""
    folder = tmp_path_factory.mktemp("world")
    config = dataclasses.replace(
        ONE_LAYER,
        vocab_size=len(VOCAB),
        initializer_range=0.1,
        num_hidden_layers=1,
    )
    (folder / "bert_config.json").write_text(config.to_json())
    (folder / "vocab.txt").write_text("".join(f"{p}\n" for p in VOCAB))
    features = unmasked_features(9)
    with RecordWriter([str(folder / "unmasked.tfrecord")]) as writer:
        for first in np.random.default_rng(3).integers(5, 11, 60).tolist():
            values = {
                "input_ids": [2, first, first + 1, 3, 3, 0, 0, 0, 0],
                "segment_lengths": [4, 1],
                "next_sentence_labels": [0],
            }
            writer.write(encode(features, values))
    features = pretraining_features(9, 2)
    with RecordWriter([str(folder / "masked.tfrecord")]) as writer:
        values = {
            "input_ids": [2, 4, 3] + [0] * 6,
            "input_mask": [1, 1, 1] + [0] * 6,
            "segment_ids": [0] * 9,
            "masked_lm_positions": [1, 0],
            "masked_lm_ids": [5, 0],
            "masked_lm_weights": [1.0, 0.0],
            "next_sentence_labels": [0],
        }
        writer.write(encode(features, values))
    return folder


def arguments(world: Path, output_dir: Path, *flags: str) -> list[str]:
    return [
        "run_pretraining.py",
        *("--do_train", "--do_eval", "--nonext_sentence_prediction"),
        f"--input_file={world}/unmasked.tfrecord",
        f"--bert_config_file={world}/bert_config.json",
        f"--vocab_file={world}/vocab.txt",
        f"--output_dir={output_dir}",
        *("--max_seq_length=9", "--max_predictions_per_seq=2"),
        *("--train_batch_size=8", "--learning_rate=2e-3"),
        *("--num_train_steps=60", "--num_warmup_steps=6", *flags),
    ]


@pytest.mark.slow
def test_it_learns_the_alphabet_backwards(world: Path, tmp_path: Path) -> None:
    """Of [CLS] c d [SEP] [SEP] only the d is a guess among six."""
    forked(*arguments(world, tmp_path, "--direction=right_to_left"))
    config = json.loads((tmp_path / "bert_config.json").read_text())
    assert config["direction"] == "right_to_left"
    found = results(tmp_path)
    assert set(found) == {
        "global_step", "loss", "masked_lm_loss", "masked_lm_accuracy",
    }  # fmt: skip
    # It would be 1 if the d were seen.
    assert 0.75 <= found["masked_lm_accuracy"] < 0.95
    sentence = fails_with(
        *arguments(world, tmp_path, "--direction=left_to_right")
    )
    assert "--direction is 'left_to_right' but was 'right_to_left'" in sentence


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--input_file={}/masked.tfrecord"], "have masks, and a model of one"),
        (["--mask_share=1.0"], "--mask_share is for masks, and nothing is"),
        (
            [
                *("--direction=bidirectional", "--random_share=0.2"),
                "--input_file={}/masked.tfrecord",
            ],
            "have masks, which --random_share does not change",
        ),
    ],
)
def test_what_is_refused(
    world: Path, tmp_path: Path, flags: list[str], expected: str
) -> None:
    given = [flag.format(world) for flag in flags]
    sentence = fails_with(
        *arguments(world, tmp_path, "--direction=left_to_right", *given)
    )
    assert expected in sentence
