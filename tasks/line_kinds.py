"""The kinds of models that answer lines of text (tasks/line_predictor.py).

Shapes: W windows of a line, C outputs, T words of a line.
"""

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.classification.examples import (
    InputExample,
    encode_example,
)
from bert_keras.tasks.classification.label_types import make_target
from bert_keras.tasks.classification.model import TextClassifier, pool_windows
from bert_keras.tasks.fill_mask import BlankFiller, encode
from bert_keras.tasks.line_predictor import Outputs, Question
from bert_keras.tasks.multiple_choice.model import (
    CHOICES_TOO,
    MultipleChoice,
    MultipleChoiceExample,
    encode_question,
    log_shares,
)
from bert_keras.tasks.ner.feature_based.lstm_tagger import FeatureTagger
from bert_keras.tasks.ner.features import read_words
from bert_keras.tasks.ner.iob_tags import are_tags, entities, to_tags
from bert_keras.tasks.ner.model import TokenClassifier
from bert_keras.tasks.packed_inputs import make_encoder
from bert_keras.tasks.squad.data import SquadExample, split_words
from bert_keras.tasks.squad.features import make_windows
from bert_keras.tasks.squad.model import QuestionAnsweringModel
from bert_keras.tasks.squad.postprocessing import Answerer, Logits
from bert_keras.tasks.task_config import TaskConfig

# From a letter or digit to the last one before a space, or what is neither by
# itself: of "(Reuters)." four words, of "it's" and "U.S" one.
WORD = re.compile(r"\w(?:\S*\w)?|[^\w\s]")


class TextKind:
    """One text, or two with a tab between them: a class, several, a number."""

    def __init__(
        self,
        config: BertConfig,
        tokenizer: Tokenizer,
        settings: TaskConfig,
    ):
        self.target = make_target(settings.target, settings.labels)
        encoder = make_encoder(config, settings)
        self.model = TextClassifier(config, self.target, encoder)
        self.tokenizer = tokenizer
        self.settings = settings

    def read(self, number: int, texts: Sequence[str]) -> Question:
        takes_pairs = self.settings.takes_pairs
        if len(texts) > 2 or takes_pairs not in (None, len(texts) == 2):
            expected = {None: "one or two", True: "two", False: "one"}
            raise InputError(
                f"it has {len(texts)} texts with tabs between them; the model "
                f"takes {expected[takes_pairs]}"
                if len(texts) > 1
                else "it is one text; the model takes two with a tab between"
            )
        first, *rest = texts
        length = self.settings.max_seq_length
        rows, is_cut = encode_example(
            InputExample(str(number), first, rest[0] if rest else None, None),
            self.tokenizer,
            length,
            self.settings.doc_stride,
        )
        note = f"it is cut to {length} pieces" if is_cut else ""
        if len(rows) > 1:
            note = f"it is read through {len(rows)} windows of {length} pieces"
        return Question(number, rows, note=note)

    def answer(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        logits = (output["logits"] for output in outputs)
        pooling = self.settings.window_pooling
        (pooled,) = pool_windows(logits, [question.rows], pooling)  # [C]
        scores = self.target.scores(pooled).tolist()
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
        if any(separator in name for name in chosen):
            joined = json.dumps(chosen, ensure_ascii=False)
        return fields, [joined, *columns]


class SpanKind:
    """A question, a tab, a paragraph: the part of it that is the answer."""

    def __init__(
        self,
        config: BertConfig,
        tokenizer: Tokenizer,
        settings: TaskConfig,
    ):
        encoder = make_encoder(config, settings)
        self.model = QuestionAnsweringModel(config, encoder=encoder)
        self.tokenizer = tokenizer
        self.settings = settings
        self.answerer = Answerer(tokenizer, settings)

    def read(self, number: int, texts: Sequence[str]) -> Question:
        question, paragraph = texts[0], "\t".join(texts[1:])
        if not question.strip() or not paragraph.strip():
            raise InputError("expected a question, a tab and a paragraph")
        example = SquadExample(str(number), question, split_words(paragraph))
        (windows,) = make_windows([example], self.tokenizer, self.settings)
        if not windows:
            raise InputError("there is nothing readable in the paragraph")
        notes = []
        if windows[0].question_length > self.settings.max_query_length:
            notes.append(
                f"its question is cut to {self.settings.max_query_length} "
                "tokens"
            )
        if len(windows) > 1:
            notes.append(
                f"its paragraph is read through {len(windows)} windows of "
                f"{self.settings.max_seq_length} pieces"
            )
        rows = [window.row for window in windows]
        return Question(number, rows, (example, windows), "; ".join(notes))

    def answer(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        example, windows = question.content
        logits = [
            Logits(
                output["start_logits"][: len(row.input_ids)],
                output["end_logits"][: len(row.input_ids)],
            )
            for output, row in zip(outputs, question.rows, strict=True)
        ]
        found = self.answerer.answer(example, windows, logits)
        text = found.text(self.settings.null_score_diff_threshold)
        place = [entry.text for entry in found.nbest].index(text)
        probability = found.probabilities[place]
        fields = {
            "answer": text,
            "probability": probability,
            "score": found.nbest[place].score,
        }
        if found.null_odds is not None:
            fields["null_odds"] = found.null_odds
        return fields, [text, f"{probability:.6f}"]


class ChoiceKind:
    """A context, a tab, a choice, a tab, a choice, ...: the one that fits."""

    def __init__(
        self,
        config: BertConfig,
        tokenizer: Tokenizer,
        settings: TaskConfig,
    ):
        self.model = MultipleChoice(config)
        self.tokenizer = tokenizer
        self.length = settings.max_seq_length

    def read(self, number: int, texts: Sequence[str]) -> Question:
        context, *choices = texts
        if len(choices) < 2:
            raise InputError(
                f"it has {len(choices)} choices; expected a context and two or "
                "more choices, with a tab before each"
            )
        question = MultipleChoiceExample(
            str(number), context, tuple(choices), None
        )
        rows, cut = encode_question(question, self.tokenizer, self.length)
        note = f"its context is cut to {self.length} pieces" if cut else ""
        if cut == CHOICES_TOO:
            note = f"its context and choices are cut to {self.length} pieces"
        return Question(number, rows, choices, note)

    def answer(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        logs = log_shares([output["logits"] for output in outputs])
        best, shares = int(logs.argmax()), np.exp(logs).tolist()
        text = question.content[best]
        fields = {"choice": best, "text": text, "probabilities": shares}
        return fields, [str(best), text, *(f"{x:.6f}" for x in shares)]


class TagKind:
    """A text: its words with their tags, and the entities that the tags write.
    If the labels are not tags of entities but, say, parts of speech, only words
    and labels.

    Words end at spaces; punctuation at their ends is split off, as in the texts
    that taggers learn from.
    """

    def __init__(
        self,
        config: BertConfig,
        tokenizer: Tokenizer,
        settings: TaskConfig,
    ):
        count = len(settings.labels)
        self.model: TokenClassifier | FeatureTagger = TokenClassifier(
            config, count
        )
        if settings.feature_layers is not None:
            self.model = FeatureTagger(
                config, count, settings.feature_layers, settings.lstm_size
            )
        self.tokenizer = tokenizer
        self.settings = settings

    def read(self, number: int, texts: Sequence[str]) -> Question:
        line = "\t".join(texts)
        spans = word_spans(line)
        length = self.settings.max_seq_length
        text = read_words(
            [line[begin:end] for begin, end in spans],
            self.tokenizer,
            length,
            self.settings.doc_stride or length // 2,
        )
        note = (
            f"it is read through {len(text.rows)} windows of {length} pieces"
            if len(text.rows) > 1
            else ""
        )
        return Question(number, text.rows, (line, spans, text), note)

    def answer(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        line, spans, text = question.content
        logits = text.join([output["logits"] for output in outputs])  # [T, C]
        labels = [self.settings.labels[i] for i in logits.argmax(-1)]
        words = [line[begin:end] for begin, end in spans]
        if not are_tags(self.settings.labels):
            pairs = zip(words, labels, strict=True)
            columns = [f"{word} {label}" for word, label in pairs]
            return {"words": words, "tags": labels}, columns
        found = entities(labels)
        tags = to_tags(found, len(labels))
        ends = [(spans[e.begin][0], spans[e.end - 1][1]) for e in found]
        fields = {
            "words": words,
            "tags": tags,
            "entities": [
                {
                    "kind": entity.kind,
                    "text": line[begin:end],
                    "begin": begin,
                    "end": end,
                }
                for entity, (begin, end) in zip(found, ends, strict=True)
            ],
        }
        pairs = zip(words, tags, strict=True)
        return fields, [f"{word} {tag}" for word, tag in pairs]


class BlankKind:
    """A text with [MASK]s (or <mask>s): the likeliest pieces for each."""

    def __init__(self, config: BertConfig, tokenizer: Tokenizer, count: int):
        self.model = BlankFiller(config, tokenizer.inv_vocab, count)
        self.max_length = config.max_position_embeddings
        self.tokenizer = tokenizer

    def read(self, number: int, texts: Sequence[str]) -> Question:
        line = "\t".join(texts)
        rows = encode(line, self.tokenizer, self.max_length)
        note = (
            f"it is read through windows of {self.max_length} pieces"
            if len(rows[0].input_ids) == self.max_length
            else ""
        )
        return Question(number, rows, line, note)

    def answer(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        blanks = [
            [
                {"piece": self.tokenizer.inv_vocab[i], "probability": share}
                for i, share in zip(ids, shares, strict=True)
            ]
            for output, row in zip(outputs, question.rows, strict=True)
            for ids, shares in zip(
                output["ids"][: len(row.positions)].tolist(),
                output["probabilities"].tolist(),
                strict=False,
            )
        ]
        columns = [
            "  ".join(f"{p['piece']} {p['probability']:.6f}" for p in blank)
            for blank in blanks
        ]
        text, *parts = question.content.split(
            self.tokenizer.special_tokens.mask
        )
        for blank, part in zip(blanks, parts, strict=True):
            filled = self.tokenizer.to_text([blank[0]["piece"]])
            if filled.startswith(" "):  # it brings the space along
                text = text.rstrip()
            text += filled + part
        columns = [text.replace("\t", " "), *columns]
        return {"text": text, "blanks": blanks}, columns


def word_spans(line: str) -> list[tuple[int, int]]:
    """Begins and ends of its words, for a tagger. What combines with letters,
    as vowels of Hindi do, is of their words, though not of \\w."""
    letters = "".join(
        "a" if unicodedata.category(char)[0] == "M" else char for char in line
    )
    return [match.span() for match in WORD.finditer(letters)]
