"""What Google calls a variable and what Hugging Face calls it.

Names: google-research/bert modeling.py and its run_*.py; transformers
modeling_bert.py, as `state_dict` lists them.
"""

import re

# How one part's variables end: Google's, Hugging Face's. A "/kernel" is also
# transposed: its rows are inputs in Google's and outputs in Hugging Face's.
_TABLE = (("", ".weight"),)
_DENSE = (("/kernel", ".weight"), ("/bias", ".bias"))
_NORM = (("/gamma", ".weight"), ("/beta", ".bias"))
_BIAS = (("/output_bias", ".bias"),)
_HEAD = (("/output_weights", ".weight"), *_BIAS)

# Google's parts; Hugging Face has a dot for each / and for the _ of layer_#,
# # being the layer's number, but for what _RENAMED says.
_LAYER = "bert/encoder/layer_#"
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
_RENAMED = {"cls/squad": "qa_outputs", "": "classifier"}
_TO_HUGGING_FACE = {
    (part + ours).removeprefix("/"): (
        _RENAMED[part]
        if part in _RENAMED
        else part.replace("/", ".").replace("layer_", "layer.")
    )
    + theirs
    for part, endings in _PARTS
    for ours, theirs in endings
}
_FROM_HUGGING_FACE = {v: k for k, v in _TO_HUGGING_FACE.items()}

_OLD_ENDINGS = {"gamma": "weight", "beta": "bias"}  # transformers before 1.0


def hugging_face_name(name: str) -> str:
    """bert/encoder/layer_7/output/dense/kernel
    -> bert.encoder.layer.7.output.dense.weight"""
    number = re.search(r"layer_(\d+)/", name)
    if number is None:
        return _TO_HUGGING_FACE[name]
    rule = name.replace(number[0], "layer_#/")
    return _TO_HUGGING_FACE[rule].replace("#", number[1])


def google_name(name: str) -> str | None:
    """The other way; None for a tensor that Google's models have not.

    "bert." may be absent, as a bare BertModel's file has it.
    """
    root, _, ending = name.rpartition(".")
    if root.endswith("LayerNorm") and ending in _OLD_ENDINGS:
        name = f"{root}.{_OLD_ENDINGS[ending]}"
    if name.startswith(("embeddings.", "encoder.", "pooler.")):
        name = f"bert.{name}"
    rule = re.sub(r"\.layer\.\d+\.", ".layer.#.", name)
    if rule not in _FROM_HUGGING_FACE:
        return None
    numbers = re.findall(r"\.layer\.(\d+)\.", name)
    return _FROM_HUGGING_FACE[rule].replace("#", "".join(numbers))
