"""Google's optimiser and learning-rate schedule for BERT.

Upstream file: optimization.py. Loshchilov and Hutter 2019 for the decoupled
decay; Zhang et al. 2021 ("Revisiting few-sample BERT fine-tuning") for why one
may want the bias correction that upstream leaves out.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from training.settings import OptimizerConfig

NO_DECAY = re.compile("LayerNorm|layer_norm|bias")


def learning_rate(config: OptimizerConfig, step: tf.Tensor) -> tf.Tensor:
    """The rate of the update that follows `step` finished ones.

    The decay runs from step 0 and the warm-up overrides it, so that the rate
    falls at the end of the warm-up and is 0 at the first update, as upstream.

    >>> config = OptimizerConfig(1.0, num_train_steps=10, num_warmup_steps=4)
    >>> [float(learning_rate(config, tf.constant(i))) for i in (0, 3, 4)]
    [0.0, 0.75, 0.6000000238418579]
    """
    done = tf.cast(step, tf.float32)
    total = float(config.num_train_steps)
    decayed = config.learning_rate * (1.0 - tf.minimum(done, total) / total)
    if not config.num_warmup_steps:
        return decayed
    warmed = config.learning_rate * (done / float(config.num_warmup_steps))
    return tf.where(done < float(config.num_warmup_steps), warmed, decayed)


class Scalars(NamedTuple):
    """What the updates of all variables share."""

    rate: tf.Tensor
    count: tf.Tensor  # of updates, this one included
    is_finite: tf.Tensor  # whether there is an update at all


class AdamW:
    """Adam with decoupled weight decay, by default without bias correction.

    Create it inside the strategy's scope; call `apply` in a replica.
    """

    def __init__(
        self,
        variables: Sequence[keras.Variable],
        config: OptimizerConfig,
        rate_scales: Sequence[float] | None = None,
    ):
        """`rate_scales`: by what each variable's rate is multiplied."""
        self.config = config
        self.rate_scales = rate_scales or [1.0] * len(variables)
        self.variables = [v.value for v in variables]
        self.first_moments = [_zeros_like(v) for v in self.variables]
        self.second_moments = [_zeros_like(v) for v in self.variables]
        # One pass over memory for each variable, instead of a dozen.
        self._compiled_update = tf.function(
            self._update, jit_compile=True, autograph=False
        )
        self.decay_rates = [
            0.0 if NO_DECAY.search(v.path) else config.weight_decay_rate
            for v in variables
        ]

    def apply(
        self,
        gradients: Sequence[tf.Tensor],
        step: tf.Tensor,
        is_finite: tf.Tensor,
    ) -> None:
        """Updates every variable from gradients already summed over replicas.

        Args:
            gradients: one a variable, the same on every replica.
            step: int32, the number of updates before this one.
            is_finite: bool; False leaves variables and moments as they are.
        """
        scalars = Scalars(
            learning_rate(self.config, step),
            tf.cast(step + 1, tf.float32),
            is_finite,
        )
        replica = tf.distribute.get_replica_context()
        replica.merge_call(self._apply, args=(gradients, scalars))

    def _apply(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Sequence[tf.Tensor],
        scalars: Scalars,
    ) -> None:
        for variable, m, v, gradient, decay, scale in zip(
            self.variables,
            self.first_moments,
            self.second_moments,
            gradients,
            self.decay_rates,
            self.rate_scales,
            strict=True,
        ):
            strategy.extended.update(
                variable,
                self._assign,
                args=(m, v, gradient, scalars, decay, scale),
                group=False,
            )

    def _assign(
        self,
        variable: tf.Variable,
        m: tf.Variable,
        v: tf.Variable,
        gradient: tf.Tensor,
        scalars: Scalars,
        decay: float,
        rate_scale: float,
    ) -> None:
        scalars = scalars._replace(rate=scalars.rate * rate_scale)
        tensors = [tf.convert_to_tensor(x) for x in (variable, m, v)]
        updated = self._compiled_update(*tensors, gradient, scalars, decay)
        for target, value in zip((variable, m, v), updated, strict=True):
            target.assign(value)

    def _update(
        self,
        variable: tf.Tensor,
        m: tf.Tensor,
        v: tf.Tensor,
        gradient: tf.Tensor,
        scalars: Scalars,
        decay: float,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The new variable and moments, all of one shape."""
        c, before = self.config, (variable, m, v)
        m = c.beta_1 * m + (1.0 - c.beta_1) * gradient
        v = c.beta_2 * v + (1.0 - c.beta_2) * tf.square(gradient)
        if c.bias_correction:
            corrected_v = v / (1.0 - c.beta_2**scalars.count)
            update = m / (1.0 - c.beta_1**scalars.count)
            update /= tf.sqrt(corrected_v) + c.epsilon
        else:
            update = m / (tf.sqrt(v) + c.epsilon)
        variable -= scalars.rate * (update + decay * variable)
        after = variable, m, v
        chosen = [
            tf.where(scalars.is_finite, new, old)
            for new, old in zip(after, before, strict=True)
        ]
        return chosen[0], chosen[1], chosen[2]


def clip_by_global_norm(
    gradients: Sequence[tf.Tensor], max_norm: float
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Scales the gradients to a joint norm of at most `max_norm`.

    Returns:
        The gradients, and their norm before.
    """
    norm = tf.linalg.global_norm(gradients)
    scale = max_norm * tf.minimum(1.0 / norm, 1.0 / max_norm)
    return [g * scale for g in gradients], norm


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape), trainable=False)
