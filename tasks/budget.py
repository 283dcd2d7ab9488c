"""How many steps a budget pays for: hours, tokens, or the decay of a run that
another one began.

The number is fixed once and stored with the state, so that a run that resumes
ends at the same step. Geiping and Goldstein 2023 ("Cramming") train by the
hour.
"""

import dataclasses
import time
from typing import TYPE_CHECKING

from bert_keras.errors import InputError
from bert_keras.training.checkpoints import (
    branch,
    read_settings,
    saved_states,
    step_of,
)
from bert_keras.training.config import OptimizerConfig
from bert_keras.training.distribution import (
    split_between_replicas,
    sum_over_hosts,
)
from bert_keras.training.loop import StepFunction, stack

if TYPE_CHECKING:
    from bert_keras.tasks.trainer import Trainer, TrainingPlan

FIRST_CALLS = 3  # not measured: they compile, and fill caches
MEASURED_SHARE = 0.02  # of the budget
MEASURED_SECONDS = 5.0, 60.0  # at least, at most


def fix_num_train_steps(
    trainer: "Trainer", plan: "TrainingPlan", may_write: bool = True
) -> "TrainingPlan":
    """The plan with the number of steps that its budget pays for.

    Args:
        may_write: whether `decay_from`'s state may be copied to output_dir.

    Raises:
        InputError: not even one step is paid for, the run was begun with
            another budget, or `decay_from` has no state from before its decay.
    """
    budget, optimizer = plan.budget, plan.optimizer
    if not budget.given:
        return plan
    began = read_settings(trainer.folder)
    sum_over_hosts(*trainer.devices, 0.0)  # until all have read that
    (name,) = budget.given
    value = getattr(budget, name)
    if "num_train_steps" in began:
        steps, warmup = began["num_train_steps"], began["num_warmup_steps"]
        if name == "decay_from":
            decay = optimizer.num_decay_steps
            if (began.get(name), began.get("num_decay_steps")) != (
                value,
                decay,
            ):
                raise InputError(
                    f"{trainer.folder} is not a branch of `{name}={value}` "
                    f"with `num_decay_steps={decay}`; give another `output_dir`"
                )
        elif began.get(name) != value:
            raise InputError(
                f"{trainer.folder} was not begun with `{name}={value}`, and "
                f"has {steps:,} steps; to train for longer, give "
                f"`num_train_steps` and `num_warmup_steps={warmup}` instead of "
                f"`{name}`"
            )
    elif budget.decay_from is not None:
        steps, warmup = _branch(trainer, plan, budget.decay_from, may_write)
    else:
        if budget.train_hours is not None:
            steps = _steps_in(trainer, plan, 3600.0 * budget.train_hours)
        else:
            source = trainer.task.plan(trainer).source  # of its own
            steps = value // source.num_tokens(source.batch(0))
        if steps < 1:
            raise InputError(
                f"`{name}={value}` is not enough for one step; "
                "give more, or a smaller `train_batch_size`"
            )
        warmup = optimizer.num_warmup_steps
        if not budget.keeps_warmup:
            warmup = steps // 10
    print(f"the budget pays for {steps:,} steps, {warmup:,} of them warm-up")
    optimizer = dataclasses.replace(
        optimizer, num_train_steps=steps, num_warmup_steps=warmup
    )
    return plan._replace(optimizer=optimizer)


def _steps_in(trainer: "Trainer", plan: "TrainingPlan", seconds: float) -> int:
    """Measures steps at a learning rate of 0, which changes no weights, and an
    evaluation if there will be any. Compiling counts twice: here, and where
    training begins."""
    start = time.monotonic()
    strategy, host = trainer.devices
    at_rest = OptimizerConfig(
        learning_rate=0.0,
        num_warmup_steps=0,
        optimizer_type=plan.optimizer.optimizer_type,
    )
    run_steps = StepFunction(
        trainer.model, trainer.make_optimizer(at_rest), strategy, plan.loop
    )
    # of its own: training reads the same batches from the first one on
    source = trainer.task.plan(trainer).source
    per_call = plan.loop.steps_per_call

    def run(call: int) -> None:
        numbers = range(call * per_call, (call + 1) * per_call)
        batches = stack([source.batch(i) for i in numbers])
        run_steps(split_between_replicas(strategy, host, batches), numbers[0])

    for call in range(FIRST_CALLS):
        run(call)
    compiled = time.monotonic()
    least, most = MEASURED_SECONDS
    wanted = min(max(MEASURED_SHARE * seconds, least), most)
    calls, is_enough = 0, False
    while not is_enough:
        run(FIRST_CALLS + calls)
        calls += 1
        # the chief decides, so that all hosts run the same steps
        is_over = host.is_chief and time.monotonic() - compiled > wanted
        is_enough = sum_over_hosts(strategy, host, float(is_over)) > 0
    measured = time.monotonic()
    per_step = (measured - compiled) / (calls * per_call)
    per_evaluation = 0.0
    if plan.selection.eval_steps:
        for _ in range(2):  # the first one compiles
            begin = time.monotonic()
            trainer.task.evaluate(trainer)
            per_evaluation = time.monotonic() - begin
        per_step += per_evaluation / plan.selection.eval_steps
    spent = time.monotonic() - start + (compiled - start)
    steps = int((seconds - spent - per_evaluation) / per_step)
    print(
        f"measured: {1e3 * per_step:,.1f} ms a step, with compiling "
        f"{spent:,.0f} s before the first one"
    )
    return round(sum_over_hosts(strategy, host, steps if host.is_chief else 0))


def _branch(
    trainer: "Trainer", plan: "TrainingPlan", source: str, may_write: bool
) -> tuple[int, int]:
    """Makes output_dir a run that resumes from the last state of `source`
    before the decay, and decays at once.

    Returns:
        The number of its steps, those of `source` included, and of its warm-up.
    """
    began = read_settings(source)
    decay = plan.optimizer.num_decay_steps
    if plan.optimizer.learning_rate_schedule != "wsd" or decay is None:
        raise InputError(
            "`decay_from` needs `learning_rate_schedule=wsd` and "
            "`num_decay_steps`, in which the learning rate falls"
        )
    if began.get("learning_rate_schedule") != "wsd":
        raise InputError(
            f"`decay_from={source}` is not a run with "
            "`learning_rate_schedule=wsd` that has a state in training_state"
        )
    names = "num_train_steps", "learning_rate_schedule", "num_decay_steps"
    stable = OptimizerConfig(**{n: began[n] for n in names}).num_stable_steps
    found = [
        step
        for step in map(step_of, saved_states(source))
        if 0 < step <= (stable or 0)
    ]
    if not found:
        raise InputError(
            f"`decay_from={source}` has no state from before its learning rate "
            "began to fall; train it for longer"
        )
    step, warmup = found[0], began["num_warmup_steps"]
    if may_write and trainer.devices.host.is_chief:
        branch(
            source,
            trainer.folder,
            step,
            {
                **began,
                "num_train_steps": step + decay,
                "num_decay_steps": decay,
                "decay_from": source,
                "train_hours": None,
                "train_tokens": None,
            },
        )
    sum_over_hosts(*trainer.devices, 0.0)  # the others wait
    print(f"{trainer.folder}: a branch of {source} after step {step}")
    return step + decay, warmup
