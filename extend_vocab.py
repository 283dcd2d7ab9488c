"""Gives a model's vocabulary the words of a text: a new model folder.

    python extend_vocab.py --init_checkpoint=$BERT_BASE_DIR \\
        --input_file='corpus/*.txt' --output_dir=/tmp/bert_of_mine

The most frequent words that are several pieces become one each, in the places
of [unused0], [unused1], ... and then at the end. What a new piece is to the
model begins as the mean of the pieces that it was; pre-training on the text
goes on from there. Ours; google-research/bert's README only says that the
[unused] places can be replaced.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from absl import flags
from tqdm import tqdm

import command
from data import vocabulary
from data.tokenization import WordpieceTokenizer
from input_error import InputError

if TYPE_CHECKING:
    import numpy as np

    from modeling.config import BertConfig
    from tasks.task import TaskSettings

FLAGS = flags.FLAGS
GROWING = "embeddings/word_embeddings", "cls/predictions/output_bias"

flags.DEFINE_string(
    "init_checkpoint", None, "A model folder in Google's form, with vocab.txt."
)
flags.DEFINE_string(
    "input_file",
    None,
    "Text files: comma-separated names and globs. A list of words is a text.",
)
flags.DEFINE_string("output_dir", None, "A folder that is not there yet.")
flags.DEFINE_integer(
    "num_words",
    None,
    "Words to add at most; unset: as many as there are [unused] places, so that"
    " the model stays as large as it is.",
    lower_bound=1,
)
flags.DEFINE_bool(
    "do_lower_case",
    None,
    "Whether the model is uncased; unset: as its folder says, else whether its"
    " vocabulary is.",
)
flags.DEFINE_alias("do_lower", "do_lower_case")
flags.mark_flags_as_required(["init_checkpoint", "input_file", "output_dir"])


def main() -> None:
    command.import_tensorflow()
    from modeling.config import BertConfig
    from modeling.folder_files import local_vocabulary, new_folder
    from tasks.task import TaskSettings

    config_file, vocab_file = _files()
    source = os.path.dirname(config_file)
    config = BertConfig.from_json_file(command.local(config_file))
    vocab_file = local_vocabulary(vocab_file)
    vocab = vocabulary.check_vocabulary(vocab_file, config.vocab_size)
    with new_folder(FLAGS.output_dir) as folder:
        counts = _count_words(vocab, TaskSettings.from_folder(source))
        places = _choose_places(counts, vocab, vocab_file)
        lines = _extended(vocab_file, places)
        size = max(config.vocab_size, len(lines))
        _write_weights(folder, size, vocab, places)
        _write_others(
            folder, source, dataclasses.replace(config, vocab_size=size), lines
        )
    print(
        f"{FLAGS.output_dir} is written: {len(places):,} words more, vocab_size"
        f" {size:,} instead of {config.vocab_size:,}\n"
        + format_summary(counts, vocab, {**vocab, **places})
    )


def _files() -> tuple[str, str]:
    """bert_config.json and vocab.txt of the folder."""
    from modeling.folder_files import VOCABULARY, beside
    from modeling.hugging_face import CONFIG, is_hugging_face

    path = FLAGS.init_checkpoint
    if is_hugging_face(path):
        raise InputError(
            f"{path} has Hugging Face's form; expected Google's, which "
            f"convert_checkpoint.py --init_checkpoint={path} makes of it"
        )
    config_file, vocab_file = (beside(path, [n]) for n in (CONFIG, VOCABULARY))
    if config_file is None or vocab_file is None:
        raise InputError(
            f"there is no {VOCABULARY if config_file else CONFIG} beside "
            f"--init_checkpoint={path}; expected a model folder in Google's "
            "form, of word pieces (pieces of bytes spell every word)"
        )
    return config_file, vocab_file


def _count_words(
    vocab: Mapping[str, int], task: "TaskSettings | None"
) -> dict[str, int]:
    """The text's, by the model's own tokenizer."""
    from data import files

    uncased = FLAGS.do_lower_case
    if uncased is None:
        uncased = task.do_lower_case if task else vocabulary.is_uncased(vocab)
    paths = files.expand_patterns(FLAGS.input_file)
    with tqdm(desc="reading", unit="B", unit_scale=True) as bar:
        lines = (
            line
            for path in paths
            for line in files.read_lines(path, bar.update)
        )
        strip_accents = task.strip_accents if task else None
        return vocabulary.count_words(lines, uncased, strip_accents)


def _choose_places(
    counts: Mapping[str, int], vocab: Mapping[str, int], vocab_file: str
) -> dict[str, int]:
    """The words to add, the most frequent first, and their ids."""
    unused = vocabulary.unused_places(vocab)
    limit = len(unused) if FLAGS.num_words is None else FLAGS.num_words
    if not limit:
        raise InputError(
            f"{vocab_file} has no [unused] place; say with --num_words how "
            "many words to add at its end"
        )
    words = vocabulary.new_words(counts, vocab)[:limit]
    if not words:
        raise InputError(
            f"all {len(counts):,} words of --input_file={FLAGS.input_file} are "
            "one piece already; expected some that are several"
        )
    end = max(vocab.values()) + 1
    places = [*unused, *range(end, end + len(words))]
    return dict(zip(words, places, strict=False))


def _extended(vocab_file: str, places: Mapping[str, int]) -> list[str]:
    """The lines of the new vocab.txt; other pieces' are as they were."""
    with open(vocab_file, encoding="utf-8", newline="\n") as file:
        lines = file.read().removesuffix("\n").split("\n")
    lines += [""] * (max(places.values()) + 1 - len(lines))
    for word, place in places.items():
        lines[place] = word
    return lines


def _write_weights(
    folder: str,
    size: int,
    vocab: Mapping[str, int],
    places: Mapping[str, int],
) -> None:
    from modeling.conversion import (
        CHECKPOINT,
        TRAINING_STATE,
        Checkpoint,
        write_checkpoint,
    )

    tokenizer = WordpieceTokenizer(vocab)
    sources = {
        place: [vocab[span.piece] for span in tokenizer.split(word)]
        for word, place in places.items()
    }
    weights = Checkpoint(FLAGS.init_checkpoint)
    values = {
        name: weights.read(name)
        for name in sorted(weights.shapes)
        if not name.endswith(TRAINING_STATE)
    }
    for name in values:
        if name.endswith(GROWING):
            values[name] = grown(values[name], size, sources)
    write_checkpoint(values, os.path.join(folder, CHECKPOINT))


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


def _write_others(
    folder: str, source: str, config: "BertConfig", lines: Sequence[str]
) -> None:
    from modeling.folder_files import (
        VOCABULARY,
        beside,
        copy_whole,
        write_whole,
    )
    from modeling.hugging_face import CONFIG
    from tasks.task import TASK

    vocabulary_text = "".join(f"{line}\n" for line in lines)
    write_whole(os.path.join(folder, CONFIG), config.to_json().encode())
    write_whole(os.path.join(folder, VOCABULARY), vocabulary_text.encode())
    task = beside(source, [TASK])
    if task is not None:
        copy_whole(task, os.path.join(folder, TASK))


def format_summary(
    counts: Mapping[str, int], old: Mapping[str, int], new: Mapping[str, int]
) -> str:
    """A little table: what both vocabularies make of the text's words."""
    total = sum(counts.values())
    rows = [f"{'':<20}{'before':>12}{'after':>12}"]
    columns = []
    for vocab in (old, new):
        tokenizer = WordpieceTokenizer(vocab)
        pieces = sum(
            count * len(tokenizer.split(word)) for word, count in counts.items()
        )
        unknown = vocabulary.unknown_share(counts, vocab)
        columns.append((f"{pieces / total:.3f}", f"{unknown:.2%}"))
    for name, *values in zip(
        ("pieces a word", "  [UNK]"), *columns, strict=True
    ):
        rows.append(f"{name:<20}" + "".join(f"{value:>12}" for value in values))
    return "\n".join(rows)


def cli() -> None:
    command.run(main)


if __name__ == "__main__":
    cli()
