"""Tests of tasks/results.py."""

import json
from pathlib import Path

from bert_keras.tasks.results import Results


def test_results_of_another_model_are_put_away(tmp_path: Path) -> None:
    results = Results(str(tmp_path))
    results.write("eval_classes.txt", "1", "checksum 1", 10, "--eval_file=x")
    results.write("test_labels.tsv", "2", "checksum 1", 10, "--predict_file=y")
    assert json.loads((tmp_path / "results.json").read_text()) == {
        "weights": "checksum 1",
        "step": 10,
        "results": {
            "eval_classes.txt": "--eval_file=x",
            "test_labels.tsv": "--predict_file=y",
        },
    }
    (tmp_path / "eval_results.txt").write_text("of an earlier version")
    (tmp_path / "notes.txt").write_text("somebody's")
    results.write("test_labels.tsv", "3", "checksum 2", 20, "--predict_file=y")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "earlier_results",
        "notes.txt",
        "results.json",
        "test_labels.tsv",
    ]
    earlier = tmp_path / "earlier_results"
    assert {path.name: path.read_text()[:2] for path in earlier.iterdir()} == {
        "eval_classes.txt": "1",
        "test_labels.tsv": "2",
        "eval_results.txt": "of",
        "results.json": "{\n",
    }
    assert (tmp_path / "test_labels.tsv").read_text() == "3"


def test_scores_of_other_questions_do_not_stay(tmp_path: Path) -> None:
    results = Results(str(tmp_path))
    for name in ("eval_results.txt", "null_odds.json", "predictions.json"):
        results.write(name, "1", "checksum 1", 10, "--predict_file=x")
    results.write("predictions.json", "2", "checksum 1", 10, "--predict_file=y")
    results.drop({"eval_results.txt", "null_odds.json", "absent.txt"})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "earlier_results", "predictions.json", "results.json",
    ]  # fmt: skip
    assert json.loads((tmp_path / "results.json").read_text())["results"] == {
        "predictions.json": "--predict_file=y"
    }


def test_a_damaged_list_moves_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "vocab.txt").touch()
    (tmp_path / "notes.txt").write_text("somebody's")
    results = Results(str(folder))
    for suffix, text in {
        "": "{",
        "-2": "[]",
        "-3": '{"results": 3}',
        "-4": '{"results": {"../notes.txt": 1}}',
        "-5": '{"results": {"vocab.txt": 1, "notes.txt": 1}}',
        "-6": r'{"results": {"\ud800": 1, "eval_results.txt\u0000": 1}}',
    }.items():
        (folder / "results.json").write_text(text)
        results.put_away()
        assert (tmp_path / "notes.txt").is_file()
        moved = folder / f"earlier_results{suffix}" / "results.json"
        assert moved.read_text() == text
        assert (folder / "vocab.txt").is_file()


def test_folders_are_no_results(tmp_path: Path) -> None:
    results = Results(str(tmp_path / "run"))
    (tmp_path / "run" / "seeds.json").mkdir(parents=True)
    listed = dict.fromkeys(("", ".", "..", "seeds.json", "eval_classes.txt"), 1)
    (tmp_path / "run" / "eval_classes.txt").touch()
    text = json.dumps({"results": listed})
    (tmp_path / "run" / "results.json").write_text(text)
    results.put_away()
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["earlier_results", "seeds.json"]


def test_a_person_s_own_files_are_moved(tmp_path: Path) -> None:
    own = ("MRPC.tsv", "eval_results.txt", "results.json")
    for name in own:
        (tmp_path / name).write_text('{"mine": 1}')
    results = Results(str(tmp_path))
    for content in "12":
        results.write("MRPC.tsv", content, "checksum 1", 10, "--predict_file=x")
    earlier = tmp_path / "earlier_results"
    moved = {path.name: path.read_text() for path in earlier.iterdir()}
    assert moved == dict.fromkeys(("MRPC.tsv", "results.json"), '{"mine": 1}')
    assert (tmp_path / "MRPC.tsv").read_text() == "2"
    results.write("eval_results.txt", "3", "checksum 1", 10, "--eval_file=y")
    assert (earlier / "eval_results.txt").read_text() == '{"mine": 1}'
    assert (tmp_path / "eval_results.txt").read_text() == "3"
    assert not (tmp_path / "earlier_results-2").exists()
