"""Tests of tasks/encode_documents.py."""

import io
from collections.abc import Iterator

import numpy as np
import pytest

from bert_keras.data.tokenization import FullTokenizer
from bert_keras.tasks.encode_documents import encode, npy_header
from bert_keras.tasks.features import Document, FeatureExtractor, read_document
from bert_keras.training.inference import Predictor
from tests.conftest import GOLDEN, TINY

TOKENIZER = FullTokenizer(str(GOLDEN / "tiny_vocab.txt"))


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    num_read = 0

    def documents() -> Iterator[Document]:
        nonlocal num_read
        for _ in range(50):
            num_read += 1
            yield read_document("the sea", TOKENIZER, 16)

    # 64 positions: four rows of 16, though of four pieces each.
    position_bytes = 4 * 2 * TINY.hidden_size
    monkeypatch.setattr(
        "bert_keras.tasks.encode_documents.HELD_BYTES", 64 * position_bytes
    )
    predictor = Predictor(FeatureExtractor(TINY, [-1, 0]).forward)
    results = encode(predictor, documents(), 32, 16, (2, TINY.hidden_size))
    next(results)
    assert num_read == 8, "a chunk is answered when the next has begun"
    assert sum(1 for _ in results) == 49


def test_a_npy_has_its_header() -> None:
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    file = io.BytesIO(npy_header((2, 3)) + values.tobytes())
    assert np.array_equal(np.load(file), values)
