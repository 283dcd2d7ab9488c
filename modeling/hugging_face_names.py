"""What BERT, RoBERTa, DistilBERT and ModernBERT have otherwise than Google's
BERT: names of weights, keys of a config, parts of the model. Tables that are
read both ways.

Upstream files: google-research/bert modeling.py and its run_*.py; transformers
modeling_*.py (names as `state_dict` lists them) and configuration_*.py of bert,
roberta, distilbert and modernbert.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from bert_keras.errors import InputError

# How the names of classes end whose head Google keeps at the root.
CLASSIFIER, CHOICE = "ForSequenceClassification", "ForMultipleChoice"
TAGGER = "ForTokenClassification"
MASKED_LM = "ForMaskedLM"

# How one part's variables end: Google's, Hugging Face's. A "/kernel" is also
# transposed: its rows are inputs in Google's and outputs in Hugging Face's.
_TABLE = {"": ".weight"}
_DENSE = {"/kernel": ".weight", "/bias": ".bias"}
_NORM = {"/gamma": ".weight", "/beta": ".bias"}
_BIAS = {"/output_bias": ".bias"}
_HEAD = {"/output_weights": ".weight"} | _BIAS

_LAYER = "bert/encoder/layer_#"  # # being the layer's number
_PARTS = {
    "bert/embeddings/word_embeddings": _TABLE,
    "bert/embeddings/token_type_embeddings": _TABLE,
    "bert/embeddings/position_embeddings": _TABLE,
    "bert/embeddings/LayerNorm": _NORM,
    f"{_LAYER}/attention/self/query": _DENSE,
    f"{_LAYER}/attention/self/key": _DENSE,
    f"{_LAYER}/attention/self/value": _DENSE,
    f"{_LAYER}/attention/output/dense": _DENSE,
    f"{_LAYER}/attention/output/LayerNorm": _NORM,
    f"{_LAYER}/intermediate/dense": _DENSE,
    f"{_LAYER}/output/dense": _DENSE,
    f"{_LAYER}/output/LayerNorm": _NORM,
    "bert/pooler/dense": _DENSE,
    "cls/predictions/transform/dense": _DENSE,
    "cls/predictions/transform/LayerNorm": _NORM,
    "cls/predictions": _BIAS,
    "cls/seq_relationship": _HEAD,
    "cls/squad": _HEAD,
    "": _HEAD,  # a classifier's, which Google keeps at the root
}
_BLOCK = "distilbert.transformer.layer.#"
# Of ModernBERT, in the manner of Google's, who have none: whole names.
_MODERN = "model.layers.#"
_MODERN_NAMES = {
    "bert/embeddings/word_embeddings": "model.embeddings.tok_embeddings.weight",
    "bert/embeddings/LayerNorm/gamma": "model.embeddings.norm.weight",
    f"{_LAYER}/attention/LayerNorm/gamma": f"{_MODERN}.attn_norm.weight",
    f"{_LAYER}/attention/self/qkv/kernel": f"{_MODERN}.attn.Wqkv.weight",
    f"{_LAYER}/attention/output/dense/kernel": f"{_MODERN}.attn.Wo.weight",
    f"{_LAYER}/LayerNorm/gamma": f"{_MODERN}.mlp_norm.weight",
    f"{_LAYER}/intermediate/dense/kernel": f"{_MODERN}.mlp.Wi.weight",
    f"{_LAYER}/output/dense/kernel": f"{_MODERN}.mlp.Wo.weight",
    "bert/encoder/LayerNorm/gamma": "model.final_norm.weight",
    "bert/pooler/dense/kernel": "head.dense.weight",
    "bert/pooler/LayerNorm/gamma": "head.norm.weight",
    "cls/predictions/output_bias": "decoder.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
}

# Fields of BertConfig that only a ModernBERT has.
MODERN = (
    "global_attn_every_n_layers", "local_attention", "global_rope_theta",
    "local_rope_theta", "classifier_pooling",
)  # fmt: skip

_ENCODER = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}


@dataclasses.dataclass(frozen=True)
class Family:
    """How Hugging Face's models of one model_type differ from Google's."""

    class_prefix: str  # of transformers' classes
    # beginnings of tensors' names that only this family has
    beginnings: tuple[str, ...]
    # what parts of the model are called; of those not named, the name has a
    # dot for each / and for the _ of layer_#, and the family for "bert"
    parts: Mapping[str, str]
    # defaults of config.json that are not Google's
    defaults: Mapping[str, Any]
    # keys that are written, and the only value that is read of each
    fixed: Mapping[str, Any]
    # ids of tokens that are written, unless the file that was read had others
    ids: Mapping[str, Any]
    # by class: the beginning of its names that is another there, and that
    by_class: Mapping[str, tuple[str, str]] = dataclasses.field(
        default_factory=dict
    )
    # other keys that are written
    written: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # positions are rows of their table from pad_token_id + 1 on, not from 0
    counts_from_padding: bool = False
    pooler_act: str = "tanh"  # one of config.ACTIVATIONS
    has_pooler: bool = True  # not only as a part of classifiers
    has_segments: bool = True  # a table of token types
    has_next_sentence: bool = True
    # heads of tokens read its output, too, as those of the whole text do
    shares_pooler: bool = False
    # of a model with other parts than Google's: its weights' names by ours
    whole_names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    num_feed_forward_kernels: int = 2  # of hidden_size x intermediate_size
    # the names that its config.json has for fields here
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # the names here that transformers does not read in such a config.json
    unread: tuple[str, ...] = ()
    # fields that it does not have, with their values
    unsaid: Mapping[str, Any] = dataclasses.field(default_factory=dict)


FAMILIES = {
    "bert": Family(
        "Bert",
        ("bert.", "cls."),
        {"cls/squad": "qa_outputs", "": "classifier"},
        {"vocab_size": 30522, "type_vocab_size": 2, "hidden_act": "gelu"},
        _ENCODER,
        {"pad_token_id": 0},
    ),
    # The masked-LM head has the exact gelu whatever the config says, positions
    # are counted from pad_token_id + 1, and classifiers have a dense layer of
    # their own where BERT's have the pooler: modeling_roberta.py there.
    "roberta": Family(
        "Roberta",
        ("roberta.", "lm_head."),
        {
            "cls/predictions/transform/dense": "lm_head.dense",
            "cls/predictions/transform/LayerNorm": "lm_head.layer_norm",
            "cls/predictions": "lm_head",
            "cls/squad": "qa_outputs",
            "": "classifier.out_proj",
        },
        {"vocab_size": 50265, "type_vocab_size": 2},
        {**_ENCODER, "hidden_act": "gelu"},
        {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
        {
            f"Roberta{CLASSIFIER}": ("roberta.pooler.", "classifier."),
            f"Roberta{CHOICE}": ("classifier.out_proj.", "classifier."),
            f"Roberta{TAGGER}": ("classifier.out_proj.", "classifier."),
        },
        counts_from_padding=True,
        has_next_sentence=False,
    ),
    # Sanh et al. 2019, section 3. What stands for the pooler in its
    # classifiers has a relu: modeling_distilbert.py there.
    "distilbert": Family(
        "DistilBert",
        ("distilbert.", "transformer.layer.", "vocab_"),
        {
            f"{_LAYER}/attention/self/query": f"{_BLOCK}.attention.q_lin",
            f"{_LAYER}/attention/self/key": f"{_BLOCK}.attention.k_lin",
            f"{_LAYER}/attention/self/value": f"{_BLOCK}.attention.v_lin",
            f"{_LAYER}/attention/output/dense": f"{_BLOCK}.attention.out_lin",
            f"{_LAYER}/attention/output/LayerNorm": f"{_BLOCK}.sa_layer_norm",
            f"{_LAYER}/intermediate/dense": f"{_BLOCK}.ffn.lin1",
            f"{_LAYER}/output/dense": f"{_BLOCK}.ffn.lin2",
            f"{_LAYER}/output/LayerNorm": f"{_BLOCK}.output_layer_norm",
            "bert/pooler/dense": "pre_classifier",
            "cls/predictions/transform/dense": "vocab_transform",
            "cls/predictions/transform/LayerNorm": "vocab_layer_norm",
            "cls/predictions": "vocab_projector",
            "cls/squad": "qa_outputs",
            "": "classifier",
        },
        {"vocab_size": 30522, "hidden_act": "gelu", "num_hidden_layers": 6},
        {},
        {"pad_token_id": 0},
        written={"sinusoidal_pos_embds": False},
        pooler_act="relu",
        has_pooler=False,
        has_segments=False,
        has_next_sentence=False,
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
    # modern_bert.py. Its embeddings have no dropout here.
    "modernbert": Family(
        "ModernBert",
        ("model.embeddings.tok_embeddings.", "embeddings.tok_embeddings."),
        {},  # it has parts of its own, below
        {
            "vocab_size": 50368,
            "num_hidden_layers": 22,
            "intermediate_size": 1152,
            "max_position_embeddings": 8192,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "layer_norm_eps": 1e-5,
            "pad_token_id": 50283,
        },
        {
            "norm_bias": False,
            "attention_bias": False,
            "mlp_bias": False,
            "decoder_bias": True,
            "classifier_bias": False,
            "classifier_activation": "gelu",
            "embedding_dropout": 0.0,
            "tie_word_embeddings": True,
        },
        {"pad_token_id": 0}
        | dict.fromkeys(
            ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
        ),
        by_class={
            "ModernBertForQuestionAnswering": ("qa_outputs.", "classifier."),
        },
        has_pooler=False,
        has_segments=False,
        has_next_sentence=False,
        shares_pooler=True,
        whole_names=_MODERN_NAMES,
        num_feed_forward_kernels=3,
        names={
            "hidden_act": "hidden_activation",
            "hidden_dropout_prob": "mlp_dropout",
            "attention_probs_dropout_prob": "attention_dropout",
            "layer_norm_eps": "norm_eps",
        },
        unread=(
            "hidden_act",
            "hidden_dropout_prob",
            "attention_probs_dropout_prob",
            "layer_norm_eps",
        ),
        unsaid={"type_vocab_size": 0},
    ),
}


_SAME = "", ""  # replaced with itself


def _names(family: str) -> dict[str, str]:
    """Google's names to that family's, with # for a layer's number."""
    if FAMILIES[family].whole_names:
        return {**FAMILIES[family].whole_names}
    names = {}
    for part, endings in _PARTS.items():
        plain = part.replace("/", ".").replace("layer_", "layer.")
        plain = re.sub(r"^bert\.", f"{family}.", plain)
        theirs = FAMILIES[family].parts.get(part, plain)
        for ours, ending in endings.items():
            names[(part + ours).removeprefix("/")] = theirs + ending
    return names


_TO_HUGGING_FACE = {family: _names(family) for family in FAMILIES}
_FROM_HUGGING_FACE = {
    theirs: ours
    for family, names in _TO_HUGGING_FACE.items()
    for ours, theirs in names.items()
    if family != "modernbert"
}
_FROM_MODERNBERT = {
    theirs: ours for ours, theirs in _TO_HUGGING_FACE["modernbert"].items()
}
# What else a file may have in a name, and what the table has there.
_SYNONYMS = {
    r"LayerNorm\.gamma$": "LayerNorm.weight",  # transformers before 1.0
    r"LayerNorm\.beta$": "LayerNorm.bias",
    r"^(embeddings|encoder|pooler)\.": r"bert.\1.",  # of a bare encoder
    r"^transformer\.": "distilbert.transformer.",
    r"^classifier\.dense\.": "roberta.pooler.dense.",
}
_TIED = {
    "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
    "lm_head.decoder.weight": "bert/embeddings/word_embeddings",
    "lm_head.decoder.bias": "cls/predictions/output_bias",
    "vocab_projector.weight": "bert/embeddings/word_embeddings",
}


def hugging_face_name(name: str, family: str, architecture: str) -> str:
    """bert/encoder/layer_7/output/dense/kernel
    -> bert.encoder.layer.7.output.dense.weight"""
    rule = re.sub(r"layer_\d+/", "layer_#/", name)
    theirs = _TO_HUGGING_FACE[family][rule]
    if number := re.search(r"layer_(\d+)/", name):
        theirs = theirs.replace("#", number[1])
    if architecture.endswith("Model"):  # a bare one's names have no "bert."
        return re.sub(rf"^({family}|model)\.", "", theirs)
    return theirs.replace(*FAMILIES[family].by_class.get(architecture, _SAME))


def google_name(
    name: str, family: str | None = None, architecture: str = ""
) -> str | None:
    """The name of Google's variable for a tensor; None for one that Google's
    models have not.

    Args:
        family: of the tensors. Only a ModernBERT's has names of its own here;
            those of all others are in one table.
        architecture: the class of transformers, which says what a ModernBERT's
            classifier is for.
    """
    table = _FROM_HUGGING_FACE
    if family == "modernbert":
        table = _FROM_MODERNBERT
        ours, theirs = FAMILIES[family].by_class.get(architecture, _SAME)
        if theirs and name.startswith(theirs):
            name = name.replace(theirs, ours)
        if name.startswith(("embeddings.", "layers.", "final_norm.")):
            name = f"model.{name}"  # of a bare encoder
    else:
        for pattern, usual in _SYNONYMS.items():
            name = re.sub(pattern, usual, name)
    found = table.get(re.sub(r"\.(layers?)\.\d+\.", r".\1.#.", name))
    number = re.search(r"\.layers?\.(\d+)\.", name)
    return found.replace("#", number[1]) if found and number else found


def tied_to(name: str, family: str | None) -> str | None:
    """For an output layer's second name: Google's name for what it equals."""
    if name == "decoder.weight" and family == "modernbert":
        return "bert/embeddings/word_embeddings"
    return _TIED.get(name)


def is_unread(name: str, names: Collection[str]) -> bool:
    """Whether the model with tensors of these names does not read this one:
    transformers before 3.1 kept the encoder's pooler in RoBERTa's classifiers,
    which have a dense layer of their own."""
    own = name.replace("roberta.pooler.", "classifier.")
    return own != name and own in names


def family_of(names: Iterable[str]) -> str | None:
    """The family that has tensors of these names; None where several have:
    BertModel's and RobertaModel's are the same.

    Raises:
        InputError: some are of one family and some of another.
    """
    found = {
        kind: name
        for name in names
        for kind, family in FAMILIES.items()
        if name.startswith(family.beginnings)
    }
    if len(found) > 1:
        raise InputError(
            "the weights have names of several kinds of models: "
            + ", ".join(f"{name} of {kind}" for kind, name in found.items())
        )
    return next(iter(found), None)


def family_of_class(name: str) -> str | None:
    """The family of a class of transformers; None for any other name."""
    for kind, family in FAMILIES.items():
        if re.match(f"{family.class_prefix}(Model|For|LMHead)", name):
            return kind
    return None


def architecture_of(
    names: Collection[str], family: str, classifier: str = CLASSIFIER
) -> str:
    """The class of transformers that has these of Google's variables.

    Args:
        classifier: how its name ends where there is a head at the root.
    """
    for name in names:
        is_next_sentence = name.startswith("cls/seq_relationship")
        if is_next_sentence and not FAMILIES[family].has_next_sentence:
            raise InputError(
                f"the model has {name}, for which Hugging Face's {family} has "
                "no place; expected one that was trained without next sentences"
            )
    has_masked_lm = "cls/predictions/output_bias" in names
    if "output_weights" in names:
        head = classifier
    elif "cls/squad/output_weights" in names:
        head = "ForQuestionAnswering"
    elif "cls/seq_relationship/output_weights" in names:
        head = (
            "ForPreTraining" if has_masked_lm else "ForNextSentencePrediction"
        )
    else:
        head = MASKED_LM if has_masked_lm else "Model"
    return FAMILIES[family].class_prefix + head


def has_place(name: str, architecture: str) -> bool:
    """Whether that class has this of Google's variables. A pooler: not in
    classes for the masked language model alone, and among DistilBERT's in
    classifiers only; a ModernBERT has one before every head."""
    if "/pooler/" not in name:
        return True
    if architecture.startswith("ModernBert"):
        return not architecture.endswith("Model")
    if architecture.startswith("DistilBert"):
        return architecture.endswith((CLASSIFIER, CHOICE))
    return not architecture.endswith(MASKED_LM)
