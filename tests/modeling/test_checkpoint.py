"""Tests of modeling/checkpoint.py."""

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_keras import files
from bert_keras.errors import InputError
from bert_keras.modeling.checkpoint import (
    AnyModel,
    LoadReport,
    check_sizes,
    largest_difference,
    load_checkpoint,
    resolve_checkpoint,
    save_model_folder,
)
from bert_keras.modeling.config import BertConfig, model_config_file
from bert_keras.tasks.pretraining.model import Pretraining
from tests.conftest import GOLDEN, TINY

TINY_BERT = GOLDEN / "tiny_bert"

ALL_HEADS = {
    "bert/pooler/dense/kernel": (40, 40),
    "cls/predictions/output_bias": (101,),
    "cls/seq_relationship/output_weights": (2, 40),
    "output_weights": (3, 40),
    "cls/squad/output_weights": (2, 40),
}


def test_every_variable_of_googles_model_is_loaded_and_written(
    tmp_path: Path,
) -> None:
    model = Pretraining(TINY)
    report = load_checkpoint(model.mappings(), str(TINY_BERT))
    assert len(report.loaded) == 62
    assert (report.missing, report.unused) == ((), ())
    save_model_folder(str(tmp_path), TINY, model.mappings(), None)
    original = tf.train.load_checkpoint(str(TINY_BERT / "bert_model.ckpt"))
    copy = tf.train.load_checkpoint(str(tmp_path / "bert_model.ckpt"))
    shapes = original.get_variable_to_shape_map()
    assert copy.get_variable_to_shape_map() == shapes
    for name in shapes:
        np.testing.assert_array_equal(
            copy.get_tensor(name), original.get_tensor(name)
        )


def test_query_key_and_value_stand_side_by_side() -> None:
    model = Pretraining(TINY)
    load_checkpoint(model.mappings(), str(TINY_BERT))
    kernel = model.encoder.layers[1].attention.qkv_kernel.numpy()
    reader = tf.train.load_checkpoint(str(TINY_BERT / "bert_model.ckpt"))
    key = reader.get_tensor("bert/encoder/layer_1/attention/self/key/kernel")
    np.testing.assert_array_equal(kernel[:, 40:80], key)


@pytest.mark.parametrize(
    "path",
    ["", "/bert_model.ckpt", "/bert_model.ckpt.index",
     "/bert_model.ckpt.data-00000-of-00001"],
)  # fmt: skip
def test_any_way_to_name_a_checkpoint(path: str) -> None:
    expected = str(TINY_BERT / "bert_model.ckpt")
    assert resolve_checkpoint(str(TINY_BERT) + path) == expected


def test_the_newest_training_checkpoint_of_a_folder(tmp_path: Path) -> None:
    for ending in (".index", ".data-00000-of-00001"):
        name = TINY_BERT / f"bert_model.ckpt{ending}"
        shutil.copy(name, tmp_path / f"model.ckpt-7{ending}")
    with pytest.raises(
        InputError, match="has no bert_model.ckpt, but .*/model.ckpt-7"
    ):
        resolve_checkpoint(str(tmp_path))
    for place in ("", "/where/it/was/"):
        (tmp_path / "checkpoint").write_text(
            f'model_checkpoint_path: "{place}model.ckpt-7"\n'
        )
        expected = str(tmp_path / "model.ckpt-7")
        assert resolve_checkpoint(str(tmp_path)) == expected
    (tmp_path / "checkpoint").unlink()
    os.mkfifo(tmp_path / "checkpoint")  # it would be waited for
    with pytest.raises(InputError, match="/checkpoint is a device or a pipe"):
        resolve_checkpoint(str(tmp_path))


def test_what_is_missing_and_unused_is_named(tmp_path: Path) -> None:
    model = Pretraining(TINY)
    mappings = model.mappings()
    dropped, kept = mappings[0], mappings[1:]
    save_model_folder(str(tmp_path), TINY, kept, None)
    report = load_checkpoint(
        [b for b in mappings if b is not kept[-1]], str(tmp_path)
    )
    assert report.missing == (dropped.name,)
    assert report.unused == ("cls/seq_relationship/output_bias",)
    assert str(report).splitlines() == [
        f"{tmp_path}/bert_model.ckpt: 60 variables loaded; new, at random: "
        "1 other; not used: next sentence head",
        f"  new, at random: {dropped.name}",
    ]


def test_another_shape_is_an_error_that_names_it() -> None:
    model = Pretraining(dataclasses.replace(TINY, vocab_size=103))
    with pytest.raises(InputError, match=r"\[101, 40\] where \[103, 40\]"):
        load_checkpoint(model.mappings(), str(TINY_BERT))


def test_a_checkpoint_of_something_else_is_an_error(tmp_path: Path) -> None:
    prefix = str(tmp_path / "other")
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=["dense/kernel"],
        shape_and_slices=[""],
        tensors=[tf.zeros([2])],
    )
    model = Pretraining(TINY)
    with pytest.raises(InputError, match="no variable of a BERT encoder"):
        load_checkpoint(model.mappings(), prefix)
    with pytest.raises(InputError, match="no checkpoint at"):
        load_checkpoint(model.mappings(), str(tmp_path / "absent"))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_named(
    number: float, tmp_path: Path
) -> None:
    model = Pretraining(TINY)
    values = model.encoder.embeddings.word_embeddings.numpy()
    values[7, 3:5] = number
    model.encoder.embeddings.word_embeddings.assign(values)
    save_model_folder(str(tmp_path), TINY, model.mappings(), None)
    named = "word_embeddings with 2 of 4,040 numbers infinite or not a number"
    with pytest.raises(InputError, match=named):
        load_checkpoint(Pretraining(TINY).mappings(), str(tmp_path))


def test_finite_weights_may_have_an_infinite_sum(tmp_path: Path) -> None:
    model = Pretraining(TINY)
    table = model.encoder.embeddings.word_embeddings
    table.assign(np.full(table.shape, 3e38, np.float32))
    save_model_folder(str(tmp_path), TINY, model.mappings(), None)
    load_checkpoint(Pretraining(TINY).mappings(), str(tmp_path))


@pytest.mark.parametrize(
    ("size", "value", "message"),
    [
        ("vocab_size", 102, "vocab_size asks for 102 instead of 101"),
        ("hidden_size", 45, "hidden_size asks for 45 instead of 40"),
        ("intermediate_size", 2**30, "asks for 1073741824 instead of 53"),
        ("max_position_embeddings", 9, "asks for 9 instead of 61"),
        ("type_vocab_size", 3, "type_vocab_size asks for 3 instead of 2"),
    ],
)
def test_a_size_is_compared_before_a_model_is_built(
    size: str, value: int, message: str
) -> None:
    config = dataclasses.replace(TINY, **{size: value})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"is mis-shaped, .*{message}"):
        check_sizes(config, str(TINY_BERT))


@pytest.mark.parametrize(
    "folder",
    [f.parent for f in GOLDEN.rglob("*config.json")],
    ids=lambda folder: folder.name,
)
def test_sizes_of_every_family_fit(folder: Path) -> None:
    config_file = model_config_file(str(folder))
    assert config_file is not None
    config = BertConfig.from_json_file(config_file)
    check_sizes(config, str(folder), needs_all_layers=True)
    size = "max_position_embeddings"
    if config.is_modern:  # which has no table of them
        size = "intermediate_size"
    more: dict[str, Any] = {size: getattr(config, size) + 1}
    wider = dataclasses.replace(config, **more)
    with pytest.raises(InputError, match=f"{size} asks for"):
        check_sizes(wider, str(folder))


def test_layers_that_a_checkpoint_lacks() -> None:
    """In training they may start at random, and fewer are all right."""
    deeper = dataclasses.replace(TINY, num_hidden_layers=1000)
    check_sizes(deeper, str(TINY_BERT))
    with pytest.raises(InputError, match="num_hidden_layers is 1000"):
        check_sizes(deeper, str(TINY_BERT), needs_all_layers=True)
    fewer = dataclasses.replace(TINY, num_hidden_layers=1)
    check_sizes(fewer, str(TINY_BERT), needs_all_layers=True)


@pytest.mark.parametrize("shape", [(), (2**31, 0), (2, 3, 40)])
def test_a_head_of_an_impossible_shape_is_not_built(
    shape: tuple[int, ...],
) -> None:
    model = AnyModel(TINY, {"output_weights": shape})
    assert model.heads[""].output_weights.shape == (1, 40)


def test_a_report_commands_no_terminal() -> None:
    report = LoadReport("a\x07", ("b",), (), ("\x1b[2Jevil\n  missing: c",))
    assert str(report).splitlines() == [
        r"a\x07: 1 variables loaded; not used: 1 other",
        r"  not used: \x1b[2Jevil\n  missing: c",
    ]


def test_a_truncated_checkpoint_is_an_error(tmp_path: Path) -> None:
    shutil.copytree(TINY_BERT, tmp_path / "model")
    for ending, bytes_kept in ((".data-00000-of-00001", 999), (".index", 99)):
        path = tmp_path / "model" / f"bert_model.ckpt{ending}"
        path.write_bytes(path.read_bytes()[:bytes_kept])
        with pytest.raises(InputError, match="cannot be read"):
            load_checkpoint(Pretraining(TINY).mappings(), str(path))


def test_a_folder_with_a_file_s_name_stays(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").mkdir()
    (tmp_path / "vocab.json" / "mine").touch()
    mappings = Pretraining(TINY).mappings()
    vocabulary = str(GOLDEN / "tiny_vocab.txt")
    save_model_folder(str(tmp_path), TINY, mappings, vocabulary)
    assert (tmp_path / "vocab.json" / "mine").exists()


def test_a_model_folder_has_three_files(tmp_path: Path) -> None:
    vocabulary = tmp_path / "pieces.txt"
    vocabulary.write_text("[PAD]\n")
    folder = tmp_path / "model"
    mappings = Pretraining(TINY).mappings()
    save_model_folder(str(folder), TINY, mappings, str(vocabulary))
    assert sorted(path.name for path in folder.iterdir()) == [
        "bert_config.json",
        "bert_model.ckpt.data-00000-of-00001",
        "bert_model.ckpt.index",
        "vocab.txt",
    ]
    # again, over itself: the vocabulary is the folder's own
    for kept in (
        folder / "vocab.txt",
        tmp_path / "x" / ".." / "model/vocab.txt",
    ):
        (tmp_path / "x").mkdir(exist_ok=True)
        save_model_folder(str(folder), TINY, mappings, str(kept))
        assert (folder / "vocab.txt").read_text() == "[PAD]\n"


def test_weights_appear_when_they_are_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Pretraining(TINY)
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("vocab.json", "merges.txt", "task.json"):
        (folder / name).write_text("an earlier model's")
    vocabulary = tmp_path / "own.txt"
    vocabulary.write_text("[PAD]\n")
    save_model_folder(
        str(folder),
        TINY,
        model.mappings(),
        str(vocabulary),
        {"task.json": None, "flags.txt": "--seed=3\n"},
    )
    whole = {path.name for path in folder.iterdir()}
    names = sorted(name for name in whole if "ckpt" not in name)
    assert names == ["bert_config.json", "flags.txt", "vocab.txt"]

    def full(path: str, content: bytes) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(files, "write_whole", full)
    with pytest.raises(OSError, match="No space"):
        save_model_folder(str(folder), TINY, model.mappings(), None)
    # the weights before are there, and what describes them
    assert {p.name for p in folder.iterdir()} == whole
    load_checkpoint(model.mappings(), str(folder))


def test_what_a_checkpoint_lacks_is_the_same_in_each_model() -> None:
    one, two = AnyModel(TINY, ALL_HEADS), AnyModel(TINY, ALL_HEADS)
    assert largest_difference(one, two) == 0.0


@pytest.mark.slow
def test_a_difference_in_any_variable_shows() -> None:
    """But for the biases of keys, which softmax takes out again."""
    config = dataclasses.replace(TINY, num_hidden_layers=2)
    one, two = AnyModel(config, ALL_HEADS), AnyModel(config, ALL_HEADS)
    rng = np.random.default_rng(0)
    for mapping in two.mappings():
        if not mapping.name.endswith("/key/bias"):
            value = mapping.read()
            mapping.write(value + rng.normal(size=value.shape))
            assert largest_difference(one, two) > 1e-3, mapping.name
            mapping.write(value)
    assert largest_difference(one, two) == 0.0
