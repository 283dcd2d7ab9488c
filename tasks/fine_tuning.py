"""Fine-tuning: what all tasks but pre-training share.

A task says what is learnt and how it is scored; here is the rest: training
data, steps from epochs, several seeds, and which settings a stored model is
used with. Devlin et al. 2018, section 4 and A.3; several seeds as Dodge et al.
2020.
"""

import abc
import contextlib
import dataclasses
import functools
import os
import zlib
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_keras.data.batching import InMemoryBatches
from bert_keras.data.input_features import InputFeatures, bucket_by_length
from bert_keras.data.record_schema import HostShard
from bert_keras.data.tokenizer_folder import CASE
from bert_keras.data.tokenizers import TokenizerSettings
from bert_keras.errors import InputError, warn
from bert_keras.files import (
    are_same,
    content,
    is_stream,
    parse_json,
    write_json,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.base import Outputs, are_finite
from bert_keras.tasks.checkpoint_compatibility import second_config
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.tasks.hugging_face_task import folder_task
from bert_keras.tasks.keyword_settings import Given
from bert_keras.tasks.metrics import summarize
from bert_keras.tasks.results import SEEDS
from bert_keras.tasks.run_context import (
    RECORDS,
    RunConfig,
    RunContext,
    claim_folder,
    find_tokenizer,
    make_devices,
    read_config,
    uses_state,
)
from bert_keras.tasks.run_settings import file_settings
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.tasks.trainer import (
    DataSize,
    Task,
    Trainer,
    TrainingPlan,
    print_how_to_predict,
)
from bert_keras.training.checkpoints import read_settings
from bert_keras.training.config import (
    DeviceConfig,
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)
from bert_keras.training.distribution import check_batch_size
from bert_keras.training.early_stopping import sort_key
from bert_keras.training.inference import predict, with_progress
from bert_keras.training.loop import Callback, Source
from bert_keras.training.monitor import LOG

# Settings of the training that decide what a model's outputs mean.
TRAINED_WITH = (
    "target", "labels", "do_lower_case", "strip_accents", "bilstm",
    "second_direction", "feature_layers", "lstm_size",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class FineTuningConfig:
    """How a model is fine-tuned: how long, how many rows at once, by which
    optimizer."""

    train_batch_size: int = 32
    num_train_epochs: float = 3.0
    warmup_proportion: float = 0.1  # of the steps
    seed: int = 12345
    eval_batch_size: int = 8
    predict_batch_size: int = 8
    # its numbers of steps follow from the data
    optimizer: OptimizerConfig = OptimizerConfig()
    loop: LoopConfig = LoopConfig()
    selection: ModelSelection = ModelSelection()
    distillation: TaskDistillation = TaskDistillation()


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """What is trained on."""

    num_examples: int  # that make an epoch; windows make more rows
    num_rows: int
    longest: int  # tokens of a row
    packs: bool  # whether the model reads packed rows, with the same loss
    digest: str  # tells other data from these
    # makes the batches of batch_size, max_seq_length, seed, share and
    # num_micro_batches, given by name
    batches: Callable[..., Source]


def labelled_rows(
    rows: list[InputFeatures],
    labels: Mapping[str, np.ndarray],
    num_examples: int,
    packs: bool,
    group_size: int = 1,
) -> TrainingData:
    """Rows with their labels, to train on; `group_size`: how many of them share
    a label (data/batching.py)."""
    crc = 0
    for row in rows:
        crc = zlib.crc32(np.array(row.input_ids).tobytes(), crc)
    for name in sorted(labels):
        crc = zlib.crc32(labels[name].tobytes(), crc)
    return TrainingData(
        num_examples=num_examples,
        num_rows=len(rows),
        longest=max(len(row.input_ids) for row in rows),
        packs=packs,
        digest=f"{len(rows)} rows, checksum {crc:08x}",
        batches=functools.partial(
            InMemoryBatches, rows, labels, group_size=group_size
        ),
    )


class FineTuningTask(Task):
    """A task whose model is fine-tuned on labels.

    Attributes:
        problem: what is learnt and asked.
        loss_settings: of the loss, beside `settings`.
        eval_argument: the argument of the data that models are compared on.
        teacher: of the model, if it learns from one.
    """

    problem: Any
    settings: TaskConfig
    loss_settings: Mapping[str, Any] = {}
    eval_argument: str = "eval_file"
    teacher: Any = None

    def __init__(
        self,
        problem: Any,
        settings: TaskConfig,
        context: RunContext,
        config: FineTuningConfig,
    ):
        """Raises an InputError if a row has no room for a pair of texts, or
        the teacher is not one for the task."""
        assert context.tokenizer is not None, "`begin` has found it"
        self.problem = problem
        self.settings = settings
        self.context = context
        self.config = config
        self.tokenizer = context.tokenizer.load()
        least = self.tokenizer.special_tokens.count(is_pair=True) + 1
        if settings.max_seq_length < least:
            raise InputError(
                f"`max_seq_length` is {settings.max_seq_length}; expected at "
                f"least {least}, for the special tokens of a pair and one token"
            )
        self.set_up()
        distillation = dataclasses.asdict(config.distillation)
        if config.distillation.teacher_model_dir:
            from bert_keras.tasks.distillation.fine_tuning import Teacher

            self.teacher = Teacher(self, config.distillation)
        elif config.distillation != TaskDistillation():
            raise InputError(
                "`distillation_temperature` and `distillation_weight` are for "
                "a model with a teacher; give `teacher_model_dir`, or leave "
                "them out"
            )
        else:  # without a teacher they are stored as None
            distillation = dict.fromkeys(distillation)
        self.loss_settings = {**self.loss_settings, **distillation}

    def set_up(self) -> None:
        """Makes what a task has beside this, once its settings are known."""
        return

    def make_objective(self, config: BertConfig) -> Any:
        model = self.make_model(config)
        return self.teacher.teach(model) if self.teacher else model

    def load_others(self, model: Any) -> None:
        if self.teacher:
            self.teacher.load(model)

    @abc.abstractmethod
    def training_data(self) -> TrainingData: ...

    @abc.abstractmethod
    def compared_on(self) -> Iterable[tuple[Any, ...]]:
        """What is read and expected of each example that models are compared
        on."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Checks the other data, so that its faults show before training."""

    @abc.abstractmethod
    def diagnosis(self, trainer: Trainer) -> str | None:
        """A sentence on a trained model that has learnt nothing, by the
        evaluation that has just been made."""

    def check(self, trainer: Trainer) -> None:
        """Warns of a trained model that has learnt nothing."""
        if sentence := self.diagnosis(trainer):
            warn(sentence)

    def score(self, trainer: Trainer) -> dict[str, float]:
        """The metrics of the trained model."""
        return self.evaluate(trainer)

    def report(self, trainer: Trainer) -> None:
        """Writes eval_results.txt: `do_eval`."""
        trainer.write_results(self.evaluate(trainer))
        self.check(trainer)

    @abc.abstractmethod
    def predict(self, trainer: Trainer) -> None:
        """Writes the files of predictions: `do_predict`."""

    @functools.cached_property
    def data(self) -> TrainingData:
        """The training data, where the batch size fits the devices."""
        check_batch_size(
            self.context.devices.strategy,
            "train_batch_size",
            self.config.train_batch_size,
            self.config.loop.num_accumulation_steps,
        )
        self.metric(self.config.selection)
        return self.training_data()

    def outputs(
        self,
        trainer: Trainer,
        texts: Sequence[Sequence[InputFeatures]],
        batch_size: int,
    ) -> Iterator[list[Outputs]]:
        """Yields the outputs of each text's rows; rows of like length are
        batched together.

        Args:
            batch_size: rows of max_seq_length that fit in memory at once.

        Raises:
            InputError: they are not finite.
        """
        rows = [row for text in texts for row in text]
        batches = bucket_by_length(
            rows,
            batch_size,
            self.settings.max_seq_length,
            trainer.predictor.shapes_are_cheap,
        )
        outputs = with_progress(predict(trainer.predictor, batches), len(rows))
        for number, text in enumerate(texts, 1):
            own = [next(outputs) for _ in text]
            refuse_overflow(number, own)
            yield own

    def data_size(self) -> DataSize:
        examples, rows = self.data.num_examples, self.data.num_rows
        return DataSize(
            rows,
            self.settings.max_seq_length,
            f"{examples:,} examples, as {rows:,} inputs of the model",
        )

    def plan(self, trainer: Trainer) -> TrainingPlan:
        data, config, loop = self.data, self.config, self.config.loop
        most = self.settings.max_seq_length
        steps = int(
            data.num_examples
            / config.train_batch_size
            * config.num_train_epochs
        )
        if not steps:
            raise InputError(
                f"{data.num_examples} examples for {config.num_train_epochs} "
                f"epochs make no batch of {config.train_batch_size}; lower "
                "`train_batch_size` or raise `num_train_epochs`"
            )
        hints = []
        if 2 * data.longest <= most:
            hints = [
                f"the longest of {data.num_rows:,} examples has "
                f"{data.longest} of `max_seq_length={most}` positions; "
                f"`max_seq_length={data.longest}` trains the same in less "
                "memory, but the model then cuts longer texts, later, too"
            ]
        named = trainer.run.data_files
        train_file, held_out = named.get("train_file"), self.eval_argument
        if train_file and are_same(train_file, named.get(held_out, "")):
            hints.append(
                f"`{held_out}` is `train_file`, too: scores on training "
                "examples say little about new ones"
            )
        strategy, host = trainer.devices
        num_micro_batches = 0  # rows are not packed
        # Several batches in one call, as on a TPU, have one shape.
        if data.packs and loop.steps_per_call == 1:
            num_replicas = strategy.num_replicas_in_sync // host.count
            num_micro_batches = num_replicas * loop.num_accumulation_steps
        return TrainingPlan(
            source=data.batches(
                batch_size=config.train_batch_size,
                max_seq_length=most,
                seed=trainer.seed,
                share=HostShard(host.index, host.count),
                num_micro_batches=num_micro_batches,
            ),
            optimizer=dataclasses.replace(
                config.optimizer,
                num_train_steps=steps,
                num_warmup_steps=int(steps * config.warmup_proportion),
            ),
            loop=dataclasses.replace(loop, seed=trainer.seed),
            selection=config.selection,
            others=self._settings(trainer),
            begins_at_random=not trainer.run.init_checkpoint,
            hints=hints,
        )

    def _settings(self, trainer: Trainer) -> dict[str, Any]:
        """Settings that change what is learnt, beside the optimiser's and the
        loop's, in the order in which they are stored."""
        data, config = self.data, self.config
        eval_steps = config.selection.eval_steps
        chosen_by: dict[str, Any] = {}
        path = trainer.run.data_files.get(self.eval_argument, "")
        if eval_steps and tf.io.gfile.exists(path) and not is_stream(path):
            chosen_by = dict(file_settings(self.eval_argument, [path]))
        elif eval_steps:  # from Python, or a file of a folder
            crc = 0
            for example in self.compared_on():
                crc = zlib.crc32(repr(example).encode(), crc)
            chosen_by = {"evaluation data": f"checksum {crc:08x}"}
        return {
            **dataclasses.asdict(self.settings),
            "train_batch_size": config.train_batch_size,
            "num_train_epochs": config.num_train_epochs,
            "warmup_proportion": config.warmup_proportion,
            "seed": trainer.seed,
            # They follow from epochs and proportion.
            "num_train_steps": None,
            "num_warmup_steps": None,
            # None without one, as earlier versions did not store it
            "bilstm": self.settings.bilstm or None,
            "padding_in_loss": not data.packs,
            "eval_steps": eval_steps,
            "best_metric": self.metric(config.selection)
            if eval_steps
            else None,
            "training data": data.digest,
            **chosen_by,
            **self.loss_settings,
        }


class FineTuning:
    """A call of a command, or of Python's function, that fine-tunes a model or
    uses a fine-tuned one.

    Attributes:
        stored: settings of the model in output_dir or init_checkpoint; None if
            there are none or, in training, if they are for another target.
        used: `stored` when not training, so that the call has to agree with it;
            None when training.
    """

    def __init__(
        self,
        given: Given,
        run: RunConfig,
        config: FineTuningConfig,
        devices: DeviceConfig,
        targets: Collection[str],
    ):
        """
        Args:
            targets: that the call is for.

        Raises:
            InputError: a model that was trained for another is to be used.
        """
        self.given = given
        self.run = run
        self.config = config
        self.devices = make_devices(devices, output_dir=run.output_dir)
        self.stored = stored_settings(run)
        if run.do_train and self.stored and self.stored.target not in targets:
            self.stored = None
        self.used = None if run.do_train else self.stored
        self.check_target(*targets)

    def check_target(self, *targets: str) -> None:
        """Refuses to use a model that was trained for none of these."""
        if self.used and self.used.target not in targets:
            raise InputError(
                f"the model was trained for {self.used.target}, not for "
                f"{' or '.join(targets)}; check `output_dir` and "
                "`init_checkpoint`, and what names the task"
            )

    def task_config(self, **values: Any) -> TaskConfig:
        """Makes the task's settings: `values`, then what the call gave, then,
        when not training, the stored ones. Case and second direction are read
        from the folders."""
        tokenizer = find_tokenizer(self.run, None)  # `begin` wants one
        case = tokenizer.settings if tokenizer else TokenizerSettings()
        values |= {name: getattr(case, name) for name in CASE}
        if "second_init_checkpoint" in self.given:
            second = second_config(
                self.run.init_checkpoint, self.run.second_init_checkpoint
            )
            values["second_direction"] = (
                second.direction
                if second
                else self.stored and self.stored.second_direction
            )
        return self.given.make(TaskConfig, self.used, **values)

    def begin(
        self,
        kind: Callable[..., FineTuningTask],
        problem: Any,
        settings: TaskConfig,
    ) -> FineTuningTask:
        """Makes the task, reads what it needs beside its model, and claims
        output_dir.

        Args:
            kind: the class of the task.
            problem: its data, and what it is asked.

        Raises:
            InputError: config, vocabulary and settings do not fit, or a model
                is to be used with other settings than it was trained with.
        """
        run = self.run
        if self.used:
            check_use(settings, self.used, run.output_dir)
        config = read_config(run, settings.max_seq_length)
        tokenizer = find_tokenizer(run, config)
        if tokenizer is None:
            raise InputError(
                "the vocabulary is not known: give `vocab_file`, or an "
                "`init_checkpoint` with a vocab.txt beside it (or a vocab.json "
                "and a merges.txt)"
            )
        context = RunContext(self.devices, run, config, tokenizer)
        task = kind(problem, settings, context, self.config)
        has_seeds = self.config.selection.num_seeds > 1
        claim_folder(run, self.devices.host, RECORDS, has_seeds)
        task.prepare()
        return task


def refuse_overflow(number: int, outputs: Iterable[Outputs]) -> None:
    """Raises an InputError unless a text's outputs are finite: of others the
    first class would be the best, and would be scored."""
    if not are_finite(outputs):
        raise InputError(
            f"the model's numbers for text {number} overflow, so that it has "
            "no answer; train again with a lower `learning_rate`, or give "
            "another `init_checkpoint`"
        )


def train(task: FineTuningTask, callback: Callback | None = None) -> Trainer:
    """Trains with each seed; returns the trainer of the best model."""
    context, config = task.context, task.config
    first, num_seeds = config.seed, config.selection.num_seeds
    _ = task.data  # its faults show before there is a model
    if num_seeds == 1:
        trainer = Trainer(task, context, first)
        trainer.train(callback)
    else:
        seeds = range(first, first + num_seeds)
        trainer = _train_seeds(task, seeds, callback)
    print_how_to_predict(context.run.output_dir)
    return trainer


def of_seed(context: RunContext, seed: int) -> RunContext:
    """One of several seeds trains in a folder of its own."""
    folder = os.path.join(context.run.output_dir, f"seed-{seed}")
    run = dataclasses.replace(context.run, output_dir=folder, flags=None)
    return dataclasses.replace(context, run=run)


def _train_seeds(
    task: FineTuningTask, seeds: Iterable[int], callback: Callback | None
) -> Trainer:
    outcomes: dict[int, tuple[int, dict[str, float]]] = {}
    for seed in seeds:
        print(f"seed {seed}", flush=True)
        own = of_seed(task.context, seed)
        claim_folder(own.run, own.devices.host)
        trainer = Trainer(task, own, seed)
        trainer.train(callback)
        outcomes[seed] = trainer.step, task.evaluate(trainer)
        task.check(trainer)
        del trainer  # two models at once could be too many
        keras.backend.clear_session()
    metric = task.metric(task.config.selection)
    values = {seed: found[metric] for seed, (_, found) in outcomes.items()}
    best = max(values, key=lambda seed: sort_key(metric, values[seed]))
    summary = summarize(list(values.values()))
    print(
        f"{len(values)} seeds, {metric}: median {summary['median']:.4f}, "
        f"best {values[best]:.4f} (seed {best}), "
        f"standard deviation {summary['spread']:.4f}"
    )
    trainer = Trainer(task, task.context, best)
    trainer.adopt_model(
        of_seed(task.context, best).run.output_dir, *outcomes[best]
    )
    if task.context.devices.host.is_chief:
        write_json(
            os.path.join(trainer.folder, SEEDS),
            {
                "metric": metric,
                "best_seed": best,
                **summary,
                "seeds": {seed: found for seed, (_, found) in outcomes.items()},
            },
        )
    return trainer


def stored_settings(run: RunConfig) -> TaskConfig | None:
    """Settings of the model that is used or started from: those of task.json
    or, where output_dir has the state of another model, those of the state."""
    stored = None
    if not run.begins_anew:
        stored = TaskConfig.from_folder(run.output_dir)
    if uses_state(run.output_dir):
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
    if not uses_state(output_dir):
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


def train_losses(folder: str) -> list[float]:
    """The losses of the steps of a run, from its log: of the labels, where a
    teacher has a part in them. Not of steps that were skipped, or whose lines
    are damaged."""
    losses = []
    for line in (content(os.path.join(folder, LOG)) or b"").splitlines():
        with contextlib.suppress(
            ValueError, TypeError, LookupError, OverflowError
        ):
            figures: dict[str, Any] = parse_json(line)
            loss = figures.get("task_loss", figures["loss"])
            losses.append(float(loss))
    return losses
