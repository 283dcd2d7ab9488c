"""What `dry_run` does where training would begin: look, print and end.

Everything before has been done as for a real run: flags, config, vocabulary
and data are read and checked, and the model is built. Nothing is written.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from bert_keras.modeling.cost import Rows, step_flop, training_memory
from bert_keras.tasks.trainer import Trainer, TrainingPlan
from bert_keras.training.checkpoints import saved_states

MIB = 1 << 20


class Data(NamedTuple):
    """What is trained on."""

    number: int  # of rows in an epoch
    description: str


def report_training(
    fitted: Trainer, training: TrainingPlan, data: Data, max_seq_length: int
) -> None:
    """Loads what the run would begin with and prints what it would take.

    Args:
        max_seq_length: of a row, padded.

    Raises:
        InputError: weights, state or settings do not fit the run.
        tf.errors.OpError: the first records are damaged.
    """
    fitted.load_or_resume(training, may_write=False)
    done = fitted.restore_state() if saved_states(fitted.folder) else 0
    batch = training.source.batch(done)
    # Rows that are packed step by step are counted as if they were padded.
    each_row = "first_positions" if "first_positions" in batch else "input_ids"
    rows = Rows(
        len(batch[each_row]) * fitted.place.host.count,
        max_seq_length,
        _width(batch, "masked_lm_positions", 0),
        _width(batch, "next_sentence_positions", 1),
    )
    steps = training.optimizer.num_train_steps
    print_table(
        {
            **_parameters(fitted),
            "data": data.description,
            "steps": f"{steps:,} of {rows.number:,} rows, "
            f"{steps * rows.number / data.number:.2f} epochs; "
            f"{min(done, steps):,} are done",
            **_cost(fitted, training, rows),
        }
    )


def report_use(fitted: Trainer) -> None:
    """The same where a model is not trained, but used."""
    fitted.restore()
    print_table(_parameters(fitted))


def print_table(entries: dict[str, str]) -> None:
    print("dry run: all was checked up to the first step; nothing is written")
    width = max(map(len, entries))
    for name, text in entries.items():
        print(f"  {name:{width}}  {text}")


def _parameters(fitted: Trainer) -> dict[str, str]:
    total, trained = _counts(fitted)
    return {"parameters": f"{total:,}, of which {trained:,} can be trained"}


def _counts(fitted: Trainer) -> tuple[int, int]:
    """Parameters, and those with a gradient."""
    model = fitted.model
    return (
        sum(math.prod(v.shape) for v in model.variables),
        sum(math.prod(v.shape) for v in model.trainable_variables),
    )


def _cost(
    fitted: Trainer, training: TrainingPlan, rows: Rows
) -> dict[str, str]:
    config, run = fitted.config, fitted.run
    pieces = training.loop.num_accumulation_steps
    num_replicas = fitted.place.strategy.num_replicas_in_sync
    number = rows.number // (num_replicas * pieces)
    own = dataclasses.replace(rows, number=number)
    memory = training_memory(
        config,
        own,
        *_counts(fitted),
        run.num_frozen_layers,
        run.precision == "mixed_bfloat16",
        pieces > 1,
        run.recompute,
    )
    flop = step_flop(config, rows, run.num_frozen_layers, run.recompute)
    return {
        "memory": f"about {memory.total / MIB:,.1f} MiB a device: "
        f"weights {memory.weights / MIB:,.1f}, "
        f"gradients {memory.gradients / MIB:,.1f}, "
        f"Adam's moments {memory.moments / MIB:,.1f}, "
        f"activations of {own.number} x {own.length} "
        f"{memory.activations / MIB:,.1f}",
        "operations": f"about {flop / 1e9:,.3f} GFLOP a step, "
        f"{flop * training.optimizer.num_train_steps / 1e15:,.3f} PFLOP in all",
    }


def _width(batch: Mapping[str, Any], name: str, otherwise: int) -> int:
    """Columns of a feature, where there is such a feature."""
    return int(batch[name].shape[1]) if name in batch else otherwise
