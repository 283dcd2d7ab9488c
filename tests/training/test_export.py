"""Tests of training/export.py, on a model that a person can work out."""

from pathlib import Path

import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.training.export import (
    Signature,
    version_folder,
    write_saved_model,
)

ROW = tf.TensorSpec([None], tf.float32)


def write(folder: Path) -> None:
    """Twice x and y, of a variable; and their names' lengths by a table."""
    factor = tf.Variable(2.0)
    words = tf.lookup.KeyValueTensorInitializer(["two", "five"], [2, 5])
    table = tf.lookup.StaticHashTable(words, 0)
    write_saved_model(
        str(folder),
        {
            "serving_default": Signature(
                lambda batch: {"z": factor * batch["y"] - batch["x"]},
                {"y": ROW, "x": ROW},
            ),
            "word": Signature(
                lambda batch: {"number": table.lookup(batch["word"])},
                {"word": tf.TensorSpec([None], tf.string)},
            ),
        },
        [factor, table],
        {"words.txt": b"two\nfive\n"},
    )


def test_signatures_answer_by_the_names_of_their_inputs(tmp_path: Path) -> None:
    write(tmp_path / "7")
    loaded = tf.saved_model.load(str(tmp_path / "7"))
    ask = loaded.signatures["serving_default"]
    # 2 * 5 - 3 and 2 * 7 - 4; any number of rows
    answer = ask(x=tf.constant([3.0, 4.0]), y=tf.constant([5.0, 7.0]))
    assert answer["z"].numpy().tolist() == [7.0, 10.0]
    assert ask(x=tf.zeros([0]), y=tf.zeros([0]))["z"].shape == (0,)
    word = loaded.signatures["word"](word=tf.constant(["five", "six"]))
    assert word["number"].numpy().tolist() == [5, 0]
    assert (tmp_path / "7/assets/words.txt").read_bytes() == b"two\nfive\n"
    assert [path.name for path in tmp_path.iterdir()] == ["7"]


def test_a_version_is_never_written_over(tmp_path: Path) -> None:
    assert version_folder(str(tmp_path), 3) == str(tmp_path / "3")
    (tmp_path / "3").mkdir()
    with pytest.raises(InputError, match="/3 exists.*another `version"):
        version_folder(str(tmp_path), 3)


def test_nothing_half_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server looks into the folder at any time."""
    save = tf.saved_model.save
    seen: list[str] = []

    def failing(module: tf.Module, folder: str, signatures: object) -> None:
        save(module, folder, signatures)
        seen.extend(path.name for path in tmp_path.iterdir())
        raise OSError("no space left")

    monkeypatch.setattr(tf.saved_model, "save", failing)
    with pytest.raises(InputError, match="no space left; check `export_dir"):
        write(tmp_path / "1")
    assert len(seen) == 1
    assert not seen[0].isdigit()  # or it would be served
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / ".1.incomplete").mkdir()
    (tmp_path / ".1.incomplete" / "rest").touch()
    write(tmp_path / "1")
    assert not (tmp_path / "1" / "rest").exists()
