"""run_pretraining.py's work: the records, what is hidden in them, training and
evaluation.

Upstream file: run_pretraining.py, whose eval_results.txt this writes.
"""

import contextlib
import dataclasses
import functools
import itertools
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras import files
from bert_keras.data import text_files, validate_records
from bert_keras.data.dataset_batches import DatasetBatches, features_of
from bert_keras.data.dynamic_masking import BatchMasker, CausalLmLabels
from bert_keras.data.input_pipeline import (
    Masker,
    RecordBatches,
    count_records,
    evaluation_batches,
)
from bert_keras.data.masking import (
    MaskConfig,
    mask_hint,
    read_masking_vocabulary,
)
from bert_keras.data.record_schema import (
    Feature,
    HostShard,
    has_next_sentence,
    without_next_sentence,
)
from bert_keras.data.tfrecords import read_records
from bert_keras.data.tokenizer_folder import VOCABULARIES
from bert_keras.errors import (
    InputError,
    first_line,
    say_once,
    warn,
    with_flags,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.distillation.config import DistilBertLoss, StudentConfig
from bert_keras.tasks.pretraining import advice
from bert_keras.tasks.pretraining.model import MaskedLm, Pretraining
from bert_keras.tasks.run_context import (
    Devices,
    RunConfig,
    RunContext,
    claim_folder,
    find_tokenizer,
    read_config,
)
from bert_keras.tasks.run_settings import file_settings
from bert_keras.tasks.trainer import DataSize, Task, Trainer, TrainingPlan
from bert_keras.training.config import (
    Budget,
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)
from bert_keras.training.distribution import (
    check_batch_size,
    sum_over_hosts,
    wait_for_hosts,
)
from bert_keras.training.loop import Source
from bert_keras.training.monitor import Watch

NUM_SAMPLES = 4  # records whose predictions are shown
SOUND = "sound_records"  # folder under output_dir: copies of damaged files
# Arguments for records without masks alone.
MASKS = (
    "masked_lm_prob", "eval_masked_lm_prob", "do_whole_word_mask", "mask_share",
    "random_share",
)  # fmt: skip
DISTILLATION = {
    field.name
    for kind in (StudentConfig, DistilBertLoss)
    for field in dataclasses.fields(kind)
}


@dataclasses.dataclass(frozen=True)
class PretrainingConfig:
    """What is pre-trained on, how many rows at once and how many times."""

    input_file: str | tf.data.Dataset  # files, or the examples themselves
    eval_file: str | None = None
    general_eval_file: str | None = None  # to see what is forgotten
    max_seq_length: int = 128  # tokens
    skip_corrupt_records: bool = False
    # None: train it if the records have its labels
    next_sentence_prediction: bool | None = None
    do_eval: bool = False
    train_batch_size: int = 32  # rows of the global batch
    eval_batch_size: int = 8
    max_eval_steps: int = 100
    seed: int = 12345
    eval_masked_lm_prob: float | None = None  # None: as in training
    # for records without masks; max_predictions_per_seq for all
    masks: MaskConfig = MaskConfig()
    mask_flags: Sequence[str] = ()  # arguments of masks that were given
    optimizer: OptimizerConfig = OptimizerConfig()
    loop: LoopConfig = LoopConfig()
    selection: ModelSelection = ModelSelection()
    budget: Budget = Budget()


class Inputs(NamedTuple):
    train: list[str]  # files; none where there is a dataset
    held_out: list[str]
    features: tuple[Feature, ...]  # of the first record
    given: list[str]  # to be trained on, with what is damaged
    dataset: tf.data.Dataset | None
    general: list[str]  # files of another kind of text

    @property
    def paths(self) -> list[str]:
        return sorted({*self.train, *self.held_out, *self.general})

    @property
    def have_masks(self) -> bool:
        return all(f.name != "segment_lengths" for f in self.features)

    @property
    def have_pairs(self) -> bool:
        return has_next_sentence(self.features)


def open_records(
    config: PretrainingConfig,
    run: RunConfig,
    model_config: BertConfig,
    devices: Devices,
) -> Inputs:
    """What is trained and evaluated on: all records are of the kind of the
    first one, or of a dataset's examples.

    Raises:
        InputError: they do not fit the model or what is asked.
    """
    dataset, train, general = None, [], []
    if isinstance(config.input_file, str):
        train = text_files.expand_patterns(config.input_file)
    else:
        dataset = config.input_file
    held_out = train
    if config.eval_file:
        held_out = text_files.expand_patterns(config.eval_file, "eval_file")
    if config.general_eval_file:
        general = text_files.expand_patterns(
            config.general_eval_file, "general_eval_file"
        )
    evaluated = {"eval_file": held_out} if config.eval_file else {}
    if run.do_train:
        warn_of_shared(train, **evaluated, general_eval_file=general)
    if dataset is None:
        features = _features_of_files(train, config, model_config, devices)
    else:
        features = _features_of_dataset(dataset, config, model_config)
    if config.next_sentence_prediction is False:
        features = without_next_sentence(features)
    inputs = Inputs(train, held_out, features, train, dataset, general)
    if config.next_sentence_prediction is not False:
        validate_records.check_labels(
            train, features, config.skip_corrupt_records
        )
    if config.skip_corrupt_records:
        inputs = _leave_out_damage(
            inputs, run, model_config.vocab_size, devices
        )
    validate_records.check_files(
        inputs.paths, features, vocab_size=model_config.vocab_size
    )
    if train:
        validate_records.check_masks(inputs.train, features)
    return inputs


def warn_of_shared(train: Sequence[str], **others: Sequence[str]) -> None:
    """Warns of files that are trained on and among the `others`, by argument,
    that are evaluated."""
    for argument, paths in others.items():
        for path in paths:
            if any(files.are_same(path, x) for x in train):
                warn(
                    f"{path} is among the files of `input_file` and of "
                    f"`{argument}`: scores on what is trained on say little "
                    "about new text"
                )
                break


def _features_of_files(
    paths: Sequence[str],
    config: PretrainingConfig,
    model_config: BertConfig,
    devices: Devices,
) -> tuple[Feature, ...]:
    skips = config.skip_corrupt_records
    if sum_over_hosts(*devices, int(skips)) != skips * devices.host.count:
        raise InputError(
            "`skip_corrupt_records` was given to some hosts and not to "
            "others; give it to all of them"
        )
    features = validate_records.table_of(
        validate_records.read_first_known(paths)
        if skips
        else validate_records.read_first(paths[0]),
        config.max_seq_length,
        config.masks.max_predictions_per_seq,
        model_config.type_vocab_size or None,
    )
    if config.next_sentence_prediction and not has_next_sentence(features):
        raise InputError(
            f"{paths[0]} has records without next_sentence_labels, on which "
            "`next_sentence_prediction` cannot be trained; leave it out, or "
            "make records with `sequence_format=segment_pair`"
        )
    return features


def _features_of_dataset(
    dataset: tf.data.Dataset,
    config: PretrainingConfig,
    model_config: BertConfig,
) -> tuple[Feature, ...]:
    if config.skip_corrupt_records:
        raise InputError(
            "`skip_corrupt_records` is for files of records, and a dataset "
            "is trained on; leave it out"
        )
    features = features_of(dataset, model_config.type_vocab_size or None)
    if config.next_sentence_prediction and not has_next_sentence(features):
        raise InputError(
            "the dataset has no next_sentence_labels, on which "
            "`next_sentence_prediction` could be trained; leave it out"
        )
    return features


def _leave_out_damage(
    inputs: Inputs, run: RunConfig, vocab_size: int, devices: Devices
) -> Inputs:
    """Puts in the place of each damaged file a copy without what cannot be
    used: in output_dir or, in a dry run, in a folder that is removed."""
    folder = os.path.join(run.output_dir, SOUND)
    sound = validate_records.CleanRecords(inputs.features, vocab_size, folder)
    is_temporary = run.dry_run and not sound.are_made(inputs.paths)
    if is_temporary:
        folder = files.temporary_folder()
        sound = validate_records.CleanRecords(
            inputs.features, vocab_size, folder
        )
    if is_temporary or devices.host.is_chief:
        sound.make(inputs.paths)
    wait_for_hosts(*devices)  # until the chief has made them
    return inputs._replace(
        train=sound.files(inputs.train),
        held_out=sound.files(inputs.held_out),
        general=sound.files(inputs.general) if inputs.general else [],
    )


def check_direction(
    inputs: Inputs, direction: str, mask_flags: Sequence[str]
) -> None:
    """Refuses arguments of masks if the records are masked already. A model of
    one direction predicts each next token: it takes neither."""
    if direction == "bidirectional":
        if mask_flags and inputs.have_masks:
            raise InputError(
                f"the records already have masks, which `{mask_flags[0]}` "
                "does not change; leave it out, or make the records anew with "
                "it, or with `dynamic_masking` of create_pretraining_data.py"
            )
        return
    if inputs.have_masks:
        raise InputError(
            "the records have masks, and a model of one direction "
            f"({direction}) predicts each next token of whole text; make "
            "them with create_pretraining_data.py `dynamic_masking`"
        )
    if mask_flags:
        raise InputError(
            f"`{mask_flags[0]}` is for masks, and nothing is masked where a "
            f"model reads in one direction ({direction}); leave it out"
        )


@functools.cache  # evaluations are many
def _hold_more(paths: tuple[str, ...], number: int) -> bool:
    """Whether files hold more records than that."""
    records = itertools.chain.from_iterable(map(read_records, paths))
    with contextlib.suppress(InputError):  # which nobody may come to
        return any(True for _ in itertools.islice(records, number, number + 1))
    return False


def _reason(error: Exception) -> str:
    """What TensorFlow says is wrong, without where."""
    failed = re.search(
        r"assertion failed: \[(\w+)\] \[Condition x ([<>])=? .* \[(-?\d+)\]$",
        str(error),
        re.MULTILINE,
    )
    if not failed:
        return first_line(error)
    name, sign, limit = failed.groups()
    side = "above" if sign == "<" else "below"
    return f"{name} has a number {side} {limit}"


def _never_masked(masker: Masker | None) -> set[int]:
    """Ids; none where records have their masks."""
    if not isinstance(masker, BatchMasker):
        return set()
    return {masker.vocab.padding, masker.vocab.start, masker.vocab.end}


class PretrainingTask(Task):
    """Pre-training on records."""

    def __init__(
        self,
        devices: Devices,
        run: RunConfig,
        config: PretrainingConfig,
        model_source: RunConfig | None = None,
        other_settings: Mapping[str, Any] | None = None,
    ):
        """Reads and checks all that is there before there is a model.

        Args:
            model_source: says where the model's config and vocabulary are;
                None: `run` does.
            other_settings: what else changes what is learnt, by argument.
        """
        self.config = config
        self.other_settings = other_settings or {}
        self.compares = config.selection.compares(run.do_train)
        if self.compares and not config.eval_file:
            raise InputError(
                "`eval_steps` compares models on records that they are not "
                "trained on: give `eval_file`"
            )
        source = model_source or run
        model_config = read_config(source, config.max_seq_length)
        tokenizer = find_tokenizer(source, model_config)
        if run.do_train:
            check_batch_size(
                devices.strategy,
                "train_batch_size",
                config.train_batch_size,
                config.loop.num_accumulation_steps,
            )
        if config.do_eval or self.compares:
            check_batch_size(
                devices.strategy, "eval_batch_size", config.eval_batch_size, 1
            )
        claim_folder(run, devices.host)
        self.inputs = open_records(config, run, model_config, devices)
        check_direction(self.inputs, model_config.direction, config.mask_flags)
        if tokenizer is not None:
            inputs, start = self.inputs, source.init_checkpoint
            kinds = inputs.train, inputs.held_out, inputs.general
            first_files = {path for paths in kinds for path in paths[:1]}
            validate_records.check_first_records(
                sorted(first_files), tokenizer.load()
            )
            start_vocab_file = start and files.beside(start, VOCABULARIES)
            vocab_files = (
                tokenizer.vocab_file, source.vocab_file, start_vocab_file,
            )  # fmt: skip
            is_bytes = files.is_byte_level(tokenizer.vocab_file)
            validate_records.check_vocabulary(
                inputs.paths,
                filter(None, vocab_files),
                None if is_bytes else tokenizer.settings,
            )
        self.context = RunContext(devices, run, model_config, tokenizer)
        self.model_class = Pretraining if self.inputs.have_pairs else MaskedLm
        self.metric_names = ("loss", *self.model_class.metric_names)

    def make_model(self, config: BertConfig) -> Any:
        return self.model_class(config)

    @property
    def begins_at_random(self) -> bool:
        return not self.context.run.init_checkpoint

    def data_size(self) -> DataSize:
        paths = self.inputs.train
        number, is_exact = count_records(paths)
        about = "" if is_exact else "about "
        text = f"{about}{number:,} records in {len(paths):,} files"
        return DataSize(number, self.config.max_seq_length, text)

    @property
    def is_causal(self) -> bool:
        """Whether the model reads in one direction and predicts what comes
        next."""
        return self.context.config.direction != "bidirectional"

    def plan(self, trainer: Trainer) -> TrainingPlan:
        config, inputs, host = self.config, self.inputs, trainer.devices.host
        share = HostShard(host.index, host.count)
        masker = self._masker(config.masks, config.seed, share)
        source: Source
        if inputs.dataset is None:
            source = RecordBatches(
                inputs.train,
                inputs.features,
                self._batch_size,
                config.seed,
                self.context.config.vocab_size,
                share,
                masker,
                num_ahead=2 * config.loop.steps_per_call + 2,
            )
        elif config.loop.batch_ramp_steps:
            raise InputError(
                "`batch_ramp_steps` is for files of records, not for a "
                "dataset; leave it out"
            )
        else:
            source = DatasetBatches(
                inputs.dataset,
                inputs.features,
                config.train_batch_size,
                self.context.config.vocab_size,
                share,
                masker,
            )
        hints, notes, watch = self._advice(masker)
        return TrainingPlan(
            source=source,
            optimizer=config.optimizer,
            loop=config.loop,
            selection=config.selection,
            others=self._settings(masker),
            begins_at_random=self.begins_at_random,
            hints=hints,
            notes=notes,
            budget=config.budget,
            watch=watch,
        )

    def _settings(self, masker: Masker | None) -> dict[str, Any]:
        """Settings that change what is learnt, beside the optimiser's and the
        loop's, in the order in which they are stored; None where the runs of
        earlier versions store nothing."""
        config, inputs = self.config, self.inputs
        data: dict[str, Any]
        if inputs.dataset is None:
            data = file_settings("input_file", inputs.given)
        else:
            names = sorted(feature.name for feature in inputs.features)
            data = {"input_file": [f"a dataset of {', '.join(names)}"]}
        watched: dict[str, Any] = {
            "eval_steps": config.selection.eval_steps,
            "best_metric": self.metric(config.selection),
            **file_settings("eval_file", inputs.held_out),
            "eval_batch_size": config.eval_batch_size,
            "max_eval_steps": config.max_eval_steps,
            "eval_masked_lm_prob": config.eval_masked_lm_prob,
        }
        if not self.compares:
            watched = dict.fromkeys(watched)
        general: dict[str, Any] = {"general_eval_file": None}
        if inputs.general:
            general |= file_settings("general_eval_file", inputs.general)
        direction = self.context.config.direction
        settings = {
            "max_seq_length": config.max_seq_length,
            "max_predictions_per_seq": config.masks.max_predictions_per_seq,
            "skip_corrupt_records": config.skip_corrupt_records or None,
            **data,
            "train_batch_size": config.train_batch_size,
            "seed": config.seed,
            "direction": direction if self.is_causal else None,
            "next_sentence_prediction": None if inputs.have_pairs else False,
            **watched,
            "train_hours": config.budget.train_hours,
            "train_tokens": config.budget.train_tokens,
            **general,
            **self.other_settings,
        }
        if config.loop.batch_ramp_steps:
            settings["batch_ramp_steps's beginning"] = self._batch_size(0)
        if isinstance(masker, BatchMasker):
            settings |= dataclasses.asdict(masker.config)
        return settings

    def _advice(
        self, masker: Masker | None
    ) -> tuple[list[str], list[str], Watch | None]:
        """Returns hints (warnings about the data), notes (lines to print) and
        the watch that checks whether the model learns."""
        config, inputs = self.config, self.inputs
        found: dict[str, np.ndarray] = {}
        if inputs.dataset is None:
            found = advice.first_records(inputs.features, inputs.train)
        hints, notes = advice.length_hint(found, config.max_seq_length), []
        if isinstance(masker, BatchMasker):
            percent = 100 * masker.config.masked_lm_prob
            in_words = ", whole words" * masker.config.do_whole_word_mask
            notes.append(f"masking {percent:.4g}% of the tokens{in_words}")
            hints += self._mask_hints(trains=True)
        if self.is_causal:
            return hints, notes, None
        ids, guess = advice.answers(found, _never_masked(masker)), None
        if ids.size:
            loss, accuracy = guess = advice.guessing(ids)
            total, end = loss, ""
            if inputs.have_pairs and (pairs := advice.labels(found)).size:
                pair_loss, pair_guess = advice.guessing(pairs)
                total, end = loss + pair_loss, f", nsp_acc {pair_guess:.4f}"
            notes.append(
                f"guessing by frequency alone: loss {total:.2f}, mlm_loss "
                f"{loss:.2f}, mlm_acc {accuracy:.4f}{end}"
            )
        watch = advice.PlateauWatch(
            guess, config.optimizer.bias_correction, self.begins_at_random
        )
        return hints, notes, watch

    def _mask_hints(self, trains: bool) -> list[str]:
        """Sentences on masks, drawn in training or in evaluation, that are
        fewer than asked for."""
        config, hints, shares = self.config, [], {}
        if trains or config.eval_masked_lm_prob is None:
            shares["masked_lm_prob"] = config.masks.masked_lm_prob
        if config.eval_masked_lm_prob is not None:
            shares["eval_masked_lm_prob"] = config.eval_masked_lm_prob
        for argument, share in shares.items():
            masks = dataclasses.replace(config.masks, masked_lm_prob=share)
            if hint := mask_hint(config.max_seq_length, masks, argument):
                hints.append(hint)
        return hints

    def _batch_size(self, step: int) -> int:
        """Rows of the batch that follows `step` finished ones."""
        loop, rows = self.config.loop, self.config.train_batch_size
        parts = loop.num_micro_batches(step)
        return rows * parts // loop.num_accumulation_steps

    def evaluate(self, trainer: Trainer) -> dict[str, float]:
        """On the held-out records; on general ones, if there are some, too,
        with "general_" before the names of those metrics."""
        found = {}
        texts = {"": self.inputs.held_out, "general_": self.inputs.general}
        for prefix, paths in texts.items():
            if paths:
                self._say_how_many(paths)
                batches = self._evaluation_batches(trainer, paths)
                for name, value in trainer.evaluation(batches).items():
                    found[f"{prefix}{name}"] = value
        return found

    def _say_how_many(self, paths: Sequence[str]) -> None:
        """Says how many records are evaluated where not all are."""
        steps, size = self.config.max_eval_steps, self.config.eval_batch_size
        if _hold_more(tuple(paths), steps * size):
            others = f" and {len(paths) - 1:,} others" * (len(paths) > 1)
            # no flags here: pretrain_domain.py has none for these
            say_once(
                f"evaluates the first {steps * size:,} records of {paths[0]}"
                f"{others} (max_eval_steps={steps}, eval_batch_size={size})"
            )

    def samples(self, trainer: Trainer) -> str:
        """The first held-out records: [sat] was predicted where "sat" was
        masked, and [sat->ran] where "ran" was predicted instead."""
        tokenizer = self.context.tokenizer
        num_replicas = trainer.devices.strategy.num_replicas_in_sync
        if tokenizer is None or self.is_causal or num_replicas > 1:
            return ""
        names = tokenizer.load().inv_vocab
        batches = self._evaluation_batches(trainer, self.inputs.held_out)
        batch = {
            name: value[:NUM_SAMPLES] for name, value in next(batches).items()
        }
        predictions = trainer.model.predictions(batch).numpy()
        rows = {name: value.numpy() for name, value in batch.items()}
        filled = "input_mask" if "input_mask" in rows else "sequence_numbers"
        texts = []
        for row in range(len(rows["input_ids"])):
            tokens = [names.get(i, str(i)) for i in rows["input_ids"][row]]
            for place, true, weight, predicted in zip(
                rows["masked_lm_positions"][row],
                rows["masked_lm_ids"][row],
                rows["masked_lm_weights"][row],
                predictions[row],
                strict=True,
            ):
                if weight:
                    found = [names.get(i, str(i)) for i in (true, predicted)]
                    tokens[place] = f"[{'->'.join(dict.fromkeys(found))}]"
            shown = itertools.compress(tokens, rows[filled][row])
            texts.append("    " + " ".join(shown))  # Markdown's code
        return "\n\n".join(texts)

    def _evaluation_batches(
        self, trainer: Trainer, paths: Sequence[str]
    ) -> Iterator[Any]:
        config, host = self.config, trainer.devices.host
        masks = config.masks
        if (share := config.eval_masked_lm_prob) is not None:
            masks = dataclasses.replace(masks, masked_lm_prob=share)
        return evaluation_batches(
            paths,
            self.inputs.features,
            config.eval_batch_size,
            config.max_eval_steps,
            self.context.config.vocab_size,
            HostShard(host.index, host.count),
            # always by the same seed, so that evaluations can be compared
            self._masker(masks, 0, HostShard()),
        )

    def report(self, trainer: Trainer) -> None:
        """Writes eval_results.txt in google-research/bert's format."""
        if self.inputs.held_out == self.inputs.train:
            text = "evaluating on the records of `input_file`"
            if trainer.run.do_train:
                text += (
                    ", on which the model was trained: such scores say little "
                    "about new text"
                )
            print(with_flags(f"{text}; give `eval_file` for other records"))
        draws = not (self.is_causal or self.inputs.have_masks)
        if draws and not trainer.run.do_train:
            for hint in self._mask_hints(trains=False):
                warn(hint)
        data = "eval_file" if self.config.eval_file else "input_file"
        trainer.write_results(self.evaluate(trainer), data=data)
        if not self.is_causal:
            masker = self._masker(self.config.masks, 0, HostShard())
            ids, seen = (
                advice.answers(
                    advice.first_records(self.inputs.features, paths),
                    _never_masked(masker),
                )
                for paths in (self.inputs.held_out, self.inputs.train)
            )
            if ids.size:
                loss, accuracy = advice.guessing(ids, seen)
                text = (
                    "guessing by the frequencies of `input_file` alone: "
                    f"masked_lm_loss {loss:.2f}, masked_lm_accuracy "
                    f"{accuracy:.4f}"
                )
                print(with_flags(text))

    @contextlib.contextmanager
    def explain_parse_errors(self) -> Iterator[None]:
        """Says which record is to blame where TensorFlow cannot read one."""
        try:
            yield
        except (
            tf.errors.InvalidArgumentError,
            UnicodeDecodeError,  # where TensorFlow quotes the record
        ) as error:
            inputs, vocab_size = self.inputs, self.context.config.vocab_size
            if inputs.dataset is not None:
                raise InputError(
                    "an example of the dataset cannot be used: "
                    f"{_reason(error)}"
                ) from error
            print("looking for a damaged record", file=sys.stderr)
            damage = validate_records.find_damage(
                inputs.paths, inputs.features, vocab_size
            )
            if damage is None:
                raise
            raise InputError(damage) from error

    def _masker(
        self, masks: MaskConfig, seed: int, share: HostShard
    ) -> Masker | None:
        """What hides tokens, or in one direction says which come next; None for
        records that have their masks."""
        if self.inputs.have_masks:
            return None
        if self.context.tokenizer is None:
            raise InputError(
                "the records have no masks, and to draw them the vocabulary "
                "has to be known; give `vocab_file`"
            )
        tokenizer = self.context.tokenizer.load()
        vocab, specials = tokenizer.vocab, tokenizer.special_tokens
        vocabulary = read_masking_vocabulary(vocab, specials)
        if self.is_causal:
            return CausalLmLabels(vocabulary, self.context.config.direction)
        return BatchMasker(vocabulary, masks, seed, share)


def make_task(
    devices: Devices,
    run: RunConfig,
    config: PretrainingConfig,
    student: StudentConfig,
    loss: DistilBertLoss,
    given: Collection[str],
) -> PretrainingTask:
    """Pre-training, with a teacher if `student` names one.

    Args:
        given: names of the settings that do not merely have their defaults.

    Raises:
        InputError: records, model and settings do not fit each other.
    """
    if config.budget.given and "num_train_steps" in given:
        raise InputError(
            f"`num_train_steps` and `{config.budget.given[0]}` both say how "
            "long to train; give one of them"
        )
    if student.teacher_model_dir:
        if config.next_sentence_prediction:
            raise InputError(
                "`next_sentence_prediction` is not part of what a teacher "
                "teaches; leave it or `teacher_model_dir` out"
            )
        from bert_keras.tasks.distillation.pretraining import (
            DistilledPretrainingTask,
        )

        return DistilledPretrainingTask(student, loss, devices, run, config)
    for name in sorted(DISTILLATION - {"teacher_model_dir"}):
        if name in given:
            raise InputError(
                f"`{name}` is for a model with a teacher; give "
                "`teacher_model_dir`, or leave it out"
            )
    # Settings of a teacher are stored as None where there is none.
    return PretrainingTask(
        devices, run, config, other_settings=dict.fromkeys(sorted(DISTILLATION))
    )
