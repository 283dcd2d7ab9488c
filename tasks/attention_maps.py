"""Where a model looks: attention probabilities of a text or a pair, and how
show_attention.py shows them, as a page and as a picture.

As in Vig 2019 (BertViz) and Clark et al. 2019, "What does BERT look at?".

Shapes: L layers, N heads, S tokens.
"""

import base64
import html
import io
import json
import os
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bert_keras.data.input_features import pad
from bert_keras.data.tokenizer_folder import TokenizerOptions
from bert_keras.data.tokenizers import Tokenizer
from bert_keras.errors import InputError
from bert_keras.modeling import fused_ops
from bert_keras.modeling.checkpoint import encoder_mappings, load_checkpoint
from bert_keras.modeling.encoder import Encoder, attention_maps
from bert_keras.tasks.base import missing_weight, open_with_task
from bert_keras.tasks.features import make_document, place_of

PAGE = Path(__file__).with_name("attention_page.html")
DATA = "{{data}}"  # where the page has it
STEPS = 65535  # of a probability, in two bytes

INCHES_OF_MAP, INCHES_OF_PIECE = 1.0, 0.22
MIN_INCHES = 4.0


class AttentionMap(NamedTuple):
    """Attention probabilities of a text or a pair. A notebook shows it."""

    pieces: list[str]  # S, as people read them
    is_mark: list[bool]  # [CLS], [SEP] and their like
    num_first: int  # tokens of the first text and the special tokens around it
    probabilities: np.ndarray  # [L, N, S, S]: of each token, where it looks
    is_cut: bool  # whether the text was longer
    text: str  # both texts of a pair, with a bar between them
    model: str  # the name of the folder

    def _repr_html_(self) -> str:
        page = html.escape(to_html(self).decode())
        return (
            '<iframe sandbox="allow-scripts" width="100%" height="800" '
            f'srcdoc="{page}"></iframe>'
        )


class AttentionReader:
    """A model folder's encoder."""

    def __init__(self, folder: str, options: TokenizerOptions | None = None):
        """Arguments and errors are those of `load.load`."""
        self.name = os.path.basename(os.path.abspath(folder))
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
        self, text: str, text_pair: str | None = None, max_seq_length: int = 128
    ) -> AttentionMap:
        """Raises an InputError where there is nothing to look at."""
        tokenizer = self.tokenizer
        special_tokens = tokenizer.special_tokens
        if not tokenizer.tokenize(text):
            raise InputError("there is nothing readable in `text`")
        length = min(max_seq_length, self.max_length)
        document = make_document(text, text_pair, tokenizer, length)
        tokens = document.tokens
        batch = pad(document.rows, len(tokens), 1)
        names = "input_ids", "input_mask", "segment_ids"
        # To compile takes longer than one text does.
        with fused_ops.uncompiled():
            maps = attention_maps(self.encoder, *(batch[n] for n in names))
        marks = special_tokens.start, special_tokens.end
        return AttentionMap(
            [_shown(token, tokenizer) for token in tokens],
            [token in marks for token in tokens],
            tokens.index(special_tokens.end) + 1,
            np.asarray(maps, np.float32)[:, 0],
            document.is_cut,
            text if text_pair is None else f"{text} | {text_pair}",
            self.name,
        )


def _shown(piece: str, tokenizer: Tokenizer) -> str:
    """Bytes as text, where they are whole characters."""
    if not tokenizer.special_tokens.is_byte_level:
        return piece
    text = tokenizer.to_text([piece])
    if "\ufffd" in text:
        return piece
    return text.replace(" ", "\u2423").replace("\n", "\u23ce")


def to_html(attention: AttentionMap) -> bytes:
    """One page with all that it needs: it asks no network for anything.

    Texts are JSON in a script element that is not run, without any sign that
    could end it, and the page shows them as text, never as HTML.
    """
    counts = np.rint(attention.probabilities * STEPS).astype("<u2")
    layers, heads, size, _ = counts.shape
    data = {
        "text": attention.text,
        "model": attention.model,
        "pieces": attention.pieces,
        "marks": attention.is_mark,
        "first": attention.num_first,
        "shape": [layers, heads, size],
        "steps": STEPS,
        "counts": base64.b64encode(counts.tobytes()).decode(),
    }
    text = json.dumps(data)  # ASCII alone
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return PAGE.read_text(encoding="utf-8").replace(DATA, text).encode()


def to_png(
    attention: AttentionMap, layer: int | None, head: int | None
) -> bytes:
    """One head's map with its tokens, or small ones of those that are left:
    of a layer its heads, of a head its layers, of neither all; both are
    counted from 0, or from -1 downwards."""
    from matplotlib.figure import Figure

    maps, pieces = attention.probabilities, attention.pieces
    num_layers, num_heads, *_ = maps.shape
    layers: Sequence[int] = range(num_layers)
    heads: Sequence[int] = range(num_heads)
    if layer is not None:
        layers = [place_of("layer", layer, num_layers)]
    if head is not None:
        heads = [place_of("head", head, num_heads)]
    if len(layers) == len(heads) == 1:
        inches = max(MIN_INCHES, INCHES_OF_PIECE * len(pieces))
        size = inches + 1.5, inches + 1.0
        figure = Figure(figsize=size, layout="constrained")
        axis = figure.subplots()
        image = axis.imshow(
            maps[layers[0], heads[0]], cmap="Blues", vmin=0.0, vmax=1.0
        )
        # A token may be a "$", which begins a formula.
        places = range(len(pieces))
        axis.set_xticks(places, pieces, rotation=90, parse_math=False)
        axis.set_yticks(places, pieces, parse_math=False)
        axis.set_ylabel("token that looks")
        axis.set_xlabel("token that is looked at")
        axis.set_title(f"layer {layers[0]}, head {heads[0]}")
        figure.colorbar(image, shrink=0.6, label="attention probability")
    else:  # each is scaled to its own largest probability
        size = (
            max(2.5, INCHES_OF_MAP * len(heads) + 0.5),  # for the title
            INCHES_OF_MAP * len(layers) + 0.5,
        )
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(layers), len(heads), squeeze=False)
        for i, layer in enumerate(layers):
            axes[i, 0].set_ylabel(f"layer {layer}", fontsize=7)
            for j, head in enumerate(heads):
                axes[i, j].imshow(maps[layer, head], cmap="Blues", vmin=0.0)
                axes[i, j].set(xticks=[], yticks=[])
                if i == 0:
                    axes[i, j].set_title(f"head {head}", fontsize=7)
        figure.supxlabel("dark: the head's largest probability", fontsize=7)
    title = textwrap.shorten(attention.text, int(10 * size[0]))
    figure.suptitle(title, fontsize=8, parse_math=False)
    file = io.BytesIO()
    with warnings.catch_warnings():  # of signs that the font has not
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(file, format="png", dpi=120)
    return file.getvalue()
