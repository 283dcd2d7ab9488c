"""Where a run gets its teacher, if it names one. What a teacher needs is
imported only then."""

import dataclasses

from bert_keras.errors import InputError
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.tasks.fine_tuning import FineTuningTask


def with_teacher(
    task: FineTuningTask, distillation: TaskDistillation
) -> FineTuningTask:
    """The task as it is learnt from a teacher, if one is named.

    Raises:
        InputError: the teacher is not one for the task, or only its settings
            are given.
    """
    if distillation.teacher_model_dir:
        from bert_keras.tasks.distillation.fine_tuning import DistilledTask

        return DistilledTask(task, distillation)
    if distillation != TaskDistillation():
        raise InputError(
            "`distillation_temperature` and `distillation_weight` are for a "
            "model with a teacher; give `teacher_model_dir`, or leave them out"
        )
    # which the run's settings say
    none = dict.fromkeys(dataclasses.asdict(distillation))
    task.loss_settings = {**task.loss_settings, **none}
    return task
