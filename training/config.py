"""The settings of a run, apart from what they set, so that reading a command's
flags needs no TensorFlow."""

import dataclasses

from bert_keras.errors import InputError

OPTIMIZERS = ("adamw", "lamb")
SCHEDULES = ("linear", "cosine", "wsd")


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    learning_rate: float = 5e-5  # at the end of the warm-up
    num_train_steps: int = 100000  # at which the rate reaches 0
    num_warmup_steps: int = 10000
    learning_rate_schedule: str = "linear"  # one of SCHEDULES
    num_decay_steps: int | None = None  # wsd's; None: a tenth of all steps
    weight_decay_rate: float = 0.01  # not for LayerNorm and biases
    bias_correction: bool = False  # AdamW's; upstream has none, LAMB always
    adam_beta_1: float = 0.9
    adam_beta_2: float = 0.999  # of the second moment
    adam_epsilon: float = 1e-6  # added outside the root
    max_gradient_norm: float = 1.0  # of all gradients together
    optimizer_type: str = "adamw"  # one of OPTIMIZERS

    def __post_init__(self) -> None:
        if self.num_decay_steps and self.learning_rate_schedule != "wsd":
            raise InputError(
                "`num_decay_steps` is for `learning_rate_schedule=wsd`; leave "
                "it out"
            )

    @property
    def num_stable_steps(self) -> int | None:
        """Steps after which wsd's decay begins; None in other schedules."""
        if self.learning_rate_schedule != "wsd":
            return None
        decay = self.num_decay_steps
        if decay is None:
            decay = max(1, self.num_train_steps // 10)
        return self.num_train_steps - decay


@dataclasses.dataclass(frozen=True)
class Budget:
    """What says how many steps there are, in the place of `num_train_steps`."""

    train_hours: float | None = None
    train_tokens: int | None = None  # positions of batches, padding included
    decay_from: str | None = None  # a wsd run's output_dir
    keeps_warmup: bool = True  # False: a tenth of the steps
    started: float | None = None  # time.monotonic() when `train_hours` began

    def __post_init__(self) -> None:
        if len(self.given) > 1:
            first, second = self.given[:2]
            raise InputError(
                f"`{first}` and `{second}` both say how long to train; give "
                "one of them"
            )

    @property
    def given(self) -> list[str]:
        """The names of those that are set."""
        names = "train_hours", "train_tokens", "decay_from"
        return [name for name in names if getattr(self, name) is not None]


@dataclasses.dataclass(frozen=True)
class LoopConfig:
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 5
    steps_per_call: int = 1  # between two returns to Python; more on a TPU
    num_accumulation_steps: int = 1  # micro-batches of a step
    batch_ramp_steps: int | None = None  # over which a step grows to these
    use_xla: bool = False  # compile the forward and backward pass
    seed: int = 12345  # of the dropout
    skip_nonfinite_steps: bool = False  # count them and go on

    def __post_init__(self) -> None:
        if self.batch_ramp_steps and self.num_accumulation_steps == 1:
            raise InputError(
                "`batch_ramp_steps` begins with one of the parts that "
                "`num_accumulation_steps` splits a batch into, which is 1; "
                "raise it, to 8 for example"
            )

    def num_micro_batches(self, step: int) -> int:
        """How many a step reads, after `step` finished ones.

        >>> loop = LoopConfig(num_accumulation_steps=4, batch_ramp_steps=8)
        >>> [loop.num_micro_batches(step) for step in range(9)]
        [1, 1, 2, 2, 3, 3, 4, 4, 4]
        """
        most, ramp = self.num_accumulation_steps, self.batch_ramp_steps
        return min(most, 1 + step * most // ramp) if ramp else most

    def num_batches(self, num_steps: int) -> float:
        """Whole batches that the first `num_steps` steps read."""
        grows = min(num_steps, self.batch_ramp_steps or 0)
        parts = sum(map(self.num_micro_batches, range(grows)))
        return num_steps - grows + parts / self.num_accumulation_steps

    def num_steps(self, num_batches: float) -> int:
        """Steps that read no more than that many whole batches.

        >>> LoopConfig().num_steps(7.5)
        7
        >>> loop = LoopConfig(num_accumulation_steps=4, batch_ramp_steps=8)
        >>> loop.num_steps(5), loop.num_steps(6.9), loop.num_steps(7)
        (8, 9, 10)
        """
        micro_batches = num_batches * self.num_accumulation_steps
        ramp = self.batch_ramp_steps or 0
        for step in range(ramp):
            micro_batches -= self.num_micro_batches(step)
            if micro_batches < 0:
                return step
        whole = int(micro_batches // self.num_accumulation_steps)
        return ramp + whole


@dataclasses.dataclass(frozen=True)
class ModelSelection:
    """Which of the models that a command sees on its way is the one to keep."""

    eval_steps: int = 0  # between two evaluations; 0: not while training
    best_metric: str | None = None  # None: the task's
    patience: int = 0  # evaluations without a better one; 0: without end
    num_seeds: int = 1  # runs

    def __post_init__(self) -> None:
        if self.patience and not self.eval_steps:
            raise InputError("`patience` counts evaluations: give `eval_steps`")
        if self.best_metric and not self.eval_steps and self.num_seeds == 1:
            raise InputError(
                "`best_metric` chooses among evaluations: give `eval_steps` "
                "(or, in fine-tuning, `num_seeds`)"
            )

    def compares(self, do_train: bool) -> bool:
        """Whether models are compared while training, or several of them."""
        return do_train and (self.eval_steps > 0 or self.num_seeds > 1)


@dataclasses.dataclass(frozen=True)
class DeviceConfig:
    use_tpu: bool = False
    tpu_name: str | None = None  # of the Cloud TPU
    tpu_zone: str | None = None
    gcp_project: str | None = None
    master: str | None = None  # its address, when not found by name
