"""Fine-tunes a BERT to choose among sentences: SWAG, RACE, own questions.

    python run_multiple_choice.py --do_train --do_eval \\
        --train_file=$SWAG/train.csv --eval_file=$SWAG/val.csv \\
        --init_checkpoint=$BERT --output_dir=/tmp/swag \\
        --train_batch_size=16 --learning_rate=2e-5 --num_train_epochs=3

Devlin et al. 2018, section 4.4. Own questions are JSON lines: {"context": ...,
"question": ..., "choices": [...], "label": 0}, any number of choices, the
question and of --predict_file the label left out at will. The same command
again goes on where the last run stopped. At its end output_dir is a model
folder that predict.py takes. google-research/bert has no such command.
"""

from bert_keras.cli import command, fine_tuning

from absl import flags

from bert_keras.errors import InputError

fine_tuning.define()
flags.DEFINE_string("train_file", None, "Questions: .csv, .jsonl, .json, .txt.")
flags.DEFINE_string("eval_file", None, "Those to evaluate on.")
flags.DEFINE_string("predict_file", None, "Those to answer, without labels.")
flags.DEFINE_integer(
    "max_seq_length",
    128,
    "Pieces of a context with a choice; of longer ones the context is cut.",
    lower_bound=5,  # [CLS], [SEP], two pieces, [SEP]
)
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, after any training.")
flags.DEFINE_bool("do_predict", False, "Whether to answer --predict_file.")
flags.DEFINE_integer("eval_batch_size", 32, "Choices at once.", lower_bound=1)
flags.DEFINE_integer(
    "predict_batch_size", 32, "Choices at once.", lower_bound=1
)

FLAGS = flags.FLAGS
flags.mark_flag_as_required("output_dir")


def main() -> None:
    _check_flags()
    tuning = fine_tuning.FineTuningCommand()

    from bert_keras.tasks.multiple_choice import task as multiple_choice_task

    tuning.check_target("choice")
    problem = multiple_choice_task.read_problem(
        *(FLAGS[name].value if uses else None for name, uses in _files())
    )
    settings = tuning.task_settings(target="choice")
    task = multiple_choice_task.MultipleChoiceTask(
        problem, settings, *tuning.open(settings)
    )
    tuning.execute(task)


def _files() -> list[tuple[str, bool]]:
    """Each flag of a file, and whether it is used."""
    compares = fine_tuning.compares_models()
    return [
        ("train_file", FLAGS.do_train),
        ("eval_file", FLAGS.do_eval or compares),
        ("predict_file", FLAGS.do_predict),
    ]


def _check_flags() -> None:
    fine_tuning.check_actions()
    for name, uses in _files():
        if uses and not FLAGS[name].value:
            raise InputError(f"--{name} is missing: it names the questions")


def cli() -> None:
    """Entry point of the console command."""
    command.run(main)


if __name__ == "__main__":
    cli()
