"""A model with whichever heads a checkpoint has, to carry it elsewhere.

Shapes: B batch, S positions, V vocabulary, C classes.
"""

from collections.abc import Mapping, Sequence

import keras
import numpy as np
from keras import ops

from bert_keras.modeling.checkpoint import (
    CLASSIFIER,
    NEXT_SENTENCE,
    SPAN,
    VariableMapping,
    encoder_mappings,
    linear_mappings,
    masked_lm_mappings,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.modeling.heads import LinearHead, MaskedLmHead
from bert_keras.modeling.tensors import Tensor

SAMPLE_ROWS, SAMPLE_LENGTH = 4, 48


class AnyModel:
    """An encoder and the heads that are told from a checkpoint's names."""

    def __init__(self, config: BertConfig, shapes: Mapping[str, Sequence[int]]):
        """`shapes`: of the checkpoint's variables, by Google's names.

        What the checkpoint lacks is the same in each model made so: one seed.
        """
        keras.utils.set_random_seed(0)
        self.config = config
        self.encoder = Encoder(config)
        self.encoder.build()
        self.has_pooler = "bert/pooler/dense/kernel" in shapes
        self.masked_lm: MaskedLmHead | None = None
        if "cls/predictions/output_bias" in shapes:
            self.masked_lm = MaskedLmHead(config)
            self.masked_lm.build()
        self.heads: dict[str, LinearHead] = {}
        for root in (NEXT_SENTENCE, CLASSIFIER, SPAN):
            if f"{root}output_weights" in shapes:
                num_classes = shapes[f"{root}output_weights"][0]
                self.heads[root] = LinearHead(config, num_classes)
                self.heads[root].build()

    def mappings(self) -> list[VariableMapping]:
        mappings = encoder_mappings(self.encoder)
        if self.masked_lm is not None:
            mappings += masked_lm_mappings(self.masked_lm)
        for root, head in self.heads.items():
            mappings += linear_mappings(head, root)
        return mappings

    def outputs(
        self,
        input_ids: Tensor,
        input_mask: Tensor,
        segment_ids: Tensor,
        pools: bool = True,
    ) -> dict[str, np.ndarray]:
        """Three [B, S] -> layers [L, B, S, H], pooled [B, H], and for each head
        by Google's name [B, S, V], [B, C] or, of a span, [B, S, C]. Unless it
        `pools`, there is no pooled and every head reads all positions."""
        encoded = self.encoder(input_ids, input_mask, segment_ids)
        outputs = {"layers": ops.stack([encoded.embeddings, *encoded.layers])}
        if pools:
            outputs["pooled"] = encoded.pooled
        if self.masked_lm is not None:
            outputs["cls/predictions"] = self.masked_lm(
                encoded.sequence,
                self.encoder.embeddings.word_embeddings.value,
            )
        for root, head in self.heads.items():
            reads_all = root == SPAN or not pools
            outputs[root] = head(
                encoded.sequence if reads_all else encoded.pooled
            )
        return {name: ops.convert_to_numpy(x) for name, x in outputs.items()}


def sample(config: BertConfig) -> dict[str, np.ndarray]:
    """A batch of random ids, as `AnyModel.outputs` takes it."""
    rng = np.random.default_rng(0)
    shape = SAMPLE_ROWS, min(SAMPLE_LENGTH, config.max_position_embeddings)
    lengths = rng.integers(1, shape[1] + 1, (SAMPLE_ROWS, 1))
    num_segments = max(config.type_vocab_size, 1)
    return {
        "input_ids": rng.integers(0, config.vocab_size, shape, np.int32),
        "input_mask": (np.arange(shape[1]) < lengths).astype(np.int32),
        "segment_ids": rng.integers(0, num_segments, shape, np.int32),
    }


def largest_difference(model: AnyModel, other: AnyModel) -> float:
    """Between two models' outputs on `sample`; they have the same heads. With
    a pooler where both have weights for it."""
    batch = sample(model.config)
    pools = model.has_pooler and other.has_pooler
    one, two = (m.outputs(**batch, pools=pools) for m in (model, other))
    assert one.keys() == two.keys()
    return float(max(np.abs(one[name] - two[name]).max() for name in one))
