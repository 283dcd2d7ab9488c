"""Commands that one process runs, one after the other, as a notebook may."""

import os
import runpy
import threading
from pathlib import Path

import pytest

from bert_keras import errors
from bert_keras.commands import build_vocab, predict, run_classifier, run_ner
from tests.command_world import GOOD, make_world
from tests.conftest import ROOT, fails_with, results


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world") / "good"
    make_world(folder)
    return folder


def test_two_commands_do_not_share_flags() -> None:
    for command in (run_classifier, run_ner, predict):
        assert "output_dir" in command.FLAGS or "model_dir" in command.FLAGS
    run_ner.FLAGS.parse(["run_ner", "--max_seq_length=77"])
    run_classifier.FLAGS.parse(["run_classifier"])
    assert run_classifier.FLAGS.max_seq_length == 128
    assert run_ner.FLAGS.max_seq_length == 77
    run_ner.FLAGS.parse(["run_ner"])  # anew
    assert run_ner.FLAGS.max_seq_length == 128


@pytest.mark.slow
def test_a_command_is_called_twice_and_beside_others(
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(world)
    train = GOOD["run_classifier"].split()
    for folder in ("first", "second"):
        run_classifier.cli([*train, f"--output_dir={tmp_path}/{folder}"])
    assert results(tmp_path / "first") == results(tmp_path / "second")
    run_ner.cli([*GOOD["run_ner"].split(), f"--output_dir={tmp_path}/tags"])
    capsys.readouterr()
    predict.cli([f"--model_dir={tmp_path}/first", "the captain saw"])
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert errors.with_flags("`seed`") == "`seed`"  # a program's again
    with pytest.raises(SystemExit) as ended:
        build_vocab.cli([])
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "build_vocab: --input_file and --output_file are missing; --help tells "
        "what each flag means\n"
    )


@pytest.mark.slow
def test_scripts_are_run_one_after_the_other(
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(world)
    made = f"--output_dir={tmp_path}/run"
    for script, words in (
        ("run_classifier.py", [*GOOD["run_classifier"].split(), made]),
        ("run_classifier.py", ["--do_eval", "--eval_file=table.tsv", made]),
        ("predict.py", [f"--model_dir={tmp_path}/run", "the captain saw"]),
    ):
        monkeypatch.setattr("sys.argv", [script, *words])
        runpy.run_path(str(ROOT / script), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[-1].count("\t")


def test_a_pipe_is_read_anew_by_the_next_command(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for word in ("sea", "storm"):
        writer = threading.Thread(target=pipe.write_text, args=[f"{word} " * 9])
        writer.start()
        build_vocab.cli(
            [
                f"--input_file={pipe}",
                f"--output_file={tmp_path}/{word}",
                "--num_unused=0",
            ]
        )
        writer.join()
        assert word in (tmp_path / word).read_text().split()


def test_flags_are_understood_as_before(tmp_path: Path) -> None:
    """A flagfile, two ways to give a value, one dash, --no, --undefok."""
    (tmp_path / "flags.txt").write_text("--vocab_size=99\n--num_unused=3\n")
    FLAGS = build_vocab.FLAGS
    rest = FLAGS.parse(
        [
            "build_vocab",
            f"--flagfile={tmp_path}/flags.txt",
            *("-input_file", "a.txt", "--output_file=b.txt", "--nodo_lower"),
            *("--undefok=new_one", "--new_one=7", "--num_unused", "4"),
        ]
    )
    assert (rest, FLAGS.input_file, FLAGS.do_lower_case) == ([], "a.txt", False)
    assert (FLAGS.vocab_size, FLAGS.num_unused) == (99, 4)
    assert FLAGS.given_text().splitlines() == [
        "--input_file=a.txt",
        "--output_file=b.txt",
        "--vocab_size=99",
        "--num_unused=4",
        "--nodo_lower_case",
    ]
    FLAGS.parse(["build_vocab", "--input_file=a\n--b", "--output_file=b "])
    assert FLAGS.given_text().splitlines() == [
        r"# not in a file: --input_file='a\n--b'",
        "# not in a file: --output_file='b '",
    ]
    said = fails_with("build_vocab.py", "--input_fil=a", "--output_file=b")
    assert said == (
        "build_vocab.py: unknown flag --input_fil; did you mean --input_file?"
    )
    said = fails_with("build_vocab.py", "--vocab_size=0")
    assert said.startswith("build_vocab.py: --vocab_size=0: 0 is not")
