"""The training loop: how to fit any model, written out by hand.

Keras's fit clips per replica, and neither compiles nor accumulates under
MirroredStrategy. Here one step is a function over the global batch: gradients
are summed over micro-batches and replicas, then clipped once, then applied,
so that any number of either gives the same weights.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import keras
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.training.checkpoints import TrainingState
from bert_keras.training.config import LoopConfig
from bert_keras.training.distribution import (
    Host,
    is_one_cpu,
    of_any_shape,
    split_between_replicas,
    sum_over_hosts,
    this_host,
)
from bert_keras.training.early_stopping import EarlyStopping, evaluation_names
from bert_keras.training.monitor import (
    NonFiniteStepHandler,
    Progress,
    StopRequest,
    Watch,
)
from bert_keras.training.optimization import AdamW, learning_rate

Batch = dict[str, tf.Tensor]
Sums = dict[str, tuple[tf.Tensor, tf.Tensor]]
# Told each step's number, from 1, and its figures; what it returns is not used.
Callback = Callable[[int, dict[str, float]], object]


class Objective(Protocol):
    """What is fitted. All that it returns adds up over rows."""

    @property
    def weights(self) -> list[keras.Variable]: ...

    @property
    def trainable_variables(self) -> list[keras.Variable]: ...

    def totals(self, batch: Batch) -> dict[str, tf.Tensor]:
        """What the losses are divided by, each a sum over rows."""

    def loss_fn(
        self, batch: Batch, totals: dict[str, tf.Tensor], seed: tf.Tensor | None
    ) -> tuple[tf.Tensor, Sums]:
        """The loss of these rows, divided by the totals of the global batch;
        and for each metric a sum over rows and the sum of its weights."""


class Source(Protocol):
    """Where batches come from."""

    @property
    def tracked(self) -> Mapping[str, Any]:
        """What has to be saved for the batches to go on, by name. Every host
        reads what the chief wrote."""

    def batch(self, step: int) -> Mapping[str, Any]:
        """This host's rows of the batch that follows `step` finished ones."""

    def examples(
        self, step: int, batch: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """What `batch(step)` gave, one example a row, to show to people."""

    def num_tokens(self, batch: Mapping[str, Any]) -> int:
        """Positions of the global batch of which this is a host's share."""


def train(
    run_steps: "StepFunction",
    source: Source,
    output_dir: str,
    early_stopping: EarlyStopping | None = None,
    callback: Callback | None = None,
    watch: Watch | None = None,
) -> int:
    """Trains all of the optimiser's steps, from the state in output_dir if any.

    Args:
        run_steps: of the model and optimiser to train.
        callback: called after each step, when what there is to save of it is
            saved, on every host.
        watch: told each step on the chief; what it says is printed.

    Returns:
        The number of steps that the model has been trained for.

    Raises:
        InputError: a loss or gradient is not finite, or hosts disagree.
        SystemExit: a signal of StopRequest's came, and the state is saved.
    """
    optimizer, config = run_steps.optimizer, run_steps.config
    strategy, host = run_steps.strategy, this_host(run_steps.strategy)
    tracked = {
        "weights": [v.value for v in run_steps.objective.weights],
        "first_moments": optimizer.first_moments,
        "second_moments": optimizer.second_moments,
        **source.tracked,
    }
    keep = config.keep_checkpoint_max
    num_train_steps = optimizer.config.num_train_steps
    stable = optimizer.config.num_stable_steps
    state = TrainingState(output_dir, tracked, keep, host.is_chief, stable)
    step = state.restore()
    if early_stopping is not None and host.is_chief:
        early_stopping.resume(step)
    check_hosts_agree(strategy, host, step)
    # The chief came first: it cuts the log off behind this step. Now all read.
    stopped = early_stopping is not None and early_stopping.resume(step)
    stopped = _is_any(stopped, strategy, host)
    if stopped or step >= num_train_steps:
        print(f"{output_dir} has all of its {step} training steps already")
        return step
    if step:
        print(f"{output_dir}: resuming from the checkpoint after step {step}")
    else:
        state.save(step)  # a run killed before its next state starts here again
    log_dir = output_dir if host.is_chief else None
    progress = Progress(log_dir, step, num_train_steps, watch)
    nonfinite_steps = NonFiniteStepHandler(
        output_dir, host, step, config.skip_nonfinite_steps
    )
    periods = [config.save_checkpoints_steps]
    if early_stopping is not None:
        periods.append(early_stopping.every_steps)
    with StopRequest() as request, contextlib.closing(progress):
        while step < num_train_steps and not stopped:
            # Up to the next save, evaluation or end; of each period that is the
            # next multiple.
            stop = min(
                num_train_steps if stable is None or stable <= step else stable,
                step + config.steps_per_call,
                *(step - step % period + period for period in periods),
            )
            batches = [source.batch(i) for i in range(step, stop)]
            figures = run_steps(
                split_between_replicas(strategy, host, stack(batches)), step
            )
            numbers = range(step + 1, stop + 1)
            nonfinite_steps.check(numbers, figures, batches, source.examples)
            tokens = sum(source.num_tokens(batch) for batch in batches)
            progress.write(list(zip(numbers, figures, strict=True)), tokens)
            step = stop
            is_last = step == num_train_steps
            seen: dict[str, float] = {}
            if early_stopping is not None and (
                is_last or not step % early_stopping.every_steps
            ):
                with progress.paused():
                    found = early_stopping.evaluate()
                    samples = early_stopping.samples()
                    progress.write_evaluation(step, found, samples)
                    stops = early_stopping.check(step, found)
                    stopped = _is_any(stops, strategy, host)
                seen = evaluation_names(found)
            is_due = not step % config.save_checkpoints_steps
            is_asked = _is_any(request.number is not None, strategy, host)
            if stopped or is_last or is_due or is_asked or step == stable:
                progress.flush()
                state.save(step)
            if callback is not None:
                with progress.paused():
                    for number, values in zip(numbers, figures, strict=True):
                        own = seen if number == step else {}
                        callback(number, {**values, **own})
            if is_asked:
                # No host leaves while the chief saves. One that has left since
                # was there till then.
                with contextlib.suppress(tf.errors.OpError):
                    check_hosts_agree(strategy, host, step)
                progress.close()
                request.exit_as_requested(step)
    return step


def _is_any(stops: bool, strategy: tf.distribute.Strategy, host: Host) -> bool:
    """Whether any host is to stop: then all have to, after the same step."""
    return sum_over_hosts(strategy, host, float(stops)) > 0


def check_hosts_agree(
    strategy: tf.distribute.Strategy, host: Host, step: int
) -> None:
    """Waits for all hosts; stops those that resume from different steps."""
    mean = sum_over_hosts(strategy, host, step) / host.count
    if _is_any(mean != step, strategy, host):
        raise InputError(
            f"this host resumes from step {step} and not all others do; "
            "`output_dir` must be one folder that all hosts see"
        )


def stack(batches: Sequence[Mapping[str, Any]]) -> Batch:
    """One dictionary of them, each tensor [len(batches), rows, ...]."""
    return {
        name: tf.stack([batch[name] for batch in batches])
        for name in batches[0]
    }


class StepFunction:
    """Runs training steps. One trace is made for each number of steps; also one
    for each shape of batches, except on a single CPU without XLA.

    Args:
        objective: built in the strategy's scope, like `optimizer`.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: AdamW,
        strategy: tf.distribute.Strategy,
        config: LoopConfig,
    ):
        self.objective = objective
        self.optimizer = optimizer
        self.strategy = strategy
        self.config = config
        self.names: tuple[str, ...] = ()  # of the figures, known once traced
        self.graphs: dict[int, Any] = {}  # by number of steps, for any shapes
        self.takes_any_shape = is_one_cpu(strategy) and not config.use_xla
        self.micro_step = tf.function(
            self._micro_step, jit_compile=config.use_xla, autograph=False
        )

    def __call__(self, batches: Any, first_step: int) -> list[dict[str, float]]:
        """Runs one step for each batch; returns the figures of each.

        Args:
            batches: by replica, each tensor [steps, rows, ...].
            first_step: number of updates before these.
        """
        step, run = tf.constant(first_step), self._steps
        if self.takes_any_shape:
            num_steps = next(iter(batches.values())).shape[0]
            if num_steps not in self.graphs:
                self.graphs[num_steps] = run.get_concrete_function(
                    of_any_shape(batches), step
                )
            run = self.graphs[num_steps]
        return [
            dict(zip(self.names, row, strict=True))
            for row in run(batches, step).numpy().tolist()
        ]

    @tf.function(autograph=False)
    def _steps(self, batches: Any, first_step: tf.Tensor) -> tf.Tensor:
        local = self.strategy.experimental_local_results(batches)[0]
        num_steps = tf.nest.flatten(local)[0].shape[0]

        def run_one(i: tf.Tensor, rows: tf.TensorArray) -> Any:
            row = self.strategy.run(
                self._replica_step, args=(batches, i, first_step)
            )
            row = self.strategy.experimental_local_results(row)[0]
            return i + 1, rows.write(i, row)

        rows = tf.TensorArray(tf.float32, size=num_steps)
        return tf.while_loop(
            lambda i, _: i < num_steps, run_one, (tf.constant(0), rows)
        )[1].stack()

    def _replica_step(
        self, batches: Batch, i: tf.Tensor, first_step: tf.Tensor
    ) -> tf.Tensor:
        """One replica's part in one step; returns the step's figures."""
        replica = tf.distribute.get_replica_context()
        step = first_step + i
        batch = {name: value[i] for name, value in batches.items()}
        number = tf.convert_to_tensor(replica.replica_id_in_sync_group)
        key = _fold(_fold(tf.constant([self.config.seed, 0]), step), number)
        totals = _sum_over_replicas(replica, self.objective.totals(batch))
        parts = self._accumulate(batch, totals, key, step)
        if replica.num_replicas_in_sync > 1:
            parts = _widened(parts)
        gradients, loss, sums = _sum_over_replicas(replica, parts)
        # Sums over replicas, so that all of them see the same NaN.
        norm = self.optimizer.apply(gradients, step, loss)
        figures = {
            "loss": loss,
            **{
                name: tf.math.divide_no_nan(total, weight)
                for name, (total, weight) in sums.items()
            },
            "learning_rate": learning_rate(self.optimizer.config, step),
            "gradient_norm": norm,
        }
        self.names = tuple(figures)
        return tf.stack(list(figures.values()))

    def _accumulate(
        self,
        batch: Batch,
        totals: dict[str, tf.Tensor],
        key: tf.Tensor,
        step: tf.Tensor,
    ) -> Any:
        """Gradients, loss and metric sums over this replica's micro-batches."""
        count: Any = self.config.num_accumulation_steps
        if ramp := self.config.batch_ramp_steps:  # as num_micro_batches
            grown = 1 + tf.minimum(step, ramp) * count // ramp
            count = tf.minimum(count, grown)
        micro_batches = {
            name: tf.reshape(
                value, tf.concat([[count, -1], tf.shape(value)[1:]], axis=0)
            )
            for name, value in batch.items()
        }

        def sums_of(i: tf.Tensor) -> Any:
            own = {name: value[i] for name, value in micro_batches.items()}
            return self.micro_step(own, totals, _fold(key, i))

        def add(i: tf.Tensor, so_far: Any) -> Any:
            # In turn: micro-batches that wait for nothing would run at once,
            # and hold the activations of both.
            with tf.control_dependencies(tf.nest.flatten(so_far)):
                sums = _widened(sums_of(i))
            return i + 1, tf.nest.map_structure(tf.add, so_far, sums)

        first = sums_of(tf.constant(0))
        if self.config.num_accumulation_steps == 1:
            return first
        return tf.while_loop(
            lambda i, _: i < count, add, (tf.constant(1), _widened(first))
        )[1]

    def _micro_step(
        self, batch: Batch, totals: dict[str, tf.Tensor], key: tf.Tensor
    ) -> tuple[list[tf.Tensor], tf.Tensor, Sums]:
        variables = [v.value for v in self.objective.trainable_variables]
        with tf.GradientTape() as tape:
            loss, sums = self.objective.loss_fn(batch, totals, key)
        gradients = tape.gradient(loss, variables)
        dense = [_as_computed(tf.convert_to_tensor(g)) for g in gradients]
        # Products of unknown shapes forget the shapes of their weights.
        for gradient, variable in zip(dense, variables, strict=True):
            gradient.set_shape(variable.shape)
        return dense, loss, sums


@dataclasses.dataclass(eq=False)
class Evaluation:
    """Means of the metrics over data, traced once for a shape of batches."""

    objective: Objective
    strategy: tf.distribute.Strategy
    host: Host

    def __call__(self, dataset: Iterable[Batch]) -> dict[str, float]:
        """Evaluates the model as it is now, on this host's rows.

        Returns:
            Each metric's sum divided by its weight over all batches, and
            "loss", the mean over batches of each batch's loss (as upstream has
            it).
        """
        results: list[Any] = []
        for batch in dataset:
            shares = split_between_replicas(
                self.strategy, self.host, stack([batch])
            )
            results.append(
                tf.nest.map_structure(
                    lambda x: float(x.numpy()), self._batch_sums(shares)
                )
            )
        loss, sums = tf.nest.map_structure(lambda *x: sum(x), *results)
        means = {
            name: total / weight if weight else 0.0
            for name, (total, weight) in sums.items()
        }
        return {"loss": loss / len(results), **means}

    @tf.function(autograph=False)
    def _batch_sums(self, batches: Any) -> tuple[tf.Tensor, Sums]:
        def replica_sums(batches: Batch) -> tuple[tf.Tensor, Sums]:
            replica = tf.distribute.get_replica_context()
            batch = {name: value[0] for name, value in batches.items()}
            totals = _sum_over_replicas(replica, self.objective.totals(batch))
            sums = self.objective.loss_fn(batch, totals, None)
            return _sum_over_replicas(replica, sums)

        return tf.nest.map_structure(
            lambda x: self.strategy.experimental_local_results(x)[0],
            self.strategy.run(replica_sums, args=(batches,)),
        )


def _sum_over_replicas(replica: Any, values: Any) -> Any:
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, values)


def _as_computed(gradient: tf.Tensor) -> tf.Tensor:
    """The bfloat16 gradient of a weight that was cast for its product, before
    it is cast back: the same numbers in half the memory."""
    if gradient.op.type == "Cast":
        (narrow,) = gradient.op.inputs
        return narrow if narrow.dtype == tf.bfloat16 else gradient
    return gradient


def _widened(sums: Any) -> Any:
    """To be added to others, which bfloat16 is too narrow for."""
    return tf.nest.map_structure(lambda x: tf.cast(x, tf.float32), sums)


def _fold(key: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """A new key. Folding alone would leave `number` in its second half, where
    the dropouts of a model count themselves."""
    folded = tf.random.experimental.stateless_fold_in(key, number)
    return tf.random.experimental.stateless_split(folded, 1)[0]
