"""Arguments in sentences, and the flags that a command shows for them."""

import os
import pty
import sys

import pytest

from bert_keras import errors


def test_a_program_reads_arguments_and_a_command_shows_flags() -> None:
    sentence = "give `init_checkpoint`, or lower `seed=3`"
    assert errors.with_flags(sentence) == sentence
    errors.show_flags()
    shown = "give --init_checkpoint, or lower --seed=3"
    assert errors.with_flags(sentence) == shown


def test_a_sentence_commands_no_terminal() -> None:
    error = errors.InputError("a\x1b[2J\x07\rb\u202e\nc\u3000d")
    assert str(error) == "a\\x1b[2J\\x07\\rb\\u202e\nc\u3000d"


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("`has_header=False`", "--nohas_header"),
        ("`do_lower_case=True`", "--do_lower_case"),
        (
            "`bert_config_file's hidden_act` is",
            "--bert_config_file's hidden_act is",
        ),
        ("`output_dir=/a b/c`: full", "--output_dir=/a b/c: full"),
        # not arguments
        ("the label '`'", "the label '`'"),
        ("`Two words`", "`Two words`"),
    ],
)
def test_what_a_command_shows(sentence: str, shown: str) -> None:
    errors.show_flags()
    assert errors.with_flags(sentence) == shown


def test_a_warning_is_wrapped_in_a_terminal_and_one_line_in_a_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = "/data/" + "long-name" * 12  # is copied: it stays whole
    sentence = f"{'one of many words ' * 8}in {path}: {'a reason ' * 12}"
    errors.warn(sentence)
    logged = capfd.readouterr().err
    assert logged == f"WARNING: {' '.join(sentence.split())}\n"

    main, side = pty.openpty()
    with open(side, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        errors.warn(sentence)
        shown = os.read(main, 4096).decode()
    os.close(main)
    lines = shown.splitlines()
    assert path in [line.strip(" :") for line in lines]
    assert max(len(x) for x in lines if path not in x) <= 100
    assert " ".join(shown.split()) == logged.strip()
