"""Pre-trains a BERT on records, with google-research/bert's flags.

    python run_pretraining.py --do_train --input_file='/tmp/records*' \\
        --bert_config_file=bert_config.json --output_dir=/tmp/bert

The same command again goes on where the last run stopped. At its end
output_dir is a model folder: bert_model.ckpt, bert_config.json and, when it is
known, vocab.txt. With --teacher_model_dir the model is a smaller one, which
learns from that folder's: docs/distillation.md.
"""

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from absl import flags

import command
import common_flags
from input_error import InputError
from tasks.lessons import Student, TripleLoss
from training.settings import DeviceConfig, OptimizerConfig

if TYPE_CHECKING:
    from data.batches import RowShare
    from data.pipeline import Masker
    from data.record_features import Feature
    from jobs.fitting import Model, Place, Run, RunConfig, Training
    from jobs.training_records import Records
    from modeling.config import BertConfig

common_flags.define_training()
flags.DEFINE_string(
    "input_file", None, "Records: a comma list of files and patterns."
)
flags.DEFINE_integer(
    "max_seq_length", 128, "Pieces of a record, packed or not.", lower_bound=1
)
flags.DEFINE_integer(
    "max_predictions_per_seq", 20, "Masks of a record.", lower_bound=1
)
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, after any training.")
flags.DEFINE_integer(
    "eval_batch_size", 8, "Rows of the global batch.", lower_bound=1
)
flags.DEFINE_integer(
    "num_train_steps",
    OptimizerConfig.num_train_steps,
    "Steps in all.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "num_warmup_steps",
    OptimizerConfig.num_warmup_steps,
    "Of rising rate.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "max_eval_steps", 100, "Batches to evaluate at most.", lower_bound=1
)
# The flags above are google-research/bert's; those below are not.
flags.DEFINE_string("eval_file", None, "Records of --do_eval; else input_file.")
flags.DEFINE_float(
    "masked_lm_prob",
    0.15,
    "Share of pieces to mask in records without masks (--dynamic_masking of "
    "create_pretraining_data.py).",
    lower_bound=0.0,
    upper_bound=1.0,
)
flags.DEFINE_float(
    "eval_masked_lm_prob",
    None,
    "The same for --do_eval; else masked_lm_prob.",
    lower_bound=0.0,
    upper_bound=1.0,
)
flags.DEFINE_bool(
    "do_whole_word_mask", False, "Mask all pieces of a word together, in these."
)
common_flags.define_mask_shares()
flags.DEFINE_enum(
    "direction",
    None,
    ["bidirectional", "left_to_right", "right_to_left"],
    "What a position attends to. In one direction each piece is predicted from "
    "those before it, and the records must have no masks. Unset: the config's.",
)
flags.DEFINE_bool(
    "next_sentence_prediction",
    None,
    "Train next sentence prediction beside the masked language model; unset: "
    "where the records have its labels.",
)
flags.DEFINE_bool(
    "skip_corrupt_records",
    False,
    "Leave out records that cannot be used, from the first step on: all files "
    "are read once before it, and the damaged ones copied without them.",
)

common_flags.define_teacher()
flags.DEFINE_integer(
    "num_student_layers",
    None,
    "Of a model with a teacher; unset: half of the teacher's.",
    lower_bound=1,
)
flags.DEFINE_list(
    "student_layers",
    None,
    "The teacher's layers, from 0, that it begins with; unset: evenly spaced.",
)
flags.DEFINE_bool("random_student", False, "Begin at random instead.")
flags.DEFINE_float(
    "soft_target_weight",
    TripleLoss.soft_target_weight,
    "Of the loss against the teacher's probabilities.",
    lower_bound=0.0,
)
flags.DEFINE_float(
    "masked_lm_weight",
    TripleLoss.masked_lm_weight,
    "Of the masked language model's, beside it.",
    lower_bound=0.0,
)
flags.DEFINE_float(
    "cosine_weight",
    TripleLoss.cosine_weight,
    "Of the cosine distance between both models' last hidden states.",
    lower_bound=0.0,
)
flags.DEFINE_bool(
    "soft_targets_at_masks",
    TripleLoss.soft_targets_at_masks,
    "Compare probabilities at masks only, not at every piece: cheaper.",
)
# What a run with a teacher must go on with, --teacher_model_dir first.
TAUGHT = [
    field.name
    for kind in (Student, TripleLoss)
    for field in dataclasses.fields(kind)
]

FLAGS = flags.FLAGS
flags.mark_flags_as_required(["input_file", "output_dir"])


def main() -> None:
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise InputError("nothing to do: give --do_train, --do_eval or both")
    _check_teaching()
    command.import_tensorflow()

    import tensorflow as tf

    from data import files
    from data.any_tokenizer import load_tokenizer
    from data.record_checks import check_pieces, find_damage
    from data.record_features import has_next_sentence
    from jobs import fitting, training_records

    for flag in ("input_file", "eval_file"):  # before a TPU is connected to
        if patterns := FLAGS[flag].value:
            files.expand_patterns(patterns, f"--{flag}")
    place = fitting.make_place(
        command.from_flags(DeviceConfig),
        output_dir=FLAGS.output_dir,
        input_file=FLAGS.input_file,
        eval_file=FLAGS.eval_file,
    )
    run = command.from_flags(fitting.RunConfig)
    source = _config_source(run)
    config = fitting.read_config(source, FLAGS.max_seq_length)
    vocab_file = fitting.find_vocabulary(source, config)
    _check_batch_sizes(place)
    inputs = training_records.checked(_records(), config, place)
    features = inputs.features
    if vocab_file is not None:
        firsts = sorted({inputs.train[0], inputs.held_out[0]})
        check_pieces(firsts, load_tokenizer(vocab_file))
    fitting.make_folder(run)
    model = _make_model(config, has_next_sentence(features), place, run)
    fitted = fitting.Run(model, model.encoder.config, place, run, vocab_file)
    try:
        if run.dry_run:
            _rehearse(fitted, features, inputs.train)
            return
        if FLAGS.do_train:
            step = fitted.train(_training(fitted, features, inputs.train))
        else:
            step = fitted.restore()
        if FLAGS.do_eval:
            _evaluate(fitted, features, inputs.held_out, step)
    except (
        tf.errors.InvalidArgumentError,
        UnicodeDecodeError,  # where TensorFlow quotes the record
    ) as error:
        print("looking for a damaged record", file=sys.stderr)
        damage = find_damage(inputs.paths, features, config.vocab_size)
        if damage is None:
            raise
        raise InputError(damage) from error


def _check_teaching() -> None:
    if FLAGS.teacher_model_dir:
        if FLAGS.next_sentence_prediction:
            raise InputError(
                "--next_sentence_prediction is no part of what a teacher "
                "teaches; leave it or --teacher_model_dir out"
            )
        return
    for name in TAUGHT[1:]:
        if FLAGS[name].present:
            raise InputError(
                f"--{name} is for a model with a teacher; give "
                "--teacher_model_dir, or leave it out"
            )


def _config_source(run: "RunConfig") -> "RunConfig":
    """What finds config and vocabulary: with a teacher, the teacher's."""
    from jobs import distilling

    if not FLAGS.teacher_model_dir:
        return run
    return distilling.reading_teacher(run, FLAGS.teacher_model_dir)


def _make_model(
    config: "BertConfig", has_pairs: bool, place: "Place", run: "RunConfig"
) -> "Model":
    """`config`: of the model or, where it has one, of its teacher."""
    from jobs import distilling, fitting
    from tasks.pretraining import MaskedLm, Pretraining

    if FLAGS.teacher_model_dir:
        return distilling.make_student(
            command.from_flags(Student),
            command.from_flags(TripleLoss),
            config,
            place,
            run,
            FLAGS.seed,
        )
    kind = Pretraining if has_pairs else MaskedLm
    return fitting.make_model(lambda: kind(config), place, run, FLAGS.seed)


def _check_batch_sizes(place: "Place") -> None:
    from training.distribution import check_batch_size

    if FLAGS.do_train:
        check_batch_size(
            place.strategy,
            "train_batch_size",
            FLAGS.train_batch_size,
            FLAGS.num_accumulation_steps,
        )
    if FLAGS.do_eval:
        check_batch_size(
            place.strategy, "eval_batch_size", FLAGS.eval_batch_size, 1
        )


def _records() -> "Records":
    from jobs.training_records import Records

    if not FLAGS.teacher_model_dir:
        return command.from_flags(Records)
    return command.from_flags(Records, next_sentence_prediction=False)


def _rehearse(
    fitted: "Run", features: "tuple[Feature, ...]", paths: list[str]
) -> None:
    from data.pipeline import count_records
    from jobs import dry_run

    if not FLAGS.do_train:
        dry_run.rehearse_use(fitted)
        return
    number, is_exact = count_records(paths)
    about = "" if is_exact else "about "
    dry_run.rehearse(
        fitted,
        _training(fitted, features, paths),
        dry_run.Data(
            number, f"{about}{number:,} records in {len(paths):,} files"
        ),
        FLAGS.max_seq_length,
    )


def _training(
    fitted: "Run", features: "tuple[Feature, ...]", paths: list[str]
) -> "Training":
    from data.batches import RowShare
    from data.pipeline import RecordBatches
    from data.record_features import has_next_sentence
    from jobs.fitting import Training

    host = fitted.place.host
    share = RowShare(host.index, host.count)
    masker = _make_masker(
        fitted, features, FLAGS.masked_lm_prob, FLAGS.seed, share
    )
    loop = common_flags.loop_config()
    batches = RecordBatches(
        paths,
        features,
        FLAGS.train_batch_size,
        FLAGS.seed,
        fitted.config.vocab_size,
        share,
        masker,
        num_ahead=2 * loop.steps_per_call + 2,
    )
    return Training(
        batches,
        command.from_flags(OptimizerConfig),
        loop,
        {
            "skip_corrupt_records": FLAGS.skip_corrupt_records or None,
            "input_file": paths,
            "train_batch_size": FLAGS.train_batch_size,
            "seed": FLAGS.seed,
            # None where it is trained, which runs of old do not tell
            "next_sentence_prediction": (
                None if has_next_sentence(features) else False
            ),
            **_taught_settings(),
            **(dataclasses.asdict(masker.config) if masker else {}),
        },
    )


def _taught_settings() -> dict[str, Any]:
    """By flag; None where there is no teacher, as runs of old have none."""
    has_teacher = bool(FLAGS.teacher_model_dir)
    return {name: FLAGS[name].value if has_teacher else None for name in TAUGHT}


def _make_masker(
    fitted: "Run",
    features: "tuple[Feature, ...]",
    masked_lm_prob: float,
    seed: int,
    share: "RowShare",
) -> "Masker | None":
    """None for records that have their masks."""
    from data.dynamic_masking import MaskConfig
    from jobs import training_records

    if fitted.config.direction != "bidirectional":
        _check_one_way(
            fitted.config.direction, training_records.has_masks(features)
        )
    config = command.from_flags(MaskConfig, masked_lm_prob=masked_lm_prob)
    return training_records.make_masker(fitted, features, config, seed, share)


def _check_one_way(direction: str, has_masks: bool) -> None:
    """Refuses what has no meaning where each next piece is predicted."""
    if has_masks:
        raise InputError(
            f"the records have masks, and a model of one direction ({direction}"
            ") predicts each next piece of whole text; make them with "
            "create_pretraining_data.py --dynamic_masking"
        )
    for name in (
        "masked_lm_prob", "eval_masked_lm_prob", "do_whole_word_mask",
        "mask_share", "random_share",
    ):  # fmt: skip
        if FLAGS[name].present:
            raise InputError(
                f"--{name} is for masks, and nothing is masked where a model "
                f"reads in one direction ({direction}); leave it out"
            )


def _evaluate(
    fitted: "Run",
    features: "tuple[Feature, ...]",
    paths: list[str],
    step: int,
) -> None:
    """Writes eval_results.txt in google-research/bert's format."""
    from data.batches import RowShare
    from data.pipeline import evaluation_batches
    from training.loop import evaluate

    strategy, host = fitted.place
    masked_lm_prob = FLAGS.eval_masked_lm_prob
    if masked_lm_prob is None:
        masked_lm_prob = FLAGS.masked_lm_prob
    batches = evaluation_batches(
        paths,
        features,
        FLAGS.eval_batch_size,
        FLAGS.max_eval_steps,
        fitted.config.vocab_size,
        RowShare(host.index, host.count),
        # always by the same seed, so that evaluations can be compared
        _make_masker(fitted, features, masked_lm_prob, 0, RowShare()),
    )
    results = evaluate(fitted.model, batches, strategy, host)
    fitted.write_results({"global_step": step, **results})


def cli() -> None:
    """Entry point of the console command."""
    command.run(main)


if __name__ == "__main__":
    cli()
