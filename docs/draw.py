"""Draws the pictures of README.md and docs/ from what `make demo` left.

    .venv/bin/python docs/draw.py

writes docs/images/demo.png: the demo's losses, and where a head looks.
"""

import json
from pathlib import Path

import matplotlib

from bert_keras.tasks.attention_maps import AttentionReader

matplotlib.use("Agg")
from matplotlib import pyplot

ROOT = Path(__file__).parent.parent
MODEL = ROOT / "demo_output" / "model"
TEXT = "Return a list of the names in this module."
LAYER, HEAD = 0, 1
SMOOTHING_STEPS = 100


def draw_losses(axes: pyplot.Axes) -> None:
    steps = [
        json.loads(line)
        for line in (MODEL / "train_log.jsonl").read_text().splitlines()
    ]
    result = dict(
        line.split(" = ")
        for line in (MODEL / "eval_results.txt").read_text().splitlines()
    )
    for name, shown in (
        ("masked_lm", "masked words"),
        ("next_sentence", "next sentence"),
    ):
        losses = [step[f"{name}_loss"] for step in steps]
        blocks = range(0, len(losses) - SMOOTHING_STEPS + 1, SMOOTHING_STEPS)
        means = [
            sum(losses[i : i + SMOOTHING_STEPS]) / SMOOTHING_STEPS
            for i in blocks
        ]
        places = [i + SMOOTHING_STEPS / 2 for i in blocks]
        (line,) = axes.plot(places, means, label=f"{shown}, training")
        axes.plot(
            len(losses),
            float(result[f"{name}_loss"]),
            "o",
            color=line.get_color(),
            label=f"{shown}, held-out text",
        )
    axes.set(title="make demo: the loss falls", xlabel="step", ylim=0)
    axes.legend(frameon=False, fontsize=8)
    axes.grid(alpha=0.3)


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
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    draw_losses(axes[0])
    draw_attention(axes[1])
    figure.savefig(ROOT / "docs" / "images" / "demo.png", dpi=96)


if __name__ == "__main__":
    main()
