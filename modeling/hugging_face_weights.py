"""The weights of Hugging Face's models: safetensors, by Google's names.

Names: google-research/bert modeling.py and its run_*.py; transformers
modeling_bert.py, modeling_roberta.py and modeling_distilbert.py, as
`state_dict` lists them.
"""

import json
import math
import os
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes  # noqa: F401 (gives NumPy the dtype bfloat16)
import numpy as np
from safetensors import SafetensorError, safe_open

from bert_keras.errors import InputError

if TYPE_CHECKING:
    from bert_keras.modeling.checkpoint import VariableMapping

SAFETENSORS = ".safetensors"
WEIGHTS = f"model{SAFETENSORS}"
INDEX = f"{WEIGHTS}.index.json"  # which tensor is in which of several files

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


def _names(family: str) -> dict[str, str]:
    """Google's names to that family's, with # for a layer's number."""
    names = {}
    for part, endings in _PARTS:
        if part == _ABSENT.get(family):
            continue
        theirs = _RENAMED[family].get(part)
        if theirs is None:
            theirs = part.replace("/", ".").replace("layer_", "layer.")
            theirs = re.sub(r"^bert\.", f"{family}.", theirs)
        for ours, ending in endings:
            names[(part + ours).removeprefix("/")] = theirs + ending
    return names


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
    return CLASS_PREFIX[family] + head


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


def tensor_names(folder: str) -> list[str]:
    """The names of all tensors in a folder; [] without any."""
    if not any(
        os.path.exists(os.path.join(folder, name)) for name in (WEIGHTS, INDEX)
    ):
        return []
    files = open_files(weights_file(folder))
    return [name for file in files for name in file.keys()]  # noqa: SIM118


def weights_file(path: str) -> str:
    """The path itself, or the weights in a folder, or their index."""
    if "://" in path:
        raise InputError(
            f"{path} is not on this machine: safetensors are read from local "
            "disks only; copy the folder and name the copy"
        )
    if not os.path.isdir(path):
        return path
    whole = os.path.join(path, WEIGHTS)
    return whole if os.path.exists(whole) else os.path.join(path, INDEX)


def open_files(path: str) -> list[Any]:
    """Opens a .safetensors file, or each that an index names."""
    if not path.endswith(INDEX):
        return [_open(path)]
    try:
        with open(path, encoding="utf-8") as file:
            names = sorted(set(json.load(file)["weight_map"].values()))
        if not names:
            raise ValueError("it names no file")
        for name in names:
            if os.path.basename(name) != name:
                raise ValueError(
                    f"it names {name!r}, which is not in its folder"
                )
    except (
        OSError, ValueError, TypeError, LookupError, AttributeError,
        RecursionError,
    ) as error:  # fmt: skip
        raise _unreadable(path, error) from error
    folder = os.path.dirname(path)
    return [_open(os.path.join(folder, name)) for name in names]


def _open(path: str) -> Any:
    try:
        return safe_open(path, framework="np")
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> InputError:
    return InputError(
        f"{path} cannot be read ({error}); expected whole safetensors"
    )


# The output layer's second names, in files that have them: Google's names for
# what they must equal.
_TIED = {
    "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
    "lm_head.decoder.weight": "bert/embeddings/word_embeddings",
    "lm_head.decoder.bias": "cls/predictions/output_bias",
    "vocab_projector.weight": "bert/embeddings/word_embeddings",
}
_BUFFERS = ("position_ids", "token_type_ids")  # 0, 1, 2 ... and zeros


class Safetensors:
    """The tensors of a folder or a file, by Google's names where it has one.

    Opening reads the headers; `read` copies one tensor.
    """

    def __init__(self, path: str):
        """Raises InputError where a file is missing or damaged."""
        self.source = weights_file(path)
        self._places: dict[str, tuple[Any, str]] = {}  # file, name in it
        self._tied: dict[str, tuple[Any, str]] = {}  # by Google's name
        names = []
        for file in open_files(self.source):
            for name in file.keys():  # noqa: SIM118 (it is not a dictionary)
                names.append(name)
                if name in _TIED:
                    self._tied[_TIED[name]] = file, name
                elif not name.endswith(_BUFFERS):
                    self._places[google_name(name) or name] = file, name
        self.family = family_of(names)
        self._places = self._tied | self._places
        self.shapes: dict[str, tuple[int, ...]] = {}
        for google, (file, name) in self._places.items():
            shape = file.get_slice(name).get_shape()
            is_kernel = google.endswith("/kernel")
            self.shapes[google] = tuple(shape[::-1] if is_kernel else shape)

    def read(self, google: str) -> np.ndarray:
        """float32, with the axes of Google's variable."""
        value = self._array(*self._places[google])
        if google == "cls/predictions/output_bias":
            # Here, as in Google's code, the output layer is the word table.
            for tied, copy in self._tied.items():
                place = self._places[tied]
                if not np.array_equal(self._array(*copy), self._array(*place)):
                    raise InputError(
                        f"{self.source} has another {copy[1]} than "
                        f"{place[1]}; an output layer of its own is not "
                        "supported"
                    )
        return value.T if google.endswith("/kernel") else value

    def _array(self, file: Any, name: str) -> np.ndarray:
        dtype = file.get_slice(name).get_dtype()
        if dtype not in ("F64", "F32", "F16", "BF16"):
            raise InputError(
                f"{self.source} holds {name} as {dtype}; expected F32, F16 or "
                "BF16, so save the model again in one of these"
            )
        return file.get_tensor(name).astype(np.float32, copy=False)


def write_safetensors(
    path: str,
    variables: Sequence["VariableMapping"],
    family: str,
    architecture: str,
) -> None:
    """Writes those variables that a class of transformers has.

    One tensor at a time and in the model's order: the library's writer wants
    them all at once, and sorts them. The format: the header's length in 8
    bytes, the header, the tensors.
    """
    import tensorflow as tf

    variables = [v for v in variables if has_place(v.name, architecture)]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for variable in variables:
        begin, end = end, end + 4 * math.prod(variable.shape)
        is_kernel = variable.name.endswith("/kernel")
        header[hugging_face_name(variable.name, family, architecture)] = {
            "dtype": "F32",
            "shape": variable.shape[::-1] if is_kernel else variable.shape,
            "data_offsets": [begin, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8
    with tf.io.gfile.GFile(path + ".incomplete", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for variable in variables:
            value = variable.read()
            if variable.name.endswith("/kernel"):
                value = value.T
            file.write(np.ascontiguousarray(value, "<f4").tobytes())
    tf.io.gfile.rename(path + ".incomplete", path, overwrite=True)
