"""Answers of a text classifier: a class, several, or a number."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.tasks.base import Outputs
from bert_keras.tasks.classification.data import InputExample, encode_example
from bert_keras.tasks.classification.model import TextClassifier, pool_windows
from bert_keras.tasks.keyword_settings import as_list
from bert_keras.tasks.pipeline import (
    BATCH_SIZE,
    Question,
    TaskPipeline,
)
from bert_keras.tasks.task_config import TaskConfig

Text = str | tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Classification:
    """One of the labels."""

    label: str
    probabilities: dict[str, float]  # of each label; their sum is 1

    @property
    def probability(self) -> float:
        return self.probabilities[self.label]


@dataclasses.dataclass(frozen=True)
class MultiLabelClassification:
    """Any of the labels: those that are likelier than not."""

    labels: list[str]
    probabilities: dict[str, float]  # of each label by itself


ANSWERS: dict[str, Callable[..., Any]] = {  # by target
    "single_label": Classification,
    "multi_label": MultiLabelClassification,
    "regression": lambda value: value,
}


class TextClassificationPipeline(TaskPipeline):
    """One text, or two with a tab between them: a class, several, a number."""

    model: TextClassifier
    model_class = TextClassifier
    needs_pooler = True
    method = "predict"

    def predict(
        self,
        texts: Text | Sequence[Text],
        batch_size: int = BATCH_SIZE,
        progress: bool = False,
    ) -> Any:
        """Classifies one text or pair, or several.

        Examples:
            >>> model = bert_keras.load("reviews")
            >>> answer = model.predict("The film was wonderful.")
            >>> answer.label, answer.probability > 0.9
            ('good', True)
            >>> texts = ["A boring plot.", "A wonderful plot."]
            >>> [answer.label for answer in model.predict(texts)]
            ['bad', 'good']

        Args:
            texts: a string; a tuple of two strings for a pair; or a list of
                either.
            batch_size: number of full-length texts to compute at once.
            progress: whether to show a progress bar.

        Returns:
            A Classification, a MultiLabelClassification or, from a regression,
            a float; of a list, a list of these.
        """
        is_one = isinstance(texts, str | tuple)
        lines = [
            tuple(x) if isinstance(x, tuple | list | np.ndarray) else (x,)
            for x in as_list(texts, str | tuple)
        ]
        make = ANSWERS[self.settings.target]
        return self.ask(lines, is_one, make, batch_size, progress)

    @staticmethod
    def exported(
        outputs: dict[str, Any], settings: TaskConfig
    ) -> dict[str, Any]:
        """Of [B, C] logits."""
        logits = outputs["logits"]
        if settings.target == "regression":
            return {"value": logits[:, 0]}
        if settings.target == "single_label":
            return label_outputs(logits, settings)
        probabilities = tf.sigmoid(logits)
        # Of numbers, and not of texts, which tf.where takes but LiteRT has not.
        numbers = tf.range(1, len(settings.labels) + 1)
        chosen = tf.where(probabilities > 0.5, numbers, 0)
        names = tf.constant(["", *settings.labels])
        return {
            "probabilities": probabilities,
            "labels": tf.gather(names, chosen),
        }

    def preprocess(self, number: int, texts: Sequence[str]) -> Question:
        takes_pairs = self.settings.takes_pairs
        if len(texts) > 2 or takes_pairs not in (None, len(texts) == 2):
            expected = {None: "one or two", True: "two", False: "one"}
            raise InputError(
                f"it has {len(texts)} texts (in a line, tabs are between "
                f"them); the model takes {expected[takes_pairs]}"
                if len(texts) > 1
                else "it is one text; the model takes two (in a line, a tab is "
                "between them)"
            )
        first, *rest = texts
        length = self.settings.max_seq_length
        rows, is_cut, _ = encode_example(
            InputExample(str(number), first, rest[0] if rest else None, None),
            self.tokenizer,
            length,
            self.settings.doc_stride,
            length if self.settings.doc_stride is None else None,
        )
        notes = [f"it is cut to {length} tokens"] * is_cut
        if len(rows) > 1:
            notes = [
                f"it is read through {len(rows)} windows of {length} tokens"
            ]
        if takes_pairs:
            names = zip(("first", "second"), texts, strict=True)
            notes += [
                f"its {name} text is empty"
                for name, text in names
                if not self.tokenizer.tokenize(text, 1)
            ]
        return Question(number, rows, note=", and ".join(notes))

    def postprocess(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        pooled = pool_windows(outputs, self.settings.window_pooling)  # [C]
        scores = self.model.target.scores(pooled).tolist()
        if self.settings.target == "regression":
            return {"value": scores[0]}, [f"{scores[0]:.6f}"]
        labels = dict(zip(self.settings.labels, scores, strict=True))
        columns = [f"{name} {share:.6f}" for name, share in labels.items()]
        if self.settings.target == "single_label":
            best = max(labels, key=lambda name: labels[name])
            return {"label": best, "probabilities": labels}, [best, *columns]
        chosen = [name for name, share in labels.items() if share > 0.5]
        fields = {"labels": chosen, "probabilities": labels}
        separator = self.settings.label_separator
        joined = separator.join(chosen)
        if any(separator in x or x.startswith("[") for x in chosen):
            joined = json.dumps(chosen, ensure_ascii=False)
        return fields, [joined, *columns]


def label_outputs(logits: Any, settings: TaskConfig) -> dict[str, Any]:
    """The probabilities and the best of the labels, of [..., C] logits."""
    labels = tf.constant(settings.labels)
    best = tf.argmax(logits, axis=-1)
    return {
        "probabilities": tf.nn.softmax(logits),
        "label": tf.gather(labels, best),
    }
