"""What text files hold: sentences, paragraphs, or documents as JSON lines.

All become what google-research/bert reads: a sentence a line, a blank line
between documents. Paragraphs are cut into sentences by the sentencex library,
which has rules for many languages.
"""

import dataclasses
import re
from collections.abc import Iterator

import sentencex

from bert_keras.data.text_files import without_half_characters
from bert_keras.files import parse_json


@dataclasses.dataclass(frozen=True)
class TextFormat:
    input_format: str = "sentences"  # or paragraphs, jsonl: what a line is
    text_field: str = "text"  # of a JSON line
    language: str = "en"  # ISO 639's code, to cut sentences by

    @property
    def document_end(self) -> "re.Pattern[bytes]":
        """What a document ends with, white space in ASCII at least."""
        is_jsonl = self.input_format == "jsonl"
        return re.compile(rb"\n" if is_jsonl else rb"\n[ \t\r]*\n")

    def to_sentences(self, block: bytes) -> bytes:
        """A block of whole documents, a sentence a line.

        Raises:
            UnicodeDecodeError: it is not UTF-8.
            LineError: a line is not of this format.
        """
        if self.input_format == "sentences":
            return block
        is_jsonl = self.input_format == "jsonl"
        to_lines = self._from_json if is_jsonl else self._from_paragraphs
        lines = to_lines(block.decode())
        return "".join(f"{line}\n" for line in lines).encode()

    def _from_paragraphs(self, text: str) -> Iterator[str]:
        for paragraph in text.split("\n"):
            sentences = sentencex.segment(self.language, paragraph)
            stripped = [sentence.strip() for sentence in sentences]
            # a paragraph without a sentence is a blank line
            yield from filter(None, stripped) if any(stripped) else [""]

    def _from_json(self, text: str) -> Iterator[str]:
        for number, line in enumerate(text.split("\n")):
            if not line.strip():
                continue
            try:
                document = parse_json(line)
            except ValueError as error:
                raise LineError(number, f"is not JSON ({error})") from error
            is_object = isinstance(document, dict)
            found = document.get(self.text_field) if is_object else None
            if not isinstance(found, str):
                raise LineError(
                    number,
                    f"has no text in the field `text_field={self.text_field}`",
                )
            for paragraph in without_half_characters(found).split("\n"):
                if paragraph.strip():
                    yield from self._from_paragraphs(paragraph)
            yield ""


@dataclasses.dataclass(eq=False)
class LineError(Exception):
    """A line that cannot be used."""

    number: int  # of the line in its block, from 0
    fault: str  # the rest of a sentence that the line begins
