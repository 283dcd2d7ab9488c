"""Your own tf.data.Dataset of examples as batches to train on, in an order that
a stopped run resumes.

Unlike data/input_pipeline.py, whose place is a few numbers, the whole state of
the iterator is saved, buffers included.

Shapes: B rows of the global batch.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_keras.data.input_pipeline import Batch, Masker, batch_maker
from bert_keras.data.record_schema import (
    NEXT_SENTENCE,
    Feature,
    HostShard,
    packed_features,
    pretraining_features,
    unmasked_features,
    without_next_sentence,
)
from bert_keras.data.validate_records import (
    MASKED_LM_WEIGHTS,
    MAX_UNMASKED,
    Kind,
    kind_of,
    masks_alone,
)
from bert_keras.errors import InputError, first_line

REFUSE_STATE = 2  # of tf.data.experimental.ExternalStatePolicy
NUM_AHEAD = 2  # batches
SHUFFLES = ("Shuffle", "Random")  # in the names of operations with two seeds


def features_of(
    dataset: tf.data.Dataset, type_vocab_size: int | None = None
) -> tuple[Feature, ...]:
    """The table of what a dataset's examples hold.

    Raises:
        InputError: they are not examples of pre-training, one each element.
    """
    spec = dataset.element_spec
    if not isinstance(spec, dict):
        raise InputError(
            "the dataset's elements are not dictionaries; expected tensors by "
            "the names of features, such as input_ids"
        )
    kind = kind_of(spec)
    length = _length(spec, "input_ids")
    table = unmasked_features(length)
    if kind is not Kind.UNMASKED:
        lengths = length, _length(spec, "masked_lm_positions")
        table = pretraining_features(*lengths, type_vocab_size)
    if kind is Kind.PACKED:
        starts = _length(spec, "next_sentence_positions")
        table = packed_features(*lengths, starts, type_vocab_size)
    if NEXT_SENTENCE not in spec:
        table = without_next_sentence(table)
    for feature in table:
        found = _length(spec, feature.name)
        if found != feature.length:
            raise InputError(
                f"the dataset has {feature.name} of length {found}; "
                f"expected {feature.length}"
            )
        dtype = spec[feature.name].dtype
        is_whole = feature.dtype == "int64"
        if not (dtype.is_integer if is_whole else dtype.is_floating):
            raise InputError(
                f"the dataset has {feature.name} of type {dtype.name}; "
                f"expected {'int32 or int64' if is_whole else 'float32'}"
            )
    return table


def _length(spec: Mapping[str, Any], name: str) -> int:
    """How many numbers a feature of one example has.

    Raises:
        InputError: its shape is neither [] nor [length].
    """
    if name not in spec:
        raise InputError(
            f"the dataset has no {name} but {', '.join(sorted(spec))}; "
            "expected the features of a record of pre-training"
        )
    shape = spec[name].shape
    if shape.rank is not None and shape.rank > 1:
        raise InputError(
            f"the dataset has {name} of shape {shape}, as batches have it; "
            "expected one example an element: give it before `batch`, or with "
            "`unbatch()`"
        )
    if not shape.num_elements():
        raise InputError(
            f"the dataset has {name} of shape {shape}; expected a fixed "
            "length: pad its examples"
        )
    return shape.num_elements()


def check_resumable(dataset: tf.data.Dataset) -> None:
    """Raises an InputError if a run on a dataset could not be resumed: its
    state cannot be saved, or its order is another each time."""
    variant = tf.data.experimental.to_variant(dataset)
    try:
        graph = tf.raw_ops.DatasetToGraphV2(
            input_dataset=variant, external_state_policy=REFUSE_STATE
        )
    except tf.errors.OpError as error:
        reason = first_line(error).split(" [Op:")[0].split(": ")[-1].strip(".")
        raise InputError(
            f"the dataset's state cannot be saved ({reason}), so that a "
            "stopped run could not be resumed; use TensorFlow's own "
            "operations in it, without from_generator, py_function, "
            "record_dataset and random numbers that are not stateless"
        ) from error
    parsed = tf.compat.v1.GraphDef.FromString(graph.numpy())
    functions = [function.node_def for function in parsed.library.function]
    for nodes in (parsed.node, *functions):
        zeros = {node.name for node in nodes if _is_zero(node)}  # no seeds
        for node in nodes:
            sources = [name.split(":")[0] for name in node.input]
            is_random = any(word in node.op for word in SHUFFLES)
            if is_random and sum(name in zeros for name in sources) > 1:
                raise InputError(
                    "the dataset is in another order each time, so that a "
                    "stopped run could not be resumed to the same weights; "
                    "give `shuffle` (or what else is random in it) a `seed`"
                )


def _is_zero(node: Any) -> bool:
    value = node.attr["value"].tensor
    return bool(
        node.op == "Const"
        and value.dtype == tf.int64.as_datatype_enum
        and not tf.make_ndarray(value).any()
    )


def check_masks(
    dataset: tf.data.Dataset, features: tuple[Feature, ...]
) -> None:
    """Raises an InputError where masks are all that is trained on and none of
    the first MAX_UNMASKED examples has one."""
    if not masks_alone(features):
        return
    weights = dataset.map(lambda example: example[MASKED_LM_WEIGHTS])
    number = 0
    for values in weights.take(MAX_UNMASKED).as_numpy_iterator():
        if values.any():
            return
        number += 1
    if number:
        raise InputError(
            f"nothing is masked in the first {number:,} examples of the "
            "dataset, and masks are all that is trained on; expected "
            f"{MASKED_LM_WEIGHTS} of 1 where a token is to be predicted"
        )


def _narrow(values: tf.Tensor, feature: Feature) -> tf.Tensor:
    """The values of a feature, [length], in 32 bits. An id that needs more
    becomes the largest or smallest number, which is refused."""
    kind = tf.float32
    if feature.dtype == "int64":
        kind, values = tf.int32, tf.cast(values, tf.int64)
        values = tf.clip_by_value(values, kind.min, kind.max)
    return tf.reshape(tf.cast(values, kind), [feature.length])


class DatasetBatches(tf.train.experimental.PythonState):
    """Batches of a dataset's examples, which are begun anew where they end.

    Args:
        features: of `features_of`.
        masker: for unmasked examples; its share is `share`.
    """

    def __init__(
        self,
        dataset: tf.data.Dataset,
        features: tuple[Feature, ...],
        batch_size: int,
        vocab_size: int,
        share: HostShard = HostShard(),
        masker: Masker | None = None,
    ):
        check_resumable(dataset)
        check_masks(dataset, features)

        def row(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            return {f.name: _narrow(example[f.name], f) for f in features}

        rows = dataset.map(row).repeat()
        batches = rows.batch(batch_size, drop_remainder=True)
        # A symbolic state loses the buffer of `shuffle` when it is saved a
        # second time (TensorFlow 2.21).
        options = tf.data.Options()
        options.experimental_symbolic_checkpoint = False
        self._batches = iter(batches.prefetch(NUM_AHEAD).with_options(options))
        self.tracked = {"data": self}
        self.share = share
        # of any number of rows: this host has some of them
        spec = rows.batch(batch_size).element_spec
        self._make = batch_maker(features, vocab_size, masker, share, spec)

    def batch(self, step: int) -> Batch:
        """This host's rows of the batch that follows `step` finished ones.

        Raises:
            InputError: the dataset is empty.
            tf.errors.InvalidArgumentError: an example cannot be used.
        """
        batch = next(self._batches, None)
        if batch is None:
            raise InputError("the dataset is empty; expected examples")
        index, count = self.share.index, self.share.count
        mine = {name: values[index::count] for name, values in batch.items()}
        return self._make(tf.constant(step, tf.int64), mine)

    def examples(
        self, step: int, batch: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """What `batch` gave, as it is."""
        return batch

    def serialize(self) -> bytes:
        """The state of the iterator: as bytes, since a checkpoint with
        TensorFlow's own type for it is not known from one made on purpose to
        end the process."""
        state = tf.raw_ops.SerializeIterator(
            resource_handle=self._batches._iterator_resource,
            external_state_policy=REFUSE_STATE,
        )
        return tf.io.serialize_tensor(state).numpy()

    def deserialize(self, state: bytes) -> None:
        """Goes to a place that was saved."""
        tf.raw_ops.DeserializeIterator(
            resource_handle=self._batches._iterator_resource,
            serialized=tf.io.parse_tensor(state, tf.variant),
        )

    def num_tokens(self, batch: Mapping[str, tf.Tensor]) -> int:
        return int(tf.size(batch["input_ids"])) * self.share.count
