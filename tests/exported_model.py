"""A small classifier in a folder, and what it says, to compare exports with."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bert_keras.data.input_features import InputFeatures, pad
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import load_checkpoint, save_model_folder
from bert_keras.tasks.classification.data import (
    InputExample,
    encode_example,
)
from bert_keras.tasks.classification.model import SingleLabel, TextClassifier
from bert_keras.tasks.task_config import TaskConfig
from tests.conftest import GOLDEN, ONE_LAYER

VOCAB = str(GOLDEN / "tiny_vocab.txt")
LABELS = ("no", "yes", "perhaps")
SETTINGS = TaskConfig("single_label", 16, True, labels=LABELS)


def make_folder(path: Path) -> TextClassifier:
    """Writes the original's weights, a head from a seed; returns the model."""
    model = TextClassifier(ONE_LAYER, SingleLabel(LABELS))
    missing = load_checkpoint(
        model.mappings(), str(GOLDEN / "tiny_bert")
    ).missing
    rng = np.random.default_rng(3)
    for mapping in model.mappings():
        if mapping.name in missing:
            value = rng.normal(0, 0.3, mapping.shape)
            mapping.write(value.astype(np.float32))
    save_model_folder(str(path), ONE_LAYER, model.mappings(), VOCAB)
    (path / "task.json").write_text(SETTINGS.to_json())
    return model


def read(
    texts: Sequence[str], pairs: Sequence[str | None]
) -> list[InputFeatures]:
    tokenizer, rows = FullTokenizer(VOCAB), []
    for text, pair in zip(texts, pairs, strict=True):
        example = InputExample("", text, pair, None)
        rows += encode_example(example, tokenizer, SETTINGS.max_seq_length)[0]
    return rows


def probabilities(
    model: TextClassifier, rows: list[InputFeatures]
) -> np.ndarray:
    """Each row's by itself, unpadded."""
    with fused_ops.uncompiled():  # each length would be compiled anew
        logits = [
            np.array(
                model.outputs_by_name(pad([row], len(row.input_ids), 1))[
                    "logits"
                ]
            )
            for row in rows
        ]
    return model.target.scores(np.concatenate(logits))
