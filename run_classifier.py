"""Fine-tunes a BERT on texts or pairs, with google-research/bert's flags.

    python run_classifier.py --task_name=MRPC --do_train --do_eval \\
        --data_dir=$GLUE/MRPC --init_checkpoint=$BERT/bert_model.ckpt \\
        --bert_config_file=$BERT/bert_config.json \\
        --vocab_file=$BERT/vocab.txt --output_dir=/tmp/mrpc

Tasks of GLUE and XNLI by --task_name; people's own TSV, CSV and JSONL files by
--train_file, --eval_file and --predict_file. The same command again goes on
where the last run stopped. At its end output_dir is a model folder that
predict.py takes.
"""

from typing import TYPE_CHECKING

from bert_keras.cli import command, common_flags, fine_tuning

from absl import flags

from bert_keras.errors import InputError

if TYPE_CHECKING:
    from bert_keras.tasks.classification.task import Problem
    from bert_keras.tasks.task_config import TaskConfig

fine_tuning.define()
fine_tuning.define_combinations()
fine_tuning.define_taught()
fine_tuning.define_labels()
flags.DEFINE_string("data_dir", None, "Folder of the task's files.")
flags.DEFINE_string("task_name", None, "Name of a GLUE task, or XNLI.")
flags.DEFINE_integer(
    "max_seq_length",
    128,
    "Pieces of an input; longer ones are cut.",
    lower_bound=4,  # [CLS], a piece, [SEP], [SEP]
)
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, after any training.")
flags.DEFINE_bool("do_predict", False, "Whether to predict the test set.")
flags.DEFINE_integer("eval_batch_size", 8, "Rows at once.", lower_bound=1)
flags.DEFINE_integer("predict_batch_size", 8, "Rows at once.", lower_bound=1)

# The flags above are google-research/bert's; those below are not.
flags.DEFINE_string(
    "train_file", None, "Your data to train on: TSV, CSV or JSON."
)
flags.DEFINE_string("eval_file", None, "Your data to evaluate on.")
flags.DEFINE_string("predict_file", None, "Your data without labels.")
common_flags.define_table()
flags.DEFINE_string("label_column", "label", "Column of the label.")
flags.DEFINE_enum(
    "target",
    "single_label",
    ["single_label", "multi_label", "regression"],
    "What own data's labels are: one class, several, a number.",
)
flags.DEFINE_string("label_separator", ",", "Between several labels.")
flags.DEFINE_string(
    "class_weights",
    None,
    '"balanced", or label=weight pairs with commas, for the loss.',
)
flags.DEFINE_integer(
    "doc_stride",
    None,
    "Texts that are too long become windows, this many pieces apart.",
    lower_bound=1,
)
flags.DEFINE_enum(
    "window_pooling",
    "mean",
    ["mean", "max"],
    "How a text's windows are joined when it is evaluated.",
)

FLAGS = flags.FLAGS
flags.mark_flag_as_required("output_dir")


def main() -> None:
    fine_tuning.check_actions()
    _check_sources()
    tuning = fine_tuning.FineTuningCommand()

    from bert_keras.tasks.classification import task as classification_task

    used, stored = tuning.fixed_task, tuning.stored_task
    problem = _read_problem(used, stored)
    tuning.check_target(problem.target.kind)
    if used and used.takes_pairs not in (None, problem.takes_pairs):
        kinds = ["single texts", "pairs of texts"]
        raise InputError(
            f"the model was trained on {kinds[bool(used.takes_pairs)]}, but "
            f"these are {kinds[problem.takes_pairs]}; check "
            "--text_pair_column, and what names the task"
        )
    settings = tuning.task_settings(
        target=problem.target.kind,
        labels=problem.target.labels,
        takes_pairs=problem.takes_pairs,
        second_direction=tuning.second_direction,
    )
    task = classification_task.ClassificationTask(
        problem, settings, *tuning.open(settings)
    )
    tuning.execute(task)


def _check_sources() -> None:
    if not FLAGS.label_separator:
        raise InputError("--label_separator is empty; expected a character")
    own = FLAGS.train_file or FLAGS.eval_file or FLAGS.predict_file
    if bool(own) == bool(FLAGS.task_name):
        raise InputError(
            "expected either --task_name with --data_dir, or files of your own "
            "by --train_file, --eval_file and --predict_file"
        )
    if FLAGS.task_name and not FLAGS.data_dir:
        raise InputError("--task_name needs --data_dir, where its files are")


def _read_problem(
    used: "TaskConfig | None", stored: "TaskConfig | None"
) -> "Problem":
    from bert_keras.tasks.classification import task as classification_task
    from bert_keras.tasks.classification.data import TableFormat

    wanted = command.from_flags(
        classification_task.Actions,
        evaluates=FLAGS.do_eval or fine_tuning.compares_models(),
    )
    if FLAGS.task_name:
        return classification_task.glue_problem(
            FLAGS.task_name, FLAGS.data_dir, wanted
        )
    files = command.from_flags(classification_task.TableFiles, used)
    return classification_task.table_problem(
        files,
        command.from_flags(TableFormat, used),
        wanted,
        stored.labels if stored and stored.target == files.target else (),
    )


def cli() -> None:
    """Entry point of the console command."""
    command.run(main)


if __name__ == "__main__":
    cli()
