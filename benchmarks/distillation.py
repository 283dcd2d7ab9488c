"""A teacher of six layers and students of three: size, speed and scores.

    python benchmarks/distillation.py --model=$MINILM --text_file=$TEXT \\
        --data_dir=$GLUE --output_dir=/tmp/distillation

$MINILM is a model folder, also Hugging Face's, with its vocabulary; $TEXT has
one sentence a line and a blank line between documents; $GLUE/MRPC the task's
files. The teacher is that model after some steps of masked language modelling,
for whose head the folder has no weights. Each row of the table is another way
to train a student of it (Sanh et al. 2019, table 4: without each loss, from
random weights), then to fine-tune it on MRPC with several seeds. What is in
output_dir already is not run again.
"""

import argparse
import dataclasses
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from kept_runs import KeptRuns, results

ROOT = Path(__file__).parent.parent
EVAL_BATCH_SIZE, MAX_EVAL_STEPS = 32, 30
SPEED_ROWS, SPEED_LENGTH, SPEED_PAIRS = 32, 128, 10
MINIMUM_RATE = 1e-12  # for a student that is to stay as it begins


@dataclasses.dataclass(frozen=True)
class Student:
    """A row of the table."""

    name: str
    folder: str
    flags: tuple[str, ...] = ()
    is_taught_the_task: bool = False


def weights(soft: float, masked: float, cosine: float) -> tuple[str, ...]:
    return (
        f"--soft_target_weight={soft}",
        f"--masked_lm_weight={masked}",
        f"--cosine_weight={cosine}",
    )


UNTRAINED = Student("its layers, not trained", "untrained")
STUDENTS = (
    Student("triple loss", "triple", weights(5, 2, 1)),
    Student("without soft targets", "no_soft", weights(0, 2, 1)),
    Student("without masked LM", "no_masked", weights(5, 0, 1)),
    Student("without cosine", "no_cosine", weights(5, 2, 0)),
    UNTRAINED,
    Student("triple loss, and taught MRPC", "triple", weights(5, 2, 1), True),
    Student(
        "triple loss, from random weights",
        "random",
        (*weights(5, 2, 1), "--random_student"),
    ),
    Student("masked LM alone", "masked_alone", weights(0, 2, 0)),
)


class Bench(KeptRuns):
    """Commands of this repository and what they leave in one folder."""

    def __init__(self, flags: argparse.Namespace):
        super().__init__(flags.output_dir)
        self.flags = flags
        self.teacher = self.folder / "teacher"

    def make_data(self) -> None:
        texts = self.split(self.flags.text_file)
        for path in texts:
            records = path.with_suffix(".tfrecord")
            self.run(
                records,
                "create_pretraining_data.py",
                f"--input_file={path}",
                f"--output_file={records}",
                f"--vocab_file={self.flags.model}/vocab.txt",
                *self._lengths(),
                *("--sequence_format=full_sentences", "--dynamic_masking"),
                "--dupe_factor=1",
            )

    def train_teacher(self) -> dict[str, float]:
        return self._pretrain(
            self.teacher,
            self.flags.teacher_steps,
            self.flags.teacher_learning_rate,
            f"--init_checkpoint={self.flags.model}",
        )

    def distill(self, student: Student) -> dict[str, float]:
        trains = student is not UNTRAINED
        return self._pretrain(
            self.folder / student.folder,
            self.flags.steps if trains else 1,
            self.flags.learning_rate if trains else MINIMUM_RATE,
            f"--teacher_model_dir={self.teacher}",
            f"--num_student_layers={self.flags.num_student_layers}",
            "--soft_targets_at_masks"
            if self.flags.soft_targets_at_masks
            else "--nosoft_targets_at_masks",
            *student.flags,
        )

    def _pretrain(
        self, folder: Path, steps: int, learning_rate: float, *more: str
    ) -> dict[str, float]:
        """What the model says of held-out text."""
        self.run(
            folder / "eval_results.txt",
            "run_pretraining.py",
            *("--do_train", "--do_eval"),
            f"--input_file={self.folder}/train.tfrecord",
            f"--eval_file={self.folder}/held_out.tfrecord",
            f"--vocab_file={self.flags.model}/vocab.txt",
            f"--output_dir={folder}",
            *self._lengths(),
            f"--train_batch_size={self.flags.train_batch_size}",
            f"--num_train_steps={steps}",
            f"--num_warmup_steps={steps // 10}",
            f"--learning_rate={learning_rate}",
            f"--eval_batch_size={EVAL_BATCH_SIZE}",
            f"--max_eval_steps={MAX_EVAL_STEPS}",
            f"--precision={self.flags.precision}",
            "--bias_correction",
            *more,
        )
        return results(folder)

    def fine_tune(self, model: Path, *more: str) -> dict[str, list[float]]:
        """Accuracy and F1 on MRPC's dev, seed by seed."""
        folder = Path(f"{model}-{'taught-' if more else ''}MRPC")
        self.run(
            folder / "seeds.json",
            "run_classifier.py",
            *("--do_train", "--task_name=MRPC"),
            f"--data_dir={os.path.join(self.flags.data_dir, 'MRPC')}",
            f"--init_checkpoint={model}",
            f"--output_dir={folder}",
            "--max_seq_length=128",
            f"--learning_rate={self.flags.fine_tuning_rate}",
            f"--num_train_epochs={self.flags.num_train_epochs}",
            *("--seed=1", f"--num_seeds={self.flags.num_seeds}"),
            f"--precision={self.flags.precision}",
            "--bias_correction",
            *more,
        )
        seeds = json.loads((folder / "seeds.json").read_text())["seeds"]
        return {
            name: [100 * m[f"eval_{name}"] for m in seeds.values()]
            for name in ("accuracy", "f1")
        }

    def _lengths(self) -> tuple[str, str]:
        length = self.flags.max_seq_length
        return (
            f"--max_seq_length={length}",
            f"--max_predictions_per_seq={round(0.15 * length)}",
        )


def cells(
    name: str,
    figures: dict[str, float],
    scores: dict[str, list[float]],
    teachers: dict[str, list[float]],
) -> Iterator[str]:
    yield name
    yield f"{figures['masked_lm_loss']:.3f}"
    yield f"{100 * figures['masked_lm_accuracy']:.1f}"
    for metric, values in scores.items():
        each = ", ".join(f"{value:.1f}" for value in values)
        median = statistics.median(values)
        kept = 100 * median / statistics.median(teachers[metric])
        yield f"**{median:.1f}** ({each}), {kept:.0f} %"


def rows(bench: Bench) -> Iterator[list[str]]:
    figures = bench.train_teacher()
    teachers = bench.fine_tune(bench.teacher)
    yield list(cells("teacher", figures, teachers, teachers))
    best = json.loads(Path(f"{bench.teacher}-MRPC", "seeds.json").read_text())
    taught = Path(f"{bench.teacher}-MRPC", f"seed-{best['best_seed']}")
    for student in STUDENTS:
        figures = bench.distill(student)
        more = [f"--teacher_model_dir={taught}"]
        scores = bench.fine_tune(
            bench.folder / student.folder,
            *(more if student.is_taught_the_task else ()),
        )
        yield list(cells(student.name, figures, scores, teachers))


def compare_speed(folders: list[Path]) -> None:
    """Parameters, and pieces a second of an encoder on this machine."""
    sys.path.insert(0, str(ROOT))
    import numpy as np
    import tensorflow as tf

    from bert_keras.modeling.config import BertConfig
    from bert_keras.tasks.export import EncoderModel
    from bert_keras.training.inference import Predictor

    shape = SPEED_ROWS, SPEED_LENGTH
    batch = {
        "input_ids": np.full(shape, 999, np.int32),
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": np.zeros(shape, np.int32),
    }
    predictors, seconds = [], []
    for folder in folders:
        config = BertConfig.from_json_file(str(folder / "bert_config.json"))
        model = EncoderModel(config)
        count = sum(
            math.prod(variable.shape)
            for variable in model.encoder.weights
            if config.traits.has_pooler or "/pooler/" not in variable.path
        )
        print(f"{folder.name}: {count:,} parameters")
        predictors.append(
            Predictor(model.outputs_by_name, tf.distribute.get_strategy())
        )
    for _ in range(1 + SPEED_PAIRS):  # the first compiles
        for predictor in predictors:
            start = time.monotonic()
            predictor(batch)
            seconds.append(time.monotonic() - start)
    pairs = zip(seconds[2::2], seconds[3::2], strict=True)
    ratios = sorted(teacher / student for teacher, student in pairs)
    print(
        f"{SPEED_ROWS} x {SPEED_LENGTH} pieces: the student takes "
        f"1 / {statistics.median(ratios):.2f} of the teacher's time (of "
        f"{len(ratios)} pairs: {ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--text_file", required=True)
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--num_student_layers", type=int, default=3)
    parser.add_argument("--max_seq_length", type=int, default=64)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--teacher_steps", type=int, default=400)
    parser.add_argument("--teacher_learning_rate", type=float, default=1e-4)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--learning_rate", type=float, default=2e-4)
    parser.add_argument("--soft_targets_at_masks", action="store_true")
    parser.add_argument("--fine_tuning_rate", type=float, default=5e-5)
    parser.add_argument("--num_train_epochs", type=float, default=3.0)
    parser.add_argument("--num_seeds", type=int, default=3)
    parser.add_argument("--precision", default="mixed_bfloat16")
    flags = parser.parse_args()
    if flags.num_seeds < 2:
        parser.error("--num_seeds: expected 2 or more, for seeds.json")
    bench = Bench(flags)
    bench.make_data()
    columns = ["model", "held-out loss", "accuracy", "MRPC accuracy", "F1"]
    print(f"\n| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|", flush=True)
    for row in rows(bench):
        print(f"| {' | '.join(row)} |", flush=True)
    compare_speed([bench.teacher, bench.folder / STUDENTS[0].folder])


if __name__ == "__main__":
    main()
