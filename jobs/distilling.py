"""Models that learn from a teacher: where it is read, what fits it.

run_pretraining.py's students (tasks/distillation.py) and what is fine-tuned
with a teacher's logits (tasks/taught.py).
"""

import dataclasses
from collections.abc import Sequence

from input_error import InputError
from jobs import fitting, start_checks
from modeling.config import BertConfig
from modeling.conversion import Binding, load_checkpoint
from modeling.hugging_face import model_config_file
from tasks.distillation import Distillation, student_config
from tasks.lessons import Student, TripleLoss, evenly_spaced


def reading_teacher(
    run: fitting.RunConfig, teacher_model_dir: str
) -> fitting.RunConfig:
    """A run that finds its config and vocabulary with the teacher.

    Raises:
        InputError: it has no config, or another one is named.
    """
    if run.bert_config_file:
        raise InputError(
            f"--bert_config_file={run.bert_config_file} is of no use with "
            "--teacher_model_dir, from whose config the student's follows; "
            "leave it out"
        )
    if model_config_file(teacher_model_dir) is None:
        raise InputError(
            f"--teacher_model_dir={teacher_model_dir} has no bert_config.json "
            "or config.json; expected a model folder"
        )
    return dataclasses.replace(run, init_checkpoint=teacher_model_dir)


def make_student(
    student: Student,
    loss: TripleLoss,
    teacher_config: BertConfig,
    place: fitting.Place,
    run: fitting.RunConfig,
    seed: int,
) -> Distillation:
    """Both models: the teacher as it is, the student as it begins."""
    layers = _layers(student, teacher_config.num_hidden_layers)
    config = student_config(teacher_config, len(layers))
    start_checks.check_config(config, run.init_checkpoint)
    model = fitting.make_model(
        lambda: Distillation(config, teacher_config, loss), place, run, seed
    )
    load_teacher(model.teacher.bindings(), student.teacher_model_dir)
    if not student.random_student:
        model.copy_layers(layers)
        print(f"the student has layers {', '.join(map(str, layers))} of it")
    return model


def _layers(student: Student, teachers: int) -> tuple[int, ...]:
    """Those of the teacher that the student begins with."""
    number = student.num_student_layers
    if student.student_layers is None:
        return evenly_spaced(number or max(teachers // 2, 1), teachers)
    try:
        layers = tuple(int(text) for text in student.student_layers)
    except ValueError:
        layers = ()
    if not layers or not all(0 <= layer < teachers for layer in layers):
        raise InputError(
            f"--student_layers is {','.join(student.student_layers)}; expected "
            "numbers with commas between them, of the teacher's layers from 0 "
            f"to {teachers - 1}"
        )
    if number not in (None, len(layers)):
        raise InputError(
            f"--student_layers names {len(layers)} layers but "
            f"--num_student_layers is {number}; leave one of them out"
        )
    return layers


def load_teacher(bindings: Sequence[Binding], folder: str) -> None:
    """Loads all of a teacher but what nothing looks at.

    Raises:
        InputError: something is missing that it would teach at random without.
    """
    report = load_checkpoint(bindings, folder)
    print(f"teacher: {report.source}, {len(report.loaded)} variables loaded")
    for name in report.missing:
        if "/pooler/" not in name or "output_bias" in report.loaded:
            raise InputError(
                f"--teacher_model_dir={folder} has no {name}, without which it "
                "would teach at random; expected a model that was trained for "
                "what it is to teach"
            )
