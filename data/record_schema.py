"""What records hold: the one table that writes, parses and checks them.

Features and names are google-research/bert's (create_pretraining_data.py,
write_instance_to_example_files; run_pretraining.py, input_fn_builder).
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

Batch = Mapping[str, np.ndarray]  # a feature's name -> [records, length]

NEXT_SENTENCE = "next_sentence_labels"
SEQUENCE = "max_seq_length"
PREDICTIONS = "max_predictions_per_seq"


@dataclasses.dataclass(frozen=True)
class HostShard:
    """Rows index, index + count, ... of every global batch: one host's."""

    index: int = 0
    count: int = 1


@dataclasses.dataclass(frozen=True)
class Feature:
    """One list of numbers in a record."""

    name: str
    length: int
    dtype: str = "int64"  # or "float32"
    length_argument: str = ""  # that sets the length; "": always this
    limit: int | None = None  # values lie in [0, limit); None: no upper limit
    is_piece_id: bool = False  # values lie in [0, vocab_size)
    is_trimmed: bool = False  # zeros at the end are left out
    is_weight: bool = False  # values lie in [0, 1]

    def upper_limit(self, vocab_size: int | None) -> int | None:
        """Values are below it; None: no limit."""
        return vocab_size if self.is_piece_id else self.limit

    def bounds(self, vocab_size: int | None) -> tuple[float, float]:
        """The least and the largest value; without a limit the largest that an
        int32 has, or of floats the largest that are finite."""
        if self.dtype != "int64":
            most = 1.0 if self.is_weight else float(np.finfo("float32").max)
            return 0.0 if self.is_weight else -most, most
        limit = self.upper_limit(vocab_size)
        return 0, np.iinfo("int32").max if limit is None else limit - 1


def pretraining_features(
    max_seq_length: int,
    max_predictions_per_seq: int,
    type_vocab_size: int | None = None,
) -> tuple[Feature, ...]:
    """Sentence pairs with masked tokens; 1 in next_sentence_labels: random.
    The reading model's `type_vocab_size` is there to check segment_ids."""
    return (
        *_input_features(max_seq_length, type_vocab_size),
        *_prediction_features(max_seq_length, max_predictions_per_seq),
        Feature(NEXT_SENTENCE, 1, limit=2),
    )


def packed_features(
    max_seq_length: int,
    max_predictions_per_seq: int,
    max_sequences_per_pack: int,
    type_vocab_size: int | None = None,
) -> tuple[Feature, ...]:
    """A row of several pre-training records; lengths are of the row.

    position_ids begin at 0 in each sequence; sequence_numbers are 1, 2, ... and
    0 in padding; next_sentence_positions are where each sequence begins.
    """
    sequence = max_seq_length, "int64", SEQUENCE
    numbers = max_sequences_per_pack + 1
    return (
        Feature("input_ids", *sequence, is_piece_id=True),
        Feature("segment_ids", *sequence, limit=type_vocab_size),
        Feature("position_ids", *sequence, limit=max_seq_length),
        Feature("sequence_numbers", *sequence, limit=numbers),
        *_prediction_features(max_seq_length, max_predictions_per_seq),
        Feature(
            "next_sentence_positions",
            max_sequences_per_pack,
            limit=max_seq_length,
        ),
        Feature(NEXT_SENTENCE, max_sequences_per_pack, limit=2),
        Feature(
            "next_sentence_weights",
            max_sequences_per_pack,
            "float32",
            is_weight=True,
        ),
    )


def unmasked_features(max_seq_length: int) -> tuple[Feature, ...]:
    """Sentence pairs whose masks are drawn when they are read; segment_lengths
    are A's, with [CLS] and all [SEP] up to B, and B's: 0 where there is none.
    """
    return (
        Feature(
            "input_ids",
            max_seq_length,
            length_argument=SEQUENCE,
            is_piece_id=True,
            is_trimmed=True,
        ),
        Feature("segment_lengths", 2, limit=max_seq_length + 1),
        Feature(NEXT_SENTENCE, 1, limit=2),
    )


def without_next_sentence(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """The same records, made for the masked language model alone."""
    return tuple(f for f in features if f.name != NEXT_SENTENCE)


def has_next_sentence(features: Iterable[Feature]) -> bool:
    return any(feature.name == NEXT_SENTENCE for feature in features)


def classifier_features(
    max_seq_length: int, label: Feature, type_vocab_size: int | None = None
) -> tuple[Feature, ...]:
    """One text or a pair, with what is to be predicted of it: label_ids, of
    which upstream's is one int64, the number of a class."""
    return (
        *_input_features(max_seq_length, type_vocab_size),
        label,
        Feature("is_real_example", 1, limit=2),
    )


def span_features(
    max_seq_length: int, has_answers: bool, type_vocab_size: int | None = None
) -> tuple[Feature, ...]:
    """A question and a window of its paragraph; positions are of tokens."""
    answers = (
        Feature("start_positions", 1, limit=max_seq_length),
        Feature("end_positions", 1, limit=max_seq_length),
        Feature("is_impossible", 1, limit=2),
    )
    return (
        Feature("unique_ids", 1),
        *_input_features(max_seq_length, type_vocab_size),
        *(answers if has_answers else ()),
    )


def _input_features(
    max_seq_length: int, type_vocab_size: int | None
) -> tuple[Feature, ...]:
    sequence = max_seq_length, "int64", SEQUENCE
    return (
        Feature("input_ids", *sequence, is_piece_id=True),
        Feature("input_mask", *sequence, limit=2),
        Feature("segment_ids", *sequence, limit=type_vocab_size),
    )


def _prediction_features(
    max_seq_length: int, max_predictions_per_seq: int
) -> tuple[Feature, ...]:
    predictions = max_predictions_per_seq, "int64", PREDICTIONS
    weights = max_predictions_per_seq, "float32", PREDICTIONS
    return (
        Feature("masked_lm_positions", *predictions, limit=max_seq_length),
        Feature("masked_lm_ids", *predictions, is_piece_id=True),
        Feature("masked_lm_weights", *weights, is_weight=True),
    )
