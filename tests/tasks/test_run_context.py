"""Tests of tasks/run_context.py."""

from pathlib import Path

import pytest

from bert_keras.errors import InputError
from bert_keras.tasks.run_context import check_not_overwritten


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
