"""Arguments in sentences, and the flags that a command shows for them."""

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
        ("`init_checkpoint's contents` is", "--init_checkpoint's contents is"),
        ("`output_dir=/a b/c`: full", "--output_dir=/a b/c: full"),
        # not arguments
        ("the label '`'", "the label '`'"),
        ("`Two words`", "`Two words`"),
    ],
)
def test_what_a_command_shows(sentence: str, shown: str) -> None:
    errors.show_flags()
    assert errors.with_flags(sentence) == shown
