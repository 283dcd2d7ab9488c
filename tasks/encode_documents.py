"""A frozen encoder's vectors for documents of any number of windows."""

import io
import math
from collections.abc import Iterable, Iterator
from typing import Any

from numpy.lib import format as npy

from bert_keras.data.input_features import (
    CHUNK_POSITIONS,
    SomeDocument,
    bucket_by_length,
    run_documents,
)
from bert_keras.training.inference import Predictor, predict

HELD_BYTES = 1 << 28  # of vectors: rows sorted by length wait for each other


def encode(
    predictor: Predictor,
    documents: Iterable[SomeDocument],
    batch_size: int,
    max_length: int,
    shape: tuple[int, ...],
) -> Iterator[tuple[SomeDocument, list[Any]]]:
    """Yields each document with the outputs of its rows, in order.

    Args:
        batch_size: rows of `max_length` at once; of shorter ones more.
        max_length: of a row, in pieces.
        shape: of what is computed of a piece, in float32.
    """
    held_positions = max(1, HELD_BYTES // (4 * math.prod(shape)))
    return run_documents(
        documents,
        lambda rows: predict(
            predictor,
            bucket_by_length(
                rows,
                batch_size,
                max_length,
                predictor.shapes_are_cheap,
                min(CHUNK_POSITIONS, held_positions),
            ),
        ),
    )


def npy_header(shape: tuple[int, ...]) -> bytes:
    """What a .npy of little-endian float32 begins with."""
    header = io.BytesIO()
    values = {"descr": "<f4", "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(header, values)
    return header.getvalue()
