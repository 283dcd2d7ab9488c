"""The records of run_pretraining.py: looked at before the first step, the sound
ones of damaged files, and what is hidden in those without masks.
"""

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.data import text_files, validate_records
from bert_keras.data.batching import HostShard
from bert_keras.data.causal_lm_labels import NextPieceConfig, NextPieces
from bert_keras.data.dynamic_masking import BatchMasker, MaskConfig
from bert_keras.data.input_pipeline import Masker
from bert_keras.data.masking import read_masking_vocabulary
from bert_keras.data.record_schema import (
    Feature,
    has_next_sentence,
    without_next_sentence,
)
from bert_keras.data.tfrecords import parse_batch, read_records
from bert_keras.errors import InputError
from bert_keras.files import temporary_folder
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.trainer import Devices, Trainer
from bert_keras.training.distribution import sum_over_hosts

NUM_MEASURED = 1000  # records
SOUND = "sound_records"  # folder under output_dir: copies of damaged files


@dataclasses.dataclass(frozen=True)
class Records:
    """Which are trained on; fields by flag."""

    input_file: str
    eval_file: str | None
    max_seq_length: int  # pieces
    max_predictions_per_seq: int
    skip_corrupt_records: bool
    next_sentence_prediction: bool | None  # None: where they have its labels
    output_dir: str
    dry_run: bool


class Inputs(NamedTuple):
    train: list[str]  # files
    held_out: list[str]
    features: tuple[Feature, ...]  # of the first record
    given: list[str]  # to be trained on, with what is damaged

    @property
    def paths(self) -> list[str]:
        return sorted({*self.train, *self.held_out})


def checked(records: Records, config: BertConfig, place: Devices) -> Inputs:
    """The files, all of whose records are of the first one's kind."""
    train = held_out = text_files.expand_patterns(records.input_file)
    if records.eval_file:
        held_out = text_files.expand_patterns(records.eval_file, "eval_file")
    may_skip = records.skip_corrupt_records
    if sum_over_hosts(*place, int(may_skip)) != may_skip * place.host.count:
        raise InputError(
            "`skip_corrupt_records` was given to some hosts and not to others; "
            "give it to all of them"
        )
    features = validate_records.table_of(
        validate_records.read_first_known(train)
        if may_skip
        else validate_records.read_first(train[0]),
        records.max_seq_length,
        records.max_predictions_per_seq,
        config.type_vocab_size or None,
    )
    features = _wanted(records.next_sentence_prediction, features, train[0])
    inputs = Inputs(train, held_out, features, train)
    if may_skip:
        sound = _sound_files(records, inputs, config.vocab_size, place)
        inputs = Inputs(sound(train), sound(held_out), features, train)
    validate_records.check_files(
        inputs.paths, features, vocab_size=config.vocab_size
    )
    validate_records.check_masks(inputs.train, features)
    return inputs


def length_hint(inputs: Inputs, max_seq_length: int) -> list[str]:
    """A sentence if no record fills its positions: the last ones are then not
    trained."""
    records = itertools.chain.from_iterable(map(read_records, inputs.train))
    first = []
    with contextlib.suppress(InputError):  # damage is named where it is met
        for record in itertools.islice(records, NUM_MEASURED):
            first.append(record)
    names = {feature.name for feature in inputs.features}
    filled = next(
        name
        for name in ("input_mask", "sequence_numbers", "input_ids")
        if name in names
    )
    try:
        values = parse_batch(inputs.features, first)[filled].numpy()
    except tf.errors.InvalidArgumentError:  # the same
        return []
    longest = int(np.flatnonzero(values.any(0))[-1]) + 1
    if longest == max_seq_length:
        return []
    return [
        f"the longest of the first {len(first):,} records has {longest} of "
        f"`max_seq_length={max_seq_length}` positions: if no other is longer, "
        "the positions beyond are not trained; make records that fill them, or "
        f"with `max_seq_length={longest}`"
    ]


def _wanted(
    next_sentence_prediction: bool | None,
    features: tuple[Feature, ...],
    path: str,
) -> tuple[Feature, ...]:
    """What `next_sentence_prediction` leaves of them."""
    if next_sentence_prediction and not has_next_sentence(features):
        raise InputError(
            f"{path} has records without next_sentence_labels, on which "
            "`next_sentence_prediction` cannot be trained; leave it out, or "
            "make records with `sequence_format=segment_pair`"
        )
    if next_sentence_prediction in (None, True):
        return features
    return without_next_sentence(features)


def _sound_files(
    records: Records, inputs: Inputs, vocab_size: int, place: Devices
) -> Callable[[list[str]], list[str]]:
    """What gives, for some of the paths, the files to read instead."""
    folder = os.path.join(records.output_dir, SOUND)
    sound = validate_records.CleanRecords(inputs.features, vocab_size, folder)
    if records.dry_run and not sound.are_made(inputs.paths):
        folder = temporary_folder()
        sound = validate_records.CleanRecords(
            inputs.features, vocab_size, folder
        )
        sound.make(inputs.paths)
    elif place.host.is_chief:
        sound.make(inputs.paths)
    sum_over_hosts(*place, 0)  # the others wait
    return sound.files


def has_masks(features: tuple[Feature, ...]) -> bool:
    return all(feature.name != "segment_lengths" for feature in features)


def make_masker(
    fitted: Trainer,
    features: tuple[Feature, ...],
    config: MaskConfig,
    seed: int,
    share: HostShard,
) -> Masker | None:
    """What hides pieces, or in one direction says which come next; None for
    records that have their masks."""
    if has_masks(features):
        return None
    if fitted.tokenizer is None:
        raise InputError(
            "the records have no masks, and to draw them the vocabulary has to "
            "be known; give `vocab_file`"
        )
    tokenizer = fitted.tokenizer.load()
    pieces = read_masking_vocabulary(tokenizer.vocab, tokenizer.special_tokens)
    direction = fitted.config.direction
    if direction != "bidirectional":
        return NextPieces(pieces, NextPieceConfig(direction))
    return BatchMasker(pieces, config, seed, share)
