"""Fine-tune a BERT to classify texts or pairs of texts, or to predict a number.

Data are your own TSV, CSV or JSON files (--train_file, --eval_file,
--predict_file) or a task of GLUE or XNLI (--task_name with --data_dir). The
same command again resumes where the last run stopped. At the end --output_dir
is a model folder for predict.

Examples:
    # Your own table, with columns review and stars
    run_classifier --do_train --do_eval --train_file=train.csv \\
        --eval_file=dev.csv --text_column=review --label_column=stars \\
        --init_checkpoint=uncased_L-2_H-128_A-2 --output_dir=/tmp/reviews

    # A task of GLUE
    run_classifier --task_name=MRPC --data_dir=glue/MRPC --do_train --do_eval \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=/tmp/mrpc \\
        --learning_rate=2e-5

    # The trained model on texts without labels
    run_classifier --do_predict --predict_file=new.csv \\
        --output_dir=/tmp/reviews
"""

from bert_keras.cli import command, common_flags, fine_tuning
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras.errors import InputError
from bert_keras.tasks.task_config import TEXT_TARGETS

FLAGS = Flags(
    Flag("train_file", str, Group.DATA,
         "Table to train on: a TSV, CSV or JSON file."),
    Flag("eval_file", str, Group.DATA,
         "Table to evaluate on, with the columns of --train_file."),
    Flag("predict_file", str, Group.DATA,
         "Table to predict, with the columns of --train_file but without "
         "labels."),
    *common_flags.TABLE_FLAGS,
    Flag("label_column", "label", Group.DATA,
         "Column of the label: a name in the header, a number from 0 in a file "
         "without header, or a key in JSON."),
    Flag("label_separator", ",", Group.DATA,
         "Character between the labels of a text, unless they are a list. Only "
         "with --target=multi_label."),
    Flag("task_name", str, Group.DATA,
         "Name of a GLUE task, such as MRPC, or XNLI."),
    Flag("data_dir", str, Group.DATA,
         "Folder with the files of --task_name, as GLUE distributes them."),
    Flag("target", "single_label", Group.DATA,
         "Kind of label in your tables: one class, several classes, or a "
         "number."),
    Flag("max_seq_length", 128, Group.DATA,
         "Maximum length of an input in tokens; longer texts are cut.",
         4),  # [CLS], a token, [SEP], [SEP]
    Flag("doc_stride", int, Group.DATA,
         "Number of tokens between the starts of the overlapping windows that "
         "long texts are split into. Default: long texts are cut."),
    *fine_tuning.FINE_TUNING_FLAGS,
    Flag("class_weights", str, Group.TRAINING,
         'Weights of the classes in the loss: "balanced", or label=weight '
         "pairs, comma-separated. Default: equal weights."),
    *fine_tuning.COMBINATION_FLAGS,
    fine_tuning.KEEP_HEAD,
    *common_flags.evaluation_flags("texts"),
    Flag("window_pooling", "mean", Group.EVALUATION,
         "Method that combines the windows of a text split by --doc_stride."),
    *common_flags.prediction_flags(
        "Predict --predict_file, or the test set of --task_name.", "texts"
    ),
)  # fmt: skip


def main() -> None:
    wanted = fine_tuning.data_needed(FLAGS)
    own = FLAGS.train_file or FLAGS.eval_file or FLAGS.predict_file
    if bool(own) == bool(FLAGS.task_name):
        raise InputError(
            "expected either --task_name with --data_dir, or files of your own "
            "by --train_file, --eval_file and --predict_file"
        )
    if FLAGS.task_name and not FLAGS.data_dir:
        raise InputError("--task_name needs --data_dir, where its files are")
    tuning = fine_tuning.from_flags(FLAGS, *TEXT_TARGETS)

    from bert_keras.tasks.classification import task as classification_task
    from bert_keras.tasks.classification.data import TableFormat

    used, stored = tuning.used, tuning.stored
    if FLAGS.task_name:
        problem = classification_task.glue_problem(
            FLAGS.task_name, FLAGS.data_dir, *wanted
        )
    else:
        files = FLAGS.make(classification_task.TableFiles, used)
        tuning.check_target(files.target)
        table = FLAGS.make(TableFormat, used)
        if not FLAGS["separator"].present:
            table = table.with_header_read()
        problem = classification_task.table_problem(
            files,
            table,
            *wanted,
            stored.labels if stored and stored.target == files.target else (),
        )
    tuning.check_target(problem.target.kind)
    if used and used.takes_pairs not in (None, problem.takes_pairs):
        kinds = ["single texts", "pairs of texts"]
        raise InputError(
            f"the model was trained on {kinds[bool(used.takes_pairs)]}, but "
            f"these are {kinds[problem.takes_pairs]}; check "
            "--text_pair_column, and what names the task"
        )
    settings = tuning.task_config(
        target=problem.target.kind,
        labels=problem.target.labels,
        takes_pairs=problem.takes_pairs,
    )
    fine_tuning.execute(
        FLAGS, tuning, classification_task.ClassificationTask, problem, settings
    )


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
