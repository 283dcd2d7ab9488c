"""Writes a BERT's vectors for each line of a text, as google-research/bert.

    python extract_features.py --input_file=input.txt \\
        --output_file=output.jsonl --vocab_file=$BERT/vocab.txt \\
        --bert_config_file=$BERT/bert_config.json \\
        --init_checkpoint=$BERT/bert_model.ckpt --layers=-1,-2,-3,-4

A line is a text, or a pair: "Who was Jim ? ||| He was a man". Beyond that
project: one vector a line (--pooled_file), and longer texts by overlapping
windows (--doc_stride). Upstream file: extract_features.py.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bert_keras.cli import command, common_flags

from absl import flags

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

FLAGS = flags.FLAGS

flags.DEFINE_string("input_file", None, "Lines: comma-separated names, globs.")
flags.DEFINE_string("output_file", None, "JSON lines, one for each line.")
flags.DEFINE_string(
    "layers", "-1,-2,-3,-4", "Which: from 0, or downwards from -1, the last."
)
flags.DEFINE_string("bert_config_file", None, "bert_config.json of the model.")
flags.DEFINE_integer(
    "max_seq_length", 128, "Pieces, [CLS] and [SEP] among them.", lower_bound=3
)
flags.DEFINE_string("init_checkpoint", None, "Model folder or checkpoint.")
flags.DEFINE_string(
    "vocab_file",
    None,
    "vocab.txt of the model, or vocab.json with merges.txt beside it.",
)
common_flags.define_tokenizer()
flags.DEFINE_integer(
    "batch_size", 32, "Rows at once; of short ones more.", lower_bound=1
)
flags.DEFINE_bool("use_tpu", DeviceConfig.use_tpu, "Use a Cloud TPU.")
flags.DEFINE_string("master", DeviceConfig.master, "Address of the Cloud TPU.")
flags.DEFINE_integer("num_tpu_cores", 8, "Unused: the TPU says it itself.")
flags.DEFINE_bool("use_one_hot_embeddings", False, "Unused: rows are gathered.")

# The flags above are google-research/bert's; those below are not.
flags.DEFINE_integer(
    "doc_stride",
    0,
    "Pieces between the starts of two windows of a text that is too long; 0:"
    " it is cut. Pairs are always cut.",
    lower_bound=0,
)
flags.DEFINE_string("pooled_file", None, "A .npy with one vector a line.")
flags.DEFINE_enum(
    "pooling",
    None,
    POOLINGS,
    "Vector of a text in --pooled_file: that of [CLS] (in the first window), "
    "or the mean or maximum over all tokens. Default: as the modules.json and "
    "1_Pooling/config.json of a sentence-transformers folder say; else mean.",
)
flags.DEFINE_integer("pooling_layer", -1, "The layer that is pooled.")
common_flags.define_precision_and_threads()
flags.DEFINE_bool("use_xla", False, "Compile the model as a whole.")
flags.mark_flags_as_required(["input_file", "init_checkpoint"])


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
    command.import_tensorflow()

    from bert_keras.data.text_files import expand_patterns, read_lines
    from bert_keras.tasks.base import open_model_folder
    from bert_keras.tasks.features import encode_documents, read_document

    paths = expand_patterns(FLAGS.input_file, takes_pipes=True)
    for name in ("output_file", "pooled_file"):
        if path := FLAGS[name].value:
            files.refuse_inputs(name, path, input_file=paths)
    paths = [*map(files.seekable, paths)]  # to count lines, and to read them
    num_lines = sum(1 for path in paths for _ in read_lines(path))
    folder = open_model_folder(
        FLAGS.init_checkpoint,
        common_flags.tokenizer_options(),
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
    devices = command.from_flags(DeviceConfig)
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
    return Predictor(extractor.forward, strategy, FLAGS.use_xla)


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
    notices.close()


def cli() -> None:
    command.run(main)


if __name__ == "__main__":
    cli()
