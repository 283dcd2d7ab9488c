"""The real command: a model folder whose vocabulary has a text's words."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from conftest import GOLDEN, fails_with, forked, run

from data.tokenization import FullTokenizer
from tasks.task import TaskSettings

COMMAND = "extend_vocab.py"
TABLES = "bert/embeddings/word_embeddings", "cls/predictions/output_bias"
TEXT = """Sailships sailships sailships, the sea.
windy[unused0] islandsails windsail windsail seaships qqq qqq qqq qqq
unaffables oldship sailing captaining
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """95 pieces, the sixth unused, in a table of 101 rows."""
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "tiny_bert", folder)
    shutil.copy(GOLDEN / "tiny_vocab.txt", folder / "vocab.txt")
    (tmp_path / "text.txt").write_text(TEXT)
    return folder


def flags(model: Path, **changes: object) -> list[str]:
    values = {
        "init_checkpoint": model,
        "input_file": model.parent / "text.txt",
        "output_dir": model.parent / "extended",
        "do_lower_case": True,  # the small vocabulary has both cases
        **changes,
    }
    return [
        f"--{name}={value}"
        for name, value in values.items()
        if value is not None
    ]


def variables(folder: Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


def test_words_begin_as_the_mean_of_their_pieces(model: Path) -> None:
    output = run(COMMAND, *flags(model, num_words=9))
    assert "9 words more, vocab_size 103 instead of 101" in output
    extended = model.parent / "extended"
    old = (model / "vocab.txt").read_text().splitlines()
    new = (extended / "vocab.txt").read_text().splitlines()
    assert new == [
        *old[:5], "qqq", *old[6:],  # the most frequent one, then by letters
        "sailships", "windsail", "captaining", "islandsails", "oldship",
        "sailing", "seaships", "unaffables",
    ]  # fmt: skip
    config = json.loads((extended / "bert_config.json").read_text())
    assert config["vocab_size"] == len(new) == 103

    forked("predict.py", f"--model_dir={extended}", "the sailships saw [MASK]")

    before, after = variables(model), variables(extended)
    assert before.keys() == after.keys()
    for name, table in before.items():
        if name not in TABLES:
            np.testing.assert_array_equal(after[name], table)
            continue
        kept = [*range(5), *range(6, 95)]
        np.testing.assert_array_equal(after[name][kept], table[kept])
        assert len(after[name]) == 103
        for word, pieces in {
            "qqq": ["[UNK]"],
            "sailships": ["sail", "##ship", "##s"],
            "unaffables": ["un", "##aff", "##able", "##s"],
        }.items():
            rows = [table[old.index(piece)] for piece in pieces]
            np.testing.assert_allclose(
                after[name][new.index(word)], np.mean(rows, 0), rtol=1e-6
            )


def test_without_a_number_the_model_stays_as_large_as_it_is(
    model: Path,
) -> None:
    """And its task says how words are read: here in their case."""
    task = TaskSettings("span", max_seq_length=16, do_lower_case=False)
    (model / "task.json").write_text(task.to_json())
    (model.parent / "text.txt").write_text("Windsail Windsail windsail the")
    forked(COMMAND, *flags(model, do_lower_case=None))
    extended = model.parent / "extended"
    vocab = str(extended / "vocab.txt")
    pieces = FullTokenizer(vocab, False).tokenize("Windsail windsail")
    assert pieces == ["Windsail", "wind", "##sail"]
    assert len(variables(extended)[TABLES[0]]) == 101
    assert TaskSettings.from_folder(str(extended)) == task


def test_what_cannot_be_extended(model: Path, tmp_path: Path) -> None:
    (tmp_path / "known.txt").write_text("the sea, the sea")
    changes = flags(model, input_file=tmp_path / "known.txt")
    assert "one piece already" in fails_with(COMMAND, *changes)
    vocab = (model / "vocab.txt").read_text()
    (model / "vocab.txt").write_text(vocab.replace("[unused0]", "tern"))
    assert "no [unused] place; say with --num_words" in fails_with(
        COMMAND, *flags(model)
    )
    theirs = GOLDEN / "hugging_face" / "pretraining"
    assert "convert_checkpoint.py" in fails_with(COMMAND, *flags(theirs))
    (model / "vocab.txt").unlink()
    assert "there is no vocab.txt beside" in fails_with(COMMAND, *flags(model))
    assert not (tmp_path / "extended").exists()
