"""show_attention.py's work: attention maps as a page and as a picture.

Shapes: L layers, N heads, S pieces.
"""

import base64
import io
import json
from pathlib import Path

import numpy as np

from bert_keras.tasks.attention_maps import AttentionMap

PAGE = Path(__file__).with_name("attention_page.html")
DATA = "{{data}}"  # where the page has it
STEPS = 65535  # of a probability, in two bytes

INCHES_OF_MAP, INCHES_OF_PIECE = 1.0, 0.22
MIN_INCHES = 4.0


def to_html(attention: AttentionMap, title: str) -> bytes:
    """One page with all that it needs: it asks no network for anything.

    Texts are JSON in a script element that is not run, without any sign that
    could end it, and the page shows them as text, never as HTML.
    """
    counts = np.rint(attention.probabilities * STEPS).astype("<u2")
    layers, heads, size, _ = counts.shape
    data = {
        "title": title,
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
    """One head's map with its pieces, or small ones of those that are left:
    of a layer its heads, of a head its layers, of neither all."""
    maps = attention.probabilities
    chosen = maps[_places(layer)][:, _places(head)]
    if chosen.shape[:2] == (1, 1):
        return _draw_one(chosen[0, 0], attention.pieces)
    return _draw_grid(
        chosen,
        range(len(maps)) if layer is None else [layer],
        range(maps.shape[1]) if head is None else [head],
    )


def _places(number: int | None) -> slice:
    return slice(None) if number is None else slice(number, number + 1)


def _draw_one(probs: np.ndarray, pieces: list[str]) -> bytes:
    """[S, S]: a row for each piece that looks."""
    from matplotlib.figure import Figure

    inches = max(MIN_INCHES, INCHES_OF_PIECE * len(pieces))
    figure = Figure(figsize=(inches + 1.5, inches + 1.0), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(probs, cmap="Blues", vmin=0.0, vmax=1.0)
    places = range(len(pieces))
    # A piece may be a "$", which begins a formula.
    axis.set_xticks(places, pieces, rotation=90, parse_math=False)
    axis.set_yticks(places, pieces, parse_math=False)
    axis.set_ylabel("from")
    axis.set_xlabel("to")
    figure.colorbar(image, shrink=0.6)
    return _png(figure)


def _draw_grid(
    maps: np.ndarray, layers: range | list[int], heads: range | list[int]
) -> bytes:
    """[L, N, S, S], each scaled to its own largest probability."""
    from matplotlib.figure import Figure

    shape = len(layers), len(heads)
    figure = Figure(
        figsize=(
            INCHES_OF_MAP * shape[1] + 0.5,
            INCHES_OF_MAP * shape[0] + 0.5,
        ),
        layout="constrained",
    )
    axes = figure.subplots(*shape, squeeze=False)
    for i, layer in enumerate(layers):
        axes[i, 0].set_ylabel(f"layer {layer}", fontsize=7)
        for j, head in enumerate(heads):
            axes[i, j].imshow(maps[i, j], cmap="Blues", vmin=0.0)
            axes[i, j].set(xticks=[], yticks=[])
            if i == 0:
                axes[i, j].set_title(f"head {head}", fontsize=7)
    return _png(figure)


def _png(figure: object) -> bytes:
    import warnings

    file = io.BytesIO()
    with warnings.catch_warnings():  # of signs that the font has not
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure.savefig(file, format="png", dpi=120)  # type: ignore[attr-defined]
    return file.getvalue()
