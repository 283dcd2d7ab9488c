"""Google's optimiser and learning-rate schedule for BERT, and LAMB beside it.

Upstream file: optimization.py. Loshchilov and Hutter 2019 for the decoupled
decay; Zhang et al. 2021 ("Revisiting few-sample BERT fine-tuning") for why one
may want the bias correction that upstream leaves out. You et al. 2020 ("Large
batch optimization for deep learning: training BERT in 76 minutes"), algorithm
2, for LAMB. Loshchilov and Hutter 2017 for the cosine; Hu et al. 2024
("MiniCPM"), section 4, for wsd: warm-up, stable rate, decay.
"""

import functools
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_keras.training.config import OptimizerConfig

NUM_SLICES = 8
NO_DECAY = re.compile("LayerNorm|layer_norm|bias")


def learning_rate(config: OptimizerConfig, step: tf.Tensor) -> tf.Tensor:
    """The rate of the update that follows `step` finished ones.

    Linear is upstream's: the decay runs from step 0 and the warm-up overrides
    it, so that the rate falls at the end of the warm-up and is 0 at the first
    update. The cosine begins at the end of the warm-up. wsd stays at the peak
    and falls linearly in the last steps.

    >>> config = OptimizerConfig(1.0, num_train_steps=10, num_warmup_steps=4)
    >>> [float(learning_rate(config, tf.constant(i))) for i in (0, 3, 4)]
    [0.0, 0.75, 0.6000000238418579]
    """
    done = tf.cast(step, tf.float32)
    total = float(config.num_train_steps)
    begin = 0.0  # of the decay
    if config.learning_rate_schedule == "cosine":
        begin = min(float(config.num_warmup_steps), total - 1.0)
    elif config.num_stable_steps is not None:
        begin = float(config.num_stable_steps)
    done_part = tf.clip_by_value((done - begin) / (total - begin), 0.0, 1.0)
    left = 1.0 - done_part
    if config.learning_rate_schedule == "cosine":
        left = 0.5 * (1.0 + tf.cos(math.pi * done_part))
    decayed = config.learning_rate * left
    if not config.num_warmup_steps:
        return decayed
    warmed = config.learning_rate * (done / float(config.num_warmup_steps))
    return tf.where(done < float(config.num_warmup_steps), warmed, decayed)


class Scalars(NamedTuple):
    """What the updates of all variables share."""

    rate: tf.Tensor
    count: tf.Tensor  # of updates, this one included
    is_finite: tf.Tensor  # whether there is an update at all
    clipping: tf.Tensor  # what gradients are multiplied by


class Traits(NamedTuple):
    """What is a variable's own, the same at every update."""

    decay_rate: float
    is_exempt: bool  # from decay and from LAMB's trust ratio
    num_blocks: int  # of equal width on the last axis, each a matrix of its own


class AdamW:
    """Google's: Adam with decoupled weight decay, by default without the
    correction of its moments' bias.

    Create it inside the strategy's scope; call `apply` in a replica.
    """

    always_corrects_bias = False

    def __init__(
        self,
        variables: Sequence[keras.Variable],
        config: OptimizerConfig,
        rate_scales: Sequence[float] | None = None,
        block_counts: Sequence[int] | None = None,
    ):
        """By variable: what its rate is multiplied by, and of how many matrices
        side by side it is made; 1 where nothing is given."""
        self.config = config
        self.variables = [v.value for v in variables]
        self.first_moments, self.second_moments = (
            [tf.Variable(tf.zeros(v.shape), trainable=False) for v in variables]
            for _ in range(2)
        )
        # Two passes over memory, in place, instead of a dozen. In one function
        # XLA would compute the moments twice, and write all elsewhere.
        compiled = functools.partial(
            tf.function, jit_compile=True, autograph=False
        )
        self._compiled_moments = compiled(self._update_moments)
        self._compiled_update = compiled(self._update)
        ones = [1] * len(variables)
        self.rate_scales = rate_scales or ones
        exempt = [bool(NO_DECAY.search(v.path)) for v in variables]
        self.traits = [
            Traits(0.0 if off else config.weight_decay_rate, off, count)
            for off, count in zip(exempt, block_counts or ones, strict=True)
        ]

    def apply(
        self, gradients: Sequence[tf.Tensor], step: tf.Tensor, loss: tf.Tensor
    ) -> tf.Tensor:
        """Updates every variable from gradients already summed over replicas,
        after clipping them; or none, if they or their loss are not finite.

        Args:
            gradients: one a variable, the same on every replica, float32 or
                bfloat16.
            step: int32, the number of updates before this one.

        Returns:
            The joint norm of the gradients, as they are given.
        """
        norm = tf.sqrt(tf.add_n([sum_of_squares(g) for g in gradients]))
        longest = self.config.max_gradient_norm
        scalars = Scalars(
            learning_rate(self.config, step),
            tf.cast(step + 1, tf.float32),
            tf.math.is_finite(loss) & tf.math.is_finite(norm),
            longest * tf.minimum(1.0 / norm, 1.0 / longest),
        )
        replica = tf.distribute.get_replica_context()
        replica.merge_call(self._apply, args=(gradients, scalars))
        return norm

    def _apply(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Sequence[tf.Tensor],
        scalars: Scalars,
    ) -> None:
        for i, variable in enumerate(self.variables):
            strategy.extended.update(
                variable,
                functools.partial(self._update_one, strategy, i),
                args=(gradients[i], scalars),
                group=False,
            )

    def _update_one(
        self,
        strategy: tf.distribute.Strategy,
        i: int,
        variable: tf.Variable,
        gradient: tf.Tensor,
        scalars: Scalars,
    ) -> None:
        """Updates one replica's own part of the variable of number `i`."""
        m, v = self.first_moments[i], self.second_moments[i]
        traits = self.traits[i]
        scalars = scalars._replace(rate=scalars.rate * self.rate_scales[i])
        if isinstance(strategy, tf.distribute.TPUStrategy):
            # The whole step is compiled there.
            self._update_moments(m, v, gradient, scalars)
            self._update(variable, m, v, scalars, traits)
            return
        # Moments are of all replicas: as such those of another variable of this
        # shape would be taken for them.
        m, v = (
            next(
                part
                for part in strategy.experimental_local_results(moments)
                if part.device == variable.device
            )
            for moments in (m, v)
        )
        self._compiled_moments(m, v, gradient, scalars)
        self._compiled_update(variable, m, v, scalars, traits)

    def _update_moments(
        self,
        m: tf.Variable,
        v: tf.Variable,
        gradient: tf.Tensor,
        scalars: Scalars,
    ) -> None:
        beta_1, beta_2 = self.config.adam_beta_1, self.config.adam_beta_2
        gradient = tf.cast(gradient, tf.float32) * scalars.clipping
        new_m = beta_1 * m + (1.0 - beta_1) * gradient
        new_v = beta_2 * v + (1.0 - beta_2) * tf.square(gradient)
        m.assign(tf.where(scalars.is_finite, new_m, m))
        v.assign(tf.where(scalars.is_finite, new_v, v))

    def _update(
        self,
        variable: tf.Variable,
        m: tf.Variable,
        v: tf.Variable,
        scalars: Scalars,
        traits: Traits,
    ) -> None:
        """By moments that are updated already. All are of one shape."""
        c, number = self.config, tf.convert_to_tensor(variable)
        if c.bias_correction or self.always_corrects_bias:
            corrected_v = v / (1.0 - c.adam_beta_2**scalars.count)
            update = m / (1.0 - c.adam_beta_1**scalars.count)
            update /= tf.sqrt(corrected_v) + c.adam_epsilon
        else:
            update = m / (tf.sqrt(v) + c.adam_epsilon)
        update += traits.decay_rate * number
        change = scalars.rate * self._change(number, update, traits)
        variable.assign(tf.where(scalars.is_finite, number - change, variable))

    def _change(
        self, variable: tf.Tensor, update: tf.Tensor, traits: Traits
    ) -> tf.Tensor:
        """What is taken from the variable at a rate of 1.

        Args:
            update: from the moments, with the decay.
        """
        return update


class Lamb(AdamW):
    """Each matrix goes as far as it is long: its update is scaled to its norm.

    As in the Model Garden's and NVIDIA's LAMB: biases and LayerNorm, which do
    not decay, are not scaled either, a ratio with a norm of 0 is 1, and moments
    are corrected for their bias, as in the paper's algorithm. (Google's own, in
    ALBERT, leaves the correction out: the paper's appendix finds that a warm-up
    does as much.) Query, key and value have each their norm, as they would as
    variables of their own.
    """

    always_corrects_bias = True

    def _change(
        self, variable: tf.Tensor, update: tf.Tensor, traits: Traits
    ) -> tf.Tensor:
        if traits.is_exempt:
            return update
        blocks = [
            -1,
            traits.num_blocks,
            variable.shape[-1] // traits.num_blocks,
        ]
        by_block = tf.reshape(update, blocks)
        # Rows first: one sum over millions of numbers would lose digits.
        weight_norms, update_norms = (
            tf.sqrt(tf.reduce_sum(tf.reduce_sum(tf.square(x), -1), 0))[:, None]
            for x in (tf.reshape(variable, blocks), by_block)
        )  # [blocks, 1]
        ratios = tf.where(
            (weight_norms > 0.0) & (update_norms > 0.0),
            weight_norms / update_norms,
            1.0,
        )
        return tf.reshape(by_block * ratios, variable.shape)


def sum_of_squares(gradient: tf.Tensor) -> tf.Tensor:
    """float32, of float32 or bfloat16 numbers."""
    is_wide = gradient.dtype == tf.float32
    if is_wide or gradient.shape.num_elements() % NUM_SLICES:
        return 2.0 * tf.nn.l2_loss(tf.cast(gradient, tf.float32))
    return tf.reduce_sum(_added_squares(gradient))


@tf.function(jit_compile=True, autograph=False)
def _added_squares(gradient: tf.Tensor) -> tf.Tensor:
    """Squares of the first eighth of the numbers, to which those of each other
    eighth are added, in float32: one pass over memory. (XLA's own sums take
    three times as long on a CPU, and so do sums of what was cast before.)"""
    numbers = tf.reshape(tf.cast(gradient, tf.float32), [-1])
    return tf.add_n(tf.split(tf.square(numbers), NUM_SLICES))
