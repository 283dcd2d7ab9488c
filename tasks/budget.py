"""How many steps a budget pays for: hours, tokens, or the decay of a run that
another one began.

The number is fixed once and stored with the state, so that a run that resumes
ends at the same step. Geiping and Goldstein 2023 ("Cramming") train by the
hour.
"""

import dataclasses
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bert_keras.errors import InputError
from bert_keras.tasks.run_settings import without_new_tokenizer
from bert_keras.training.checkpoints import (
    branch,
    check_settings,
    read_settings,
    saved_states,
    step_of,
)
from bert_keras.training.config import Budget, OptimizerConfig
from bert_keras.training.distribution import (
    split_between_replicas,
    sum_over_hosts,
)
from bert_keras.training.loop import stack

if TYPE_CHECKING:
    from bert_keras.tasks.trainer import Trainer, TrainingPlan

FIRST_CALLS = 3  # not measured: they compile, and fill caches
MEASURED_SHARE = 0.02  # of the budget
MEASURED_SECONDS = 5.0, 60.0  # at least, at most
# Settings in which a branch differs from the run that it resumes
STEPS = (
    "num_train_steps", "num_decay_steps", "train_hours", "train_tokens",
)  # fmt: skip


def fix_num_train_steps(
    trainer: "Trainer", plan: "TrainingPlan"
) -> "TrainingPlan":
    """The plan with the number of steps that its budget pays for.

    Raises:
        InputError: not even one step is paid for, the run was begun with
            another budget, or `decay_from` has no state from before its decay.
    """
    budget, optimizer = plan.budget, plan.optimizer
    began = read_settings(trainer.folder)
    if not budget.given:
        if not budget.keeps_warmup and "num_warmup_steps" in began:
            optimizer = dataclasses.replace(
                optimizer, num_warmup_steps=began["num_warmup_steps"]
            )
        _check_decay(optimizer)
        return plan._replace(optimizer=optimizer)
    (name,) = budget.given
    value = getattr(budget, name)
    if "num_train_steps" in began:
        steps, warmup = began["num_train_steps"], began["num_warmup_steps"]
        decay = optimizer.num_decay_steps
        if began.get(name) != value or (
            name == "decay_from" and began["num_decay_steps"] != decay
        ):
            raise InputError(
                f"{trainer.folder} was not begun with `{name}={value}`, and "
                f"has {steps:,} steps; give another `output_dir` or, to train "
                "for longer, `num_train_steps`"
            )
        _check_warmup(trainer.folder, budget, optimizer, warmup)
    elif budget.decay_from is not None:
        step, warmup = branching_point(budget.decay_from, optimizer)
        _check_warmup(budget.decay_from, budget, optimizer, warmup)
        steps = step + (optimizer.num_decay_steps or 0)
    else:
        if budget.train_hours is not None:
            steps = _steps_in(trainer, plan, 3600.0 * budget.train_hours)
        else:
            source = trainer.task.plan(trainer).source  # of its own
            whole = plan.loop.batch_ramp_steps or 0  # a step with a whole batch
            tokens = source.num_tokens(source.batch(whole))
            steps = plan.loop.num_steps(value / tokens)
        if steps < 1:
            raise InputError(
                f"`{name}={value}` is not enough for one step; give more"
                + ", or a smaller `train_batch_size`" * (name == "train_tokens")
            )
        warmup = optimizer.num_warmup_steps
        if not budget.keeps_warmup:
            warmup = steps // 10
    if trainer.devices.host.is_chief:
        print(
            f"the budget pays for {steps:,} steps, {warmup:,} of them warm-up"
        )
    optimizer = dataclasses.replace(
        optimizer, num_train_steps=steps, num_warmup_steps=warmup
    )
    _check_decay(optimizer)
    return plan._replace(optimizer=optimizer)


def _check_warmup(
    folder: str, budget: Budget, optimizer: OptimizerConfig, warmup: int
) -> None:
    """Raises an InputError if another warm-up is asked for than that of the run
    in `folder`."""
    if budget.keeps_warmup and optimizer.num_warmup_steps != warmup:
        raise InputError(
            f"`num_warmup_steps` is {optimizer.num_warmup_steps} but was "
            f"{warmup} when {folder} was begun; leave it out"
        )


def _check_decay(optimizer: OptimizerConfig) -> None:
    if (optimizer.num_stable_steps or 0) < 0:
        raise InputError(
            f"`num_decay_steps` is {optimizer.num_decay_steps:,} but the run "
            f"has {optimizer.num_train_steps:,} steps; lower the first"
        )


def _steps_in(trainer: "Trainer", plan: "TrainingPlan", seconds: float) -> int:
    """Measures steps at a learning rate of 0, which changes no weights, and an
    evaluation if there will be any. What came before counts, too. Compiles
    twice: training will compile once more, which takes as long as the second
    time, when some is known already."""
    start = time.monotonic()
    strategy, host = trainer.devices
    at_rest = OptimizerConfig(
        learning_rate=0.0,
        num_warmup_steps=0,
        optimizer_type=plan.optimizer.optimizer_type,
    )
    per_call = plan.loop.steps_per_call

    def run(call: int) -> None:
        first = (plan.loop.batch_ramp_steps or 0) + call * per_call
        numbers = range(first, first + per_call)
        batches = stack([source.batch(i) for i in numbers])
        run_steps(split_between_replicas(strategy, host, batches), numbers[0])

    for _ in range(2):
        begin = time.monotonic()
        run_steps = trainer.step_function(at_rest, plan.loop)
        # of its own: training reads the same batches from the first one on
        source = trainer.task.plan(trainer).source
        for call in range(FIRST_CALLS):
            run(call)
        compiled = time.monotonic()
    again = compiled - begin
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
    per_evaluation = share = 0.0
    if plan.selection.eval_steps:
        for _ in range(2):  # the first one compiles
            begin = time.monotonic()
            trainer.task.evaluate(trainer)
            trainer.task.samples(trainer)
            per_evaluation = time.monotonic() - begin
        share = per_evaluation / plan.selection.eval_steps
    began = start if plan.budget.started is None else plan.budget.started
    spent = time.monotonic() - began + again
    left = seconds - spent - per_evaluation
    steps = plan.loop.num_steps(left / (per_step + share))
    # A small batch of a ramp takes less, but what is evaluated after it not.
    while per_step * plan.loop.num_batches(steps) + share * steps > left > 0:
        steps -= 1
    if host.is_chief:
        print(
            f"measured: {1e3 * (per_step + share):,.1f} ms a step, with "
            f"compiling {spent:,.0f} s before the first one"
        )
    return round(sum_over_hosts(strategy, host, steps if host.is_chief else 0))


def branching_point(source: str, optimizer: OptimizerConfig) -> tuple[int, int]:
    """The step of the last state of `source` before the decay, and the number
    of its steps of warm-up."""
    began = read_settings(source)
    if (
        optimizer.learning_rate_schedule != "wsd"
        or optimizer.num_decay_steps is None
    ):
        raise InputError(
            "`decay_from` needs `learning_rate_schedule=wsd` and "
            "`num_decay_steps`, in which the learning rate falls"
        )
    if began.get("learning_rate_schedule") != "wsd" or not began.get(
        "num_train_steps"
    ):
        raise InputError(
            f"`decay_from={source}` is not a run with "
            "`learning_rate_schedule=wsd` that has a state in training_state"
        )
    names = "num_train_steps", "learning_rate_schedule", "num_decay_steps"
    stable = OptimizerConfig(**{n: began[n] for n in names}).num_stable_steps
    warmup = began["num_warmup_steps"]
    for step in map(step_of, saved_states(source)):
        if warmup <= step <= (stable or 0) and step:
            return step, warmup
    raise InputError(
        f"`decay_from={source}` has no state from between its warm-up of "
        f"{warmup:,} steps and its decay; train it for longer"
    )


def begin_branch(
    trainer: "Trainer",
    plan: "TrainingPlan",
    settings: Mapping[str, Any],
    may_write: bool,
) -> None:
    """Makes output_dir a run that resumes from `decay_from`, and decays.

    Args:
        settings: the branch's, which are those of `decay_from` but for its
            steps.
        may_write: whether the state may be copied to output_dir.
    """
    source = plan.budget.decay_from
    assert source is not None
    began = read_settings(source)
    others = {*STEPS, "init_checkpoint", "init_checkpoint's contents"}
    same = {k: x for k, x in settings.items() if k not in others}
    check_settings(source, began, without_new_tokenizer(same, began), {})
    if may_write:
        step = plan.optimizer.num_stable_steps
        assert step is not None
        new = {**same, **{name: settings.get(name) for name in STEPS}}
        branch(
            source, trainer.folder, step, {**began, **new, "decay_from": source}
        )
        print(f"{trainer.folder}: a branch of {source} after step {step}")
