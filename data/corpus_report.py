"""What a raw text holds: lines, documents, repeats, long lines, unknown words.

The text is that of create_pretraining_data.py: a sentence a line, a blank line
between documents, which end with their files too.
"""

import dataclasses
from collections.abc import Iterable, Sequence

from bert_keras.data import streaming_stats
from bert_keras.data.record_hints import vocabulary_hints
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import with_flags

NUM_EXAMPLES = 10  # of what is commonest
LONGEST_COUNTED = 4096  # tokens of a line; longer ones count as this
SHOWN_CHARACTERS = 60  # of a repeated line


@dataclasses.dataclass
class TextSummary:
    """What a report says, in numbers; "lines" are those with a token."""

    max_seq_length: int
    room: int  # of a pair, without special tokens
    num_documents: int = 0
    num_single_line_documents: int = 0  # their only pairs are "random next"
    num_lines: int = 0
    num_long_lines: int = 0  # fill a pair's room without a second sentence
    num_repeated_lines: int = 0  # whose words came in a line before
    repeated_lines: Sequence[tuple[str, int]] = ()  # the commonest, cut
    num_pieces: int = 0
    num_words: int = 0  # that these are; of byte-level tokens, each is one
    num_unknown: int = 0  # of num_pieces, [UNK]
    unknown_words: Sequence[tuple[str, int]] = ()  # the commonest
    length_counts: list[int] = dataclasses.field(
        default_factory=lambda: [0] * (LONGEST_COUNTED + 1)
    )  # [i]: lines of i tokens


class TextCounter:
    """Adds up lines.

    Memory: 8 bytes a line, some 60 more in the end, and
    `streaming_stats.MAX_KEYS` unknown words.
    """

    def __init__(self, tokenizer: Tokenizer, max_seq_length: int) -> None:
        self._tokenizer = tokenizer
        marks = tokenizer.special_tokens
        self._unknown = marks.unknown
        self._found = TextSummary(
            max_seq_length, max_seq_length - marks.count(is_pair=True)
        )
        self._document_lines = 0  # of the document at hand
        self._lines = streaming_stats.DuplicateFinder()
        self._unknown_words = streaming_stats.HeavyHitters()

    def add(self, line: str) -> None:
        """Adds a line; like Google's code, one without tokens is dropped."""
        found = self._found
        line = line.strip()
        if not line:
            self._end_document()
        # As in records: bytes of a sentence's first word follow a space.
        text = f" {line}" if self._document_lines else line
        pieces = self._tokenizer.tokenize(text)
        if not pieces:
            return
        self._document_lines += 1
        self._lines.add(line.encode())
        found.length_counts[min(len(pieces), LONGEST_COUNTED)] += 1
        found.num_lines += 1
        found.num_pieces += len(pieces)
        found.num_words += sum(not piece.startswith("##") for piece in pieces)
        found.num_long_lines += len(pieces) > found.room
        if self._unknown in pieces:
            words = [
                text[span.start : span.end]
                for span in self._tokenizer.tokenize_with_offsets(text)
                if span.token == self._unknown
            ]
            found.num_unknown += len(words)
            self._unknown_words.update(words)

    def _end_document(self) -> None:
        self._found.num_documents += self._document_lines > 0
        self._found.num_single_line_documents += self._document_lines == 1
        self._document_lines = 0

    def summary(self, lines: Iterable[str]) -> TextSummary:
        """Ends the last document; the lines are the same once more, to show
        those that are repeated."""
        self._end_document()
        num_repeated_lines, repeated = self._lines.repeats(NUM_EXAMPLES)
        sought = {line.fingerprint for line in repeated}
        shown: dict[int, str] = {}
        for line in map(str.strip, lines):
            if len(shown) == len(sought):
                break
            number = streaming_stats.fingerprint(line.encode())
            if number in sought:
                shown[number] = line[:SHOWN_CHARACTERS]
        return dataclasses.replace(
            self._found,
            num_repeated_lines=num_repeated_lines,
            repeated_lines=[(shown[x.fingerprint], x.times) for x in repeated],
            unknown_words=self._unknown_words.top(NUM_EXAMPLES),
        )


def hints(summary: TextSummary) -> list[str]:
    """Flags of create_pretraining_data.py, and a vocabulary, that suit the
    text."""
    lines, documents = summary.num_lines, summary.num_documents
    found = []
    if summary.num_long_lines > lines / 3:
        found.append(
            "these lines look like paragraphs: give "
            "create_pretraining_data.py `input_format=paragraphs`, which cuts "
            "them into sentences"
        )
    if documents == 1:
        found.append(
            "a single document has no second sentences for random pairs: put "
            "a blank line between documents, or give "
            "create_pretraining_data.py `sequence_format=full_sentences`"
        )
    elif summary.num_single_line_documents > documents / 2:
        found.append(
            "documents of a single line give random pairs only: put blank "
            "lines between documents only, or give "
            "create_pretraining_data.py `sequence_format=full_sentences`"
        )
    return [
        *map(with_flags, found),
        *vocabulary_hints(
            summary.num_unknown / max(1, summary.num_pieces),
            summary.num_pieces / max(1, summary.num_words),
        ),
    ]


def format_report(summary: TextSummary) -> str:
    """The summary as people read it."""
    share, lines = streaming_stats.format_share, summary.num_lines
    documents = summary.num_documents
    singles = summary.num_single_line_documents
    table = {
        "documents": f"{documents:,}",
        "  of a single line": share(singles, documents),
        "lines": f"{lines:,}",
        "  seen before": share(summary.num_repeated_lines, lines),
        f"  longer than {summary.room} tokens": share(
            summary.num_long_lines, lines
        ),
        "tokens": f"{summary.num_pieces:,}",
        "  [UNK]": f"{summary.num_unknown:,}",
        "  [UNK], share": share(summary.num_unknown, summary.num_pieces),
    }
    return "\n".join([
        streaming_stats.format_table(table),
        "tokens in a line",
        streaming_stats.format_lengths(summary.length_counts),
        *streaming_stats.format_top("unknown words", summary.unknown_words),
        *streaming_stats.format_top(
            "lines that come again", summary.repeated_lines
        ),
        *hints(summary),
    ])  # fmt: skip
