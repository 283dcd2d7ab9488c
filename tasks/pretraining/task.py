"""run_pretraining.py's work: a model, what it reads, training and evaluation.

Upstream file: run_pretraining.py, whose eval_results.txt this writes.
"""

import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_keras.data.batching import HostShard
from bert_keras.data.dynamic_masking import BatchMasker
from bert_keras.data.input_pipeline import (
    Masker,
    RecordBatches,
    count_records,
    evaluation_batches,
)
from bert_keras.data.masking import MaskConfig
from bert_keras.data.record_schema import has_next_sentence
from bert_keras.data.validate_records import check_pieces, find_damage
from bert_keras.errors import InputError, with_flags
from bert_keras.files import fingerprint
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks import dry_run, trainer
from bert_keras.tasks.pretraining import inputs as pretraining_inputs
from bert_keras.tasks.pretraining.model import MaskedLm, Pretraining
from bert_keras.training.config import (
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)
from bert_keras.training.distribution import check_batch_size
from bert_keras.training.loop import Evaluation


@dataclasses.dataclass(frozen=True)
class Batches:
    """How many rows at once, and how many times; fields by flag."""

    do_train: bool
    do_eval: bool
    train_batch_size: int  # rows of the global batch
    eval_batch_size: int
    max_eval_steps: int
    num_accumulation_steps: int
    seed: int
    eval_masked_lm_prob: float | None  # None: as in training


@dataclasses.dataclass(frozen=True)
class PretrainingConfig:
    """What is pre-trained, on what and for how long."""

    run: trainer.RunConfig
    records: pretraining_inputs.Records
    batches: Batches
    masks: MaskConfig  # how pieces are hidden in records without masks
    mask_flags: Sequence[str]  # those of `masks` that were given
    optimizer: OptimizerConfig
    loop: LoopConfig
    selection: ModelSelection


class PretrainingTask:
    """Pre-training.

    Args:
        other_settings: what else changes what is learnt, by argument.
    """

    def __init__(
        self,
        place: trainer.Devices,
        setup: PretrainingConfig,
        other_settings: Mapping[str, Any],
    ):
        run, records = setup.run, setup.records
        self.batches = setup.batches
        self.masks = setup.masks
        self.mask_flags = setup.mask_flags
        self.optimizer = setup.optimizer
        self.loop = setup.loop
        self.selection = setup.selection
        self.other_settings = other_settings
        if self._watches and not records.eval_file:
            raise InputError(
                "`eval_steps` compares models on records that they are not "
                "trained on: give `eval_file`"
            )
        source = self.model_source(run)
        config = trainer.read_config(source, records.max_seq_length)
        tokenizer = trainer.find_tokenizer(source, config)
        self._check_batch_sizes(place)
        trainer.make_folder(run)
        if self.batches.do_train:
            trainer.claim_folder(run, place.host)
        self.inputs = pretraining_inputs.checked(records, config, place)
        self.records = records
        self.max_seq_length = records.max_seq_length
        self.skips = records.skip_corrupt_records
        self._check_masks(config.direction)
        if tokenizer is not None:
            firsts = sorted({self.inputs.train[0], self.inputs.held_out[0]})
            check_pieces(firsts, tokenizer.load())
        model = self.make_model(config, place, run)
        self.fitted = trainer.Trainer(
            model, model.encoder.config, place, run, tokenizer
        )
        self.metric = self._metric(model)
        self.evaluation = Evaluation(model, *place)

    def _check_batch_sizes(self, place: trainer.Devices) -> None:
        batches = self.batches
        check = functools.partial(check_batch_size, place.strategy)
        if batches.do_train:
            check(
                "train_batch_size",
                batches.train_batch_size,
                batches.num_accumulation_steps,
            )
        if batches.do_eval or self._watches:
            check("eval_batch_size", batches.eval_batch_size, 1)

    def model_source(self, run: trainer.RunConfig) -> trainer.RunConfig:
        """The run, as it names where config and vocabulary are."""
        return run

    def make_model(
        self, config: BertConfig, place: trainer.Devices, run: trainer.RunConfig
    ) -> trainer.Model:
        """The model before `init_checkpoint` is loaded.

        Args:
            config: what `model_source` has.
        """
        has_pairs = has_next_sentence(self.inputs.features)
        kind = Pretraining if has_pairs else MaskedLm
        seed = self.batches.seed
        return trainer.make_model(lambda: kind(config), place, run, seed)

    @property
    def begins_at_random(self) -> bool:
        return not self.fitted.run.init_checkpoint

    def _metric(self, model: Any) -> str:
        names = "loss", *model.metric_names
        metric = self.selection.best_metric or names[0]
        if metric not in names:
            raise InputError(
                f"`best_metric={metric}` is not among the metrics of this "
                f"model: {', '.join(names)}"
            )
        return metric

    def dry_run(self) -> None:
        """`dry_run`."""
        if not self.batches.do_train:
            dry_run.report_use(self.fitted)
            return
        paths = self.inputs.train
        number, is_exact = count_records(paths)
        about = "" if is_exact else "about "
        text = f"{about}{number:,} records in {len(paths):,} files"
        dry_run.report_training(
            self.fitted,
            self._training(),
            dry_run.Data(number, text),
            self.max_seq_length,
        )

    def train(self) -> int:
        """Returns the number of the model's steps."""
        training = self._training()
        self.fitted.begin(training)
        return self.fitted.train(training)

    def restore(self) -> int:
        """The same of a model that is only evaluated."""
        return self.fitted.restore()

    def evaluate(self, step: int) -> None:
        """Writes eval_results.txt in google-research/bert's format."""
        if self.inputs.held_out == self.inputs.train:
            text = (
                "evaluating on the records of `input_file`"
                + (", which were trained on" if self.batches.do_train else "")
                + "; `eval_file` names others"
            )
            print(with_flags(text))
        results = {"global_step": step, **self._figures()}
        data = "eval_file" if self.records.eval_file else "input_file"
        self.fitted.write_results(results, data=data)

    def _figures(self) -> dict[str, float]:
        """Of the model as it is now, on the held-out records."""
        host = self.fitted.place.host
        masks = self.masks
        if (share := self.batches.eval_masked_lm_prob) is not None:
            masks = dataclasses.replace(masks, masked_lm_prob=share)
        batches = evaluation_batches(
            self.inputs.held_out,
            self.inputs.features,
            self.batches.eval_batch_size,
            self.batches.max_eval_steps,
            self.fitted.config.vocab_size,
            HostShard(host.index, host.count),
            # always by the same seed, so that evaluations can be compared
            self._masker(masks, 0, HostShard()),
        )
        return self.evaluation(batches)

    @contextlib.contextmanager
    def explain_parse_errors(self) -> Iterator[None]:
        """Says which record is to blame where TensorFlow cannot read one."""
        try:
            yield
        except (
            tf.errors.InvalidArgumentError,
            UnicodeDecodeError,  # where TensorFlow quotes the record
        ) as error:
            print("looking for a damaged record", file=sys.stderr)
            inputs, vocab_size = self.inputs, self.fitted.config.vocab_size
            damage = find_damage(inputs.paths, inputs.features, vocab_size)
            if damage is None:
                raise
            raise InputError(damage) from error

    def _training(self) -> trainer.TrainingPlan:
        host = self.fitted.place.host
        share = HostShard(host.index, host.count)
        masker = self._masker(self.masks, self.batches.seed, share)
        source = RecordBatches(
            self.inputs.train,
            self.inputs.features,
            self.batches.train_batch_size,
            self.batches.seed,
            self.fitted.config.vocab_size,
            share,
            masker,
            num_ahead=2 * self.loop.steps_per_call + 2,
        )
        has_pairs = has_next_sentence(self.inputs.features)
        direction = self.fitted.config.direction
        return trainer.TrainingPlan(
            source,
            self.optimizer,
            self.loop,
            {
                **dataclasses.asdict(self.records),
                **dataclasses.asdict(self.batches),
                "patience": self.selection.patience,
                "skip_corrupt_records": self.skips or None,
                **_contents("input_file", self.inputs.given),
                "train_batch_size": self.batches.train_batch_size,
                "seed": self.batches.seed,
                # None, which runs of old have of both, where all is seen, ...
                "direction": None
                if direction == "bidirectional"
                else direction,
                # ... and where it is trained
                "next_sentence_prediction": None if has_pairs else False,
                **self._watched_settings(),
                **self.other_settings,
                **(
                    dataclasses.asdict(masker.config)
                    if isinstance(masker, BatchMasker)
                    else {}
                ),
            },
            self.fitted.make_early_stopping(
                self.selection, self.metric, self._figures
            ),
            begins_at_random=self.begins_at_random,
            hints=pretraining_inputs.length_hint(
                self.inputs, self.max_seq_length
            ),
        )

    @property
    def _watches(self) -> bool:
        """Whether the model is evaluated while it is trained."""
        return self.batches.do_train and self.selection.eval_steps > 0

    def _watched_settings(self) -> dict[str, Any]:
        """What evaluations on the way follow from; None where there are
        none, as runs of old have none."""
        settings = {
            "eval_steps": self.selection.eval_steps,
            "best_metric": self.metric,
            **_contents("eval_file", self.inputs.held_out),
            "eval_batch_size": self.batches.eval_batch_size,
            "max_eval_steps": self.batches.max_eval_steps,
            "eval_masked_lm_prob": self.batches.eval_masked_lm_prob,
        }
        return settings if self._watches else dict.fromkeys(settings)

    def _masker(
        self, masks: MaskConfig, seed: int, share: HostShard
    ) -> Masker | None:
        """None for records that have their masks."""
        features = self.inputs.features
        return pretraining_inputs.make_masker(
            self.fitted, features, masks, seed, share
        )

    def _check_masks(self, direction: str) -> None:
        """Refuses flags of masks where the records have theirs, and both where
        each next piece is predicted."""
        has_masks = pretraining_inputs.has_masks(self.inputs.features)
        if direction == "bidirectional":
            if self.mask_flags and has_masks:
                raise InputError(
                    f"the records have masks, of which `{self.mask_flags[0]}` "
                    "changes nothing; leave it out, or make records with "
                    "create_pretraining_data.py `dynamic_masking`"
                )
            return
        if has_masks:
            raise InputError(
                "the records have masks, and a model of one direction "
                f"({direction}) predicts each next piece of whole text; make "
                "them with create_pretraining_data.py `dynamic_masking`"
            )
        if self.mask_flags:
            raise InputError(
                f"`{self.mask_flags[0]}` is for masks, and nothing is masked "
                f"where a model reads in one direction ({direction}); leave it "
                "out"
            )


def _contents(argument: str, paths: Sequence[str]) -> dict[str, list[str]]:
    """The names of files, and what identifies their contents."""
    return {
        argument: [
            f"{path}, {tf.io.gfile.stat(path).length} bytes" for path in paths
        ],
        f"{argument}'s contents": [
            f"{os.path.basename(path)}, {fingerprint(path)}" for path in paths
        ],
    }
