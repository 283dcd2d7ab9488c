"""What a model is pre-trained on, from text: a vocabulary, then records."""

import functools
import os
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import tensorflow as tf
from tqdm import tqdm

from bert_keras import files
from bert_keras.data import (
    build_records,
    instances,
    record_hints,
    record_schema,
    text_files,
    tfrecords,
    vocabulary,
)
from bert_keras.data.corpus import TextFormat
from bert_keras.data.instances import InstanceConfig, Summary
from bert_keras.data.masking import mask_hint
from bert_keras.data.tokenization import BasicTokenizer
from bert_keras.data.tokenizer_folder import (
    OpenedTokenizer,
    TokenizerOptions,
    open_tokenizer,
)
from bert_keras.errors import InputError, warn
from bert_keras.tasks.keyword_settings import Settings, make, path_of, types_of
from bert_keras.tasks.pretraining.config import (
    RecordsConfig,
    VocabularyConfig,
    num_cores,
)

VOCABULARY_SETTINGS = Settings(
    "build_vocabulary",
    {
        **types_of(VocabularyConfig),
        **types_of(TextFormat, "input_format", "text_field"),
    },
)
TEXT_ENDINGS = ".txt", ".txt.gz", ".jsonl", ".jsonl.gz"
RECORD_SETTINGS = Settings(
    "make_records",
    {
        **types_of(InstanceConfig),
        **types_of(TextFormat),
        **types_of(TokenizerOptions),
        **types_of(RecordsConfig),
    },
    without={"runner"},
)


def build_vocabulary(
    text: Any,
    vocab_size: int,
    output_file: str | os.PathLike[str],
    **settings: Any,
) -> list[str]:
    """Learns a WordPiece vocabulary from text, and writes it.

    With equal settings the file is that of build_vocab.py, byte for byte.

    Examples:
        >>> tokens = bert_keras.build_vocabulary(
        ...     "corpus.txt", 200, "new_vocab.txt"
        ... )
        >>> tokens[0], "film" in tokens
        ('[PAD]', True)

    Args:
        text: a string of comma-separated names and globs of text files; or a
            pathlib.Path, or a list of these; or an iterable of texts.
        vocab_size: number of tokens at most, with special and [unused] ones.
        output_file: the vocab.txt to write.
        settings: other flags of build_vocab.py, by name: do_lower_case (True),
            strip_accents, num_unused (99), min_frequency (2), input_format
            ("jsonl" for JSON lines), text_field.

    Returns:
        The tokens, by their ids.

    Raises:
        InputError: the text cannot be read, or has too few words.
        TypeError: a setting is not one of these flags.
    """
    values = VOCABULARY_SETTINGS.read({"vocab_size": vocab_size, **settings})
    config = make(VocabularyConfig, values)
    text_format = make(TextFormat, values)
    output_file = os.fspath(output_file)
    if isinstance(names := _names(text), str):
        return learn_from_files(
            names, output_file, config, text_format, "text"
        )[1]
    texts = text_format.texts("text", _lines(names))
    return _learn(texts, output_file, config)[1]


def learn_from_files(
    input_file: str,
    output_file: str,
    config: VocabularyConfig,
    text_format: TextFormat,
    argument: str = "input_file",
) -> tuple[dict[str, int], list[str]]:
    """Writes the vocabulary of files; returns their words with how often they
    occur, and the tokens.

    Args:
        argument: that names the files, for errors.
    """
    paths = text_files.expand_patterns(input_file, argument, takes_pipes=True)
    files.refuse_inputs("output_file", output_file, **{argument: paths})
    return _learn(text_format.read(paths), output_file, config)


def _learn(
    lines: Iterable[str], output_file: str, config: VocabularyConfig
) -> tuple[dict[str, int], list[str]]:
    with files.writing(output_file, "output_file") as file:
        word_counts = vocabulary.count_words(
            lines, BasicTokenizer(config.do_lower_case, config.strip_accents)
        )
        tokens = vocabulary.learn(
            word_counts,
            config.vocab_size,
            config.num_unused,
            config.min_frequency,
        )
        file.write("".join(f"{token}\n" for token in tokens).encode())
    return word_counts, tokens


def _names(text: Any) -> Any:
    """Names of files as one string; texts as they are."""
    text = path_of(text)
    is_list = isinstance(text, list | tuple) and text
    if is_list and all(isinstance(each, os.PathLike) for each in text):
        return ",".join(map(os.fspath, text))
    return text


def names_of_files(argument: str, names: Any) -> str:
    """Names and globs as a comma list; raises an InputError for what is not
    one, nor paths."""
    names = path_of(names)
    if isinstance(names, list | tuple) and names:
        names = [path_of(name) for name in names]
        if all(isinstance(name, str) for name in names):
            names = ",".join(names)
    if not isinstance(names, str) or not names:
        is_empty = isinstance(names, str)
        found = "empty" if is_empty else f"a {type(names).__name__}"
        raise InputError(
            f"`{argument}` is {found}; expected names of files: a string, a "
            "pathlib.Path or a list of these"
        )
    return names


def _lines(texts: Iterable[str]) -> Iterable[str]:
    for number, text in enumerate(texts):
        name = path_of(text)
        if not isinstance(name, str):
            raise InputError(
                f"text {number} is a {type(text).__name__}; expected a string"
            )
        is_name = name is not text
        if number == 0:
            is_word = len(name.split()) == 1
            is_name |= is_word and name.endswith(TEXT_ENDINGS)
            is_name |= os.path.isfile(name)
        if is_name:
            raise InputError(
                f"text {number} is {name}, the name of a file; for names give "
                'one string, "a.txt,b.txt", or pathlib.Paths alone'
            )
        yield text


def make_records(
    input_file: Any,
    output_file: Any,
    vocab_file: str | os.PathLike[str],
    **settings: Any,
) -> Summary | None:
    """Makes the records that a model is pre-trained on, of text files.

    With equal settings the files are those of create_pretraining_data.py, byte
    for byte. The same call resumes what was stopped. The worker processes do
    not run your script again, so that it needs no
    `if __name__ == "__main__"`.

    Examples:
        >>> summary = bert_keras.make_records(
        ...     "corpus.txt", "new.tfrecord", "vocab.txt", max_seq_length=32
        ... )
        >>> summary.num_documents, summary.num_sentences
        (2, 5)

    Args:
        input_file: a string of comma-separated names and globs of text files; a
            sentence a line, a blank line between documents (`input_format` has
            others); or a pathlib.Path, or a list of these.
        output_file: the TFRecord file to write, or several, as input_file has
            them; records are dealt round-robin.
        vocab_file: the model's vocabulary: a vocab.txt, or a vocab.json with a
            merges.txt beside it.
        settings: other flags of create_pretraining_data.py, by name, such as
            max_seq_length (128), max_predictions_per_seq (20), random_seed,
            dynamic_masking, sampler, num_workers (all cores).

    Returns:
        Counts of documents, sentences and records; None: the same call has
        made the files before.

    Raises:
        InputError: text, vocabulary and settings do not fit each other, or the
            files cannot be written.
        TypeError: a setting is not one of these flags.
    """
    values = RECORD_SETTINGS.read(settings)
    return write_records(
        names_of_files("input_file", input_file),
        names_of_files("output_file", output_file),
        os.fspath(vocab_file),
        make(InstanceConfig, values),
        make(TextFormat, values),
        make(TokenizerOptions, values),
        make(RecordsConfig, values),
        settings.keys(),
    )


def write_records(
    input_file: str,
    output_file: str,
    vocab_file: str,
    config: InstanceConfig,
    text_format: TextFormat,
    options: TokenizerOptions,
    settings: RecordsConfig,
    given: Collection[str],
    beam_options: Sequence[str] = (),
    begin: Callable[[], None] | None = None,
) -> Summary | None:
    """Makes the files; None if the same settings have made them before.

    Args:
        given: names of the settings that do not merely have their defaults.
        beam_options: Beam's own, where `settings` names a runner.
        begin: called first of all in each new process, if given; pickled.
    """
    opened = open_tokenizer(None, vocab_file, options)
    if opened is None:
        raise InputError("`vocab_file=` is empty; name a vocabulary")
    config.check(opened.load().special_tokens)
    _check_settings(config, text_format, settings, opened.vocab_file, given)
    paths = text_files.expand_patterns(input_file)
    text_format.check(paths)
    read = {"input_file": paths, "vocab_file": [vocab_file]}
    outputs = output_file.split(",")
    for path in outputs:
        files.refuse_inputs("output_file", path, **read)
        files.refuse_model_file("output_file", path, vocab_file)
    hint = mask_hint(config.max_seq_length, config)
    if hint and not config.dynamic_masking:
        warn(hint)
    is_googles = settings.sampler == "google"
    if text_format.input_format != "jsonl":
        lines = text_files.read_lines(paths[0])
        if hint := record_hints.broken_lines_hint(lines):
            warn(hint + record_hints.NOT_GOOGLES * is_googles)
    summary: Summary | None
    if is_googles:
        summary = _write_googles(config, opened, paths, outputs)
    else:
        build = build_records.RecordBuildConfig(
            tuple(paths),
            tuple(outputs),
            opened.vocab_file,
            opened.settings,
            settings.words_are_spaced,
            text_format,
            settings.worker_memory_mb,
            config,
        )
        summary = _write_vectorized(build, settings, beam_options, begin)
    if summary:
        for hint in record_hints.summary_hints(
            summary,
            config,
            text_format.input_format == "sentences",
            settings.words_are_spaced,
            is_googles,
        ):
            warn(hint)
        empty = [x for x in outputs if not tf.io.gfile.stat(x).length]
        if empty:
            warn(
                f"{len(empty):,} of {len(outputs):,} files have no record "
                f"({empty[0]} is the first), as the text gives too few; name "
                "fewer in `output_file`"
            )
    return summary


def _check_settings(
    config: InstanceConfig,
    text_format: TextFormat,
    settings: RecordsConfig,
    vocab_file: str,
    given: Collection[str],
) -> None:
    """Refuses settings that do not go together, or would change nothing."""
    is_bert = not files.is_byte_level(vocab_file)
    is_segments = config.sequence_format == instances.SEGMENT_PAIR
    if settings.sampler == "google":
        for name, is_asked in {
            "dynamic_masking": config.dynamic_masking,
            "input_format": text_format.input_format != "sentences",
            "words_are_spaced": settings.words_are_spaced,
            "sequence_format": not is_segments,
            "runner": settings.runner is not None,
        }.items():
            if is_asked:
                raise InputError(
                    f"`sampler=google` has no `{name}`; leave out one of the "
                    "two"
                )
        if not is_bert:
            raise InputError(
                "`sampler=google` takes a vocab.txt, and "
                f"`vocab_file={vocab_file}` is of another kind; leave out "
                "`sampler`"
            )
    if settings.runner is not None and "num_workers" in given:
        raise InputError(
            "`num_workers` is not for `runner`; options that Beam has for it "
            "follow --"
        )
    of_masks = (
        "do_whole_word_mask", "masked_lm_prob", "mask_share", "random_share",
    )  # fmt: skip
    named = " and ".join(f"`{name}`" for name in of_masks if name in given)
    if config.dynamic_masking and named:
        raise InputError(
            "records of `dynamic_masking` have no masks; give "
            f"{named} to run_pretraining.py, which draws them"
        )
    if settings.words_are_spaced and not config.do_whole_word_mask:
        raise InputError("`words_are_spaced` is for `do_whole_word_mask`")
    if settings.words_are_spaced and not is_bert:
        raise InputError(
            "`words_are_spaced` is for a vocab.txt; tokens of a vocab.json "
            "have the spaces before them"
        )
    if "short_seq_prob" in given and not is_segments:
        raise InputError(
            "`short_seq_prob` is for `sequence_format=segment_pair`: records "
            f"of {config.sequence_format} are not shortened"
        )


def _write_vectorized(
    build: build_records.RecordBuildConfig,
    settings: RecordsConfig,
    beam_options: Sequence[str],
    begin: Callable[[], None] | None,
) -> Summary | None:
    if settings.runner is None:
        return build_records.make_records(
            build, settings.num_workers or num_cores(), begin
        )
    try:
        from bert_keras.data import beam_pipeline
    except ImportError as error:
        raise InputError(
            f"`runner={settings.runner}` needs Apache Beam ({error}); "
            "pip install 'apache-beam>=2.77'"
        ) from error
    return beam_pipeline.make_records(build, settings.runner, beam_options)


def _write_googles(
    config: InstanceConfig,
    opened: OpenedTokenizer,
    paths: Sequence[str],
    outputs: Sequence[str],
) -> Summary:
    tokenizer = opened.load()
    features = record_schema.pretraining_features(
        config.max_seq_length, config.max_predictions_per_seq
    )
    with tfrecords.RecordWriter(outputs) as writer:
        with tqdm(desc="reading", unit="B", unit_scale=True) as bar:
            documents = instances.read_documents(
                (
                    (path, text_files.read_lines(path, bar.update))
                    for path in paths
                ),
                tokenizer.tokenize,
            )
        made = instances.create_instances(
            documents,
            list(tokenizer.vocab),
            config,
            random.Random(config.random_seed),
            functools.partial(tqdm, desc="pairing", unit=" documents"),
        )
        for instance in tqdm(made, desc="writing", unit=" records"):
            values = instances.to_features(instance, tokenizer.vocab, config)
            writer.write(tfrecords.encode(features, values))
    return instances.summarize(documents, made)
