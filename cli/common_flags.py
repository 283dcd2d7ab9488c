"""Flags that several commands have, and what they become.

Names and defaults that google-research/bert has are its own.
"""

from typing import TYPE_CHECKING

from bert_keras.cli.flags import Flag, Flags, Group

from bert_keras.data.masking import MaskConfig
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.training.config import (
    DeviceConfig,
    LoopConfig,
    ModelSelection,
    OptimizerConfig,
)

if TYPE_CHECKING:
    from bert_keras.data.tokenizer_folder import TokenizerOptions
    from bert_keras.tasks.run_context import RunConfig
    from bert_keras.tasks.task_config import TaskConfig

# A TPU holds the batches of a whole call, and the host sees nothing before its
# end: upstream's iterations_per_loop of 1000 is taken as far as this.
MAX_STEPS_PER_CALL = 50

PRECISION_AND_THREADS = (
    Flag("precision", "float32", Group.SPEED,
         "Precision of matrix multiplications; weights stay float32. "
         "mixed_bfloat16 is faster where the hardware has bfloat16 units."),
    Flag("num_threads", 0, Group.SPEED,
         "Number of CPU threads, within and between operations; 0 means one "
         "per core.", 0, 4096),
)  # fmt: skip

TEXT_FILES = Flag(
    "input_file", str, Group.REQUIRED,
    "Text files to read: comma-separated names and glob patterns.",
)  # fmt: skip

INPUT_FORMAT = Flag(
    "input_format", "sentences", Group.DATA,
    "Content of a line: a sentence; a paragraph; or a document as a JSON "
    "object.",
)  # fmt: skip

TEXT_FIELD = Flag(
    "text_field", "text", Group.DATA,
    "Key of the text in JSON lines. Only with --input_format=jsonl.",
)  # fmt: skip

NEW_FOLDER = Flag(
    "output_dir", str, Group.REQUIRED,
    "Folder to write, which must not exist yet.",
)  # fmt: skip

CONFIG_FILE = Flag(
    "bert_config_file", str, Group.MODEL,
    "Path of the model's bert_config.json. Default: the config beside "
    "--init_checkpoint.",
)  # fmt: skip
VOCAB_FILE = Flag(
    "vocab_file", str, Group.MODEL,
    "Vocabulary of the model: vocab.txt, or vocab.json with merges.txt beside "
    "it. Default: the vocabulary beside --init_checkpoint.",
)  # fmt: skip

USE_XLA = Flag(
    "use_xla", False, Group.SPEED, "Compile the whole model with XLA."
)

TPU_FLAGS = (
    Flag("use_tpu", DeviceConfig, Group.TPU,
         "Run the model on a Cloud TPU instead of this machine."),
    Flag("tpu_name", DeviceConfig, Group.TPU,
         'Cloud TPU to use: "local" on a TPU VM, a name in Google Cloud, or '
         "grpc://host:port. Requires --use_tpu."),
    Flag("tpu_zone", DeviceConfig, Group.TPU,
         "Zone of the Cloud TPU, such as us-central1-b. Default: taken from "
         "the metadata server."),
    Flag("gcp_project", DeviceConfig, Group.TPU,
         "Google Cloud project of the Cloud TPU. Default: taken from the "
         "metadata server."),
    Flag("master", DeviceConfig, Group.TPU,
         "Address of the Cloud TPU, grpc://host:port, instead of a name."),
    Flag("num_tpu_cores", 8, Group.COMPATIBILITY,
         "Number of TPU cores; ignored, since a Cloud TPU reports how many "
         "exist."),
)  # fmt: skip

TRAINING_FLAGS = (
    Flag("output_dir", str, Group.REQUIRED,
         "Folder for the model, checkpoints, logs and results."),
    Flag("do_train", False, Group.ACTIONS,
         "Train the model and save it to --output_dir."),
    Flag("dry_run", False, Group.ACTIONS,
         "Check flags and files, print what would be loaded and what the run "
         "would take, and stop without writing anything."),
    Flag("init_checkpoint", str, Group.MODEL,
         "Model folder or checkpoint to start from, in Google's or Hugging "
         "Face's format. Default: random weights."),
    CONFIG_FILE,
    Flag("model_size", str, Group.MODEL,
         "Size of the model, as in a released BERT, instead of a "
         "--bert_config_file; --vocab_file determines the size of the "
         "vocabulary."),
    VOCAB_FILE,
    Flag("train_batch_size", 32, Group.TRAINING,
         "Number of examples per training step, over all devices together."),
    Flag("learning_rate", OptimizerConfig, Group.TRAINING,
         "Peak learning rate, reached at the end of the warm-up. The linear "
         "decay to 0 is counted from step 0, as in google-research/bert."),
    Flag("seed", LoopConfig, Group.TRAINING,
         "Seed of initial weights, dropout and the order of examples."),
    Flag("skip_nonfinite_steps", LoopConfig, Group.TRAINING,
         "Continue after a step whose loss or gradient is not finite, without "
         "applying the update. By default such a step stops the run."),
    Flag("optimizer_type", OptimizerConfig, Group.OPTIMIZER,
         "Optimizer: adamw as in google-research/bert, or lamb for large "
         "batches."),
    Flag("learning_rate_schedule", OptimizerConfig, Group.OPTIMIZER,
         "Course of the learning rate after the warm-up. linear: decay to 0, "
         "as in google-research/bert. cosine: decay to 0 along a cosine. wsd: "
         "constant, then decay to 0 in the last --num_decay_steps; the "
         "checkpoint before the decay is kept."),
    Flag("num_decay_steps", OptimizerConfig, Group.OPTIMIZER,
         "Number of steps of the final decay. Only with "
         "--learning_rate_schedule=wsd. Default: a tenth of all steps."),
    Flag("bias_correction", OptimizerConfig, Group.OPTIMIZER,
         "Correct the bias of AdamW's moments early in training, which "
         "google-research/bert does not; LAMB always corrects."),
    Flag("adam_beta_2", OptimizerConfig, Group.OPTIMIZER,
         "Decay rate of the running mean of squared gradients (Adam's beta2); "
         "lower values such as 0.98 suit large batches."),
    Flag("adam_epsilon", OptimizerConfig, Group.OPTIMIZER,
         "Number added to Adam's denominator for numerical stability."),
    Flag("eval_steps", ModelSelection, Group.EVALUATION,
         "Number of training steps between evaluations, after which the best "
         "model is kept; 0 means no evaluation during training."),
    Flag("best_metric", ModelSelection, Group.EVALUATION,
         "Metric that selects the best model, named as in eval_results.txt. "
         "Default: the task's main metric; in pre-training, the loss."),
    Flag("patience", ModelSelection, Group.EVALUATION,
         "Number of evaluations without improvement after which training "
         "stops; 0 means never. Requires --eval_steps."),
    Flag("save_checkpoints_steps", LoopConfig, Group.CHECKPOINTS,
         "Number of steps between checkpoints, from which a stopped run "
         "resumes."),
    Flag("keep_checkpoint_max", LoopConfig, Group.CHECKPOINTS,
         "Number of most recent checkpoints to keep; older ones are deleted."),
    *PRECISION_AND_THREADS,
    USE_XLA,
    Flag("num_accumulation_steps", LoopConfig, Group.SPEED,
         "Number of parts that each batch is split into, one after the other, "
         "to save memory; the update is made from the whole batch."),
    Flag("recompute", False, Group.SPEED,
         "Recompute activations in the backward pass instead of storing all "
         "of them, which saves memory and takes a third more computation."),
    *TPU_FLAGS,
    Flag("iterations_per_loop", 1000, Group.TPU,
         "Number of training steps per call to the Cloud TPU; values "
         f"above {MAX_STEPS_PER_CALL} count as {MAX_STEPS_PER_CALL}.", 1),
)  # fmt: skip

# How texts become tokens, unless a folder's settings are to be used.
TOKENIZER_FLAGS = (
    Flag("do_lower_case", bool, Group.TOKENIZER,
         "Lowercase the text, as uncased models need (also --do_lower). "
         "Default: as saved beside the model or the vocabulary, or true.",
         alias="do_lower"),  # Google's README has it
    Flag("strip_accents", bool, Group.TOKENIZER,
         "Strip accents from letters. Default: as saved beside the model or "
         "the vocabulary, or as given by --do_lower_case."),
    Flag("additional_special_tokens", [], Group.TOKENIZER,
         "Tokens of the vocabulary, comma-separated, that are never split "
         "in a text, such as [E1],[/E1] that have taken the places of "
         "[unused] tokens."),
)  # fmt: skip

EXPORT_FLAGS = (
    Flag("model_dir", str, Group.REQUIRED,
         "Model folder: weights, config, vocabulary and, after fine-tuning, "
         "task.json or Hugging Face's config.json with the task. Without a "
         "task the encoder is exported."),
    *TOKENIZER_FLAGS,
    Flag("max_seq_length", 128, Group.DATA,
         "Length in tokens to which texts are cut. Default after "
         "fine-tuning: the length in task.json.", 3),
)  # fmt: skip

# How your own tables are read: tasks/classification/data.py.
TABLE_FLAGS = (
    Flag("text_column", "text", Group.DATA,
         "Column of the text: a name in the header, a number from 0 in a file "
         "without header, or a key in JSON. Default with a trained model: the "
         "column that was used in training."),
    Flag("text_pair_column", str, Group.DATA,
         "Column of the second text, for pairs of texts."),
    Flag("has_header", True, Group.DATA,
         "Take the first line of TSV and CSV files as column names."),
    Flag("separator", str, Group.DATA,
         'Character between columns of TSV and CSV files; "tab" means a tab. '
         "Default: a tab in .tsv and a comma in .csv files, unless the header "
         "shows another character."),
    Flag("encoding", str, Group.DATA,
         "Encoding of text files, such as cp1252. Default: UTF-8, or the "
         "encoding given by a byte-order mark."),
)  # fmt: skip

# What becomes of the tokens that are to be predicted.
MASK_SHARE_FLAGS = (
    Flag("mask_share", MaskConfig, Group.MASKING,
         "Fraction of the predicted tokens that are replaced by [MASK]."),
    Flag("random_share", MaskConfig, Group.MASKING,
         "Fraction of the predicted tokens that are replaced by a "
         "random token. The tokens that --mask_share and "
         "--random_share leave stay unchanged."),
)  # fmt: skip

TEACHER_FLAGS = (
    Flag("teacher_model_dir", str, Group.DISTILLATION,
         "Folder of the teacher: a model trained for the same task, whose "
         "outputs the new model learns to reproduce."),
    Flag("distillation_temperature", TaskDistillation, Group.DISTILLATION,
         "Temperature that divides the logits of teacher and student."),
)  # fmt: skip

# How a trained model is run.
INFERENCE_FLAGS = (
    Flag("batch_size", 32, Group.SPEED,
         "Number of texts to compute at once; short texts form larger batches.",
         1),
    *PRECISION_AND_THREADS,
    USE_XLA,
)  # fmt: skip


def evaluation_flags(of: str, batch_size: int = 8) -> tuple[Flag, ...]:
    """--do_eval and its batch size; `of`: what a batch has."""
    return (
        Flag("do_eval", False, Group.ACTIONS,
             "Evaluate the model, after training if there is any."),
        Flag("eval_batch_size", batch_size, Group.EVALUATION,
             f"Number of {of} per evaluation step, over all devices."),
    )  # fmt: skip


def prediction_flags(
    what: str, of: str, batch_size: int = 8
) -> tuple[Flag, ...]:
    """--do_predict, for which `what` is done, and its batch size."""
    return (
        Flag("do_predict", False, Group.ACTIONS, what),
        Flag("predict_batch_size", batch_size, Group.PREDICTION,
             f"Number of {of} per prediction step, over all devices."),
    )  # fmt: skip


def exported_length(flags: Flags, task: "TaskConfig | None") -> int:
    """Tokens to which an exported model cuts texts."""
    is_given = flags["max_seq_length"].present
    return int(
        task.max_seq_length if task and not is_given else flags.max_seq_length
    )


def tokenizer_options(flags: Flags) -> "TokenizerOptions":
    """What TOKENIZER_FLAGS say."""
    from bert_keras.data.tokenizer_folder import TokenizerOptions

    return flags.make(TokenizerOptions)


def run_config(flags: Flags) -> "RunConfig":
    """What the flags of a command that trains say of its model's folders."""
    from bert_keras.tasks.run_context import RunConfig

    names = (
        "task_name", "data_dir", "input_file", "train_file", "eval_file",
        "general_eval_file", "predict_file",
    )  # fmt: skip
    return flags.make(
        RunConfig,
        flags=flags.given_text(),
        data_files={
            name: flags[name].value
            for name in names
            if name in flags and flags[name].value
        },
    )


def loop_config(flags: Flags) -> LoopConfig:
    """What TRAINING_FLAGS say of the loop."""
    steps = min(flags.iterations_per_loop, MAX_STEPS_PER_CALL)
    return flags.make(LoopConfig, steps_per_call=steps if flags.use_tpu else 1)
