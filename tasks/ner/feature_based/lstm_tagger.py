"""Tags of words from the vectors of an encoder that is not trained.

Devlin et al. 2018, section 5.3 and table 7: the vectors of words' first tokens,
from one layer or several, go through a two-layer BiLSTM to the classifier. How
layers are weighted it does not say; here it is as in ELMo (Peters et al. 2018,
equation 1): by a softmax over a number for each, times one for all.

Shapes: B sentences, S positions, P words of a sentence, K vectors of a word, L
layers, H hidden size, D BiLSTM size of a direction, C tags.
"""

import dataclasses
from typing import Any

import keras
from keras import ops

from bert_keras.modeling import fused_ops
from bert_keras.modeling.attention import vectors_at
from bert_keras.modeling.checkpoint import (
    CLASSIFIER,
    VariableMapping,
    linear_mappings,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.heads import LinearHead
from bert_keras.modeling.tensors import Batch, Tensor
from bert_keras.tasks.classification.model import HEAD_DROPOUT_PROB
from bert_keras.tasks.features import EMBEDDINGS, FeatureExtractor
from bert_keras.tasks.ner.model import Tagger

ROOT = "feature_tagger/"  # names of its variables in checkpoints begin so
NUM_LSTM_LAYERS = 2
LAST_FOUR = (-4, -3, -2, -1)
# By task.FEATURE_LAYERS. Several layers are joined as the name's first word
# says: added up, added up with weights that are learnt, or put side by side.
CHOICES: dict[str, tuple[int | None, ...]] = {
    "embeddings": (EMBEDDINGS,),
    "second_to_last": (-2,),
    "last": (-1,),
    "sum_last_four": LAST_FOUR,
    "sum_all": (),  # whichever there are
    "weighted_sum_last_four": LAST_FOUR,
    "weighted_sum_all": (),
    "concat_last_four": LAST_FOUR,
}


class WordFeatures(FeatureExtractor):
    """An encoder, and what a choice of its layers says of each word."""

    def __init__(self, config: BertConfig, feature_layers: str):
        """`feature_layers`: one of CHOICES."""
        layers = CHOICES[feature_layers] or range(config.num_hidden_layers)
        super().__init__(config, layers)
        self.is_sum = feature_layers.startswith("sum_")
        # K and H
        self.shape = 1 if self.is_sum else len(layers), config.hidden_size

    def outputs_by_name(self, batch: Batch) -> dict[str, Tensor]:
        """{"vectors": [B, P, K, H]} of rows with positions [B, P] of words."""
        x = super().outputs_by_name(batch)["vectors"]  # [B, S, L, H]
        rows, length, num_layers, hidden = ops.shape(x)
        flat = ops.reshape(x, (rows, length, num_layers * hidden))
        flat = vectors_at(flat, batch["positions"])
        x = ops.reshape(flat, (rows, -1, num_layers, hidden))
        x = ops.cast(x, "float32")
        return {"vectors": ops.sum(x, 2, keepdims=True) if self.is_sum else x}


class ScalarMix(keras.layers.Layer):
    """The weighted sum of K vectors."""

    def __init__(self, count: int, name: str = "layer_mix"):
        super().__init__(name=name, dtype="float32")
        self.count = count

    def build(self, input_shape: Any = None) -> None:
        self.layer_weights = self.add_weight(
            name="layer_weights", shape=(self.count,), initializer="zeros"
        )
        self.scale = self.add_weight(
            name="scale", shape=(1,), initializer="ones"
        )

    def call(self, x: Tensor) -> Tensor:
        """[B, P, K, H] -> [B, P, H]."""
        shares = self.scale * ops.softmax(self.layer_weights)  # [K]
        return ops.sum(shares[:, None] * x, axis=2)


class WordLstm(keras.layers.Layer):
    """A BiLSTM of several layers over words; both directions side by side.

    It reads what is behind a sentence's end, but only after the sentence: the
    words are turned round by their own number for the way back.
    """

    def __init__(self, size: int, name: str = "word_lstm"):
        """`size`: D."""
        super().__init__(name=name, dtype="float32")
        self.directions = [
            keras.layers.LSTM(
                size,
                return_sequences=True,
                use_cudnn=False,  # XLA cannot compile it
                dtype="float32",
                name=f"layer_{layer}_{direction}",
            )
            for layer in range(NUM_LSTM_LAYERS)
            for direction in ("forward", "backward")
        ]
        self.size = size

    @property
    def variables(self) -> list[keras.Variable]:
        """Without the seeds that Keras keeps for dropouts of an LSTM."""
        return self.weights

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        for i, lstm in enumerate(self.directions):
            lstm.build((None, None, 2 * self.size if i > 1 else width))

    def call(self, x: Tensor, lengths: Tensor) -> Tensor:
        """[B, P, H'] and int [B], the words of each -> [B, P, 2 D]."""
        places = ops.arange(ops.shape(x)[1], dtype="int32")  # [P]
        last = ops.cast(lengths, "int32")[:, None] - 1
        turned = ops.where(places <= last, last - places, places)  # [B, P]
        for forward, backward in zip(
            self.directions[::2], self.directions[1::2], strict=True
        ):
            back = backward(vectors_at(x, turned))
            x = ops.concatenate([forward(x), vectors_at(back, turned)], axis=-1)
        return x


class FeatureTagger(Tagger):
    """An encoder as it is, and on it what is trained: a BiLSTM and a head."""

    def __init__(
        self,
        config: BertConfig,
        num_tags: int,
        feature_layers: str,
        lstm_size: int,
    ):
        features = WordFeatures(config, feature_layers)
        super().__init__(config, features.encoder)
        self.features = features
        self.encoder.trainable = False
        count, hidden = self.features.shape
        self.mix: ScalarMix | None = None
        if feature_layers.startswith("weighted_"):
            self.mix = ScalarMix(count)
            self.mix.build()
            count = 1
        self.width = count * hidden
        self.lstm = WordLstm(lstm_size)
        self.lstm.build((None, None, self.width))
        width = dataclasses.replace(
            config, hidden_size=2 * lstm_size, num_attention_heads=1
        )
        self.head = LinearHead(
            width, num_tags, HEAD_DROPOUT_PROB, name="classifier"
        )
        self.head.build()
        self.built = True

    def mappings(self) -> list[VariableMapping]:
        mappings = self.features.mappings()
        if self.mix is not None:
            mappings += [
                VariableMapping(f"{ROOT}layer_weights", self.mix.layer_weights),
                VariableMapping(f"{ROOT}scale", self.mix.scale),
            ]
        mappings += [
            VariableMapping(
                f"{ROOT}{lstm.name}/{part}", getattr(lstm.cell, part)
            )
            for lstm in self.lstm.directions
            for part in ("kernel", "recurrent_kernel", "bias")
        ]
        return mappings + linear_mappings(self.head, ROOT + CLASSIFIER)

    def logits(self, batch: Batch, seed: Tensor | None) -> Tensor:
        """[B, P, C].

        Args:
            batch: vectors [B, P, K, H], as WordFeatures gives them; lengths
                [B, 1], the words of each sentence.
            seed: int32 [2], the key of dropout; None: without dropout, unless
                Keras trains.
        """
        x = batch["vectors"]
        rows, words = ops.shape(x)[:2]
        if self.mix is not None:
            x = self.mix(x)
        x = ops.reshape(x, (rows, words, self.width))
        x = self.lstm(x, batch["lengths"][:, 0])
        return self.head(x, fused_ops.dropout_seed(seed, 0))

    def outputs_by_name(self, batch: Batch) -> dict[str, Tensor]:
        """{"logits": [B, P, C]} without dropout: of vectors and lengths, or of
        rows with positions [B, P] of words. (At 0 there is none.)"""
        if "vectors" not in batch:
            is_word = ops.cast(batch["positions"] > 0, "int32")
            batch = {
                **self.features.outputs_by_name(batch),
                "lengths": ops.sum(is_word, axis=1, keepdims=True),
            }
        return {"logits": self.logits(batch, None)}
