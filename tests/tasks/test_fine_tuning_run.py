"""Tests of tasks/fine_tuning_run.py, python_training.py, keyword_settings.py
and each task's training.py: Python trains what the command trains."""

import contextvars
import dataclasses
import importlib
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras import locks
from bert_keras.errors import InputError
from bert_keras.tasks import fine_tuning_run
from bert_keras.tasks.classification import training as classification
from bert_keras.tasks.keyword_settings import BOUNDS, CHOICES, Settings
from bert_keras.tasks.load import load
from bert_keras.tasks.multiple_choice import training as multiple_choice
from bert_keras.tasks.ner import training as ner
from bert_keras.tasks.python_training import one_training
from bert_keras.tasks.squad import training as squad
from bert_keras.tasks.task_config import TaskConfig
from tests.command_world import copy_tiny_bert
from tests.conftest import GOLDEN, forked

pytestmark = pytest.mark.usefixtures("uncompiled_chains")

MODEL: dict[str, Any] = {
    "init_checkpoint": str(GOLDEN / "tiny_bert"),
    "vocab_file": str(GOLDEN / "tiny_vocab.txt"),
}
SHORT: dict[str, Any] = {
    **MODEL, "max_seq_length": 16, "num_train_epochs": 1,
    "train_batch_size": 3, "seed": 7,
}  # fmt: skip
QUESTIONS = [
    {
        "context": f"the captain saw {i} old sea",
        "choices": ["the sea", "a storm", "an island"][: 2 + i % 2],
        "label": i % 2,
    }
    for i in range(7)
]
WORDS = [["the", "captain", "saw", "the", "sea"], ["a", "storm"]] * 4
TAGS = [["O", "B-PER", "O", "B-LOC", "I-LOC"], ["O", "O"]] * 4
ENTRIES = [
    {"tokens": words, "ner_tags": tags}
    for words, tags in zip(WORDS, TAGS, strict=True)
]
SQUAD = json.loads((GOLDEN / "squad" / "v1.json").read_text())
SQUAD_ROWS = [
    {
        "id": str(i),
        "context": "the captain saw the sea",
        "question": "who saw it?",
        "answers": {"text": ["captain"], "answer_start": [4]},
    }
    for i in range(2)
]


class Frame:
    """What is asked of a pandas.DataFrame, which need not be installed."""

    def __init__(self, rows: list[dict[str, Any]]):
        self.rows = rows
        self.columns = list(rows[0])

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return self.rows


@dataclasses.dataclass(frozen=True)
class Case:
    """A function with tiny data, in each of its forms."""

    train: Callable[..., Any]
    command: str
    settings: Settings
    given: dict[str, Any]
    file: str  # its name
    text: str  # what is in it
    forms: tuple[Any, ...]
    eval_flags: tuple[str, ...]  # with {} for the file
    metric: str
    ask: Callable[[Any], Any]


CASES = {
    "question_answering": Case(
        squad.train_question_answering, "run_squad", squad.SETTINGS,
        {**SHORT, "max_seq_length": 48, "max_query_length": 16,
         "doc_stride": 16},
        "squad.json", json.dumps(SQUAD),
        (SQUAD,),
        ("--do_predict", "--predict_file={}"), "f1",
        lambda model: model.answer("Who?", "The captain.").probability,
    ),
    "token_classifier": Case(
        ner.train_token_classifier, "run_ner", ner.SETTINGS, SHORT,
        "tagged.jsonl", "".join(json.dumps(x) + "\n" for x in ENTRIES),
        ((WORDS, TAGS), Frame(ENTRIES)),
        ("--do_eval", "--eval_file={}"), "eval_f1",
        lambda model: len(model.tag("the captain saw it").tags) == 4,
    ),
    "multiple_choice": Case(
        multiple_choice.train_multiple_choice, "run_multiple_choice",
        multiple_choice.SETTINGS, SHORT,
        "questions.jsonl", "".join(json.dumps(x) + "\n" for x in QUESTIONS),
        (QUESTIONS, Frame(QUESTIONS)),
        ("--do_eval", "--eval_file={}"), "eval_accuracy",
        lambda model: model.choose("the sea", ["a", "an old"]).text,
    ),
}  # fmt: skip
FUNCTIONS = {
    **{name: (case.settings, case.command) for name, case in CASES.items()},
    "classifier": (classification.SETTINGS, "run_classifier"),
}
# Flags of what Python does otherwise: by arguments of their own, or not at all.
NOT_IN_PYTHON = {
    "init_checkpoint", "output_dir", "train_file", "eval_file", "predict_file",
    "data_dir", "task_name", "do_train", "do_eval", "do_predict", "dry_run",
    "eval_batch_size", "predict_batch_size",  # one of the two is there
    # of the process, its devices and their names
    "num_threads", "use_tpu", "tpu_name", "tpu_zone", "gcp_project", "master",
    "num_tpu_cores", "iterations_per_loop", "do_lower",
}  # fmt: skip


def weights(folder: Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
    }


def assert_same_weights(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], name)


def flags_of(command: str) -> dict[str, dict[str, Any]]:
    """Each flag's default and bounds."""
    module = importlib.import_module(f"bert_keras.commands.{command}")
    return {
        flag.name: {
            "default": flag.default,
            "bounds": [flag.lower, flag.upper],
            "choices": list(flag.choices),
        }
        for flag in module.FLAGS.table
    }


def check_settings(
    settings: Settings, command: str, others: set[str], kinds: dict[str, Any]
) -> None:
    """Names, bounds and defaults are those of the command's flags.

    Args:
        others: flags that Python has not.
        kinds: the dataclasses' defaults by name.
    """
    flags = flags_of(command)
    assert flags.keys() - settings.types.keys() - others == set()
    assert settings.types.keys() <= flags.keys()
    for name in settings.types:
        flag = flags[name]
        least, most = BOUNDS.get(name, (None, None))
        # Without bounds a command's dataclass checks the value itself.
        if flag["bounds"] != [None, None] and name != "max_seq_length":
            assert [least, most] == flag["bounds"], name
        assert list(CHOICES.get(name, [])) == flag["choices"], name
        default = settings.defaults.get(name, kinds.get(name))
        assert (default or None) == (flag["default"] or None), name


def defaults_of(*kinds: Any) -> dict[str, Any]:
    return {
        field.name: field.default
        for kind in kinds
        for field in dataclasses.fields(kind)
        if field.default is not dataclasses.MISSING
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_settings_are_the_command_s(name: str) -> None:
    from bert_keras.data.tokenizer_folder import TokenizerOptions
    from bert_keras.tasks.distillation.config import TaskDistillation
    from bert_keras.tasks.fine_tuning import FineTuningConfig
    from bert_keras.tasks.run_context import RunConfig
    from bert_keras.tasks.squad.task import SquadConfig
    from bert_keras.tasks.task_config import TaskConfig
    from bert_keras.training.config import (
        LoopConfig,
        ModelSelection,
        OptimizerConfig,
    )

    settings, command = FUNCTIONS[name]
    kinds = defaults_of(
        TaskConfig, RunConfig, FineTuningConfig, OptimizerConfig, LoopConfig,
        ModelSelection, TaskDistillation, SquadConfig, TokenizerOptions,
    )  # fmt: skip
    check_settings(settings, command, NOT_IN_PYTHON, kinds)
    assert "train_batch_size" in settings.types
    sizes = {"eval_batch_size", "predict_batch_size"} & settings.types.keys()
    assert len(sizes) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_form_of_data_gives_the_command_s_bits(
    name: str, tmp_path: Path
) -> None:
    """A callback that spoils what it can changes nothing."""
    case = CASES[name]
    file = tmp_path / case.file
    file.write_text(case.text)
    heard: list[int] = []

    def callback(step: int, metrics: dict[str, float]) -> None:
        assert metrics["loss"] > 0
        heard.append(step)
        metrics.clear()
        np.random.seed(step)
        tf.random.set_seed(step)

    folders = [tmp_path / "file"]
    model = case.train(
        file,
        output_dir=folders[0],
        evaluation=file,
        callback=callback,
        **case.given,
    )
    assert 0 <= model.metrics[case.metric] <= 100
    assert heard == [line["step"] for line in model.history]
    assert len(heard) > 1 and model.history[0]["loss"] > 0
    assert case.ask(model)
    for i, data in enumerate(case.forms):
        folders.append(tmp_path / f"form-{i}")
        found = case.train(
            data, output_dir=folders[-1], evaluation=data, **case.given
        )
        assert found.metrics == model.metrics
    folders.append(tmp_path / "command")
    forked(
        f"{case.command}.py",
        "--do_train",
        f"--train_file={file}",
        f"--output_dir={folders[-1]}",
        *(flag.format(file) for flag in case.eval_flags),
        *(f"--{name}={value}" for name, value in case.given.items()),
    )
    for folder in folders[1:]:
        assert_same_weights(folders[0], folder)
    said = (folders[-1] / "eval_results.txt").read_text()
    assert f"{case.metric} = {model.metrics[case.metric]}" in said


def test_a_new_run_moves_a_person_s_own_files(tmp_path: Path) -> None:
    case, out = CASES["multiple_choice"], tmp_path / "out"
    vocabulary = (GOLDEN / "tiny_vocab.txt").read_bytes()
    own = {
        "train_log.jsonl": b"a diary\n",
        "flags.txt": b"--seed=3  # lucky\n",
        "vocab.txt": vocabulary + b"seagull\n",
        "bert_config.json": b"{}\n",
        "best.json": b"what I like best\n",
        "eval_results.txt": b"0.99\n",
        "merges.txt": b"of another tokenizer\n",
        "notes.txt": b"nothing writes a file of this name\n",
    }
    out.mkdir()
    for name, content in own.items():
        (out / name).write_bytes(content)
    copy_tiny_bert(tmp_path / "model")
    given = {
        **case.given,
        "init_checkpoint": str(tmp_path / "model"),
        "bert_config_file": tmp_path / "model" / "bert_config.json",
    }
    case.train(QUESTIONS[:3], output_dir=out, **given)
    for name, content in own.items():
        folder = out if name == "notes.txt" else out / "earlier_results"
        assert (folder / name).read_bytes() == content
    assert (out / "vocab.txt").read_bytes() == vocabulary
    assert (out / "train_log.jsonl").read_text().count("\n") == 1


def test_threads_do_not_train_at_once(tmp_path: Path) -> None:
    case = CASES["multiple_choice"]
    given = {**case.given, "output_dir": tmp_path}
    with ThreadPoolExecutor(1) as pool, one_training():
        other = pool.submit(case.train, QUESTIONS[:3], **given)
        with pytest.raises(InputError, match="another thread of this process"):
            other.result()
    assert not [*tmp_path.iterdir()]


def arrays(data: Any) -> Any:
    """As a frame has them that was read from a parquet file."""
    if isinstance(data, dict):
        return {key: arrays(value) for key, value in data.items()}
    if not isinstance(data, list):
        return np.int64(data) if isinstance(data, int) else data
    found = np.empty(len(data), object)
    found[:] = [arrays(value) for value in data]
    return found


def tuples(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: tuples(value) for key, value in data.items()}
    return tuple(map(tuples, data)) if isinstance(data, list) else data


@pytest.mark.parametrize("name", CASES)
def test_arrays_tuples_and_iterators_are_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fine_tuning_run, "train", lambda *given: given[2])
    case = CASES[name]

    def problem(data: Any) -> str:
        folder = tmp_path / "run"
        return repr(case.train(data, output_dir=folder, **case.given))

    rows = {"question_answering": SQUAD_ROWS, "token_classifier": ENTRIES}
    given: Any = rows.get(name, QUESTIONS)
    for data in (arrays(given), iter(given), [*map(tuples, given)]):
        assert problem(data) == problem(given)
    if name == "question_answering":
        assert problem(arrays(SQUAD)) == problem(SQUAD)
    if name == "token_classifier":
        for form in (arrays, tuples, iter):
            data = form(WORDS), form(TAGS)
            assert problem(data) == problem((WORDS, TAGS))


def test_settings_of_another_task_do_not_count(tmp_path: Path) -> None:
    start = tmp_path / "start"
    shutil.copytree(GOLDEN / "tiny_bert", start)
    shutil.copy(GOLDEN / "tiny_vocab.txt", start / "vocab.txt")
    stored = TaskConfig(
        "single_label", 16, True, labels=("a", "b"),
        second_direction="right_to_left",
    )  # fmt: skip
    (start / "task.json").write_text(stored.to_json())
    for module, target, expected in (
        (classification, "single_label", stored),
        (squad, "span", None),
        (multiple_choice, "choice", None),
        (ner, "tags", None),
    ):
        tuning = fine_tuning_run.from_keywords(
            module.SETTINGS, {}, start, tmp_path / "run", [target], None, None
        )
        assert tuning.stored == expected
        if target == "span":
            assert tuning.task_config(target=target).second_direction is None


@pytest.mark.slow
def test_scores_of_the_training_examples_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the file is called."""
    (tmp_path / "a").mkdir()
    table = tmp_path / "a.csv"
    table.write_text("text,label\nthe sea,0\na storm,1\na ship,1\n")
    again = tmp_path / "a" / ".." / "a.csv"
    said = "`eval_file` is `train_file`, too: scores on training examples"
    train: Any = classification.train_classifier
    train(str(table), output_dir=tmp_path / "run", **SHORT)
    assert said not in capsys.readouterr().err
    named = {**SHORT, "output_dir": tmp_path / "named"}
    train(str(table), evaluation=str(again), **named)
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_changed_evaluation_does_not_go_on(tmp_path: Path) -> None:
    texts, labels = ["the sea", "a storm", "the ship", "rain"], [0, 1, 0, 1]
    given = {
        "train": (texts, labels),
        "init_checkpoint": str(GOLDEN / "tiny_bert"),
        "vocab_file": str(GOLDEN / "tiny_vocab.txt"),
        "output_dir": tmp_path / "run",
        "max_seq_length": 8,
        "train_batch_size": 2,
        "eval_steps": 2,
    }
    train: Any = classification.train_classifier
    train(evaluation=(texts[:2], [0, 1]), num_train_epochs=1, **given)
    with pytest.raises(InputError, match="`evaluation data` is 'checksum"):
        train(evaluation=(texts[:2], [1, 1]), num_train_epochs=2, **given)
    train(evaluation=(texts[:2], [0, 1]), num_train_epochs=2, **given)


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    train = multiple_choice.train_multiple_choice
    for settings, sentence in {
        ("num_train_epochs", "3"): "is '3'; expected a number",
        ("train_batch_size", 0): "is 0; expected at least 1",
        ("seed", 2**31): "is 2147483648; expected 0 to 2147483647",
        ("learning_rate", float("nan")): "is nan; expected a number",
        ("use_xla", 1): "is 1; expected True or False",
        ("vocab_file", 3): "is 3; expected a text or None",
        ("optimizer_type", "sgd"): "is not one of adamw, lamb",
        ("additional_special_tokens", "[E]"): "expected a list of texts",
        ("eval_steps", 2): "give `evaluation`",
        ("patience", 2): "give `eval_steps`",
    }.items():
        given = SHORT | dict([settings])
        with pytest.raises(InputError, match=settings[0]) as caught:
            train(QUESTIONS, output_dir=folder, **given)
        assert sentence in str(caught.value)
    with pytest.raises(
        TypeError, match="no setting bilstm.*; expected some of"
    ):
        train(QUESTIONS, output_dir=folder, bilstm=True, **SHORT)
    data: Any
    for data, sentence in (
        ([], "`train_file` holds no question"),
        (["a"], "example 0 is a str; expected a dictionary"),
        ([{"a": 1}], "example 0 has the keys a; expected those of SWAG"),
        ([QUESTIONS[0] | {"label": None}], "example 0 has no label"),
    ):
        with pytest.raises(InputError, match=sentence):
            train(data, output_dir=folder, **SHORT)
    for data, sentence in (
        (([["a"]], []), "has 1 sentences and the tags of 0"),
        (([["a"]], [["O"]], [["x"]]), "`train` is a tuple of 3; expected two"),
        (([["a", "b"]], [["O"]]), "entry 1 has 2 words but 1 tags"),
        (["a"], "entry 1 is a str; expected a dictionary"),
        ([], "`train` has no sentence"),
    ):
        with pytest.raises(InputError, match=sentence):
            ner.train_token_classifier(data, output_dir=folder, **SHORT)
    for data, sentence in (
        ({"a": []}, "the file has no 'data'"),
        (["a"], "train: entry 1 is a str; expected a dictionary"),
        ([{"context": "the sea", "id": 1}], "entry 1 has no 'question'"),
        ([SQUAD_ROWS[0] | {"context": b"the sea"}], "'context' .* is a bytes"),
    ):
        with pytest.raises(InputError, match=sentence):
            squad.train_question_answering(
                data, output_dir=folder, max_query_length=8, **SHORT
            )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_of_mixed_precision_the_answers_are_those_of_the_folder(
    tmp_path: Path,
) -> None:
    model: Any = multiple_choice.train_multiple_choice(
        QUESTIONS[::2], output_dir=tmp_path, precision="mixed_bfloat16", **SHORT
    )
    asked = "the captain", ["the sea", "a storm"]
    assert model.encoder.compute_dtype == "float32"
    assert model.choose(*asked) == load(tmp_path).choose(*asked)


@pytest.mark.slow
def test_questions_that_cannot_be_scored_are_refused_first(
    tmp_path: Path,
) -> None:
    """The best threshold becomes the folder's; a question without answers
    ends the run before its first step."""
    rows = [
        {
            "id": f"{i}",
            "context": "the captain saw the sea",
            "question": "who saw it?",
            "answers": {
                "text": ["captain"][: i % 2],
                "answer_start": [4][: i % 2],
            },
        }
        for i in range(6)
    ]
    given = {
        **SHORT, "version_2_with_negative": True, "max_seq_length": 32,
        "max_query_length": 8,
    }  # fmt: skip
    unknown = [{k: x for k, x in row.items() if k != "answers"} for row in rows]
    train = squad.train_question_answering
    with pytest.raises(InputError, match="no answers for 6 of its questions"):
        train(rows, output_dir=tmp_path / "a", evaluation=unknown, **given)
    with pytest.raises(InputError, match="`evaluation`: give it"):
        train(
            rows,
            output_dir=tmp_path / "a",
            apply_best_null_threshold=True,
            **given,
        )
    model = train(
        Frame(rows),
        output_dir=tmp_path / "b",
        evaluation=rows,
        apply_best_null_threshold=True,
        **given,
    )
    best = model.metrics["best_f1_thresh"]
    assert model.settings.null_score_diff_threshold == best
    assert model.metrics["f1"] == model.metrics["best_f1"]


@pytest.mark.slow
def test_runs_in_one_process_are_those_of_fresh_ones(tmp_path: Path) -> None:
    """After others that failed, were of another precision, of several seeds or
    in another thread. No run keeps its folder, nor changes what is random."""
    train = multiple_choice.train_multiple_choice
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(x) + "\n" for x in QUESTIONS))
    expected = tmp_path / "command"

    def command(output_dir: Path) -> str:
        return forked(
            "run_multiple_choice.py",
            "--do_train",
            f"--train_file={file}",
            f"--output_dir={output_dir}",
            *(f"--{name}={value}" for name, value in SHORT.items()),
        )

    command(expected)
    np.random.seed(3)
    numbers = np.random.random(5)
    np.random.seed(3)
    tf.random.set_seed(3)
    drawn = tf.random.uniform([5]).numpy()
    tf.random.set_seed(3)

    def fail(step: int, metrics: dict[str, float]) -> None:
        raise KeyError("stop")

    stopped = tmp_path / "stopped"
    with pytest.raises(KeyError, match="stop"):
        train(file, output_dir=stopped, callback=fail, **SHORT)
    with pytest.raises(InputError, match="the loss is"):
        train(
            QUESTIONS,
            output_dir=tmp_path / "high",
            **SHORT | {"learning_rate": 1e38, "num_train_epochs": 9},
        )
    train(
        QUESTIONS,
        output_dir=tmp_path / "narrow",
        precision="mixed_bfloat16",
        recompute=True,
        **SHORT,
    )
    assert keras.config.dtype_policy().name == "float32"
    train(
        QUESTIONS,
        output_dir=tmp_path / "seeds",
        evaluation=QUESTIONS,
        num_seeds=2,
        **SHORT,
    )
    for folder in (tmp_path / "here", stopped):
        train(
            QUESTIONS if folder != stopped else file, **SHORT, output_dir=folder
        )
        assert_same_weights(expected, folder)
    with ThreadPoolExecutor(1) as pool:
        run = contextvars.copy_context().run  # `uncompiled` there, too
        thread = pool.submit(
            run, lambda: train(file, output_dir=tmp_path / "thread", **SHORT)
        )
        model = thread.result()
    assert_same_weights(expected, tmp_path / "thread")
    loaded: Any = load(str(expected))
    question = "the captain saw it", ["the sea", "a storm"]
    assert model.choose(*question) == loaded.choose(*question)
    assert np.random.random(5).tolist() == numbers.tolist()
    assert tf.random.uniform([5]).numpy().tolist() == drawn.tolist()
    tf.random.set_seed(None)
    assert "has all of its" in command(stopped)  # it is free
    assert_same_weights(expected, stopped)


@pytest.mark.slow
def test_a_stable_rate_resumes(tmp_path: Path) -> None:
    """Fine-tuning counts epochs, and stores no number of steps."""
    train = multiple_choice.train_multiple_choice
    settings = SHORT | {"learning_rate_schedule": "wsd", "num_decay_steps": 1}

    def fail(step: int, metrics: dict[str, float]) -> None:
        raise KeyError("stop")

    cut, straight = tmp_path / "cut", tmp_path / "straight"
    with pytest.raises(KeyError, match="stop"):
        train(QUESTIONS, output_dir=cut, callback=fail, **settings)
    for folder in (cut, straight):
        train(QUESTIONS, output_dir=folder, **settings)
    assert_same_weights(straight, cut)


@pytest.mark.slow
def test_a_folder_has_one_run_at_a_time(tmp_path: Path) -> None:
    train = multiple_choice.train_multiple_choice
    found: list[BaseException | None] = []

    def callback(step: int, metrics: dict[str, float]) -> None:
        if not found:
            other = locks.lock(f"{tmp_path}/training_state", "output_dir")
            with pytest.raises(InputError) as error, other:
                pass
            found.append(error.value)

    train(QUESTIONS, output_dir=tmp_path, callback=callback, **SHORT)
    assert "another process is working in" in str(found[0])
