"""Fine-tune a BERT to tag words: names of people, places and the like.

Files have CoNLL's columns (a word per line, the tag last, an empty line between
sentences) or are JSON with "tokens" and "ner_tags". Tags are IOB1, IOB2, IOBES,
BILUO or BMES, with or without a type. Scores of entities are written to
eval_results.txt and eval_results_test.txt, predicted tags to
test_predictions.txt. The same command again resumes where the last run stopped.
At the end --output_dir is a model folder for predict. (Devlin et al. 2018,
section 5.3.)

Examples:
    # CoNLL-2003, a folder with train.txt, valid.txt and test.txt
    run_ner --data_dir=conll --do_train --do_eval --do_predict \\
        --init_checkpoint=cased_L-12_H-768_A-12 --output_dir=/tmp/ner

    # Your own files, each word with what the document has around it
    run_ner --do_train --do_eval --train_file=train.jsonl \\
        --eval_file=dev.jsonl --document_context \\
        --init_checkpoint=cased_L-12_H-768_A-12 --output_dir=/tmp/ner

    # A BiLSTM on the layers of an unchanged encoder
    run_ner --data_dir=conll --do_train --feature_layers=concat_last_four \\
        --init_checkpoint=cased_L-12_H-768_A-12 --output_dir=/tmp/features
"""

from bert_keras.cli import command, common_flags, fine_tuning
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras.tasks.task_config import TaskConfig

FLAGS = Flags(
    Flag("data_dir", str, Group.DATA,
         "Folder with train.txt, valid.txt or dev.txt, and test.txt."),
    Flag("train_file", str, Group.DATA,
         "Tagged sentences to train on. Default: train.txt in --data_dir."),
    Flag("eval_file", str, Group.DATA,
         "Tagged sentences to evaluate on. Default: valid.txt or dev.txt in "
         "--data_dir."),
    Flag("predict_file", str, Group.DATA,
         "Sentences to tag; scores are computed if tags are present. Default: "
         "test.txt in --data_dir."),
    Flag("word_column", str, Group.DATA,
         "Column of the words, counted from 0, or from the end as -1, -2 "
         "(default: 0); in JSON, the key of the words (default: tokens)."),
    Flag("tag_column", str, Group.DATA,
         "Column of the tags, counted from 0, or from the end as -1, -2 "
         "(default: -1); in JSON, the key of the tags (default: ner_tags)."),
    Flag("max_seq_length", 128, Group.DATA,
         "Maximum length of an input in tokens; longer sentences are split "
         "into overlapping windows."),
    Flag("doc_stride", int, Group.DATA,
         "Number of tokens between the starts of overlapping windows. Default: "
         "half of --max_seq_length."),
    Flag("document_context", TaskConfig, Group.DATA,
         "Slide windows over whole documents instead of single sentences, so "
         "that words have context on both sides; documents begin with "
         "-DOCSTART- lines."),
    Flag("feature_layers", TaskConfig, Group.MODEL,
         "Layers of the unchanged encoder on which a BiLSTM is trained; the "
         "vectors are computed once and stored in --output_dir. Default: the "
         "encoder itself is trained."),
    Flag("lstm_size", TaskConfig, Group.MODEL,
         "Hidden size per direction of the two-layer BiLSTM. Only with "
         "--feature_layers."),
    *fine_tuning.FINE_TUNING_FLAGS,
    fine_tuning.KEEP_HEAD,
    *common_flags.evaluation_flags("sentences"),
    *common_flags.prediction_flags(
        "Tag --predict_file, and score the tags if they are given.",
        "sentences",
    ),
)  # fmt: skip


def main() -> None:
    needed = fine_tuning.data_needed(FLAGS)
    tuning = fine_tuning.from_flags(FLAGS, "tags")

    from bert_keras.tasks.ner import task as ner_task

    used, stored = tuning.used, tuning.stored
    problem = ner_task.read_problem(
        FLAGS.make(ner_task.Files), *needed, stored.labels if stored else ()
    )
    stride = FLAGS.doc_stride or max(1, FLAGS.max_seq_length // 2)
    if used and used.doc_stride and not FLAGS["doc_stride"].present:
        stride = used.doc_stride
    settings = tuning.task_config(
        target="tags", labels=problem.labels, doc_stride=stride
    )
    kind = ner_task.NerTask
    if settings.feature_layers:
        from bert_keras.tasks.ner.feature_based.task import FeatureBasedNerTask

        kind = FeatureBasedNerTask
    fine_tuning.execute(FLAGS, tuning, kind, problem, settings)


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
