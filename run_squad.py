"""Fine-tunes a BERT on SQuAD 1.1 or 2.0, with google-research/bert's flags.

    python run_squad.py --do_train --train_file=train-v1.1.json \\
        --do_predict --predict_file=dev-v1.1.json \\
        --init_checkpoint=$BERT/bert_model.ckpt \\
        --bert_config_file=$BERT/bert_config.json \\
        --vocab_file=$BERT/vocab.txt --output_dir=/tmp/squad

The same command again goes on where the last run stopped. Predictions are in
predictions.json, nbest_predictions.json and, for 2.0, null_odds.json; if
predict_file has answers, exact match and F1 are in eval_results.txt. output_dir
ends as a model folder that predict.py takes.
"""

from bert_keras.cli import command, fine_tuning

from absl import flags

from bert_keras.errors import InputError

fine_tuning.define()
fine_tuning.define_combinations()
fine_tuning.define_taught()
flags.DEFINE_string("train_file", None, "SQuAD's JSON to train on.")
flags.DEFINE_string("predict_file", None, "SQuAD's JSON to answer.")
flags.DEFINE_integer(
    "max_seq_length", 384, "Pieces of a question and a part of its paragraph."
)
flags.DEFINE_integer(
    "doc_stride",
    128,
    "Pieces between the starts of two parts of a paragraph.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_query_length", 64, "Pieces to which a question is cut.", lower_bound=1
)
flags.DEFINE_bool("do_predict", False, "Whether to answer predict_file.")
flags.DEFINE_integer("predict_batch_size", 8, "Rows at once.", lower_bound=1)
flags.DEFINE_integer(
    "n_best_size",
    20,
    "Answers listed a question; of as many starts and ends they are made.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_answer_length", 30, "Pieces of an answer.", lower_bound=1
)
flags.DEFINE_bool(
    "verbose_logging",
    False,
    "Name each question that is left out, and not the first alone.",
)
flags.DEFINE_bool(
    "version_2_with_negative",
    False,
    "Whether questions may have no answer: SQuAD 2.0.",
)
flags.DEFINE_float(
    "null_score_diff_threshold",
    0.0,
    "Null odds above which a question is not answered.",
)

# The flags above are google-research/bert's; those below are not.
flags.DEFINE_bool(
    "padding_in_loss",
    True,
    "Whether a position of padding could be an answer's end, as far as the loss"
    " knows; if not, rows are packed, and training takes about half the time.",
)
flags.DEFINE_enum(
    "answer_offsets",
    "exact",
    ["exact", "google"],
    "How an answer's place in the text is found. exact: by the characters of "
    "each token, which works in every script. google: as google-research/bert "
    "does, by words between spaces; the two differ where its way fails, as in "
    "Chinese, Japanese or Thai text, which has no spaces.",
)
flags.DEFINE_bool(
    "apply_best_null_threshold",
    False,
    "Use the threshold by which F1 on predict_file is highest, and keep it with"
    " the model.",
)

FLAGS = flags.FLAGS
flags.mark_flag_as_required("output_dir")


def main() -> None:
    _check_flags()
    tuning = fine_tuning.FineTuningCommand()
    tuning.check_target("span")

    from bert_keras.tasks.squad import task as squad_task

    settings = tuning.task_settings(
        target="span",
        second_direction=tuning.second_direction,
    )
    squad = command.from_flags(
        squad_task.SquadConfig,
        predict_file=FLAGS.predict_file if _asks() else None,
    )
    squad_task.check_settings(squad, settings)
    tuning.execute(
        squad_task.SquadTask(squad, settings, *tuning.open(settings))
    )


def _check_flags() -> None:
    if not (FLAGS.do_train or FLAGS.do_predict):
        raise InputError("nothing to do: give --do_train, --do_predict or both")
    needed = {"train_file": FLAGS.do_train, "predict_file": _asks()}
    for flag, is_needed in needed.items():
        if is_needed and not FLAGS[flag].value:
            raise InputError(f"--{flag} is missing: it names SQuAD's JSON")


def _asks() -> bool:
    """Whether predict_file is used: also to choose the best model by it."""
    return FLAGS.do_predict or fine_tuning.compares_models()


def cli() -> None:
    """Entry point of the console command."""
    command.run(main)


if __name__ == "__main__":
    cli()
