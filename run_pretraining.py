"""Pre-train a BERT on records that create_pretraining_data made.

The same command again resumes where the last run stopped. At the end
--output_dir is a model folder: bert_model.ckpt, bert_config.json and, if the
vocabulary is known, vocab.txt. With --teacher_model_dir a smaller model learns
from a larger one.

Examples:
    # A small model on your own records
    run_pretraining --do_train --do_eval --input_file='data/*.tfrecord' \\
        --model_size=tiny --vocab_file=vocab.txt --output_dir=/tmp/bert \\
        --learning_rate=1e-3 --num_train_steps=20000 --num_warmup_steps=1000

    # From a released checkpoint, on text of your domain
    run_pretraining --do_train --input_file='data/*.tfrecord' \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=/tmp/bert \\
        --learning_rate=1e-4 --num_train_steps=10000 --num_warmup_steps=1000

    # What would be loaded, and how much memory a run would take
    run_pretraining --do_train --dry_run --input_file='data/*.tfrecord' \\
        --bert_config_file=bert_config.json --output_dir=/tmp/bert
"""

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras.data.masking import MaskConfig
from bert_keras.errors import InputError
from bert_keras.tasks.distillation.config import DistilBertLoss, StudentConfig
from bert_keras.training.config import (
    Budget,
    DeviceConfig,
    LoopConfig,
    OptimizerConfig,
)

FLAGS = Flags(
    Flag("input_file", str, Group.REQUIRED,
         "Records to train on: comma-separated files and glob patterns."),
    Flag("eval_file", str, Group.DATA,
         "Records to evaluate on: comma-separated files and glob patterns. "
         "Default: the records of --input_file."),
    Flag("general_eval_file", str, Group.DATA,
         "Records of another kind of text that each evaluation scores too, so "
         "that what the model forgets shows."),
    Flag("max_seq_length", 128, Group.DATA,
         "Length of the records in tokens, as given when they were made.", 1),
    Flag("max_predictions_per_seq", 20, Group.DATA,
         "Maximum number of masked tokens in a record; of records with masks, "
         "as given when they were made."),
    Flag("skip_corrupt_records", False, Group.DATA,
         "Skip damaged records: all files are read before the first step, and "
         "those with damage are copied without the damaged records."),
    Flag("masked_lm_prob", MaskConfig, Group.MASKING,
         "Fraction of the tokens that the model has to predict. Only "
         "for records made with --dynamic_masking."),
    Flag("eval_masked_lm_prob", float, Group.MASKING,
         "Fraction of the tokens that the model has to predict in "
         "evaluation. Default: the value of --masked_lm_prob. Only for "
         "records made with --dynamic_masking."),
    Flag("do_whole_word_mask", False, Group.MASKING,
         "Mask all tokens of a word together. Only for records made with "
         "--dynamic_masking."),
    *common_flags.MASK_SHARE_FLAGS,
    Flag("num_train_steps", OptimizerConfig, Group.TRAINING,
         "Number of training steps, over which the learning rate decays to 0."),
    Flag("num_warmup_steps", OptimizerConfig, Group.TRAINING,
         "Number of warm-up steps, in which the learning rate rises linearly "
         "from 0 to --learning_rate."),
    Flag("train_hours", Budget, Group.TRAINING,
         "Hours to train, instead of --num_train_steps: some steps are "
         "measured first, and the number of steps that fit is fixed once. The "
         "warm-up is then a tenth of them unless --num_warmup_steps is given."),
    Flag("train_tokens", Budget, Group.TRAINING,
         "Number of tokens to train on, padding included, instead of "
         "--num_train_steps."),
    Flag("batch_ramp_steps", LoopConfig, Group.TRAINING,
         "Number of steps over which the batch grows from one of the parts of "
         "--num_accumulation_steps to all of them. Default: each step has the "
         "whole batch."),
    Flag("decay_from", Budget, Group.TRAINING,
         "Output folder of a run with --learning_rate_schedule=wsd. A copy of "
         "that run continues in --output_dir from the last checkpoint before "
         "the decay, and decays over --num_decay_steps."),
    Flag("next_sentence_prediction", bool, Group.TRAINING,
         "Train next sentence prediction beside the masked language model. "
         "Default: true if the records have labels for next sentences."),
    *common_flags.TRAINING_FLAGS,
    *common_flags.evaluation_flags("records"),
    Flag("direction", str, Group.MODEL,
         "Direction of attention. With left_to_right or right_to_left, each "
         "token is predicted from the tokens on one side, which requires "
         "records made with --dynamic_masking. Default: as in the config."),
    *common_flags.TOKENIZER_FLAGS,
    Flag("max_eval_steps", 100, Group.EVALUATION,
         "Maximum number of batches per evaluation; more records are left "
         "out."),
    *common_flags.TEACHER_FLAGS,
    Flag("num_student_layers", StudentConfig, Group.DISTILLATION,
         "Number of layers of the student. Default: half of the teacher's "
         "layers."),
    Flag("student_layers", StudentConfig, Group.DISTILLATION,
         "Layers of the teacher, counted from 0, whose weights the student "
         "starts with. Default: evenly spaced layers."),
    Flag("random_student", StudentConfig, Group.DISTILLATION,
         "Initialise the student randomly instead of from the teacher."),
    Flag("soft_target_weight", DistilBertLoss, Group.DISTILLATION,
         "Weight of the loss against the teacher's probabilities."),
    Flag("masked_lm_weight", DistilBertLoss, Group.DISTILLATION,
         "Weight of the masked language model's loss in distillation."),
    Flag("cosine_weight", DistilBertLoss, Group.DISTILLATION,
         "Weight of the cosine distance between the last hidden states of "
         "teacher and student."),
    Flag("soft_targets_at_masks", DistilBertLoss, Group.DISTILLATION,
         "Compare probabilities at masked tokens only, which is cheaper than "
         "at every token."),
)  # fmt: skip


def main() -> None:
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise InputError("nothing to do: give --do_train, --do_eval or both")
    if FLAGS.use_tpu and FLAGS.batch_ramp_steps:
        raise InputError(
            "--batch_ramp_steps changes the shapes of batches, which a Cloud "
            "TPU would compile anew each time; leave it out"
        )
    command.import_tensorflow(FLAGS)

    from bert_keras.data import text_files
    from bert_keras.tasks.pretraining.task import (
        MASKS,
        PretrainingConfig,
        make_task,
    )
    from bert_keras.tasks.run_context import make_devices
    from bert_keras.tasks.trainer import Trainer, print_how_to_predict

    inputs = "input_file", "eval_file", "general_eval_file"
    for flag in inputs:  # before a TPU is connected to
        if patterns := FLAGS[flag].value:
            text_files.expand_patterns(patterns, flag)
    devices = make_devices(
        FLAGS.make(DeviceConfig),
        output_dir=FLAGS.output_dir,
        **{flag: FLAGS[flag].value for flag in inputs},
    )
    run = common_flags.run_config(FLAGS)
    config = FLAGS.make(
        PretrainingConfig,
        mask_flags=[name for name in MASKS if FLAGS[name].present],
        loop=common_flags.loop_config(FLAGS),
        budget=FLAGS.make(
            Budget,
            keeps_warmup=FLAGS["num_warmup_steps"].present > 0,
            started=command.STARTED,
        ),
    )
    task = make_task(
        devices,
        run,
        config,
        FLAGS.make(StudentConfig),
        FLAGS.make(DistilBertLoss),
        [name for name in FLAGS if FLAGS[name].present],
    )
    with task.explain_parse_errors():
        if run.dry_run:
            from bert_keras.tasks import dry_run

            dry_run.report(task, task.context, config.seed)
            return
        trainer = Trainer(task, task.context, config.seed)
        if FLAGS.do_train:
            trainer.train()
            context = task.context
            fills = context.config.direction == "bidirectional"
            if fills and context.tokenizer is not None:
                print_how_to_predict(run.output_dir)
            elif fills:
                print(
                    "predict.py needs the vocabulary, too: copy vocab.txt to "
                    f"{run.output_dir}, or train with --vocab_file"
                )
        else:
            trainer.restore()
        if FLAGS.do_eval:
            task.report(trainer)


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
