"""run_multiple_choice.py's work: questions in, scores and predictions out.

Devlin et al. 2018, section 4.4.

Shapes: C choices of a question.
"""

import dataclasses
import functools
import math
import statistics
from collections.abc import Iterable, Sequence

import numpy as np

from bert_keras.data.input_features import InputFeatures, describe_lengths
from bert_keras.errors import with_flags
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.classification.model import LABELS
from bert_keras.tasks.fine_tuning import (
    FineTuningTask,
    TrainingData,
    labelled_rows,
    train_losses,
)
from bert_keras.tasks.metrics import diagnose_losses
from bert_keras.tasks.multiple_choice.data import (
    Entry,
    MultipleChoiceExample,
    describe,
    encode_questions,
    pad_choices,
    read_questions,
)
from bert_keras.tasks.multiple_choice.model import (
    NUM_CHOICES,
    MultipleChoice,
    log_shares,
)
from bert_keras.tasks.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class Problem:
    """Questions for each purpose; none for what is not wanted."""

    train: list[MultipleChoiceExample]
    evaluation: list[MultipleChoiceExample]
    prediction: list[MultipleChoiceExample]


def read_problem(
    train_file: str | Iterable[Entry] | None,
    eval_file: str | Iterable[Entry] | None,
    predict_file: str | None,
) -> Problem:
    """Reads names and globs of files, or what such files hold; None where they
    are not used."""
    problem = Problem([], [], [])
    for argument, path, questions in (
        ("train_file", train_file, problem.train),
        ("eval_file", eval_file, problem.evaluation),
        ("predict_file", predict_file, problem.prediction),
    ):
        if path is not None:
            has_labels = argument != "predict_file"
            questions += read_questions(path, argument, has_labels)
            shown = f"={path}" if isinstance(path, str) else ""
            print(with_flags(f"`{argument}{shown}`: {describe(questions)}"))
    return problem


class MultipleChoiceTask(FineTuningTask):
    """Choosing among texts, fine-tuned."""

    problem: Problem
    metric_names: tuple[str, ...] = ("eval_accuracy", "eval_loss")

    def make_model(self, config: BertConfig) -> MultipleChoice:
        return MultipleChoice(config)

    def prepare(self) -> None:
        if self.problem.evaluation:
            _ = self._held_out

    def training_data(self) -> TrainingData:
        questions = self.problem.train
        encoded = self._encode(questions)
        rows, most = pad_choices(encoded)
        return labelled_rows(
            rows,
            {
                LABELS: np.array([[q.label] for q in questions], np.int32),
                NUM_CHOICES: np.array([[len(e)] for e in encoded], np.int32),
            },
            len(encoded),
            packs=True,
            group_size=most,
        )

    def evaluate(self, trainer: Trainer) -> dict[str, float]:
        shares = self._shares(
            trainer, self._held_out, self.config.eval_batch_size
        )
        pairs = zip(shares, self.problem.evaluation, strict=True)
        own = [(logs.argmax() == q.label, -logs[q.label]) for logs, q in pairs]
        hits, losses = zip(*own, strict=True)
        return {
            "eval_accuracy": float(np.mean(hits)),
            "eval_loss": float(np.mean(losses)),
        }

    def compared_on(self) -> Iterable[tuple[object, ...]]:
        return (
            (x.context, x.choices, x.label) for x in self.problem.evaluation
        )

    def diagnosis(self, trainer: Trainer) -> str | None:
        """Tells a training loss that never fell below guessing's."""
        if not self.problem.train:
            return None
        numbers = (len(question.choices) for question in self.problem.train)
        guess = statistics.fmean(map(math.log, numbers))
        losses = train_losses(trainer.folder)
        return diagnose_losses(losses, guess, "guessing a choice")

    def predict(self, trainer: Trainer) -> None:
        """Writes test_results.tsv: a line a question, a share a choice."""
        asked = self._encode(self.problem.prediction)
        logs = self._shares(trainer, asked, self.config.predict_batch_size)
        shares = (np.exp(x).astype(np.float32) for x in logs)
        lines = ("\t".join(map(str, row)) + "\n" for row in shares)
        trainer.write_result("test_results.tsv", "".join(lines), "predict_file")

    @functools.cached_property
    def _held_out(self) -> list[list[InputFeatures]]:
        return self._encode(self.problem.evaluation)

    def _encode(
        self, questions: Sequence[MultipleChoiceExample]
    ) -> list[list[InputFeatures]]:
        length = self.settings.max_seq_length
        encoded = encode_questions(questions, self.tokenizer, length)
        lengths = [len(row.input_ids) for rows in encoded for row in rows]
        print(
            f"{len(questions):,} questions, {len(lengths):,} choices of "
            f"{describe_lengths(lengths)}"
        )
        return encoded

    def _shares(
        self,
        trainer: Trainer,
        encoded: list[list[InputFeatures]],
        batch_size: int,
    ) -> list[np.ndarray]:
        """Log-probabilities [C] of each question."""
        return [*map(log_shares, self.outputs(trainer, encoded, batch_size))]
