"""The real command: a model folder whose vocabulary has a text's words."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.tokenization import FullTokenizer
from bert_keras.tasks.task_config import TaskConfig
from tests.conftest import GOLDEN, fails_with, forked, run

COMMAND = "extend_vocab.py"
TABLES = "bert/embeddings/word_embeddings", "cls/predictions/output_bias"
TEXT = """Sailships sailships sailships, the sea.
windy[unused0] islandsails windsail windsail seaships qqq qqq qqq qqq
unaffables oldship sailing captaining
"""
# 23 words; 42 pieces before, 24 after; 5 and 1 of them unknown.
SUMMARY = [
    "                          before       after",
    "tokens a word              1.826       1.043",
    "  [UNK]                   21.74%       4.35%",
]


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


@pytest.mark.slow
def test_words_begin_as_the_mean_of_their_pieces(model: Path) -> None:
    output = run(COMMAND, *flags(model, num_words=9))
    assert "9 words added, 2 left out" in output
    assert "vocab_size is 103 (was 101)" in output
    assert output.splitlines()[-3:] == SUMMARY
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

    before, after = variables(GOLDEN / "tiny_bert"), variables(extended)
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
    task = TaskConfig("span", 16, do_lower_case=False, doc_stride=5)
    (model / "task.json").write_text(task.to_json())
    (model.parent / "text.txt").write_text("Windsail Windsail windsail the")
    forked(COMMAND, *flags(model, do_lower_case=None))
    extended = model.parent / "extended"
    vocab = str(extended / "vocab.txt")
    pieces = FullTokenizer(vocab, False).tokenize("Windsail windsail")
    assert pieces == ["Windsail", "wind", "##sail"]
    assert len(variables(extended)[TABLES[0]]) == 101
    assert TaskConfig.from_folder(str(extended)) == task


def test_a_checkpoint_of_a_run_of_googles_and_an_odd_vocabulary(
    model: Path,
) -> None:
    """It has slots and a counter, and is named by its prefix; the vocabulary
    has an empty line and no newline at its end. Case is told by its pieces."""
    values = variables(model)
    table = values[TABLES[0]]
    saved = {
        **values,
        f"{TABLES[0]}/adam_m": table,
        "global_step": np.int64(7),
        "steps_since": np.int64(7),
    }
    prefix = model.parent / "run" / "model.ckpt-7"
    prefix.parent.mkdir()
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(saved),
        shape_and_slices=[""] * len(saved),
        tensors=[tf.constant(value) for value in saved.values()],
    )
    shutil.copy(model / "bert_config.json", prefix.parent)
    lines = (model / "vocab.txt").read_text().splitlines()
    lines[90] = "\u2028"
    (prefix.parent / "vocab.txt").write_text("\n".join(lines))
    text = model.parent / "text.txt"
    text.write_text("Captaining Captaining captaining Schön Schön")

    changes = {"init_checkpoint": prefix, "do_lower_case": None, "num_words": 9}
    output = forked(COMMAND, *flags(model, **changes))
    assert "not used: steps_since" in output
    extended = model.parent / "extended"
    assert variables(extended).keys() == values.keys()
    new = (extended / "vocab.txt").read_text().split("\n")
    words = "Captaining Schön captaining".split()
    assert new == [*lines[:5], words[0], *lines[6:], *words[1:], ""]


def test_an_unused_place_that_is_in_use_stays(model: Path) -> None:
    """A user's own token, as ColBERT's folders have them."""
    token = {"content": "[unused0]", "special": True}
    config = {"do_lower_case": True, "added_tokens_decoder": {"5": token}}
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    (model / "modules.json").write_text("[]")  # its pooling stays with it
    forked(COMMAND, *flags(model, num_words=2))
    extended = model.parent / "extended"
    assert (extended / "modules.json").read_text() == "[]"
    lines = (extended / "vocab.txt").read_text("utf-8").split("\n")
    assert lines[5] == "[unused0]"
    assert lines[95:97] == ["qqq", "sailships"]  # met 4 and 3 times
    before, after = variables(model), variables(extended)
    for name in TABLES:
        np.testing.assert_array_equal(after[name][5], before[name][5])
    unlimited = flags(model, output_dir=model.parent / "other")
    assert "has no [unused] place" in fails_with(COMMAND, *unlimited)


def test_what_cannot_be_extended(model: Path, tmp_path: Path) -> None:
    (tmp_path / "known.txt").write_text("the sea, the sea")
    known = flags(model, input_file=tmp_path / "known.txt")
    assert "no word of several tokens" in fails_with(COMMAND, *known)
    (tmp_path / "text.jsonl").write_text('{"body": "the sea"}\n')
    known = flags(model, input_file=tmp_path / "text.jsonl")
    assert "give --input_format=jsonl" in fails_with(COMMAND, *known)
    known += ["--input_format=jsonl", "--text_field=body"]
    assert "no word of several tokens" in fails_with(COMMAND, *known)
    theirs = GOLDEN / "hugging_face" / "pretraining"
    assert "convert_checkpoint.py" in fails_with(
        COMMAND, *flags(model, init_checkpoint=theirs)
    )
    config = (model / "bert_config.json").read_text()
    for size in ("98", "200"):
        changed = config.replace('"vocab_size": 101', f'"vocab_size": {size}')
        assert changed != config
        (model / "bert_config.json").write_text(changed)
        assert "mis-shaped" in fails_with(COMMAND, *flags(model))
    vocab = (model / "vocab.txt").read_text()
    (model / "vocab.txt").write_text(vocab.replace("[unused0]", "tern"))
    assert "no [unused] place; say with --num_words" in fails_with(
        COMMAND, *flags(model)
    )
    (model / "vocab.txt").unlink()
    assert "vocab.txt is missing beside" in fails_with(COMMAND, *flags(model))
    assert not [*tmp_path.glob("extended*")]
