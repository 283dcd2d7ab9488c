"""Text files of any size -> their tokens on disk, a span of a file at a time.

Text is UTF-8, plain or .gz: sentences, paragraphs, or documents as JSON lines.
All become what google-research/bert reads, a sentence a line with a blank line
between documents; the sentencex library, which has rules for many languages,
cuts paragraphs. A plain file is read in spans of equal size, each beginning and
ending where a document does, so that several processes can share it.

A span's tokens lie in three files of numbers: ids, the length of each sentence
in tokens, and the length of each document in sentences.

Shapes: N tokens and D documents of a block.
"""

import codecs
import contextlib
import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
import sentencex
import tensorflow as tf
from tqdm import tqdm

from bert_keras import files
from bert_keras.data import text_files
from bert_keras.data.fast_tokenization import BlockTokenizer
from bert_keras.data.instances import Summary
from bert_keras.data.segment_sampling import Text
from bert_keras.data.tokenization import is_ideograph
from bert_keras.errors import InputError, warn

BLOCK_BYTES = 1 << 19  # of text in memory at once, but for longer documents
LEAST_SPAN_BYTES = 1 << 20  # so little that workers seldom wait for the last
MAX_SPANS = 4096
MAX_DOCUMENT_BYTES = 1 << 28
SUFFIXES = (".ids", ".sentences", ".documents")
DEALING = 1  # sets this use of the seed apart from the others
# What sentencex has rules for; and Chinese, whose full stops all of them know.
LANGUAGES = (
    "am", "ar", "bg", "bn", "ca", "da", "de", "el", "en", "es", "fi", "fr",
    "gu", "hi", "hy", "it", "ja", "kk", "kn", "ml", "mr", "my", "nl", "pa",
    "pl", "pt", "ru", "sk", "ta", "te", "uk", "zh",
)  # fmt: skip
# No rules but those of English cut this so.
CUT_IN_ENGLISH = ["Sgt. Brown of Acme Inc. Ohio came in Sept. ", "Maybe."]


class FaultyText(InputError):
    """The text itself has to change, or the flags that say what it is."""


@dataclasses.dataclass(eq=False)
class LineError(Exception):
    """A line that cannot be used."""

    number: int  # of the line in its block, from 0
    fault: str  # the rest of a sentence that the line begins


@dataclasses.dataclass(frozen=True)
class TextFormat:
    input_format: str = "sentences"  # or paragraphs, jsonl: what a line is
    text_field: str = "text"  # of a JSON line
    language: str = "en"  # ISO 639's code, to cut sentences by

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", _with_rules(self.language))
        if self.text_field != "text" and self.input_format != "jsonl":
            raise InputError(
                f"`text_field={self.text_field}` is for `input_format=jsonl`, "
                f"and `input_format` is {self.input_format}; leave it out"
            )
        if self.language != "en" and self.input_format == "sentences":
            raise InputError(
                f"`language={self.language}` says how to cut text into "
                "sentences, and `input_format=sentences` has one a line; leave "
                "it out"
            )

    @property
    def document_end(self) -> "re.Pattern[bytes]":
        """What a document ends with, white space in ASCII at least."""
        is_jsonl = self.input_format == "jsonl"
        return re.compile(rb"\n" if is_jsonl else rb"\n[ \t\r]*\n")

    @property
    def lone_return(self) -> bytes:
        """What stands for a "\\r" in a line: nothing in Google's format."""
        return b"" if self.input_format == "sentences" else b" "

    def to_sentences(self, block: bytes) -> bytes:
        """A block of whole documents, a sentence a line, without the byte-order
        mark that a file may begin with.

        Raises:
            UnicodeDecodeError: it is not UTF-8.
            LineError: a line is not of this format.
        """
        block = block.removeprefix(codecs.BOM_UTF8)
        if self.input_format == "sentences":
            return block
        is_jsonl = self.input_format == "jsonl"
        to_lines = self._from_json if is_jsonl else self._from_paragraphs
        lines = to_lines(block.decode())
        return "".join(f"{line}\n" for line in lines).encode()

    def check(self, paths: Iterable[str]) -> None:
        """Raises an InputError if the first line of a file, blank ones apart,
        is not of this format."""
        for path in paths:
            next(self.texts(path, text_files.read_lines(path)), None)

    def read(self, paths: Iterable[str]) -> Iterator[str]:
        """The `texts` of files, with a progress bar in bytes."""
        with tqdm(desc="reading", unit="B", unit_scale=True) as bar:
            for path in paths:
                lines = text_files.read_lines(
                    path, bar.update, self.lone_return
                )
                yield from self.texts(path, lines)

    def texts(self, name: str, lines: Iterable[str]) -> Iterator[str]:
        """What lines hold, blank ones apart: text, or a document.

        Args:
            name: of the file, for errors.

        Raises:
            InputError: a line of JSON has no document, or the first line of
                what should be text is JSON.
        """
        is_first = True
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            if self.input_format == "jsonl":
                try:
                    line = self.text_of(line)
                except ValueError as error:
                    raise InputError(
                        f"{name}, line {number} {error}"
                    ) from error
            elif is_first and _is_json(line):
                raise InputError(
                    f"{name}, line {number} looks like JSON, and "
                    f"`input_format={self.input_format}` would take it for "
                    "text; give `input_format=jsonl`, with an object in each "
                    "line, and `text_field` for the key of the text"
                )
            is_first = False
            yield line

    def _from_paragraphs(self, text: str) -> Iterator[str]:
        # A tokenizer drops "\r", which would join the words around it.
        for paragraph in text.replace("\r", " ").split("\n"):
            sentences = sentencex.segment(self.language, paragraph)
            stripped = [sentence.strip() for sentence in sentences]
            # a paragraph without a sentence is a blank line
            yield from filter(None, stripped) if any(stripped) else [""]

    def _from_json(self, text: str) -> Iterator[str]:
        for number, line in enumerate(text.split("\n")):
            if not line.strip():
                continue
            try:
                found = self.text_of(line)
            except ValueError as error:
                raise LineError(number, str(error)) from error
            for paragraph in found.replace("\r", "\n").split("\n"):
                if paragraph.strip():
                    yield from self._from_paragraphs(paragraph)
            yield ""

    def text_of(self, line: str) -> str:
        """The document in a line of JSON.

        Raises:
            ValueError: it has none. Ends a sentence that the line begins.
        """
        try:
            # files that were put together may each have a byte-order mark
            document = files.parse_json(line.removeprefix("\ufeff"))
        except ValueError as error:
            raise ValueError(f"is not JSON ({error})") from error
        found = (
            document.get(self.text_field) if isinstance(document, dict) else 0
        )
        if not isinstance(found, str):
            raise ValueError(
                f"has no text in the field `text_field={self.text_field}`"
            )
        return text_files.without_half_characters(found)


def _is_json(line: str) -> bool:
    """Whether it is an object, a list of objects, or the first line of either,
    which a line of text hardly is."""
    if line.strip() in ("{", "["):
        return True
    try:
        found = files.parse_json(line)
    except ValueError:
        return False
    if isinstance(found, list):
        return any(isinstance(x, dict) for x in found)
    return isinstance(found, dict)


def _with_rules(language: str) -> str:
    """The code as sentencex has it, "de" for "DE" and "de-DE". To a code that
    it does not know it would apply the rules of English without a word.

    Raises:
        InputError: it has no rules for the language, nor for a related one.
    """
    code = language.lower().replace("_", "-")
    for found in (code, code.partition("-")[0]):
        cut = sentencex.segment(found, "".join(CUT_IN_ENGLISH))
        if found in LANGUAGES or cut != CUT_IN_ENGLISH:
            return found
    raise InputError(
        f"`language={language}` has no rules for sentences; expected one of "
        f"{', '.join(LANGUAGES)}, or a code that sentencex relates to one; "
        "en may do for others that end sentences with a full stop"
    )


class Stretch(NamedTuple):
    """Bytes of a file; documents that begin in it belong to it."""

    path: str
    start: int
    stop: int | None  # None: to its end, which nobody has looked for


FileSpan = tuple[Stretch, ...]  # one, or some of small files


class Block(NamedTuple):
    """Some documents; a length for each sentence and for each document."""

    ids: np.ndarray  # [N], tokens end to end
    sentences: np.ndarray  # int32, in tokens
    documents: np.ndarray  # int32 [D], in sentences


def find_spans(paths: Sequence[str]) -> list[FileSpan]:
    """Cuts the files, and puts small ones together: some thousand at most."""
    sizes = []
    for path in paths:
        with files.reading(path):
            sizes.append(tf.io.gfile.stat(path).length)
        if not sizes[-1]:
            warn(f"{path} is empty")
    span_bytes = max(LEAST_SPAN_BYTES, -(-sum(sizes) // MAX_SPANS))
    spans: list[list[Stretch]] = []
    room = 0  # in the last of them
    for path, size in zip(paths, sizes, strict=True):
        stretches = [
            Stretch(path, start, start + span_bytes)
            for start in range(0, size, span_bytes)
        ]
        if path.endswith(".gz"):
            stretches = [Stretch(path, 0, None)]
        for stretch in stretches:
            num_bytes = min(size - stretch.start, span_bytes)
            if not spans or num_bytes > room:
                spans.append([])
                room = span_bytes
            spans[-1].append(stretch)
            room -= num_bytes
    return list(map(tuple, spans))


def tokenize_span(
    span: FileSpan,
    text_format: TextFormat,
    tokenizer: BlockTokenizer,
    prefix: str,
    id_type: Any,
) -> Summary:
    """Writes the span's files; raises what `tokenize` raises."""
    total = Summary()
    with contextlib.ExitStack() as stack:
        outputs = [
            stack.enter_context(open(f"{prefix}{suffix}", "wb"))
            for suffix in SUFFIXES
        ]
        for block, counts in tokenize(span, text_format, tokenizer, id_type):
            for file, numbers in zip(outputs, block, strict=True):
                file.write(numbers.tobytes())
            total += counts
        for file in outputs:
            file.flush()
            os.fsync(file.fileno())
    return total


def tokenize(
    span: FileSpan,
    text_format: TextFormat,
    tokenizer: BlockTokenizer,
    id_type: Any,
) -> Iterator[tuple[Block, Summary]]:
    """The span's documents, some at a time, and their counts.

    Raises:
        InputError: the file cannot be read.
        FaultyText: a line is not UTF-8 or not of the format, or a document is
            too long.
    """
    vocab = tokenizer.tokenizer.vocab
    unknown = vocab[tokenizer.tokenizer.special_tokens.unknown]
    ideographs = np.array(
        [vocab[piece] for piece in vocab if is_ideograph(piece)], np.int64
    )
    continued = np.array(
        [number for piece, number in vocab.items() if piece.startswith("##")],
        np.int64,
    )
    for path, start, stop in span:
        for offset, text in _read_blocks(
            path, start, stop, text_format.document_end
        ):
            try:
                lines = tokenizer.encode(text_format.to_sentences(text))
            except (UnicodeDecodeError, LineError) as error:
                raise _name_line(path, offset, error) from error
            # Blank lines end documents.
            has_pieces = lines.lengths > 0
            documents = np.bincount(np.cumsum(lines.is_blank)[has_pieces])
            block = Block(
                lines.ids.astype(id_type),
                lines.lengths[has_pieces].astype(np.int32),
                documents[documents > 0].astype(np.int32),
            )
            counts = Summary(
                num_documents=len(block.documents),
                num_sentences=len(block.sentences),
                num_pieces=len(block.ids),
                num_unknown=int(np.sum(block.ids == unknown)),
                num_ideographs=int(np.isin(block.ids, ideographs).sum()),
                num_continued=int(np.isin(block.ids, continued).sum()),
            )
            yield block, counts


def _read_blocks(
    path: str, start: int, stop: int | None, document_end: "re.Pattern[bytes]"
) -> Iterator[tuple[int, bytes]]:
    """Whole documents, some at a time, with their place in the file."""
    with files.open_unpacked(path) as file:
        offset = _next_document(file, path, document_end, start)
        stop = stop and _next_document(file, path, document_end, stop)
        file.seek(offset)
        rest = b""
        while True:
            # more each time, lest a long document be copied again and again
            wanted = max(BLOCK_BYTES, len(rest))
            if stop is not None:
                wanted = min(wanted, stop - offset - len(rest))
            data = file.read(wanted)
            if not data:
                break
            rest += data
            ends = [match.end() for match in document_end.finditer(rest)]
            if ends:
                yield offset, rest[: ends[-1]]
                offset += ends[-1]
                rest = rest[ends[-1] :]
            _check_length(path, len(rest))
        if rest:
            yield offset, rest


def _next_document(
    file: IO[bytes], path: str, document_end: "re.Pattern[bytes]", offset: int
) -> int:
    """Where the first document begins that does so after `offset`."""
    if not offset:
        return 0
    file.seek(offset)
    num_seen, rest = 0, b""
    while data := file.read(BLOCK_BYTES):
        rest += data
        if match := document_end.search(rest):
            return offset + num_seen + match.end()
        # The end of a document may begin in what is blank.
        blank = len(rest) - len(rest.rstrip(b" \t\r\n"))
        num_seen += len(rest) - blank
        rest = rest[len(rest) - blank :]
        _check_length(path, num_seen)
    return offset + num_seen + len(rest)


def _check_length(path: str, num_bytes: int) -> None:
    if num_bytes > MAX_DOCUMENT_BYTES:
        raise FaultyText(
            f"{path} has a document of more than {MAX_DOCUMENT_BYTES >> 20} "
            "MiB; put a blank line between documents, or say by "
            "`input_format` what a line is"
        )


def _name_line(
    path: str, offset: int, error: UnicodeDecodeError | LineError
) -> FaultyText:
    """A block's error as a sentence with file and line; the lines before the
    block are counted only now."""
    if isinstance(error, LineError):
        number, fault = error.number, error.fault
    else:
        before = error.object[: error.start]
        number = before.count(b"\n")
        column = error.start - before.rfind(b"\n")
        fault = (
            f"is not UTF-8 text: byte 0x{error.object[error.start]:02x} at "
            f"column {column}"
        )
    with files.open_unpacked(path) as file:
        while offset:
            part = file.read(min(offset, BLOCK_BYTES))
            number += part.count(b"\n")
            offset -= len(part)
    return FaultyText(f"{path}, line {number + 1} {fault}")


def load_share(
    prefixes: Sequence[str], id_type: Any, part: int, num_parts: int, seed: int
) -> Text:
    """One of num_parts random shares of all documents, from spans' files."""
    found = []
    num_dealt = 0
    for number, prefix in enumerate(prefixes):
        columns = []
        for suffix in SUFFIXES:
            path = prefix + suffix
            kind = id_type if suffix == SUFFIXES[0] else np.int32
            # an empty file cannot be mapped
            has_any = os.path.getsize(path) > 0
            columns.append(
                np.memmap(path, kind, "r") if has_any else np.array([], kind)
            )
        span = Block(*columns)
        num_documents = len(span.documents)
        parts = assign_shards(number, num_documents, num_dealt, num_parts, seed)
        found.append(take(span, np.flatnonzero(parts == part)))
        num_dealt += num_documents
    return concatenate(found)


def assign_shards(
    number: int, num_documents: int, num_dealt: int, num_parts: int, seed: int
) -> np.ndarray:
    """Which part each document [D] of a span goes to.

    Each span's documents are shuffled and dealt out like cards, going on where
    the spans before stopped. So all parts have as many, to within one, and a
    part's come from anywhere in the corpus.

    Args:
        number: of the span, from 0.
        num_dealt: documents in the spans before.
    """
    rng = np.random.default_rng([seed, DEALING, number])
    parts = np.empty(num_documents, np.int64)
    cards = np.arange(num_dealt, num_dealt + num_documents)
    parts[rng.permutation(num_documents)] = cards % num_parts
    return parts


def take(block: Block, chosen: np.ndarray) -> Block:
    """The documents of these numbers."""
    ends = _ends(block.documents)
    piece_ends = _ends(block.sentences)[ends]
    ids, sentences = [block.ids[:0]], [block.sentences[:0]]
    for document in chosen.tolist():
        ids.append(block.ids[slice(*piece_ends[document : document + 2])])
        sentences.append(block.sentences[slice(*ends[document : document + 2])])
    return Block(
        np.concatenate(ids), np.concatenate(sentences), block.documents[chosen]
    )


def concatenate(blocks: Sequence[Block]) -> Text:
    ids, sentences, documents = map(np.concatenate, zip(*blocks, strict=True))
    return Text(ids, _ends(sentences), _ends(documents))


def _ends(lengths: np.ndarray) -> np.ndarray:
    """[3, 2] -> [0, 3, 5], in int64."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
