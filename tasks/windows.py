"""Questions with parts of their paragraphs, as a model reads them.

Upstream file: run_squad.py, convert_examples_to_features.

A paragraph may be longer than a model's input: it is shown in windows, which
overlap. Positions in a row are of pieces, with [CLS] at 0.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from data.rows import Row, most_context, windows
from data.tokenizers import Tokenizer
from input_error import InputError
from tasks.squad import Answer, Example, Paragraph, progress
from tasks.task import TaskSettings

FIRST_UNIQUE_ID = 1000000000  # of the windows of each file


class Pieces(NamedTuple):
    """A paragraph cut by the tokenizer."""

    tokens: list[str]
    words: list[int]  # of each piece
    first_piece: list[int]  # of each word, and one past the last


@dataclasses.dataclass(frozen=True)
class Window:
    """A question with a part of its paragraph, as the model reads them."""

    row: Row  # [CLS] question [SEP] part [SEP]
    pieces: Pieces  # the whole paragraph's, shared by all its windows
    part: range  # those of them that are in the row
    max_context: np.ndarray  # bool; no other window shows more around it
    start_position: int = 0  # of the answer in the row; 0 where it has none
    end_position: int = 0  # its last piece
    is_impossible: bool = False

    @property
    def shift(self) -> int:
        """Place in the row less place in the paragraph, of each piece."""
        return len(self.row.input_ids) - 1 - self.part.stop


def make_windows(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    settings: TaskSettings,
) -> list[list[Window]]:
    """Each question's windows, in order; an empty paragraph has none."""
    cut: dict[Paragraph, Pieces] = {}  # once for all questions about it
    windows = []
    for example in progress(examples, "windows", " questions"):
        paragraph = example.paragraph
        if paragraph not in cut:
            cut[paragraph] = _cut(paragraph, tokenizer)
        windows.append(
            _example_windows(example, cut[paragraph], tokenizer, settings)
        )
    return windows


def record_values(
    number: int, window: Window, max_seq_length: int
) -> dict[str, list[int]]:
    """What a record holds of the file's window of this number, from 0."""
    ids, segments = window.row.input_ids, window.row.segment_ids
    padding = [0] * (max_seq_length - len(ids))
    return {
        "unique_ids": [FIRST_UNIQUE_ID + number],
        "input_ids": ids + padding,
        "input_mask": [1] * len(ids) + padding,
        "segment_ids": segments + padding,
        "start_positions": [window.start_position],
        "end_positions": [window.end_position],
        "is_impossible": [int(window.is_impossible)],
    }


def _cut(paragraph: Paragraph, tokenizer: Tokenizer) -> Pieces:
    tokens: list[str] = []
    words: list[int] = []
    first_piece = [0]
    for i, own in enumerate(tokenizer.tokenize_words(paragraph.words)):
        tokens += own
        words += [i] * (len(tokens) - len(words))
        first_piece.append(len(tokens))
    return Pieces(tokens, words, first_piece)


def _example_windows(
    example: Example,
    pieces: Pieces,
    tokenizer: Tokenizer,
    settings: TaskSettings,
) -> list[Window]:
    question = tokenizer.tokenize(example.question)[: settings.max_query_length]
    marks = tokenizer.marks
    room = settings.max_seq_length - len(question) - marks.count(True)
    if room < 1:
        raise InputError(
            f"a question of {len(question)} pieces leaves no room for a "
            f"paragraph in {settings.max_seq_length}; raise --max_seq_length "
            "or lower --max_query_length"
        )
    assert settings.doc_stride is not None, "spans are looked for everywhere"
    num_pieces = len(pieces.tokens)
    parts = windows(num_pieces, room, settings.doc_stride) if num_pieces else []
    owners = np.array(most_context(parts, num_pieces))
    answer = _answer_pieces(example.answer, pieces, tokenizer)
    start = [marks.start, *question, marks.end, *marks.between]
    made = []
    for number, part in enumerate(parts):
        shown = pieces.tokens[part.start : part.stop]
        row = Row(
            tokenizer.convert_tokens_to_ids([*start, *shown, marks.end]),
            [0] * len(start) + [marks.second_segment] * (len(shown) + 1),
        )
        shift = len(start) - part.start
        positions = (
            (answer[0] + shift, answer[1] + shift)
            if answer and part.start <= answer[0] and answer[1] < part.stop
            else (0, 0)
        )
        max_context = owners[part.start : part.stop] == number
        made.append(
            Window(
                row, pieces, part, max_context, *positions,
                example.is_impossible,
            )
        )  # fmt: skip
    return made


def _answer_pieces(
    answer: Answer | None, pieces: Pieces, tokenizer: Tokenizer
) -> tuple[int, int] | None:
    """First and last piece of the answer.

    The words around it may hold more: for 1895 in "(1895-1943)." the pieces
    are searched for the answer's own, and it is 1895 alone. An answer inside
    a piece (Japan in Japanese) stays the whole words.
    """
    if answer is None:
        return None
    first = pieces.first_piece[answer.first_word]
    last = pieces.first_piece[answer.last_word + 1] - 1
    # Where pieces have the space before them, these are two spellings.
    spellings = [tokenizer.tokenize(f"{s}{answer.text}") for s in ("", " ")]
    for begin in range(first, last + 1):
        for wanted in filter(None, spellings):
            end = begin + len(wanted)
            if end <= last + 1 and pieces.tokens[begin:end] == wanted:
                return begin, end - 1
    return first, last
