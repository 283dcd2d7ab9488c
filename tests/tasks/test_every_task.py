"""What every task goes through, as commands: train, evaluate, resume to the
same bits, predict, export and be asked again."""

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.modeling.checkpoint import save_model_folder
from bert_keras.modeling.config import BertConfig
from bert_keras.tasks.pretraining.model import MaskedLm
from tests.command_world import GOOD, arguments, make_world
from tests.conftest import forked, results


@dataclasses.dataclass(frozen=True)
class Case:
    """A task with tiny data."""

    command: str
    line: str  # for predict.py
    # what an answer to the line has, and whether it is a sensible one
    fields: set[str]
    is_fit: Callable[[dict[str, Any]], bool]
    metric: str  # in eval_results.txt; "": run_squad.py prints predictions
    outputs: set[str]  # of the exported model, asked by ids
    flags: tuple[str, ...] = ()
    rows: str = ""  # of table.tsv


def _sums_to_one(answer: dict[str, Any]) -> bool:
    shares = answer["probabilities"]
    values = list(shares.values() if isinstance(shares, dict) else shares)
    return sum(values) == pytest.approx(1.0, abs=1e-5)


CLASSES = {"label", "probabilities"}
CASES = {
    "single_label": Case(
        "run_classifier", "the captain saw 3", CLASSES, _sums_to_one,
        "eval_accuracy", CLASSES,
        rows="".join(f"the captain saw {i}\t{i % 2}\n" for i in range(7)),
    ),
    "multi_label": Case(
        "run_classifier", "the sea was cold",
        {"labels", "probabilities"},
        lambda answer: set(answer["probabilities"]) == {"a", "b", "c"},
        "eval_micro_f1", {"labels", "probabilities"},
        ("--target=multi_label",),
        "the sea\ta,b\nthe captain\tc\nwhich saw\ta\nand was\tb,c\n",
    ),
    "regression": Case(
        "run_classifier", "the sea was cold", {"value"},
        lambda answer: np.isfinite(answer["value"]),
        "eval_mean_squared_error", {"value"}, ("--target=regression",),
        "the sea\t0.5\nthe captain\t1.5\nwhich saw\t-1\nand was\t3\n",
    ),
    "span": Case(
        "run_squad", "who saw it?\tthe captain saw the sea",
        {"answer", "probability", "score"},
        lambda answer: answer["answer"] in "the captain saw the sea",
        "", {"start_logits", "end_logits"},
    ),
    "choice": Case(
        "run_multiple_choice", "the sea\tsaw\twas",
        {"choice", "text", "probabilities"}, _sums_to_one,
        "eval_accuracy", {"score"},
    ),
    "tags": Case(
        "run_ner", "the captain saw the sea", {"words", "tags", "entities"},
        lambda answer: len(answer["words"]) == len(answer["tags"]) == 5,
        "eval_f1", {"label", "probabilities"}, ("--num_train_epochs=2",),
    ),
    "masked_lm": Case(
        "run_pretraining", "the [MASK] saw the sea", {"text", "blanks"},
        lambda answer: len(answer["blanks"][0]) == 5,
        "masked_lm_accuracy", {"sequence_output", "pooled_output"},
        ("--num_train_steps=3",),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The good inputs of all commands."""
    folder = tmp_path_factory.mktemp("world")
    make_world(folder)
    made = arguments("create_pretraining_data", output_file="some.tfrecord")
    forked("create_pretraining_data.py", *_in(folder, made))
    return folder


@pytest.fixture(scope="module")
def modern_world(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with a ModernBERT of random weights."""
    folder = tmp_path_factory.mktemp("modern") / "world"
    shutil.copytree(world, folder)
    path = str(folder / "model" / "bert_config.json")
    config = dataclasses.replace(
        BertConfig.from_json_file(path),
        family="modernbert",
        type_vocab_size=0,
        num_hidden_layers=2,
        local_attention=4,
    )
    model = MaskedLm(config)
    save_model_folder(os.path.dirname(path), config, model.mappings(), None)
    return folder


def _in(folder: Path, flags: list[str]) -> list[str]:
    """Flags with paths below `folder` where they name files."""
    made = []
    for flag in flags:
        name, _, value = flag.partition("=")
        if name.endswith(("_file", "_dir", "_checkpoint")):
            value = str(folder / value)
        made.append(f"{name}={value}" if value else name)
    return made


def _variables(folder: Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
    }


def _train(
    case: Case, world: Path, output_dir: Path, **changes: str | None
) -> str:
    inputs = changes
    if case.rows:
        table = f"{output_dir.parent.name}.tsv"
        (world / table).write_text("text\tlabel\n" + case.rows)
        inputs |= {"train_file": table, "eval_file": table}
    flags = arguments(case.command, output_dir=None, **inputs)
    return forked(
        f"{case.command}.py",
        *_in(world, flags),
        *case.flags,
        f"--output_dir={output_dir}",
        "--save_checkpoints_steps=1",
        "--keep_checkpoint_max=9",
        compiles=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "name"),
    [
        *(("world", name) for name in CASES),
        *(
            ("modern_world", name)
            for name in ("single_label", "span", "choice", "tags", "masked_lm")
        ),
    ],
)
def test_a_task_from_training_to_export(
    place: str, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case, world = CASES[name], request.getfixturevalue(place)
    straight, cut = tmp_path / "straight", tmp_path / "cut"
    _train(case, world, straight)
    if case.metric:
        assert np.isfinite(results(straight)[case.metric])
    else:
        assert json.loads((straight / "predictions.json").read_text())

    # A run that has only its first state goes on to the same bits. (Two others
    # are killed, and more is compared, in test_run_*.py.)
    shutil.copytree(straight / "training_state", cut / "training_state")
    states = list((cut / "training_state").glob("step-*.index"))
    assert len(states) > 1
    for path in (cut / "training_state").glob("step-*"):
        if path.name.split(".")[0] != "step-1":
            path.unlink()
    said = _train(case, world, cut, do_eval=None, do_predict=None)
    assert "resuming from the checkpoint" in said
    first, second = _variables(straight), _variables(cut)
    assert first.keys() == second.keys()
    for variable, values in first.items():
        np.testing.assert_array_equal(values, second[variable])

    (tmp_path / "lines.txt").write_text(f"{case.line}\n")
    said = forked(
        "predict.py",
        f"--model_dir={cut}",
        f"--input_file={tmp_path}/lines.txt",
        "--output_format=jsonl",
        compiles=True,
    )
    answer = json.loads(said)
    assert case.fields <= answer.keys()
    assert case.is_fit(answer)

    forked(
        "export_model.py",
        f"--model_dir={straight}",
        f"--export_dir={tmp_path}/export",
        "--max_seq_length=16",
    )
    (folder,) = (tmp_path / "export").iterdir()
    ask = tf.saved_model.load(str(folder)).signatures["serving_default"]
    ids = tf.constant([[2, 7, 8, 9, 3], [2, 11, 3, 0, 0]], tf.int32)
    outputs = ask(
        input_ids=ids,
        input_mask=tf.cast(ids > 0, tf.int32),
        segment_ids=tf.zeros_like(ids),
    )
    has_pooler = place == "world"
    hidden = set() if has_pooler else {"pooled_output"}
    assert set(outputs) == case.outputs - hidden
    for values in outputs.values():
        if values.dtype != tf.string:
            assert np.isfinite(values.numpy()).all()


def test_every_command_that_trains_is_tried() -> None:
    trained = {case.command for case in CASES.values()}
    assert trained == {name for name in GOOD if name.startswith("run_")}
