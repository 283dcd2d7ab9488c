"""Tests of export_model.py: the export answers without this project."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data.input_features import pad
from bert_keras.modeling.checkpoint import save_model_folder
from bert_keras.tasks.classification.model import TextClassifier
from tests.conftest import ONE_LAYER, ROOT, fails_with, forked
from tests.exported_model import (
    LABELS,
    SETTINGS,
    VOCAB,
    make_folder,
    probabilities,
    read,
)

TEXTS = [
    "",
    "The old captain sailed.",
    "an ÜBER-unaffable naïve café\tof 海の船 " + "x" * 201,
    "the ship sailed of the island, and a storm blew a sailing ship north",
]
PAIRS = ["a ship", "", "an old ship sailed of the island of the captain", "no?"]


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, TextClassifier]:
    path = tmp_path_factory.mktemp("model")
    return path, make_folder(path)


def ask(
    saved_model: Path, questions: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """In a process that has TensorFlow, and nothing of this project."""
    here = saved_model.parent.parent
    np.savez(here / "questions.npz", allow_pickle=False, **questions)
    script = here / "ask.py"
    script.write_bytes((ROOT / "tests" / "ask_export.py").read_bytes())
    packages = Path(tf.__file__).parent.parent
    files = packages, saved_model, here / "questions.npz", here / "answers.npz"
    process = subprocess.run(
        [sys.executable, "-I", "-S", str(script), *map(str, files)],
        cwd=here,
        env={},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    with np.load(here / "answers.npz") as answers:
        return dict(answers)


@pytest.mark.slow
def test_an_export_answers_without_this_project(
    folder: tuple[Path, TextClassifier], tmp_path: Path
) -> None:
    path, model = folder
    output = forked(
        "export_model.py",
        f"--model_dir={path}",
        f"--export_dir={tmp_path}/served",
        "--version=7",
    )
    saved_model = tmp_path / "served" / "7"
    assert output.splitlines() == [
        str(saved_model),
        "  serving_default: input_ids, input_mask, segment_ids",
        "  text: text",
        "  text_pair: text, text_pair",
    ]
    # A TensorFlow Serving on a CPU has no XLA, if it is not told otherwise.
    graph = (saved_model / "saved_model.pb").read_bytes()
    assert b"_XlaMustCompile" not in graph
    singles, pairs = read(TEXTS, [None] * len(TEXTS)), read(TEXTS, [*PAIRS])
    questions = {
        "one/text/text": np.array(TEXTS),
        "two/text_pair/text": np.array(TEXTS),
        "two/text_pair/text_pair": np.array(PAIRS),
        "sigma/text/text": np.array(["ΟΔΟΣ", TEXTS[1]]),
        "no texts/text/text": np.array([], str),
    }
    for name, value in pad(pairs, 19, 4).items():
        questions[f"ids/serving_default/{name}"] = value
        questions[f"no ids/serving_default/{name}"] = value[:0, :0]
    answers = ask(saved_model, questions)
    for question, rows in (("ids", pairs), ("one", singles), ("two", pairs)):
        expected = probabilities(model, rows)
        assert np.ptp(expected, axis=0).max() > 0.05
        names = [LABELS[i] for i in expected.argmax(1)]
        if question == "one":  # which asks nothing in its first text
            expected[0], names[0] = np.nan, ""
        for way in ("loaded", "session"):
            found = answers[f"{way}/{question}/probabilities"]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
            assert answers[f"{way}/{question}/label"].tolist() == names
    expected = probabilities(model, singles[1:2])[0]
    for way in ("loaded", "session"):
        found = answers[f"{way}/sigma/probabilities"]
        assert np.isnan(found[0]).all()
        np.testing.assert_allclose(found[1], expected, rtol=0, atol=1e-6)
        refused, fine = answers[f"{way}/sigma/error"]
        assert "send ids instead" in refused and not fine
        assert answers[f"{way}/sigma/label"][0] == ""
        assert answers[f"{way}/one/is_cut"].tolist() == [False] * 3 + [True]
        for question in ("no texts", "no ids"):
            assert answers[f"{way}/{question}/probabilities"].shape == (0, 3)
            assert answers[f"{way}/{question}/label"].shape == (0,)
    assets = saved_model / "assets"
    assert (assets / "vocab.txt").read_bytes() == Path(VOCAB).read_bytes()
    assert (assets / "task.json").read_text() == SETTINGS.to_json()
    assert (assets / "bert_config.json").read_text() == ONE_LAYER.to_json()


@pytest.mark.slow
def test_what_cannot_be_exported(
    folder: tuple[Path, TextClassifier], tmp_path: Path
) -> None:
    def refusal(model_dir: Path, *flags: str) -> str:
        return fails_with(
            "export_model.py",
            f"--model_dir={model_dir}",
            f"--export_dir={tmp_path}/served",
            *flags,
        )

    (tmp_path / "served" / "1").mkdir(parents=True)
    assert "served/1 exists" in refusal(folder[0])
    nowhere = refusal(tmp_path / "nowhere", "--version=2")
    assert "expected a model folder" in nowhere
    # a classifier's task.json beside a model that is none
    wrong = tmp_path / "wrong"
    save_model_folder(
        str(wrong),
        ONE_LAYER,
        [b for b in folder[1].mappings() if b.name.startswith("bert/")],
        VOCAB,
    )
    (wrong / "task.json").write_text(SETTINGS.to_json())
    assert "has no output_weights" in refusal(wrong, "--version=2")
    assert [path.name for path in (tmp_path / "served").iterdir()] == ["1"]
