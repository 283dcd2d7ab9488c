"""Tests of tasks/ner/feature_based/task.py that need no model."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.ner.feature_based.task import FeatureBasedNerTask


def test_outputs_that_overflow_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The vectors of the second sentence make the tagger overflow; those of
    padding do not count."""
    vectors = np.array([1, 1, 0, 1], np.float32).reshape(4, 1, 1)
    monkeypatch.setattr(
        FeatureBasedNerTask, "_vectors", lambda *_: (vectors, "")
    )
    sentences = [SimpleNamespace(words=["w"] * n) for n in (2, 1, 1)]

    def predictor(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with np.errstate(divide="ignore"):
            return {"logits": 1 / batch["vectors"][:, :, 0]}

    def logits(count: int) -> list[np.ndarray]:
        words: Any = SimpleNamespace(
            file=SimpleNamespace(sentences=sentences[:count])
        )
        model = SimpleNamespace(features=None)
        trainer: Any = SimpleNamespace(model=model, predictor=predictor)
        task = FeatureBasedNerTask.__new__(FeatureBasedNerTask)
        return task.logits(trainer, words, batch_size=2)

    assert [len(own) for own in logits(1)] == [2]
    with pytest.raises(InputError, match="numbers for text 2 overflow, so"):
        logits(3)
