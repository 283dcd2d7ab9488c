"""Where a model looks: attention probabilities of a text or a pair.

As in Vig 2019 (BertViz) and Clark et al. 2019, "What does BERT look at?".

Shapes: L layers, N heads, S pieces.
"""

from typing import NamedTuple

import numpy as np

from bert_keras.data.input_features import InputFeatures, build_inputs, pad
from bert_keras.data.special_tokens import ROBERTA
from bert_keras.data.tokenizer_folder import TokenizerOptions
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import encoder_mappings, load_checkpoint
from bert_keras.modeling.encoder import Encoder, attention_maps
from bert_keras.tasks.base import missing_weight, open_with_task


class AttentionMap(NamedTuple):
    pieces: list[str]  # S, as people read them
    is_mark: list[bool]  # [CLS], [SEP] and their like
    num_first: (
        int  # pieces of the first text, with the special tokens around it
    )
    probabilities: np.ndarray  # [L, N, S, S]: of each piece, where it looks
    is_cut: bool  # whether the text was longer


class AttentionReader:
    """A model folder's encoder."""

    def __init__(self, folder: str, options: TokenizerOptions | None = None):
        """Arguments and errors are those of `pipeline.load`."""
        _, config, self.tokenizer = open_with_task(folder, options)
        self.max_length = config.max_position_embeddings
        self.encoder = Encoder(config)
        self.encoder.build()
        self.report = load_checkpoint(encoder_mappings(self.encoder), folder)
        if name := missing_weight(self.report, needs_pooler=False):
            raise InputError(
                f"the model in {folder} has no {name}, without which it would "
                "look about at random"
            )

    def read(
        self, text: str, text_pair: str | None, max_seq_length: int
    ) -> AttentionMap:
        """Raises an InputError where there is nothing to look at."""
        tokenizer, special_tokens = (
            self.tokenizer,
            self.tokenizer.special_tokens,
        )
        first = tokenizer.tokenize(text)
        second = tokenizer.tokenize(text_pair or "") or None
        if not first:
            raise InputError("there is nothing readable in `text`")
        length = min(max_seq_length, self.max_length)
        tokens, segments = build_inputs(first, second, length, special_tokens)
        row = InputFeatures(tokenizer.convert_tokens_to_ids(tokens), segments)
        batch = pad([row], len(tokens), 1)
        features = (
            batch[n] for n in ("input_ids", "input_mask", "segment_ids")
        )
        with (
            fused_ops.uncompiled()
        ):  # to compile takes longer than one text does
            maps = attention_maps(self.encoder, *features)
        whole = (
            len(first) + len(second or ()) + special_tokens.count(bool(second))
        )
        return AttentionMap(
            [_shown(token, tokenizer) for token in tokens],
            [
                token in (special_tokens.start, special_tokens.end)
                for token in tokens
            ],
            tokens.index(special_tokens.end) + 1,
            np.asarray(maps, np.float32)[:, 0],
            len(tokens) < whole,
        )


def _shown(piece: str, tokenizer: Tokenizer) -> str:
    """Bytes as text, where they are whole characters."""
    if tokenizer.special_tokens != ROBERTA:
        return piece
    text = tokenizer.to_text([piece])
    if "\ufffd" in text:
        return piece
    return text.replace(" ", "\u2423").replace("\n", "\u23ce")
