"""Record files as a tf.data.Dataset, for training loops of your own."""

import itertools
import os
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from bert_keras.data.batching import checked_batch_size
from bert_keras.data.dynamic_masking import BatchMasker
from bert_keras.data.input_pipeline import (
    Batch,
    RecordBatches,
    evaluation_batches,
)
from bert_keras.data.masking import MaskConfig, read_masking_vocabulary
from bert_keras.data.record_schema import Feature, HostShard
from bert_keras.data.text_files import expand_patterns
from bert_keras.data.tokenizer_folder import open_tokenizer
from bert_keras.data.validate_records import (
    Found,
    Kind,
    check_files,
    kind_of,
    read_first,
    table_of,
)
from bert_keras.errors import InputError

MAX_BATCHES = 2**62


def record_dataset(
    input_file: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    batch_size: int,
    vocab_file: str | os.PathLike[str] | None = None,
    shuffle: bool = True,
    seed: int = 12345,
    masks: MaskConfig | None = None,
    max_seq_length: int | None = None,
    shard: tuple[int, int] = (0, 1),
) -> tf.data.Dataset:
    """Batches of records, of ours or Google's, of any kind: with masks or
    without, packed or not, of pre-training or of a task.

    The batches are those that run_pretraining.py makes with the same seed.

    Examples:
        >>> data = bert_keras.record_dataset("records.tfrecord", batch_size=8)
        >>> for batch in data.take(1):
        ...     print(batch["input_ids"].shape, batch["masked_lm_ids"].shape)
        (8, 32) (8, 20)

    Args:
        input_file: comma-separated names and globs, also on gs://; or a
            pathlib.Path, or a list of these.
        batch_size: rows of the global batch.
        vocab_file: of records without masks, which are masked anew in each
            epoch; else it only bounds the ids.
        shuffle: whether the batches are shuffled and never end; else they come
            in the order of the files, once, the last filled up with rows of
            zeros.
        masks: how many tokens of unmasked records are masked, and how; None:
            Google's 15 %.
        max_seq_length: length of an example in tokens. Required for records
            without masks.
        shard: this host's number, from 0, and the number of hosts: each gets
            its rows of every global batch.

    Returns:
        Dictionaries by the records' names, each int32 or float32 [B, length].

    Raises:
        InputError: the files are missing, or of several kinds; or the batch
            size, the seed or the host does not exist.
    """
    batch_size = checked_batch_size(batch_size)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"`seed` is {seed!r}; expected a whole number from 0")
    index, count = shard
    if not 0 <= index < count <= batch_size:
        raise InputError(
            f"`shard` is {shard}; expected the number of a host, from 0, and "
            f"how many there are, at most `batch_size={batch_size}`"
        )
    if isinstance(input_file, str | os.PathLike):
        input_file = [os.fspath(input_file)]
    paths = expand_patterns(",".join(os.fspath(name) for name in input_file))
    found = read_first(paths[0])
    masks = masks or MaskConfig()
    features = _features(found, masks, max_seq_length)
    if max_seq_length is None and any(f.is_trimmed for f in features):
        raise InputError(
            f"{paths[0]} has records that end with their text: give "
            "`max_seq_length`, the positions of an example"
        )
    vocab_size = 2**31 - 1
    masker, share = None, HostShard(index, count)
    if vocab_file:
        opened = open_tokenizer(None, os.fspath(vocab_file))
        assert opened
        tokenizer = opened.load()
        vocab_size = max(tokenizer.vocab.values()) + 1
        if kind_of(found) is Kind.UNMASKED:
            vocabulary = read_masking_vocabulary(
                tokenizer.vocab, tokenizer.special_tokens
            )
            # Without shuffling the mask is of all rows, and then shared out.
            own = share if shuffle else HostShard()
            masker = BatchMasker(vocabulary, masks, seed, own)
    elif kind_of(found) is Kind.UNMASKED:
        raise InputError(
            f"{paths[0]} has records without masks: give `vocab_file`, whose "
            "tokens they are masked with"
        )
    check_files(paths, features, vocab_size)

    def batches() -> Iterator[Batch]:
        what = paths, features, batch_size
        how = vocab_size, share, masker
        if not shuffle:
            return evaluation_batches(*what, MAX_BATCHES, *how)
        source = RecordBatches(*what, seed, *how)
        return map(source.batch, itertools.count())

    first = next(batches())
    signature = {
        name: tf.TensorSpec(x.shape, x.dtype) for name, x in first.items()
    }
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


def _features(
    found: Found, masks: MaskConfig, max_seq_length: int | None
) -> tuple[Feature, ...]:
    """The table of pre-training, else what the first record has."""
    if kind_of(found) is None:
        return tuple(
            Feature(name, len(value.float_list.value), "float32")
            if value.WhichOneof("kind") == "float_list"
            else Feature(name, len(value.int64_list.value))
            for name, value in sorted(found.items())
        )
    length = max_seq_length or len(found["input_ids"].int64_list.value)
    number = masks.max_predictions_per_seq
    if "masked_lm_positions" in found:
        number = len(found["masked_lm_positions"].int64_list.value)
    return table_of(found, length, number)
