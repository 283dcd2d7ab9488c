"""Draws pictures of README.md and docs/ from what `make demo` left.

    PYTHONPATH=. .venv/bin/python docs/draw.py

writes to docs/images/: demo.png, the demo's losses and where a head looks;
help.svg and training.svg, what a terminal of 100 columns shows. training.svg
needs train.csv and dev.csv of docs/tutorials/classifier.md.
"""

import fcntl
import html
import io
import math
import os
import pty
import re
import struct
import sys
import tempfile
import termios
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
COLUMNS = 100
CHARACTER, LINE = 7.83, 17  # width and height of a character of 13 px


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


def terminal(words: list[str]) -> list[str]:
    """The lines that a terminal of 100 columns shows after a command."""
    process, screen = pty.fork()
    if not process:
        size = struct.pack("HHHH", 50, COLUMNS, 0, 0)
        fcntl.ioctl(sys.stdout, termios.TIOCSWINSZ, size)
        os.execvp(sys.executable, [sys.executable, *words])
    shown = b""
    while True:
        try:
            shown += os.read(screen, 1 << 16)
        except OSError:  # the command has ended
            break
    os.waitpid(process, 0)
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[A|[\r\n]|[^\x1b\r\n]", shown.decode()):
        if part == "\x1b[A":  # up
            row -= 1
        elif part == "\r":
            column = 0
        else:
            if part == "\n" or column == COLUMNS:
                row, column = row + 1, 0
                lines += [""] * (row == len(lines))
            if part != "\n":
                line = lines[row].ljust(column)
                lines[row] = line[:column] + part + line[column + 1 :]
                column += 1
    return [line.rstrip() for line in lines]


def draw_terminal(prompt: str, words: list[str], name: str) -> None:
    """Draws a command, as it is typed, and what it prints."""
    lines = [*f"$ {prompt}".split("\n"), *terminal(words)]
    while not lines[-1]:
        del lines[-1]
    width, height = 20 + CHARACTER * COLUMNS, 20 + LINE * len(lines)
    texts = "\n".join(
        f'<text x="10" y="{10 + LINE * (i + 0.75):.0f}">'
        + html.escape(line).replace(" ", "\xa0")  # none is dropped
        + "</text>"
        for i, line in enumerate(lines)
    )
    (ROOT / "docs" / "images" / name).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} '
        f'{height:.0f}" font-family="DejaVu Sans Mono, Menlo, Consolas, '
        'monospace" font-size="13">\n'
        '<rect width="100%" height="100%" rx="8" fill="#1e2430"/>\n'
        f'<g fill="#e4e8ee">\n{texts}\n</g>\n</svg>\n',
        encoding="utf-8",
    )


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

    draw_terminal(
        "build_vocab --help", ["build_vocab.py", "--help"], "help.svg"
    )
    with tempfile.TemporaryDirectory() as folder:
        given = [
            "--do_train", "--do_eval", "--train_file=train.csv",
            "--eval_file=dev.csv", "--label_column=package",
            "--init_checkpoint=demo_output/model", "--output_dir=packages_best",
            "--max_seq_length=64", "--num_train_epochs=2",
            "--learning_rate=3e-4", "--eval_steps=50",
        ]  # fmt: skip
        prompt = "run_classifier"
        for flag in given:
            is_full = len(prompt.split("\n")[-1]) + len(flag) > COLUMNS - 6
            prompt += (" \\\n    " if is_full else " ") + flag
        os.symlink(ROOT / "demo_output", f"{folder}/demo_output")
        for name in ("train.csv", "dev.csv"):
            os.symlink(ROOT / name, f"{folder}/{name}")
        os.chdir(folder)
        script = str(ROOT / "run_classifier.py")
        draw_terminal(prompt, [script, *given], "training.svg")


if __name__ == "__main__":
    main()
