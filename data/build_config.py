"""What records are made from, as all workers have to know it."""

import dataclasses
import functools
import hashlib
import os
import zlib
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.data.bpe import ByteLevelBpe
from bert_keras.data.fast_tokenization import (
    BlockTokenizer,
    ByteLevelLines,
    LineTokenizer,
    SpacedWordTokenizer,
)
from bert_keras.data.instances import InstanceConfig
from bert_keras.data.record_schema import (
    Feature,
    pretraining_features,
    unmasked_features,
    without_next_sentence,
)
from bert_keras.data.sentence_splitting import TextFormat
from bert_keras.data.tokenization import FullTokenizer
from bert_keras.data.tokenizers import (
    Tokenizer,
    TokenizerSettings,
    load_tokenizer,
)
from bert_keras.files import END_BYTES, fingerprint, vocabulary_files


@dataclasses.dataclass(frozen=True)
class RecordBuildConfig:
    """All that the outcome depends on, and all that a worker has to know."""

    paths: tuple[str, ...]
    output_files: tuple[str, ...]
    vocab_file: str
    tokenizer_settings: TokenizerSettings
    words_are_spaced: bool  # those of whole word masking; else "##" tells
    text_format: TextFormat
    worker_memory_mb: int  # for a part, beside what TensorFlow takes
    config: InstanceConfig

    @property
    def tokenizer(self) -> Tokenizer:
        return self.line_tokenizer.tokenizer

    @property
    def line_tokenizer(self) -> BlockTokenizer:
        return _make_tokenizer(
            self.words_are_spaced,
            self.vocab_file,
            self.tokenizer_settings,
        )

    @property
    def folder(self) -> str:
        """The folder of finished parts. It is on this machine even if the
        output is not; its name then tells outputs of one name apart."""
        path = self.output_files[0]
        folder, name = os.path.split(path)
        if "://" in folder:
            folder, name = "", f"{name}-{zlib.crc32(path.encode()):08x}"
        return os.path.join(folder, f".{name}.making")

    def file(self, name: str) -> str:
        return os.path.join(self.folder, name)

    @property
    def id_type(self) -> Any:
        """The smallest that holds every id."""
        num_ids = max(self.tokenizer.inv_vocab) + 1
        is_small = (1 + self.words_are_spaced) * num_ids <= 1 << 16
        return np.uint16 if is_small else np.int32

    def describe(self) -> dict[str, Any]:
        """In JSON's types: what must be equal for the command to go on."""
        vocabulary = b"".join(read_vocabulary(self.vocab_file).values())
        digest = hashlib.sha256(vocabulary).hexdigest()
        return {
            **dataclasses.asdict(self.config),
            **dataclasses.asdict(self.text_format),
            "tokenizer": self.tokenizer_settings.to_json(),
            "words_are_spaced": self.words_are_spaced,
            "worker_memory_mb": self.worker_memory_mb,
            "vocab_file": digest,
            "output_file": ",".join(self.output_files),
            "input_file's contents": [_contents(path) for path in self.paths],
        }

    @property
    def features(self) -> tuple[Feature, ...]:
        """What the records hold."""
        config = self.config
        features = pretraining_features(
            config.max_seq_length, config.max_predictions_per_seq
        )
        if config.dynamic_masking:
            features = unmasked_features(config.max_seq_length)
        return features if config.is_pair else without_next_sentence(features)


def _contents(path: str) -> list[Any]:
    """Identifies a text; a large one also by the time of its last change, as
    its checksum covers its ends only."""
    found = tf.io.gfile.stat(path)
    is_large = found.length > 2 * END_BYTES
    return [fingerprint(path), found.mtime_nsec if is_large else None]


@functools.lru_cache(maxsize=1)
def _make_tokenizer(
    words_are_spaced: bool, vocab_file: str, settings: TokenizerSettings
) -> BlockTokenizer:
    """A process makes one for all its tasks."""
    tokenizer = load_tokenizer(vocab_file, settings)
    if isinstance(tokenizer, ByteLevelBpe):
        return ByteLevelLines(tokenizer)
    assert isinstance(tokenizer, FullTokenizer)
    kind = SpacedWordTokenizer if words_are_spaced else LineTokenizer
    return kind(tokenizer)


def read_vocabulary(vocab_file: str) -> dict[str, bytes]:
    """Its files' contents by their names."""
    contents = {}
    for name, path in vocabulary_files(vocab_file).items():
        with open(path, "rb") as file:
            contents[name] = file.read()
    return contents
