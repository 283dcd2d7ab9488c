"""Fine-tune a BERT to choose among answers: SWAG, RACE, your own questions.

Questions are JSON lines such as {"context": ..., "question": ..., "choices":
[...], "label": 0}, with any number of choices and an optional question; the
files of SWAG and RACE are read as they are. The same command again resumes
where the last run stopped. At the end --output_dir is a model folder for
predict. (Devlin et al. 2018, section 4.4.)

Examples:
    # SWAG, with the settings of the paper
    run_multiple_choice --do_train --do_eval --train_file=swag/train.csv \\
        --eval_file=swag/val.csv --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --output_dir=/tmp/swag --train_batch_size=16 --learning_rate=2e-5

    # Your own questions, of which the contexts are long
    run_multiple_choice --do_train --do_eval --train_file=train.jsonl \\
        --eval_file=dev.jsonl --init_checkpoint=uncased_L-12_H-768_A-12 \\
        --output_dir=/tmp/exam --max_seq_length=512 --recompute

    # The trained model on questions without labels
    run_multiple_choice --do_predict --predict_file=new.jsonl \\
        --output_dir=/tmp/exam
"""

from bert_keras.cli import command, common_flags, fine_tuning
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras.errors import InputError

FLAGS = Flags(
    Flag("train_file", str, Group.DATA,
         "Questions to train on: a .csv, .jsonl, .json or .txt file."),
    Flag("eval_file", str, Group.DATA,
         "Questions to evaluate on: a .csv, .jsonl, .json or .txt file."),
    Flag("predict_file", str, Group.DATA,
         "Questions to answer: a file like --train_file, without labels."),
    Flag("max_seq_length", 128, Group.DATA,
         "Maximum length in tokens of a context with a choice; long contexts "
         "are cut.", 5),  # [CLS], [SEP], two tokens, [SEP]
    *fine_tuning.FINE_TUNING_FLAGS,
    *common_flags.evaluation_flags("choices", 32),
    *common_flags.prediction_flags(
        "Answer the questions of --predict_file, after training if any.",
        "choices",
        32,
    ),
)  # fmt: skip


def main() -> None:
    names, paths = ("train_file", "eval_file", "predict_file"), []
    needed = fine_tuning.data_needed(FLAGS)
    for name, is_needed in zip(names, needed, strict=True):
        path = FLAGS[name].value
        if is_needed and not path:
            raise InputError(f"--{name} is missing: it names the questions")
        paths.append(path if is_needed else None)
    tuning = fine_tuning.from_flags(FLAGS, "choice")

    from bert_keras.tasks.multiple_choice import task as multiple_choice_task

    problem = multiple_choice_task.read_problem(*paths)
    settings = tuning.task_config(target="choice")
    fine_tuning.execute(
        FLAGS,
        tuning,
        multiple_choice_task.MultipleChoiceTask,
        problem,
        settings,
    )


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
