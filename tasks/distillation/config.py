"""What a student learns from a teacher: settings, for flags to take defaults
from, without Keras.

Sanh et al. 2019 (DistilBERT), section 2, names the losses; their weights are
those of the command in the authors' README, temperature and places those of
their train.py.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class DistilBertLoss:
    """Of pre-training: tasks/distillation/pretraining.py."""

    distillation_temperature: float = 2.0  # by which both logits are divided
    soft_target_weight: float = 5.0
    masked_lm_weight: float = 2.0
    cosine_weight: float = 1.0
    soft_targets_at_masks: bool = False  # not at every token


@dataclasses.dataclass(frozen=True)
class StudentConfig:
    """What a student of pre-training is before it learns."""

    teacher_model_dir: str
    num_student_layers: int | None = None  # None: half the teacher's
    student_layers: list[str] | None = None  # the teacher's; None: spread out
    random_student: bool = False  # begins at random, not with these layers


@dataclasses.dataclass(frozen=True)
class TaskDistillation:
    """Of fine-tuning: tasks/distillation/fine_tuning.py."""

    teacher_model_dir: str | None = None  # None: no teacher
    distillation_temperature: float = 2.0
    distillation_weight: float = 0.5  # the task's own loss has the rest


def evenly_spaced(number: int, teachers: int) -> tuple[int, ...]:
    """Which of the teacher's layers a student of `number` begins with.

    The first, the last and what lies between: 6 of 12 are 0, 2, 4, 7, 9, 11, as
    in the authors' extract_distilbert.py; 3 of 6 are 0, 2, 5; 1 is the first.
    """
    step = (teachers - 1) / max(number - 1, 1)
    return tuple(round(i * step) for i in range(number))
