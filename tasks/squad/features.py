"""Questions with parts of their paragraphs, as a model reads them.

Upstream file: run_squad.py, convert_examples_to_features.

A paragraph may be longer than a model's input: it is shown in windows, which
overlap. Positions in a row are of tokens, with [CLS] at 0.
"""

import dataclasses
import itertools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_keras.data.input_features import (
    InputFeatures,
    make_features,
    max_context_window,
    pad,
    windows,
)
from bert_keras.data.tokenization import UNSPACED, Span
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError
from bert_keras.tasks.squad.data import Paragraph, SquadExample
from bert_keras.tasks.task_config import TaskConfig
from bert_keras.training.inference import with_progress

FIRST_UNIQUE_ID = 1000000000  # of the windows of each file


class ParagraphTokens(NamedTuple):
    """A paragraph cut by the tokenizer."""

    tokens: list[str]
    word_of: list[int]  # of each token
    first_token: list[int]  # of each word, and one past the last


@dataclasses.dataclass(frozen=True)
class SquadFeatures:
    """A question with a part of its paragraph, as the model reads them."""

    row: InputFeatures  # [CLS] question [SEP] part [SEP]
    paragraph: ParagraphTokens  # whole, shared by all its windows
    part: range  # those of them that are in the row
    max_context: np.ndarray  # bool; no other window shows more around it
    start_position: int = 0  # of the answer in the row; 0 where it has none
    end_position: int = 0  # its last token
    is_impossible: bool = False
    question_length: int = 0  # tokens, before it was cut

    @property
    def shift(self) -> int:
        """Place in the row less place in the paragraph, of each token."""
        return len(self.row.input_ids) - 1 - self.part.stop


def make_windows(
    examples: Sequence[SquadExample], tokenizer: Tokenizer, settings: TaskConfig
) -> list[list[SquadFeatures]]:
    """Each question's windows, in order; an empty paragraph has none."""
    assert settings.doc_stride is not None, "spans are looked for everywhere"
    num_marks = tokenizer.special_tokens.count(is_pair=True)
    cut: dict[Paragraph, ParagraphTokens] = {}  # once for all questions
    made = []
    progress = with_progress(examples, len(examples), " questions", "windows")
    for example in progress:
        whole_question = tokenizer.tokenize(example.question)
        question = whole_question[: settings.max_query_length]
        room = settings.max_seq_length - len(question) - num_marks
        if room < 1:
            raise InputError(
                f"a question of {len(question)} tokens leaves no room for a "
                f"paragraph in {settings.max_seq_length}; raise "
                "`max_seq_length` or lower `max_query_length`"
            )
        if example.paragraph not in cut:
            of_words = tokenizer.tokenize_words(example.paragraph.words)
            cut[example.paragraph] = ParagraphTokens(
                tokens=[token for own in of_words for token in own],
                word_of=[i for i, own in enumerate(of_words) for _ in own],
                first_token=[0, *itertools.accumulate(map(len, of_words))],
            )
        paragraph = cut[example.paragraph]
        count = len(paragraph.tokens)
        parts = windows(count, room, settings.doc_stride) if count else []
        owners = np.array(max_context_window(parts, count))
        answer = _answer_tokens(example, paragraph, tokenizer)
        own_windows = []
        for number, part in enumerate(parts):
            shown = paragraph.tokens[part.start : part.stop]
            row = make_features(
                question, shown, settings.max_seq_length, tokenizer
            )
            positions = 0, 0
            if answer and part.start <= answer[0] and answer[1] < part.stop:
                shift = len(row.input_ids) - 1 - part.stop
                positions = answer[0] + shift, answer[1] + shift
            max_context = owners[part.start : part.stop] == number
            own_windows.append(
                SquadFeatures(
                    row, paragraph, part, max_context, *positions,
                    example.is_impossible, len(whole_question),
                )
            )  # fmt: skip
        made.append(own_windows)
    return made


def record_values(
    number: int, window: SquadFeatures, max_seq_length: int
) -> dict[str, list[int]]:
    """What a record holds of the file's window of this number, from 0."""
    padded = pad([window.row], max_seq_length, 1)
    return {
        "unique_ids": [FIRST_UNIQUE_ID + number],
        **{name: values[0].tolist() for name, values in padded.items()},
        "start_positions": [window.start_position],
        "end_positions": [window.end_position],
        "is_impossible": [int(window.is_impossible)],
    }


def word_offsets(tokenizer: Tokenizer, word: str, is_first: bool) -> list[Span]:
    """Each token's characters in a word, counted from the word's beginning.

    With the combining marks after them, which BERT drops from what it reads.

    Args:
        is_first: whether the word begins its text: of all others a byte-level
            token includes the space before.
    """
    before = "" if is_first else " "
    spans = tokenizer.tokenize_with_offsets(before + word)
    places = []
    for number, (token, start, end) in enumerate(spans):
        start, end = max(start - len(before), 0), max(end - len(before), 0)
        limit = len(word)
        if number + 1 < len(spans):
            limit = spans[number + 1].start - len(before)
        while end < limit and unicodedata.category(word[end])[0] == "M":
            end += 1
        places.append(Span(token, start, end))
    return places


def _answer_tokens(
    example: SquadExample, cut: ParagraphTokens, tokenizer: Tokenizer
) -> tuple[int, int] | None:
    """First and last token of the answer.

    The words around it may hold more: for 1895 in "(1895-1943)." the tokens
    are searched for the answer's own, and it is 1895 alone. An answer inside
    a token (Japan in Japanese) stays the whole words.

    Theirs takes the first of several places, and the whole words even where
    they are a paragraph. Ours, where the answer's characters are known: the
    tokens that have any of them, in both cases.
    """
    answer, paragraph = example.answer, example.paragraph
    if answer is None:
        return None
    first = cut.first_token[answer.first_word]
    last = cut.first_token[answer.last_word + 1] - 1
    if first > last:
        return None  # of nothing but characters that are left out
    # Where tokens have the space before them, these are two spellings.
    spellings = [tokenizer.tokenize(f"{s}{answer.text}") for s in ("", " ")]
    # As a text with a character for each token, which is searched fast.
    tokens = cut.tokens[first : last + 1]
    chars = {token: chr(i) for i, token in enumerate(dict.fromkeys(tokens))}
    text = "".join(chars[token] for token in tokens)
    matches = []
    for wanted in spellings:
        if wanted and chars.keys() >= set(wanted):
            begin = text.find("".join(chars[token] for token in wanted))
            if begin >= 0:
                begin += first
                matches.append((begin, begin + len(wanted) - 1))
    found = min(matches, key=lambda x: x[0], default=(first, last))
    words = range(answer.first_word, answer.last_word + 1)
    has_spaces = not any(UNSPACED.search(paragraph.words[i]) for i in words)
    if answer.place is None or (has_spaces and not matches):
        return found
    inside = [
        cut.first_token[i] + number
        for i in words
        for number, span in enumerate(
            word_offsets(tokenizer, paragraph.words[i], i == 0)
        )
        if paragraph.starts[i] + span.start < answer.place.stop
        and paragraph.starts[i] + span.end > answer.place.start
    ]
    return (inside[0], inside[-1]) if inside else found
