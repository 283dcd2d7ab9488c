"""Trains the model of any task, pre-training included, and uses it.

A task says what is learnt and how it is scored. The trainer does the rest:
loads the weights or takes up a stopped run, trains by training/loop.py,
evaluates on the way, keeps the best model, and leaves output_dir a model folder
with the results of that model.
"""

import abc
import dataclasses
import functools
import json
import os
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bert_keras.data.tokenizer_folder import (
    TOKENIZER_CONFIG,
    OpenedTokenizer,
    open_tokenizer,
    settings_json,
)
from bert_keras.data.tokenizers import TokenizerSettings, vocabulary_digest
from bert_keras.errors import InputError, warn, with_flags
from bert_keras.files import (
    BYTE_LEVEL,
    MERGES,
    VOCABULARY,
    content,
    vocabulary_contents,
)
from bert_keras.modeling.checkpoint import (
    CHECKPOINT,
    check_finite,
    load_checkpoint,
    open_weights,
    save_model_folder,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder_variants import load_encoders
from bert_keras.modeling.hugging_face import CONFIG
from bert_keras.tasks import budget
from bert_keras.tasks.checkpoint_compatibility import (
    check_config,
    optimizer_hints,
)
from bert_keras.tasks.classifier_head import (
    OtherHeadError,
    head_rows,
    reorder,
    without_head,
)
from bert_keras.tasks.results import Results
from bert_keras.tasks.run_context import (
    FLAGS_FILE,
    Devices,
    RunConfig,
    RunContext,
    uses_state,
)
from bert_keras.tasks.run_settings import (
    MAY_CHANGE,
    learnt,
    made_of,
    refuse_other_kind,
    settings_of,
    without_new_tokenizer,
)
from bert_keras.tasks.task_config import TASK, TaskConfig
from bert_keras.training import monitor
from bert_keras.training.checkpoints import (
    BEST_JSON,
    BestCheckpoint,
    TrainingState,
    check_settings,
    go_back,
    is_begun,
    read_settings,
    saved_states,
    step_of,
    write_settings,
)
from bert_keras.training.config import (
    Budget,
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)
from bert_keras.training.distribution import sum_over_hosts, wait_for_hosts
from bert_keras.training.early_stopping import EVAL_LOG, EarlyStopping
from bert_keras.training.inference import Predictor
from bert_keras.training.loop import (
    Callback,
    Evaluation,
    Source,
    StepFunction,
    check_hosts_agree,
    train,
)
from bert_keras.training.optimization import AdamW, Lamb


class TrainingPlan(NamedTuple):
    """What a model is trained with."""

    source: Source
    optimizer: OptimizerConfig
    loop: LoopConfig
    selection: ModelSelection
    # Other settings that change what is learnt, such as the order of the data
    others: Mapping[str, Any]
    begins_at_random: bool = False
    # On the data, printed at the start
    hints: Sequence[str] = ()
    notes: Sequence[str] = ()
    budget: Budget = Budget()
    watch: monitor.Watch | None = None


class DataSize(NamedTuple):
    """How much there is to train on."""

    num_rows: int  # in an epoch
    max_seq_length: int  # of a row, padded
    description: str


class Task(abc.ABC):
    """What is learnt, and how it is scored.

    Attributes:
        metric_names: of `evaluate`; the first chooses the best model, unless
            `best_metric` names another.
        settings: task.json's; None where a model is pre-trained.
        other_names: for the labels in `settings`, in the same order.
    """

    metric_names: tuple[str, ...]
    settings: TaskConfig | None = None
    other_names: tuple[str, ...] = ()

    @abc.abstractmethod
    def make_model(self, config: BertConfig) -> Any:
        """A TaskModel, built, as it is before weights are loaded."""

    def make_objective(self, config: BertConfig) -> Any:
        """What is trained: the model, perhaps with a teacher beside it."""
        return self.make_model(config)

    def load_others(self, model: Any) -> None:
        """Loads what `model` learns from beside `init_checkpoint`, such as a
        teacher."""
        return

    @abc.abstractmethod
    def plan(self, trainer: "Trainer") -> TrainingPlan:
        """What this trainer's model is trained with."""

    @abc.abstractmethod
    def data_size(self) -> DataSize:
        """How much there is to train on, for a dry run."""

    def keep_training_data(self) -> None:
        """Writes the records that upstream would have trained on, if it has
        any. Called when the run is known to be the one in output_dir."""
        return

    @abc.abstractmethod
    def evaluate(self, trainer: "Trainer") -> dict[str, float]:
        """The metrics of the model as it is now."""

    def samples(self, trainer: "Trainer") -> str:
        """Some of the model's predictions, as Markdown for TensorBoard."""
        return ""

    def metric(self, selection: ModelSelection) -> str:
        """What chooses among models.

        Raises:
            InputError: `best_metric` is not among the task's.
        """
        metric = selection.best_metric or self.metric_names[0]
        if metric not in self.metric_names:
            raise InputError(
                f"`best_metric={metric}` is not among the metrics of this "
                f"task: {', '.join(self.metric_names)}"
            )
        return metric


def make_model(
    make: Callable[[], Any], devices: Devices, run: RunConfig, seed: int
) -> Any:
    """Builds a model where it will be trained, lower layers frozen if asked."""
    keras.config.set_dtype_policy(run.precision)
    keras.utils.set_random_seed(seed)
    with devices.strategy.scope():
        model = make()
    shown = model.encoder.config
    print(
        f"model: {shown.num_hidden_layers} layers, hidden size "
        f"{shown.hidden_size}, {shown.num_attention_heads} heads, "
        f"{model.encoder.count_params():,} parameters in the encoder"
    )
    num_layers = len(model.encoder.layers)
    if run.num_frozen_layers > num_layers:
        raise InputError(
            f"`num_frozen_layers` is {run.num_frozen_layers} but the model has "
            f"{num_layers} layers"
        )
    if run.num_frozen_layers >= 0:
        model.encoder.freeze(run.num_frozen_layers)
    if run.recompute:
        model.encoder.recompute()
    return model


def print_how_to_predict(model_dir: str) -> None:
    folder, name = os.path.split(sys.argv[0])
    script = os.path.join(folder, "predict.py")
    is_clone = name.startswith("run_") and os.path.exists(script)
    predict = f"python {script}" if is_clone else "predict"
    print(f"to predict with it:\n  {predict} --model_dir={model_dir}")


class Trainer:
    """One model in one output_dir.

    Attributes:
        model: as the task makes it; its weights are loaded by `train` or
            `restore`.
        step: after how many steps of training it has these weights.
    """

    def __init__(self, task: Task, context: RunContext, seed: int):
        self.task = task
        self.context = context
        self.seed = seed
        self.devices = context.devices
        self.run = context.run
        self.config = context.config
        self.folder = context.run.output_dir
        self.model: Any = make_model(
            lambda: task.make_objective(context.config),
            context.devices,
            context.run,
            seed,
        )
        task.load_others(self.model)
        self.best = BestCheckpoint(self.folder)
        self.results = Results(self.folder)
        self.step = 0
        self._weights = ""  # what identifies them; "": not known yet

    def train(self, callback: Callback | None = None) -> None:
        """Trains to the end, from where output_dir's run has stopped, and saves
        the model, the best one if it is evaluated on the way.

        Args:
            callback: told each step's number and figures.

        Raises:
            InputError: output_dir was begun with other settings.
        """
        strategy, host = self.devices
        refuse_other_kind(self.folder, self.task.settings is None)
        plan = budget.fix_num_train_steps(self, self.task.plan(self))
        settings = settings_of(self.context, plan)
        self._check_other_hosts(settings, plan.loop)
        self.begin_or_resume(plan, settings, may_write=host.is_chief)
        wait_for_hosts(*self.devices)  # until the chief has gone back
        if host.is_chief:
            self.task.keep_training_data()
        early_stopping = None
        if plan.selection.eval_steps:
            early_stopping = EarlyStopping(
                every_steps=plan.selection.eval_steps,
                metric=self.task.metric(plan.selection),
                patience=plan.selection.patience,
                evaluate=lambda: self.task.evaluate(self),
                keep=self._keep_best,
                go_back=self.best.go_back,
                output_dir=self.folder,
                writes=host.is_chief,
                samples=lambda: self.task.samples(self),
            )
        step = train(
            self.step_function(plan.optimizer, plan.loop),
            plan.source,
            self.folder,
            early_stopping,
            callback,
            plan.watch,
        )
        if early_stopping is not None:
            check_hosts_agree(strategy, host, step)  # and wait for the chief
            best, step = self.best.find()
            if early_stopping.seen:
                print(early_stopping.verdict())
            load_checkpoint(self.model.mappings(), best)
        self._has_weights_of(step)
        if host.is_chief:
            self._write_model([] if early_stopping else [EVAL_LOG])
            if early_stopping is not None:
                self.best.finish()
            else:
                self.best.forget()
            print(f"the model is in {self.folder}")

    def step_function(
        self, config: OptimizerConfig, loop: LoopConfig
    ) -> StepFunction:
        """Steps that train the trainable variables, with a learning rate for
        each layer if asked."""
        model = self.model
        variables = model.trainable_variables
        top = len(model.encoder.layers) + 1
        rate_scales = [
            self.run.layer_decay ** (top - model.encoder.depth(variable))
            for variable in variables
        ]
        blocks = {id(m.variable): m.num_blocks for m in model.mappings()}
        strategy = self.devices.strategy
        with strategy.scope():
            optimizer = (Lamb if config.optimizer_type == "lamb" else AdamW)(
                variables,
                config,
                rate_scales,
                [blocks[id(variable)] for variable in variables],
            )
        return StepFunction(model, optimizer, strategy, loop)

    def begin_or_resume(
        self, plan: TrainingPlan, settings: dict[str, Any], may_write: bool
    ) -> int:
        """Begins a run, from `init_checkpoint` if given, or checks the settings
        of one that resumes, whose state `training.loop.train` will read.

        Args:
            settings: what `settings_of` says of the plan.
            may_write: whether output_dir may change.

        Returns:
            The number of steps that are done.
        """
        done = 0
        if not saved_states(self.folder):
            if may_write and not is_begun(self.folder):
                logs = monitor.LOG, EVAL_LOG, monitor.NONFINITE_LOG
                self.results.move([*logs, BEST_JSON])  # somebody's own
            if plan.budget.decay_from:
                budget.begin_branch(self, plan, settings, may_write)
                done = plan.optimizer.num_stable_steps or 0
        if saved_states(self.folder):  # a branch has one, too
            done = self._prepare_to_resume(plan.optimizer, settings, may_write)
        else:
            if self.run.init_checkpoint:
                self.load_start(self.run.init_checkpoint)
            if may_write:
                write_settings(self.folder, settings)
                monitor.write_settings_to_tensorboard(self.folder, settings)
        if self.devices.host.is_chief:
            for note in plan.notes:
                print(note)
        is_random = plan.begins_at_random and not done
        for hint in (*optimizer_hints(plan.optimizer, is_random), *plan.hints):
            warn(hint)
        return done

    def _prepare_to_resume(
        self, config: OptimizerConfig, settings: dict[str, Any], may_write: bool
    ) -> int:
        """Compares the settings with those that the run was begun with; goes
        back to the step before wsd's decay if the run is lengthened. Returns
        the step to resume from."""
        began = read_settings(self.folder)
        if began:  # perhaps by an earlier version, which stored less
            began = {"batch_ramp_steps": None, **began}
            task = TaskConfig.from_folder(self.folder)
            if task is not None and self.task.settings is not None:
                began = {**json.loads(task.to_json()), **began}
        start = began.get("init_checkpoint")
        if self.run.init_checkpoint:
            text = "`init_checkpoint` is not read again: this run resumes"
            print(with_flags(text))
        elif start:
            text = f"{self.folder} was begun from `init_checkpoint={start}`"
            print(with_flags(text))
            left_out = "init_checkpoint", "init_checkpoint's contents"
            settings = {k: x for k, x in settings.items() if k not in left_out}
        if began:
            known = without_new_tokenizer(settings, began)
            for notice in check_settings(self.folder, began, known, MAY_CHANGE):
                print(with_flags(notice))
        steps = [step_of(state) for state in saved_states(self.folder)]
        newest = steps[0]
        stable = self._stable_step(config, began, newest)
        if stable is not None and stable in steps:
            goes = "going back" if may_write else "would go back"
            print(
                f"{self.folder}: {goes} to step {stable:,}, after which the "
                "learning rate had begun to fall"
            )
            if may_write:
                if self.best.is_after(stable):
                    self.results.move([EVAL_LOG])  # first: a kill may follow
                    self.best.forget_seen()
                go_back(self.folder, stable)
            newest = stable
        if may_write and newest < config.num_train_steps:  # it resumes
            write_settings(self.folder, {**began, **settings})
        return newest

    def _stable_step(
        self, config: OptimizerConfig, began: Mapping[str, Any], newest: int
    ) -> int | None:
        """Finds the step to go back to when a wsd run gets more steps after
        its rate has begun to fall; None: resume where it stopped.

        Args:
            newest: the step of the newest state.

        Raises:
            InputError: the rate has begun to fall, and the new settings move
                its fall without adding steps.
        """
        if not began.get("num_train_steps"):  # fine-tuning stores none
            return None
        names = "num_train_steps", "learning_rate_schedule", "num_decay_steps"
        then = OptimizerConfig(**{n: began[n] for n in names if n in began})
        began_to_fall, falls = then.num_stable_steps, config.num_stable_steps
        if began_to_fall is None or falls is None:  # not wsd
            return None
        if began_to_fall == falls or newest <= began_to_fall:
            return None
        if (
            config.num_train_steps > then.num_train_steps
            and falls > began_to_fall
        ):
            return began_to_fall
        if newest >= config.num_train_steps:  # finished
            return None
        raise InputError(
            f"the learning rate of {self.folder} has begun to fall at step "
            f"{began_to_fall:,}; give the `num_decay_steps` that it was begun "
            "with, or more `num_train_steps`"
        )

    def load_start(self, start: str) -> None:
        """Loads `start`, and `second_init_checkpoint` into a second encoder;
        the classifier only if it is one for these labels."""
        mappings, rows = self.model.mappings(), None
        try:
            rows = self._rows(start)
        except OtherHeadError as error:
            if self.run.keep_classifier_head:
                raise
            print(f"the classifier head starts anew: {error}")
            mappings = without_head(mappings)
        for report in load_encoders(
            self.model.encoder, mappings, start, self.run.second_init_checkpoint
        ):
            print(report)
        reorder(mappings, rows)

    def restore(self) -> None:
        """Loads the weights of the first of these that there is: output_dir's
        newest state, unless best.json says that the best model is finished;
        output_dir's bert_model.ckpt; `init_checkpoint`."""
        if uses_state(self.folder):
            self.restore_state()
            return
        has_model = tf.io.gfile.exists(
            os.path.join(self.folder, CHECKPOINT + ".index")
        )
        if has_model:
            check_config(self.config, self.folder)
        source = self.folder
        if self.run.init_checkpoint and not has_model:
            source = self.run.init_checkpoint
        try:
            rows = self._rows(source)
        except OtherHeadError as error:
            raise InputError(
                f"the classifier in {source} is for something else: {error}; "
                "expected a model that was trained for this, or `do_train`"
            ) from error
        mappings = self.model.mappings()
        report = load_checkpoint(mappings, source)
        print(report)
        # What is not trained may be missing: a span model needs no pooler.
        trained = {id(v) for v in self.model.trainable_variables}
        for mapping in mappings:
            if (
                mapping.name in report.missing
                and id(mapping.variable) in trained
            ):
                raise InputError(
                    f"{report.source} has no {mapping.name}, without which the "
                    "model would answer at random; give `do_train`, or an "
                    "`init_checkpoint` that was trained for this"
                )
        reorder(mappings, rows)
        step = self.best.final_step() if has_model else None
        self._has_weights_of(step or 0)

    def restore_state(self) -> None:
        """Loads the weights of output_dir's newest state."""
        began = read_settings(self.folder)
        known = without_new_tokenizer(made_of(self.context), began)
        check_settings(self.folder, began, known, {})
        weights = [v.value for v in self.model.weights]
        state = TrainingState(self.folder, {"weights": weights}, 1, False)
        self._has_weights_of(state.restore())
        for mapping in self.model.mappings():
            check_finite(self.folder, mapping.name, mapping.read())
        print(f"the model is that of {self.folder} after step {self.step}")

    def adopt_model(
        self, folder: str, step: int, metrics: dict[str, float]
    ) -> None:
        """Makes the model of another run's folder this one's best."""
        check_hosts_agree(*self.devices, step)  # and wait for the chief
        load_checkpoint(self.model.mappings(), folder)
        self._has_weights_of(step)
        if self.devices.host.is_chief:
            self._write_model([EVAL_LOG, monitor.LOG])
            self.best.note_adopted(step, metrics)

    @functools.cached_property
    def predictor(self) -> Predictor:
        return Predictor(self.model.outputs_by_name, self.devices.strategy)

    @functools.cached_property
    def evaluation(self) -> Evaluation:
        return Evaluation(self.model, *self.devices)

    def write_results(
        self,
        metrics: Mapping[str, float],
        suffix: str = "",
        data: str = "eval_file",
    ) -> None:
        """Writes eval_results.txt in google-research/bert's format.

        Args:
            suffix: to the file's name, where there are several.
            data: the argument of what was evaluated.
        """
        results = {"global_step": self.step, **metrics}
        lines = [f"{key} = {results[key]}" for key in sorted(results)]
        print(f"evaluated after step {self.step}: {self._data(data)}")
        print("***** Eval results *****", *lines, sep="\n")
        text = "\n".join(lines) + "\n"
        self.write_result(f"eval_results{suffix}.txt", text, data)
        was_evaluated = tf.io.gfile.exists(os.path.join(self.folder, EVAL_LOG))
        is_new = self.run.do_train and not was_evaluated and not suffix
        if self.devices.host.is_chief and is_new:
            monitor.write_final_evaluation(self.folder, metrics, self.step)

    def write_result(self, name: str, text: str, data: str) -> None:
        """Writes a file of scores or predictions, if this host does.

        Args:
            data: the argument of what they are of.
        """
        if self.devices.host.is_chief:
            path = self.results.write(
                name, text, self.weights, self.step, self._data(data)
            )
            print(f"written: {path}")

    @property
    def weights(self) -> str:
        """Identifies the model's weights."""
        if not self._weights:
            crc = 0
            for mapping in self.model.mappings():
                value = np.ascontiguousarray(mapping.read())
                crc = zlib.crc32(value.tobytes(), crc)
            self._weights = f"checksum {crc:08x}"
        return self._weights

    def _has_weights_of(self, step: int) -> None:
        """Notes that the model has new weights, after so many steps."""
        self.step = step
        self._weights = ""

    def _check_other_hosts(
        self, settings: dict[str, Any], loop: LoopConfig
    ) -> None:
        """All hosts have to agree on the settings that change a step, or when
        something is saved."""
        host = self.devices.host
        names = "init_checkpoint", "second_init_checkpoint"  # perhaps copies
        alike = [
            {k: x for k, x in settings.items() if k not in names},
            dataclasses.asdict(loop),
        ]
        number = zlib.crc32(json.dumps(alike, sort_keys=True).encode())
        if sum_over_hosts(*self.devices, number) != number * host.count:
            raise InputError(
                "another host was started with other flags, config, vocabulary "
                "or files than this one; give all of them the same"
            )

    def _keep_best(self, step: int, metrics: Mapping[str, float]) -> None:
        """Stores the model; of those before, the last up to the newest state
        stays."""
        if self.devices.host.is_chief:
            saved = max(map(step_of, saved_states(self.folder)), default=0)
            self.best.keep(step, metrics, self._save, saved)

    def _write_model(self, logs: Sequence[str]) -> None:
        """Writes the model to output_dir, unless that has this very model.
        First moves away what belongs to the model before: its results, what
        describes it, and these logs."""
        if self._is_in_output_dir():
            return
        self.results.put_away([*logs, *self._files_of_another_model()])
        self.best.forget()
        self._save(self.folder)

    def _is_in_output_dir(self) -> bool:
        """Whether output_dir has this very model."""
        path = os.path.join(self.folder, CHECKPOINT)
        if not tf.io.gfile.exists(path + ".index"):
            return False
        config = content(os.path.join(self.folder, CONFIG))
        task = content(os.path.join(self.folder, TASK))
        try:
            if config != self.config.to_json().encode():
                return False
            if learnt(task) != learnt(self._task_json()):
                return False
            stored, ours = open_tokenizer(self.folder), self.context.tokenizer
            digest = stored and vocabulary_digest(stored.vocab)
            if digest != made_of(self.context)["vocab_file"]:
                return False
            if stored and ours and stored.settings != ours.settings:
                return False
            weights = open_weights(path)
            return all(
                mapping.name in weights.shapes
                and np.array_equal(weights.read(mapping.name), mapping.read())
                for mapping in self.model.mappings()
            )
        except (ValueError, TypeError):  # it is damaged
            return False

    def _files_of_another_model(self) -> list[str]:
        """Lists files of output_dir whose content is not what this model will
        write: an earlier one's, or a person's own."""
        texts = {
            CONFIG: self.config.to_json(),
            FLAGS_FILE: self.run.flags,
            **self._descriptions(),
        }
        ours = {name: (text or "").encode() for name, text in texts.items()}
        if found := self.context.tokenizer:
            # A vocabulary of another kind goes, whatever it holds.
            ours |= dict.fromkeys((VOCABULARY, BYTE_LEVEL, MERGES), b"")
            ours |= vocabulary_contents(found.vocab_file)
        return [
            name
            for name, text in ours.items()
            if content(os.path.join(self.folder, name)) not in (None, text)
        ]

    def _task_json(self) -> str | None:
        settings = self.task.settings
        return settings.to_json() if settings else None

    def _descriptions(self) -> dict[str, str | None]:
        """The texts of task.json and tokenizer_config.json."""
        found, case = self.context.tokenizer, self.run.tokenizer
        if found is None and case.do_lower_case is not None:
            # A vocabulary may be put beside it later, as with Google's command.
            settings = TokenizerSettings(case.do_lower_case, case.strip_accents)
            found = OpenedTokenizer(VOCABULARY, settings, True, {})
        return {
            TASK: self._task_json(),
            TOKENIZER_CONFIG: settings_json(found) if found else None,
        }

    def _save(self, folder: str) -> None:
        others = self._descriptions()
        if folder == self.folder:
            others[FLAGS_FILE] = self.run.flags
        found = self.context.tokenizer
        save_model_folder(
            folder,
            self.config,
            self.model.mappings(),
            found and found.vocab_file,
            others,
        )

    def _rows(self, source: str) -> list[int] | None:
        """Which row of its classifier each of ours is; None: the same row."""
        return head_rows(
            self.model.mappings(),
            source,
            self.task.settings,
            self.task.other_names,
            self.run.keep_classifier_head,
        )

    def _data(self, argument: str) -> str:
        """The argument as given, such as `eval_file=dev.tsv`; else `task_name`
        and `data_dir`."""
        given = self.run.data_files
        names = [argument] if argument in given else ["task_name", "data_dir"]
        found = [f"`{name}={given[name]}`" for name in names if name in given]
        return with_flags(" ".join(found))
