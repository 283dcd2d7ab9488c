"""The settings of a run, apart from what they set, so that reading a command's
flags needs no TensorFlow."""

import dataclasses

from bert_keras.errors import InputError

OPTIMIZERS = ("adamw", "lamb")


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    learning_rate: float = 5e-5  # at the end of the warm-up
    num_train_steps: int = 100000  # at which the rate reaches 0
    num_warmup_steps: int = 10000
    weight_decay_rate: float = 0.01  # not for LayerNorm and biases
    bias_correction: bool = False  # AdamW's; upstream has none, LAMB always
    adam_beta_1: float = 0.9
    adam_beta_2: float = 0.999  # of the second moment
    adam_epsilon: float = 1e-6  # added outside the root
    max_gradient_norm: float = 1.0  # of all gradients together
    optimizer_type: str = "adamw"  # one of OPTIMIZERS


@dataclasses.dataclass(frozen=True)
class LoopConfig:
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 5
    steps_per_call: int = 1  # between two returns to Python; more on a TPU
    num_accumulation_steps: int = 1  # micro-batches of a step
    use_xla: bool = False  # compile the forward and backward pass
    seed: int = 12345  # of the dropout
    skip_nonfinite_steps: bool = False  # count them and go on


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
