"""Write a BERT's vectors for each line of a text, as google-research/bert does.

A line is a text, or a pair: "Who was Jim ? ||| He was a man". --pooled_file
writes one vector per line; --doc_stride reads long texts in overlapping
windows.

Examples:
    # The last four layers of each token, as JSON
    extract_features --input_file=input.txt --output_file=output.jsonl \\
        --init_checkpoint=uncased_L-12_H-768_A-12

    # One vector per line, for NumPy
    extract_features --input_file=input.txt --pooled_file=vectors.npy \\
        --init_checkpoint=all-MiniLM-L6-v2

    # Long texts, read in windows
    extract_features --input_file=input.txt --pooled_file=vectors.npy \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --max_seq_length=512 \\
        --doc_stride=256
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras import files
from bert_keras.errors import InputError
from bert_keras.tasks.sentence_pooling import (
    POOLINGS,
    SentencePooling,
    pooling_file,
    read_sentence_pooling,
)
from bert_keras.training.config import DeviceConfig

if TYPE_CHECKING:
    from bert_keras.modeling.config import BertConfig
    from bert_keras.tasks.features import Document
    from bert_keras.training.inference import Predictor

FLAGS = Flags(
    common_flags.TEXT_FILES,
    Flag("init_checkpoint", str, Group.REQUIRED,
         "Model folder or checkpoint, in Google's or Hugging Face's format."),
    Flag("max_seq_length", 128, Group.DATA,
         "Maximum length of an input in tokens, including [CLS] and [SEP].",
         3),
    Flag("doc_stride", 0, Group.DATA,
         "Number of tokens between the starts of the overlapping windows that "
         "long texts are split into; 0 cuts long texts. Pairs are always cut.",
         0),
    common_flags.CONFIG_FILE,
    common_flags.VOCAB_FILE,
    *common_flags.TOKENIZER_FLAGS,
    Flag("output_file", str, Group.OUTPUT,
         "File to write with a vector per token: a JSON line for each line of "
         "the text."),
    Flag("layers", "-1,-2,-3,-4", Group.OUTPUT,
         "Layers in --output_file, comma-separated: counted from 0, or from "
         "the last layer as -1, -2."),
    Flag("pooled_file", str, Group.OUTPUT,
         "File to write with a vector per line, in NumPy's .npy format."),
    Flag("pooling", str, Group.OUTPUT,
         "Pooling of a text's vectors for --pooled_file: the vector of [CLS] "
         "in the first window, or the mean or maximum over all tokens. "
         "Default: as a sentence-transformers folder says, else mean.",
         choices=POOLINGS),
    Flag("pooling_layer", -1, Group.OUTPUT,
         "Layer that is pooled, counted from 0, or from the last layer as -1, "
         "-2."),
    *common_flags.INFERENCE_FLAGS,
    *common_flags.TPU_FLAGS,
    Flag("use_one_hot_embeddings", False, Group.COMPATIBILITY,
         "One-hot embedding lookup; ignored, since embeddings are gathered by "
         "index."),
)  # fmt: skip


def main() -> None:
    wanted: list[int] = []  # layers in --output_file
    if FLAGS.output_file:
        try:
            wanted = [int(number) for number in FLAGS.layers.split(",")]
        except ValueError as error:
            raise InputError(
                f"--layers is {FLAGS.layers!r}; expected numbers with commas "
                "between them, such as -1,-2"
            ) from error
    elif not FLAGS.pooled_file:
        raise InputError("give --output_file, --pooled_file or both")
    max_length = FLAGS.max_seq_length
    if FLAGS.doc_stride > max_length - 2:
        raise InputError(
            f"--doc_stride is {FLAGS.doc_stride}; expected at most "
            f"{max_length - 2}, --max_seq_length less [CLS] and [SEP]"
        )
    command.import_tensorflow(FLAGS)

    from bert_keras.data.text_files import expand_patterns, read_lines
    from bert_keras.tasks.base import open_model_folder
    from bert_keras.tasks.features import encode_documents, read_document
    from bert_keras.tasks.tables import ENDINGS

    paths = expand_patterns(FLAGS.input_file, takes_pipes=True)
    if tables := [x for x in paths if x.removesuffix(".gz").endswith(ENDINGS)]:
        raise InputError(
            f"--input_file={tables[0]} is a table by its name, and each line "
            "would be read as a text; give a file with a text in each line"
        )
    own = {
        name: [path]
        for name in ("vocab_file", "bert_config_file")
        if (path := FLAGS[name].value) is not None
    }
    if FLAGS.output_file and FLAGS.output_file == FLAGS.pooled_file:
        raise InputError(
            "--output_file and --pooled_file are the same file; name two"
        )
    for name in ("output_file", "pooled_file"):
        if path := FLAGS[name].value:
            files.refuse_inputs(name, path, input_file=paths, **own)
            files.refuse_model_file(name, path, FLAGS.init_checkpoint)
    paths = [*map(files.seekable, paths)]  # to count lines, and to read them
    num_lines = sum(1 for path in paths for _ in read_lines(path))
    folder = open_model_folder(
        FLAGS.init_checkpoint,
        common_flags.tokenizer_options(FLAGS),
        FLAGS.bert_config_file,
        FLAGS.vocab_file,
        "bert_config.json and vocab.txt beside the weights, or "
        "`bert_config_file` and `vocab_file`",
    )
    config = folder.config
    if max_length > config.max_position_embeddings:
        raise InputError(
            f"--max_seq_length is {max_length}; the model has "
            f"{config.max_position_embeddings} positions, so expected no more"
        )
    tokenizer = folder.tokenizer()
    pooling = _read_pooling() if FLAGS.pooled_file else None
    layers = wanted + [FLAGS.pooling_layer] * bool(FLAGS.pooled_file)
    shape = len(layers), config.hidden_size
    predictor = _load(config, layers)
    documents = (
        read_document(line, tokenizer, max_length, FLAGS.doc_stride)
        for path in paths
        for line in read_lines(path)
    )
    results = encode_documents(
        predictor, documents, FLAGS.batch_size, max_length, shape
    )
    _write(results, num_lines, wanted, pooling, config.hidden_size)


def _read_pooling() -> SentencePooling:
    """How tokens' vectors become one; prints what is not the default."""
    path = pooling_file(FLAGS.init_checkpoint)
    if path and not FLAGS.pooling:
        found = read_sentence_pooling(path)
        length = ", of length 1" if found.normalizes else ""
        print(f"pooling: {found.pooling}{length}: {path}", file=sys.stderr)
        return found
    if path:
        print(f"--pooling={FLAGS.pooling} overrides {path}", file=sys.stderr)
    return SentencePooling(FLAGS.pooling or "mean")


def _load(config: "BertConfig", layers: list[int]) -> "Predictor":
    """The model, of which these layers are wanted."""
    import keras

    from bert_keras.modeling.checkpoint import check_sizes, load_checkpoint
    from bert_keras.tasks.base import missing_weight
    from bert_keras.tasks.features import FeatureExtractor
    from bert_keras.training.distribution import make_strategy
    from bert_keras.training.inference import Predictor

    keras.config.set_dtype_policy(FLAGS.precision)
    devices = FLAGS.make(DeviceConfig)
    strategy = make_strategy(devices, alone=True)
    check_sizes(config, FLAGS.init_checkpoint, needs_all_layers=True)
    with strategy.scope():
        extractor = FeatureExtractor(config, layers)
    report = load_checkpoint(extractor.mappings(), FLAGS.init_checkpoint)
    print(report, file=sys.stderr)
    # Upstream's writes what stays random.
    if name := missing_weight(report, needs_pooler=False):
        raise InputError(
            f"--init_checkpoint={FLAGS.init_checkpoint} has no {name}; the "
            "model that --bert_config_file describes is another one"
        )
    return Predictor(extractor.outputs_by_name, strategy, FLAGS.use_xla)


def _write(
    results: "Iterator[tuple[Document, list[dict[str, Any]]]]",
    num_lines: int,
    wanted: list[int],
    pooling: SentencePooling | None,
    hidden_size: int,
) -> None:
    """Writes both files, or the one that is asked for.

    Args:
        wanted: the layers in --output_file; behind them is the pooled one.
    """
    from bert_keras.tasks.features import npy_header, to_json
    from bert_keras.training.inference import with_progress

    notices = command.Notices()
    cut = f"it is cut to --max_seq_length={FLAGS.max_seq_length} tokens"
    if not FLAGS.doc_stride:
        cut += " (--doc_stride reads a longer text, but not a pair, in windows)"
    with contextlib.ExitStack() as outputs:
        opened = {
            name: outputs.enter_context(files.writing(path, name))
            for name in ("output_file", "pooled_file")
            if (path := FLAGS[name].value)
        }
        json_file = opened.get("output_file")
        npy_file = opened.get("pooled_file")
        if npy_file:
            npy_file.write(npy_header((num_lines, hidden_size)))
        lines = with_progress(results, num_lines)
        number = -1
        for number, (document, rows) in enumerate(lines):
            vectors = document.vectors(rows)  # [T, L, H]
            if document.is_cut:
                notices.say(number + 1, cut)
            if json_file:
                chosen = vectors[:, : len(wanted)]
                line = to_json(number, document.tokens, wanted, chosen)
                json_file.write((line + "\n").encode())
            if npy_file and pooling:
                pooled = pooling.vector(vectors[:, -1])
                npy_file.write(pooled.astype("<f4").tobytes())
        if npy_file and number + 1 != num_lines:
            raise InputError(
                f"--input_file had {num_lines:,} lines at first and "
                f"{number + 1:,} at the end; give the command again when it "
                "does not change any more"
            )
    notices.close()


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
