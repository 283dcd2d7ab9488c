"""Records as people read them: words, holes, labels and lengths.

Shapes: S positions of a record, P masked predictions; no batch axis.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from data.vocabulary import MASK, SEPARATOR, START

Record = Mapping[str, np.ndarray]  # a feature's name -> its numbers [length]


def format_record(record: Record, pieces: Sequence[str]) -> str:
    """A record in a few lines: its texts, its label, its lengths.

    Args:
      pieces: of the vocabulary, by their ids.
    """
    texts = [*_readable(record, pieces)]
    num_real = len(texts)
    segments = record["segment_ids"][record["input_mask"] == 1]
    lines = [
        f"{name}: {_join(texts, np.flatnonzero(segments == number))}"
        for number, name in enumerate("AB")
        if number in segments
    ]
    lines.append(
        f"{label(record) or 'no label'}; {num_real} of "
        f"{len(record['input_ids'])} pieces: {np.sum(segments == 0)} in A, "
        f"{np.sum(segments == 1)} in B"
    )
    if "masked_lm_positions" in record:
        lines.append(_predictions(record, pieces))
    elif "next_sentence_labels" in record:
        lines.append("no masks: they are drawn when it is read")
    if label(record) == "answer":
        start, end = record["start_positions"][0], record["end_positions"][0]
        answer = _join(texts, np.arange(start, end + 1))
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


def _readable(record: Record, pieces: Sequence[str]) -> Iterator[str]:
    """Each real position's text, with a space before it if it begins a word.

    un ##aff ##able sea, with a hole in ##aff and sea kept: " un",
    "[MASK->##aff]", "able", " [kept sea]". Google's random piece instead of
    sea: " [ship->sea]".
    """
    positions = record.get("masked_lm_positions", np.zeros(0, int))
    asked = set(positions[record.get("masked_lm_weights", positions) > 0])
    real = np.flatnonzero(record["input_mask"] == 1)
    shown = [pieces[i] for i in record["input_ids"][real]]
    wanted = [pieces[i] for i in original_ids(record)[0][real]]
    previous = START
    for position, seen, piece in zip(real, shown, wanted, strict=True):
        # A text that was cut inside a word keeps its "##" to show that.
        goes_on = _is_inner(piece) and previous not in (START, SEPARATOR)
        text = piece[2:] if goes_on else piece
        if position in asked:
            text = _hole(seen, piece)
        yield text if goes_on else f" {text}"
        previous = piece


def _hole(seen: str, piece: str) -> str:
    if seen == piece:
        return f"[kept {piece}]"
    return f"[{'MASK' if seen == MASK else seen}->{piece}]"


def _is_inner(piece: str) -> bool:
    return piece.startswith("##") and len(piece) > 2


def _join(texts: Sequence[str], places: np.ndarray) -> str:
    return "".join(texts[place] for place in places).strip()


def _predictions(record: Record, pieces: Sequence[str]) -> str:
    """19 of 20 predictions: 15 [MASK], 2 kept, 2 random."""
    asked = record["masked_lm_weights"] > 0
    seen = record["input_ids"][record["masked_lm_positions"][asked]]
    kept = seen == record["masked_lm_ids"][asked]
    num_asked, num_kept = len(seen), int(kept.sum())
    num_masked = sum(pieces[i] == MASK for i in seen[~kept])
    return (
        f"{num_asked} of {len(asked)} predictions: {num_masked} [MASK], "
        f"{num_kept} kept, {num_asked - num_masked - num_kept} random"
    )
