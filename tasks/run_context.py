"""Where a run takes place: its devices, output_dir, and the config and
tokenizer of its model."""

import dataclasses
import os
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

import tensorflow as tf

from bert_keras import files, locks
from bert_keras.data.tokenizer_folder import (
    TOKENIZER_CONFIG,
    VOCABULARIES,
    OpenedTokenizer,
    TokenizerOptions,
    open_tokenizer,
)
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import CHECKPOINT, check_sizes
from bert_keras.modeling.config import BertConfig, model_config_file
from bert_keras.modeling.hugging_face import CONFIG, WEIGHTS
from bert_keras.tasks.base import check_backend
from bert_keras.tasks.checkpoint_compatibility import (
    check_config,
    check_second,
    check_tokens,
    compare_tokens,
)
from bert_keras.tasks.results import (
    ALSO_READ,
    EARLIER,
    RESULTS,
    WRITTEN,
    Results,
)
from bert_keras.tasks.task_config import TASK
from bert_keras.training.checkpoints import (
    BEST,
    STATES,
    BestCheckpoint,
    is_begun,
    saved_states,
)
from bert_keras.training.config import DeviceConfig
from bert_keras.training.distribution import (
    Host,
    check_paths,
    make_strategy,
    this_host,
)
from bert_keras.training.early_stopping import EVAL_LOG
from bert_keras.training.monitor import LOG, TENSORBOARD

FLAGS_FILE = "flags.txt"  # `flagfile=flags.txt` repeats the training
PATTERN = frozenset("*?[")
# Weights of Google's and Hugging Face's folders
MODEL_WEIGHTS = re.compile(
    r"bert_model\.ckpt\.index|model(-\d+-of-\d+)?\.safetensors"
    r"|pytorch_model(-\d+-of-\d+)?\.bin|tf_model\.h5|flax_model\.msgpack"
)
# Examples that fine-tuning writes and does not read
RECORDS = ("train.tf_record", "eval.tf_record", "predict.tf_record")
# Of output_dir, by the time that a model is trained
FILES = WRITTEN | {
    RESULTS, CONFIG, TASK, TOKENIZER_CONFIG, LOG, EVAL_LOG, FLAGS_FILE,
    *VOCABULARIES,
}  # fmt: skip
# and the folders there
FOLDERS = {STATES, BEST, EARLIER, TENSORBOARD}


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Where a run's model comes from and goes to, and how it is trained."""

    output_dir: str
    bert_config_file: str | None = None
    vocab_file: str | None = None
    init_checkpoint: str | None = None
    precision: str = "float32"
    layer_decay: float = 1.0
    num_frozen_layers: int = -1  # -1: not even the embeddings
    dry_run: bool = False  # nothing is written
    recompute: bool = False  # layers in the backward pass, to save memory
    second_init_checkpoint: str | None = None  # of a second encoder
    tokenizer: TokenizerOptions = TokenizerOptions()
    direction: str | None = None  # of reading; None: the config's
    do_train: bool = False
    flags: str | None = None  # the text of flags.txt; None: without that file
    # the data that is read, by argument
    data_files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    keep_classifier_head: bool = False  # although its labels have other names
    model_size: str | None = None  # one of SIZES, for `bert_config_file`

    @property
    def begins_anew(self) -> bool:
        """Whether a model is trained in the place of what output_dir may
        have."""
        return self.do_train and not saved_states(self.output_dir)


class Devices(NamedTuple):
    strategy: tf.distribute.Strategy
    host: Host


@dataclasses.dataclass(frozen=True)
class RunContext:
    """What a run has before it has a model."""

    devices: Devices
    run: RunConfig
    config: BertConfig
    tokenizer: OpenedTokenizer | None

    @property
    def writes(self) -> bool:
        """Whether this host does, and it is not a dry run."""
        return self.devices.host.is_chief and not self.run.dry_run


def make_devices(devices: DeviceConfig, **paths: str | None) -> Devices:
    """Call it first of all: several hosts connect before TensorFlow starts.

    Args:
        paths: by argument, what the worker of a Cloud TPU would read and write.
    """
    check_backend("models are trained")
    check_paths(devices, paths)
    strategy = make_strategy(devices)
    return Devices(strategy, this_host(strategy))


def uses_state(output_dir: str) -> bool:
    """Whether the model of output_dir is that of its newest state."""
    if not saved_states(output_dir):
        return False
    return BestCheckpoint(output_dir).final_step() is None


def read_config(run: RunConfig, max_seq_length: int) -> BertConfig:
    """The model's config, which must have room for `max_seq_length`."""
    folder = run.output_dir
    own = model_config_file(folder) if files.is_dir(folder) else None
    start = run.init_checkpoint and model_config_file(run.init_checkpoint)
    path = run.bert_config_file or (
        start or own if run.do_train else own or start
    )
    if run.model_size:
        config = _config_of_size(run, run.model_size)
    elif path:
        config = BertConfig.from_json_file(path)
    else:
        fault = "the model's config is not known"
        advice = (
            "give `bert_config_file`, `model_size` with `vocab_file`, or an "
            "`init_checkpoint` with a bert_config.json beside it"
        )
        if given := run.init_checkpoint:
            is_there = any(map(files.exists, (given, f"{given}.index")))
            fault = f"`init_checkpoint={given}` does not exist"
            advice = "expected a model folder or a checkpoint"
            if is_there:
                fault = (
                    f"`init_checkpoint={given}` has no bert_config.json or "
                    "config.json beside it"
                )
                advice = "put one there, or name one (bert_config_file)"
        raise InputError(f"{fault}; {advice}")
    if run.direction:
        config = dataclasses.replace(config, direction=run.direction)
    if max_seq_length > config.max_position_embeddings:
        raise InputError(
            f"`max_seq_length` is {max_seq_length} but the config's "
            f"max_position_embeddings is {config.max_position_embeddings}; "
            "shorten it, or take a model with more positions"
        )
    check_config(config, run.init_checkpoint)
    check_second(config, run.init_checkpoint, run.second_init_checkpoint)
    if not run.do_train:
        check_sizes(config, os.path.join(folder, CHECKPOINT))
    return config


def _config_of_size(run: RunConfig, size: str) -> BertConfig:
    if run.bert_config_file:
        raise InputError(
            f"`model_size={size}` and `bert_config_file="
            f"{run.bert_config_file}` are given; drop one"
        )
    found = open_tokenizer(None, run.vocab_file, run.tokenizer)
    if found is None:
        raise InputError(
            f"`model_size={size}` needs `vocab_file`, whose number "
            "of tokens the model will have"
        )
    number = 1 + max(found.load().vocab.values())  # ids may have gaps
    return BertConfig.of_size(size, number)


def find_tokenizer(
    run: RunConfig, config: BertConfig | None
) -> OpenedTokenizer | None:
    """The tokenizer of an output_dir in use, else of `init_checkpoint`, else of
    output_dir; with the tokens of `vocab_file` if it is given.

    Args:
        config: None: its number of tokens is not compared.
    """
    model = start = run.init_checkpoint
    has_vocabulary = start and (
        run.vocab_file or files.beside(start, VOCABULARIES)
    )
    if (
        not (has_vocabulary and run.begins_anew)
        and files.is_dir(run.output_dir)
        and files.beside(run.output_dir, VOCABULARIES)
    ):
        model = run.output_dir
    found = open_tokenizer(model, run.vocab_file, run.tokenizer)
    if found is None or config is None:
        return found
    vocab = check_tokens(found, config, model)
    if run.vocab_file:
        compare_tokens(run.vocab_file, vocab, run.init_checkpoint)
    compare_tokens(found.vocab_file, vocab, run.second_init_checkpoint)
    return found


def check_not_overwritten(output_dir: str, **models: str | None) -> None:
    """Raises an InputError where output_dir has the weights of a model that is
    read: by the argument that names it, a folder or a checkpoint."""
    for argument, path in models.items():
        if not path:
            continue
        folder = path
        if not files.is_dir(path):
            folder, name = os.path.split(path)
            if not name.startswith((CHECKPOINT, WEIGHTS)):
                continue
        place = os.path.realpath(folder)
        own = os.path.realpath(output_dir)
        # A better model takes the place of the best one.
        if place == own or os.path.dirname(place) == os.path.join(own, BEST):
            raise InputError(
                f"`output_dir={output_dir}` would overwrite the weights of "
                f"`{argument}={path}`; name another `output_dir`"
            )


def _refuse_parts_of_a_run(folder: str, trains: bool) -> None:
    """Raises an InputError if output_dir lies in a folder that another run
    empties, or has a device, a pipe or a folder where a file is written, or a
    file where a folder is made; to train, also if its weights cannot be
    replaced, or its states are another run's."""
    path = os.path.realpath(folder)
    while path != (parent := os.path.dirname(path)):
        is_run = os.path.isdir(os.path.join(parent, STATES))
        if is_run and os.path.basename(path) in (STATES, BEST):
            raise InputError(
                f"`output_dir={folder}` lies in {path}, which the run in "
                f"{parent} changes; name another folder"
            )
        path = parent
    for name in files.names_in(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        kind = None
        if name in FILES and os.path.isdir(path):
            kind = "a folder"
        elif name in FOLDERS and os.path.isfile(path):
            kind = "a file"
        elif files.is_stream(path):
            kind = "a device or a pipe"
        elif (
            trains and MODEL_WEIGHTS.fullmatch(name) and files.is_mounted(path)
        ):
            kind = "weights that are mounted by themselves"
        elif trains and name in (STATES, BEST) and os.path.islink(path):
            other, there = os.path.split(os.path.realpath(path))
            found = files.names_in(other) if os.path.isdir(other) else ()
            if there == name and not FILES.isdisjoint(found):
                kind = f"a link to that of {other}"
        if kind:
            raise InputError(
                f"`output_dir={folder}` has {name}, {kind}; remove it, or name "
                "another folder"
            )


def claim_folder(
    run: RunConfig,
    host: Host,
    records: Collection[str] = (),
    has_seeds: bool = False,
) -> None:
    """Makes output_dir and, to train, keeps it for this process alone. In a dry
    run sees whether it could be made.

    Args:
        records: names of files that a new run writes, or a first evaluation;
            somebody's own are moved.
        has_seeds: whether the model is the best of several seeds, each with a
            folder in output_dir.

    Raises:
        InputError: it cannot be made, another process trains in it, or results
            would take the place of data.
    """
    folder = run.output_dir
    if PATTERN & set(folder):
        raise InputError(
            f"`output_dir={folder}` has one of * ? [ in it, which TensorFlow "
            "takes for a pattern when it reads; give a name without"
        )
    if "://" not in folder:
        path = os.path.abspath(folder)
        while not os.path.lexists(path):
            path = os.path.dirname(path)
        if not os.path.isdir(path) or not os.access(path, os.W_OK | os.X_OK):
            raise InputError(
                f"cannot make or use the folder `output_dir={folder}` "
                f"({path} is not a folder that you may write to)"
            )
        _refuse_parts_of_a_run(folder, run.do_train)
    data = {name: [path] for name, path in run.data_files.items()}
    for paths in data.values():
        within = (os.path.join(paths[0], name) for name in ALSO_READ)
        paths += filter(os.path.exists, within)
    files.refuse_inputs("output_dir", folder, WRITTEN, **data)
    if run.do_train:
        check_not_overwritten(
            folder,
            init_checkpoint=run.init_checkpoint,
            second_init_checkpoint=run.second_init_checkpoint,
        )
    is_new = not files.exists(os.path.join(folder, STATES))
    goes_on = has_seeds and _has_seeds(folder)
    _refuse_anothers_model(folder, run.do_train and not goes_on)
    if run.dry_run:
        return
    try:
        tf.io.gfile.makedirs(folder)
    except tf.errors.OpError as error:
        raise InputError(
            f"cannot make the folder `output_dir={folder}` ({error.message})"
        ) from error
    if not host.is_chief:
        return
    if run.do_train:
        locks.lock_until_exit(os.path.join(folder, STATES), "output_dir")
    has_results = files.exists(os.path.join(folder, RESULTS))
    if is_new and (run.do_train or not has_results):  # they are somebody's own
        Results(folder).move(records)


def _has_seeds(folder: str) -> bool:
    """Whether runs of several seeds have begun in folders there."""
    if not files.is_dir(folder):
        return False
    seeds = (x for x in files.names_in(folder) if x.startswith("seed-"))
    return any(is_begun(os.path.join(folder, seed)) for seed in seeds)


def _refuse_anothers_model(folder: str, trains_anew: bool) -> None:
    """Raises an InputError if output_dir has a model of which there is no run
    to go on with: training would overwrite it. Google's code would resume from
    the model.ckpt-N in output_dir, and evaluate it; here it would train or
    evaluate another model."""
    if not files.is_dir(folder) or saved_states(folder):
        return
    names = set(files.names_in(folder))
    weights = sorted(filter(MODEL_WEIGHTS.fullmatch, names))
    if trains_anew and weights:
        raise InputError(
            f"`output_dir={folder}` has a model ({weights[0]}) and no training "
            "of it to go on with; name another folder (to start from this "
            f"model, give `init_checkpoint={folder}`, too)"
        )
    is_theirs = any(re.fullmatch(r"model\.ckpt-\d+\.index", x) for x in names)
    if is_theirs and not {f"{CHECKPOINT}.index", WEIGHTS} & names:
        raise InputError(
            f"`output_dir={folder}` has checkpoints of google-research/bert; "
            f"give `init_checkpoint={folder}` and another `output_dir`"
        )
