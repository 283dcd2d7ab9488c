"""What the commands that train do alike, between their flags and the rooms.

A run: the place is made (devices, hosts), a model in it, weights are loaded or
a stopped run is taken up, it is trained, and output_dir ends as a model folder.
"""

import dataclasses
import json
import os
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import keras
import tensorflow as tf

import command
import folder_lock
from data.any_tokenizer import (
    check_any_vocabulary,
    marks_of,
    vocabulary_digest,
)
from input_error import InputError
from jobs.best_model import BestModel
from jobs.start_checks import check_config, check_second, compare_pieces
from modeling.combined import AnyEncoder, TwinEncoder, load_both
from modeling.config import BertConfig
from modeling.conversion import (
    CHECKPOINT,
    Binding,
    LoadReport,
    load_checkpoint,
    save_model_folder,
)
from modeling.folder_files import (
    local_vocabulary,
    vocabulary_file,
    write_whole,
)
from modeling.hugging_face import is_hugging_face, model_config_file
from tasks.task import TASK
from training.checkpoints import (
    FOLDER,
    TrainingState,
    check_settings,
    saved_states,
)
from training.cloud_tpu import check_paths
from training.distribution import (
    Host,
    make_strategy,
    sum_over_hosts,
    this_host,
)
from training.loop import Objective, Source, check_hosts_agree, train
from training.optimization import AdamW, Lamb, Optimizer
from training.settings import (
    DeviceConfig,
    LoopConfig,
    OptimizerConfig,
    Selection,
)
from training.watching import BestKeeper

PATTERN = frozenset("*?[")


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
    direction: str | None = None  # in which it is to read; None: the config's


class Training(NamedTuple):
    """What a model is trained with."""

    source: Source
    optimizer: OptimizerConfig
    loop: LoopConfig
    # What the order of the data follows from, by flag: a stopped run goes on
    # with the same alone.
    data_order: Mapping[str, Any]
    keeper: BestKeeper | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What a run that goes on must have as it was begun with."""
        kind = self.optimizer.optimizer_type
        return {**self.data_order, "optimizer_type": kind}


class Place(NamedTuple):
    strategy: tf.distribute.Strategy
    host: Host


class Model(Objective, Protocol):
    encoder: AnyEncoder

    def bindings(self) -> list[Binding]: ...


def make_place(devices: DeviceConfig, **paths: str | None) -> Place:
    """Call it first of all: several hosts connect before TensorFlow starts.

    Args:
        paths: by flag, what the worker of a Cloud TPU would read and write.
    """
    check_paths(devices, paths)
    strategy = make_strategy(devices)
    return Place(strategy, this_host(strategy))


def read_config(run: RunConfig, max_seq_length: int) -> BertConfig:
    """The model's config, which must have room for `max_seq_length`."""
    path = run.bert_config_file
    path = path or _beside(run, model_config_file)
    if path is None:
        raise InputError(
            "the model's config is not known: give --bert_config_file, or an "
            "--init_checkpoint with a bert_config.json beside it"
        )
    config = BertConfig.from_json_file(command.local(path))
    if run.direction:
        config = dataclasses.replace(config, direction=run.direction)
    if max_seq_length > config.max_position_embeddings:
        raise InputError(
            f"--max_seq_length is {max_seq_length} but the config's "
            f"max_position_embeddings is {config.max_position_embeddings}; "
            "shorten it or change --bert_config_file"
        )
    check_config(config, run.init_checkpoint)
    check_second(config, run.init_checkpoint, run.second_init_checkpoint)
    return config


def _beside(run: RunConfig, find: Callable[[str], str | None]) -> str | None:
    """What lies beside --init_checkpoint, else in an output_dir in use."""
    start = run.init_checkpoint and find(run.init_checkpoint)
    if start or not tf.io.gfile.isdir(run.output_dir):
        return start
    return find(run.output_dir)


def find_vocabulary(run: RunConfig, config: BertConfig) -> str | None:
    """A local path of --vocab_file, else of what came with the checkpoint."""
    path = run.vocab_file or _beside(run, vocabulary_file)
    if path is None:
        return None
    path = local_vocabulary(path)
    vocab = check_any_vocabulary(path, config.vocab_size)
    if run.init_checkpoint and is_hugging_face(run.init_checkpoint):
        config.check_padding(vocab[marks_of(path).padding], path)
    if run.vocab_file:
        compare_pieces(run.vocab_file, vocab, run.init_checkpoint)
    compare_pieces(path, vocab, run.second_init_checkpoint)
    return path


def need_vocabulary(run: RunConfig, config: BertConfig) -> str:
    """As find_vocabulary, where there is nothing to be done without it."""
    path = find_vocabulary(run, config)
    if path is None:
        raise InputError(
            "the vocabulary is not known: give --vocab_file, or an "
            "--init_checkpoint with a vocab.txt beside it (or a vocab.json and "
            "a merges.txt)"
        )
    return path


def make_folder(run: RunConfig) -> None:
    """Makes output_dir; in a dry run, sees whether it could be made."""
    if PATTERN & set(run.output_dir):
        raise InputError(
            f"--output_dir={run.output_dir} has one of * ? [ in "
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
            f"cannot make the folder --output_dir={run.output_dir} "
            f"({error.message})"
        ) from error


def claim_folder(run: RunConfig, host: Host) -> None:
    """Keeps output_dir, which is there, to train in it alone.

    Raises:
        InputError: another process trains in it.
    """
    if host.is_chief and not run.dry_run:
        folder = os.path.join(run.output_dir, FOLDER)
        folder_lock.hold_to_the_end(folder, "--output_dir")


def _check_parent(output_dir: str) -> None:
    """Refuses a folder that cannot be made, or not be written to."""
    if "://" in output_dir:
        return
    path = os.path.abspath(output_dir)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path) or not os.access(path, os.W_OK | os.X_OK):
        raise InputError(
            f"cannot make or use the folder --output_dir={output_dir} "
            f"({path} is no folder that may be written to)"
        )


def make_model(
    make: Callable[[], Any], place: Place, run: RunConfig, seed: int
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
            f"--num_frozen_layers is {run.num_frozen_layers} but the model has "
            f"{num_layers} layers"
        )
    if run.num_frozen_layers >= 0:
        model.encoder.freeze(run.num_frozen_layers)
    if run.recompute:
        model.encoder.recompute()
    return model


class Run:
    """One model in one output_dir."""

    def __init__(
        self,
        model: Model,
        config: BertConfig,
        place: Place,
        run: RunConfig,
        vocab_file: str | None,
        task: str | None = None,
    ):
        """`task`: the text of task.json, where the model is fine-tuned."""
        self.model = model
        self.config = config
        self.place = place
        self.run = run
        self.vocab_file = vocab_file
        self.task = task
        self.folder = run.output_dir
        self.best = BestModel(run.output_dir)

    def take_up(self, settings: Mapping[str, Any], may_write: bool) -> None:
        """Loads --init_checkpoint, where output_dir has no state to go on from;
        refuses to go on with other settings than it began with."""
        if not saved_states(self.folder):
            if self.run.second_init_checkpoint:
                self._load_both(self.run.second_init_checkpoint)
            elif self.run.init_checkpoint:
                self._load(self.run.init_checkpoint)
        elif self.run.init_checkpoint:
            print("--init_checkpoint is not read again: --output_dir has begun")
        check_settings(self.folder, {**settings, **self._made_of()}, may_write)

    def _made_of(self) -> dict[str, Any]:
        """Config and vocabulary, in the form of settings."""
        config = dataclasses.asdict(self.config)
        digest = self.vocab_file and vocabulary_digest(self.vocab_file)
        return {
            **{f"bert_config_file's {key}": x for key, x in config.items()},
            "vocab_file": digest,
        }

    def _check_hosts_agree(self, training: Training) -> None:
        """On all that a step follows from, and when something else is done."""
        strategy, host = self.place
        alike = [
            training.settings,
            self._made_of(),
            self.run.precision,
            self.run.layer_decay,
            self.run.num_frozen_layers,
            dataclasses.asdict(training.optimizer),
            dataclasses.asdict(training.loop),
            training.keeper and training.keeper.patience,
        ]
        number = zlib.crc32(json.dumps(alike, sort_keys=True).encode())
        if sum_over_hosts(strategy, host, number) != number * host.count:
            raise InputError(
                "another host was started with other flags, config, vocabulary "
                "or files than this one; give all of them the same"
            )

    def train(self, training: Training) -> int:
        """Trains to the end and saves the model; returns its step."""
        strategy, host = self.place
        keeper = training.keeper
        self._check_hosts_agree(training)
        self.take_up(training.settings, host.is_chief)
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
            keeper,
        )
        if keeper is not None:
            check_hosts_agree(strategy, host, step)  # and wait for the chief
            step = self._load_best()
        if host.is_chief:
            self.best.forget()
            self._save(self.folder)
            if keeper is not None:
                self.best.finish()
            print(f"the model is in {self.folder}")
        return step

    def keeper(
        self,
        selection: Selection,
        metric: str,
        evaluate: Callable[[], dict[str, float]],
    ) -> BestKeeper | None:
        """What evaluates the model while it is trained, if it is to be."""
        if not selection.eval_steps:
            return None
        return BestKeeper(
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

    def take_over(
        self, folder: str, step: int, metrics: dict[str, float]
    ) -> None:
        """Makes the model of another run's folder this one's best."""
        check_hosts_agree(*self.place, step)  # and wait for the chief
        self._load(folder, quietly=True)
        if self.place.host.is_chief:
            self.best.forget()
            self._save(self.folder)
            self.best.take_over(step, metrics)

    def restore(self) -> int:
        """Loads what output_dir has, else --init_checkpoint; returns the step.

        What it has is its best model, its newest state, or just a model.
        """
        best_step = self.best.final_step()
        if best_step is None and saved_states(self.folder):
            return self.restore_state()
        has_model = tf.io.gfile.exists(
            os.path.join(self.folder, CHECKPOINT + ".index")
        )
        source = self.folder if has_model else self.run.init_checkpoint
        if has_model:
            check_config(self.config, self.folder)
        self._refuse_missing(self._load(source or self.folder))
        return best_step or 0

    def restore_state(self) -> int:
        """Loads the weights of output_dir's newest state; returns its step."""
        weights = [v.value for v in self.model.variables]
        state = TrainingState(self.folder, {"weights": weights}, 1, False)
        step = state.restore()
        print(f"the model is that of {self.folder} after step {step}")
        return step

    def _refuse_missing(self, report: LoadReport) -> None:
        """Of what is trained; a span model has no use for its pooler."""
        trained = {id(v) for v in self.model.trainable_variables}
        for binding in self.model.bindings():
            if (
                binding.name in report.missing
                and id(binding.variable) in trained
            ):
                raise InputError(
                    f"{report.source} has no {binding.name}, without which the "
                    "model would answer at random; give --do_train, or an "
                    "--init_checkpoint that was trained for this"
                )

    def write_results(
        self, results: Mapping[str, float], suffix: str = ""
    ) -> None:
        """Writes eval_results.txt in google-research/bert's format.

        Args:
            suffix: to the file's name, where there are several.
        """
        lines = [f"{key} = {results[key]}" for key in sorted(results)]
        print("***** Eval results *****", *lines, sep="\n")
        if self.place.host.is_chief:
            path = os.path.join(self.folder, f"eval_results{suffix}.txt")
            write_whole(path, ("\n".join(lines) + "\n").encode())

    def _optimizer(self, config: OptimizerConfig) -> Optimizer:
        variables, encoder = self.model.trainable_variables, self.model.encoder
        top = len(encoder.layers) + 1
        scales = [
            self.run.layer_decay ** (top - encoder.depth(variable))
            for variable in variables
        ]
        blocks = {id(b.variable): b.num_blocks for b in self.model.bindings()}
        kind = Lamb if config.optimizer_type == "lamb" else AdamW
        return kind(
            variables, config, scales, [blocks[id(v)] for v in variables]
        )

    def _load(self, source: str, quietly: bool = False) -> LoadReport:
        report = load_checkpoint(self.model.bindings(), source)
        if not quietly:
            print(report)
        return report

    def _load_both(self, second: str) -> None:
        first, encoder = self.run.init_checkpoint, self.model.encoder
        assert first and isinstance(encoder, TwinEncoder), "it was looked at"
        for report in load_both(encoder, self.model.bindings(), first, second):
            print(report)

    def _save(self, folder: str) -> None:
        save_model_folder(
            folder, self.config, self.model.bindings(), self.vocab_file
        )
        if self.task is not None:
            path = os.path.join(folder, TASK)
            write_whole(path, self.task.encode())
