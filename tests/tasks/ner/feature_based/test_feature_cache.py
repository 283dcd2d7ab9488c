"""Vectors of words on disk: used again, gone on with, made anew."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bert_keras.data.input_features import InputFeatures
from bert_keras.tasks.features import FeatureExtractor
from bert_keras.tasks.ner.feature_based import feature_cache
from bert_keras.tasks.ner.feature_based.feature_cache import cached, digest_of
from tests.conftest import TINY

LENGTHS = [3, 1, 4, 2, 5]
VECTORS = np.arange(15 * 2 * 3, dtype=np.float32).reshape(15, 2, 3)


class Texts:
    """Computes, and remembers of which texts."""

    def __init__(self, stop: int = len(LENGTHS)):
        self.stop = stop
        self.seen: list[int] = []

    def __call__(self, first: int) -> Iterator[np.ndarray]:
        ends = np.cumsum(LENGTHS)
        for i in range(first, len(LENGTHS)):
            if i == self.stop:
                raise KeyboardInterrupt
            self.seen.append(i)
            yield VECTORS[ends[i] - LENGTHS[i] : ends[i]]


def test_vectors_are_computed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "features" / "train.npy")
    texts = Texts()
    for _ in range(2):
        found = cached(path, "one", LENGTHS, (2, 3), texts)
        assert isinstance(found, np.memmap)
        np.testing.assert_array_equal(found, VECTORS)
    assert texts.seen == [0, 1, 2, 3, 4]
    assert f"{path} is used again" in capsys.readouterr().out
    link = str(tmp_path / "link.npy")
    os.link(path, link)
    cached(path, "another", LENGTHS, (2, 3), texts)
    assert texts.seen == 2 * [0, 1, 2, 3, 4]
    assert not os.path.samefile(path, link)  # whose vectors are as they were


def test_a_stopped_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_cache, "TEXTS_AT_ONCE", 2)
    path = tmp_path / "train.npy"
    with pytest.raises(KeyboardInterrupt):
        cached(str(path), "one", LENGTHS, (2, 3), Texts(stop=3))
    index = json.loads((tmp_path / "train.json").read_text())
    assert index == {"digest": "one", "texts": 2}
    texts = Texts()
    found = cached(str(path), "one", LENGTHS, (2, 3), texts)
    assert texts.seen == [2, 3, 4]
    np.testing.assert_array_equal(found, VECTORS)
    # What an interrupted run of others has begun is nobody's.
    with pytest.raises(KeyboardInterrupt):
        cached(str(path), "another", LENGTHS, (2, 3), Texts(stop=1))
    assert not (tmp_path / "train.json").exists()
    texts = Texts()
    cached(str(path), "one", LENGTHS, (2, 3), texts)
    assert texts.seen == [0, 1, 2, 3, 4]


def test_what_was_begun_behind_a_link_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_cache, "TEXTS_AT_ONCE", 2)
    mine, own = tmp_path / "mine", tmp_path / "own"
    with pytest.raises(KeyboardInterrupt):
        cached(str(mine / "x.npy"), "one", LENGTHS, (2, 3), Texts(stop=3))
    begun = (mine / "x.npy").read_bytes()
    own.mkdir()
    for name in ("x.npy", "x.json"):
        (own / name).symlink_to(mine / name)
    (own / "y.npy").symlink_to(mine / "y.npy")  # which leads to nothing
    for name in ("x.npy", "y.npy"):
        found = cached(str(own / name), "one", LENGTHS, (2, 3), Texts())
        np.testing.assert_array_equal(found, VECTORS)
    assert (mine / "x.npy").read_bytes() == begun
    assert not (mine / "y.npy").exists()


def test_a_file_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "train.npy"
    cached(str(path), "one", LENGTHS, (2, 3), Texts())
    path.write_bytes(path.read_bytes()[:200])
    texts = Texts()
    found = cached(str(path), "one", LENGTHS, (2, 3), texts)
    assert texts.seen == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(found, VECTORS)


def test_the_digest_tells_weights_words_and_settings_apart() -> None:
    mappings = FeatureExtractor(TINY, [-1]).mappings()
    rows = [InputFeatures([5, 6], [0, 0], [1]), InputFeatures([7], [0], [0])]
    others = [
        [InputFeatures([5, 6], [0, 0], [0]), rows[1]],
        [InputFeatures([5], [0], [1]), InputFeatures([6, 7], [0, 0], [0])],
    ]
    digests = {digest_of(mappings, rows, "last")}
    digests |= {digest_of(mappings, own, "last") for own in others}
    digests.add(digest_of(mappings, rows, "embeddings"))
    assert digest_of(mappings, rows, "last") in digests
    variables = {b.name: b.variable for b in mappings}
    for name, count in (
        ("bert/pooler/dense/bias", 4),  # no vector follows from it
        ("bert/encoder/layer_2/output/dense/bias", 5),
    ):
        variables[name].assign(variables[name].numpy() + 1.0)
        digests.add(digest_of(mappings, rows, "last"))
        assert len(digests) == count
