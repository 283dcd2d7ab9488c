"""Pre-training records -> packed ones: up to three sequences share a row.

Takes what create_pretraining_data.py writes, or google-research/bert's command
of this name, and run_pretraining.py takes what this writes, with the same
--max_seq_length and --max_predictions_per_seq. Ours; google-research/bert has
no such command. The same records and flags give the same rows.
"""

import itertools

from bert_keras.cli import command

from absl import flags
from tqdm import tqdm

from bert_keras import files
from bert_keras.data import streaming_stats
from bert_keras.data.packing import PackingConfig
from bert_keras.errors import InputError

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
        tfrecords,
        validate_records,
    )

    config = command.from_flags(PackingConfig)
    lengths = config.max_seq_length, config.max_predictions_per_seq
    paths = text_files.expand_patterns(FLAGS.input_file)
    for path in FLAGS.output_file.split(","):
        files.refuse_inputs("output_file", path, input_file=paths)
    first = validate_records.read_first(paths[0])
    kind = validate_records.kind_of(first)
    if kind is validate_records.Kind.UNMASKED:
        raise InputError(
            f"{paths[0]} holds records without masks, which cannot be packed: "
            "how many masks each has decides which of them share a row; make "
            "them without --dynamic_masking"
        )
    if kind is validate_records.Kind.PACKED:
        raise InputError(f"{paths[0]} is packed already: pass unpacked records")
    features = validate_records.table_of(first, *lengths)
    packed = record_schema.packed_features(
        *lengths, config.max_sequences_per_pack
    )
    if not record_schema.has_next_sentence(features):
        packed = record_schema.without_next_sentence(packed)
    validate_records.check_files(paths, features)
    num_records = num_rows = num_pieces = 0
    with (
        tfrecords.RecordWriter(FLAGS.output_file.split(",")) as writer,
        tqdm(desc="packing", unit=" records") as bar,
    ):
        records = itertools.chain.from_iterable(
            map(tfrecords.read_records, paths)
        )
        while some := list(itertools.islice(records, config.window_records)):
            window = validate_records.parse_records(features, some, paths)
            rows = packing.plan_rows(window, config)
            filled = packing.fill_rows(window, rows, packed)
            for record in tfrecords.encode_batch(packed, filled):
                writer.write(record)
            num_records += len(some)
            num_rows += len(rows)
            num_pieces += int(window["input_mask"].sum())
            bar.update(len(some))

    def share_filled(number: int) -> str:
        return f"{num_pieces / number / config.max_seq_length:.2%}"

    of_records = {
        "records": f"{num_records:,}",
        "  filled": share_filled(num_records),
    }
    of_rows = {
        "rows": f"{num_rows:,}",
        "  filled": share_filled(num_rows),
        "  records in a row": f"{num_records / num_rows:.3f}",
    }
    for table in (of_records, of_rows):
        print(streaming_stats.format_table(table, name_width=20))


def cli() -> None:
    command.run(main)


if __name__ == "__main__":
    cli()
