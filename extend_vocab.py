"""Add the frequent words of a text to a model's vocabulary.

Words that are several tokens become one token each, in the places of
[unused0], [unused1], ... and then at the end. The embedding of a new token
starts as the mean of the embeddings of the old tokens. Continue pre-training on
the text afterwards.

Examples:
    # As many words as there are [unused] places
    extend_vocab --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --input_file='corpus/*.txt' --output_dir=/tmp/my_bert

    # 5,000 words, for which the model grows
    extend_vocab --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --input_file='corpus/*.txt' --output_dir=/tmp/my_bert \\
        --num_words=5000

    # All 120 words of a list
    extend_vocab --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --input_file=words.txt --output_dir=/tmp/my_bert --num_words=120
"""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras.data import vocabulary
from bert_keras.data.tokenization import FullTokenizer, WordpieceTokenizer
from bert_keras.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from bert_keras.data.tokenizer_folder import OpenedTokenizer
    from bert_keras.tasks.task_config import TaskConfig

GROWING = "bert/embeddings/word_embeddings", "cls/predictions/output_bias"
FLAGS = Flags(
    Flag("init_checkpoint", str, Group.REQUIRED,
         "Model folder in Google's format, with vocab.txt."),
    common_flags.TEXT_FILES,
    common_flags.NEW_FOLDER,
    common_flags.INPUT_FORMAT,
    common_flags.TEXT_FIELD,
    Flag("num_words", int, Group.DATA,
         "Maximum number of words to add. Default: the number of "
         "[unused] tokens, which keeps the size of the model.", 1),
    *common_flags.TOKENIZER_FLAGS,
)  # fmt: skip


def main() -> None:
    command.import_tensorflow(computes=False)
    from bert_keras.data.tokenizer_folder import TOKENIZER_CONFIG, settings_json
    from bert_keras.data.tokenizers import check_ids
    from bert_keras.files import VOCABULARY, new_folder
    from bert_keras.modeling.checkpoint import (
        AnyModel,
        check_sizes,
        load_checkpoint,
        open_weights,
        save_model_folder,
    )
    from bert_keras.modeling.config import BertConfig
    from bert_keras.tasks.sentence_pooling import copy_pooling
    from bert_keras.tasks.task_config import TASK

    config_file, opened = _files()
    config = BertConfig.from_json_file(config_file)
    vocab_file = opened.vocab_file
    pieces = opened.vocab
    check_ids(pieces, config.vocab_size, vocab_file)
    unused = _unused_places(opened, pieces)
    task = _task()
    with new_folder(FLAGS.output_dir) as folder:
        check_sizes(config, FLAGS.init_checkpoint, needs_all_layers=True)
        shapes = open_weights(FLAGS.init_checkpoint).shapes
        model = AnyModel(config, shapes)
        report = load_checkpoint(model.mappings(), FLAGS.init_checkpoint)
        print(report, flush=True)
        counts = _count_words(opened)
        words = vocabulary.new_words(counts, pieces)
        if not words:
            raise InputError(
                f"--input_file={FLAGS.input_file} has no word of several "
                "tokens, so there is nothing to add"
            )
        num_words = FLAGS.num_words or len(unused)
        # unused places, then those past the last
        ids = itertools.chain(unused, itertools.count(max(pieces.values()) + 1))
        places = dict(zip(words[:num_words], ids, strict=False))
        size = max(config.vocab_size, 1 + max(places.values()))
        extended = AnyModel(
            dataclasses.replace(config, vocab_size=size), shapes
        )
        tokenizer = WordpieceTokenizer(pieces)
        sources = {  # ids of what the words were, by their new ids
            place: [pieces[span.token] for span in tokenizer.split(word)]
            for word, place in places.items()
        }
        pairs = zip(extended.mappings(), model.mappings(), strict=True)
        for new, old in pairs:
            value = old.read()
            if old.name in GROWING:
                value = grown(value, new.shape[0], sources)
            new.write(value)
        with open(vocab_file, encoding="utf-8", newline="\n") as file:
            lines = file.read().removesuffix("\n").split("\n")
        lines += [""] * (1 + max(places.values()) - len(lines))
        for word, place in places.items():
            lines[place] = word
        save_model_folder(
            folder,
            extended.config,
            [m for m in extended.mappings() if m.name in report.loaded],
            None,
            {
                VOCABULARY: "".join(f"{line}\n" for line in lines),
                TOKENIZER_CONFIG: settings_json(opened),
                TASK: task.to_json() if task else None,
            },
        )
        copy_pooling(FLAGS.init_checkpoint, folder)
    print(
        f"{FLAGS.output_dir} is written: {len(places):,} words added, "
        f"{len(words[num_words:]):,} left out; vocab_size is {size:,} (was "
        f"{config.vocab_size:,})\n"
        + format_summary(counts, pieces, {**pieces, **places})
    )


def _files() -> "tuple[str, OpenedTokenizer]":
    """The config and the tokenizer of the folder."""
    from bert_keras.data.tokenizer_folder import open_tokenizer
    from bert_keras.files import VOCABULARY, beside
    from bert_keras.modeling.config import model_config_file
    from bert_keras.modeling.hugging_face import is_hugging_face

    path = FLAGS.init_checkpoint
    if is_hugging_face(path):
        raise InputError(
            f"{path} has Hugging Face's form; expected Google's, which "
            f"convert_checkpoint.py --init_checkpoint={path} makes of it"
        )
    opened = open_tokenizer(
        path, None, common_flags.tokenizer_options(FLAGS), True
    )
    if opened is None or beside(path, [VOCABULARY]) is None:
        raise InputError(
            f"{VOCABULARY} is missing beside --init_checkpoint={path}; "
            "expected a WordPiece model (byte-level tokens spell every word)"
        )
    config_file = model_config_file(path)
    if config_file is None:
        raise InputError(
            f"bert_config.json is missing beside --init_checkpoint={path}; "
            "expected a model folder"
        )
    return config_file, opened


def _unused_places(
    opened: "OpenedTokenizer", pieces: Mapping[str, int]
) -> list[int]:
    """Places for words; not those of [unused] tokens that are in use, as
    tokens to be kept whole."""
    used = {token.id for token in opened.settings.added_tokens}
    places = sorted(
        number
        for piece, number in pieces.items()
        if re.fullmatch(r"\[unused\d+\]", piece) and number not in used
    )
    if not (places or FLAGS.num_words):
        raise InputError(
            f"{opened.vocab_file} has no [unused] place; say with --num_words "
            "how many words to add at its end"
        )
    return places


def _task() -> "TaskConfig | None":
    """What the model was trained for, if that is known."""
    from bert_keras.tasks.hugging_face_task import folder_task

    options = common_flags.tokenizer_options(FLAGS)
    task = folder_task(FLAGS.init_checkpoint, options)
    if task is not None and not task.has_one_encoder:
        raise InputError(
            f"{FLAGS.init_checkpoint} has a second encoder, or a BiLSTM on its "
            "encoder; expected a model fine-tuned without "
            "--second_init_checkpoint, --bilstm and --feature_layers"
        )
    return task


def _count_words(opened: "OpenedTokenizer") -> dict[str, int]:
    """The text's, as the model's own tokenizer reads them."""
    from bert_keras.data import text_files
    from bert_keras.data.corpus import TextFormat

    tokenizer = opened.load()
    assert isinstance(tokenizer, FullTokenizer), "it has a vocab.txt"
    paths = text_files.expand_patterns(FLAGS.input_file, takes_pipes=True)
    return vocabulary.count_words(
        FLAGS.make(TextFormat).read(paths), tokenizer.basic_tokenizer
    )


def grown(
    table: "np.ndarray", num_rows: int, sources: Mapping[int, Sequence[int]]
) -> "np.ndarray":
    """A table, [V, H] or [V], with rows that are means of its rows.

    Args:
        num_rows: of the result; at least V.
        sources: by a new row's number, the numbers of the rows it is of.
    """
    import numpy as np

    added = np.zeros((num_rows - len(table), *table.shape[1:]), table.dtype)
    result = np.concatenate([table, added])
    for place, numbers in sources.items():
        result[place] = table[list(numbers)].mean(axis=0)
    return result


def format_summary(
    counts: Mapping[str, int], old: Mapping[str, int], new: Mapping[str, int]
) -> str:
    """A little table: what both vocabularies make of the text's words."""
    before, after = (vocabulary.spelling(counts, x) for x in (old, new))
    rows = [
        ("", "before", "after"),
        ("tokens a word", f"{before[0]:.3f}", f"{after[0]:.3f}"),
        ("  [UNK]", f"{before[1]:.2%}", f"{after[1]:.2%}"),
    ]
    return "\n".join(f"{name:<20}{a:>12}{b:>12}" for name, a, b in rows)


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
