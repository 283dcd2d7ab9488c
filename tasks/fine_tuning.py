"""Fine-tuning as run_classifier.py, run_squad.py and their like do it.

A task says what is learnt and how it is scored; here is the rest: steps from
epochs, evaluation on the way, several seeds, and the command that predicts.
Devlin et al. 2018, section 4 and A.3; several seeds as Dodge et al. 2020.
"""

import abc
import contextlib
import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import keras
import tensorflow as tf

from bert_keras.data.batching import HostShard
from bert_keras.data.input_features import InputFeatures, bucket_by_length
from bert_keras.data.tokenizer_folder import OpenedTokenizer
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError
from bert_keras.files import write_json
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks import checkpoint_compatibility, dry_run, trainer
from bert_keras.tasks.classifier_head import ClassifierHead
from bert_keras.tasks.hugging_face_task import folder_task
from bert_keras.tasks.metrics import summarize
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.tasks.training_data import Data
from bert_keras.training.checkpoints import read_settings
from bert_keras.training.config import (
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)
from bert_keras.training.distribution import check_batch_size
from bert_keras.training.early_stopping import sort_key
from bert_keras.training.inference import Predictor, predict
from bert_keras.training.monitor import LOG

SEEDS = "seeds.json"  # what each of several seeds reached


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long, and how many at once."""

    train_batch_size: int
    num_train_epochs: float
    warmup_proportion: float  # of the steps
    seed: int


class Model(trainer.Model, Protocol):
    def forward(self, batch: dict[str, Any]) -> dict[str, Any]: ...


class FineTuningTask(Protocol):
    """What is fine-tuned: tasks subclass it for its defaults."""

    settings: TaskConfig
    loss_settings: Mapping[str, Any] = {}  # of the loss, beside `settings`
    metric_names: tuple[str, ...]  # of `evaluate`; the first is the main one

    @abc.abstractmethod
    def make_model(self, config: BertConfig) -> Model: ...

    def load_others(self, model: Any) -> None:
        """Loads what `model` learns from beside `init_checkpoint`, such as a
        teacher."""
        return

    @abc.abstractmethod
    def prepare(self) -> None:
        """Checks the other data, so that its faults show before training."""

    @abc.abstractmethod
    def training_data(self) -> Data: ...

    def keep_training_data(self) -> None:
        """Writes the records that upstream would have trained on, if it has
        any. Called when the run is known to be the one in output_dir."""
        return

    @abc.abstractmethod
    def evaluate(self, fitted: "TrainedModel") -> dict[str, float]:
        """The metrics on the data for it."""

    @abc.abstractmethod
    def check(self, fitted: "TrainedModel") -> None:
        """Warns of a trained model that has learnt nothing, by the evaluation
        that has just been made."""

    def report(self, fitted: "TrainedModel", step: int) -> None:
        """Writes eval_results.txt: `do_eval`."""
        metrics = self.evaluate(fitted)
        fitted.write_results({"global_step": step, **metrics})
        self.check(fitted)

    @abc.abstractmethod
    def predict(self, fitted: "TrainedModel", step: int) -> None:
        """Writes the files of predictions: `do_predict`."""


class TrainedModel(trainer.Trainer):
    """A run whose model also predicts."""

    model: Model

    @functools.cached_property
    def predictor(self) -> Predictor:
        return Predictor(self.model.forward, self.place.strategy)

    def outputs(
        self, rows: Sequence[InputFeatures], batch_size: int, max_length: int
    ) -> Iterator[dict[str, Any]]:
        """Each row's, in order; rows of like length are batched together.

        Args:
            batch_size: rows of `max_length` that are not too much at once.
        """
        fine_buckets = self.predictor.shapes_are_cheap
        batches = bucket_by_length(rows, batch_size, max_length, fine_buckets)
        return predict(self.predictor, batches, len(rows))


@dataclasses.dataclass(frozen=True)
class FineTuningConfig:
    """What the runs of any task share."""

    place: trainer.Devices
    run: trainer.RunConfig
    schedule: Schedule
    selection: ModelSelection
    optimizer: OptimizerConfig  # its numbers of steps follow from the data
    loop: LoopConfig
    config: BertConfig
    opened: OpenedTokenizer
    tokenizer: Tokenizer
    head: ClassifierHead


def set_up(
    place: trainer.Devices,
    run: trainer.RunConfig,
    schedule: Schedule,
    selection: ModelSelection,
    optimizer: OptimizerConfig,
    loop: LoopConfig,
    settings: TaskConfig,
    other_names: tuple[str, ...] = (),
) -> FineTuningConfig:
    """Reads config and vocabulary.

    Args:
        other_names: for the labels in `settings`, in the same order.

    Raises:
        InputError: they do not fit each other, or what is asked.
    """
    config = trainer.read_config(run, settings.max_seq_length)
    opened = trainer.need_tokenizer(run, config)
    tokenizer = opened.load()
    least = tokenizer.special_tokens.count(is_pair=True) + 1
    if settings.max_seq_length < least:
        raise InputError(
            f"`max_seq_length` is {settings.max_seq_length}; expected at least "
            f"{least}, for the special tokens of a pair and one token"
        )
    head = ClassifierHead(settings, other_names, run.keep_classifier_head)
    return FineTuningConfig(
        place,
        run,
        schedule,
        selection,
        optimizer,
        loop,
        config,
        opened,
        tokenizer,
        head,
    )


# Settings of the training that decide what a model's outputs mean.
TRAINED_WITH = (
    "target", "labels", "do_lower_case", "strip_accents", "bilstm",
    "second_direction", "feature_layers", "lstm_size",
)  # fmt: skip


def stored_settings(run: trainer.RunConfig) -> TaskConfig | None:
    """Settings of the model that is used or started from: those of task.json
    or, where output_dir has the state of another model, those of the state."""
    stored = None
    if not trainer.begins_anew(run):
        stored = TaskConfig.from_folder(run.output_dir)
    if trainer.uses_state(run.output_dir):
        began = read_settings(run.output_dir)
        fields = [field.name for field in dataclasses.fields(TaskConfig)]
        if "target" in began:
            values = {name: began[name] for name in fields if name in began}
            values["labels"] = tuple(began["labels"])
            values["bilstm"] = bool(began["bilstm"])
            state = TaskConfig(**values)
            if stored is None or _differing(state, stored, TRAINED_WITH):
                return state
    if stored is not None or not run.init_checkpoint:
        return stored
    return folder_task(run.init_checkpoint, run.tokenizer)


def _differing(
    one: TaskConfig, other: TaskConfig, names: Iterable[str]
) -> list[str]:
    return [x for x in names if getattr(one, x) != getattr(other, x)]


def check_use(
    settings: TaskConfig, trained: TaskConfig, output_dir: str
) -> None:
    """Compares the settings with which a model is used with its own.

    The labels of a model folder are compared where it is loaded, and may come
    in another order; those of the state of a run may not.

    Raises:
        InputError: its answers would be wrong.
    """
    fields = {field.name for field in dataclasses.fields(settings)}
    if not trainer.uses_state(output_dir):
        fields.remove("labels")
    if trained.takes_pairs is None:  # it is not known
        fields.remove("takes_pairs")
    for name in _differing(settings, trained, sorted(fields)):
        difference = (
            f"{name} is {getattr(settings, name)!r}, and the model was trained "
            f"with {getattr(trained, name)!r}"
        )
        if name in TRAINED_WITH:
            raise InputError(
                f"{difference}, and other answers would be wrong; leave out "
                f"`{name}`, or the argument or data that it follows from"
            )
        print(difference)


def second_direction(
    run: trainer.RunConfig, stored: TaskConfig | None
) -> str | None:
    """In which a second encoder reads, if there is one, or is one already in
    the model that is used or started from."""
    given = checkpoint_compatibility.second_direction(
        run.init_checkpoint, run.second_init_checkpoint
    )
    return given or (stored.second_direction if stored else None)


class FineTuning:
    """A task and its runs."""

    def __init__(self, task: FineTuningTask, setup: FineTuningConfig):
        self.task = task
        self.place = setup.place
        self.run = setup.run
        self.schedule = setup.schedule
        self.selection = setup.selection
        self.optimizer = setup.optimizer
        self.loop = setup.loop
        self.config = setup.config
        self.opened = setup.opened
        self.head = setup.head

    def train(self) -> tuple[TrainedModel, int]:
        """Trains with each seed; returns the best run, its model's step."""
        data = self._training_data()
        if self.selection.num_seeds == 1:
            fitted, step = self._train_one(data, self.schedule.seed, self.run)
        else:
            fitted, step = self._train_seeds(data)
        print(
            "to predict with it:\n"
            f"  python predict.py --model_dir={self.run.output_dir}"
        )
        return fitted, step

    def dry_run(self, do_train: bool) -> None:
        """Does what can be done without writing: `dry_run`, of several seeds
        with the first."""
        if not do_train:
            fitted = self._make(self.schedule.seed, self.run)
            dry_run.report_use(fitted)
            return
        data = self._training_data()
        seed = self.schedule.seed
        run = (
            self.run if self.selection.num_seeds == 1 else self._seed_run(seed)
        )
        fitted, training = self._prepare(data, seed, run)
        rows = data.num_rows
        text = (
            f"{data.num_examples:,} examples to count epochs by, {rows:,} rows"
        )
        dry_run.report_training(
            fitted,
            training,
            dry_run.Data(rows, text),
            self.task.settings.max_seq_length,
        )

    def _training_data(self) -> Data:
        check_batch_size(
            self.place.strategy,
            "train_batch_size",
            self.schedule.train_batch_size,
            self.loop.num_accumulation_steps,
        )
        if self._metric not in self.task.metric_names:
            raise InputError(
                f"`best_metric={self._metric}` is not among the metrics of "
                f"this task: {', '.join(self.task.metric_names)}"
            )
        return self.task.training_data()

    def restore(self) -> tuple[TrainedModel, int]:
        """The model as it is in output_dir, else in `init_checkpoint`."""
        fitted = self._make(self.schedule.seed, self.run)
        return fitted, fitted.restore()

    def _make(self, seed: int, run: trainer.RunConfig) -> TrainedModel:
        model = trainer.make_model(
            lambda: self.task.make_model(self.config), self.place, run, seed
        )
        self.task.load_others(model)
        return TrainedModel(
            model,
            self.config,
            self.place,
            run,
            self.opened,
            self.task.settings.to_json(),
            self.head,
        )

    def _train_one(
        self, data: Data, seed: int, run: trainer.RunConfig
    ) -> tuple[TrainedModel, int]:
        trainer.make_folder(run)
        trainer.claim_folder(run, self.place.host)
        fitted, training = self._prepare(data, seed, run)
        fitted.begin(training)
        if self.place.host.is_chief:
            self.task.keep_training_data()
        return fitted, fitted.train(training)

    def _prepare(
        self, data: Data, seed: int, run: trainer.RunConfig
    ) -> tuple[TrainedModel, trainer.TrainingPlan]:
        schedule, host = self.schedule, self.place.host
        metric, eval_steps = self._metric, self.selection.eval_steps
        fitted = self._make(seed, run)
        num_replicas = self.place.strategy.num_replicas_in_sync // host.count
        num_pieces = num_replicas * self.loop.num_accumulation_steps
        source = data.batches(
            schedule.train_batch_size,
            self.task.settings.max_seq_length,
            seed,
            HostShard(host.index, host.count),
            # Several batches in one call, as on a TPU, have one shape.
            num_pieces if data.packs and self.loop.steps_per_call == 1 else 0,
        )
        return fitted, trainer.TrainingPlan(
            source,
            self._optimizer_config(data),
            dataclasses.replace(self.loop, seed=seed),
            {
                **dataclasses.asdict(schedule),
                **dataclasses.asdict(self.task.settings),
                "patience": self.selection.patience,
                # They follow from epochs and proportion.
                "num_train_steps": None,
                "num_warmup_steps": None,
                # None without one, as earlier versions did not store it
                "bilstm": self.task.settings.bilstm or None,
                "second_init_checkpoint": run.second_init_checkpoint,
                "train_batch_size": schedule.train_batch_size,
                "seed": seed,
                "padding_in_loss": not data.packs,
                "eval_steps": eval_steps,
                "best_metric": metric if eval_steps else None,
                "training data": data.digest,
                **self.task.loss_settings,
            },
            fitted.make_early_stopping(
                self.selection, metric, lambda: self.task.evaluate(fitted)
            ),
            begins_at_random=not run.init_checkpoint,
            hints=self._length_hint(data),
        )

    def _optimizer_config(self, data: Data) -> OptimizerConfig:
        steps = int(
            data.num_examples
            / self.schedule.train_batch_size
            * self.schedule.num_train_epochs
        )
        if not steps:
            raise InputError(
                f"{data.num_examples} examples for "
                f"{self.schedule.num_train_epochs} epochs make no batch of "
                f"{self.schedule.train_batch_size}; lower "
                "`train_batch_size` or raise `num_train_epochs`"
            )
        return dataclasses.replace(
            self.optimizer,
            num_train_steps=steps,
            num_warmup_steps=int(steps * self.schedule.warmup_proportion),
        )

    def _length_hint(self, data: Data) -> list[str]:
        """A sentence if all rows are far shorter than they may be."""
        most = self.task.settings.max_seq_length
        if 2 * data.longest > most:
            return []
        return [
            f"the longest of {data.num_rows:,} rows has {data.longest} of "
            f"`max_seq_length={most}` positions; "
            f"`max_seq_length={data.longest}` trains the same in less memory"
        ]

    @property
    def _metric(self) -> str:
        return self.selection.best_metric or self.task.metric_names[0]

    def _train_seeds(self, data: Data) -> tuple[TrainedModel, int]:
        first = self.schedule.seed
        outcomes: dict[int, tuple[int, dict[str, float]]] = {}
        for seed in range(first, first + self.selection.num_seeds):
            print(f"seed {seed}", flush=True)
            fitted, step = self._train_one(data, seed, self._seed_run(seed))
            outcomes[seed] = step, self.task.evaluate(fitted)
            self.task.check(fitted)
            del fitted  # two models at once could be too many
            keras.backend.clear_session()
        by_seed = {seed: metrics for seed, (_, metrics) in outcomes.items()}
        summary = self._summarize(by_seed)
        best = summary["best_seed"]
        fitted = self._make(best, self.run)
        step, metrics = outcomes[best]
        fitted.adopt_model(self._seed_run(best).output_dir, step, metrics)
        if self.place.host.is_chief:
            write_json(
                os.path.join(self.run.output_dir, SEEDS),
                {**summary, "seeds": by_seed},
            )
        return fitted, step

    def _seed_run(self, seed: int) -> trainer.RunConfig:
        folder = os.path.join(self.run.output_dir, f"seed-{seed}")
        return dataclasses.replace(self.run, output_dir=folder, flags=None)

    def _summarize(
        self, outcomes: dict[int, dict[str, float]]
    ) -> dict[str, Any]:
        """Prints what the seeds reached; returns it, with the best seed."""
        metric = self._metric
        values = {seed: metrics[metric] for seed, metrics in outcomes.items()}
        best = max(values, key=lambda seed: sort_key(metric, values[seed]))
        summary: dict[str, Any] = {
            "metric": metric,
            "best_seed": best,
            **summarize(list(values.values())),
        }
        print(
            f"{len(values)} seeds, {metric}: median {summary['median']:.4f}, "
            f"best {values[best]:.4f} (seed {best}), "
            f"standard deviation {summary['spread']:.4f}",
        )
        return summary


def train_losses(folder: str) -> list[float]:
    """The losses of the steps of a run, from its log: of the labels, where a
    teacher has a part in them. Not of steps that were skipped, or whose lines
    are damaged."""
    path = os.path.join(folder, LOG)
    if not tf.io.gfile.exists(path):
        return []
    losses = []
    with tf.io.gfile.GFile(path, "rb") as log:
        for line in log:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                figures = json.loads(line)
                losses.append(figures.get("task_loss", figures["loss"]))
    return [loss for loss in losses if loss is not None]
