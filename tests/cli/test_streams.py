"""Tests of cli/streams.py, in processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEGIN = "import sys; from bert_keras.cli import streams; streams.prepare(); "
PRINT_ALL = BEGIN + (
    "[print('line') for _ in range(100_000)]; "
    "print('error', file=sys.stderr); "
    "open(sys.argv[1], 'w').write(str(streams.output_is_read()))"
)


def run(
    code: str, path: Path, redirection: str
) -> subprocess.CompletedProcess[str]:
    """A little program as a shell runs it, given the path of a file."""
    line = f'"$0" -c "$1" "$2" {redirection}; exit "${{PIPESTATUS[0]}}"'
    return subprocess.run(
        ["bash", "-c", line, sys.executable, code, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("redirection", "is_read"),
    [("| head -1", "False"), (">&-", "True"), ("2>&-", "True")],
)
def test_a_reader_that_goes_away_ends_nothing(
    tmp_path: Path, redirection: str, is_read: str
) -> None:
    done = run(PRINT_ALL, tmp_path / "end", redirection)
    assert done.returncode == 0
    assert (tmp_path / "end").read_text() == is_read
    assert done.stderr == ("" if redirection == "2>&-" else "error\n")


def test_one_log_of_both_has_the_order_in_which_lines_are_said(
    tmp_path: Path,
) -> None:
    code = BEGIN + "print(1); print(2, file=sys.stderr); print(3)"
    with open(tmp_path / "log", "w") as log:
        command = [sys.executable, "-c", code]
        subprocess.run(command, stdout=log, stderr=log, cwd=ROOT, check=True)
    assert (tmp_path / "log").read_text() == "1\n2\n3\n"


def test_all_three_may_be_closed(tmp_path: Path) -> None:
    code = BEGIN + (
        "assert sys.stdin.read() == ''; print('out'); "
        "print('error', file=sys.stderr); "
        "file = open(sys.argv[1], 'w'); file.write(str(file.fileno()))"
    )
    assert run(code, tmp_path / "end", "<&- >&- 2>&-").returncode == 0
    assert int((tmp_path / "end").read_text()) > 2


def test_a_full_disk_of_the_log_ends_nothing(tmp_path: Path) -> None:
    code = (
        BEGIN
        + "print('out'); print('error', file=sys.stderr); "
        + ("sys.stdout.flush(); open(sys.argv[1], 'w').write('whole')")
    )
    done = run(code, tmp_path / "end", ">/dev/full 2>&1")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "end").read_text() == "whole"


def test_answers_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    done = run(PRINT_ALL, tmp_path / "end", ">/dev/full")
    assert done.returncode == 1
    assert "cannot write standard output: No space left" in done.stderr


def test_a_terminal_of_few_characters_shows_numbers(tmp_path: Path) -> None:
    code = BEGIN + "print('\\u6d77 \\u00f6')"
    done = run(code, tmp_path, "")
    assert done.stdout == "海 ö\n"
    ascii_only = f"export PYTHONIOENCODING=ascii; {sys.executable} -c"
    done = subprocess.run(
        ["bash", "-c", f'{ascii_only} "$0"', code],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "\\u6d77 \\xf6\n"


def test_another_backend_of_keras_is_said_and_not_used() -> None:
    code = (
        "import os; from bert_keras.cli import command, flags; "
        "main = lambda: print(os.environ['KERAS_BACKEND']); "
        "command.Command('', flags.Flags(), main)([])"
    )
    line = f"KERAS_BACKEND=jax {sys.executable} -c"
    done = subprocess.run(
        ["bash", "-c", f'{line} "$0"', code],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "tensorflow\n"
    assert "KERAS_BACKEND=jax is not used" in done.stderr


@pytest.mark.slow
def test_a_command_works_without_a_standard_error(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("the sea\n" * 20)
    command = (
        f"{sys.executable} {ROOT}/build_vocab.py --input_file=corpus.txt "
        "--output_file=vocab.txt --vocab_size=300 2>&-"
    )
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path)
    assert done.returncode == 0
    assert "the" in (tmp_path / "vocab.txt").read_text().split()


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_terminal_obeys_nothing_that_is_printed(tmp_path: Path) -> None:
    """And a pipe gets what is printed as it is."""
    code = BEGIN + "print('\\x1b[31m\\x9b\\x7fa\\rb\\tc\\u202e\u00e9')"
    done = run(code, tmp_path / "end", "")
    assert done.stdout == "\x1b[31m\x9b\x7fa\nb\tc\u202e\u00e9\n"  # as text
    within = f"import pty, sys; pty.spawn([sys.executable, '-c', {code!r}])"
    shown = run(within, tmp_path / "end", "").stdout.strip()
    assert shown == "\\x1b[31m\\x9b\\x7fa\\rb\tc\\u202e\u00e9"
