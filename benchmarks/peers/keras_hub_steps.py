"""KerasHub on TensorFlow, for steps.py: a training step or a forward pass.

Variants: graph, or xla, which is what Keras's compile() chooses by itself; with
"bf16 weights" the weights themselves are in bfloat16, else only the products
are. The encoder is read by from_preset from Hugging Face's folder.

Shapes: B rows, S positions, P masked predictions, V vocabulary.
"""

import os
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import keras_hub
import numpy as np
import tensorflow as tf
import worker

INPUTS = {
    "token_ids": "input_ids",
    "padding_mask": "input_mask",
    "segment_ids": "segment_ids",
}


def gelu(x: Any) -> Any:
    return keras.ops.gelu(x, approximate=True)


def make_model(encoder: Any, checkpoint: str) -> keras.Model:
    """Scores [B, P, V] of the masks and [B, 2] of the pair."""
    positions = keras.Input((None,), dtype="int32", name="positions")
    masked_lm = keras_hub.layers.MaskedLMHead(
        token_embedding=encoder.token_embedding,
        intermediate_activation=gelu,
        layer_norm_epsilon=1e-12,
        name="masked_lm",
    )
    masked_lm.autocast = True  # without it mixed precision is refused
    pair = keras.layers.Dense(2, dtype="float32", name="pair")
    scores = {
        "masked_lm": masked_lm(encoder.output["sequence_output"], positions),
        "pair": pair(encoder.output["pooled_output"]),
    }
    load(masked_lm, pair, checkpoint)
    return keras.Model({**encoder.input, "positions": positions}, scores)


def load(masked_lm: Any, pair: Any, checkpoint: str) -> None:
    read = tf.train.load_checkpoint(checkpoint).get_tensor
    root = "cls/predictions/"
    for layer, name in (
        (masked_lm._intermediate_dense, "dense"),
        (masked_lm._intermediate_layer_norm, "LayerNorm"),
    ):
        for variable in layer.weights:
            path = f"{root}transform/{name}/{variable.name}"
            variable.assign(read(path))
    masked_lm._bias.assign(read(root + "output_bias"))
    root = "cls/seq_relationship/output_"
    pair.kernel.assign(read(root + "weights").T)
    pair.bias.assign(read(root + "bias"))


def compile_model(model: keras.Model, uses_xla: bool) -> None:
    optimizer = keras.optimizers.AdamW(
        worker.LEARNING_RATE,
        weight_decay=worker.WEIGHT_DECAY,
        epsilon=worker.EPSILON,
        global_clipnorm=worker.MAX_GRADIENT_NORM,
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        optimizer, {"masked_lm": loss, "pair": loss}, jit_compile=uses_xla
    )


def trainer(
    model: keras.Model, batch: dict[str, np.ndarray], uses_xla: bool
) -> Callable[[], float]:
    compile_model(model, uses_xla)
    x = {name: tf.constant(batch[ours]) for name, ours in INPUTS.items()}
    x["positions"] = tf.constant(batch["masked_lm_positions"])
    y = {
        "masked_lm": tf.constant(batch["masked_lm_ids"]),
        "pair": tf.constant(batch["next_sentence_labels"]),
    }

    def step() -> float:
        model.reset_metrics()  # else the loss would be a mean over steps
        return float(model.train_on_batch(x, y, return_dict=True)["loss"])

    return step


def loss(model: keras.Model, batch: dict[str, np.ndarray]) -> float:
    scores = model(
        {
            **{name: batch[ours] for name, ours in INPUTS.items()},
            "positions": batch["masked_lm_positions"],
        },
        training=False,
    )
    of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return of(batch["masked_lm_ids"], scores["masked_lm"]) + of(
        batch["next_sentence_labels"], scores["pair"]
    )


def encoder_step(
    encoder: Any, batch: dict[str, np.ndarray], uses_xla: bool
) -> Callable[[], dict[str, Any]]:
    @tf.function(jit_compile=uses_xla)
    def forward(x: Any) -> list[Any]:
        outputs = encoder(x, training=False)
        names = ("sequence_output", "pooled_output")
        return [tf.cast(outputs[name], tf.float32) for name in names]

    def step() -> dict[str, Any]:
        x = {name: tf.constant(batch[ours]) for name, ours in INPUTS.items()}
        sequence, pooled = forward(x)
        return {"sequence": sequence.numpy(), "pooled": pooled.numpy()}

    return step


def main() -> None:
    job = worker.read_job()
    policy = "mixed_bfloat16" if job.is_bfloat16 else "float32"
    if "bf16 weights" in job.variant:
        policy = "bfloat16"
    keras.config.set_dtype_policy(policy)
    uses_xla = job.variant.startswith("xla")
    encoder = keras_hub.models.BertBackbone.from_preset(
        job.hugging_face, dtype=policy
    )
    if job.trains:
        model = make_model(encoder, job.checkpoint)
    worker.work(
        job,
        lambda: loss(model, job.batch),
        lambda: trainer(model, job.batch, uses_xla),
        lambda: encoder_step(encoder, job.batch, uses_xla),
    )


if __name__ == "__main__":
    main()
