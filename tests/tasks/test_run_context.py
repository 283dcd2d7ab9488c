"""Tests of tasks/run_context.py."""

import dataclasses
from pathlib import Path

from bert_keras.cli import common_flags

import pytest

from bert_keras.errors import InputError
from bert_keras.modeling.config import SIZES, BertConfig
from bert_keras.tasks.run_context import (
    RunConfig,
    check_not_overwritten,
    read_config,
)
from tests.conftest import GOLDEN


@pytest.mark.parametrize(
    "name",
    ["", "bert_model.ckpt", "bert_model.ckpt.index", "model.safetensors"],
)
def test_weights_that_are_read_are_not_overwritten(
    tmp_path: Path, name: str
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (tmp_path / "link").symlink_to(model)
    for output_dir in (model, f"{model}/", tmp_path / "link"):
        with pytest.raises(InputError, match=r"output_dir=.*init_checkpoint="):
            check_not_overwritten(
                str(output_dir), init_checkpoint=str(model / name)
            )


def test_other_weights_may_lie_in_the_folder_or_below_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "best").mkdir()
    for start in ("model.ckpt-1000", "best", "best/bert_model.ckpt"):
        check_not_overwritten(
            str(tmp_path),
            init_checkpoint=str(tmp_path / start),
            second_init_checkpoint=None,
        )


def test_a_size_takes_its_tokens_from_the_vocabulary(tmp_path: Path) -> None:
    vocab_file = str(GOLDEN / "tiny_vocab.txt")
    number = len(Path(vocab_file).read_text().split())
    run = RunConfig(str(tmp_path), model_size="mini", vocab_file=vocab_file)
    assert read_config(run, 128) == BertConfig.of_size("mini", number)
    with pytest.raises(InputError, match="mini` needs `vocab_file`"):
        read_config(dataclasses.replace(run, vocab_file=None), 128)
    both = dataclasses.replace(run, bert_config_file="bert_config.json")
    with pytest.raises(InputError, match="are given; drop one"):
        read_config(both, 128)


def test_the_flag_knows_every_size() -> None:
    assert list(SIZES) == common_flags.MODEL_SIZES
