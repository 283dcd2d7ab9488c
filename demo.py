"""What `make demo` runs: from text to a BERT that fills in blanks.

The text is what every Python installation carries: the pydoc topics and the
docstrings of the standard library. The rest is four of this repository's
commands, run as anyone would type them. All of it lies in demo_output/, and
a second run goes on where the first one stopped.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from bert_keras.cli import command

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
MAX_PREDICTIONS_PER_SEQ = 10
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
    holders = (
        ast.Module,
        ast.ClassDef,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
    )
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
    records = [
        "--sampler=google",  # with which README's figures were measured
        f"--vocab_file={VOCAB}",
        f"--max_seq_length={MAX_SEQ_LENGTH}",
        f"--max_predictions_per_seq={MAX_PREDICTIONS_PER_SEQ}",
    ]
    return {
        "vocab.txt": [
            "build_vocab.py",
            f"--input_file={FOLDER}/train.txt",
            f"--output_file={VOCAB}",
            f"--vocab_size={VOCAB_SIZE}",
        ],
        "train.tfrecord": [
            "create_pretraining_data.py",
            f"--input_file={FOLDER}/train.txt",
            f"--output_file={FOLDER}/train.tfrecord",
            *records,
            "--dupe_factor=10",
        ],
        "held_out.tfrecord": [
            "create_pretraining_data.py",
            f"--input_file={FOLDER}/held_out.txt",
            f"--output_file={FOLDER}/held_out.tfrecord",
            *records,
            "--dupe_factor=5",
        ],
        "model": [
            "run_pretraining.py",
            f"--input_file={FOLDER}/train.tfrecord",
            f"--eval_file={FOLDER}/held_out.tfrecord",
            f"--bert_config_file={CONFIG}",
            f"--vocab_file={VOCAB}",
            f"--output_dir={MODEL}",
            "--do_train",
            "--do_eval",
            f"--max_seq_length={MAX_SEQ_LENGTH}",
            f"--max_predictions_per_seq={MAX_PREDICTIONS_PER_SEQ}",
            "--train_batch_size=16",
            "--eval_batch_size=64",
            "--max_eval_steps=1000",
            "--num_train_steps=6000",
            "--num_warmup_steps=600",
            "--learning_rate=1e-3",
            "--use_xla",
            "--seed=1",
        ],
    }


def show(words: list[str]) -> None:
    """Prints a command as one would type it."""
    python = os.path.relpath(sys.executable)
    print(f"\n$ {shlex.join([python, words[0]])}", end="")
    for word in words[1:]:
        print(" \\\n    " + shlex.quote(word), end="")
    print(flush=True)


def run(words: list[str]) -> None:
    """Runs a command; ends the demo where it fails."""
    status = subprocess.run([sys.executable, *words]).returncode
    if status:
        sys.exit(f"demo.py: {words[0]} ended with exit code {status}")


def make(name: str, words: list[str]) -> None:
    """Runs a command unless an earlier run has finished it."""
    show(words)
    finished = FOLDER / f".{name}.finished"
    if finished.exists():
        print(f"{FOLDER / name} is kept from an earlier run")
        return
    run(words)
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
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir()
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
        recipe.write_text(digest)
    for name, part in (("train.txt", train), ("held_out.txt", held_out)):
        lines = sum(map(len, part))
        print(f"{FOLDER / name}: {len(part)} documents, {lines} sentences")


# Results


def commonest(values: Iterable[int]) -> int:
    """The value met most often, the first of them in a tie."""
    return Counter(values).most_common(1)[0][0]


def share(value: int, values: list[int]) -> float:
    """The accuracy of always answering `value`."""
    return values.count(value) / len(values)


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


def read_results(path: Path) -> dict[str, float]:
    """Reads `key = value` lines."""
    pairs = (line.split(" = ") for line in path.read_text().splitlines())
    return {key: float(value) for key, value in pairs}


def smoothed(values: list[float], width: int) -> list[float]:
    """The mean of each value and up to width - 1 before it."""
    windows = (
        values[max(0, i - width + 1) : i + 1] for i in range(len(values))
    )
    return [sum(window) / len(window) for window in windows]


def draw_losses(log: Path, picture: Path) -> None:
    """Draws the two losses of a train_log.jsonl."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = [json.loads(line) for line in log.read_text().splitlines()]
    figure, axes = pyplot.subplots(2, sharex=True, layout="constrained")
    names = ("masked_lm_loss", "next_sentence_loss")
    for axis, name in zip(axes, names, strict=True):
        values = smoothed([step[name] for step in steps], SMOOTHING_STEPS)
        axis.plot([step["step"] for step in steps], values)
        axis.set_ylabel(name)
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel(f"step (mean of the last {SMOOTHING_STEPS})")
    figure.savefig(picture, dpi=120)


def report() -> None:
    """Prints the held-out accuracies beside those of guessing."""
    command.import_tensorflow(computes=False)
    train_ids, train_labels = answers(FOLDER / "train.tfrecord")
    ids, labels = answers(FOLDER / "held_out.tfrecord")
    piece, label = commonest(train_ids), commonest(train_labels)
    pieces = VOCAB.read_text(encoding="utf-8").split("\n")
    found = read_results(MODEL / "eval_results.txt")
    always = (
        f"always {pieces[piece]!r}",
        f"always {('next', 'random')[label]!r}",
    )
    print(f"\nOn held-out text     {'this BERT':>9}  guessing")
    print(
        f"masked pieces        {found['masked_lm_accuracy']:9.1%}  "
        f"{share(piece, ids):.1%} ({always[0]})\n"
        f"is it the next one?  {found['next_sentence_accuracy']:9.1%}  "
        f"{share(label, labels):.1%} ({always[1]}; a coin: 50.0%)"
    )


def what_next() -> None:
    python = os.path.relpath(sys.executable)
    print(
        f"""
The losses are drawn in {PLOT}; the model is the folder {MODEL}.
Type next:

  {python} predict.py --model_dir={MODEL} "Words with a [MASK]."
  .venv/bin/tensorboard --logdir={MODEL}
  {python} run_pretraining.py --help

To pre-train on text of your own, one sentence a line and a blank line between
documents, type the commands above with its name; README.md says more."""
    )


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()  # --help
    started = time.monotonic()
    os.chdir(Path(__file__).parent)
    prepare()
    for name, words in commands().items():
        make(name, words)
    draw_losses(MODEL / "train_log.jsonl", PLOT)
    blanks = ["predict.py", f"--model_dir={MODEL}", *MASKED_SENTENCES]
    show(blanks)
    run(blanks)
    report()
    what_next()
    print(f"\nDone in {time.monotonic() - started:.0f} seconds.")


if __name__ == "__main__":
    main()
