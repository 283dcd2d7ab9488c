"""Hugging Face's model folders, read and written.

Files: config.json, model.safetensors (or several, with an index), a vocabulary
and tokenizer_config.json. The safetensors library reads; a pickle is never
opened. hugging_face_names.py says what is called how.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import ml_dtypes  # noqa: F401 (gives NumPy the dtype bfloat16)
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from bert_keras import files
from bert_keras.errors import InputError
from bert_keras.modeling.hugging_face_names import (
    CLASSIFIER,
    FAMILIES,
    MODERN,
    architecture_of,
    family_of,
    family_of_class,
    google_name,
    has_place,
    hugging_face_name,
    is_unread,
    tied_to,
)

if TYPE_CHECKING:
    from bert_keras.modeling.checkpoint import VariableMapping
    from bert_keras.modeling.config import BertConfig

# Google's folder and Hugging Face's.
CONFIG = "bert_config.json"
HUGGING_FACE_CONFIG = "config.json"
SAFETENSORS = ".safetensors"
WEIGHTS = f"model{SAFETENSORS}"
INDEX = f"{WEIGHTS}.index.json"  # which tensor is in which of several files

# What transformers calls the layers of a ModernBERT.
_FULL, _NEAR = "full_attention", "sliding_attention"
_BUFFERS = ("position_ids", "token_type_ids")  # 0, 1, 2 ... and zeros

# gelu_new, gelu_pytorch_tanh and gelu_fast are one function, of which the
# second is one operation of torch's instead of eight.
_SAME = {name: name for name in ("relu", "tanh", "linear")}
FROM_HUGGING_FACE = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    **_SAME,
}
TO_HUGGING_FACE = {
    "gelu": "gelu_pytorch_tanh",
    "gelu_tanh": "gelu_pytorch_tanh",
    "gelu_erf": "gelu",
    **_SAME,
}

# Any of these keys tells its config.json from Google's bert_config.json.
_TELLING = {"model_type", "architectures", "transformers_version"}
# Keys that change what a model of any family computes, and the values under
# which they do not: quantised weights, heads that were removed, layers that
# differ from each other, code that is not transformers'.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (False, None),
    "quantization_config": (None,),
    "pruned_heads": ({}, None),
    "rope_scaling": (None,),
    "per_layer_config": ({}, None),
    "auto_map": ({}, None),
}
# Keys that change only training, or nothing here; kept for the way back.
_KEPT = (
    "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id",
    "classifier_dropout", "qa_dropout", "seq_classif_dropout",
)  # fmt: skip


def is_hugging_face(path: str) -> bool:
    """Whether `path` means safetensors.

    A folder that has Google's checkpoint too means that one.
    """
    if not files.is_dir(path):
        return path.endswith((SAFETENSORS, INDEX))
    names = files.names_in(path)
    return (WEIGHTS in names or INDEX in names) and not any(
        name.endswith(".ckpt.index") for name in names
    )


class Safetensors:
    """The tensors of a folder or a file, by Google's names where it has one.

    Opening reads the headers; `read` copies one tensor.
    """

    def __init__(self, path: str):
        """Raises InputError where a file is missing or damaged."""
        if "://" in path:
            raise InputError(
                f"{path} is not on this machine: safetensors are read from "
                "local disks only; copy the folder and name the copy"
            )
        if os.path.isdir(path):
            whole = os.path.join(path, WEIGHTS)
            index = os.path.join(path, INDEX)
            path = whole if os.path.exists(whole) else index
        self.source = path
        self._places: dict[str, tuple[Any, str]] = {}  # file, name in it
        self._tied: dict[str, tuple[Any, str]] = {}  # by Google's name
        found = [
            (file, name)
            for file in _open(path)
            for name in file.keys()  # noqa: SIM118 (it is not a dictionary)
        ]
        self.names = [name for _, name in found]  # Hugging Face's, of all
        self.family = family_of(self.names)
        architecture = ""
        if self.family == "modernbert":  # all its classes have one classifier
            values = files.json_beside(path, HUGGING_FACE_CONFIG)
            architecture = class_of(values)
        for file, name in found:
            if name.endswith(_BUFFERS) or is_unread(name, self.names):
                continue
            tied = tied_to(name, self.family)
            places = self._tied if tied else self._places
            found_name = google_name(name, self.family, architecture)
            google = tied or found_name or name
            if google != name and google in places:
                own, first = self._array(file, name), places[google]
                if not np.array_equal(own, self._array(*first)):
                    raise InputError(
                        f"{path} holds {google} twice, as {first[1]} and "
                        f"{name}, with other numbers; remove the one that is "
                        "not the model's"
                    )
            places[google] = file, name
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


def _open(path: str) -> list[Any]:
    """Opens a .safetensors file, or each that an index names."""
    paths = [path]
    files.refuse_stream(path)
    try:
        if path.endswith(INDEX):
            listed = files.read_json(path)["weight_map"]
            names = sorted(set(listed.values()))
            if not names:
                raise ValueError("it names no file")
            for name in names:
                if os.path.basename(name) != name:
                    raise ValueError(
                        f"it names {name!r}, which is not in its folder"
                    )
            folder = os.path.dirname(path)
            paths = [os.path.join(folder, name) for name in names]
        opened = []
        for path in paths:
            files.refuse_stream(path)
            opened.append(safe_open(path, framework="np"))
        return opened
    except (
        OSError, ValueError, TypeError, LookupError, AttributeError,
        SafetensorError,
    ) as error:  # fmt: skip
        raise InputError(
            f"{path} cannot be read ({error}); expected whole safetensors"
        ) from error


def from_hugging_face(
    values: dict[str, Any], path: str, fields: Collection[str]
) -> dict[str, Any]:
    """The values of a config.json as a bert_config.json has them; those of a
    bert_config.json as they are.

    Args:
        path: of the file. Beside tensors a config.json is Hugging Face's, and
            they tell its family if it does not.
        fields: of BertConfig, which are kept.

    Raises:
        InputError: it is Hugging Face's, and of no such encoder.
    """
    folder = os.path.dirname(path) or "."
    if not _TELLING & values.keys():
        is_named = os.path.basename(path) == HUGGING_FACE_CONFIG
        if not (is_named and _tensor_names(folder)):
            return values
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
    if kind == "modernbert":
        values = _with_rotations(values)
    names = family.names.items()
    values = {
        **family.defaults,
        **family.fixed,
        **{k: v for k, v in values.items() if k not in family.unread},
        **{ours: values[theirs] for ours, theirs in names if theirs in values},
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
        and (kind == "modernbert" or k not in MODERN)
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


def _with_rotations(values: Mapping[str, Any]) -> dict[str, Any]:
    """A ModernBERT's values by the names of its first release, from those that
    transformers 5 has for the kinds of its layers and their rotations."""

    def refuse(name: str, value: Any, expected: str) -> None:
        raise InputError(
            f"the Hugging Face model has {name} = {value!r}; expected "
            f"{expected}"
        )

    values = dict(values)
    kinds = values.get("layer_types")
    if kinds is not None:
        number = values.get("num_hidden_layers", 22)
        every = values.get("global_attn_every_n_layers")
        if every is None:  # the first is global, and the next from there
            later = kinds[1:] if isinstance(kinds, list) else []
            every = (*later, _FULL).index(_FULL) + 1
        values["global_attn_every_n_layers"] = every
        if type(every) is int and every > 0 and type(number) is int:
            expected = [_NEAR if i % every else _FULL for i in range(number)]
            if kinds != expected:
                refuse("layer_types", kinds, f"a list with {_FULL} first")
    window = values.pop("sliding_window", None)
    both = values.get("local_attention", 128)
    if window is not None and type(both) is int and window != both // 2:
        refuse("sliding_window", window, "half of local_attention")
    rotations = values.get("rope_parameters") or {}
    kinds = {_FULL, _NEAR}
    if not (isinstance(rotations, dict) and kinds >= rotations.keys()):
        refuse("rope_parameters", rotations, f"those of {_FULL} and {_NEAR}")
    for kind, name in (
        (_FULL, "global_rope_theta"), (_NEAR, "local_rope_theta"),
    ):  # fmt: skip
        rotation = rotations.get(kind) or {}
        is_plain = isinstance(rotation, dict) and (
            rotation.keys() <= {"rope_type", "rope_theta"}
            and rotation.get("rope_type", "default") == "default"
        )
        if not is_plain:
            refuse("rope_parameters", rotation, "a rope_theta alone")
        theta = rotation.get("rope_theta", values.get(name))
        if theta is not None:
            is_whole = isinstance(theta, float) and theta.is_integer()
            values[name] = int(theta) if is_whole else theta
    return values


def _model_type(values: Mapping[str, Any], folder: str) -> Any:
    """The model_type of the file, else that of its architectures, else that of
    the names of the tensors beside it."""
    if values.get("model_type") is not None:
        return values["model_type"]
    if name := class_of(values):
        found = family_of_class(name)
        reason = f"its architectures are {name!r}"
    else:
        tensors = _tensor_names(folder)
        found = family_of(tensors) if tensors else "bert"
        reason = "several have weights with these names"
    if found is None:
        raise InputError(
            f"the Hugging Face model has no model_type, and {reason}; add "
            f'"model_type" to it, one of {", ".join(FAMILIES)}'
        )
    return found


def class_of(values: Mapping[str, Any]) -> str:
    """transformers' class in a config.json; "" where it does not say."""
    names = values.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def _tensor_names(folder: str) -> list[str]:
    """The names of all tensors in a folder; [] without any."""
    found = (os.path.exists(f"{folder}/{name}") for name in (WEIGHTS, INDEX))
    return Safetensors(folder).names if any(found) else []


def _check_fixed(values: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    for key, only in fixed.items():
        if values[key] != only:
            raise InputError(
                f"the Hugging Face model has {key} = {values[key]!r}; the one "
                f"supported value is {only!r}"
            )


def to_hugging_face(config: "BertConfig") -> dict[str, Any]:
    """The values of a config.json, without those that depend on the head.

    Raises:
        InputError: the family there has no such model.
    """
    values = config.to_dict()
    direction = values.pop("direction")
    if direction != "bidirectional":
        raise InputError(
            f"the config has direction = {direction}, for which Hugging Face's "
            "encoders have no setting"
        )
    family = FAMILIES[config.family]
    del values["pad_token_id"]
    values["hidden_act"] = TO_HUGGING_FACE[config.hidden_act]
    values["max_position_embeddings"] += config.position_offset
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
        "pad_token_id": config.padding_id,
    }


def save_hugging_face_folder(
    folder: str,
    config: "BertConfig",
    variables: Sequence["VariableMapping"],
    vocab_file: str | None,
    labels: Sequence[str] = (),
    problem_type: str | None = None,
    classifier: str = CLASSIFIER,
    tokenizer_files: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Writes what transformers' AutoModel and AutoTokenizer load.

    config.json, model.safetensors, the vocabulary's files, `tokenizer_files`.

    Args:
        variables: an encoder's and its heads'; which heads there are says
            which class of transformers the folder is for.
        labels: of a classifier's outputs; () for none known.
        problem_type: of a classifier, by transformers' names:
            single_label_classification, multi_label_classification, regression.
        classifier: CLASSIFIER, CHOICE or TAGGER of hugging_face_names.py:
            what a head at the root is for.
        tokenizer_files: texts of the tokenizer's other files, by name.
    """
    import tensorflow as tf

    tf.io.gfile.makedirs(folder)
    shapes = {variable.name: variable.shape for variable in variables}
    architecture = architecture_of(shapes, config.family, classifier)
    tensors = _tensors(variables, config.family, architecture)
    files.write_whole(
        os.path.join(folder, WEIGHTS), save(tensors, {"format": "pt"})
    )
    values = {**to_hugging_face(config), "architectures": [architecture]}
    if "output_bias" in shapes:
        num_classes = shapes["output_bias"][0]
        if labels and len(labels) != num_classes:
            raise InputError(
                f"the classifier has {num_classes} outputs and {len(labels)} "
                f"labels, {', '.join(labels)}; expected as many"
            )
        labels = labels or [f"LABEL_{i}" for i in range(num_classes)]
        values["id2label"] = {str(i): name for i, name in enumerate(labels)}
        values["label2id"] = {name: i for i, name in enumerate(labels)}
        values["problem_type"] = problem_type
    files.write_json(os.path.join(folder, HUGGING_FACE_CONFIG), values)
    if vocab_file is not None:
        files.copy_vocabulary(vocab_file, folder)
    for name, text in tokenizer_files.items():
        files.write_whole(os.path.join(folder, name), text.encode())


def _tensors(
    variables: Sequence["VariableMapping"], family: str, architecture: str
) -> dict[str, np.ndarray]:
    """The variables that a class of transformers has, by its names. All are in
    memory at once, as the library asks for."""
    tensors = {}
    for variable in variables:
        if has_place(variable.name, architecture):
            value = variable.read()
            if variable.name.endswith("/kernel"):
                value = value.T
            name = hugging_face_name(variable.name, family, architecture)
            tensors[name] = np.ascontiguousarray(value, np.float32)
    return tensors
