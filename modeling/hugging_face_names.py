"""What Google calls a variable and what Hugging Face calls it.

Names: google-research/bert modeling.py and its run_*.py; transformers
modeling_bert.py, modeling_roberta.py and modeling_distilbert.py, as
`state_dict` lists them.
"""

import re
from collections.abc import Collection, Iterable

from bert_keras.errors import InputError

# How one part's variables end: Google's, Hugging Face's. A "/kernel" is also
# transposed: its rows are inputs in Google's and outputs in Hugging Face's.
_TABLE = (("", ".weight"),)
_DENSE = (("/kernel", ".weight"), ("/bias", ".bias"))
_NORM = (("/gamma", ".weight"), ("/beta", ".bias"))
_BIAS = (("/output_bias", ".bias"),)
_HEAD = (("/output_weights", ".weight"), *_BIAS)

_LAYER = "bert/encoder/layer_#"  # # being the layer's number
_PARTS = (
    ("bert/embeddings/word_embeddings", _TABLE),
    ("bert/embeddings/token_type_embeddings", _TABLE),
    ("bert/embeddings/position_embeddings", _TABLE),
    ("bert/embeddings/LayerNorm", _NORM),
    (f"{_LAYER}/attention/self/query", _DENSE),
    (f"{_LAYER}/attention/self/key", _DENSE),
    (f"{_LAYER}/attention/self/value", _DENSE),
    (f"{_LAYER}/attention/output/dense", _DENSE),
    (f"{_LAYER}/attention/output/LayerNorm", _NORM),
    (f"{_LAYER}/intermediate/dense", _DENSE),
    (f"{_LAYER}/output/dense", _DENSE),
    (f"{_LAYER}/output/LayerNorm", _NORM),
    ("bert/pooler/dense", _DENSE),
    ("cls/predictions/transform/dense", _DENSE),
    ("cls/predictions/transform/LayerNorm", _NORM),
    ("cls/predictions", _BIAS),
    ("cls/seq_relationship", _HEAD),
    ("cls/squad", _HEAD),
    ("", _HEAD),  # a classifier's, which Google keeps at the root
)

# By family, what the parts are called there; of those not named, the name has a
# dot for each / and for the _ of layer_#, and the family for "bert".
_BLOCK = "distilbert.transformer.layer.#"
_RENAMED = {
    "bert": {"cls/squad": "qa_outputs", "": "classifier"},
    "roberta": {
        "cls/predictions/transform/dense": "lm_head.dense",
        "cls/predictions/transform/LayerNorm": "lm_head.layer_norm",
        "cls/predictions": "lm_head",
        "cls/squad": "qa_outputs",
        "": "classifier.out_proj",
    },
    "distilbert": {
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
}
# How the names of classes end whose head Google keeps at the root.
CLASSIFIER, CHOICE = "ForSequenceClassification", "ForMultipleChoice"
TAGGER = "ForTokenClassification"
MASKED_LM = "ForMaskedLM"
# RoBERTa's classifiers have a dense layer of their own where BERT's have the
# pooler; there is no next sentence.
_CLASSIFIER_DENSE = ("roberta.pooler.dense", "classifier.dense")
_ABSENT = dict.fromkeys(("roberta", "distilbert"), "cls/seq_relationship")
CLASS_PREFIX = {
    "bert": "Bert",
    "roberta": "Roberta",
    "distilbert": "DistilBert",
}


def _part_name(part: str, family: str) -> str:
    renamed = _RENAMED[family]
    if part in renamed:
        return renamed[part]
    name = part.replace("/", ".").replace("layer_", "layer.")
    return re.sub(r"^bert\.", f"{family}.", name)


def _names(family: str) -> dict[str, str]:
    return {
        (part + ours).removeprefix("/"): _part_name(part, family) + theirs
        for part, endings in _PARTS
        if part != _ABSENT.get(family)
        for ours, theirs in endings
    }


_TO_HUGGING_FACE = {family: _names(family) for family in _RENAMED}
_FROM_HUGGING_FACE = {
    theirs: ours
    for names in _TO_HUGGING_FACE.values()
    for ours, theirs in names.items()
}

_OLD_ENDINGS = {"gamma": "weight", "beta": "bias"}  # transformers before 1.0


# Beginnings of names that only models of one family have.
_FAMILY_NAMES = {
    "bert": ("bert.", "cls."),
    "roberta": ("roberta.", "lm_head."),
    "distilbert": ("distilbert.", "transformer.layer.", "vocab_"),
}


def family_of(names: Iterable[str]) -> str | None:
    """The family that has tensors of these names; None where several have:
    BertModel's and RobertaModel's are the same.

    Raises:
        InputError: some are of one family and some of another.
    """
    found = {
        family: name
        for name in names
        for family, beginnings in _FAMILY_NAMES.items()
        if name.startswith(beginnings)
    }
    if len(found) > 1:
        raise InputError(
            "the weights have names of several kinds of models: "
            + ", ".join(f"{name} of {kind}" for kind, name in found.items())
        )
    return next(iter(found), None)


def family_of_class(name: str) -> str | None:
    """The family of a class of transformers; None for any other name."""
    for family, prefix in CLASS_PREFIX.items():
        if re.match(f"{prefix}(Model|For|LMHead)", name):
            return family
    return None


def architecture_of(
    names: Collection[str], family: str, classifier: str = CLASSIFIER
) -> str:
    """The class of transformers that has these of Google's variables.

    Args:
        classifier: how its name ends where there is a head at the root.
    """
    absent = _ABSENT.get(family)
    for name in names:
        if absent and name.startswith(absent):
            raise InputError(
                f"the model has {name}, for which Hugging Face's {family} has "
                "no place; expected one that was trained without next sentences"
            )
    return CLASS_PREFIX[family] + _class_of(names, classifier)


def _class_of(names: Collection[str], classifier: str) -> str:
    has_masked_lm = "cls/predictions/output_bias" in names
    if "output_weights" in names:
        return classifier
    if "cls/squad/output_weights" in names:
        return "ForQuestionAnswering"
    if "cls/seq_relationship/output_weights" in names:
        return (
            "ForPreTraining" if has_masked_lm else "ForNextSentencePrediction"
        )
    return MASKED_LM if has_masked_lm else "Model"


def has_place(name: str, architecture: str) -> bool:
    """Whether that class has this of Google's variables: one for the masked
    language model alone has no pooler, and among DistilBERT's it is a part of
    the classifier."""
    if "/pooler/" not in name:
        return True
    if architecture.startswith("DistilBert"):
        return architecture.endswith((CLASSIFIER, CHOICE))
    return not architecture.endswith(MASKED_LM)


def hugging_face_name(name: str, family: str, architecture: str) -> str:
    """bert/encoder/layer_7/output/dense/kernel
    -> bert.encoder.layer.7.output.dense.weight"""
    number = re.search(r"layer_(\d+)/", name)
    rule = name.replace(number[0], "layer_#/") if number else name
    theirs = _TO_HUGGING_FACE[family][rule]
    if number:
        theirs = theirs.replace("#", number[1])
    if architecture.endswith("Model"):  # a bare one's names have no "bert."
        return theirs.removeprefix(f"{family}.")
    if architecture == f"Roberta{CLASSIFIER}":
        return theirs.replace(*_CLASSIFIER_DENSE)
    # These heads are as BERT's.
    if architecture in (f"Roberta{CHOICE}", f"Roberta{TAGGER}"):
        return theirs.replace("classifier.out_proj", "classifier")
    return theirs


def google_name(name: str) -> str | None:
    """The other way; None for a tensor that Google's models have not.

    "bert." may be absent, as a bare BertModel's file has it; so may
    "distilbert.".
    """
    root, _, ending = name.rpartition(".")
    if root.endswith("LayerNorm") and ending in _OLD_ENDINGS:
        name = f"{root}.{_OLD_ENDINGS[ending]}"
    if name.startswith(("embeddings.", "encoder.", "pooler.")):
        name = f"bert.{name}"
    name = re.sub(r"^transformer\.", "distilbert.transformer.", name)
    name = re.sub(r"^classifier\.dense\.", "roberta.pooler.dense.", name)
    rule = re.sub(r"\.layer\.\d+\.", ".layer.#.", name)
    if rule not in _FROM_HUGGING_FACE:
        return None
    numbers = re.findall(r"\.layer\.(\d+)\.", name)
    return _FROM_HUGGING_FACE[rule].replace("#", "".join(numbers))
