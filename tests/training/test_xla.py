"""The whole step of each command, compiled by XLA as a Cloud TPU compiles it.

No TPU is there to try; what XLA refuses on a CPU, or leaves with a shape that
is known only later, it would refuse there. Forward pass, loss, gradients,
their sum, clipping and update are one compiled function, over several steps.
There is no dropout: a TPU decides by other numbers than a CPU.
"""

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.dynamic_masking import BatchMasker
from bert_keras.data.masking import MaskConfig, read_masking_vocabulary
from bert_keras.data.packing import PackingConfig, fill_rows, plan_rows
from bert_keras.data.record_schema import packed_features
from bert_keras.data.special_tokens import BERT
from bert_keras.modeling import fused_ops
from bert_keras.tasks.classification.model import (
    LABELS,
    LabelType,
    MultiLabel,
    Regression,
    SingleLabel,
    TextClassifier,
)
from bert_keras.tasks.pretraining.model import Pretraining
from bert_keras.tasks.squad.model import QuestionAnsweringModel
from bert_keras.training.config import LoopConfig, OptimizerConfig
from bert_keras.training.loop import Objective, StepFunction
from bert_keras.training.optimization import AdamW
from tests.conftest import NUM_PREDICTIONS, SEQ_LENGTH, TINY, tiny_batch

Batch = dict[str, np.ndarray]

CONFIG = dataclasses.replace(TINY, num_hidden_layers=1)
ONE = tf.distribute.get_strategy()
NUM_STEPS, NUM_ROWS = 4, 6
DYNAMIC = re.compile(r"\w\[[\d,]*<=\d")  # in XLA's text: f32[<=6,29]


def masked(seed: int) -> Batch:
    return tiny_batch(NUM_ROWS, seed)


def packed(seed: int) -> Batch:
    """Two or three records a row; as many rows in each batch."""
    config = PackingConfig(61, 13, 3)
    records = tiny_batch(4 * NUM_ROWS, seed)
    rows = plan_rows(records, config)[:NUM_ROWS]
    assert {2, 3} <= {len(row) for row in rows}
    return fill_rows(records, rows, packed_features(61, 13, 3))


def drawn(seed: int) -> Batch:
    """Records without masks, of which some are drawn."""
    records = tiny_batch(NUM_ROWS, seed)
    second = records["segment_ids"].sum(1)
    first = records["input_mask"].sum(1) - second
    vocab = {f"[{i}]": i for i in range(TINY.vocab_size)}
    special_tokens = {mark: i for i, mark in enumerate(BERT.tokens)}
    masker = BatchMasker(
        read_masking_vocabulary(vocab | special_tokens, BERT),
        MaskConfig(NUM_PREDICTIONS, do_whole_word_mask=True),
        seed=3,
    )
    batch = masker.mask(
        tf.constant(seed, tf.int64),
        {
            "input_ids": tf.constant(records["input_ids"]),
            "segment_lengths": tf.constant(
                np.stack([first, second], 1).astype(np.int32)
            ),
            "next_sentence_labels": tf.constant(
                records["next_sentence_labels"]
            ),
        },
    )
    return {name: value.numpy() for name, value in batch.items()}


def with_labels(target: LabelType) -> Callable[[int], Batch]:
    def batch(seed: int) -> Batch:
        inputs = inputs_only(seed)
        width = target.feature.length
        labels = np.random.default_rng(seed).integers(0, 2, (NUM_ROWS, width))
        is_whole = target.feature.dtype == "int64"
        kind = np.int32 if is_whole else np.float32
        return {**inputs, LABELS: labels.astype(kind)}

    return batch


def classifier(target: LabelType) -> TextClassifier:
    model = TextClassifier(CONFIG, target)
    model.head.dropout_prob = 0.0  # the head's own, whatever the config says
    return model


def with_spans(seed: int) -> Batch:
    ends = np.random.default_rng(seed).integers(0, SEQ_LENGTH, (2, NUM_ROWS, 1))
    start, end = ends.astype(np.int32)
    inputs = inputs_only(seed)
    return {**inputs, "start_positions": start, "end_positions": end}


def inputs_only(seed: int) -> Batch:
    names = ("input_ids", "input_mask", "segment_ids")
    batch = tiny_batch(NUM_ROWS, seed)
    return {name: batch[name] for name in names}


ONE_LABEL = SingleLabel(("a", "b", "c"))
MANY_LABELS = MultiLabel(("a", "b"))
CASES: dict[str, tuple[Callable[[], Objective], Callable[[int], Batch]]] = {
    "run_pretraining": (lambda: Pretraining(CONFIG), masked),
    "run_pretraining, packed": (lambda: Pretraining(CONFIG), packed),
    "run_pretraining, masks drawn": (lambda: Pretraining(CONFIG), drawn),
    "run_classifier, one label": (
        lambda: classifier(ONE_LABEL),
        with_labels(ONE_LABEL),
    ),
    "run_classifier, many labels": (
        lambda: classifier(MANY_LABELS),
        with_labels(MANY_LABELS),
    ),
    "run_classifier, a number": (
        lambda: classifier(Regression()),
        with_labels(Regression()),
    ),
    "run_squad": (lambda: QuestionAnsweringModel(CONFIG), with_spans),
}


def make_steps(
    model: Objective, count: int, start: list[np.ndarray]
) -> StepFunction:
    for variable, value in zip(model.weights, start, strict=True):
        variable.assign(value)
    optimizer = AdamW(model.trainable_variables, OptimizerConfig(1e-3, 9, 2))
    return StepFunction(
        model, optimizer, ONE, LoopConfig(num_accumulation_steps=count)
    )


def largest_difference(case: str, count: int) -> float:
    """Between the figures of the compiled steps and of the plain ones."""
    make, batch = CASES[case]
    model = make()
    start = [v.numpy() for v in model.weights]
    made = [batch(seed) for seed in range(NUM_STEPS)]
    batches = {k: tf.stack([one[k] for one in made]) for k in made[0]}
    figures = make_steps(model, count, start)(batches, 0)
    steps = make_steps(model, count, start)
    compiled = tf.function(
        lambda rows, first: steps._steps(rows, first),
        jit_compile=True,
        autograph=False,
    )
    with fused_ops.uncompiled():  # as on a TPU, where there is one program
        found = compiled(batches, tf.constant(0)).numpy()
        program = compiled.experimental_get_compiler_ir(
            batches, tf.constant(0)
        )(stage="hlo")
    assert "ENTRY" in program
    assert not DYNAMIC.search(program)
    expected = np.array([list(row.values()) for row in figures])
    assert expected[0, 0] != expected[-1, 0]
    return float(np.abs(found - expected).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "count"),
    [
        ("run_pretraining, packed", 3),
        ("run_classifier, one label", 1),
        ("run_squad", 3),
    ],
)
def test_the_whole_step_compiled_gives_the_plain_figures(
    case: str, count: int
) -> None:
    assert largest_difference(case, count) < 1e-4


def test_drawn_masks_run_the_same_program() -> None:
    def shapes(batch: Batch) -> dict[str, object]:
        return {name: (v.shape, v.dtype) for name, v in batch.items()}

    assert shapes(drawn(2)) == shapes(masked(2))


def test_a_dynamic_shape_is_seen() -> None:
    assert DYNAMIC.search("f32[<=6,29]")
    assert DYNAMIC.search("s32[4,<=6]")
    assert not DYNAMIC.search("f32[6,29]")
