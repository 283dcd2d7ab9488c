"""What lies beside `init_checkpoint` against what a run is told to use.

Shapes do not tell all: weights load under another number of heads, or for
another vocabulary of the same size, and then mean nothing.
"""

import dataclasses
import math
from collections.abc import Mapping

from bert_keras.data.tokenizer_folder import OpenedTokenizer, open_tokenizer
from bert_keras.data.tokenizers import check_ids
from bert_keras.errors import InputError, warn
from bert_keras.modeling.checkpoint import check_sizes
from bert_keras.modeling.config import BertConfig, model_config_file
from bert_keras.modeling.hugging_face import is_hugging_face
from bert_keras.modeling.hugging_face_names import MODERN
from bert_keras.training.config import OptimizerConfig


def check_config(config: BertConfig, init_checkpoint: str | None) -> None:
    """Looks at the sizes of `init_checkpoint`'s weights, and at what their
    shapes do not tell."""
    if not init_checkpoint:
        return
    path = model_config_file(init_checkpoint)
    start = BertConfig.from_json_file(path) if path else config
    for name in (
        "num_attention_heads", "family", "position_offset",
        "global_attn_every_n_layers",
    ):  # fmt: skip
        if difference := _difference(name, config, start):
            raise InputError(
                f"{difference} ({path}); change `bert_config_file`"
            )
    for name in ("hidden_act", "layer_norm_eps", "direction", *MODERN):
        if difference := _difference(name, config, start):
            warn(f"{difference} ({path})")
    check_sizes(config, init_checkpoint)


def _difference(name: str, config: BertConfig, start: BertConfig) -> str:
    """Says which two values the field has; "" where it is one."""
    ours, theirs = getattr(config, name), getattr(start, name)
    said = f"the config has {name} = {ours} but the weights were trained with "
    return "" if ours == theirs else f"{said}{theirs}"


def optimizer_hints(
    config: OptimizerConfig, begins_at_random: bool
) -> list[str]:
    """Sentences on settings that keep a run from learning."""
    hints = []
    steps, warmup = config.num_train_steps, config.num_warmup_steps
    if warmup >= steps:
        hints.append(
            f"the learning rate rises for {warmup:,} steps and the run has "
            f"only {steps:,}, so that it never reaches {config.learning_rate}; "
            "lower `num_warmup_steps` (in fine-tuning `warmup_proportion`) or "
            "train for longer"
        )
    stable = config.num_stable_steps
    if stable is not None and stable < warmup < steps:
        hints.append(
            f"the learning rate rises for {warmup:,} steps, and the decay "
            f"begins after step {stable:,}, so that the rate drops at once "
            "where the rise ends; lower `num_warmup_steps` or `num_decay_steps`"
        )
    # Until then the mean of squared gradients is far too small, and so the
    # updates too large.
    memory = round(1.0 / (1.0 - config.adam_beta_2))
    is_biased = config.optimizer_type == "adamw" and not config.bias_correction
    if begins_at_random and is_biased and 2 * warmup < memory:
        enough = math.ceil(memory / 2)
        longer = (
            f", or at least {enough:,} steps" if 4 * enough <= steps else ""
        )
        hints.append(
            f"the weights start at random, and a warm-up of {warmup:,} steps "
            f"is short for Adam: give `bias_correction`{longer}"
        )
    return hints


def check_second(
    config: BertConfig,
    init_checkpoint: str | None,
    second_init_checkpoint: str | None,
) -> None:
    """As `check_config` of a second encoder, which may read in another
    direction but must be as deep as the first."""
    second = second_config(init_checkpoint, second_init_checkpoint)
    if second is None:
        return
    own = dataclasses.replace(config, direction=second.direction)
    check_config(own, second_init_checkpoint)
    if difference := _difference("num_hidden_layers", own, second):
        raise InputError(
            f"{difference} ({second_init_checkpoint}); expected a "
            "`second_init_checkpoint` as deep as the first"
        )


def second_config(
    init_checkpoint: str | None, second_init_checkpoint: str | None
) -> BertConfig | None:
    """The config of a second encoder; None where there is none."""
    if not second_init_checkpoint:
        return None
    if not init_checkpoint:
        raise InputError(
            "`second_init_checkpoint` is loaded beside `init_checkpoint`, "
            "which is missing"
        )
    path = model_config_file(second_init_checkpoint)
    if path is None:
        raise InputError(
            f"`second_init_checkpoint={second_init_checkpoint}` has no "
            "bert_config.json beside it, which says in what direction it reads"
        )
    return BertConfig.from_json_file(path)


def check_tokens(
    tokenizer: OpenedTokenizer, config: BertConfig, path: str | None
) -> Mapping[str, int]:
    """Checks the tokenizer of a model; returns token -> id.

    Args:
        path: of the model, where it is known.

    Raises:
        InputError: an id does not fit the config.
    """
    vocab_file, vocab = tokenizer.vocab_file, tokenizer.vocab
    check_ids(vocab, config.vocab_size, vocab_file)
    if path and is_hugging_face(path):
        config.check_padding(
            vocab[tokenizer.special_tokens.padding], vocab_file
        )
    return vocab


def compare_tokens(
    vocab_file: str, vocab: Mapping[str, int], init_checkpoint: str | None
) -> None:
    """Warns of tokens that `init_checkpoint`'s weights know by other ids;
    one in a place that was [unused...] is a user's own and all right."""
    try:
        start = init_checkpoint and open_tokenizer(init_checkpoint)
    except InputError:  # `vocab_file` may be given for that very reason
        return
    if not start:
        return
    own = {number: piece for piece, number in vocab.items()}
    others = [
        (number, piece)
        for piece, number in start.vocab.items()
        if own.get(number) != piece and not piece.startswith("[unused")
    ]
    if others:
        number, piece = others[0]
        warn(
            f"`vocab_file={vocab_file}` has {len(others):,} tokens other than "
            f"{start.vocab_file}, with which the weights were trained; the "
            f"first is {own.get(number)!r}, where they have {piece!r}"
        )
