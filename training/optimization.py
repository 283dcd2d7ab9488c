"""Google's optimiser and learning-rate schedule for BERT, and LAMB beside it.

Upstream file: optimization.py. Loshchilov and Hutter 2019 for the decoupled
decay; Zhang et al. 2021 ("Revisiting few-sample BERT fine-tuning") for why one
may want the bias correction that upstream leaves out. You et al. 2020 ("Large
batch optimization for deep learning: training BERT in 76 minutes"), algorithm
2, for LAMB.
"""

import abc
import functools
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
    clipping: tf.Tensor  # what gradients are multiplied by


class Traits(NamedTuple):
    """What is a variable's own, the same at every update."""

    decay_rate: float
    is_exempt: bool  # from decay and from LAMB's trust ratio
    num_blocks: int  # of equal width on the last axis, each a matrix of its own


class Optimizer(abc.ABC):
    """Adam's moments with decoupled weight decay; a subclass says how far to go
    along them.

    Create it inside the strategy's scope; call `apply` in a replica.
    """

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
        self.first_moments = [_zeros_like(v) for v in self.variables]
        self.second_moments = [_zeros_like(v) for v in self.variables]
        # Two passes over memory, in place, instead of a dozen. In one function
        # XLA would compute the moments twice, and write all elsewhere.
        compile_ = functools.partial(
            tf.function, jit_compile=True, autograph=False
        )
        self._compiled_moments = compile_(self._update_moments)
        self._compiled_update = compile_(self._update)
        ones = [1] * len(variables)
        self.rate_scales = rate_scales or ones
        exempt = [bool(NO_DECAY.search(v.path)) for v in variables]
        self.traits = [
            Traits(0.0 if off else config.weight_decay_rate, off, count)
            for off, count in zip(exempt, block_counts or ones, strict=True)
        ]

    @property
    def _corrects_bias(self) -> bool:
        """Whether moments are divided by what they lack near the start."""
        return self.config.bias_correction

    @abc.abstractmethod
    def _change(
        self, variable: tf.Tensor, update: tf.Tensor, traits: Traits
    ) -> tf.Tensor:
        """What is taken from the variable at a rate of 1.

        Args:
            update: from the moments, with the decay.
        """

    def apply(
        self,
        gradients: Sequence[tf.Tensor],
        step: tf.Tensor,
        loss: tf.Tensor,
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
        scalars = Scalars(
            learning_rate(self.config, step),
            tf.cast(step + 1, tf.float32),
            tf.math.is_finite(loss) & tf.math.is_finite(norm),
            clip_scale(norm, self.config.max_gradient_norm),
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
        update = functools.partial(self._update_one, strategy)
        for variable, m, v, gradient, traits, scale in zip(
            self.variables,
            self.first_moments,
            self.second_moments,
            gradients,
            self.traits,
            self.rate_scales,
            strict=True,
        ):
            strategy.extended.update(
                variable,
                update,
                args=(m, v, gradient, scalars, traits, scale),
                group=False,
            )

    def _update_one(
        self,
        strategy: tf.distribute.Strategy,
        variable: tf.Variable,
        m: tf.Variable,
        v: tf.Variable,
        gradient: tf.Tensor,
        scalars: Scalars,
        traits: Traits,
        rate_scale: float,
    ) -> None:
        scalars = scalars._replace(rate=scalars.rate * rate_scale)
        if isinstance(strategy, tf.distribute.TPUStrategy):
            # The whole step is compiled there.
            self._update_moments(m, v, gradient, scalars)
            self._update(variable, m, v, scalars, traits)
            return
        # `variable` is a replica's own, moments are of all replicas: as such
        # those of another variable of this shape would be taken for them.
        m, v = (_part_beside(variable, x, strategy) for x in (m, v))
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
        _assign_if(scalars.is_finite, m, beta_1 * m + (1.0 - beta_1) * gradient)
        _assign_if(
            scalars.is_finite,
            v,
            beta_2 * v + (1.0 - beta_2) * tf.square(gradient),
        )

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
        if self._corrects_bias:
            corrected_v = v / (1.0 - c.adam_beta_2**scalars.count)
            update = m / (1.0 - c.adam_beta_1**scalars.count)
            update /= tf.sqrt(corrected_v) + c.adam_epsilon
        else:
            update = m / (tf.sqrt(v) + c.adam_epsilon)
        update += traits.decay_rate * number
        change = scalars.rate * self._change(number, update, traits)
        _assign_if(scalars.is_finite, variable, number - change)


def _part_beside(
    variable: tf.Variable, slot: tf.Variable, strategy: tf.distribute.Strategy
) -> tf.Variable:
    """What a variable of all replicas is on the device of this one's."""
    parts = strategy.experimental_local_results(slot)
    return next(part for part in parts if part.device == variable.device)


def _assign_if(
    condition: tf.Tensor, variable: tf.Variable, value: tf.Tensor
) -> None:
    variable.assign(tf.where(condition, value, variable))


class AdamW(Optimizer):
    """Google's: by default without bias correction."""

    def _change(
        self, variable: tf.Tensor, update: tf.Tensor, traits: Traits
    ) -> tf.Tensor:
        return update


class Lamb(Optimizer):
    """Each matrix goes as far as it is long: its update is scaled to its norm.

    As in the Model Garden's and NVIDIA's LAMB: biases and LayerNorm, which do
    not decay, are not scaled either, a ratio with a norm of 0 is 1, and moments
    are corrected for their bias, as in the paper's algorithm. (Google's own, in
    ALBERT, leaves the correction out: the paper's appendix finds that a warm-up
    does as much.) Query, key and value have each their norm, as they would as
    variables of their own.
    """

    @property
    def _corrects_bias(self) -> bool:
        return True

    def _change(
        self, variable: tf.Tensor, update: tf.Tensor, traits: Traits
    ) -> tf.Tensor:
        if traits.is_exempt:
            return update
        width = variable.shape[-1] // traits.num_blocks
        blocks = [-1, traits.num_blocks, width]
        by_block = tf.reshape(update, blocks)
        weight_norms = _block_norms(tf.reshape(variable, blocks))
        update_norms = _block_norms(by_block)
        ratios = tf.where(
            (weight_norms > 0.0) & (update_norms > 0.0),
            weight_norms / update_norms,
            1.0,
        )
        return tf.reshape(by_block * ratios, variable.shape)


def _block_norms(x: tf.Tensor) -> tf.Tensor:
    """[rows, blocks, width] -> [blocks, 1]."""
    # Rows first: one sum over millions of numbers would lose digits.
    squares = tf.reduce_sum(tf.square(x), axis=-1)
    return tf.sqrt(tf.reduce_sum(squares, axis=0))[:, None]


def clip_scale(norm: tf.Tensor, max_norm: float) -> tf.Tensor:
    """What makes gradients of this joint norm as long as `max_norm` at most."""
    return max_norm * tf.minimum(1.0 / norm, 1.0 / max_norm)


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


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape), trainable=False)
