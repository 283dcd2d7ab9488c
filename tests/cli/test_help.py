"""--help of every command, and the page of it in the reference."""

import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

from bert_keras.cli import reference
from bert_keras.cli.command import Command
from bert_keras.cli.flags import Flag, Group

import pytest

import bert_keras
from tests.conftest import ROOT, fails_with

# Words that no help text begins with: each would lean on the flag's name or on
# another text.
LEANING = set(
    "a an the of its their his that those this these it they them such same "
    "one others other another which what who whose where when how whether if "
    "as in on at by for from to with without per between within among after "
    "before during and or but not likewise unset unused instead also only "
    "your".split()
)
# A text that has one of these cannot be read alone, or not by everyone: the
# field says token, example, checkpoint and resume.
BANNED = re.compile(
    r"\b(its|that of|those of|this flag|the former|the latter|likewise|ditto"
    r"|pieces?|rows?|(?<!hidden )states?|goes on|google-research/bert has no"
    r"|docs/\w+)\b"
)
CAPITALIZED = re.compile(r"[A-Z][\w'-]*")


def command(name: str) -> Command:
    return importlib.import_module(f"bert_keras.commands.{name}").cli


def all_flags() -> Iterator[tuple[str, Flag]]:
    for name in reference.COMMANDS:
        for flag in command(name).flags.table:
            yield name, flag


def faults(text: str) -> list[str]:
    """Why a help text cannot stand alone."""
    found = []
    first = CAPITALIZED.match(text)
    if not first or first[0].lower() in LEANING:
        found.append("begins with neither a noun nor a verb")
    if len(text.split()) < 6:
        found.append("has fewer than six words")
    if not text.endswith("."):
        found.append("does not end with a full stop")
    if banned := BANNED.search(text):
        found.append(f"says {banned[0]!r}")
    return found


def test_every_help_text_stands_alone() -> None:
    found = {
        f"{name} --{flag.name}": why
        for name, flag in all_flags()
        if (why := faults(flag.help))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "Of rising rate.",
        "Its zone.",
        "Weight of the cosine distance, beside that of the teacher.",
        "unset: the vocabulary beside the checkpoint given.",
        "Number of pieces in a record, at most.",
    ],
)
def test_what_does_not_stand_alone_is_noticed(text: str) -> None:
    assert faults(text)


def test_a_flag_that_a_text_names_is_one_of_the_command() -> None:
    """Or of the command that the text names."""
    making = command("create_pretraining_data").flags
    for name in reference.COMMANDS:
        known = command(name).flags
        texts = [flag.help for flag in command(name).flags.table]
        for text in [*texts, command(name).description]:
            for named in re.findall(r"--(?:no)?([a-z]\w+)", text):
                assert named in known or (
                    "records made with" in text and named in making
                ), text


@pytest.mark.parametrize("name", reference.COMMANDS)
def test_help_is_whole_and_narrow(
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    command(name)(["--help"])
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith(f"Usage: {name} --")
    shown = Counter(re.findall(r"^  --(?:\[no\])?(\w+)", text, re.MULTILINE))
    assert shown == {flag.name: 1 for flag in command(name).flags.table}
    groups = re.findall(r"^(\w[\w ,]*):$", text, re.MULTILINE)
    values = [group.value for group in Group]
    assert groups[0] == "Required" and groups[-1] == "Examples"
    assert groups[:-1] == sorted(groups[:-1], key=values.index)


@pytest.mark.parametrize("name", reference.COMMANDS)
def test_three_examples_give_flags_that_there_are(name: str) -> None:
    examples = command(name).examples.split("\n\n")
    assert len(examples) == 3
    for example in examples:
        caption, _, typed = example.partition("\n")
        assert caption.startswith("# ")
        called = typed.split()[0]
        known = command(called).flags
        before_the_others = typed.partition(" -- ")[0]
        for named in re.findall(r" --(\w+)", before_the_others):
            assert named.removeprefix("no") in known or named in known, named
        given = set(re.findall(r" --(\w+)", before_the_others))
        required = [f.name for f in known.table if f.group is Group.REQUIRED]
        assert given >= set(required)


def test_help_and_version_are_quick_and_end_well() -> None:
    before = os.times().children_user
    for words in (["--help"], ["-h"], ["--helpfull"], ["--version"]):
        code = (
            "import sys; from bert_keras.commands import run_squad; "
            "run_squad.cli(); assert 'tensorflow' not in sys.modules"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        if words == ["--version"]:
            assert done.stdout == f"bert-keras {bert_keras.__version__}\n"
        else:
            assert "--n_best_size" in done.stdout
        assert ("--stderrthreshold" in done.stdout) == (words == ["--helpfull"])
    assert os.times().children_user - before < 4  # each takes 0.2 s


def test_all_that_is_missing_is_said_at_once() -> None:
    assert fails_with("create_pretraining_data.py", "--input_file=x") == (
        "create_pretraining_data.py: --output_file and --vocab_file are "
        "missing; --help tells what each flag means"
    )
    assert "--output_dir is missing; --help" in fails_with("run_classifier.py")
    assert "--output_dir is empty; name a folder, or ." in fails_with(
        "run_classifier.py", "--output_dir="
    )


@pytest.mark.parametrize("name", reference.COMMANDS)
def test_a_page_has_each_flag_once(name: str) -> None:
    page = reference.command_page(name)
    assert page.startswith(f"# {name}\n\n")
    rows = re.findall(r"^\| `--(?:\[no\])?(\w+)` \|", page, re.MULTILINE)
    assert Counter(rows) == {flag.name: 1 for flag in command(name).flags.table}
    cells = [
        re.split(r"(?<!\\)\|", x) for x in page.splitlines() if x[:1] == "|"
    ]
    assert {len(row) for row in cells} == {5}


def test_a_page_is_read() -> None:
    page = reference.command_page("run_pretraining")
    assert "run_pretraining --input_file=FILE --output_dir=DIR [flags]" in page
    assert (
        "| `--eval_batch_size` | `8` | Number of records per evaluation step, "
        "over all devices. At least 1. |"
    ) in page
    assert "Requires `--use_tpu`." in page
    assert "## Kept for compatibility, no effect\n" in page
