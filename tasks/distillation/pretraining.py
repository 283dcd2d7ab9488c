"""Distillation at pre-training: a masked language model taught by another.

Sanh et al. 2019 (DistilBERT), section 2, the triple loss, and section 3, the
student and its first weights. What the paper leaves open is as in the authors'
distiller.py. A student of a BERT has no token types, as theirs. The teacher is
shown the records' ones, as it was trained; theirs reads zeros.

Shapes: B batch, S positions, H hidden size, V vocabulary, P masked predictions,
Q positions of soft targets (P or S).
"""

import dataclasses
import re
from collections.abc import Sequence

from keras import ops

from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.attention import vectors_at
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.heads import cross_entropy
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks import checkpoint_compatibility
from bert_keras.tasks.distillation.config import (
    DistilBertLoss,
    StudentConfig,
    evenly_spaced,
)
from bert_keras.tasks.distillation.teacher import (
    Distilled,
    config_file,
    load_teacher,
)
from bert_keras.tasks.packed_inputs import encode, is_packed
from bert_keras.tasks.pretraining.model import MaskedLm
from bert_keras.tasks.pretraining.task import PretrainingConfig, PretrainingTask
from bert_keras.tasks.run_context import (
    Devices,
    RunConfig,
    check_not_overwritten,
)


def student_config(teacher: BertConfig, num_layers: int) -> BertConfig:
    """The teacher's, but for the depth and, of a BERT's, the token types."""
    if teacher.is_modern:
        raise InputError(
            "`teacher_model_dir` has a modernbert, whose layers are not alike, "
            "so that a student cannot have some of them; expected another "
            "family"
        )
    config = dataclasses.replace(
        teacher, num_hidden_layers=num_layers, other={}
    )
    if teacher.family != "bert":
        return config
    return dataclasses.replace(config, family="distilbert", type_vocab_size=0)


class Distillation(Distilled):
    """A student, the teacher that it learns from, and the triple loss."""

    metric_names = (*MaskedLm.metric_names, "soft_target_loss", "cosine_loss")

    def __init__(
        self,
        config: BertConfig,
        teacher_config: BertConfig,
        settings: DistilBertLoss,
    ):
        """`config`: the student's, as wide as the teacher's."""
        super().__init__(MaskedLm(config))
        self.teacher = MaskedLm(teacher_config)
        self.settings = settings
        self.predictions = self.student.predictions

    def copy_layers(self, layers: Sequence[int]) -> None:
        """Makes these layers of the teacher the student's, in order; and what
        else both have: embeddings, with token type 0 in the positions where the
        student has none, and the head. The pooler stays: nothing trains it.
        """
        theirs = {b.name: b for b in self.teacher.mappings()}
        segments = theirs.get("bert/embeddings/token_type_embeddings")
        has_none = not self.student.encoder.config.type_vocab_size
        for mapping in self.mappings():
            name = re.sub(
                r"layer_(\d+)",
                lambda found: f"layer_{layers[int(found[1])]}",
                mapping.name,
            )
            if "/pooler/" in name:
                continue
            value = theirs[name].read()
            if name.endswith("position_embeddings") and segments and has_none:
                value = value + segments.read()[0]
            mapping.write(value)

    def totals(self, batch: Batch) -> dict[str, Tensor]:
        return {
            "soft_targets": ops.sum(self._soft_places(batch)[1]),
            "masked_lm": ops.sum(batch["masked_lm_weights"]),
            "tokens": ops.sum(_token_weights(batch)),
        }

    def loss_fn(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """As of a TaskModel, by all features of pre-training records but those
        of next sentences: the means of the three parts, each times its weight,
        added up."""
        own = encode(self.student.encoder, batch, seed).sequence  # [B, S, H]
        shown = ops.stop_gradient(
            encode(self.teacher.encoder, batch, None).sequence
        )
        logits = _scores(self.student, own, batch["masked_lm_positions"])
        settings, softened = self.settings, logits
        places, weights = self._soft_places(batch)
        if not settings.soft_targets_at_masks:
            softened = _scores(self.student, own, places)
        targets = ops.stop_gradient(_scores(self.teacher, shown, places))
        temperature = settings.distillation_temperature
        distances = fused_ops.kl_divergence(softened, targets, temperature)
        total, count = _weighted(distances, weights)
        # Gradients fall with the square: Hinton et al. 2015, section 2.
        soft = temperature**2 * total, count
        masked = cross_entropy(
            logits, batch["masked_lm_ids"], batch["masked_lm_weights"]
        )
        cosine = _weighted(
            fused_ops.cosine_distance(own, shown), _token_weights(batch)
        )
        loss = sum(
            weight * ops.divide_no_nan(total, totals[name])
            for weight, total, name in (
                (settings.soft_target_weight, soft[0], "soft_targets"),
                (settings.masked_lm_weight, masked.loss, "masked_lm"),
                (settings.cosine_weight, cosine[0], "tokens"),
            )
        )
        return loss, {
            "soft_target_loss": soft,
            **masked.figures("masked_lm"),
            "cosine_loss": cosine,
        }

    def _soft_places(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """int [B, Q], and float32 [B, Q], 0 where there is nothing."""
        if self.settings.soft_targets_at_masks:
            return batch["masked_lm_positions"], batch["masked_lm_weights"]
        weights = _token_weights(batch)
        rows, length = ops.shape(weights)
        row = ops.arange(length, dtype="int32")[None]
        return ops.broadcast_to(row, (rows, length)), weights


def _scores(model: MaskedLm, sequence: Tensor, positions: Tensor) -> Tensor:
    """Logits [B, Q, V] of the vocabulary at int [B, Q]."""
    return model.word_scores(vectors_at(sequence, positions))


def _token_weights(batch: Batch) -> Tensor:
    """float32 [B, S]: 0 for padding, else 1."""
    name = "sequence_numbers" if is_packed(batch) else "input_mask"
    return ops.cast(batch[name] > 0, "float32")


def _weighted(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    return ops.sum(weights * values), ops.sum(weights)


class DistilledPretrainingTask(PretrainingTask):
    """Pre-training of a student, on the masked language model alone.

    Config and vocabulary are found with the teacher.
    """

    def __init__(
        self,
        student: StudentConfig,
        loss: DistilBertLoss,
        devices: Devices,
        run: RunConfig,
        config: PretrainingConfig,
    ):
        folder = student.teacher_model_dir
        check_not_overwritten(run.output_dir, teacher_model_dir=folder)
        for name in ("bert_config_file", "model_size"):
            if given := getattr(run, name):
                raise InputError(
                    f"`{name}={given}` is of no use with `teacher_model_dir`, "
                    "from whose config the student's follows; leave it out"
                )
        if run.direction:
            raise InputError(
                f"`direction={run.direction}` is of no use with "
                "`teacher_model_dir`: teacher and student read as the "
                "teacher's config says; leave it out"
            )
        super().__init__(
            devices,
            run,
            dataclasses.replace(config, next_sentence_prediction=False),
            dataclasses.replace(
                run,
                init_checkpoint=folder,
                bert_config_file=config_file(folder),
            ),
            dataclasses.asdict(student) | dataclasses.asdict(loss),
        )
        self.student = student
        self.loss = loss
        self.teacher_config = self.context.config
        self.layers = _layers(student, self.teacher_config.num_hidden_layers)
        own = student_config(self.teacher_config, len(self.layers))
        checkpoint_compatibility.check_config(own, run.init_checkpoint)
        self.context = dataclasses.replace(self.context, config=own)
        self.metric_names = ("loss", *Distillation.metric_names)

    def make_model(self, config: BertConfig) -> Distillation:
        return Distillation(config, self.teacher_config, self.loss)

    def load_others(self, model: Distillation) -> None:
        """The teacher as it is, the student as it begins."""
        load_teacher(model.teacher.mappings(), self.student.teacher_model_dir)
        if not self.student.random_student:
            model.copy_layers(self.layers)
            names = ", ".join(map(str, self.layers))
            print(f"the student has layers {names} of it")

    @property
    def begins_at_random(self) -> bool:
        return super().begins_at_random and self.student.random_student


def _layers(student: StudentConfig, teachers: int) -> tuple[int, ...]:
    """The teacher's layers that a student starts with."""
    number = student.num_student_layers
    if student.student_layers is None:
        return evenly_spaced(number or max(teachers // 2, 1), teachers)
    try:
        layers = tuple(int(text) for text in student.student_layers)
    except ValueError:
        layers = ()
    if not layers or not all(0 <= layer < teachers for layer in layers):
        raise InputError(
            f"`student_layers` is {','.join(student.student_layers)}; expected "
            "numbers with commas between them, of the teacher's layers from 0 "
            f"to {teachers - 1}"
        )
    if number not in (None, len(layers)):
        raise InputError(
            f"`student_layers` names {len(layers)} layers but "
            f"`num_student_layers` is {number}; leave one of them out"
        )
    return layers
