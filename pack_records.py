"""Pre-training records -> packed ones: up to three sequences share a row.

Takes what create_pretraining_data.py writes, or google-research/bert's command
of this name, and run_pretraining.py takes what this writes, with the same
--max_seq_length and --max_predictions_per_seq. Ours; google-research/bert has
no such command. The same records and flags give the same rows.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl import flags
from tqdm import tqdm

from bert_keras.cli import command
from bert_keras.data.packing import PackingConfig, PackingSummary
from bert_keras.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from bert_keras.data.record_schema import Feature

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "input_file", None, "Records: a comma list of files and patterns."
)
flags.DEFINE_string(
    "output_file",
    None,
    "TFRecord files: comma-separated names; rows are dealt round-robin.",
)
flags.DEFINE_integer(
    "max_seq_length",
    PackingConfig.max_seq_length,
    "Pieces of a record, and of a row.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_predictions_per_seq",
    PackingConfig.max_predictions_per_seq,
    "Masks of a record, and of a row.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_sequences_per_pack",
    PackingConfig.max_sequences_per_pack,
    "Records in a row, at most.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "window_records",
    PackingConfig.window_records,
    "Records, one after another, among which those for a row are sought; "
    "memory grows with it.",
    lower_bound=1,
)
flags.mark_flags_as_required(["input_file", "output_file"])


def main() -> None:
    command.import_tensorflow(computes=False)
    from bert_keras.data import (
        packing,
        record_schema,
        text_files,
        tfrecord_codec,
        tfrecords,
        validate_records,
    )

    config = command.from_flags(PackingConfig)
    lengths = config.max_seq_length, config.max_predictions_per_seq
    paths = text_files.expand_patterns(FLAGS.input_file)
    check_kind(paths[0])
    features = validate_records.table_of(
        validate_records.read_first(paths[0]), *lengths
    )
    packed = record_schema.packed_features(
        *lengths, config.max_sequences_per_pack
    )
    if not record_schema.has_next_sentence(features):
        packed = record_schema.without_next_sentence(packed)
    validate_records.check_files(paths, features)
    summary = PackingSummary()
    with (
        tfrecords.RecordWriter(FLAGS.output_file.split(",")) as writer,
        tqdm(desc="packing", unit=" records") as bar,
    ):
        for window in read_windows(paths, features, config.window_records):
            rows = packing.plan_rows(window, config)
            filled = packing.fill_rows(window, rows, packed)
            for record in tfrecord_codec.encode_batch(packed, filled):
                writer.write(record)
            summary.add(window, rows)
            bar.update(len(window["input_ids"]))
    print(format_summary(summary, config))


def check_kind(path: str) -> None:
    """Refuses records that cannot be packed."""
    from bert_keras.data.validate_records import Kind, kind_of, read_first

    kind = kind_of(read_first(path))
    if kind is Kind.UNMASKED:
        raise InputError(
            f"{path} holds records without masks, which cannot be packed: how "
            "many masks each has decides which of them share a row; make them "
            "without --dynamic_masking"
        )
    if kind is Kind.PACKED:
        raise InputError(f"{path} is packed already: pass unpacked records")


def read_windows(
    paths: list[str], features: "tuple[Feature, ...]", num_records: int
) -> "Iterator[dict[str, np.ndarray]]":
    """Records [R] that follow one another, from one file into the next."""
    import tensorflow as tf

    from bert_keras.data import tfrecords, validate_records

    serialized = itertools.chain.from_iterable(
        map(tfrecords.read_records, paths)
    )
    while window := list(itertools.islice(serialized, num_records)):
        try:
            batch = tfrecords.parse_batch(features, tf.constant(window))
        except tf.errors.InvalidArgumentError as error:
            damage = validate_records.find_damage(paths, features)
            raise InputError(damage or error.message) from error
        yield {name: values.numpy() for name, values in batch.items()}


def format_summary(summary: PackingSummary, config: PackingConfig) -> str:
    """A little table: records, rows, and how much of each is text."""

    def filled(number: int) -> str:
        return f"{summary.num_pieces / number / config.max_seq_length:.2%}"

    rows = [
        ("records", f"{summary.num_records:,}"),
        ("  filled", filled(summary.num_records)),
        ("rows", f"{summary.num_rows:,}"),
        ("  filled", filled(summary.num_rows)),
        ("  records in a row", f"{summary.num_records / summary.num_rows:.3f}"),
    ]
    return "\n".join(f"{name:<20}{value:>15}" for name, value in rows)


def cli() -> None:
    command.run(main)


if __name__ == "__main__":
    cli()
