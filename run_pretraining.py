"""Pre-trains a BERT on records, with google-research/bert's flags.

    python run_pretraining.py --do_train --input_file='/tmp/records*' \\
        --bert_config_file=bert_config.json --output_dir=/tmp/bert

The same command again goes on where the last run stopped. At its end
output_dir is a model folder: bert_model.ckpt, bert_config.json and, when it is
known, vocab.txt. With --teacher_model_dir the model is a smaller one, which
learns from that folder's: docs/how_to/distillation.md.
"""

from bert_keras.cli import command, common_flags

from absl import flags

from bert_keras.errors import InputError
from bert_keras.tasks.distillation.config import DistilBertLoss, StudentConfig
from bert_keras.training.config import (
    DeviceConfig,
    ModelSelection,
    OptimizerConfig,
)

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
flags.DEFINE_string(
    "eval_file", None, "Records of evaluation; else input_file."
)
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
common_flags.define_tokenizer()
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
    DistilBertLoss.soft_target_weight,
    "Of the loss against the teacher's probabilities.",
    lower_bound=0.0,
)
flags.DEFINE_float(
    "masked_lm_weight",
    DistilBertLoss.masked_lm_weight,
    "Of the masked language model's, beside it.",
    lower_bound=0.0,
)
flags.DEFINE_float(
    "cosine_weight",
    DistilBertLoss.cosine_weight,
    "Of the cosine distance between both models' last hidden states.",
    lower_bound=0.0,
)
flags.DEFINE_bool(
    "soft_targets_at_masks",
    DistilBertLoss.soft_targets_at_masks,
    "Compare probabilities at masks only, not at every piece: cheaper.",
)
FLAGS = flags.FLAGS
flags.mark_flags_as_required(["input_file", "output_dir"])


def main() -> None:
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise InputError("nothing to do: give --do_train, --do_eval or both")
    command.import_tensorflow()

    from bert_keras.data import text_files
    from bert_keras.data.masking import MaskConfig
    from bert_keras.tasks import dry_run
    from bert_keras.tasks.pretraining import training
    from bert_keras.tasks.pretraining.task import PretrainingConfig
    from bert_keras.tasks.run_context import make_devices
    from bert_keras.tasks.trainer import Trainer

    for flag in ("input_file", "eval_file"):  # before a TPU is connected to
        if patterns := FLAGS[flag].value:
            text_files.expand_patterns(patterns, flag)
    devices = make_devices(
        command.from_flags(DeviceConfig),
        output_dir=FLAGS.output_dir,
        input_file=FLAGS.input_file,
        eval_file=FLAGS.eval_file,
    )
    run = common_flags.run_config()
    config = command.from_flags(
        PretrainingConfig,
        masks=command.from_flags(MaskConfig),
        mask_flags=[name for name in training.MASKS if FLAGS[name].present],
        optimizer=command.from_flags(OptimizerConfig),
        loop=common_flags.loop_config(),
        selection=command.from_flags(ModelSelection),
    )
    task = training.make_task(
        devices,
        run,
        config,
        command.from_flags(StudentConfig),
        command.from_flags(DistilBertLoss),
        [name for name in FLAGS if FLAGS[name].present],
    )
    with task.explain_parse_errors():
        if run.dry_run:
            dry_run.report(task, task.context, config.seed)
            return
        trainer = Trainer(task, task.context, config.seed)
        if FLAGS.do_train:
            trainer.train()
        else:
            trainer.restore()
        if FLAGS.do_eval:
            task.report(trainer)


def cli() -> None:
    """Entry point of the console command."""
    command.run(main)


if __name__ == "__main__":
    cli()
