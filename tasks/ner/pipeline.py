"""Answers of a tagger: words with their tags, and entities."""

import dataclasses
import itertools
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from bert_keras.data.tokenization import UNSPACED
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.base import Outputs
from bert_keras.tasks.classification.pipeline import label_outputs
from bert_keras.tasks.keyword_settings import as_list
from bert_keras.tasks.ner.feature_based.lstm_tagger import FeatureTagger
from bert_keras.tasks.ner.features import read_words
from bert_keras.tasks.ner.iob_tags import are_tags, entities, to_tags
from bert_keras.tasks.ner.model import TokenClassifier
from bert_keras.tasks.pipeline import (
    BATCH_SIZE,
    Question,
    TaskPipeline,
)
from bert_keras.tasks.task_config import TaskConfig

# From a letter or digit to the last one before a space, or what is neither by
# itself: of "(Reuters)." four words, of "it's" and "U.S" one.
WORD = re.compile(r"\w(?:\S*\w)?|[^\w\s]")
SEPARATORS = frozenset(",;:/，；：／、。")  # also between letters


@dataclasses.dataclass(frozen=True)
class Entity:
    """A name in a text: text[begin:end]."""

    kind: str
    text: str
    begin: int  # characters
    end: int


@dataclasses.dataclass(frozen=True)
class TaggedText:
    """A text's words, with a tag each."""

    words: list[str]
    tags: list[str]
    entities: list[Entity]  # none if the tags are not those of entities


def _tagged(
    words: list[str], tags: list[str], entities: Sequence[dict[str, Any]] = ()
) -> TaggedText:
    return TaggedText(words, tags, [Entity(**x) for x in entities])


class TokenClassificationPipeline(TaskPipeline):
    """A text: its words with their tags, and the entities that the tags write.
    If the labels are not tags of entities but, say, parts of speech, only words
    and labels.

    Words end at spaces. Punctuation at their ends is split off, as in the texts
    that taggers learn from, and so are commas, colons, semicolons and slashes
    between letters. In scripts without spaces each character is a word.
    """

    needs_pooler = False
    answers_tokens = True
    method = "tag"

    def tag(
        self,
        texts: str | Sequence[str],
        batch_size: int = BATCH_SIZE,
        progress: bool = False,
    ) -> Any:
        """Tags the words of one text, or of several.

        Examples:
            >>> model = bert_keras.load("ner")
            >>> model.tag("Ann saw Rome.").tags
            ['B-PER', 'O', 'B-LOC', 'O']
            >>> model.tag("Ann saw Rome.").entities[1]
            Entity(kind='LOC', text='Rome', begin=8, end=12)

        Returns:
            A TaggedText, or a list of them.
        """
        lines = [(text,) for text in as_list(texts)]
        is_one = isinstance(texts, str)
        return self.ask(lines, is_one, _tagged, batch_size, progress)

    @classmethod
    def make_model(
        cls, config: BertConfig, settings: TaskConfig
    ) -> TokenClassifier | FeatureTagger:
        count = len(settings.labels)
        if settings.feature_layers is None:
            return TokenClassifier(config, count)
        return FeatureTagger(
            config, count, settings.feature_layers, settings.lstm_size
        )

    @staticmethod
    def exported(
        outputs: dict[str, Any], settings: TaskConfig
    ) -> dict[str, Any]:
        """Of [B, S, C] logits."""
        return label_outputs(outputs["logits"], settings)

    def preprocess(self, number: int, texts: Sequence[str]) -> Question:
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
            f"it is read through {len(text.rows)} windows of {length} tokens"
            if len(text.rows) > 1
            else ""
        )
        return Question(number, text.rows, (line, spans, text), note)

    def postprocess(
        self, question: Question, outputs: Sequence[Outputs]
    ) -> tuple[dict[str, Any], list[str]]:
        line, spans, text = question.content
        logits = text.join(outputs, "logits")  # [T, C]
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


def word_spans(line: str) -> list[tuple[int, int]]:
    """Begins and ends of its words, for a tagger. What combines with letters,
    as vowels of Hindi do, is of their words, though not of \\w."""
    letters = "".join(
        "a" if unicodedata.category(char)[0] == "M" else char for char in line
    )
    spans: list[tuple[int, int]] = []
    for match in WORD.finditer(letters):
        begin, end = match.span()
        ends = (i for i in range(begin + 1, end) if _is_between(line, i))
        spans += itertools.pairwise([begin, *ends, end])
    return spans


def _is_between(line: str, i: int) -> bool:
    """Whether a word begins at place i without a space before it."""
    if unicodedata.category(line[i])[0] == "M":
        return False
    for place in (i - 1, i):
        if UNSPACED.match(line[place]):
            return True
        if line[place] in SEPARATORS:  # "10:30" is one word
            return not (line[place - 1] + line[place + 1]).isdigit()
    return False
