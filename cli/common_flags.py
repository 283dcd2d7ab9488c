"""Flags that several commands have: one definition, one default.

A group is defined by the command that wants it. Names and defaults are
google-research/bert's; those it does not have are marked by a comment.
"""

from typing import TYPE_CHECKING, Any

from bert_keras.cli import command

from absl import flags

from bert_keras.data.masking import MaskConfig
from bert_keras.tasks.distillation.config import TaskDistillation
from bert_keras.training.config import (
    OPTIMIZERS,
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

MODEL_SIZES = ["tiny", "mini", "small", "medium", "base", "large"]

flags.disclaim_key_flags()  # they are of the command that calls


def define_folder(name: str, description: str) -> None:
    """A folder to write to."""
    flags.DEFINE_string(name, None, description)
    flags.register_validator(
        name,
        lambda folder: folder != "",  # TensorFlow's name of where one is
        "it is empty; name a folder, or . for the one you are in",
    )


def define_training() -> None:
    """What every command that trains has."""
    flags.DEFINE_string(
        "bert_config_file", None, "Path of the model's bert_config.json."
    )
    flags.DEFINE_enum(
        "model_size",
        None,
        MODEL_SIZES,
        "Instead of --bert_config_file: a released size, with the number of "
        "tokens in --vocab_file.",
    )
    flags.DEFINE_string(
        "vocab_file",
        None,
        "vocab.txt of the model, or vocab.json with merges.txt beside it; kept "
        "with what is trained.",
    )
    define_folder("output_dir", "Folder to write everything to.")
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Model folder (also Hugging Face's) or checkpoint to start from.",
    )
    flags.DEFINE_bool("do_train", False, "Whether to train.")
    flags.DEFINE_integer(
        "train_batch_size", 32, "Rows of the global batch.", lower_bound=1
    )
    flags.DEFINE_float(
        "learning_rate",
        OptimizerConfig.learning_rate,
        "Learning rate at the end of the warm-up.",
        lower_bound=0.0,
    )
    flags.DEFINE_integer(
        "save_checkpoints_steps",
        LoopConfig.save_checkpoints_steps,
        "Steps between two states from which the run can go on.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "Training steps between two returns from a Cloud TPU to this machine.",
        lower_bound=1,
    )
    _define_devices()
    _define_training_beyond_google()
    _define_selection()


def _define_devices() -> None:
    flags.DEFINE_bool("use_tpu", DeviceConfig.use_tpu, "Use a Cloud TPU.")
    flags.DEFINE_string(
        "tpu_name",
        DeviceConfig.tpu_name,
        "Name of the Cloud TPU, or local on a TPU VM.",
    )
    flags.DEFINE_string(
        "tpu_zone", DeviceConfig.tpu_zone, "Zone of the Cloud TPU."
    )
    flags.DEFINE_string(
        "gcp_project",
        DeviceConfig.gcp_project,
        "Google Cloud project of the Cloud TPU.",
    )
    flags.DEFINE_string(
        "master",
        DeviceConfig.master,
        "Address of the Cloud TPU, grpc://host:port, in place of its name.",
    )
    flags.DEFINE_integer(
        "num_tpu_cores", 8, "Unused: a Cloud TPU tells how many cores it has."
    )


def define_precision_and_threads() -> None:
    flags.DEFINE_enum(
        "precision",
        "float32",
        ["float32", "mixed_bfloat16"],
        "Precision of the matrix products; weights are float32 either way.",
    )
    flags.DEFINE_integer(
        "num_threads",
        0,
        "Threads of an operation, and operations at once, on a CPU; 0: as many "
        "as it has cores.",
        lower_bound=0,
        upper_bound=4096,
    )


def _define_training_beyond_google() -> None:
    flags.DEFINE_bool(
        "dry_run",
        False,
        "Check everything, print what would be loaded and what the run would "
        "take, and end before the first step without writing anything.",
    )
    flags.DEFINE_integer(
        "seed",
        LoopConfig.seed,
        "Seed of initial weights, dropout and data order.",
        lower_bound=0,
        upper_bound=2**31 - 1,
    )
    define_precision_and_threads()
    flags.DEFINE_bool(
        "use_xla",
        LoopConfig.use_xla,
        "Compile the forward and backward pass with XLA.",
    )
    flags.DEFINE_integer(
        "num_accumulation_steps",
        LoopConfig.num_accumulation_steps,
        "Micro-batches to split each batch into, where memory is short.",
        lower_bound=1,
    )
    flags.DEFINE_bool(
        "recompute",
        False,
        "Keep only the input of each layer for the backward pass and compute "
        "the rest there again, where memory is short: a third more work.",
    )
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        LoopConfig.keep_checkpoint_max,
        "Number of training states to keep, the newest.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "optimizer_type",
        OptimizerConfig.optimizer_type,
        list(OPTIMIZERS),
        "Optimizer: google-research/bert's adamw, or lamb for large batches.",
    )
    flags.DEFINE_bool(
        "bias_correction",
        OptimizerConfig.bias_correction,
        "Correct the bias of AdamW's moments near the start of training, which "
        "google-research/bert does not and LAMB always does.",
    )
    flags.DEFINE_float(
        "adam_beta_2",
        OptimizerConfig.adam_beta_2,
        "Decay rate of the optimizer's mean of squared gradients; lower it for "
        "large batches.",
        lower_bound=0.0,
        upper_bound=0.999999,
    )
    flags.DEFINE_float(
        "adam_epsilon",
        OptimizerConfig.adam_epsilon,
        "Number added to the root of the mean of squared gradients.",
        lower_bound=0.0,
    )
    flags.DEFINE_bool(
        "skip_nonfinite_steps",
        LoopConfig.skip_nonfinite_steps,
        "Go on after a step whose loss or gradient is not finite, without"
        " its update; else it stops the run.",
    )


def _define_selection() -> None:
    flags.DEFINE_integer(
        "eval_steps",
        ModelSelection.eval_steps,
        "Steps between two evaluations while training; 0: none. The best model"
        " seen is the one that stays.",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "best_metric",
        ModelSelection.best_metric,
        "Metric to choose the best model by, as eval_results.txt names it. "
        "Default: the task's own; in pre-training the loss.",
    )
    flags.DEFINE_integer(
        "patience",
        ModelSelection.patience,
        "Evaluations without a better one after which training stops; 0: never",
        lower_bound=0,
    )


def define_exported_model() -> None:
    """The model folder to export, and how its texts become pieces."""
    flags.DEFINE_string(
        "model_dir",
        None,
        "Folder with weights, their config, vocab.txt and, if it was "
        "fine-tuned, task.json (or Hugging Face's config.json, which says what "
        "for); otherwise the encoder is exported.",
    )
    define_tokenizer()
    flags.DEFINE_integer(
        "max_seq_length",
        128,
        "Pieces to which texts are cut; unset: task.json's, if there is one.",
        lower_bound=3,
    )


def exported_length(task: "TaskConfig | None") -> int:
    """Pieces to which an exported model cuts texts."""
    flag: Any = flags.FLAGS["max_seq_length"]
    return task.max_seq_length if task and not flag.present else int(flag.value)


def define_tokenizer() -> None:
    """How texts become tokens, unless a folder's settings are to be used."""
    flags.DEFINE_bool(
        "do_lower_case",
        None,
        "Lower-case the text, as uncased models need it. Default: as the files"
        " beside the model or the vocabulary say, else true.",
    )
    flags.DEFINE_alias("do_lower", "do_lower_case")  # Google's README has it
    # google-research/bert has none of these.
    flags.DEFINE_bool(
        "strip_accents",
        None,
        "Strip accents from letters. Default: as the files beside the model or"
        " the vocabulary say, else the same as --do_lower_case.",
    )
    flags.DEFINE_list(
        "additional_special_tokens",
        [],
        "Tokens of the vocabulary to keep whole wherever the text has them,"
        " such as [E1],[/E1] in the places of [unused] tokens.",
    )


def tokenizer_options() -> "TokenizerOptions":
    """What `define_tokenizer`'s flags say."""
    from bert_keras.data.tokenizer_folder import TokenizerOptions

    return command.from_flags(TokenizerOptions)


def run_config() -> "RunConfig":
    """What the flags of a command that trains say of its model's folders."""
    from bert_keras.tasks.run_context import RunConfig

    return command.from_flags(
        RunConfig,
        flags=command.flags_text(),
        data_files=command.given_files(),
        tokenizer=tokenizer_options(),
    )


def define_table() -> None:
    """How your own tables are read: tasks/classification/data.py."""
    flags.DEFINE_string(
        "text_column",
        "text",
        "Column of the text: its name in the header, its number from 0 in a "
        "file without header, its key in JSON. Without training, the default "
        "is the column that the model was trained on.",
    )
    flags.DEFINE_string(
        "text_pair_column", None, "Column of the second text, if there is one."
    )
    flags.DEFINE_bool(
        "has_header",
        True,
        "Whether the first line of TSV and CSV files names the columns.",
    )
    flags.DEFINE_string(
        "separator",
        None,
        "Character between the columns of TSV and CSV files; tab is a tab. "
        "Default: a tab in .tsv and a comma in .csv files, unless the header "
        "shows another one.",
    )
    flags.DEFINE_string(
        "encoding",
        None,
        "Encoding of text files, such as cp1252. Default: UTF-8, or what a "
        "byte-order mark says.",
    )


def define_mask_shares() -> None:
    """What becomes of the pieces that are to be predicted."""
    flags.DEFINE_float(
        "mask_share",
        MaskConfig.mask_share,
        "Share of the tokens to predict that become [MASK].",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_float(
        "random_share",
        MaskConfig.random_share,
        "Share of the tokens to predict that become a random token; what "
        "--mask_share and this flag leave stays as it is.",
        lower_bound=0.0,
        upper_bound=1.0,
    )


def define_teacher() -> None:
    """A model to learn from."""
    flags.DEFINE_string(
        "teacher_model_dir",
        None,
        "Model folder, trained for the same, whose outputs this one learns to "
        "give: docs/how_to/distillation.md.",
    )
    flags.DEFINE_float(
        "distillation_temperature",
        TaskDistillation.distillation_temperature,
        "Number that the logits of teacher and model are divided by.",
        lower_bound=0.01,
    )


def loop_config() -> LoopConfig:
    """What `define_training`'s flags say of the loop."""
    values = flags.FLAGS
    steps = min(values.iterations_per_loop, MAX_STEPS_PER_CALL)
    return command.from_flags(
        LoopConfig, steps_per_call=steps if values.use_tpu else 1
    )
