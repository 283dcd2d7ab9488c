"""What `quantize("int8")` would give: Keras's own Dense before and after.

    python benchmarks/quantized_dense.py

The encoder's kernels are not those of Keras's layers, so it cannot be
quantized; this builds the six products of a Transformer layer from
keras.layers.Dense instead, and times them in float32 and after
`quantize("int8")`, in turns. Prints milliseconds of all products of a layer
(median), their ratio, and the largest difference of the outputs relative to
the largest output.
"""

import argparse
import statistics
import time

import keras
import numpy as np
import tensorflow as tf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden_size", type=int, default=384)
    parser.add_argument("--rows", type=int, default=32 * 64)
    parser.add_argument("--times", type=int, default=50)
    flags = parser.parse_args()
    hidden, inner = flags.hidden_size, 4 * flags.hidden_size
    sizes = [(hidden, hidden)] * 4 + [(hidden, inner), (inner, hidden)]
    kinds = {}
    for kind in ("float32", "int8"):
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Dense(units) for _, units in sizes]
        for layer, (width, _) in zip(layers, sizes, strict=True):
            layer.build((None, width))
            if kind == "int8":
                layer.quantize("int8")
        kinds[kind] = layers
    rng = np.random.default_rng(1)
    inputs = [
        tf.constant(rng.normal(size=(flags.rows, width)), "float32")
        for width, _ in sizes
    ]

    runs = {
        kind: tf.function(
            lambda layers=layers: [
                layer(x) for layer, x in zip(layers, inputs, strict=True)
            ]
        )
        for kind, layers in kinds.items()
    }
    outputs = {kind: run() for kind, run in runs.items()}
    seconds: dict[str, list[float]] = {kind: [] for kind in runs}
    for _ in range(flags.times):
        for kind, run in runs.items():
            begin = time.perf_counter()
            [x.numpy() for x in run()]
            seconds[kind].append(time.perf_counter() - begin)
    medians = {k: 1000 * statistics.median(v) for k, v in seconds.items()}
    for kind, value in medians.items():
        print(f"{kind}: {value:.1f} ms")
    print(f"int8 / float32: {medians['int8'] / medians['float32']:.2f}")
    difference = max(
        float(np.abs(a - b).max() / np.abs(a).max())
        for a, b in zip(*outputs.values(), strict=True)
    )
    print(f"largest difference: {difference:.4f} of the largest output")


if __name__ == "__main__":
    main()
