"""Pre-trains a BERT on records, with google-research/bert's flags.

    python run_pretraining.py --do_train --input_file='/tmp/records*' \\
        --bert_config_file=bert_config.json --output_dir=/tmp/bert

The same command again goes on where the last run stopped. At its end
output_dir is a model folder: bert_model.ckpt, bert_config.json and, when it is
known, vocab.txt.
"""

import os
import sys
from typing import TYPE_CHECKING

from absl import flags

import command
from input_error import InputError
from training.settings import DeviceConfig, LoopConfig, OptimizerConfig

if TYPE_CHECKING:
    import tensorflow as tf

    from data.records import Feature
    from modeling.config import BertConfig
    from tasks.pretraining import Pretraining
    from training.distribution import Host

flags.DEFINE_string("bert_config_file", None, "bert_config.json of the model.")
flags.DEFINE_string(
    "input_file", None, "Records: a comma list of files and patterns."
)
flags.DEFINE_string("output_dir", None, "Where everything is written.")
flags.DEFINE_string(
    "init_checkpoint", None, "Model folder or checkpoint prefix to start from."
)
flags.DEFINE_integer(
    "max_seq_length", 128, "Pieces of a record.", lower_bound=1
)
flags.DEFINE_integer(
    "max_predictions_per_seq", 20, "Masks of a record.", lower_bound=1
)
flags.DEFINE_bool("do_train", False, "Whether to train.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, after any training.")
flags.DEFINE_integer(
    "train_batch_size", 32, "Rows of the global batch.", lower_bound=1
)
flags.DEFINE_integer(
    "eval_batch_size", 8, "Rows of the global batch.", lower_bound=1
)
flags.DEFINE_float(
    "learning_rate", OptimizerConfig.learning_rate, "After the warm-up."
)
flags.DEFINE_integer(
    "num_train_steps",
    OptimizerConfig.num_train_steps,
    "Steps in all.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "num_warmup_steps", OptimizerConfig.num_warmup_steps, "Of rising rate."
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
    "Steps between two looks at a Cloud TPU.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_eval_steps", 100, "Batches to evaluate at most.", lower_bound=1
)
flags.DEFINE_bool("use_tpu", DeviceConfig.use_tpu, "Train on a Cloud TPU.")
flags.DEFINE_string("tpu_name", DeviceConfig.tpu_name, "Its name.")
flags.DEFINE_string("tpu_zone", DeviceConfig.tpu_zone, "Its zone.")
flags.DEFINE_string("gcp_project", DeviceConfig.gcp_project, "Its project.")
flags.DEFINE_string("master", DeviceConfig.master, "Its address, if unnamed.")
flags.DEFINE_integer("num_tpu_cores", 8, "Unused: the TPU says it itself.")

# The flags above are google-research/bert's, with its defaults; below, ours.
flags.DEFINE_string("vocab_file", None, "To check, and to keep with the model.")
flags.DEFINE_string("eval_file", None, "Records of --do_eval; else input_file.")
flags.DEFINE_integer(
    "seed",
    LoopConfig.seed,
    "Of initial weights, dropout and record order.",
    lower_bound=0,
    upper_bound=2**31 - 1,
)
flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "mixed_bfloat16"],
    "Of the matrix products; weights are float32 either way.",
)
flags.DEFINE_bool(
    "use_xla", LoopConfig.use_xla, "Compile the forward and backward pass."
)
flags.DEFINE_integer(
    "num_accumulation_steps",
    LoopConfig.num_accumulation_steps,
    "Micro-batches to split each batch into, where memory is short.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "keep_checkpoint_max",
    LoopConfig.keep_checkpoint_max,
    "States kept.",
    lower_bound=1,
)
flags.DEFINE_bool(
    "bias_correction",
    OptimizerConfig.bias_correction,
    "Adam's, which google-research/bert leaves out.",
)

# A TPU holds the batches of a whole call, and the host sees nothing before its
# end: upstream's iterations_per_loop of 1000 is taken as far as this.
MAX_STEPS_PER_CALL = 50

FLAGS = flags.FLAGS
flags.mark_flags_as_required(["input_file", "bert_config_file", "output_dir"])


def main() -> None:
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise InputError("nothing to do: give --do_train, --do_eval or both")
    command.import_tensorflow()

    import keras
    import tensorflow as tf

    from data.records import find_damage, pretraining_features
    from modeling.config import BertConfig
    from tasks.pretraining import Pretraining
    from training.distribution import make_strategy, this_host

    # First of all: several hosts have to connect before TensorFlow starts.
    strategy = make_strategy(command.from_flags(DeviceConfig))
    host = this_host(strategy)
    config = BertConfig.from_json_file(command.local(FLAGS.bert_config_file))
    features = pretraining_features(
        FLAGS.max_seq_length,
        FLAGS.max_predictions_per_seq,
        config.type_vocab_size,
    )
    _check_batch_sizes(strategy)
    inputs = _checked_inputs(config, features)
    keras.config.set_dtype_policy(FLAGS.precision)
    keras.utils.set_random_seed(FLAGS.seed)
    with strategy.scope():
        model = Pretraining(config)
    print(f"{model.encoder.count_params():,} parameters in the encoder")
    try:
        step = _train(model, config, features, inputs[0], strategy, host)
        if FLAGS.do_eval:
            _evaluate(model, config, features, inputs[1], step, strategy, host)
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        print("looking for a damaged record", file=sys.stderr)
        paths = sorted({*inputs[0], *inputs[1]})
        damage = find_damage(paths, features, config.vocab_size)
        if damage is None:
            raise
        raise InputError(damage) from error


def _check_batch_sizes(strategy: "tf.distribute.Strategy") -> None:
    from training.distribution import check_batch_size

    if FLAGS.do_train:
        check_batch_size(
            strategy,
            "train_batch_size",
            FLAGS.train_batch_size,
            FLAGS.num_accumulation_steps,
        )
    if FLAGS.do_eval:
        check_batch_size(strategy, "eval_batch_size", FLAGS.eval_batch_size, 1)


def _checked_inputs(
    config: "BertConfig", features: "tuple[Feature, ...]"
) -> tuple[list[str], list[str]]:
    """The files to train on and those to evaluate on; output_dir is made."""
    import tensorflow as tf

    from data.records import check_files, expand_patterns
    from data.vocabulary import check_vocabulary

    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise InputError(
            f"--max_seq_length is {FLAGS.max_seq_length} but the config's "
            f"max_position_embeddings is {config.max_position_embeddings}; "
            "shorten the records or change --bert_config_file"
        )
    vocabulary = _known_vocabulary()
    if vocabulary:
        check_vocabulary(command.local(vocabulary), config.vocab_size)
    inputs = held_out = expand_patterns(FLAGS.input_file)
    if FLAGS.eval_file:
        held_out = expand_patterns(FLAGS.eval_file, "--eval_file")
    check_files(
        sorted({*inputs, *held_out}), features, vocab_size=config.vocab_size
    )
    try:
        tf.io.gfile.makedirs(FLAGS.output_dir)
    except tf.errors.OpError as error:
        raise InputError(
            f"cannot make the folder --output_dir={FLAGS.output_dir} "
            f"({error.message})"
        ) from error
    return inputs, held_out


def _known_vocabulary() -> str | None:
    """--vocab_file, or the one that came with --init_checkpoint."""
    import tensorflow as tf

    if FLAGS.vocab_file or not FLAGS.init_checkpoint:
        return FLAGS.vocab_file
    folder = FLAGS.init_checkpoint
    if not tf.io.gfile.isdir(folder):
        folder = os.path.dirname(folder)
    beside = os.path.join(folder, "vocab.txt")
    return beside if tf.io.gfile.exists(beside) else None


def _train(
    model: "Pretraining",
    config: "BertConfig",
    features: "tuple[Feature, ...]",
    paths: list[str],
    strategy: "tf.distribute.Strategy",
    host: "Host",
) -> int:
    """Trains if --do_train, else loads; returns the model's step."""
    from data.pipeline import RowShare, training_batches
    from modeling.conversion import load_checkpoint, save_model_folder
    from training.checkpoints import check_settings, saved_states
    from training.loop import train
    from training.optimization import AdamW

    if not FLAGS.do_train:
        return _restore(model)
    if not saved_states(FLAGS.output_dir):
        if FLAGS.init_checkpoint:
            print(load_checkpoint(model.bindings(), FLAGS.init_checkpoint))
    elif FLAGS.init_checkpoint:
        print("--init_checkpoint is not read again: --output_dir has begun")
    data_order = {
        "input_file": paths,
        "train_batch_size": FLAGS.train_batch_size,
        "seed": FLAGS.seed,
    }
    check_settings(FLAGS.output_dir, data_order, host.is_chief)
    with strategy.scope():
        optimizer = AdamW(
            model.trainable_variables, command.from_flags(OptimizerConfig)
        )
    batches = training_batches(
        paths,
        features,
        FLAGS.train_batch_size,
        FLAGS.seed,
        config.vocab_size,
        RowShare(host.index, host.count),
    )
    steps = min(FLAGS.iterations_per_loop, MAX_STEPS_PER_CALL)
    step = train(
        model,
        optimizer,
        batches,
        strategy,
        host,
        command.from_flags(
            LoopConfig, steps_per_call=steps if FLAGS.use_tpu else 1
        ),
        FLAGS.output_dir,
        FLAGS.train_batch_size * FLAGS.max_seq_length,
    )
    if host.is_chief:
        save_model_folder(
            FLAGS.output_dir, config, model.bindings(), _known_vocabulary()
        )
        print(f"the model is in {FLAGS.output_dir}")
    return step


def _restore(model: "Pretraining") -> int:
    """Loads what --output_dir has, else --init_checkpoint; returns its step."""
    from modeling.conversion import load_checkpoint
    from training.checkpoints import TrainingState, saved_states

    if saved_states(FLAGS.output_dir):
        weights = [v.value for v in model.trainable_variables]
        tracked = {"weights": weights}
        return TrainingState(FLAGS.output_dir, tracked, 1, False).restore()
    source = FLAGS.init_checkpoint or FLAGS.output_dir
    print(load_checkpoint(model.bindings(), source))
    return 0


def _evaluate(
    model: "Pretraining",
    config: "BertConfig",
    features: "tuple[Feature, ...]",
    paths: list[str],
    step: int,
    strategy: "tf.distribute.Strategy",
    host: "Host",
) -> None:
    """Writes eval_results.txt in google-research/bert's format."""
    from data.pipeline import RowShare, evaluation_batches
    from modeling.conversion import write_whole
    from training.loop import evaluate

    batches = evaluation_batches(
        paths,
        features,
        FLAGS.eval_batch_size,
        FLAGS.max_eval_steps,
        config.vocab_size,
        RowShare(host.index, host.count),
    )
    results = {"global_step": step, **evaluate(model, batches, strategy, host)}
    lines = [f"{key} = {results[key]}" for key in sorted(results)]
    print("***** Eval results *****", *lines, sep="\n")
    if host.is_chief:
        path = os.path.join(FLAGS.output_dir, "eval_results.txt")
        write_whole(path, ("\n".join(lines) + "\n").encode())


def cli() -> None:
    """Entry point of the console command."""
    command.run(main)


if __name__ == "__main__":
    cli()
