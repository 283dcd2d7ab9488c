"""TensorFlow's Model Garden, for steps.py: a training step or a forward pass.

In an environment with tf-models-official and tf-keras. The step is its
MaskedLMTask's, on its BertEncoder. Variants: graph or xla.
"""

import os
import re
from collections.abc import Callable
from typing import Any

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
import tf_keras
import worker
from official.modeling.optimization import legacy_adamw
from official.nlp.configs import bert, encoders
from official.nlp.tasks import masked_lm

INPUTS = {
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "input_type_ids": "segment_ids",
}
# Its names of variables to Google's, one after another.
NAMES = (
    (r":0$", ""),
    (r"^bert/cls/", "cls/"),
    (r"^(bert/next_sentence/pooler_dense|pooler_transform)/", "pooler/dense/"),
    (r"^bert/next_sentence/logits/", "cls/seq_relationship/output_"),
    (r"output_kernel$", "output_weights"),
    (r"output_bias/bias", "output_bias"),
    (r"^(word|position|type)_.*", r"embeddings/\1_embeddings"),
    (r"type_embeddings", "token_type_embeddings"),
    (r"^embeddings/layer_norm", "embeddings/LayerNorm"),
    (r"self_attention_layer_norm", "attention/output/LayerNorm"),
    (r"self_attention/attention_output", "attention/output/dense"),
    (r"self_attention", "attention/self"),
    (r"intermediate/", "intermediate/dense/"),
    (r"(?<!attention)/output/(?!dense|LayerNorm)", "/output/dense/"),
    (r"output_layer_norm", "output/LayerNorm"),
    (r"^transformer/", "encoder/"),
    (r"^(?!cls/)", "bert/"),
)  # fmt: skip


def make_task(config: dict[str, Any]) -> masked_lm.MaskedLMTask:
    encoder = encoders.BertEncoderConfig(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_attention_heads=config["num_attention_heads"],
        intermediate_size=config["intermediate_size"],
        type_vocab_size=config["type_vocab_size"],
        max_position_embeddings=config["max_position_embeddings"],
    )
    head = bert.ClsHeadConfig(
        inner_dim=config["hidden_size"],
        num_classes=2,
        dropout_rate=0.0,
        name="next_sentence",
    )
    settings = masked_lm.MaskedLMConfig(
        model=bert.PretrainerConfig(
            encoder=encoders.EncoderConfig(type="bert", bert=encoder),
            cls_heads=[head],
        )
    )
    settings.train_data.use_next_sentence_label = True
    return masked_lm.MaskedLMTask(settings)


def features(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    theirs = {ours: name for name, ours in INPUTS.items()}
    return {
        theirs.get(name, name): tf.constant(value)
        for name, value in batch.items()
    }


def load(model: tf_keras.Model, checkpoint: str) -> None:
    reader = tf.train.load_checkpoint(checkpoint)
    for variable in model.variables:
        name = variable.name
        for pattern, replacement in NAMES:
            name = re.sub(pattern, replacement, name)
        value = reader.get_tensor(name)
        if name == "cls/seq_relationship/output_weights":
            value = value.T
        variable.assign(value.reshape(variable.shape))


def trainer(
    task: masked_lm.MaskedLMTask,
    model: tf_keras.Model,
    batch: dict[str, tf.Tensor],
    uses_xla: bool,
) -> Callable[[], float]:
    optimizer = legacy_adamw.AdamWeightDecay(
        worker.LEARNING_RATE,
        epsilon=worker.EPSILON,
        weight_decay_rate=worker.WEIGHT_DECAY,
        exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"],
        gradient_clip_norm=worker.MAX_GRADIENT_NORM,
    )
    metrics = task.build_metrics()

    @tf.function(jit_compile=uses_xla)
    def run(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        return task.train_step(batch, model, optimizer, metrics)["loss"]

    return lambda: run(batch).numpy().item()


def encoder_step(
    model: tf_keras.Model, batch: dict[str, np.ndarray], uses_xla: bool
) -> Callable[[], dict[str, Any]]:
    @tf.function(jit_compile=uses_xla)
    def forward(x: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        outputs = model.encoder_network(x, training=False)
        names = ("sequence_output", "pooled_output")
        return [tf.cast(outputs[name], tf.float32) for name in names]

    inputs = {name: batch[ours] for name, ours in INPUTS.items()}

    def step() -> dict[str, Any]:
        sequence, pooled = forward(
            {name: tf.constant(value) for name, value in inputs.items()}
        )
        return {"sequence": sequence.numpy(), "pooled": pooled.numpy()}

    return step


def main() -> None:
    job = worker.read_job()
    if job.is_bfloat16:
        tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    task = make_task(job.config())
    model = task.build_model()
    batch = features(job.batch)
    model(batch)  # builds the heads
    load(model, job.checkpoint)
    uses_xla = job.variant == "xla"

    def loss() -> Any:
        return task.validation_step(batch, model, task.build_metrics())["loss"]

    worker.work(
        job,
        loss,
        lambda: trainer(task, model, batch, uses_xla),
        lambda: encoder_step(model, job.batch, uses_xla),
    )


if __name__ == "__main__":
    main()
