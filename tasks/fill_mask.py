"""Filling in blanks: what a pre-trained model puts in place of [MASK].

The masked language model of Devlin et al. 2018, section 3.1, put to use. Ours;
google-research/bert has nothing like it.

Shapes: B batch, S positions, P masked positions, K likeliest tokens, V
vocabulary.
"""

import collections
import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from keras import ops

from bert_keras.data.input_features import (
    InputFeatures,
    make_features,
    max_context_window,
    split_at_masks,
    windows,
)
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.base import Outputs
from bert_keras.tasks.keyword_settings import as_list
from bert_keras.tasks.pipeline import BATCH_SIZE, Pipeline, Question
from bert_keras.tasks.pretraining.model import MaskedLm


def encode(
    line: str, tokenizer: Tokenizer, max_length: int
) -> list[InputFeatures]:
    """The line's windows that have a [MASK]; their positions are its places.

    "A [MASK]." becomes [CLS] a [MASK] . [SEP] with the one position 2. A line
    that is too long is read through windows that overlap by half, and each
    [MASK] belongs to the one that shows most around it.

    Args:
        max_length: positions the model has.
    """
    special_tokens = tokenizer.special_tokens
    tokens = split_at_masks(line, tokenizer)
    masks = [i for i, x in enumerate(tokens) if x == special_tokens.mask]
    if not masks:
        raise InputError(f"there is no {special_tokens.mask} in it")
    width = max_length - special_tokens.count(False)
    spans = windows(len(tokens), width, (width + 1) // 2)
    owners = max_context_window(spans, len(tokens))
    places = collections.defaultdict[int, list[int]](list)  # by window
    for i in masks:
        places[owners[i]].append(1 + i - spans[owners[i]].start)
    rows = []
    for number, own in sorted(places.items()):
        shown = tokens[spans[number].start : spans[number].stop]
        rows.append(make_features(shown, None, max_length, tokenizer, own))
    return rows


class BlankFiller(MaskedLm):
    """A model that says which tokens are the likeliest.

    Args:
        known_ids: those that may be answered: a model may have ids that its
            vocabulary has not.
        count: how many tokens are wanted for each [MASK].
    """

    def __init__(
        self, config: BertConfig, known_ids: Collection[int], count: int = 5
    ):
        super().__init__(config)
        self.is_known = np.isin(range(config.vocab_size), list(known_ids))
        self.count = min(count, len(known_ids))

    def outputs_by_name(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The likeliest tokens, the best first.

        Returns:
            "ids", int [B, P, K], and their "probabilities", [B, P, K].
        """
        logits = self.logits(
            {**batch, "masked_lm_positions": batch["positions"]}, None
        )
        probabilities = ops.softmax(ops.cast(logits, "float32"))  # [B, P, V]
        shares, ids = ops.top_k(
            ops.where(self.is_known, probabilities, -1.0), self.count
        )
        return {"ids": ids, "probabilities": shares}


@dataclasses.dataclass(frozen=True)
class Token:
    """What may stand in a blank."""

    piece: str
    probability: float


@dataclasses.dataclass(frozen=True)
class FilledText:
    """A text with the likeliest token in each blank."""

    text: str
    blanks: list[list[Token]]  # of each the likeliest, the best first


def _filled(text: str, blanks: list[list[dict[str, Any]]]) -> FilledText:
    return FilledText(text, [[Token(**x) for x in blank] for blank in blanks])


class FillMaskPipeline(Pipeline):
    """A text with [MASK]s (or <mask>s): the likeliest tokens for each."""

    needs_pooler = False
    method = "fill"
    purpose = (
        "fill in blanks, and neither task.json nor config.json says what else "
        "it was trained for"
    )

    def __init__(self, config: BertConfig, tokenizer: Tokenizer, count: int):
        super().__init__(config, tokenizer)
        self.model = BlankFiller(config, tokenizer.inv_vocab, count)
        if config.direction != "bidirectional":
            self.fault = (
                f"the model reads in one direction ({config.direction}) and "
                "was not trained to fill in blanks; expected a bidirectional "
                "one, or a fine-tuned one with its task.json"
            )

    def fill(
        self,
        texts: str | Sequence[str],
        batch_size: int = BATCH_SIZE,
        progress: bool = False,
    ) -> Any:
        """Fills the [MASK]s (or <mask>s) of one text, or of several.

        Examples:
            >>> model = bert_keras.load("bert")
            >>> filled = model.fill("The sky is [MASK].")
            >>> filled.text, filled.blanks[0][0].piece
            ('The sky is blue.', 'blue')

        Returns:
            A FilledText, or a list of them.
        """
        lines = [(text,) for text in as_list(texts)]
        is_one = isinstance(texts, str)
        return self.ask(lines, is_one, _filled, batch_size, progress)

    def preprocess(self, number: int, texts: Sequence[str]) -> Question:
        line = "\t".join(texts)
        rows = encode(line, self.tokenizer, self.max_length)
        note = (
            f"it is read through windows of {self.max_length} tokens"
            if len(rows[0].input_ids) == self.max_length
            else ""
        )
        return Question(number, rows, line, note)

    def postprocess(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        tokenizer = self.tokenizer
        blanks = []  # of each [MASK] the likeliest tokens, the best first
        for output, row in zip(outputs, question.rows, strict=True):
            for i in range(len(row.positions)):
                ids = output["ids"][i].tolist()
                shares = output["probabilities"][i].tolist()
                best = [
                    {"piece": tokenizer.inv_vocab[number], "probability": share}
                    for number, share in zip(ids, shares, strict=True)
                ]
                blanks.append(best)
        text, *parts = question.content.split(tokenizer.special_tokens.mask)
        for blank, part in zip(blanks, parts, strict=True):
            filled = tokenizer.to_text([blank[0]["piece"]])
            if filled.startswith(" "):  # it brings the space along
                text = text.rstrip()
            text += filled + part
        columns = [text]
        columns += [
            "  ".join(f"{p['piece']} {p['probability']:.6f}" for p in blank)
            for blank in blanks
        ]
        return {"text": text, "blanks": blanks}, columns
