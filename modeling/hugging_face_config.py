"""Hugging Face's config.json as a bert_config.json, and the other way.

Upstream files: transformers configuration_bert.py, configuration_roberta.py
and configuration_distilbert.py.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import Any

from bert_keras.errors import InputError
from bert_keras.modeling.hugging_face_weights import (
    family_of,
    family_of_class,
    tensor_names,
)

# gelu_new, gelu_pytorch_tanh and gelu_fast are one function, of which the
# second is one operation of torch's instead of eight.
FROM_HUGGING_FACE = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
TO_HUGGING_FACE = {
    "gelu": "gelu_pytorch_tanh",
    "gelu_tanh": "gelu_pytorch_tanh",
    "gelu_erf": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}

# Any of these keys tells its config.json from Google's bert_config.json.
HUGGING_FACE_KEYS = {"model_type", "architectures", "transformers_version"}


@dataclasses.dataclass(frozen=True)
class Family:
    """How Hugging Face's models of one model_type differ from Google's."""

    # defaults of config.json that are not Google's
    defaults: Mapping[str, Any]
    # keys that are written, and the only value that is read of each
    fixed: Mapping[str, Any]
    # ids of tokens that are written, unless the file that was read had others
    ids: Mapping[str, int]
    # other keys that are written
    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # positions are rows of their table from pad_token_id + 1 on, not from 0
    counts_from_padding: bool = False
    pooler_act: str = "tanh"  # one of config.ACTIVATIONS
    has_pooler: bool = True  # not only as a part of classifiers
    has_segments: bool = True  # a table of token types
    # the names that its config.json has for fields here
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # the names here that transformers does not read in such a config.json
    unread: tuple[str, ...] = ()
    # fields that it does not have, with their values
    unsaid: Mapping[str, Any] = dataclasses.field(default_factory=dict)


# Keys that change what a model of any family computes, and the values under
# which they do not: quantised weights, heads that were removed, layers that
# differ from each other, code that is not transformers'.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (False, None),
    "quantization_config": (None,),
    "pruned_heads": ({}, None),
    "per_layer_config": ({}, None),
    "auto_map": ({}, None),
}
# Keys that change only training, or nothing here; kept for the way back.
_KEPT = (
    "bos_token_id", "eos_token_id", "classifier_dropout", "qa_dropout",
    "seq_classif_dropout",
)  # fmt: skip

_ENCODER = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
FAMILIES = {
    "bert": Family(
        {"vocab_size": 30522, "type_vocab_size": 2, "hidden_act": "gelu"},
        _ENCODER,
        {"pad_token_id": 0},
    ),
    # The masked-LM head has the exact gelu whatever the config says, and
    # positions are counted from pad_token_id + 1: modeling_roberta.py there.
    "roberta": Family(
        {"vocab_size": 50265, "type_vocab_size": 2},
        {**_ENCODER, "hidden_act": "gelu"},
        {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
        counts_from_padding=True,
    ),
    # Sanh et al. 2019, section 3. What stands for the pooler in its
    # classifiers has a relu: modeling_distilbert.py there.
    "distilbert": Family(
        {"vocab_size": 30522, "hidden_act": "gelu", "num_hidden_layers": 6},
        {},
        {"pad_token_id": 0},
        {"sinusoidal_pos_embds": False},
        pooler_act="relu",
        has_pooler=False,
        has_segments=False,
        names={
            "hidden_size": "dim",
            "num_hidden_layers": "n_layers",
            "num_attention_heads": "n_heads",
            "intermediate_size": "hidden_dim",
            "hidden_act": "activation",
            "hidden_dropout_prob": "dropout",
            "attention_probs_dropout_prob": "attention_dropout",
        },
        unread=(
            "intermediate_size",
            "hidden_act",
            "hidden_dropout_prob",
            "attention_probs_dropout_prob",
        ),
        unsaid={"type_vocab_size": 0, "layer_norm_eps": 1e-12},
    ),
}


def is_hugging_face_config(path: str, values: Mapping[str, Any]) -> bool:
    """Whether it has Hugging Face's keys, or is a config.json beside
    safetensors."""
    return bool(HUGGING_FACE_KEYS & values.keys()) or (
        os.path.basename(path) == "config.json"
        and bool(tensor_names(os.path.dirname(path)))
    )


def from_hugging_face(
    values: dict[str, Any], folder: str, fields: Collection[str]
) -> dict[str, Any]:
    """The values of a config.json as a bert_config.json would have them.

    Args:
        folder: of the file, whose tensors tell the family if it does not.
        fields: of BertConfig, which are kept.

    Raises:
        InputError: it is not such an encoder.
    """
    kind = _model_type(values, folder)
    if kind not in list(FAMILIES):  # a list: it may be anything
        raise InputError(
            f"the Hugging Face model has model_type = {kind!r}; expected one "
            f"of {', '.join(FAMILIES)}"
        )
    for key, plain in _PLAIN.items():
        if values.get(key) not in plain:
            raise InputError(
                f"the Hugging Face model has {key} = {values[key]!r}, which is "
                "not supported"
            )
    family = FAMILIES[kind]
    renamed = {
        name: values[theirs]
        for name, theirs in family.names.items()
        if theirs in values
    }
    values = {
        **family.defaults,
        **family.fixed,
        **{k: v for k, v in values.items() if k not in family.unread},
        **renamed,
        **family.unsaid,
    }
    _check_fixed(values, family.fixed)
    act = values["hidden_act"]
    if act not in list(FROM_HUGGING_FACE):  # a list: act may be anything
        raise InputError(
            f"the Hugging Face model has hidden_act = {act!r}; expected one of "
            f"{', '.join(FROM_HUGGING_FACE)}"
        )
    config = {
        k: v
        for k, v in values.items()
        if k in fields
        # what Hugging Face's files took over from Google's, unused
        or k.startswith("pooler_")
        or k == "directionality"
        or (k in _KEPT and v not in (None, family.ids.get(k)))
    }
    config |= {"hidden_act": FROM_HUGGING_FACE[act], "family": kind}
    default = family.ids["pad_token_id"]
    rows = values.get("max_position_embeddings", 512)
    if family.counts_from_padding and type(rows) is int:
        padding = values.get("pad_token_id", default)
        if type(padding) is not int:
            raise InputError(
                f"the Hugging Face model has pad_token_id = {padding!r}; "
                "expected the id of a token, from which its positions count"
            )
        rows -= padding + 1  # rows before that of the first position
    config["max_position_embeddings"] = rows
    if config.get("pad_token_id") == default:
        del config["pad_token_id"]
    return config


def to_hugging_face(
    values: dict[str, Any], position_offset: int, padding_id: int
) -> dict[str, Any]:
    """The values of a BertConfig as a config.json has them, but for what the
    heads say.

    Raises:
        InputError: the family there has no such model.
    """
    values = dict(values)
    direction = values.pop("direction")
    if direction != "bidirectional":
        raise InputError(
            f"the config has direction = {direction}, for which Hugging Face's "
            "encoders have no setting"
        )
    family = FAMILIES[values["family"]]
    del values["pad_token_id"]
    values["hidden_act"] = TO_HUGGING_FACE[values["hidden_act"]]
    values["max_position_embeddings"] += position_offset
    _check_fixed({**family.fixed, **values}, {**family.fixed, **family.unsaid})
    for name in family.unsaid:
        del values[name]
    for name, theirs in family.names.items():
        values[theirs] = values.pop(name)
    other = values.pop("other")
    return {
        **family.ids,
        **other,
        "model_type": values.pop("family"),
        **values,
        **family.fixed,
        **family.written,
        "pad_token_id": padding_id,
    }


def _model_type(values: Mapping[str, Any], folder: str) -> Any:
    """The model_type of the file, else that of its architectures, else that of
    the names of the tensors beside it."""
    if values.get("model_type") is not None:
        return values["model_type"]
    names = values.get("architectures")
    if isinstance(names, list) and names:
        found = family_of_class(str(names[0]))
        reason = f"its architectures are {names[0]!r}"
    else:
        tensors = tensor_names(folder)
        found = family_of(tensors) if tensors else "bert"
        reason = "several have weights with these names"
    if found is None:
        raise InputError(
            f"the Hugging Face model has no model_type, and {reason}; add "
            f'"model_type" to it, one of {", ".join(FAMILIES)}'
        )
    return found


def _check_fixed(values: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    for key, only in fixed.items():
        if values[key] != only:
            raise InputError(
                f"the Hugging Face model has {key} = {values[key]!r}; the one "
                f"supported value is {only!r}"
            )
