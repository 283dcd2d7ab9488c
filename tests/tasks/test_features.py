"""Tests of tasks/features.py."""

import functools
import io
import json
from collections.abc import Iterator

import numpy as np
import pytest

from bert_keras.data.bpe import load_byte_level
from bert_keras.data.input_features import run_documents
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.errors import InputError
from bert_keras.tasks.features import (
    Document,
    FeatureExtractor,
    encode_documents,
    npy_header,
    read_document,
    to_json,
)
from bert_keras.training.inference import Predictor, predict
from tests.conftest import GOLDEN, TINY

TOKENIZER = FullTokenizer(str(GOLDEN / "tiny_vocab.txt"))
LINE = "the old captain saw the sea . a storm blew"  # ten pieces


def test_a_line_is_one_text_or_a_pair() -> None:
    document = read_document("The sea ||| the wind.\n", TOKENIZER, 16)
    tokens = "[CLS] the sea [SEP] the wind . [SEP]".split()
    assert document.tokens == tokens
    assert document.rows[0].segment_ids == [0, 0, 0, 0, 1, 1, 1, 1]
    assert document.places == [(0, i) for i in range(8)]
    empty = read_document("\n", TOKENIZER, 16)
    assert empty.tokens == ["[CLS]", "[SEP]"]


def test_without_a_stride_a_line_is_cut() -> None:
    (row,) = read_document(LINE, TOKENIZER, 6).rows
    assert TOKENIZER.convert_ids_to_tokens(row.input_ids) == [
        *"[CLS] the old captain saw [SEP]".split()
    ]


def test_a_line_without_its_end_is_the_text() -> None:
    """Ids as transformers has them for "the sea", a space before it or not."""
    tokenizer = load_byte_level(str(GOLDEN / "byte_level" / "vocab.json"))
    for line, ids in (
        ("the sea\n", [0, 266, 285, 2]),  # <s> the \u0120sea </s>
        (" the sea\r\n", [0, 273, 285, 2]),  # \u0120the
        ("the sea ||| a ship\n", [0, 266, 285, 2, 2, 68, 296, 2]),
    ):
        (row,) = read_document(line, tokenizer, 16).rows
        assert row.input_ids == ids
        if "|||" not in line:
            (row,) = read_document(line, tokenizer, 16, stride=2).rows
            assert row.input_ids == ids


def test_what_is_cut_is_known() -> None:
    def is_cut(line: str, length: int, stride: int = 0) -> bool:
        return read_document(line, TOKENIZER, length, stride).is_cut

    assert is_cut(LINE, 11) and not is_cut(LINE, 12)  # with [CLS] and [SEP]
    assert not is_cut(LINE, 11, stride=2)
    pair = "the sea ||| the wind."  # two pieces and three
    assert is_cut(pair, 7) and is_cut(pair, 7, stride=2)
    assert not is_cut(pair, 8)


def test_windows_take_each_token_where_it_has_most_context() -> None:
    """Ten pieces, four a window, two apart: 0-3, 2-5, 4-7, 6-9."""
    document = read_document(LINE, TOKENIZER, 6, 2)
    assert document.tokens == ["[CLS]", *LINE.split(), "[SEP]"]
    assert [
        " ".join(TOKENIZER.convert_ids_to_tokens(row.input_ids))
        for row in document.rows
    ] == [
        "[CLS] the old captain saw [SEP]",
        "[CLS] captain saw the sea [SEP]",
        "[CLS] the sea . a [SEP]",
        "[CLS] . a storm blew [SEP]",
    ]
    assert [window for window, _ in document.places] == [
        *[0, 0, 0, 0],  # [CLS] the old captain
        *[1, 1, 2, 2, 3, 3],  # saw the | sea . | a storm
        *[3, 3],  # blew [SEP]
    ]
    ids = [document.rows[window].input_ids[i] for window, i in document.places]
    assert TOKENIZER.convert_ids_to_tokens(ids) == document.tokens


@pytest.mark.slow
def test_vectors_are_those_of_their_windows() -> None:
    extractor = FeatureExtractor(TINY, [-1, 0])
    documents = [read_document(LINE, TOKENIZER, 6, stride) for stride in (2, 0)]
    predictor = Predictor(extractor.outputs_by_name)
    run = functools.partial(predict, predictor)
    results = run_documents(documents, run, 2, 16)
    for document, outputs in results:
        vectors = document.vectors(outputs)
        assert vectors.shape == (len(document.tokens), 2, TINY.hidden_size)
        for (window, place), vector in zip(
            document.places, vectors, strict=True
        ):
            ids = np.array([document.rows[window].input_ids])
            alone = extractor.encoder(
                ids, np.ones_like(ids), np.zeros_like(ids)
            )
            for layer, values in zip((-1, 0), vector, strict=True):
                expected = np.array(alone.layers[layer])[0, place]
                np.testing.assert_allclose(values, expected, atol=1e-5)


def test_a_layer_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no layer 3; expected 0 to 2"):
        FeatureExtractor(TINY, [-3, 3])


def test_numbers_are_rounded_as_python_does() -> None:
    x = np.random.default_rng(0).normal(size=[7, 2, 499]).astype(np.float32)
    x[0, 0, :3] = 0.5 / 2**20, -1e-9, 2.0**-21  # -0.0 and exact ties
    line = to_json(3, list("abcdefg"), [-1, 2], x)
    assert json.loads(line)["linex_index"] == 3
    expected = [
        {
            "token": token,
            "layers": [
                {"index": index, "values": [round(float(v), 6) for v in values]}
                for index, values in zip((-1, 2), vectors, strict=True)
            ],
        }
        for token, vectors in zip("abcdefg", x, strict=True)
    ]
    assert line == json.dumps({"linex_index": 3, "features": expected})


@pytest.mark.slow
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
        "bert_keras.tasks.features.HELD_BYTES", 64 * position_bytes
    )
    predictor = Predictor(FeatureExtractor(TINY, [-1, 0]).outputs_by_name)
    results = encode_documents(
        predictor, documents(), 32, 16, (2, TINY.hidden_size)
    )
    next(results)
    assert num_read == 8, "a chunk is answered when the next has begun"
    assert sum(1 for _ in results) == 49


def test_a_npy_has_its_header() -> None:
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    file = io.BytesIO(npy_header((2, 3)) + values.tobytes())
    assert np.array_equal(np.load(file), values)
