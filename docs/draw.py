"""Draws the pictures of README.md and docs/ from what `make demo` left.

    PYTHONPATH=. .venv/bin/python docs/draw.py

writes docs/images/demo.png: the demo's losses, and where a head looks.
"""

import io
import math
from pathlib import Path

from bert_keras.cli import command

import matplotlib
from PIL import Image

import demo
from bert_keras.tasks.attention_maps import AttentionReader

matplotlib.use("Agg")
from matplotlib import pyplot

ROOT = Path(__file__).parent.parent
MODEL = ROOT / "demo_output" / "model"
TEXT = "Return a list of the names in this module."
LAYER, HEAD = 0, 1


def draw_attention(axes: pyplot.Axes) -> None:
    attention = AttentionReader(str(MODEL)).read(TEXT, None, 64)
    shares = attention.probabilities[LAYER, HEAD]
    for i, token in enumerate(attention.pieces):
        for place, side in ((0, "right"), (1, "left")):
            x = place + (0.03 if place else -0.03)
            axes.text(x, -i, token, ha=side, va="center", fontsize=9)
        for j, share in enumerate(shares[i]):
            axes.plot([0, 1], [-i, -j], color="tab:blue", alpha=float(share))
    axes.set(
        title=f"show_attention: layer {LAYER}, head {HEAD}", xlim=(-0.4, 1.4)
    )
    axes.axis("off")


def main() -> None:
    command.import_tensorflow(computes=False)
    train_ids, _ = demo.answers(ROOT / demo.FOLDER / "train.tfrecord")
    figure, (masked, pairs, attention) = pyplot.subplots(
        1, 3, figsize=(11, 3.2), layout="constrained"
    )
    for axes, name, title, guessing in (
        (masked, "masked_lm", "Masked tokens", demo.entropy(train_ids)),
        (pairs, "next_sentence", "Next sentence", math.log(2)),
    ):
        title = f"make demo: {title.lower()}"
        demo.draw_loss(axes, MODEL, f"{name}_loss", title, guessing)
    draw_attention(attention)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=96)
    few = Image.open(drawn).convert("RGB").quantize(64)  # a third of the bytes
    few.save(ROOT / "docs" / "images" / "demo.png", optimize=True)


if __name__ == "__main__":
    main()
