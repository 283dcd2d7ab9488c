"""Tags from vectors that are computed once: run_ner.py `feature_layers`.

Devlin et al. 2018, section 5.3: the feature-based approach.

Shapes: T words of a text, W of a file, K vectors of a word, H hidden size, C
tags.
"""

import itertools
import os
import zlib
from collections.abc import Iterator

import keras
import numpy as np

from bert_keras.data.batching import FeatureBatches
from bert_keras.data.record_schema import HostShard
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import load_checkpoint
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.base import missing_weight
from bert_keras.tasks.features import encode_documents
from bert_keras.tasks.fine_tuning import TrainingData, refuse_overflow
from bert_keras.tasks.ner.feature_based.feature_cache import cached, digest_of
from bert_keras.tasks.ner.feature_based.lstm_tagger import (
    FeatureTagger,
    WordFeatures,
)
from bert_keras.tasks.ner.task import NerTask, WordFile
from bert_keras.tasks.trainer import Trainer
from bert_keras.training.inference import Predictor, with_progress

BATCH_SIZE = 32  # of the encoder


class FeatureBasedNerTask(NerTask):
    """The encoder stays as it is; a BiLSTM is trained on its vectors."""

    def set_up(self) -> None:
        """Raises an InputError where vectors cannot be computed or kept."""
        layers = self.settings.feature_layers
        assert layers is not None, "the command has looked"
        self.layers = layers
        # by file: vectors, and of what they are
        self.kept: dict[str, tuple[np.ndarray, str]] = {}
        run = self.context.run
        if run.dry_run:
            raise InputError(
                "`dry_run` would have to compute and write all vectors; leave "
                "out `dry_run` or `feature_layers`"
            )
        if run.num_frozen_layers >= 0 or run.recompute:
            raise InputError(
                "with `feature_layers` the whole encoder is frozen and has no "
                "backward pass; leave out `num_frozen_layers` and `recompute`"
            )
        if (
            "://" in run.output_dir
            or self.context.devices.host.count > 1
            or self.config.loop.steps_per_call > 1
        ):
            raise InputError(
                "vectors are kept in `output_dir` on the disk of one machine; "
                "name such a folder, and use one host and no TPU, or leave out "
                "`feature_layers`"
            )

    def make_model(self, config: BertConfig) -> FeatureTagger:
        return FeatureTagger(
            config,
            len(self.settings.labels),
            self.layers,
            self.settings.lstm_size,
        )

    def numbered_data(
        self, words: WordFile, numbers: list[list[int]]
    ) -> TrainingData:
        # Vectors are there before there is a model: of an encoder with the
        # weights that are started from.
        keras.config.set_dtype_policy(self.context.run.precision)
        with self.context.devices.strategy.scope():
            features = WordFeatures(self.context.config, self.layers)
        source = self.context.run.init_checkpoint or self.context.run.output_dir
        report = load_checkpoint(features.mappings(), source)
        if name := missing_weight(report, needs_pooler=False):
            raise InputError(
                f"{report.source} has no {name}, without which vectors "
                "would be random; give an `init_checkpoint` with an encoder"
            )
        labels = [[number + 1 for number in own] for own in numbers]
        vectors, digest = self._vectors(words, features)
        flat = np.array(list(itertools.chain.from_iterable(labels)))
        crc = zlib.crc32(flat.tobytes())
        return TrainingData(
            num_examples=len(labels),
            num_rows=len(labels),
            longest=max(len(row.input_ids) for row in words.rows),
            packs=True,  # padding changes no loss
            digest=f"vectors {digest[:16]}, labels' checksum {crc:08x}",
            batches=lambda batch_size, seed, share, **_: FeatureBatches(
                vectors, labels, batch_size, seed, share
            ),
        )

    def logits(
        self, trainer: Trainer, words: WordFile, batch_size: int
    ) -> list[np.ndarray]:
        lengths = np.array([len(s.words) for s in words.file.sentences])
        labels = [[1] * length for length in lengths]
        vectors, _ = self._vectors(words, trainer.model.features)
        source = FeatureBatches(vectors, labels, batch_size, 0, HostShard())
        found: dict[int, np.ndarray] = {}
        num_batches = -(-len(lengths) // batch_size)
        for number in with_progress(range(num_batches), num_batches):
            batch = source.batch(number)
            del batch["label_ids"]
            outputs = trainer.predictor(batch)["logits"]
            for i, sentence in enumerate(source.order(0)[number].tolist()):
                own = outputs[i, : lengths[sentence]]
                refuse_overflow(sentence + 1, [{"logits": own}])
                found[sentence] = own
        return [found[i] for i in range(len(lengths))]

    def _vectors(
        self, words: WordFile, features: WordFeatures
    ) -> tuple[np.ndarray, str]:
        """[W, K, H], in the file's order, and their digest."""
        path = words.file.path
        if path in self.kept:
            return self.kept[path]

        def compute(first: int) -> Iterator[np.ndarray]:
            """Yields the texts' [T, K, H], from the text of this number on."""
            texts = words.texts[first:]
            results = encode_documents(
                Predictor(
                    features.outputs_by_name, self.context.devices.strategy
                ),
                texts,
                BATCH_SIZE,
                self.settings.max_seq_length,
                features.shape,
            )
            for text, outputs in with_progress(results, len(texts)):
                yield text.join(outputs, "vectors")

        stem = os.path.splitext(os.path.basename(path))[0]
        name = f"{stem}-{zlib.crc32(os.path.abspath(path).encode()):08x}"
        digest = digest_of(
            features.mappings(),
            words.rows,
            self.context.config.to_json(),
            self.layers,
            self.context.run.precision,
        )
        vectors = cached(
            os.path.join(
                self.context.run.output_dir, "features", f"{name}.npy"
            ),
            digest,
            [len(text.places) for text in words.texts],
            features.shape,
            compute,
        )
        self.kept[path] = vectors, digest
        return self.kept[path]
