"""Records as people read them: words, holes, labels and lengths.

Shapes: S positions of a record, P masked predictions; no batch axis.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from bert_keras.data.bpe import SPACE, read_bytes
from bert_keras.data.special_tokens import BERT, ROBERTA, SpecialTokens

Record = Mapping[str, np.ndarray]  # a feature's name -> its numbers [length]


@dataclasses.dataclass(frozen=True)
class PieceFormatter:
    """How the pieces of a vocabulary are read."""

    pieces: Sequence[str]  # by their ids
    special_tokens: SpecialTokens = BERT

    @property
    def is_bytes(self) -> bool:
        return self.special_tokens == ROBERTA

    def goes_on(self, piece: str, previous: str) -> bool:
        """Whether it is a part of the word before. A text that was cut inside a
        word keeps its "##" to show that; bytes say themselves where a space
        is."""
        ends = self.special_tokens.start, self.special_tokens.end
        is_inner = piece.startswith("##") and len(piece) > 2
        return self.is_bytes or (is_inner and previous not in ends)

    def bare(self, piece: str) -> str:
        return piece if self.is_bytes else piece[2:]

    def hole(self, seen: str, piece: str) -> str:
        if seen == piece:
            return f"[kept{SPACE if self.is_bytes else ' '}{piece}]"
        shown = "MASK" if seen == self.special_tokens.mask else seen
        return f"[{shown}->{piece}]"

    def read(self, texts: Sequence[str]) -> str:
        joined = "".join(texts)
        return read_bytes(joined) if self.is_bytes else joined.strip()


def format_record(record: Record, script: PieceFormatter) -> str:
    """A record in a few lines: its texts, its label, its lengths."""
    texts = [*_readable(record, script)]
    num_real = len(texts)
    segments = record["segment_ids"][record["input_mask"] == 1]
    lines = [
        f"{name}: {_join(texts, np.flatnonzero(segments == number), script)}"
        for number, name in enumerate("AB")
        if number in segments
    ]
    lines.append(
        f"{label(record) or 'no label'}; {num_real} of "
        f"{len(record['input_ids'])} pieces: {np.sum(segments == 0)} in A, "
        f"{np.sum(segments == 1)} in B"
    )
    if "masked_lm_positions" in record:
        lines.append(_predictions(record, script))
    elif "segment_lengths" in record:
        lines.append("no masks: they are drawn when it is read")
    if label(record) == "answer":
        start, end = record["start_positions"][0], record["end_positions"][0]
        answer = _join(texts, np.arange(start, end + 1), script)
        lines.append(f"answer at {start} to {end}: {answer}")
    return "".join(f"  {line}\n" for line in lines)


def format_fill(sequences: Sequence[Record]) -> str:
    """How much a packed row holds."""
    count = len(sequences)
    if not count:
        return "packed: nothing"
    real = sum(int(record["input_mask"].sum()) for record in sequences)
    asked = sum(int(record["masked_lm_weights"].sum()) for record in sequences)
    return (
        f"packed: {count} sequence{'s' * (count > 1)}, "
        f"{real} of {len(sequences[0]['input_mask'])} pieces, "
        f"{asked} of {len(sequences[0]['masked_lm_weights'])} predictions"
    )


def label(record: Record) -> str:
    """What is to be predicted of the whole record, in a word; "": nothing."""
    if "is_real_example" in record and not record["is_real_example"][0]:
        return "padding"
    if "next_sentence_labels" in record:
        return ("is next", "random next")[record["next_sentence_labels"][0]]
    if "label_ids" in record:
        return "label " + " ".join(f"{n:g}" for n in record["label_ids"])
    if "is_impossible" in record:
        return ("answer", "no answer")[record["is_impossible"][0]]
    return ""


def original_ids(batch: Mapping[str, np.ndarray]) -> np.ndarray:
    """The ids [B, S] before anything was masked; B = 1 for one record."""
    ids = np.atleast_2d(batch["input_ids"]).copy()
    if "masked_lm_positions" in batch:
        row, place = np.nonzero(np.atleast_2d(batch["masked_lm_weights"]) > 0)
        positions = np.atleast_2d(batch["masked_lm_positions"])[row, place]
        labels = np.atleast_2d(batch["masked_lm_ids"])[row, place]
        ids[row, positions] = labels
    return ids


def _readable(record: Record, script: PieceFormatter) -> Iterator[str]:
    """Each real position's text, with a space before it if it begins a word.

    un ##aff ##able sea, with a hole in ##aff and sea kept: " un",
    "[MASK->##aff]", "able", " [kept sea]". Google's random piece instead of
    sea: " [ship->sea]". Bytes are as they stand, with U+0120 for a space.
    """
    positions = record.get("masked_lm_positions", np.zeros(0, int))
    asked = set(positions[record.get("masked_lm_weights", positions) > 0])
    real = np.flatnonzero(record["input_mask"] == 1)
    shown = [script.pieces[i] for i in record["input_ids"][real]]
    wanted = [script.pieces[i] for i in original_ids(record)[0][real]]
    previous = script.special_tokens.start
    for position, seen, piece in zip(real, shown, wanted, strict=True):
        goes_on = script.goes_on(piece, previous)
        text = script.bare(piece) if goes_on else piece
        if position in asked:
            text = script.hole(seen, piece)
        yield text if goes_on else f" {text}"
        previous = piece


def _join(
    texts: Sequence[str], places: np.ndarray, script: PieceFormatter
) -> str:
    return script.read([texts[place] for place in places])


def _predictions(record: Record, script: PieceFormatter) -> str:
    """19 of 20 predictions: 15 [MASK], 2 kept, 2 random."""
    asked = record["masked_lm_weights"] > 0
    seen = record["input_ids"][record["masked_lm_positions"][asked]]
    kept = seen == record["masked_lm_ids"][asked]
    num_asked, num_kept = len(seen), int(kept.sum())
    mask = script.special_tokens.mask
    num_masked = sum(script.pieces[i] == mask for i in seen[~kept])
    return (
        f"{num_asked} of {len(asked)} predictions: {num_masked} {mask}, "
        f"{num_kept} kept, {num_asked - num_masked - num_kept} random"
    )
