"""From settings to a pre-training task, with a teacher or without."""

import dataclasses
from collections.abc import Collection

from bert_keras.errors import InputError
from bert_keras.tasks.distillation.config import DistilBertLoss, StudentConfig
from bert_keras.tasks.pretraining.task import PretrainingConfig, PretrainingTask
from bert_keras.tasks.run_context import Devices, RunConfig

# What masks the records that have no masks.
MASKS = (
    "masked_lm_prob", "eval_masked_lm_prob", "do_whole_word_mask", "mask_share",
    "random_share",
)  # fmt: skip
LESSON = {
    field.name
    for kind in (StudentConfig, DistilBertLoss)
    for field in dataclasses.fields(kind)
}


def make_task(
    devices: Devices,
    run: RunConfig,
    config: PretrainingConfig,
    student: StudentConfig,
    loss: DistilBertLoss,
    given: Collection[str],
) -> PretrainingTask:
    """Pre-training, with a teacher if `student` names one.

    Args:
        given: names of the settings that do not merely have their defaults.

    Raises:
        InputError: records, model and settings do not fit each other.
    """
    if config.budget.given and "num_train_steps" in given:
        raise InputError(
            f"`num_train_steps` and `{config.budget.given[0]}` both say how "
            "long to train; give one of them"
        )
    if student.teacher_model_dir:
        if config.next_sentence_prediction:
            raise InputError(
                "`next_sentence_prediction` is not part of what a teacher "
                "teaches; leave it or `teacher_model_dir` out"
            )
        from bert_keras.tasks.distillation.pretraining import (
            DistilledPretrainingTask,
        )

        return DistilledPretrainingTask(student, loss, devices, run, config)
    for name in sorted(LESSON - {"teacher_model_dir"}):
        if name in given:
            raise InputError(
                f"`{name}` is for a model with a teacher; give "
                "`teacher_model_dir`, or leave it out"
            )
    # Settings of a teacher are stored as None where there is none.
    return PretrainingTask(
        devices, run, config, other_settings=dict.fromkeys(LESSON)
    )
