"""Models of tasks as Keras knows them: an encoder, and heads on it.

The same object is trained in two ways. Keras's `compile` and `fit` call it with
`training=True`, where its layers draw the keys of their dropouts. The loop of
training/loop.py calls `loss_fn`, a pure function of weights, batch and key.
"""

import abc
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import keras
import numpy as np
from keras import ops

from bert_keras import files
from bert_keras.data.input_features import InputFeatures, make_features, pad
from bert_keras.data.tokenizer_folder import (
    CASE,
    TOKENIZER_CONFIG,
    OpenedTokenizer,
    TokenizerOptions,
    open_tokenizer,
    settings_json,
)
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError, refuse_fork, say_once
from bert_keras.modeling.checkpoint import (
    CLASSIFIER,
    VariableMapping,
    check_sizes,
    encoder_mappings,
    linear_mappings,
    load_checkpoint,
    save_model_folder,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.encoder import Encoder, check_names
from bert_keras.modeling.encoder_variants import make_encoder
from bert_keras.modeling.tensors import Batch, Sums, Tensor
from bert_keras.tasks.base import open_model_folder
from bert_keras.tasks.classifier_head import (
    OtherHeadError,
    head_rows,
    reorder,
    without_head,
)
from bert_keras.tasks.hugging_face_task import folder_task
from bert_keras.tasks.keyword_settings import Settings, as_list, plain, types_of
from bert_keras.tasks.label_names import names_of
from bert_keras.tasks.task_config import TASK, TaskConfig
from bert_keras.training.checkpoints import saved_states

KERAS_ARGUMENTS = "name", "dtype", "trainable"
Own = TypeVar("Own", bound="TaskModel")


class TaskModel(keras.Model, abc.ABC):
    """A model that is trained. Its layers are built with it; optimizers keep
    their order.

    Its inputs are a dictionary by the names of the features of our records:
    input_ids, input_mask and segment_ids, each int [B, S]; see `logits` for
    others. `compile` it without a loss to have the model's own, of labels that
    are among the features.

    Attributes:
        encoder: its Encoder, or what stands in for one.
        settings: its task.json; None where there is none.
        tokenizer: with its settings; None where there is none.
    """

    encoder: Any
    head: Any  # unless `mappings` says otherwise
    head_scope: ClassVar[str] = CLASSIFIER  # of its weights in checkpoints
    # Of its task.json, where no folder says it. Empty: it has none.
    defaults: ClassVar[Mapping[str, Any]] = {}
    targets: ClassVar[tuple[str, ...]] = ()  # of task.json, that are its own
    takes_pairs: ClassVar[bool] = True  # of texts

    def __init__(self, config: BertConfig, encoder: Any = None, **kwargs: Any):
        """
        Args:
            config: the encoder's.
            encoder: None: a new one of the config.
            kwargs: name, dtype and trainable, as every Keras model has.
        """
        super().__init__(**kwargs)
        self.encoder = encoder or Encoder(config, dtype=self.dtype_policy)
        self.settings: TaskConfig | None = None
        self.tokenizer: OpenedTokenizer | None = None

    def build_layers(self) -> None:
        for layer in self.layers:
            if not layer.built:
                layer.build()
        self.built = True

    def mappings(self) -> list[VariableMapping]:
        """Where the weights are in a checkpoint."""
        return [
            *encoder_mappings(self.encoder),
            *linear_mappings(self.head, self.head_scope),
        ]

    @abc.abstractmethod
    def logits(self, batch: Batch, seed: Tensor | None) -> Any:
        """What the heads say of a batch.

        Args:
            seed: int32 [2], the key of the dropout; None for none, unless Keras
                trains.
        """

    @abc.abstractmethod
    def totals(self, batch: Batch) -> dict[str, Tensor]:
        """What losses are divided by: sums over rows, so that they add up."""

    @abc.abstractmethod
    def loss_of(
        self, logits: Any, batch: Batch, totals: dict[str, Tensor]
    ) -> tuple[Tensor, Sums]:
        """The loss and the sums of `loss_fn`, once `logits` are computed."""

    def label_limits(self, batch: Batch) -> dict[str, tuple[Any, Tensor]]:
        """For each label feature, the number of classes and a weight, broadcast
        to the labels, that is 0 where a label is ignored."""
        return {}

    def loss_fn(
        self, batch: Batch, totals: dict[str, Tensor], seed: Tensor | None
    ) -> tuple[Tensor, Sums]:
        """This batch's part of the loss of the whole that `totals` counts.

        Args:
            batch: what `logits` and `loss_of` look at.
            totals: of the global batch, of which this may be one
                micro-batch.
            seed: int32 [2], the key of the dropout; None for none.

        Returns:
            The loss in nats, and for each metric a sum and its weight.
        """
        return self.loss_of(self.logits(batch, seed), batch, totals)

    def call(
        self,
        inputs: Batch,
        seed: Tensor | None = None,
        training: bool | None = None,
    ) -> Any:
        """What the heads say of a batch.

        Args:
            inputs: as `logits` takes them.
            seed: int32 [2], the key of the dropout; None for one that is drawn
                in training, and otherwise for no dropout.
            training: whether there is dropout, where no `seed` says it.
        """
        check_names(inputs)
        return self.logits(inputs, seed)

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, **kwargs: Any
    ) -> None:
        """Compiles as Keras's `compile`. Raises an InputError for metrics
        without a loss: the model's own loss gives them no labels."""
        for name in ("metrics", "weighted_metrics"):
            if loss is None and kwargs.get(name):
                self._refuse(name)
        super().compile(optimizer, loss, **kwargs)

    def fit(
        self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Trains as Keras's `fit`.

        Without a loss of yours, raises an InputError for sample or class
        weights, which Keras would drop, and for labels outside the classes if x
        is a dictionary of arrays. In other data such labels make the loss NaN
        and the gradients of their batch zero.
        """
        self._check_weights(y, **kwargs)
        self._check_labels(x, y)
        if (validation := kwargs.get("validation_data")) is not None:
            own = keras.utils.unpack_x_y_sample_weight(validation)
            self._check_labels(own[0], own[1])
        return super().fit(x, y, *args, **kwargs)

    def evaluate(
        self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Evaluates as Keras's `evaluate`, with the errors of `fit`."""
        self._check_weights(y, **kwargs)
        self._check_labels(x, y)
        return super().evaluate(x, y, *args, **kwargs)

    def _check_weights(self, y: Any, **given: Any) -> None:
        if self._has_own_loss(y):
            for name in ("sample_weight", "class_weight"):
                if given.get(name) is not None:
                    self._refuse(name)

    def _check_labels(self, x: Any, y: Any) -> None:
        if not self._has_own_loss(y) or not isinstance(x, Mapping):
            return
        for name, (limit, weights) in self.label_limits(dict(x)).items():
            labels, most, weight = np.broadcast_arrays(
                *map(ops.convert_to_numpy, (x[name], limit, weights))
            )
            odd = ((labels < 0) | (labels >= most)) & (weight > 0)
            if odd.any():
                raise InputError(
                    f"`{name}` has {labels[odd][0]}; expected 0 to "
                    f"{most[odd][0] - 1}"
                )

    def _has_own_loss(self, y: Any) -> bool:
        return y is None and self.loss is None

    def _refuse(self, name: str) -> None:
        raise InputError(
            f"the model's own loss takes no `{name}`; `compile` with a loss, "
            "and give it labels"
        )

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        self._check_weights(y, sample_weight=sample_weight)  # of train_on_batch
        if self._has_own_loss(y):  # labels are among the features
            loss = self.loss_of(y_pred, x, self.totals(x))[0]
            # A wrong label would be scored as if it were right.
            for name, (limit, weights) in self.label_limits(x).items():
                labels = ops.cast(x[name], "int32")
                odd = ((labels < 0) | (labels >= limit)) & (weights > 0)
                loss = ops.where(ops.any(odd), np.nan, loss)
            return loss
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    @classmethod
    def from_settings(
        cls: type[Own], config: BertConfig, settings: TaskConfig, **kwargs: Any
    ) -> Own:
        """The model that a task.json describes; `kwargs` are Keras's, or the
        constructor's own."""
        encoder = make_encoder(
            config,
            settings.bilstm,
            settings.second_direction,
            kwargs.get("dtype"),
        )
        return cls(config, encoder=encoder, **kwargs)

    @classmethod
    def from_folder(
        cls: type[Own],
        folder: str | os.PathLike[str],
        options: TokenizerOptions | None = None,
        **settings: Any,
    ) -> Own:
        """Reads a model folder: ours, Google's or Hugging Face's.

        A head that the folder does not have, or has for something else, starts
        at random.

        Examples:
            >>> model = bert_keras.MaskedLm.from_folder("bert")
            >>> model.encoder.config.hidden_size
            128

        Args:
            folder: path of a model folder, or of a weights file in one.
            options: tokenizer settings that replace the folder's.
            settings: fields of task.json, by name, that override the folder's,
                such as labels and max_seq_length; and Keras's name, dtype and
                trainable.

        Returns:
            The model, with its tokenizer.

        Raises:
            InputError: a file is missing or does not fit the others.
            TypeError: a setting does not exist.
        """
        keras_arguments = {
            name: settings.pop(name)
            for name in KERAS_ARGUMENTS
            if name in settings
        }
        refuse_fork()
        folder = os.fspath(folder)
        types = types_of(TaskConfig) if cls.targets else {}
        Settings(f"{cls.__name__}.from_folder", types).check_names(settings)
        if "labels" in settings:
            settings["labels"] = names_of(settings["labels"])
        found = open_model_folder(folder, options)
        check_sizes(found.config, folder, needs_all_layers=True)
        tokenizer = found.checked_tokenizer()
        if cls.targets:
            stored = folder_task(folder, options, True, found.opened)
            if stored is None or stored.target not in cls.targets:
                length = min(
                    cls.defaults["max_seq_length"],
                    found.config.max_position_embeddings,
                )
                stored = TaskConfig(
                    **{
                        **cls.defaults,
                        **{n: getattr(tokenizer.settings, n) for n in CASE},
                        "max_seq_length": length,
                        **settings,
                    }
                )
            task = dataclasses.replace(stored, **settings)
            _check_length(task.max_seq_length, found.config)
            model = cls.from_settings(found.config, task, **keras_arguments)
            model.settings = task
        else:
            model = cls(found.config, **{**settings, **keras_arguments})
        model.tokenizer = tokenizer
        mappings, rows = model.mappings(), None
        try:
            rows = head_rows(mappings, folder, model.settings)
        except OtherHeadError as error:
            say_once(f"the classifier head starts anew: {error}")
            mappings = without_head(mappings)
        report = load_checkpoint(mappings, folder)
        missing = [n for n in report.missing if n.startswith("bert")]
        if name := next((n for n in missing if "/pooler/" not in n), None):
            raise InputError(
                f"{report.source} has no {name}, without which the model would "
                "answer at random; expected all weights of an encoder"
            )
        if report.missing:
            say_once(str(report))
        reorder(mappings, rows)
        return model

    def save_folder(self, folder: str | os.PathLike[str]) -> None:
        """Writes a model folder, as the training commands do: predict.py and
        `bert_keras.load` answer from it. A model that the folder has, with its
        vocabulary, is replaced.

        Examples:
            >>> model = bert_keras.TextClassifier.from_folder("reviews")
            >>> model.save_folder("same_reviews")
            >>> bert_keras.load("same_reviews").predict("A boring film.").label
            'bad'

        Args:
            folder: its path; it is made if it does not exist.

        Raises:
            InputError: the model has no tokenizer, or a run has its states in
                the folder.
        """
        tokenizer, folder = self._checked_tokenizer(), os.fspath(folder)
        if saved_states(folder):
            raise InputError(
                f"`folder={folder}` is the output_dir of a training run, which "
                "goes on from its own states; name another folder"
            )
        encoder = getattr(self.encoder, "first", self.encoder)
        os.makedirs(folder, exist_ok=True)
        save_model_folder(
            folder,
            encoder.config,
            self.mappings(),
            tokenizer.vocab_file,
            {
                TASK: self.settings.to_json() if self.settings else None,
                TOKENIZER_CONFIG: settings_json(tokenizer),
            },
        )

    def tokenize(
        self, texts: Sequence[Any], max_length: int | None = None
    ) -> dict[str, np.ndarray]:
        """Makes inputs of texts, or of pairs.

        Examples:
            >>> model = bert_keras.TextClassifier.from_folder("reviews")
            >>> texts = ["A film.", ("A film.", "A boring film.")]
            >>> model.tokenize(texts)["segment_ids"]
            array([[0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                   [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]], dtype=int32)

        Args:
            texts: N strings, or tuples of the two of a pair.
            max_length: in tokens, [CLS] and [SEP] included; longer texts are
                cut. None: the settings' max_seq_length.

        Returns:
            input_ids, input_mask and segment_ids, each int32 [N, S], S being
            the length of the longest.

        Raises:
            InputError: the model has no tokenizer or fewer positions.
        """
        if isinstance(texts, str):
            raise InputError(
                f"`texts` is one text, {texts[:20]!r}; expected a list of texts"
            )
        tokenizer, max_length = self._reader(max_length)
        rows: list[InputFeatures] = []
        for number, parts in enumerate(as_list(texts)):
            several = [parts] if isinstance(parts, str) else plain(parts)
            if (
                not isinstance(several, list)
                or not 1 <= len(several) <= 1 + self.takes_pairs
                or not all(isinstance(text, str) for text in several)
            ):
                pairs = ", or a tuple of two" if self.takes_pairs else ""
                raise InputError(
                    f"number {number} of `texts` is {repr(parts)[:60]}; "
                    f"expected a text{pairs}"
                )
            first, *second = (self.split(text, tokenizer) for text in several)
            # As upstream, a second text without tokens is none.
            pair = (second and second[0]) or None
            rows.append(make_features(first, pair, max_length, tokenizer))
        longest = max((len(row.input_ids) for row in rows), default=1)
        return pad(rows, longest, len(rows))

    def split(self, text: str, tokenizer: Tokenizer) -> list[str]:
        """The text's tokens."""
        return tokenizer.tokenize(text)

    def _reader(self, max_length: int | None) -> tuple[Tokenizer, int]:
        """The tokenizer, and a row's length in its tokens.

        Args:
            max_length: None: the settings'.
        """
        config = getattr(self.encoder, "first", self.encoder).config
        if max_length is None:
            max_length = config.max_position_embeddings
            if self.settings is not None:
                max_length = self.settings.max_seq_length
        _check_length(max_length, config)
        return self._checked_tokenizer().load(), max_length

    def _checked_tokenizer(self) -> OpenedTokenizer:
        if self.tokenizer is None:
            raise InputError(
                f"this {type(self).__name__} has no tokenizer; expected one "
                "that `from_folder` made"
            )
        return self.tokenizer

    def save_assets(self, folder: str) -> None:
        """Keeps the tokenizer in a .keras file, by Keras's protocol."""
        if self.tokenizer is not None:
            files.copy_vocabulary(self.tokenizer.vocab_file, folder)
            text = settings_json(self.tokenizer)
            path = os.path.join(folder, TOKENIZER_CONFIG)
            files.write_whole(path, text.encode())

    def load_assets(self, folder: str) -> None:
        kept = files.temporary_folder()  # Keras's own goes
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            files.copy_whole(path, os.path.join(kept, name))
        self.tokenizer = open_tokenizer(kept)

    def quantize(
        self, mode: Any = None, config: Any = None, **kwargs: Any
    ) -> None:
        """Raises an InputError: see BertLayer."""
        self.encoder.quantize(mode, config)

    def get_config(self) -> dict[str, Any]:
        settings = self.settings and json_form(self.settings)
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "settings": settings,
        }

    @classmethod
    def from_config(
        cls: type[Own], config: dict[str, Any], custom_objects: Any = None
    ) -> Own:
        values = dict(config)
        encoder = keras.saving.deserialize_keras_object(
            values.pop("encoder"), custom_objects
        )
        settings = values.pop("settings")
        model = cls(config=encoder.config, encoder=encoder, **values)
        if settings:
            labels = tuple(settings["labels"])
            model.settings = TaskConfig(**{**settings, "labels": labels})
        return model


def json_form(values: Any) -> dict[str, Any]:
    """A dataclass's fields that its constructor takes, tuples as lists."""
    return {
        field.name: list(value) if isinstance(value, tuple) else value
        for field in dataclasses.fields(values)
        if field.init
        for value in [getattr(values, field.name)]
    }


def _check_length(max_length: int, config: BertConfig) -> None:
    longest = config.max_position_embeddings
    if not 4 <= max_length <= longest:  # [CLS] a [SEP] [SEP]
        raise InputError(
            f"the length is {max_length} tokens; expected 4 to {longest}, the "
            "model's positions"
        )
