"""Teach a pre-trained model the language of your domain, from plain text.

Holds out each twentieth document, makes records, trains with settings for
domains, and reports masked accuracy, loss and pseudo-perplexity before and
after. --output_dir becomes a model folder to fine-tune; report.md and
report.png lie in it. The same command again resumes where the last run stopped.

Examples:
    # Two hours on your documents, one paragraph per line
    pretrain_domain --input_file='corpus/*.txt' --train_hours=2 \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=/tmp/domain

    # On JSON lines, as many tokens as you say
    pretrain_domain --input_file='corpus/*.jsonl' --input_format=jsonl \\
        --train_tokens=10000000 --init_checkpoint=bert_base \\
        --output_dir=/tmp/domain

    # And what the model forgets of other text
    pretrain_domain --input_file='corpus/*.txt' --num_train_steps=1000 \\
        --general_file=wikipedia.txt --init_checkpoint=all-MiniLM-L6-v2 \\
        --output_dir=/tmp/domain
"""

from bert_keras.cli import command, common_flags
from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras.tasks.pretraining.config import DomainConfig
from bert_keras.training.config import Budget, LoopConfig

FLAGS = Flags(
    common_flags.TEXT_FILES,
    Flag("init_checkpoint", str, Group.REQUIRED,
         "Model folder to start from, in Google's or Hugging Face's format."),
    Flag("output_dir", str, Group.REQUIRED,
         "Folder for the model, checkpoints, logs and report."),
    common_flags.VOCAB_FILE,
    Flag("general_file", DomainConfig, Group.DATA,
         "Text of another kind, in the same format, on which the report shows "
         "what the model forgets."),
    Flag("input_format", DomainConfig, Group.DATA,
         "Content of a line: a sentence; a paragraph; or a document as a JSON "
         "object. Blank lines separate documents."),
    Flag("text_field", DomainConfig, Group.DATA,
         "Key of the text in JSON lines. Only with --input_format=jsonl."),
    Flag("max_seq_length", DomainConfig, Group.DATA,
         "Maximum length of a record in tokens, special tokens included.", 8),
    Flag("masked_lm_prob", DomainConfig, Group.MASKING,
         "Fraction of the tokens that the model has to predict in training. "
         "Evaluation masks 15 %."),
    Flag("train_hours", Budget, Group.TRAINING,
         "Hours to train: some steps are measured first, and the number of "
         "steps that fit is fixed once."),
    Flag("train_tokens", Budget, Group.TRAINING,
         "Number of tokens to train on, padding included."),
    Flag("num_train_steps", int, Group.TRAINING,
         "Number of training steps, instead of hours or tokens."),
    Flag("num_warmup_steps", int, Group.TRAINING,
         "Number of warm-up steps, in which the learning rate rises linearly. "
         "Default: a tenth of all steps."),
    Flag("train_batch_size", DomainConfig, Group.TRAINING,
         "Number of examples per training step."),
    Flag("learning_rate", DomainConfig, Group.TRAINING,
         "Peak learning rate, from which it falls linearly to 0."),
    Flag("seed", LoopConfig, Group.TRAINING,
         "Seed of dropout, masks and the order of examples."),
    Flag("eval_steps", DomainConfig, Group.EVALUATION,
         "Number of training steps between evaluations on the documents held "
         "out, after which the best model is kept.", 1),
    Flag("save_checkpoints_steps", LoopConfig, Group.CHECKPOINTS,
         "Number of steps between checkpoints, from which a stopped run "
         "resumes."),
    *common_flags.PRECISION_AND_THREADS,
)  # fmt: skip


def main() -> None:
    command.import_tensorflow(FLAGS)
    from bert_keras.tasks.pretraining import domain

    names = (
        "train_hours", "train_tokens", "num_train_steps", "num_warmup_steps",
        "seed", "save_checkpoints_steps", "precision", "vocab_file",
    )  # fmt: skip
    report = domain.pretrain_domain(
        FLAGS.input_file,
        FLAGS.output_dir,
        FLAGS.init_checkpoint,
        FLAGS.make(DomainConfig),
        **{name: FLAGS[name].value for name in names if FLAGS[name].present},
    )
    print(report, end="")


cli = command.Command(__doc__, FLAGS, main)

if __name__ == "__main__":
    cli()
