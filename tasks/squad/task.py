"""run_squad.py's work: questions from files, answers and what they score.

Upstream file: run_squad.py, whose records and JSON files these are.

Shapes: N windows, S positions.
"""

import dataclasses
import functools
import math
import os
import random
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bert_keras import files
from bert_keras.data.input_features import describe_lengths
from bert_keras.data.record_schema import span_features
from bert_keras.data.tfrecords import RecordWriter, encode
from bert_keras.errors import InputError, with_flags
from bert_keras.files import write_whole
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.fine_tuning import (
    FineTuningTask,
    TrainingData,
    labelled_rows,
    train_losses,
)
from bert_keras.tasks.metrics import diagnose_losses
from bert_keras.tasks.squad.data import SquadExample, describe, read_examples
from bert_keras.tasks.squad.evaluation import (
    best_thresholds,
    evaluate_v1,
    evaluate_v2,
    metric_names,
)
from bert_keras.tasks.squad.features import (
    SquadFeatures,
    make_windows,
    record_values,
)
from bert_keras.tasks.squad.model import QuestionAnsweringModel
from bert_keras.tasks.squad.postprocessing import (
    NOTHING,
    NULL_ODDS,
    Answerer,
    Prediction,
    logits_of,
    to_files,
)
from bert_keras.tasks.task_config import TASK, TaskConfig
from bert_keras.tasks.trainer import Trainer
from bert_keras.training.inference import with_progress

SHUFFLE_SEED = 12345  # upstream's, of the questions in train.tf_record


@dataclasses.dataclass(frozen=True)
class SquadConfig:
    """What is trained on and asked."""

    # each a path, or what has been read
    train_file: str | list[SquadExample] | None = None
    predict_file: str | list[SquadExample] | None = None  # None: nothing asked
    verbose_logging: bool = False
    padding_in_loss: bool = True  # as in QuestionAnsweringModel
    needs_answers: bool = False  # predict_file scores what is trained
    # The best threshold of null odds on predict_file takes the place of the
    # one in task.json.
    apply_best_null_threshold: bool = False


def _named(argument: str, source: str | list[SquadExample] | None) -> str:
    """An argument for an error, with its value if that is a path."""
    is_path = isinstance(source, str)
    return f"`{argument}={source}`" if is_path else f"`{argument}`"


def check_settings(problem: SquadConfig, settings: TaskConfig) -> None:
    """Raises an InputError if settings do not go together."""
    if settings.max_seq_length <= settings.max_query_length + 3:
        raise InputError(
            f"`max_seq_length` is {settings.max_seq_length}, which leaves no "
            "room beside a question of "
            f"`max_query_length={settings.max_query_length}` and 3 separators; "
            "raise the one or lower the other"
        )
    has_negative = settings.version_2_with_negative
    if problem.apply_best_null_threshold and not has_negative:
        raise InputError(
            "`apply_best_null_threshold` is for `version_2_with_negative`"
        )


class Questions(NamedTuple):
    """A file's, with their windows."""

    examples: list[SquadExample]
    windows: list[list[SquadFeatures]]

    @property
    def flat(self) -> list[SquadFeatures]:
        return [window for own in self.windows for window in own]


class SquadTask(FineTuningTask):
    """Answers in paragraphs, fine-tuned."""

    problem: SquadConfig
    eval_argument = "predict_file"

    def set_up(self) -> None:
        self.metric_names = metric_names(self.settings.version_2_with_negative)
        if self.problem.apply_best_null_threshold:
            self.metric_names = ("best_f1", *self.metric_names)
        self.guess_loss: float | None = None  # nats that guessing a token costs
        self.num_answered: int | None = None  # at the latest evaluation

    def make_model(self, config: BertConfig) -> QuestionAnsweringModel:
        return QuestionAnsweringModel.from_settings(
            config, self.settings, padding_in_loss=self.problem.padding_in_loss
        )

    def training_data(self) -> TrainingData:
        """The windows of all questions. By the number of questions upstream
        counts its epochs, though there are more windows."""
        examples = self._read("train_file", is_training=True)
        random.Random(SHUFFLE_SEED).shuffle(examples)
        self.trained = self._cut(examples, "train")
        windows = self.trained.flat
        if not windows:
            raise InputError(
                f"{_named('train_file', self.problem.train_file)} has nothing "
                "readable in its paragraphs; expected text to find answers in"
            )
        self.guess_loss = statistics.mean(
            math.log(len(window.row.input_ids)) for window in windows
        )
        starts = [[window.start_position] for window in windows]
        ends = [[window.end_position] for window in windows]
        return labelled_rows(
            [window.row for window in windows],
            {
                "start_positions": np.array(starts, np.int32),
                "end_positions": np.array(ends, np.int32),
            },
            len(examples),
            packs=not self.problem.padding_in_loss
            and self.settings.has_one_encoder,
        )

    def keep_training_data(self) -> None:
        self._write_records("train", self.trained.flat)

    def evaluate(self, trainer: Trainer) -> dict[str, float]:
        return self._evaluate(self._predictions(trainer))

    def diagnosis(self, trainer: Trainer) -> str | None:
        """Tells answers to nothing, or a loss that never fell."""
        if self.num_answered == 0 and any(e.golds for e in self.asked.examples):
            return (
                f"degenerate run: not one of {len(self.asked.examples)} "
                "questions is answered; another `seed`, a lower "
                "`learning_rate` or a higher `null_score_diff_threshold` may "
                "help"
            )
        if self.guess_loss is None:
            return None
        losses = train_losses(trainer.folder)
        return diagnose_losses(losses, self.guess_loss, "guessing a token")

    def compared_on(self) -> Iterable[tuple[object, ...]]:
        for x in self.asked.examples:
            yield x.question, x.paragraph.context, x.golds

    def prepare(self) -> None:
        """Reads predict_file: its faults are to show before the training."""
        if self.problem.predict_file is None:
            return
        missing = self._num_without_answers
        compares = self.config.selection.compares(self.context.run.do_train)
        if missing and (compares or self.problem.needs_answers):
            name = _named("predict_file", self.problem.predict_file)
            raise InputError(
                f"{name} has no answers for {missing} of its questions, so "
                "that models cannot be "
                + (
                    "compared by it; leave out `eval_steps` and `num_seeds`"
                    if compares
                    else "scored by it; leave out `evaluation`"
                )
            )
        if self.problem.apply_best_null_threshold and missing:
            raise InputError(
                "`apply_best_null_threshold` finds the threshold by the "
                f"answers in `predict_file`, but it has none for {missing} of "
                "its questions"
            )

    def predict(self, trainer: Trainer) -> None:
        """Writes the JSON files and, if answers are known, what they score."""
        predictions = self._predictions(trainer)
        if self._num_without_answers:
            print(
                f"not evaluated: {self._num_without_answers} of "
                f"{len(self.asked.examples)} questions have no answers given"
            )
        else:
            metrics = self._with_best_threshold(trainer, predictions)
            trainer.write_results(metrics, data="predict_file")
            self.check(trainer)
        results = to_files(self.asked.examples, predictions, self.settings)
        for name, text in results.items():
            trainer.write_result(name, text, "predict_file")
        if self.context.writes:  # what other questions or settings have left
            is_scored = not self._num_without_answers
            scores = set() if is_scored else {"eval_results.txt"}
            trainer.results.drop(scores | ({NULL_ODDS} - results.keys()))

    def score(self, trainer: Trainer) -> dict[str, float]:
        return self._with_best_threshold(trainer, self._predictions(trainer))

    def _with_best_threshold(
        self, trainer: Trainer, predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        """The metrics; by the best threshold, which becomes the model's, if
        that is asked for."""
        metrics = self._evaluate(predictions)
        if not self.problem.apply_best_null_threshold:
            return metrics
        best = metrics["best_f1_thresh"]
        print(f"null_score_diff_threshold is {best} from here on")
        self.settings = dataclasses.replace(
            self.settings, null_score_diff_threshold=best
        )
        stored = TaskConfig.from_folder(trainer.folder)
        if stored is not None and self.context.writes:
            path = os.path.join(trainer.folder, TASK)
            stored = dataclasses.replace(stored, null_score_diff_threshold=best)
            write_whole(path, stored.to_json().encode())
            print(f"written: {path}")
        return self._evaluate(predictions)

    @functools.cached_property
    def asked(self) -> Questions:
        """predict_file's questions."""
        found = self._read("predict_file", is_training=False)
        return self._cut(found, "eval")

    @property
    def _num_without_answers(self) -> int:
        return sum(example.golds is None for example in self.asked.examples)

    def _read(self, argument: str, is_training: bool) -> list[SquadExample]:
        source = getattr(self.problem, argument)
        assert source is not None, "the command has looked"
        examples = source
        if isinstance(source, str):
            examples = read_examples(
                files.local(source),
                self.settings.version_2_with_negative,
                is_training,
                self.problem.verbose_logging,
                self.settings.answer_offsets,
            )
        name = source if isinstance(source, str) else argument
        print(f"{name}: {describe(examples)}")
        return list(examples)

    def _cut(self, examples: list[SquadExample], name: str) -> Questions:
        """Questions with their windows, which are also written to
        name.tf_record (for training by `keep_training_data`).

        Prints how long the texts are and, on standard error, what the model
        does not read of them.
        """
        questions = Questions(
            examples, make_windows(examples, self.tokenizer, self.settings)
        )
        if name != "train":
            self._write_records(name, questions.flat)
        count, most = len(examples), self.settings.max_query_length
        print(
            f"{self._record_path(name)}: {count:,} questions, "
            f"{len(questions.flat):,} windows"
        )
        firsts = [windows[0] for windows in questions.windows if windows]
        cut = {id(w.paragraph): w.paragraph for w in firsts}.values()
        lengths = [window.question_length for window in firsts]
        if firsts:
            paragraphs = [len(each.tokens) for each in cut]
            print(
                f"questions of {describe_lengths(lengths)}; paragraphs of "
                f"{describe_lengths(paragraphs)}"
            )
        if num_cut := sum(length > most for length in lengths):
            text = (
                f"{num_cut} of {count} questions are longer than "
                f"`max_query_length={most}` tokens and were cut"
            )
            print(with_flags(text), file=sys.stderr)
        if len(firsts) < count:
            has_null = self.settings.version_2_with_negative
            print(
                f"{count - len(firsts)} of {count} questions are about a "
                "paragraph with nothing readable in it and "
                + (
                    "are not trained on"
                    if name == "train"
                    else f"get the answer {'' if has_null else NOTHING!r}"
                ),
                file=sys.stderr,
            )
        return questions

    def _record_path(self, name: str) -> str:
        return os.path.join(self.context.run.output_dir, f"{name}.tf_record")

    def _write_records(self, name: str, windows: list[SquadFeatures]) -> None:
        """Writes the records that upstream trains on, or predicts."""
        if not self.context.writes:
            return
        length = self.settings.max_seq_length
        features = span_features(length, has_answers=name == "train")
        with RecordWriter([self._record_path(name)], "output_dir") as writer:
            for number, window in enumerate(
                with_progress(windows, len(windows), " windows", "records")
            ):
                values = record_values(number, window, length)
                writer.write(encode(features, values))

    def _predictions(self, trainer: Trainer) -> list[Prediction]:
        examples, windows = self.asked
        rows = [[window.row for window in own] for own in windows]
        outputs = self.outputs(trainer, rows, self.config.predict_batch_size)
        answerer = Answerer(self.tokenizer, self.settings)
        return [
            answerer.answer(example, own, logits_of(own, found))
            for example, own, found in zip(
                examples, windows, outputs, strict=True
            )
        ]

    def _evaluate(self, predictions: Sequence[Prediction]) -> dict[str, float]:
        golds = [example.golds or () for example in self.asked.examples]
        threshold = self.settings.null_score_diff_threshold
        texts = [prediction.text(threshold) for prediction in predictions]
        self.num_answered = sum(map(bool, texts))
        if not self.settings.version_2_with_negative:
            return evaluate_v1(texts, golds)
        best_texts = [prediction.best_text for prediction in predictions]
        odds = [prediction.null_odds or 0.0 for prediction in predictions]
        return {
            **evaluate_v2(texts, golds),
            **best_thresholds(best_texts, odds, golds),
        }
