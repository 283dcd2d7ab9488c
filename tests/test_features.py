"""Tests of tasks/features.py."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import GOLDEN, TINY

from data.rows import length_batches, run_documents
from data.tokenization import FullTokenizer
from input_error import InputError
from tasks.features import (
    FeatureExtractor,
    folder_pooling,
    pool,
    read_document,
    to_json,
)
from training.inference import Predictor, predict

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


def test_vectors_are_those_of_their_windows() -> None:
    extractor = FeatureExtractor(TINY, [-1, 0])
    documents = [read_document(LINE, TOKENIZER, 6, stride) for stride in (2, 0)]
    predictor = Predictor(extractor.forward)
    results = run_documents(
        documents, lambda rows: predict(predictor, length_batches(rows, 2, 16))
    )
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
    with pytest.raises(InputError, match="no layer 3; the model has 3: 0 to 2"):
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


def test_the_pooling_of_sentence_transformers(tmp_path: Path) -> None:
    assert folder_pooling(str(tmp_path)) == "mean"
    (tmp_path / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{name}": False for name in (
        "cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens",
    )}  # fmt: skip
    path = tmp_path / "1_Pooling" / "config.json"
    for chosen, expected in (("cls_token", "cls"), ("max_tokens", "max")):
        values = modes | {f"pooling_mode_{chosen}": True}
        path.write_text(json.dumps(values | {"word_embedding_dimension": 12}))
        for named in ("", "/model.safetensors"):
            assert folder_pooling(str(tmp_path) + named) == expected
    for wrong, sentence in (
        (
            {"pooling_mode_mean_sqrt_len_tokens": True},
            "says .*sqrt_len_tokens;",
        ),
        (
            dict.fromkeys(modes, True),
            "says pooling_mode_cls_token, pooling_mode",
        ),
        ({}, "says no pooling_mode; expected one of .* or give --pooling"),
        (7, "cannot be read"),
    ):
        path.write_text(json.dumps(wrong))
        with pytest.raises(InputError, match=sentence):
            folder_pooling(str(tmp_path))


def test_pooling() -> None:
    x = np.array([[1.0, 5.0], [3.0, 1.0]])
    assert pool(x, "cls").tolist() == [1, 5]
    assert pool(x, "mean").tolist() == [2, 3]
    assert pool(x, "max").tolist() == [3, 5]
