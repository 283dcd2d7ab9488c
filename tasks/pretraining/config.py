"""How a vocabulary, records and a model of a domain are made, for flags to take
defaults from, without TensorFlow."""

import dataclasses
import os

from bert_keras.data.vocabulary import MIN_FREQUENCY, NUM_UNUSED


@dataclasses.dataclass(frozen=True)
class VocabularyConfig:
    vocab_size: int = 30522  # tokens, special and [unused] ones included
    num_unused: int = NUM_UNUSED  # tokens kept free for words of your own
    do_lower_case: bool = True
    strip_accents: bool | None = None  # None: as do_lower_case
    min_frequency: int = MIN_FREQUENCY  # of a character or a pair of tokens


def num_cores() -> int:
    """That this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclasses.dataclass(frozen=True)
class RecordsConfig:
    """How records are made; what they are is InstanceConfig's."""

    sampler: str = "vectorized"  # or "google": its very records, on one core
    words_are_spaced: bool = False  # those of whole word masking
    num_workers: int | None = None  # None: one per core
    worker_memory_mb: int = 512  # MiB of each one's data
    runner: str | None = None  # of Apache Beam; None: workers of our own


@dataclasses.dataclass(frozen=True)
class DomainConfig:
    """What the command has flags for, beside the model's files."""

    general_file: str | None = None  # text on which forgetting is measured
    input_format: str = "paragraphs"
    text_field: str = "text"
    max_seq_length: int = 128  # tokens
    masked_lm_prob: float = 0.3
    learning_rate: float = 1e-4
    train_batch_size: int = 64
    eval_steps: int = 200  # between evaluations on the held-out text
