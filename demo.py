"""What `make demo` runs: from text to a BERT that fills in blanks.

The text is what every Python installation carries: the pydoc topics and the
docstrings of the standard library. The rest is four of this repository's
commands, run as anyone would type them. All of it lies in demo_output/, and
a second run resumes where the first one stopped.
"""

import argparse
import ast
import collections
import hashlib
import json
import math
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bert_keras.cli import command

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = Path("demo_output")
MODEL = FOLDER / "model"
VOCAB = FOLDER / "vocab.txt"
CONFIG = FOLDER / "bert_config.json"
PLOT = FOLDER / "loss.png"

HELD_OUT_EVERY = 10  # each tenth document is kept from training
MIN_SENTENCES = 3  # of a document: next sentences need some
MIN_WORDS = 4  # of a sentence
SMOOTHING_STEPS = 50
MAX_SEQ_LENGTH = 64
MAX_PREDICTIONS_PER_SEQ = 20
# With 30 % of the tokens to be predicted it learns sooner than with 15 %
MASKED_LM_PROB = {"train": 0.3, "held_out": 0.15}
VOCAB_SIZE = 4000

BERT_TINY = {
    "attention_probs_dropout_prob": 0.0,  # it under-fits: dropout would slow it
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 128,
    "initializer_range": 0.06,  # 0.02 suits wider layers: this learns sooner
    "intermediate_size": 512,
    "max_position_embeddings": MAX_SEQ_LENGTH,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": VOCAB_SIZE,
}
MASKED_SENTENCES = (
    "Return the [MASK] of the string.",
    "It returns a list of all the [MASK].",
    "The first [MASK] is the name of the module.",
)


# Text


def stdlib_sources(folder: Path) -> list[Path]:
    """The standard library's files, less its tests and installed packages."""
    skipped = {"test", "tests", "idle_test", "site-packages", "dist-packages"}
    return [
        path
        for path in sorted(folder.rglob("*.py"))
        if not skipped & set(path.relative_to(folder).parts)
    ]


def docstrings(source: bytes) -> str:
    """All docstrings of a module, in the order they are written."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, holders)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    return "\n\n".join(filter(None, map(ast.get_docstring, nodes)))


def sentences(text: str) -> Iterator[str]:
    """Yields the sentences of a text's prose paragraphs.

    "Join any two\\npaths. See the module os.\\n\\n>>> join(a, b)" has two,
    "Join any two paths." and "See the module os.": a sentence ends at . ! or ?
    before a blank and a capital.
    """
    for paragraph in re.split(r"\n\s*\n", text):
        words = " ".join(paragraph.split())
        letters = sum(c.isalpha() or c == " " for c in words)
        if letters < 0.85 * len(words) or ">>>" in words:
            continue  # code, a table or a rule
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z\"'(])", words):
            if len(sentence.split()) >= MIN_WORDS:
                yield sentence


def documents(texts: Iterable[str]) -> list[list[str]]:
    """Splits texts into sentences, each sentence once.

    The library repeats itself; a sentence met before is left out, so that
    nothing held out was seen in training.
    """
    seen: set[str] = set()
    result = []
    for text in texts:
        new = [s for s in dict.fromkeys(sentences(text)) if s not in seen]
        seen.update(new)
        if len(new) >= MIN_SENTENCES:
            result.append(new)
    return result


def python_texts() -> Iterator[str]:
    """Yields the pydoc topics, then each module's docstrings."""
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))
    for path in stdlib_sources(Path(sysconfig.get_path("stdlib"))):
        try:
            yield docstrings(path.read_bytes())
        except SyntaxError:
            continue  # a template, or a sample of bad code


def as_text(parts: list[list[str]]) -> str:
    """One sentence a line, a blank line between documents."""
    return "\n".join("".join(line + "\n" for line in part) for part in parts)


# Commands, each as one would type it


def commands() -> dict[str, list[str]]:
    """The road from text to model: what each command makes -> its words."""
    lengths = [
        f"--max_seq_length={MAX_SEQ_LENGTH}",
        f"--max_predictions_per_seq={MAX_PREDICTIONS_PER_SEQ}",
    ]
    records = {
        f"{name}.tfrecord": [
            "create_pretraining_data.py",
            f"--input_file={FOLDER}/{name}.txt",
            f"--output_file={FOLDER}/{name}.tfrecord",
            "--sampler=google",  # with which README's figures were measured
            f"--vocab_file={VOCAB}",
            *lengths,
            f"--masked_lm_prob={MASKED_LM_PROB[name]}",
            f"--dupe_factor={dupe_factor}",
        ]
        for name, dupe_factor in (("train", 10), ("held_out", 5))
    }
    return {
        "vocab.txt": [
            "build_vocab.py",
            f"--input_file={FOLDER}/train.txt",
            f"--output_file={VOCAB}",
            f"--vocab_size={VOCAB_SIZE}",
        ],
        **records,
        "model": [
            "run_pretraining.py",
            f"--input_file={FOLDER}/train.tfrecord",
            f"--eval_file={FOLDER}/held_out.tfrecord",
            f"--bert_config_file={CONFIG}",
            f"--vocab_file={VOCAB}",
            f"--output_dir={MODEL}",
            "--do_train",
            "--do_eval",
            *lengths,
            "--train_batch_size=16",
            "--eval_batch_size=64",
            "--max_eval_steps=1000",
            "--eval_steps=500",
            "--num_train_steps=6000",
            "--num_warmup_steps=600",
            "--learning_rate=1e-3",
            "--use_xla",
            "--seed=1",
        ],
    }


def run(words: list[str], made: str | None = None) -> None:
    """Shows a command as one would type it, and runs it unless an earlier run
    has finished it; ends the demo where it fails.

    Args:
        made: what it makes; None: nothing that stays.
    """
    python = os.path.relpath(sys.executable)
    first, *flags = map(shlex.quote, words)
    print("\n$", " \\\n    ".join([f"{python} {first}", *flags]), flush=True)
    finished = FOLDER / f".{made}.finished"
    if made and finished.exists():
        print(f"{FOLDER / made} is kept from an earlier run")
        return
    status = subprocess.run([sys.executable, *words]).returncode
    if status:
        sys.exit(f"demo.py: {words[0]} ended with exit code {status}")
    if made:
        finished.touch()


def prepare() -> None:
    """Writes text and config; where they or a command differ, starts afresh."""
    docs = documents(python_texts())
    held_out = docs[::HELD_OUT_EVERY]
    train = [d for i, d in enumerate(docs) if i % HELD_OUT_EVERY]
    files = {
        FOLDER / "train.txt": as_text(train),
        FOLDER / "held_out.txt": as_text(held_out),
        CONFIG: json.dumps(BERT_TINY, indent=2) + "\n",
    }
    inputs = json.dumps([*files.values(), commands()])
    digest = hashlib.sha256(inputs.encode()).hexdigest()
    recipe = FOLDER / ".recipe"
    if not recipe.exists() or recipe.read_text() != digest:
        FOLDER.mkdir(exist_ok=True)
        made = [FOLDER / name for name in commands()]
        for path in (*made, PLOT, *FOLDER.glob(".*.finished")):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
        recipe.write_text(digest)
    for name, part in (("train.txt", train), ("held_out.txt", held_out)):
        lines = sum(map(len, part))
        print(f"{FOLDER / name}: {len(part)} documents, {lines} sentences")


# Results


def guess(train: list[int], held_out: list[int]) -> tuple[int, float]:
    """The value met most often in training, the first in a tie, and the
    held-out accuracy of always answering it."""
    value = statistics.mode(train)
    return value, held_out.count(value) / len(held_out)


def answers(path: Path) -> tuple[list[int], list[int]]:
    """What is to be guessed in a record file: masked ids, and pair labels."""
    from bert_keras.data.record_schema import pretraining_features
    from bert_keras.data.tfrecords import parse_batch, read_records

    features = pretraining_features(MAX_SEQ_LENGTH, MAX_PREDICTIONS_PER_SEQ)
    batch = parse_batch(features, list(read_records(str(path))))
    is_real = batch["masked_lm_weights"].numpy() > 0
    masked_ids = batch["masked_lm_ids"].numpy()[is_real]
    labels = batch["next_sentence_labels"].numpy()[:, 0]
    return masked_ids.tolist(), labels.tolist()


def smoothed(values: list[float], width: int) -> list[float]:
    """The mean of each value and up to width - 1 before it."""
    windows = (
        values[max(0, i - width + 1) : i + 1] for i in range(len(values))
    )
    return [sum(window) / len(window) for window in windows]


def entropy(values: list[int]) -> float:
    """The loss, in nats, of answering each value as often as it occurs."""
    counts = collections.Counter(values)
    shares = (count / len(values) for count in counts.values())
    return -sum(share * math.log(share) for share in shares)


def read_log(path: Path, name: str) -> tuple[list[int], list[float]]:
    """The steps of a log of JSON lines, and a figure at each."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["step"] for line in lines], [line[name] for line in lines]


def draw_loss(
    axes: "Axes", model: Path, name: str, title: str, guessing: float
) -> None:
    """Draws a loss in training and on held-out text, and that of guessing."""
    steps, values = read_log(model / "train_log.jsonl", name)
    means = smoothed(values, SMOOTHING_STEPS)
    label = f"training (mean of {SMOOTHING_STEPS} steps)"
    axes.plot(steps, means, label=label)
    axes.plot(*read_log(model / "eval_log.jsonl", name), "o", label="held-out")
    label = f"guessing ({guessing:.2f})"
    axes.axhline(guessing, color="gray", ls="--", label=label)
    axes.set(title=title, xlabel="step", ylabel="loss (nats)")
    axes.legend(frameon=False, fontsize=8)
    axes.grid(alpha=0.3)


def draw_losses(model: Path, train_ids: list[int], picture: Path) -> None:
    """Draws the two losses of a folder's training.

    Args:
        train_ids: of the masked tokens: how often each is met.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    masked, pairs = figure.subplots(1, 2)
    draw_loss(
        masked, model, "masked_lm_loss", "Masked tokens", entropy(train_ids)
    )
    draw_loss(pairs, model, "next_sentence_loss", "Next sentence", math.log(2))
    figure.savefig(picture, dpi=120)


def report(
    train: tuple[list[int], list[int]], held_out: tuple[list[int], list[int]]
) -> None:
    """Prints the held-out accuracies beside those of guessing.

    Args:
        train, held_out: the answers of the two record files.
    """
    train_ids, train_labels = train
    ids, labels = held_out
    most_common, id_share = guess(train_ids, ids)
    label, label_share = guess(train_labels, labels)
    token = VOCAB.read_text(encoding="utf-8").split("\n")[most_common]
    lines = (MODEL / "eval_results.txt").read_text().splitlines()
    found = dict(line.split(" = ") for line in lines)
    print(
        f"\nOn held-out text     {'this BERT':>9}  guessing\n"
        f"masked tokens        {float(found['masked_lm_accuracy']):9.1%}  "
        f"{id_share:.1%} (always {token!r})\n"
        f"is it the next one?  {float(found['next_sentence_accuracy']):9.1%}  "
        f"{label_share:.1%} (always {('next', 'random')[label]!r}; a coin: "
        "50.0%)"
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()  # --help
    started = time.monotonic()
    os.chdir(Path(__file__).parent)
    prepare()
    for name, words in commands().items():
        run(words, name)
    command.import_tensorflow(computes=False)
    train = answers(FOLDER / "train.tfrecord")
    draw_losses(MODEL, train[0], PLOT)
    run(["predict.py", f"--model_dir={MODEL}", *MASKED_SENTENCES])
    report(train, answers(FOLDER / "held_out.tfrecord"))
    python = os.path.relpath(sys.executable)
    print(f"""
The losses are drawn in {PLOT}; the model is the folder {MODEL}.
Type next:

  {python} predict.py --model_dir={MODEL} "Words with a [MASK]."
  .venv/bin/tensorboard --logdir={MODEL}
  {python} run_pretraining.py --help

To pre-train on text of your own, one sentence a line and a blank line between
documents, type the commands above with its name; README.md says more.

Done in {time.monotonic() - started:.0f} seconds.""")


if __name__ == "__main__":
    main()
