"""Fine-tune a BERT to answer questions from a text: SQuAD 1.1 and 2.0.

Answers are written to predictions.json, nbest_predictions.json and, for SQuAD
2.0, null_odds.json; if --predict_file has answers, exact match and F1 go to
eval_results.txt. The same command again resumes where the last run stopped. At
the end --output_dir is a model folder for predict.

Examples:
    # SQuAD 1.1
    run_squad --do_train --train_file=train-v1.1.json --do_predict \\
        --predict_file=dev-v1.1.json --output_dir=/tmp/squad \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --train_batch_size=12 \\
        --learning_rate=3e-5 --num_train_epochs=2

    # SQuAD 2.0, where questions may have no answer
    run_squad --do_train --train_file=train-v2.0.json --do_predict \\
        --predict_file=dev-v2.0.json --output_dir=/tmp/squad2 \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --version_2_with_negative \\
        --apply_best_null_threshold

    # Half the training time, by packed batches
    run_squad --do_train --train_file=train-v1.1.json --output_dir=/tmp/half \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --nopadding_in_loss
"""

from bert_keras.cli import command, common_flags, fine_tuning
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras.errors import InputError
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.training.config import ModelSelection

FLAGS = Flags(
    Flag("train_file", str, Group.DATA,
         "Questions to train on: a JSON file in SQuAD's format."),
    Flag("predict_file", str, Group.DATA,
         "Questions to answer: a JSON file in SQuAD's format."),
    Flag("version_2_with_negative", TaskConfig, Group.DATA,
         "Expect questions without an answer, as in SQuAD 2.0."),
    Flag("max_seq_length", 384, Group.DATA,
         "Maximum length in tokens of a question with a window of the text."),
    Flag("doc_stride", 128, Group.DATA,
         "Number of tokens between the starts of the overlapping windows that "
         "long texts are split into."),
    Flag("max_query_length", TaskConfig, Group.DATA,
         "Maximum length of a question in tokens; longer questions are cut."),
    Flag("answer_offsets", TaskConfig, Group.DATA,
         "Method that finds an answer in the text. exact: by characters, in "
         "every script. google: by words between spaces, as "
         "google-research/bert does, which fails in text without spaces such "
         "as Chinese, Japanese or Thai."),
    Flag("verbose_logging", False, Group.DATA,
         "Report every question that is left out, not only the first."),
    Flag("padding_in_loss", True, Group.TRAINING,
         "Include padding positions in the softmax over answer positions, as "
         "google-research/bert does. --nopadding_in_loss allows packed batches "
         "and roughly halves the training time; loss values differ."),
    *fine_tuning.FINE_TUNING_FLAGS,
    *fine_tuning.COMBINATION_FLAGS,
    *common_flags.prediction_flags(
        "Answer the questions of --predict_file, after training if there is "
        "any.", "windows"
    ),
    Flag("n_best_size", TaskConfig, Group.PREDICTION,
         "Number of answers to list per question, and of best start and "
         "end positions to combine into answers."),
    Flag("max_answer_length", TaskConfig, Group.PREDICTION,
         "Maximum length of an answer in tokens."),
    Flag("null_score_diff_threshold", TaskConfig, Group.PREDICTION,
         "Threshold of the null odds: a question with higher odds counts as "
         "unanswerable."),
    Flag("apply_best_null_threshold", False, Group.PREDICTION,
         "Use the null threshold with the best F1 on --predict_file, and save "
         "the threshold with the model."),
)  # fmt: skip


def main() -> None:
    if not (FLAGS.do_train or FLAGS.do_predict):
        raise InputError("nothing to do: give --do_train, --do_predict or both")
    # also to choose the best model by it
    compares = FLAGS.make(ModelSelection).compares(FLAGS.do_train)
    asks = FLAGS.do_predict or compares
    needed = {"train_file": FLAGS.do_train, "predict_file": asks}
    for flag, is_needed in needed.items():
        if is_needed and not FLAGS[flag].value:
            raise InputError(f"--{flag} is missing: it names SQuAD's JSON")
    tuning = fine_tuning.from_flags(FLAGS, "span")

    from bert_keras.tasks.squad import task as squad_task

    settings = tuning.task_config(target="span")
    squad = FLAGS.make(
        squad_task.SquadConfig,
        predict_file=FLAGS.predict_file if asks else None,
    )
    squad_task.check_settings(squad, settings)
    fine_tuning.execute(FLAGS, tuning, squad_task.SquadTask, squad, settings)


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
