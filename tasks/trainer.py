"""What the commands that train do alike, between their flags and the rooms.

A run: the place is made (devices, hosts), a model in it, weights are loaded or
a stopped run is taken up, it is trained, and output_dir ends as a model folder.
"""

import dataclasses
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf

from bert_keras import files
from bert_keras.data.tokenizer_folder import (
    TOKENIZER_CONFIG,
    VOCABULARIES,
    OpenedTokenizer,
    TokenizerOptions,
    open_tokenizer,
    settings_json,
)
from bert_keras.data.tokenizers import (
    TokenizerSettings,
    vocabulary_digest,
)
from bert_keras.errors import InputError, warn, with_flags
from bert_keras.files import (
    VOCABULARY,
    beside,
    content,
    fingerprint,
)
from bert_keras.modeling.checkpoint import (
    CHECKPOINT,
    LoadReport,
    VariableMapping,
    load_checkpoint,
    open_weights,
    save_model_folder,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder_variants import (
    AnyEncoder,
    ConcatenatedEncoders,
    load_both,
)
from bert_keras.modeling.hugging_face import (
    CONFIG,
    INDEX,
    SAFETENSORS,
    model_config_file,
)
from bert_keras.tasks.checkpoint_compatibility import (
    check_config,
    check_second,
    compare_pieces,
    optimizer_hints,
)
from bert_keras.tasks.classifier_head import (
    ClassifierHead,
    OtherHeadError,
    reorder,
    without_head,
)
from bert_keras.tasks.hugging_face_task import check_tokens
from bert_keras.tasks.results import Results
from bert_keras.tasks.task_config import TASK, TaskConfig
from bert_keras.training import monitor
from bert_keras.training.checkpoints import (
    FOLDER,
    BestCheckpoint,
    TrainingState,
    check_settings,
    read_settings,
    saved_states,
    step_of,
    write_settings,
)
from bert_keras.training.config import (
    DeviceConfig,
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)
from bert_keras.training.distribution import (
    Host,
    check_paths,
    make_strategy,
    sum_over_hosts,
    this_host,
)
from bert_keras.training.early_stopping import EVAL_LOG, EarlyStopping
from bert_keras.training.loop import Objective, Source, check_hosts_agree, train
from bert_keras.training.optimization import AdamW, Lamb

PATTERN = frozenset("*?[")
FLAGS = "flags.txt"  # `flagfile=flags.txt` repeats the training
# Settings that do not change what is learnt: names of files (their contents are
# compared), what else a command does, how often it saves.
FREE = {
    "output_dir", "bert_config_file", "dry_run", "do_train", "do_eval",
    "flags", "data_files", "tokenizer", "save_checkpoints_steps",
    "keep_checkpoint_max", "steps_per_call", "num_seeds",
}  # fmt: skip
NEW_END = "; the learning rate now falls to 0 at the new end"
# Settings that may change when a run resumes. It prints the change, followed by
# this text.
MAY_CHANGE = {
    "num_train_steps": NEW_END,
    "num_train_epochs": NEW_END,
    "patience": "",
    # how a device is used
    "precision": "",
    "use_xla": "",
    "num_accumulation_steps": "",
    "recompute": "",
    "skip_nonfinite_steps": "",
    # how a model answers, whatever it was trained with
    "window_pooling": "",
    "max_answer_length": "",
    "n_best_size": "",
    "null_score_diff_threshold": "",
}


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Where a run's model comes from and goes to, and how it is trained."""

    output_dir: str
    bert_config_file: str | None
    vocab_file: str | None
    init_checkpoint: str | None
    precision: str
    layer_decay: float = 1.0
    num_frozen_layers: int = -1  # -1: not even the embeddings
    dry_run: bool = False  # nothing is written
    recompute: bool = False  # layers in the backward pass, to save memory
    second_init_checkpoint: str | None = None  # of a second encoder
    tokenizer: TokenizerOptions = TokenizerOptions()
    direction: str | None = None  # of reading; None: the config's
    do_train: bool = False
    flags: str | None = None  # the text of flags.txt; None: without that file
    # the data that results are of, by argument
    data_files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    keep_classifier_head: bool = False  # although its labels have other names


class TrainingPlan(NamedTuple):
    """What a model is trained with."""

    source: Source
    optimizer: OptimizerConfig
    loop: LoopConfig
    # Other settings that change what is learnt, such as the order of the data
    others: Mapping[str, Any]
    early_stopping: EarlyStopping | None = None
    begins_at_random: bool = False
    hints: Sequence[str] = ()  # on the data, printed at the start


class Devices(NamedTuple):
    strategy: tf.distribute.Strategy
    host: Host


class Model(Objective, Protocol):
    encoder: AnyEncoder

    def mappings(self) -> list[VariableMapping]: ...


def make_devices(devices: DeviceConfig, **paths: str | None) -> Devices:
    """Call it first of all: several hosts connect before TensorFlow starts.

    Args:
        paths: by argument, what the worker of a Cloud TPU would read and write.
    """
    check_paths(devices, paths)
    strategy = make_strategy(devices)
    return Devices(strategy, this_host(strategy))


def read_config(run: RunConfig, max_seq_length: int) -> BertConfig:
    """The model's config, which must have room for `max_seq_length`."""
    path = run.bert_config_file
    path = path or _beside(run, model_config_file)
    if path is None:
        raise InputError(
            "the model's config is not known: give `bert_config_file`, or an "
            "`init_checkpoint` with a bert_config.json beside it"
        )
    config = BertConfig.from_json_file(files.local(path))
    if run.direction:
        config = dataclasses.replace(config, direction=run.direction)
    if max_seq_length > config.max_position_embeddings:
        raise InputError(
            f"`max_seq_length` is {max_seq_length} but the config's "
            f"max_position_embeddings is {config.max_position_embeddings}; "
            "shorten it or change `bert_config_file`"
        )
    check_config(config, run.init_checkpoint)
    check_second(config, run.init_checkpoint, run.second_init_checkpoint)
    return config


def _beside(run: RunConfig, find: Callable[[str], str | None]) -> str | None:
    """What lies beside the weights that a run begins with or, without
    `do_train`, uses: `init_checkpoint`'s or output_dir's."""
    own = find(run.output_dir) if tf.io.gfile.isdir(run.output_dir) else None
    start = run.init_checkpoint and find(run.init_checkpoint)
    return start or own if run.do_train else own or start


def weights_contents(path: str) -> str | None:
    """Identifies the weights that `path` names; None if they no longer
    exist."""
    try:
        source = open_weights(path).source
    except InputError:
        return None
    if tf.io.gfile.exists(source + ".index"):
        return fingerprint(source + ".index")  # a checksum of each variable
    files = [source]
    if source.endswith(INDEX):
        files = tf.io.gfile.glob(f"{os.path.dirname(source)}/*{SAFETENSORS}")
    return ", ".join(map(fingerprint, sorted(files)))


def find_tokenizer(
    run: RunConfig, config: BertConfig | None
) -> OpenedTokenizer | None:
    """The tokenizer of an output_dir in use, else of `init_checkpoint`, else of
    output_dir; with the tokens of `vocab_file` if it is given.

    Args:
        config: None: its number of tokens is not compared.
    """
    model = start = run.init_checkpoint
    has_vocabulary = start and (run.vocab_file or beside(start, VOCABULARIES))
    if (
        not (has_vocabulary and begins_anew(run))
        and tf.io.gfile.isdir(run.output_dir)
        and beside(run.output_dir, VOCABULARIES)
    ):
        model = run.output_dir
    found = open_tokenizer(model, run.vocab_file, run.tokenizer)
    if found is None or config is None:
        return found
    vocab = check_tokens(found, config, model)
    if run.vocab_file:
        compare_pieces(run.vocab_file, vocab, run.init_checkpoint)
    compare_pieces(found.vocab_file, vocab, run.second_init_checkpoint)
    return found


def need_tokenizer(
    run: RunConfig, config: BertConfig | None
) -> OpenedTokenizer:
    """What `find_tokenizer` finds; an InputError if it finds nothing."""
    found = find_tokenizer(run, config)
    if found is None:
        raise InputError(
            "the vocabulary is not known: give `vocab_file`, or an "
            "`init_checkpoint` with a vocab.txt beside it (or a vocab.json and "
            "a merges.txt)"
        )
    return found


def make_folder(run: RunConfig) -> None:
    """Makes output_dir; in a dry run, sees whether it could be made."""
    if PATTERN & set(run.output_dir):
        raise InputError(
            f"`output_dir={run.output_dir}` has one of * ? [ in "
            "it, which TensorFlow takes for a pattern when it reads; give a "
            "name without"
        )
    _check_parent(run.output_dir)
    if run.dry_run:
        return
    try:
        tf.io.gfile.makedirs(run.output_dir)
    except tf.errors.OpError as error:
        raise InputError(
            f"cannot make the folder `output_dir={run.output_dir}` "
            f"({error.message})"
        ) from error


def claim_folder(run: RunConfig, host: Host) -> None:
    """Keeps output_dir, which is there, to train in it alone.

    Raises:
        InputError: another process trains in it.
    """
    if host.is_chief and not run.dry_run:
        folder = os.path.join(run.output_dir, FOLDER)
        files.lock_until_exit(folder, "output_dir")


def _check_parent(output_dir: str) -> None:
    """Refuses a folder that cannot be made, or not be written to."""
    if "://" in output_dir:
        return
    path = os.path.abspath(output_dir)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path) or not os.access(path, os.W_OK | os.X_OK):
        raise InputError(
            f"cannot make or use the folder `output_dir={output_dir}` "
            f"({path} is not a folder that you may write to)"
        )


def make_model(
    make: Callable[[], Any], place: Devices, run: RunConfig, seed: int
) -> Any:
    """Builds a model where it will be trained, lower layers frozen if asked."""
    keras.config.set_dtype_policy(run.precision)
    keras.utils.set_random_seed(seed)
    with place.strategy.scope():
        model = make()
    print(f"{model.encoder.count_params():,} parameters in the encoder")
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


def begins_anew(run: RunConfig) -> bool:
    """Whether a model is trained in the place of what output_dir may have."""
    return run.do_train and not saved_states(run.output_dir)


def uses_state(output_dir: str) -> bool:
    """Whether the model of output_dir is that of its newest state."""
    best_step = BestCheckpoint(output_dir).final_step()
    return best_step is None and bool(saved_states(output_dir))


def _learnt(task: str | bytes | None) -> dict[str, Any]:
    """The settings in a task.json that are fixed once the model is trained."""
    values = dict(json.loads(task or "{}"))
    return {name: x for name, x in values.items() if name not in MAY_CHANGE}


class Trainer:
    """One model in one output_dir."""

    def __init__(
        self,
        model: Model,
        config: BertConfig,
        place: Devices,
        run: RunConfig,
        tokenizer: OpenedTokenizer | None,
        task: str | None = None,
        head: ClassifierHead | None = None,
    ):
        """`task`: the text of task.json, where the model is fine-tuned.

        `head`: of the classifier, if the model has one."""
        self.model = model
        self.config = config
        self.place = place
        self.run = run
        self.tokenizer = tokenizer
        self.task = task
        self.head = head
        self.folder = run.output_dir
        self.best = BestCheckpoint(run.output_dir)
        self.results = Results(run.output_dir)
        self._is_at(0)

    def begin(self, training: TrainingPlan) -> None:
        """Checks that this run is the one that output_dir was begun with, or
        begins it; call it before `train`.

        Raises:
            InputError: it was begun with other settings.
        """
        self._check_hosts_agree(training)
        self.load_or_resume(training, self.place.host.is_chief)

    def load_or_resume(self, training: TrainingPlan, may_write: bool) -> None:
        """Loads `init_checkpoint` if output_dir has no state to resume from;
        else compares the settings with those that the run was begun with."""
        settings = self._settings(training)
        states = saved_states(self.folder)
        if not states:
            if self.run.init_checkpoint:
                self.load_start(self.run.init_checkpoint)
            if may_write:
                write_settings(self.folder, settings)
        else:
            is_over = step_of(states[0]) >= training.optimizer.num_train_steps
            self._resume(settings, may_write and not is_over)
        hints = optimizer_hints(training.optimizer, training.begins_at_random)
        for hint in (*hints, *training.hints):
            warn(hint)

    def _resume(self, settings: dict[str, Any], may_write: bool) -> None:
        """Compares settings with those that the run was begun with.

        Args:
            may_write: whether the run resumes with them, so that changes are
                stored.
        """
        began = self._began()
        source = "init_checkpoint"
        if self.run.init_checkpoint:
            print(with_flags(f"`{source}` is not read again: this run resumes"))
        elif began.get(source):
            text = f"{self.folder} was begun from `{source}={began[source]}`"
            print(with_flags(text))
            settings = {
                name: value
                for name, value in settings.items()
                if name not in (source, f"{source}'s contents")
            }
        if began:
            notices = check_settings(self.folder, began, settings, MAY_CHANGE)
            for notice in notices:
                print(with_flags(notice))
        if may_write:
            write_settings(self.folder, {**began, **settings})

    def _began(self) -> dict[str, Any]:
        """The settings that output_dir was begun with. Earlier versions did not
        store those of a task: they are those of its task.json."""
        began = read_settings(self.folder)
        task = TaskConfig.from_folder(self.folder) if began else None
        if task is None or self.task is None:
            return began
        return {**json.loads(task.to_json()), **began}

    def _settings(self, training: TrainingPlan) -> dict[str, Any]:
        """All settings that change what is learnt, by argument."""
        settings = {
            **dataclasses.asdict(self.run),
            **dataclasses.asdict(training.optimizer),
            **dataclasses.asdict(training.loop),
            **training.others,
            **self._made_of(),
        }
        for name in (
            "init_checkpoint", "second_init_checkpoint", "teacher_model_dir",
        ):  # fmt: skip
            source = settings.get(name)
            settings[f"{name}'s contents"] = source and weights_contents(source)
        return {k: x for k, x in settings.items() if k not in FREE}

    def _made_of(self) -> dict[str, Any]:
        """Config and vocabulary, in the form of settings."""
        config = dataclasses.asdict(self.config)
        found = self.tokenizer
        tokenizer: dict[str, Any] = {}
        if found is not None:
            tokenizer = found.settings.to_json()
        elif self.run.tokenizer.do_lower_case is not None:
            tokenizer = {"do_lower_case": self.run.tokenizer.do_lower_case}
        return {
            **{f"bert_config_file's {key}": x for key, x in config.items()},
            "vocab_file": found and vocabulary_digest(found.vocab_file),
            **tokenizer,
        }

    def _check_hosts_agree(self, training: TrainingPlan) -> None:
        """On all settings that change a step, or when something is saved."""
        strategy, host = self.place
        settings = self._settings(training)
        names = "init_checkpoint", "second_init_checkpoint"  # perhaps copies
        alike = [
            {k: x for k, x in settings.items() if k not in names},
            dataclasses.asdict(training.loop),
        ]
        number = zlib.crc32(json.dumps(alike, sort_keys=True).encode())
        if sum_over_hosts(strategy, host, number) != number * host.count:
            raise InputError(
                "another host was started with other flags, config, vocabulary "
                "or files than this one; give all of them the same"
            )

    def train(self, training: TrainingPlan) -> int:
        """Trains to the end and saves the model; returns its step."""
        strategy, host = self.place
        early_stopping = training.early_stopping
        with strategy.scope():
            optimizer = self._optimizer(training.optimizer)
        step = train(
            self.model,
            optimizer,
            training.source,
            strategy,
            host,
            training.loop,
            self.folder,
            early_stopping,
        )
        if early_stopping is not None:
            check_hosts_agree(strategy, host, step)  # and wait for the chief
            step = self._load_best()
        self._is_at(step)
        if host.is_chief:
            self._replace([] if early_stopping else [EVAL_LOG])
            if early_stopping is not None:
                self.best.finish()
            else:
                self.best.forget()
            print(f"the model is in {self.folder}")
        return step

    def _is_at(self, step: int) -> None:
        """Notes that the model has new weights, after so many steps."""
        self.step = step
        self._weights = ""

    @property
    def weights(self) -> str:
        """Identifies the model's weights."""
        if not self._weights:
            crc = 0
            for binding in self.model.mappings():
                value = np.ascontiguousarray(binding.read())
                crc = zlib.crc32(value.tobytes(), crc)
            self._weights = f"checksum {crc:08x}"
        return self._weights

    def _replace(self, logs: Sequence[str]) -> None:
        """Writes the model to output_dir, and moves the results of the one
        before, and these logs, out of its way."""
        if not self._is_written():
            self.results.put_away(logs)
            self.best.forget()
            self._save(self.folder)

    def _is_written(self) -> bool:
        """Whether output_dir has this very model."""
        path = os.path.join(self.folder, CHECKPOINT)
        if not tf.io.gfile.exists(path + ".index"):
            return False
        config = content(os.path.join(self.folder, CONFIG))
        task = content(os.path.join(self.folder, TASK))
        try:
            if config != self.config.to_json().encode() or (
                _learnt(task) != _learnt(self.task)
            ):
                return False
            own = open_tokenizer(self.folder)
            digest = own and vocabulary_digest(own.vocab_file)
            if digest != self._made_of()["vocab_file"]:
                return False
            if (
                own
                and self.tokenizer
                and (own.settings != self.tokenizer.settings)
            ):
                return False
            there = open_weights(path)
            return all(
                binding.name in there.shapes
                and np.array_equal(there.read(binding.name), binding.read())
                for binding in self.model.mappings()
            )
        except (ValueError, TypeError):  # it is damaged
            return False

    def make_early_stopping(
        self,
        selection: ModelSelection,
        metric: str,
        evaluate: Callable[[], dict[str, float]],
    ) -> EarlyStopping | None:
        """What evaluates the model while it is trained, if it is to be."""
        if not selection.eval_steps:
            return None
        return EarlyStopping(
            selection.eval_steps,
            metric,
            selection.patience,
            evaluate,
            self._keep_best,
            self.folder,
            self.place.host.is_chief,
        )

    def _keep_best(self, step: int, metrics: dict[str, float]) -> None:
        """Stores the model; the one before goes when this one is whole."""
        if self.place.host.is_chief:
            self.best.keep(step, metrics, self._save)

    def _load_best(self) -> int:
        folder, step = self.best.find()
        self._load(folder, quietly=True)
        return step

    def adopt_model(
        self, folder: str, step: int, metrics: dict[str, float]
    ) -> None:
        """Makes the model of another run's folder this one's best."""
        check_hosts_agree(*self.place, step)  # and wait for the chief
        self._load(folder, quietly=True)
        self._is_at(step)
        if self.place.host.is_chief:
            self._replace([EVAL_LOG, monitor.LOG])
            self.best.adopt_model(step, metrics)

    def restore(self) -> int:
        """Loads what output_dir has, else `init_checkpoint`; returns the step.

        What it has is its best model, its newest state, or just a model.
        """
        best_step = self.best.final_step()
        if uses_state(self.folder):
            return self.restore_state()
        has_model = tf.io.gfile.exists(
            os.path.join(self.folder, CHECKPOINT + ".index")
        )
        source = self.folder if has_model else self.run.init_checkpoint
        if has_model:
            check_config(self.config, self.folder)
        source = source or self.folder
        try:
            rows = self._rows(source)
        except OtherHeadError as error:
            raise InputError(
                f"the classifier in {source} is for something else: {error}; "
                "expected a model that was trained for this, or `do_train`"
            ) from error
        self._refuse_missing(self._load(source))
        reorder(self.model.mappings(), rows)
        self._is_at(best_step or 0)
        return self.step

    def restore_state(self) -> int:
        """Loads the weights of output_dir's newest state; returns its step."""
        began = read_settings(self.folder)
        check_settings(self.folder, began, self._made_of(), {})
        weights = [v.value for v in self.model.variables]
        state = TrainingState(self.folder, {"weights": weights}, 1, False)
        self._is_at(state.restore())
        print(f"the model is that of {self.folder} after step {self.step}")
        return self.step

    def _refuse_missing(self, report: LoadReport) -> None:
        """Of what is trained; a span model has no use for its pooler."""
        trained = {id(v) for v in self.model.trainable_variables}
        for binding in self.model.mappings():
            if (
                binding.name in report.missing
                and id(binding.variable) in trained
            ):
                raise InputError(
                    f"{report.source} has no {binding.name}, without which the "
                    "model would answer at random; give `do_train`, or an "
                    "`init_checkpoint` that was trained for this"
                )

    def write_results(
        self,
        results: Mapping[str, float],
        suffix: str = "",
        data: str = "eval_file",
    ) -> None:
        """Writes eval_results.txt in google-research/bert's format.

        Args:
            suffix: to the file's name, where there are several.
            data: the argument of what was evaluated.
        """
        lines = [f"{key} = {results[key]}" for key in sorted(results)]
        print(f"evaluated after step {self.step}: {self._data(data)}")
        print("***** Eval results *****", *lines, sep="\n")
        text = "\n".join(lines) + "\n"
        self.write_result(f"eval_results{suffix}.txt", text, data)

    def write_result(self, name: str, text: str, data: str) -> None:
        """Writes a file of scores or predictions, if this host does.

        Args:
            data: the argument of what they are of.
        """
        if self.place.host.is_chief:
            path = self.results.write(
                name, text, self.weights, self.step, self._data(data)
            )
            print(f"written: {path}")

    def _data(self, argument: str) -> str:
        """The argument with its value, else those that stand for it."""
        given = self.run.data_files
        names = [argument] if argument in given else ["task_name", "data_dir"]
        found = [f"`{name}={given[name]}`" for name in names if name in given]
        return with_flags(" ".join(found))

    def _optimizer(self, config: OptimizerConfig) -> AdamW:
        variables, encoder = self.model.trainable_variables, self.model.encoder
        top = len(encoder.layers) + 1
        scales = [
            self.run.layer_decay ** (top - encoder.depth(variable))
            for variable in variables
        ]
        blocks = {id(b.variable): b.num_blocks for b in self.model.mappings()}
        kind = Lamb if config.optimizer_type == "lamb" else AdamW
        return kind(
            variables, config, scales, [blocks[id(v)] for v in variables]
        )

    def _load(self, source: str, quietly: bool = False) -> LoadReport:
        report = load_checkpoint(self.model.mappings(), source)
        if not quietly:
            print(report)
        return report

    def _rows(self, source: str) -> list[int] | None:
        """Which row of its classifier each of ours is; None: the same row."""
        if self.head is None:
            return None
        return self.head.rows(self.model.mappings(), source)

    def load_start(self, first: str) -> None:
        """Loads `init_checkpoint`, and a second one into a second encoder; the
        classifier only if it is one for these labels."""
        mappings, rows = self.model.mappings(), None
        try:
            rows = self._rows(first)
        except OtherHeadError as error:
            if self.run.keep_classifier_head:
                raise
            print(f"the classifier head starts anew: {error}")
            mappings = without_head(mappings)
        second, encoder = self.run.second_init_checkpoint, self.model.encoder
        if second:
            assert isinstance(encoder, ConcatenatedEncoders), "it was looked at"
            for report in load_both(encoder, mappings, first, second):
                print(report)
        else:
            print(load_checkpoint(mappings, first))
        reorder(mappings, rows)

    def _save(self, folder: str) -> None:
        found = self.tokenizer
        vocab_file = found and found.vocab_file
        case = self.run.tokenizer
        if found is None and case.do_lower_case is not None:
            # A vocabulary may be put beside it later, as with Google's command.
            settings = TokenizerSettings(case.do_lower_case, case.strip_accents)
            found = OpenedTokenizer(VOCABULARY, settings, True)
        others = {
            TASK: self.task,
            TOKENIZER_CONFIG: settings_json(found) if found else None,
        }
        if folder == self.folder:
            others[FLAGS] = self.run.flags
        save_model_folder(
            folder, self.config, self.model.mappings(), vocab_file, others
        )
