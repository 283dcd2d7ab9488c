"""What a sentence-transformers folder says about one vector for a text.

Its modules.json lists what follows the encoder, and 1_Pooling/config.json how
the tokens' vectors become one. Names: sentence-transformers 6.2,
sentence_transformers/sentence_transformer/modules/pooling.py.
"""

import os
from typing import Any, NamedTuple

import numpy as np

from bert_keras.errors import InputError, say_once
from bert_keras.files import (
    beside,
    content,
    copy_beside,
    json_beside,
    parse_json,
    refuse_stream,
)

POOLINGS = ("cls", "mean", "max")
MODULES, POOLING = "modules.json", "1_Pooling/config.json"
SETTINGS = "config_sentence_transformers.json", "sentence_bert_config.json"
MODES = {  # keys of 1_Pooling/config.json -> names
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


class SentencePooling(NamedTuple):
    pooling: str  # one of POOLINGS
    normalizes: bool = False  # to length 1
    max_length: int | None = None  # tokens of a text; None: the model's own

    def vector(self, x: np.ndarray) -> np.ndarray:
        """[T, H] -> [H]: the first token's vector, or all tokens' mean or
        maximum. [CLS] and [SEP] are among them, as in sentence-transformers."""
        if self.pooling == "cls":
            pooled = x[0]
        else:
            pooled = x.mean(0) if self.pooling == "mean" else x.max(0)
        if not self.normalizes:
            return pooled
        return pooled / np.maximum(np.linalg.norm(pooled), 1e-12)


def pooling_file(model: str) -> str | None:
    """The file that says how to pool, beside the weights that `model` names."""
    return beside(model, [MODULES, POOLING])


def copy_pooling(model: str, folder: str) -> None:
    """Copies what `model`, a folder or weights in one, says of pooling."""
    copy_beside(model, [MODULES, POOLING, *SETTINGS], folder)


def read_sentence_pooling(path: str) -> SentencePooling:
    """Reads a modules.json, or a 1_Pooling/config.json alone.

    Raises:
        InputError: it describes a pooling that this project does not have.
    """
    if not path.endswith(MODULES):
        return SentencePooling(_read_mode(path))
    mode, normalizes = None, False
    try:
        modules = [
            (str(module["type"]).split(".")[-1], str(module["path"]))
            for module in _read_json(path)
        ]
    except (TypeError, LookupError) as error:
        raise InputError(f"{path} is not a list of modules") from error
    for place, (kind, folder) in enumerate(modules):
        follows = mode is not None
        if kind == "Pooling" and not follows:
            if folder != os.path.basename(folder):
                raise InputError(
                    f"{path} names {folder!r}, which is not in its folder; "
                    "give `pooling` to ignore this file"
                )
            name = os.path.join(os.path.dirname(path), folder, "config.json")
            mode = _read_mode(name)
        elif kind == "Normalize" and follows:
            normalizes = True
        elif kind != "Transformer" or place:
            raise InputError(
                f"{path} has the module {kind!r}, which is not supported; "
                "expected Transformer, Pooling and perhaps Normalize; give "
                "`pooling` to ignore this file"
            )
    if mode is None:
        raise InputError(f"{path} lists no Pooling; give `pooling`")
    _say_what_is_not_done(path)
    most = json_beside(path, SETTINGS[1]).get("max_seq_length")
    is_number = type(most) is int and most > len(("[CLS]", "[SEP]"))
    return SentencePooling(mode, normalizes, most if is_number else None)


def _say_what_is_not_done(path: str) -> None:
    """What sentence-transformers would do with the texts of this folder."""
    config, transformer = (json_beside(path, name) for name in SETTINGS)
    prompts, name = config.get("prompts"), config.get("default_prompt_name")
    if name and isinstance(prompts, dict) and prompts.get(str(name)):
        say_once(
            f"{path}: sentence-transformers puts {prompts[str(name)]!r} before "
            "each text; here you have to do so"
        )
    if transformer.get("do_lower_case"):
        say_once(
            f"{path}: sentence-transformers lowercases each text, as "
            f"{SETTINGS[1]} says; here you have to do so"
        )


def _read_mode(path: str) -> str:
    """Files of versions before 6 have true or false for each mode; later ones
    have names."""
    values = _read_json(path)
    if not isinstance(values, dict):
        raise InputError(f"{path} is not a JSON object")
    named = [MODES[key] for key in MODES if values.get(key)] or ["mean"]
    modes = values.get("pooling_mode", named)
    modes = modes if isinstance(modes, list) else [modes]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise InputError(
            f"{path} has the pooling {' and '.join(map(str, modes))}, which is "
            f"not supported; expected one of {', '.join(POOLINGS)}; give "
            "`pooling` to use another one"
        )
    return str(modes[0])


def _read_json(path: str) -> Any:
    refuse_stream(path)
    text = content(path)
    if text is None:
        raise InputError(f"{path} is missing; give `pooling`")
    try:
        return parse_json(text)
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error})") from error
