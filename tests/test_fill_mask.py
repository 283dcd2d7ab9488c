"""The real command, on a model whose answers are known."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from modeling.config import BertConfig
from modeling.conversion import save_model_folder
from tasks.blanks import BlankFiller

ROOT = Path(__file__).parents[1]
PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] a . red blue".split()
CONFIG = BertConfig(
    vocab_size=11,
    hidden_size=6,
    num_hidden_layers=1,
    num_attention_heads=3,
    intermediate_size=13,
    max_position_embeddings=7,
    type_vocab_size=2,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that answers blue to one half, red to a quarter, whatever asked.

    Where all weights are 0, the scores are the output's bias.
    """
    path = tmp_path_factory.mktemp("model")
    (path / "vocab.txt").write_text("".join(p + "\n" for p in PIECES))
    shares = np.full(CONFIG.vocab_size, 0.25 / (CONFIG.vocab_size - 2))
    shares[[PIECES.index("blue"), PIECES.index("red")]] = 0.5, 0.25
    model = BlankFiller(CONFIG)
    for binding in model.bindings():
        is_bias = binding.name == "cls/predictions/output_bias"
        value = np.log(shares) if is_bias else np.zeros(binding.shape)
        binding.write(value.astype(np.float32))
    save_model_folder(
        str(path), CONFIG, model.bindings(), str(path / "vocab.txt")
    )
    return str(path)


def run(*words: str, lines: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "fill_mask.py", *words],
        cwd=ROOT,
        input=lines,
        capture_output=True,
        text=True,
    )


def failure(*words: str, lines: str = "") -> str:
    """The sentence of a run that must end with exit code 1."""
    done = run(*words, lines=lines)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_arguments(folder: str) -> None:
    done = run(f"--model_dir={folder}", "--top_k=2", "A [MASK].", "[MASK] b")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "A [MASK].\n  blue 0.500  red 0.250\n"
        "[MASK] b\n  blue 0.500  red 0.250\n"
    )


def test_standard_input_keeps_the_order_and_empty_lines(folder: str) -> None:
    done = run(
        f"--model_dir={folder}",
        "--top_k=1",
        lines="a [MASK] [MASK]\n\n[MASK] a",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "a [MASK] [MASK]\n  blue 0.500\n  blue 0.500\n"
        "\n"
        "[MASK] a\n  blue 0.500\n"
    )


def test_file_with_a_line_without_a_mask(folder: str, tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("a [MASK]\na blue\n")
    sentence = failure(f"--model_dir={folder}", f"--input_file={path}")
    assert sentence == (
        "fill_mask.py: line 2: there is no [MASK] in it: 'a blue'"
    )


def test_folder_that_lacks_a_file(tmp_path: Path) -> None:
    assert f"--model_dir={tmp_path} has no bert_config.json" in failure(
        f"--model_dir={tmp_path}"
    )


def test_text_and_file_at_once() -> None:
    assert "both --input_file and the text 'a [MASK]'" in failure(
        "--model_dir=x", "--input_file=y", "a [MASK]"
    )


def test_help_of_the_installed_command_lists_the_flags() -> None:
    script = "import fill_mask; fill_mask.cli()"  # what pip installs
    done = subprocess.run(
        [sys.executable, "-c", script, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("Fills in blanks")
    assert "--top_k" in done.stdout
