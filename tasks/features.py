"""A text's vectors at chosen layers: one a token, or one for all of it.

Texts longer than the model reads are read through overlapping windows, and
each token is taken from the window where it has most context. Upstream file:
extract_features.py; it cuts longer texts.

Shapes: B batch, S positions, T tokens of a text, L chosen layers, H hidden
size.
"""

import dataclasses
import functools
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops
from numpy.lib import format as npy

from bert_keras.data.input_features import (
    CHUNK_POSITIONS,
    InputFeatures,
    SomeDocument,
    build_inputs,
    make_features,
    max_context_window,
    run_documents,
    windows,
)
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import VariableMapping, encoder_mappings
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder
from bert_keras.training.inference import Predictor, predict

HELD_BYTES = 1 << 28  # of vectors: rows sorted by length wait for each other
EMBEDDINGS = None  # instead of a layer's number: what the first one reads
PAIR = re.compile(r"^(.*) \|\|\| (.*)$")  # upstream's


def place_of(name: str, number: int, count: int) -> int:
    """The place from 0 of a layer, or the like, counted from 0 or from -1, the
    last, downwards; an InputError if there is none."""
    if not -count <= number < count:
        raise InputError(
            f"the model has no {name} {number}; expected 0 to {count - 1}, or "
            f"-{count} to -1 from the end"
        )
    return number % count


class FeatureExtractor:
    """An encoder of which some layers are wanted.

    Args:
        layers: numbers from 0, or from -1, the last one, downwards; or
            EMBEDDINGS.
        encoder: one that is built; None: a new one.
    """

    def __init__(
        self,
        config: BertConfig,
        layers: Sequence[int | None],
        encoder: Encoder | None = None,
    ):
        for layer in layers:
            if layer is not None:
                place_of("layer", layer, config.num_hidden_layers)
        self.layers = layers
        self.encoder = encoder or Encoder(config)
        if encoder is None:
            self.encoder.build()

    def mappings(self) -> list[VariableMapping]:
        return encoder_mappings(self.encoder)

    def outputs_by_name(self, batch: dict[str, Any]) -> dict[str, Any]:
        """{"vectors": [B, S, L, H]}."""
        outputs = self.encoder(
            batch["input_ids"], batch["input_mask"], batch["segment_ids"]
        )
        chosen = [
            outputs.embeddings if layer is EMBEDDINGS else outputs.layers[layer]
            for layer in self.layers
        ]
        return {"vectors": ops.stack(chosen, axis=2)}


@dataclasses.dataclass(frozen=True)
class Document:
    """A text, or a pair, and the windows that the model reads it through."""

    tokens: list[str]  # [CLS] and [SEP] among them
    rows: list[InputFeatures]
    places: list[tuple[int, int]]  # of each token: its window, and where in it
    is_cut: bool = False  # whether the model reads only its beginning

    def vectors(self, outputs: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
        """The windows' [S, L, H] joined to [T, L, H]."""
        if len(self.rows) == 1:
            return outputs[0]["vectors"][: len(self.tokens)]
        return np.stack([outputs[w]["vectors"][i] for w, i in self.places])


def read_document(
    line: str, tokenizer: Tokenizer, max_length: int, stride: int = 0
) -> Document:
    """A line as upstream reads it: one text, or "a pair ||| of two".

    Args:
        max_length: of a window, in tokens.
        stride: tokens between the starts of two windows of a longer text; 0:
            it is cut. A pair that is longer is always cut.
    """
    pair = PAIR.match(line.strip())
    # A line's end is not text; byte-level vocabularies have a token for it.
    text, text_b = pair.groups() if pair else (line.rstrip("\r\n"), None)
    return make_document(text, text_b, tokenizer, max_length, stride)


def make_document(
    text: str,
    text_b: str | None,
    tokenizer: Tokenizer,
    max_length: int,
    stride: int = 0,
) -> Document:
    """One text, or a pair; other arguments are those of `read_document`."""
    enough = None if stride else max_length
    first = tokenizer.tokenize(text, enough)
    second = tokenizer.tokenize(text_b, enough) if text_b else []
    special_tokens = tokenizer.special_tokens
    room = max_length - special_tokens.count(bool(second))
    if second or not stride:
        tokens, segments = build_inputs(
            first, second or None, max_length, special_tokens
        )
        row = InputFeatures(tokenizer.convert_tokens_to_ids(tokens), segments)
        places = [(0, i) for i in range(len(tokens))]
        return Document(tokens, [row], places, len(first) + len(second) > room)
    spans = windows(len(first), room, stride)
    owners = enumerate(max_context_window(spans, len(first)))
    return Document(
        [special_tokens.start, *first, special_tokens.end],
        [
            make_features(
                first[span.start : span.stop], None, max_length, tokenizer
            )
            for span in spans
        ],
        [
            (0, 0),
            *((owner, 1 + i - spans[owner].start) for i, owner in owners),
            (len(spans) - 1, 1 + len(spans[-1])),
        ],
    )


def to_json(
    number: int, tokens: Sequence[str], layers: Sequence[int], x: np.ndarray
) -> str:
    """Upstream's line for a text.

    Args:
        number: the line's, from 0; its name "linex_index" is upstream's.
        x: [T, L, H].
    """
    rounded = np.round(x.astype(np.float64), 6).tolist()
    features = [
        {
            "token": token,
            "layers": [
                {"index": layer, "values": values}
                for layer, values in zip(layers, vectors, strict=True)
            ],
        }
        for token, vectors in zip(tokens, rounded, strict=True)
    ]
    return json.dumps({"linex_index": number, "features": features})


def encode_documents(
    predictor: Predictor,
    documents: Iterable[SomeDocument],
    batch_size: int,
    max_length: int,
    shape: tuple[int, ...],
) -> Iterator[tuple[SomeDocument, list[Any]]]:
    """Yields each document with the outputs of its rows, in order.

    Args:
        batch_size: rows of `max_length` at once; of shorter ones more.
        max_length: of a row, in tokens.
        shape: of what is computed of a token, in float32.

    Raises:
        InputError: the vectors of a document are not finite.
    """
    held_positions = max(1, HELD_BYTES // (4 * math.prod(shape)))
    results = run_documents(
        documents,
        functools.partial(predict, predictor),
        batch_size,
        max_length,
        predictor.shapes_are_cheap,
        min(CHUNK_POSITIONS, held_positions),
    )
    for number, (document, rows) in enumerate(results, 1):
        if not all(np.isfinite(row["vectors"]).all() for row in rows):
            raise InputError(
                f"text {number}: its vectors are not finite; are the weights "
                "whole?"
            )
        yield document, rows


def npy_header(shape: tuple[int, ...]) -> bytes:
    """What a .npy of little-endian float32 begins with."""
    header = io.BytesIO()
    values = {"descr": "<f4", "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(header, values)
    return header.getvalue()
