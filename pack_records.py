"""Pack pre-training records, so that up to three of them share one sequence.

Records come from create_pretraining_data, or from google-research/bert's
command of this name. Give run_pretraining the packed records with the same
--max_seq_length and --max_predictions_per_seq. The same records and flags give
the same result.

Examples:
    # Records of the default lengths
    pack_records --input_file='data/*.tfrecord' \\
        --output_file=packed/train.tfrecord

    # Long records, dealt to two files
    pack_records --input_file='data/*.tfrecord' --max_seq_length=512 \\
        --max_predictions_per_seq=77 \\
        --output_file=packed/a.tfrecord,packed/b.tfrecord

    # Training on them
    run_pretraining --do_train --input_file='packed/*.tfrecord' \\
        --model_size=tiny --vocab_file=vocab.txt --output_dir=/tmp/bert
"""

import itertools

from bert_keras.cli import command
from bert_keras.cli.flags import Flag, Flags, Group

from tqdm import tqdm

from bert_keras import files
from bert_keras.data import streaming_stats
from bert_keras.data.packing import PackingConfig
from bert_keras.errors import InputError

FLAGS = Flags(
    Flag("input_file", str, Group.REQUIRED,
         "Records to pack: comma-separated files and glob patterns."),
    Flag("output_file", str, Group.REQUIRED,
         "TFRecord files to write, comma-separated; packed sequences are "
         "distributed round-robin."),
    Flag("max_seq_length", PackingConfig, Group.DATA,
         "Length in tokens of a record and of a packed sequence.", 1),
    Flag("max_predictions_per_seq", PackingConfig, Group.DATA,
         "Maximum number of masked tokens in a record and in a packed "
         "sequence."),
    Flag("max_sequences_per_pack", PackingConfig, Group.DATA,
         "Maximum number of records in a packed sequence.", 1),
    Flag("window_records", PackingConfig, Group.SPEED,
         "Number of consecutive records to choose from when packing; "
         "higher values fill sequences better and take more memory.", 1),
)  # fmt: skip


def main() -> None:
    command.import_tensorflow(computes=False)
    from bert_keras.data import (
        packing,
        record_schema,
        text_files,
        tfrecords,
        validate_records,
    )

    config = FLAGS.make(PackingConfig)
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
    validate_records.check_one_kind(paths)
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
            validate_records.check_numbers(features, window, paths)
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


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
