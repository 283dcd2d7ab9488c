"""Text -> a WordPiece vocabulary: vocab.txt for create_pretraining_data.py.

Ours; google-research/bert has no such command. The same text and flags give
the same vocabulary, byte for byte.
"""

from bert_keras.cli import command

from absl import flags

from bert_keras.data import streaming_stats, vocabulary
from bert_keras.tasks.pretraining.config import VocabularyConfig

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "input_file", None, "Text files: comma-separated names and globs."
)
flags.DEFINE_string("output_file", None, "The vocabulary to write: vocab.txt.")
flags.DEFINE_integer(
    "vocab_size",
    30522,
    "Pieces at most, with the special ones and the unused slots.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "num_unused",
    vocabulary.NUM_UNUSED,
    "[unused] slots for words of your own; 99 put [UNK] at 100 as Google has.",
    lower_bound=0,
)
flags.DEFINE_bool(
    "do_lower_case", True, "True for an uncased model, False for a cased one."
)
flags.DEFINE_alias("do_lower", "do_lower_case")
flags.DEFINE_bool(
    "strip_accents", None, "Whether accents go; unset: as --do_lower_case."
)
flags.DEFINE_integer(
    "min_frequency",
    vocabulary.MIN_FREQUENCY,
    "Occurrences below which no character or pair of pieces enters.",
    lower_bound=1,
)
flags.mark_flags_as_required(["input_file", "output_file"])


def main() -> None:
    command.import_tensorflow(computes=False)
    from bert_keras.tasks.pretraining import data

    word_counts, pieces = data.learn_from_files(
        FLAGS.input_file,
        FLAGS.output_file,
        command.from_flags(VocabularyConfig),
    )
    print(format_summary(word_counts, pieces))


def format_summary(word_counts: dict[str, int], pieces: list[str]) -> str:
    """A little table: the text, and how the vocabulary spells it."""
    whole_words = sum(piece in word_counts for piece in pieces)
    unknown_share = vocabulary.unknown_share(word_counts, pieces)
    rows = {
        "words": f"{sum(word_counts.values()):,}",
        "  [UNK]": f"{unknown_share:.2%}",
        "distinct words": f"{len(word_counts):,}",
        "pieces": f"{len(pieces):,}",
        "  whole words": f"{whole_words:,}",
    }
    return streaming_stats.format_table(rows, name_width=20)


def cli() -> None:
    command.run(main)


if __name__ == "__main__":
    cli()
