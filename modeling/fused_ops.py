"""The element-wise chains between a BERT's matrix products, with dropout, and
attention, which has both.

Each chain is plain keras.ops, computes in float32 whatever it is given and
returns the type of its first argument. Under TensorFlow, on CPUs and GPUs, XLA
compiles each to few passes over memory. Two stay TensorFlow's on a CPU:
`masked_softmax` and `transpose`. Matrix products stay outside, with oneDNN or
cuBLAS. On TPUs and other backends these functions are what they
read as, and are compiled where the whole step is.

Dropout is stateless: what is dropped depends on a key that is an argument, so
that a step depends on its seed alone and nothing has to be saved to repeat it.
"""

import contextlib
import contextvars
import functools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras.modeling.tensors import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": lambda x: ops.gelu(x, approximate=True),
    "gelu_tanh": lambda x: ops.gelu(x, approximate=True),
    # x times the normal distribution function of x; XLA takes twice as long for
    # the erfc that TensorFlow's gelu has on a CPU.
    "gelu_erf": lambda x: 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5))),
    "relu": ops.relu,
    "tanh": ops.tanh,
    "linear": lambda x: x,
}


class _Key(keras.random.SeedGenerator):
    """A generator whose one draw is the key it was given: no state."""

    def __init__(self, key: Tensor):
        self.key = key

    def next(self, ordered: bool = True) -> Tensor:
        on_jax = keras.config.backend() == "jax"  # where keys are unsigned
        return ops.cast(self.key, "uint32") if on_jax else self.key


class DropoutKeys(keras.random.SeedGenerator):
    """What a layer draws keys from when Keras calls it with training=True.

    Keras's initializers draw their seeds from Python's generator. This begins
    at what that would give next and leaves it undrawn, so that the weights
    made after it are the same with it and without.
    """

    def __init__(self) -> None:
        python = random.Random()
        python.setstate(random.getstate())
        super().__init__(python.randint(1, 10**9))

    def draw(self) -> Tensor:
        """int32 [2], of which the second number is left to `dropout_seed`."""
        start, count = ops.unstack(ops.cast(self.next(), "int32"))
        # The golden ratio's multiples lie far apart.
        return ops.stack([start + count * -0x61C88647, ops.zeros_like(count)])


def dropout_seed(seed: Tensor | None, site: int) -> Tensor | None:
    """The key of dropout number `site` among those that share `seed`, so that
    no two of them share bits; keys are int32 [2], or None outside training."""
    if seed is None:
        return None
    return seed + ops.convert_to_tensor([0, site], dtype="int32")


def dropout(x: Tensor, rate: float, seed: Tensor | None) -> Tensor:
    """Each number of x with probability `rate` 0, else scaled to the mean;
    `seed` is the key, int32 [2], or None where nothing is to be dropped."""
    if seed is None or rate == 0.0:
        return x
    if _device():
        # A threshold of 2**32 would wrap to 0.
        threshold = min(round(rate * 2**32), 2**32 - 1)
        is_kept = _hashed_places(x, seed) >= threshold
    else:
        after_x: Any = contextlib.nullcontext()
        if keras.config.backend() == "tensorflow":
            import tensorflow as tf

            # Else the numbers of all layers would be drawn first, and kept.
            after_x = tf.control_dependencies([x])
        with after_x:
            drawn = keras.random.uniform(ops.shape(x), seed=_Key(seed))
        is_kept = drawn >= rate
    scaled = _float32(x) / (1.0 - rate)
    return ops.cast(ops.where(is_kept, scaled, 0.0), x.dtype)


def _hashed_places(x: Tensor, seed: Tensor) -> Tensor:
    """uint32 of the shape of x: a hash of each number's place and the key.

    Inside a chain it is computed where it is needed, in the backward pass
    again, and never written, as drawn numbers would be.
    """
    import tensorflow as tf

    halves = tf.bitcast(seed, tf.uint32)
    within = _hashed(halves[1])
    before = _hashed(halves[0] + within)
    places = tf.cast(tf.range(tf.size(x)), tf.uint32)
    return tf.reshape(_hashed(places + before, within), tf.shape(x))


def _hashed(x: Tensor, within: int | Tensor = 0) -> Tensor:
    """Of uint32 numbers, with half of a key `within`.

    The constants are those of splitmix32, after the golden ratio's: without
    this product, places that lie powers of two apart would be dropped together.
    The key comes two products before the end: with one behind it, keys would
    drop the same numbers some places apart.
    """
    x = _shifted(x * _uint32(0x9E3779B9), 16) + _uint32(within)
    x = _shifted(x * _uint32(0x21F0AAAD), 15)
    return _shifted(x * _uint32(0x735A2D97), 15)


def _shifted(x: Tensor, by: int) -> Tensor:
    return ops.bitwise_xor(x, ops.right_shift(x, _uint32(by)))


def _uint32(number: int | Tensor) -> Tensor:
    return ops.convert_to_tensor(number, dtype="uint32")


def _layer_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float
) -> Tensor:
    mean = ops.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
    return centred * ops.rsqrt(variance + epsilon) * gamma + beta


@functools.cache
def _device() -> str | None:
    """Where TensorFlow computes in this process, "CPU" or "GPU"; None with a
    TPU, and on another backend."""
    if keras.config.backend() != "tensorflow":
        return None
    import tensorflow as tf

    if tf.config.list_logical_devices("TPU"):
        return None
    return "GPU" if tf.config.list_logical_devices("GPU") else "CPU"


_plain = contextvars.ContextVar("plain", default=False)


@contextlib.contextmanager
def uncompiled(is_plain: bool = True) -> Iterator[None]:
    """Leaves the chains traced inside as they read, if `is_plain`.

    For graphs that go elsewhere: a TensorFlow Serving on a CPU refuses
    functions that XLA must compile, unless told otherwise.
    """
    token = _plain.set(_plain.get() or is_plain)
    try:
        yield
    finally:
        _plain.reset(token)


def compiles_chains() -> bool:
    """The switch: whether chains that are called here are compiled, each by
    itself."""
    return _device() is not None and not _plain.get()


def _compiles_for_gpu() -> bool:
    return compiles_chains() and _device() == "GPU"


def _chain(
    function: Callable[..., Tensor],
    by_row: bool = False,
    is_sum: bool = False,
    is_for_gpu: bool = False,
) -> Callable[..., Tensor]:
    """`function`, compiled by itself where `compiles_chains`, or on GPUs alone.

    Args:
        by_row: of each row [H] of its first argument by itself. Other
            arguments of its rank have its shape; vectors [H] are of all rows.
            It is given rows [N, H], not [B, S, H], since each shape is compiled
            anew, and batches of other lengths have often as many rows.
        is_sum: as in `_compiled`.
        is_for_gpu: compiled on GPUs alone; on a CPU TensorFlow's own kernels
            are as fast, and are the same for all shapes.
    """
    compiled = functools.cache(lambda: _compiled(function, is_sum))
    is_compiled = _compiles_for_gpu if is_for_gpu else compiles_chains

    @functools.wraps(function)
    def call(x: Tensor, *args: Any) -> Tensor:
        if not is_compiled():
            return function(x, *args)
        rank = len(x.shape)
        if not by_row or rank < 3:
            return compiled()(x, *args)
        rows = [
            ops.reshape(arg, (-1, arg.shape[-1]))
            if len(getattr(arg, "shape", ())) == rank
            else arg
            for arg in (x, *args)
        ]
        return ops.reshape(compiled()(*rows), ops.shape(x))

    return call


def _compiled(
    function: Callable[..., Tensor], is_sum: bool
) -> Callable[..., Tensor]:
    """`function`, and its gradient, which computes again what it needs: what
    lies between the arguments and the result is never written to memory.

    Args:
        is_sum: of its first argument, whose gradient therefore is the result's,
            and others: it is not kept.
    """
    import tensorflow as tf

    compile_ = functools.partial(tf.function, jit_compile=True, autograph=False)
    forward = compile_(function)

    @compile_
    def backward(args: list[Any], upstream: Any) -> list[Tensor | None]:
        tensors = [arg for arg in args if tf.is_tensor(arg)]
        with tf.GradientTape() as tape:
            tape.watch([x for x in tensors if x.dtype.is_floating])
            results = tf.nest.flatten(function(*args))
        return tape.gradient(results, tensors, upstream)

    def call(*args: Any) -> Tensor:
        # Variables are read outside: of a replica's mirrored variable, passed
        # as it is, the compiled function would give no gradient.
        values = [
            tf.convert_to_tensor(arg)
            if isinstance(arg, keras.Variable | np.ndarray)
            else arg
            for arg in args
        ]

        @tf.custom_gradient
        def with_gradient(*_: Tensor) -> Any:
            def gradients(*dy: Tensor) -> list[Tensor | None]:
                return backward([*dy, *values[1:]] if is_sum else values, dy)

            return forward(*values), gradients

        return with_gradient(*filter(tf.is_tensor, values))

    return call


def row_products(x: Tensor, table: Tensor) -> Tensor:
    """x [..., H] times each row of a table [V, H]: [..., V]."""
    if keras.config.backend() != "tensorflow":
        return ops.matmul(x, ops.transpose(table))
    import tensorflow as tf

    # The gradient of ops.transpose would write the table once more.
    rows = ops.reshape(x, (-1, x.shape[-1]))
    products = tf.matmul(rows, table, transpose_b=True)
    return ops.reshape(products, (*ops.shape(x)[:-1], table.shape[0]))


def _float32(x: Tensor) -> Tensor:
    return ops.cast(x, "float32")


@functools.partial(_chain, by_row=True)
def bias_activation(x: Tensor, bias: Tensor, activation: str) -> Tensor:
    """activation(x + bias)."""
    return ops.cast(ACTIVATIONS[activation](_float32(x) + bias), x.dtype)


@_chain
def gated_activation(x: Tensor, activation: str) -> Tensor:
    """activation(first half) * second half: [..., 2F] -> [..., F]. Shazeer
    2020, "GLU variants improve Transformer"."""
    value, gate = ops.split(_float32(x), 2, axis=-1)
    return ops.cast(ACTIVATIONS[activation](value) * gate, x.dtype)


@functools.partial(_chain, by_row=True, is_sum=True)
def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """x + bias."""
    return ops.cast(_float32(x) + bias, x.dtype)


def transpose(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """ops.transpose, which TensorFlow has slow kernels for on a GPU. Unlike a
    chain it keeps nothing for its gradient."""
    if not _compiles_for_gpu():
        return ops.transpose(x, axes)
    import tensorflow as tf

    turn, back = _compiled_transpose(), np.argsort(axes).tolist()

    @tf.custom_gradient
    def transposed(x: Tensor) -> Any:
        return turn(x, [*axes]), lambda dy: turn(dy, back)

    return transposed(x)


@functools.cache
def _compiled_transpose() -> Callable[..., Tensor]:
    import tensorflow as tf

    return tf.function(tf.transpose, jit_compile=True, autograph=False)


@functools.partial(_chain, is_for_gpu=True)
def masked_softmax(
    scores: Tensor, scale: float, additive_mask: Tensor
) -> Tensor:
    """softmax(scores * scale + additive_mask) over the last axis.

    On a CPU in bfloat16, oneDNN's kernels read and write half as much, and
    compute in float32 what lies between.
    """
    is_narrow = keras.backend.standardize_dtype(scores.dtype) == "bfloat16"
    if is_narrow and _device() == "CPU" and not _plain.get():
        scores = scores * scale + ops.cast(additive_mask, "bfloat16")
        return ops.softmax(scores, axis=-1)
    adder = ops.stop_gradient(_float32(additive_mask))
    probs = ops.softmax(_float32(scores) * scale + adder, axis=-1)
    return ops.cast(probs, scores.dtype)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    additive_mask: Tensor,
    rate: float,
    seed: Tensor | None,
) -> Tensor:
    """dropout(softmax(query key * scale + additive_mask)) value, [B, S, N, D]:
    what each of S positions gathers from T of them, over N heads.

    Args:
        query: [B, N, S, D].
        key: and value, [B, N, T, D].
        additive_mask: [B, 1, 1, T] or [B, 1, S, T].
        rate: of the dropout.
        seed: int32 [2], its key; None outside training.
    """
    if compiles_chains() and (seed is not None or _device() == "GPU"):
        attend = _attention(scale, additive_mask, rate, seed)
        return attend(query, key, value)
    scores = ops.einsum("BNSD,BNTD->BNST", query, key)
    probs = masked_softmax(scores, scale, additive_mask)
    return ops.einsum("BNST,BNTD->BSND", dropout(probs, rate, seed), value)


def _attention(
    scale: float, additive_mask: Tensor, rate: float, seed: Tensor | None
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """`attention` of query, key and value, with a gradient that has no sum over
    T in it: what softmax's gradient takes off each row, the sum of
    probabilities times their gradients, is that of D numbers of the context
    times theirs (Dao et al. 2022, FlashAttention, appendix B.2)."""
    import tensorflow as tf

    def turned(x: Tensor) -> Tensor:
        # [B, N, S, D] to [B, S, N, D], and back
        return transpose(x, (0, 2, 1, 3))

    @tf.custom_gradient
    def attend(query: Tensor, key: Tensor, value: Tensor) -> Any:
        scores = tf.matmul(query, key, transpose_b=True)
        probs = masked_softmax(scores, scale, additive_mask)
        drops = rate and seed is not None
        dropped = _dropped(probs, rate, seed) if drops else probs
        context = turned(tf.matmul(dropped, value))

        def gradients(upstream: Tensor) -> list[Tensor]:
            dy = turned(upstream)
            of_dropped = tf.matmul(dy, value, transpose_b=True)
            of_scores = _gradient_of_scores(
                of_dropped, probs, context, upstream, scale, rate, seed
            )
            return [
                tf.matmul(of_scores, key),
                tf.matmul(of_scores, query, transpose_a=True),
                tf.matmul(dropped, dy, transpose_a=True),
            ]

        return context, gradients

    return attend


_dropped = _chain(dropout)
lone_dropout = _chain(dropout, is_for_gpu=True)  # of little: before a head


@_chain
def _gradient_of_scores(
    of_dropped: Tensor,
    probs: Tensor,
    context: Tensor,
    of_context: Tensor,
    scale: float,
    rate: float,
    seed: Tensor | None,
) -> Tensor:
    """Of query key, [B, N, S, T], from the gradients of the dropped
    probabilities, [B, N, S, T], and of the context, [B, S, N, D]."""
    sums = ops.sum(_float32(context) * _float32(of_context), axis=-1)
    sums = ops.transpose(sums, (0, 2, 1))[..., None]  # [B, N, S, 1]
    of_probs = dropout(_float32(of_dropped), rate, seed)
    gradient = _float32(probs) * (of_probs - sums) * scale
    return ops.cast(gradient, of_dropped.dtype)


@functools.partial(_chain, by_row=True)
def bias_dropout_add_norm(
    x: Tensor,
    bias: Tensor,
    residual: Tensor,
    gamma: Tensor,
    beta: Tensor,
    epsilon: float,
    rate: float,
    seed: Tensor | None,
) -> Tensor:
    """LayerNorm(dropout(x + bias) + residual)."""
    dropped = dropout(_float32(x) + bias, rate, seed)
    summed = dropped + _float32(residual)
    return ops.cast(_layer_norm(summed, gamma, beta, epsilon), x.dtype)


@functools.partial(_chain, by_row=True)
def norm_dropout(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    epsilon: float,
    rate: float,
    seed: Tensor | None,
) -> Tensor:
    """dropout(LayerNorm(x))."""
    normed = _layer_norm(_float32(x), gamma, beta, epsilon)
    return ops.cast(dropout(normed, rate, seed), x.dtype)


@functools.partial(_chain, by_row=True)
def norm(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    """LayerNorm(x), without a beta."""
    return ops.cast(_layer_norm(_float32(x), gamma, 0.0, epsilon), x.dtype)


@_chain
def rotated(x: Tensor, theta: float) -> Tensor:
    """Rotates queries and keys by position (RoPE): Su et al. 2021, section
    3.2.2.

    At position s the pair of numbers i and i + D / 2 turns by
    s theta^(-2 i / D) radians: the first pair by 1 a position, the last by
    nearly 1 / theta. Scores then depend on distances alone, so that sequences
    of a packed row may begin anywhere.

    Args:
        x: query, key and value, [B, S, 3, N, D]; the value stays.
    """
    half = x.shape[-1] // 2
    speeds = theta ** -(np.arange(half, dtype=np.float32) / half)
    turns = np.stack([speeds, speeds, 0 * speeds])[:, None]  # [3, 1, D / 2]
    places = ops.cast(ops.arange(ops.shape(x)[1]), "float32")
    angles = places[:, None, None, None] * turns
    cos, sin = ops.cos(angles), ops.sin(angles)
    first, second = ops.split(_float32(x), 2, axis=-1)
    turned = [first * cos - second * sin, second * cos + first * sin]
    return ops.cast(ops.concatenate(turned, axis=-1), x.dtype)


@functools.partial(_chain, by_row=True)
def bias_activation_norm(
    x: Tensor,
    bias: Tensor,
    activation: str,
    gamma: Tensor,
    beta: Tensor,
    epsilon: float,
) -> Tensor:
    """LayerNorm(activation(x + bias))."""
    activated = ACTIVATIONS[activation](_float32(x) + bias)
    return ops.cast(_layer_norm(activated, gamma, beta, epsilon), x.dtype)


@_chain
def log_likelihood(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Of labels [...] under logits [..., C]: its negative, in nats, and whether
    the label is the first of the most likely classes; both float32 [...]."""
    logits = _float32(logits)
    num_classes = ops.shape(logits)[-1]
    place = ops.arange(num_classes, dtype="int32")
    is_label = ops.equal(place, ops.cast(labels, "int32")[..., None])
    peak = ops.stop_gradient(ops.max(logits, axis=-1, keepdims=True))
    total = ops.sum(ops.exp(logits - peak), axis=-1)
    own = ops.sum(ops.where(is_label, logits - peak, 0.0), axis=-1)
    first = ops.min(ops.where(logits == peak, place, num_classes), axis=-1)
    hit = ops.equal(first, ops.cast(labels, "int32"))
    return ops.log(total) - own, _float32(hit)


@_chain
def kl_divergence(
    logits: Tensor, targets: Tensor, temperature: float
) -> Tensor:
    """How far the softmax of logits / temperature, [..., C], is from that of
    targets, to which no gradient goes: Kullback-Leibler's, in nats, float32
    [...]."""
    softened = ops.stop_gradient(_float32(targets)) / temperature
    log_targets = ops.log_softmax(softened, axis=-1)
    log_probs = ops.log_softmax(_float32(logits) / temperature, axis=-1)
    distance = ops.exp(log_targets) * (log_targets - log_probs)
    return ops.sum(distance, axis=-1)


@_chain
def cosine_distance(x: Tensor, y: Tensor) -> Tensor:
    """float32 [...]: 1 less the cosine between vectors [..., H]."""
    x, y = _float32(x), _float32(y)
    squares = ops.sum(x * x, axis=-1) * ops.sum(y * y, axis=-1)
    return 1.0 - ops.sum(x * y, axis=-1) * ops.rsqrt(squares + 1e-12)
