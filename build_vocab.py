"""Learn a WordPiece vocabulary, a vocab.txt, from text.

The same text and flags give the same vocabulary, byte for byte.

Examples:
    # An uncased vocabulary of the size of BERT's
    build_vocab --input_file='corpus/*.txt' --output_file=vocab.txt

    # A small one, for a model that trains in minutes
    build_vocab --input_file=book.txt --output_file=vocab.txt --vocab_size=4000

    # A cased vocabulary, from compressed files
    build_vocab --input_file='corpus/*.txt.gz' --output_file=vocab.txt \\
        --nodo_lower_case
"""

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras.data import streaming_stats, vocabulary
from bert_keras.tasks.pretraining.config import VocabularyConfig

FLAGS = Flags(
    common_flags.TEXT_FILES,
    Flag("output_file", str, Group.REQUIRED,
         "Vocabulary file to write, usually called vocab.txt."),
    common_flags.INPUT_FORMAT,
    common_flags.TEXT_FIELD,
    Flag("vocab_size", VocabularyConfig, Group.DATA,
         "Maximum number of tokens, including special tokens and [unused] "
         "tokens."),
    Flag("num_unused", VocabularyConfig, Group.DATA,
         "Number of [unused] tokens, reserved for words of your own. "
         "With 99, [UNK] has id 100, as in Google's vocabularies."),
    Flag("min_frequency", VocabularyConfig, Group.DATA,
         "Number of times that a character or a pair of tokens must "
         "occur to enter the vocabulary."),
    Flag("do_lower_case", VocabularyConfig, Group.TOKENIZER,
         "Lowercase the text, for an uncased model (also --do_lower).",
         alias="do_lower"),
    Flag("strip_accents", VocabularyConfig, Group.TOKENIZER,
         "Strip accents from letters. Default: the value of --do_lower_case."),
)  # fmt: skip


def main() -> None:
    command.import_tensorflow(computes=False)
    from bert_keras.data.corpus import TextFormat
    from bert_keras.tasks.pretraining import data

    word_counts, tokens = data.learn_from_files(
        FLAGS.input_file,
        FLAGS.output_file,
        FLAGS.make(VocabularyConfig),
        FLAGS.make(TextFormat),
    )
    print(format_summary(word_counts, tokens))
    if len(tokens) < FLAGS.vocab_size:
        print(
            f"fewer tokens than --vocab_size={FLAGS.vocab_size}: the text has "
            "no more that are frequent enough, which is fine"
        )


def format_summary(word_counts: dict[str, int], tokens: list[str]) -> str:
    """A little table: the text, and how the vocabulary spells it."""
    whole_words = sum(token in word_counts for token in tokens)
    vocab = {token: number for number, token in enumerate(tokens)}
    _, unknown_share = vocabulary.spelling(word_counts, vocab)
    rows = {
        "words": f"{sum(word_counts.values()):,}",
        "  [UNK]": f"{unknown_share:.2%}",
        "distinct words": f"{len(word_counts):,}",
        "tokens": f"{len(tokens):,}",
        "  whole words": f"{whole_words:,}",
    }
    return streaming_stats.format_table(rows, name_width=20)


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
