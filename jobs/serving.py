"""What an exported model is asked, and what it answers, as TensorFlow graphs.

export_model.py's work. Names of outputs are predict.py's; the encoder's are
those of the BERTs on TensorFlow Hub.

Shapes: B batch, S positions, H hidden size, C outputs.
"""

from typing import Any, Protocol

import tensorflow as tf

from data.graph_tokenization import GraphTokenizer
from modeling.config import BertConfig
from modeling.conversion import Binding, encoder_bindings
from modeling.encoder import Encoder
from tasks.classification import Classifier
from tasks.packed import make_encoder
from tasks.spans import SpanModel
from tasks.targets import make_target
from tasks.task import TaskSettings
from training.export import Signature

INPUTS = ("input_ids", "input_mask", "segment_ids")

Tensors = dict[str, Any]


class Model(Protocol):
    def bindings(self) -> list[Binding]: ...

    def forward(self, batch: Tensors) -> Tensors: ...


class EncoderModel:
    """An encoder without a head."""

    def __init__(self, config: BertConfig):
        self.encoder = Encoder(config)
        self.encoder.build()

    def bindings(self) -> list[Binding]:
        return encoder_bindings(self.encoder)

    def forward(self, batch: Tensors) -> Tensors:
        """sequence_output [B, S, H] and pooled_output [B, H]."""
        outputs = self.encoder(*(batch[name] for name in INPUTS))
        return {
            "sequence_output": outputs.sequence,
            "pooled_output": outputs.pooled,
        }


def make_model(config: BertConfig, settings: TaskSettings | None) -> Model:
    """What task.json says; the encoder alone where there is none."""
    if settings is None:
        return EncoderModel(config)
    if settings.target == "span":
        return SpanModel(config, encoder=make_encoder(config, settings))
    target = make_target(settings.target, settings.labels)
    return Classifier(config, target, make_encoder(config, settings))


def signatures(
    model: Model,
    config: BertConfig,
    settings: TaskSettings | None,
    tokenizer: GraphTokenizer | None,
) -> dict[str, Signature]:
    """What may be asked: ids, and with a tokenizer a text or a pair."""

    def answer(batch: Tensors) -> Tensors:
        with tf.control_dependencies(_checks(batch, config)):
            batch = {name: tf.identity(x) for name, x in batch.items()}
        return _outputs(model.forward(batch), settings)

    def answer_text(
        graph: GraphTokenizer, text: tf.Tensor, pair: tf.Tensor | None = None
    ) -> Tensors:
        rows = graph.rows(text, pair)
        # Which positions hold which pieces is known to no one else.
        return answer(rows) | ({} if settings else rows)

    ids = tf.TensorSpec([None, None], tf.int32)
    text = tf.TensorSpec([None], tf.string)
    by_name = {"serving_default": Signature(answer, dict.fromkeys(INPUTS, ids))}
    # The place of a span is told from pieces and windows: no use for strings.
    if tokenizer is not None and not (settings and settings.target == "span"):
        by_name["text"] = Signature(
            lambda texts: answer_text(tokenizer, texts["text"]), {"text": text}
        )
        by_name["text_pair"] = Signature(
            lambda texts: answer_text(
                tokenizer, texts["text"], texts["text_pair"]
            ),
            {"text": text, "text_pair": text},
        )
    return by_name


def _checks(batch: Tensors, config: BertConfig) -> list[Any]:
    """What would otherwise be answered wrongly, at least on some device."""
    ids, mask, segments = (batch[name] for name in INPUTS)
    shape = tf.shape(ids)
    fits = {
        "input_ids, input_mask and segment_ids of one shape": (
            tf.reduce_all(shape == tf.shape(mask))
            & tf.reduce_all(shape == tf.shape(segments))
        ),
        f"at most {config.max_position_embeddings} ids a row": (
            shape[1] <= config.max_position_embeddings
        ),
        f"input_ids from 0 to {config.vocab_size - 1}": tf.reduce_all(
            (ids >= 0) & (ids < config.vocab_size)
        ),
        f"segment_ids from 0 to {config.type_vocab_size - 1}": tf.reduce_all(
            (segments >= 0) & (segments < config.type_vocab_size)
        ),
    }
    return [
        tf.debugging.Assert(fit, [f"expected {expected}"])
        for expected, fit in fits.items()
    ]


def _outputs(outputs: Tensors, settings: TaskSettings | None) -> Tensors:
    """The model's outputs as a client wants them, by predict.py's names."""
    if settings is None or settings.target == "span":
        return outputs
    logits = outputs["logits"]  # [B, C]
    if settings.target == "regression":
        return {"value": logits[:, 0]}
    labels = tf.constant(settings.labels)
    if settings.target == "multi_label":
        probabilities = tf.sigmoid(logits)
        chosen = tf.where(probabilities > 0.5, labels, "")
        return {"probabilities": probabilities, "labels": chosen}
    best = tf.argmax(logits, axis=-1)
    return {
        "probabilities": tf.nn.softmax(logits),
        "label": tf.gather(labels, best),
    }
