"""Google's optimiser and learning-rate schedule for BERT, and LAMB beside it.

Upstream file: optimization.py. Loshchilov and Hutter 2019 for the decoupled
decay; Zhang et al. 2021 ("Revisiting few-sample BERT fine-tuning") for why one
may want the bias correction that upstream leaves out. You et al. 2020 ("Large
batch optimization for deep learning: training BERT in 76 minutes"), algorithm
2, for LAMB.
"""

import abc
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
        # One pass over memory for each variable, instead of a dozen.
        self._compiled_update = tf.function(
            self._update, jit_compile=True, autograph=False
        )
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
            gradients: one a variable, the same on every replica.
            step: int32, the number of updates before this one.

        Returns:
            The joint norm of the gradients, as they are given.
        """
        norm = tf.linalg.global_norm(gradients)
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
                self._assign,
                args=(m, v, gradient, scalars, traits, scale),
                group=False,
            )

    def _assign(
        self,
        variable: tf.Variable,
        m: tf.Variable,
        v: tf.Variable,
        gradient: tf.Tensor,
        scalars: Scalars,
        traits: Traits,
        rate_scale: float,
    ) -> None:
        scalars = scalars._replace(rate=scalars.rate * rate_scale)
        tensors = [tf.convert_to_tensor(x) for x in (variable, m, v)]
        updated = self._compiled_update(*tensors, gradient, scalars, traits)
        for target, value in zip((variable, m, v), updated, strict=True):
            target.assign(value)

    def _update(
        self,
        variable: tf.Tensor,
        m: tf.Tensor,
        v: tf.Tensor,
        gradient: tf.Tensor,
        scalars: Scalars,
        traits: Traits,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The new variable and moments, all of one shape."""
        c, before = self.config, (variable, m, v)
        gradient *= scalars.clipping
        m = c.adam_beta_1 * m + (1.0 - c.adam_beta_1) * gradient
        v = c.adam_beta_2 * v + (1.0 - c.adam_beta_2) * tf.square(gradient)
        if self._corrects_bias:
            corrected_v = v / (1.0 - c.adam_beta_2**scalars.count)
            update = m / (1.0 - c.adam_beta_1**scalars.count)
            update /= tf.sqrt(corrected_v) + c.adam_epsilon
        else:
            update = m / (tf.sqrt(v) + c.adam_epsilon)
        update += traits.decay_rate * variable
        variable -= scalars.rate * self._change(variable, update, traits)
        after = variable, m, v
        chosen = [
            tf.where(scalars.is_finite, new, old)
            for new, old in zip(after, before, strict=True)
        ]
        return chosen[0], chosen[1], chosen[2]


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


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape), trainable=False)
