"""What an exported model is asked, and what it answers, as TensorFlow graphs.

The work of export_model.py and export_tflite.py. Names of outputs are
predict.py's; the encoder's are those of the BERTs on TensorFlow Hub.

Shapes: B batch, S positions, H hidden size, C outputs.
"""

import sys
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.data.graph_tokenization import GraphTokenizer, NoGraphError
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.data.tokenizer_folder import OpenedTokenizer, TokenizerOptions
from bert_keras.data.tokenizers import check_ids
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import (
    VariableMapping,
    check_sizes,
    encoder_mappings,
    load_checkpoint,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.tasks.base import Model, missing_weight, open_model_folder
from bert_keras.tasks.hugging_face_task import folder_task
from bert_keras.tasks.load import PIPELINES
from bert_keras.tasks.pipeline import EMPTY
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.training.export import Signature

INPUTS = ("input_ids", "input_mask", "segment_ids")

Tensors = dict[str, Any]


class EncoderModel:
    """An encoder without a head; DistilBERT's has no pooler then."""

    def __init__(self, config: BertConfig):
        self.has_pooler = config.traits.has_pooler
        self.encoder = Encoder(config)
        self.encoder.build()

    def mappings(self) -> list[VariableMapping]:
        return encoder_mappings(self.encoder)

    def outputs_by_name(self, batch: Tensors) -> Tensors:
        """sequence_output [B, S, H] and pooled_output [B, H]."""
        outputs = self.encoder(*(batch[name] for name in INPUTS))
        pooled = {"pooled_output": outputs.pooled} if self.has_pooler else {}
        return {"sequence_output": outputs.sequence, **pooled}


def make_model(config: BertConfig, settings: TaskConfig | None) -> Model:
    """What task.json says; the encoder alone where there is none."""
    if settings is None:
        return EncoderModel(config)
    if settings.feature_layers is not None:
        raise InputError(
            "a tagger that was trained with `feature_layers` cannot be "
            "exported; train one without, or ask it by predict.py"
        )
    return PIPELINES[settings.target].make_model(config, settings)


def open_folder(
    path: str, options: TokenizerOptions | None = None
) -> tuple[TaskConfig | None, BertConfig, OpenedTokenizer | None]:
    """What a model folder was trained for, if that is known, its config, and
    its tokenizer, if it has one.

    Args:
        options: override the folder's settings of its tokenizer.
    """
    if "://" in path:
        raise InputError(
            f"`model_dir={path}` is not a local folder; expected a model "
            "folder on this machine"
        )
    folder = open_model_folder(path, options)
    task = folder_task(path, options, opened=folder.opened)
    return task, folder.config, folder.opened


def load_model(
    folder: str, config: BertConfig, settings: TaskConfig | None
) -> Model:
    """The model with its weights."""
    check_sizes(config, folder, needs_all_layers=True)
    model = make_model(config, settings)
    report = load_checkpoint(model.mappings(), folder)
    print(report, file=sys.stderr)
    needs_pooler = (
        config.traits.has_pooler
        if settings is None
        else PIPELINES[settings.target].needs_pooler
    )
    if name := missing_weight(report, needs_pooler):
        raise InputError(
            f"the model in {folder} cannot be exported: its checkpoint has no "
            f"{name}"
        )
    return model


def takes_strings(settings: TaskConfig | None) -> bool:
    """Whether answers are for whole texts. What holds of tokens is told from
    tokens and windows: no use for strings."""
    return settings is None or not PIPELINES[settings.target].answers_tokens


def _takes_pairs(settings: TaskConfig | None) -> bool | None:
    """Whether the model was trained on two texts; None: not known."""
    if settings is None:
        return None
    return PIPELINES[settings.target].reads_pairs or settings.takes_pairs


def check_length(config: BertConfig, max_seq_length: int) -> None:
    if max_seq_length > config.max_position_embeddings:
        raise InputError(
            f"texts would be cut to {max_seq_length} tokens but the model has "
            f"{config.max_position_embeddings} positions; change "
            "`max_seq_length`"
        )


def graph_tokenizer(
    opened: OpenedTokenizer | None,
    config: BertConfig,
    max_seq_length: int,
    settings: TaskConfig | None,
) -> GraphTokenizer | None:
    """None where the vocabulary is unknown or has no form in a graph.

    Texts that are too long are cut, as in training; where it read them through
    windows, they get an error.
    """
    if opened is None:
        return None
    tokenizer = opened.load()
    try:
        if not isinstance(tokenizer, FullTokenizer):
            raise NoGraphError("a byte-level vocabulary has no form in a graph")
        check_ids(opened.vocab, config.vocab_size, opened.vocab_file)
        check_length(config, max_seq_length)
        cuts = settings is None or settings.doc_stride is None
        return GraphTokenizer(tokenizer, max_seq_length, cuts)
    except NoGraphError as error:
        print(f"{error}: the model is asked by ids alone", file=sys.stderr)
        return None


def signatures(
    model: Model,
    config: BertConfig,
    settings: TaskConfig | None,
    tokenizer: GraphTokenizer | None,
) -> dict[str, Signature]:
    """What may be asked: ids, and with a tokenizer a text or a pair."""

    def answer(batch: Tensors) -> Tensors:
        with tf.control_dependencies(_checks(batch, config)):
            # A batch of no rows, which the model takes, may have no positions.
            one_if_none = tf.cast(
                tf.shape(batch["input_ids"])[1] == 0, tf.int32
            )
            batch = {
                n: tf.pad(x, [[0, 0], [0, one_if_none]])
                for n, x in batch.items()
            }
        return _answers(model, batch, settings)

    def answer_text(texts: Tensors) -> Tensors:
        assert tokenizer is not None
        rows = tokenizer.rows(texts["text"], texts.get("text_pair"))
        ids = {name: rows[name] for name in INPUTS}
        # Which positions hold which tokens is known to no one else.
        if settings is None:
            return _without_refused(answer(ids), rows) | ids
        return _without_refused(answer(ids), _refusing_blank(rows, texts))

    ids = tf.TensorSpec([None, None], tf.int32)
    text = tf.TensorSpec([None], tf.string)
    by_name = {"serving_default": Signature(answer, dict.fromkeys(INPUTS, ids))}
    if tokenizer is None or not takes_strings(settings):
        return by_name
    if _takes_pairs(settings) is not True:
        by_name["text"] = Signature(answer_text, {"text": text})
    if _takes_pairs(settings) is not False:
        pair = {"text": text, "text_pair": text}
        by_name["text_pair"] = Signature(answer_text, pair)
    return by_name


def device_signatures(
    model: Model,
    config: BertConfig,
    settings: TaskConfig | None,
    length: int,
    tokenizer: GraphTokenizer | None = None,
) -> dict[str, Signature]:
    """The one question of a phone: a row of ids, of a length that is fixed,
    since only then are all of its products planned ahead; with a tokenizer a
    text, or a pair, whose second text may be empty."""

    def answer(row: Tensors) -> Tensors:
        ids, segments = row["input_ids"], row["segment_ids"]
        is_wrong = (ids < 0) | (segments < 0) | (segments >= _segments(config))
        # LiteRT has no assertions, but refuses an id beyond the vocabulary.
        ids = tf.where(is_wrong, config.vocab_size, ids)
        return _answers(model, row | {"input_ids": ids}, settings)

    def answer_text(texts: Tensors) -> Tensors:
        assert tokenizer is not None
        rows = tokenizer.rows(texts["text"], texts.get("text_pair"))
        padded = {
            name: tf.ensure_shape(
                tf.pad(x, [[0, 0], [0, length - tf.shape(x)[1]]]), [1, length]
            )
            for name, x in rows.items()
            if name in INPUTS
        }
        if settings is not None:
            rows = _refusing_blank(rows, texts)
        return _without_refused(_answers(model, padded, settings), rows)

    if tokenizer is None:
        ids = tf.TensorSpec([1, length], tf.int32)
        signature = Signature(answer, dict.fromkeys(INPUTS, ids))
    else:
        names = ["text", "text_pair"]
        if _takes_pairs(settings) is False:
            names.remove("text_pair")
        text = tf.TensorSpec([1], tf.string)
        signature = Signature(answer_text, dict.fromkeys(names, text))
    return {"serving_default": signature}


def _segments(config: BertConfig) -> int:
    return config.type_vocab_size or 2  # a tokenizer's, where unused


def _checks(batch: Tensors, config: BertConfig) -> list[Any]:
    """What would otherwise be answered wrongly, at least on some device."""
    ids, mask, segments = (batch[name] for name in INPUTS)
    shape = tf.shape(ids)
    num_segments = _segments(config)
    fits = {
        "input_ids, input_mask and segment_ids of one shape": (
            tf.reduce_all(shape == tf.shape(mask))
            & tf.reduce_all(shape == tf.shape(segments))
        ),
        "at least one id per example": (shape[0] == 0) | (shape[1] > 0),
        f"at most {config.max_position_embeddings} ids per example": (
            shape[1] <= config.max_position_embeddings
        ),
        f"input_ids from 0 to {config.vocab_size - 1}": tf.reduce_all(
            (ids >= 0) & (ids < config.vocab_size)
        ),
        f"segment_ids from 0 to {num_segments - 1}": tf.reduce_all(
            (segments >= 0) & (segments < num_segments)
        ),
    }
    return [
        tf.debugging.Assert(fit, [f"expected {expected}"])
        for expected, fit in fits.items()
    ]


def _refusing_blank(rows: Tensors, texts: Tensors) -> Tensors:
    """Rows with an error where nothing is asked, as predict.py has it. (Of a
    blank text there are vectors: those of its special tokens.)"""
    joined = tf.strings.join([*texts.values()])
    # what Python's str.strip takes away
    is_blank = tf.strings.regex_full_match(
        joined, r"[\t-\r\x1c-\x1f\x{85}\p{Z}]*"
    )
    return {**rows, "error": tf.where(is_blank, EMPTY, rows["error"])}


def _without_refused(outputs: Tensors, rows: Tensors) -> Tensors:
    """The answers, NaN or "" for texts with an error, and the error and is_cut
    of `rows`."""
    answers = {"error": rows["error"], "is_cut": rows["is_cut"]}
    for name, x in outputs.items():
        is_fine = tf.reshape(
            rows["error"] == "", [-1] + [1] * (len(x.shape) - 1)
        )
        answers[name] = tf.where(
            is_fine, x, "" if x.dtype == tf.string else np.nan
        )
    return answers


def _answers(
    model: Model, batch: Tensors, settings: TaskConfig | None
) -> Tensors:
    """The model's outputs as a client wants them, by predict.py's names."""
    outputs = model.outputs_by_name(batch)
    if settings is None:
        return outputs
    return PIPELINES[settings.target].exported(outputs, settings)
