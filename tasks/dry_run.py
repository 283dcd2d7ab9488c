"""What `dry_run` does where training would begin: look, print and end.

Everything before has been done as for a real run: flags, config, vocabulary
and data are read and checked. Nothing is written.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from bert_keras.modeling.cost import Rows, step_flop, training_memory
from bert_keras.tasks.budget import fix_num_train_steps
from bert_keras.tasks.distillation.teacher import Distilled
from bert_keras.tasks.run_context import RunContext
from bert_keras.tasks.run_settings import settings_of
from bert_keras.tasks.trainer import DataSize, Task, Trainer, TrainingPlan
from bert_keras.training.checkpoints import saved_states

MIB = 1 << 20


def report(task: Task, context: RunContext, seed: int) -> None:
    """Builds the model, loads what the run would begin with or, without
    `do_train`, use, and prints what it would take.

    Raises:
        InputError: weights, state or settings do not fit the run.
        tf.errors.OpError: the first records are damaged.
    """
    if context.run.do_train:
        size = task.data_size()
        trainer = Trainer(task, context, seed)
        plan = fix_num_train_steps(trainer, task.plan(trainer))
        settings = settings_of(context, plan)
        done = trainer.begin_or_resume(plan, settings, may_write=False)
        if saved_states(trainer.folder):
            trainer.restore_state()
            done = min(done, trainer.step)  # the newest may be damaged
        entries = _training(trainer, plan, size, done)
    else:
        trainer = Trainer(task, context, seed)
        trainer.restore()
        entries = {}
    total, trained = _num_parameters(trainer)
    entries = {
        "parameters": f"{total:,}, of which {trained:,} can be trained",
        **entries,
    }
    print("dry run: all was checked up to the first step; nothing is written")
    width = max(map(len, entries))
    for name, text in entries.items():
        print(f"  {name:{width}}  {text}")


def _num_parameters(trainer: Trainer) -> tuple[int, int]:
    """In all, and of those with a gradient."""
    model = trainer.model
    return (
        sum(math.prod(v.shape) for v in model.weights),
        sum(math.prod(v.shape) for v in model.trainable_variables),
    )


def _training(
    trainer: Trainer, plan: TrainingPlan, size: DataSize, done: int
) -> dict[str, str]:
    """Data, steps, of which some may be done, memory and operations."""
    steps = plan.optimizer.num_train_steps
    batch = plan.source.batch(max(done, plan.loop.batch_ramp_steps or 0))
    # Rows that are packed step by step are counted as if they were padded.
    each_row = "first_positions" if "first_positions" in batch else "input_ids"
    rows = Rows(
        len(batch[each_row]) * trainer.devices.host.count,
        size.max_seq_length,
        _width(batch, "masked_lm_positions", 0),
        _width(batch, "next_sentence_positions", 1),
    )
    run, config = trainer.run, trainer.config
    num_micro_batches = plan.loop.num_accumulation_steps
    num_replicas = trainer.devices.strategy.num_replicas_in_sync
    own = dataclasses.replace(
        rows, number=rows.number // (num_replicas * num_micro_batches)
    )
    memory = training_memory(
        config,
        own,
        *_num_parameters(trainer),
        run.num_frozen_layers,
        run.precision == "mixed_bfloat16",
        num_micro_batches > 1,
        run.recompute,
    )
    whole = plan.loop.num_batches(steps)
    tokens = {}
    if trainer.task.settings is None:  # it is pre-trained
        number = round(whole * plan.source.num_tokens(batch))
        tokens["tokens"] = (
            f"{number:,} in all, padding included; "
            f"{number / _num_parameters(trainer)[0]:,.2f} for each parameter"
        )
    flop = step_flop(config, rows, run.num_frozen_layers, run.recompute)
    apart = ", without the teacher" * isinstance(trainer.model, Distilled)
    return {
        "data": size.description,
        "steps": f"{steps:,} of {rows.number:,} examples, "
        f"{whole * rows.number / size.num_rows:.2f} epochs; "
        f"{min(done, steps):,} are done",
        **tokens,
        "memory": f"about {sum(memory.values()) / MIB:,.1f} MiB a device"
        f"{apart}: "
        + ", ".join(f"{name} {x / MIB:,.1f}" for name, x in memory.items()),
        "operations": f"about {flop / 1e9:,.3f} GFLOP a step, "
        f"{flop * whole / 1e15:,.3f} PFLOP in all{apart}",
    }


def _width(batch: Mapping[str, Any], name: str, otherwise: int) -> int:
    """Columns of a feature, where there is such a feature."""
    return int(batch[name].shape[1]) if name in batch else otherwise
