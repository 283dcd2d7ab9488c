"""Fine-tunes a BERT on tagged words: names of people, places and the like.

    python run_ner.py --data_dir=$CONLL --do_train --do_eval --do_predict \\
        --init_checkpoint=$BERT --do_lower_case=False --output_dir=/tmp/ner

$CONLL has train.txt, valid.txt (or dev.txt) and test.txt in CoNLL's columns:
a word a line, its tag last, an empty line between sentences. Other columns are
named by --word_column and --tag_column, and files that end in .json or .jsonl
have "tokens" and "ner_tags". Tags are IOB1, IOB2, IOBES (BIOES), BILUO or BMES,
with or without a type. Scores of entities are in eval_results.txt and
eval_results_test.txt; test_predictions.txt is test.txt with the predicted tags
as another column. The same command again goes on where the last run stopped. At
its end output_dir is a model folder that predict.py takes.

Ours; google-research/bert has no such command. Devlin et al. 2018, section 5.3.
"""

from bert_keras.cli import command, fine_tuning

from absl import flags

from bert_keras.tasks.task_config import FEATURE_LAYERS

fine_tuning.define()
fine_tuning.define_labels()
flags.DEFINE_string(
    "data_dir", None, "Folder of train.txt, valid.txt or dev.txt, and test.txt."
)
flags.DEFINE_string("train_file", None, "Unset: --data_dir's train.txt.")
flags.DEFINE_string("eval_file", None, "Unset: its valid.txt or dev.txt.")
flags.DEFINE_string("predict_file", None, "Unset: its test.txt.")
flags.DEFINE_string(
    "word_column",
    None,
    "Column of the words, counted from 0, or downwards from -1, the last "
    "(default: 0); in JSON, the field of the words (default: tokens).",
)
flags.DEFINE_string(
    "tag_column",
    None,
    "Column of the tags, counted from 0, or downwards from -1, the last "
    "(default: -1); in JSON, the field of the tags (default: ner_tags).",
)
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, after any training.")
flags.DEFINE_bool("do_predict", False, "Whether to tag predict_file.")
flags.DEFINE_integer(
    "max_seq_length",
    128,
    "Pieces of a row; what is longer is read through overlapping ones.",
)
flags.DEFINE_integer(
    "doc_stride",
    None,
    "Pieces between the starts of two such rows; unset: half of a row.",
    lower_bound=1,
)
flags.DEFINE_bool(
    "document_context",
    False,
    "Show each word with what its document has around it, as far as a row "
    "goes; documents begin with -DOCSTART- lines.",
)
flags.DEFINE_enum(
    "feature_layers",
    None,
    FEATURE_LAYERS,
    "Leave the encoder as it is and train a BiLSTM on these of its layers, "
    "whose vectors are computed once and kept in --output_dir; unset: train "
    "the encoder.",
)
flags.DEFINE_integer(
    "lstm_size",
    768,
    "Of each direction of that BiLSTM, in both of its layers.",
    lower_bound=1,
)
flags.DEFINE_integer("eval_batch_size", 8, "Rows at once.", lower_bound=1)
flags.DEFINE_integer("predict_batch_size", 8, "Rows at once.", lower_bound=1)

FLAGS = flags.FLAGS
flags.mark_flag_as_required("output_dir")


def main() -> None:
    fine_tuning.check_actions()
    tuning = fine_tuning.FineTuningCommand(target="tags")

    from bert_keras.tasks.ner import task as ner_task

    used, stored = tuning.fixed_task, tuning.stored_task
    problem = ner_task.read_problem(
        command.from_flags(ner_task.Files),
        FLAGS.do_train,
        FLAGS.do_eval or fine_tuning.compares_models(),
        FLAGS.do_predict,
        stored.labels if stored else (),
    )
    stride = FLAGS.doc_stride or max(1, FLAGS.max_seq_length // 2)
    if used and used.doc_stride and not FLAGS["doc_stride"].present:
        stride = used.doc_stride
    settings = tuning.task_settings(
        target="tags", labels=problem.labels, doc_stride=stride
    )
    kind = ner_task.NerTask
    if settings.feature_layers:
        from bert_keras.tasks.ner.feature_based.task import FeatureBasedNerTask

        kind = FeatureBasedNerTask
    tuning.execute(kind(problem, settings, *tuning.open(settings)))


def cli() -> None:
    """Entry point of the console command."""
    command.run(main)


if __name__ == "__main__":
    cli()
